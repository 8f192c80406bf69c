"""A timeline as one JSON document for the page: columns of numbers, with each string once.

document = page_document(timeline)                   the whole history
document = page_document(timeline, after=120)        what has changed since position 120, for a page that has the rest

Positions of spans are those of events in the store. A document with `after` has the later moments, and the spans that
had not ended at that position; the page replaces its open spans by these. Lanes, and what was recorded beside the
events, are always whole.

A sentence is a pattern, which stands in the document once in each language, and its names and numbers: so a page
has all languages, and is no larger than with one.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

import msgspec

from regroup.classroom.kinds import AWAITED_NAMES, READERS, reconciliation_of
from regroup.classroom.page.columns import (
    OPEN,
    PatternTable,
    PhraseTable,
    PointTable,
    SpanColumns,
    StringTable,
    differences,
)
from regroup.classroom.page.event_json import EventTexts
from regroup.classroom.page.recordings import (
    Instant,
    exchange_columns,
    log_end_columns,
    recorded_facts,
    repeated_read_columns,
    session_spans,
)
from regroup.classroom.page.totals import totals_of
from regroup.classroom.phrases.known_texts import FOLLOWS, known_text
from regroup.classroom.points import Point
from regroup.classroom.recorded.messages import ExchangeMessages
from regroup.classroom.sentences import cause_phrase, whole_sentence
from regroup.classroom.timeline import (
    ArmedDeadline,
    GenerationSpan,
    GroupTimeline,
    HeldRequest,
    Lane,
    PartitionSpan,
    Rebalance,
    StateSpan,
    TimelineMoment,
)
from regroup.classroom.wording import MemberNames
from regroup.coordinator.group import GroupKind, MemberId

FORMAT: Final = 2
"""Version of the document; the page refuses another one."""
AWAY: Final = "away"
"""Stands for the state of a static member that has left and is expected to return."""
NO_MESSAGES: Final[Mapping[int, ExchangeMessages]] = {}
Span = TypeVar("Span", GenerationSpan, HeldRequest, PartitionSpan, Rebalance, StateSpan)


def page_document(
    timeline: GroupTimeline, *, after: int = 0, messages: Mapping[int, ExchangeMessages] = NO_MESSAGES
) -> dict[str, Any]:
    """The document of a timeline as plain values, with what has changed after the position `after`.

    `messages` are the decoded messages of exchanges, by the exchanges' numbers.
    """
    return DocumentWriter(timeline, after, messages).document()


def encoded_document(
    timeline: GroupTimeline, *, after: int = 0, messages: Mapping[int, ExchangeMessages] = NO_MESSAGES
) -> bytes:
    """The document of `page_document` as JSON."""
    return msgspec.json.encode(page_document(timeline, after=after, messages=messages))


class DocumentWriter:
    """Writes one document, part by part."""

    def __init__(self, timeline: GroupTimeline, after: int, messages: Mapping[int, ExchangeMessages]) -> None:
        self._timeline, self._after, self._messages = timeline, after, messages
        self._moments = [moment for moment in timeline.moments if moment.position > after]
        self._strings = StringTable()
        self._patterns = PatternTable(self._strings)
        self._phrases = PhraseTable(self._patterns)
        self._points = PointTable(moment.position for moment in timeline.moments)
        self._texts = EventTexts([lane.member_id for lane in timeline.lanes], self._strings, timeline.topic_names)

    def document(self) -> dict[str, Any]:
        """All parts of the document; the tables of strings and points come last, since the other parts fill them."""
        timeline = self._timeline
        parts = {
            "format": FORMAT,
            "group": timeline.group_id,
            "protocolType": timeline.protocol_type,
            "after": self._after,
            "began": timeline.began,
            "last": timeline.last,
            "trimmed": timeline.is_trimmed,
            "kind": timeline.kind,
            "stateMachine": state_machine(timeline.kind),
            "recorded": recorded_facts(timeline),
            "exchanges": exchange_columns(timeline.exchanges, self._strings, self._phrases, self._messages),
            "views": self._views(),
            "sessions": self._sessions(),
            "totals": totals_of(timeline),
            "moments": self._moment_columns(),
            "lanes": self._lanes(timeline.lanes),
            "held": self._held(self._changed(timeline.held_requests)),
            "states": self._states(self._changed(timeline.states)),
            "generations": self._generations(self._changed(timeline.generations)),
            "rebalances": self._rebalances(self._changed(timeline.rebalances)),
            "deadlines": self._deadlines(),
            "steps": self._steps(),
            "ownership": self._ownership(),
            "offsets": self._offsets(),
            "logEnds": log_end_columns(timeline, self._strings),
            "reads": repeated_read_columns(timeline, self._strings),
        }
        return parts | {
            "phrases": self._phrases.phrases(),
            "patterns": self._patterns.patterns(),
            "strings": self._strings.strings(),
            "points": self._points.further(),
        }

    def _changed(self, spans: Iterable[Span]) -> Iterator[Span]:
        """Yield the spans that had not ended at the position `after`, or began later: the page has the others."""
        return (each for each in spans if each.ended is None or each.ended.position > self._after)

    def _moment_columns(self) -> dict[str, Any]:
        moments, string, names = self._moments, self._strings, MemberNames(self._timeline.names_of_ids)
        sentences = [self._patterns(whole_sentence(moment, names)) for moment in moments]
        return {
            "position": list(differences(moment.position for moment in moments)),
            "at": list(differences(moment.at_ms for moment in moments)),
            "number": list(differences(moment.event_number for moment in moments)),
            "epoch": [moment.coordinator_epoch for moment in moments],
            "type": [string(moment.type) for moment in moments],
            "state": [string(moment.state) for moment in moments],
            "generation": [moment.generation_id for moment in moments],
            "leader": [string(moment.leader_id) for moment in moments],
            "sentence": [number for number, *_ in sentences],
            "values": [value for _, *values in sentences for value in values],
            "event": [self._texts.event(moment) for moment in moments],
            "cause": [string(self._texts.cause(moment)) for moment in moments],
            "causeText": [self._phrases(cause_phrase(each.cause) if each.cause else "") for each in moments],
            "deadline": [string(moment.cause.deadline if moment.cause else "") for moment in moments],
        }

    def _lanes(self, lanes: Iterable[Lane]) -> dict[str, list[int]]:
        """The columns of all lanes, also old ones: a lane's name changes if a member with the same client id joins."""
        string, spans = self._strings, SpanColumns(self._points)
        columns: dict[str, list[int]] = {
            each: []
            for each in ("member", "name", "client", "host", "instance", "session", "begunBy", "endedBy", "replaces")
        }
        for lane in lanes:
            spans.add(lane.began, lane.ended)
            columns["member"].append(string(lane.member_id))
            columns["name"].append(string(lane.name))
            columns["client"].append(string(lane.client_id))
            columns["host"].append(string(lane.client_host))
            columns["instance"].append(string(lane.instance_id))
            columns["session"].append(lane.session_timeout_ms)
            columns["begunBy"].append(string(lane.began_by))
            columns["endedBy"].append(string(lane.ended_by))
            columns["replaces"].append(string(lane.replaces))
        return columns | {"began": spans.began, "length": spans.length}

    def _held(self, requests: Iterable[HeldRequest]) -> dict[str, list[int]]:
        spans, member, api = SpanColumns(self._points), [], []
        for each in requests:
            spans.add(each.began, each.ended)
            member.append(self._strings(each.member_id))
            api.append(self._strings(AWAITED_NAMES[each.response]))
        return {"member": member, "api": api, "began": spans.began, "length": spans.length}

    def _states(self, states: Iterable[StateSpan]) -> dict[str, list[int]]:
        spans, state = SpanColumns(self._points), []
        for each in states:
            spans.add(each.began, each.ended)
            state.append(self._strings(each.state))
        return {"state": state, "began": spans.began, "length": spans.length}

    def _generations(self, generations: Iterable[GenerationSpan]) -> dict[str, Any]:
        spans, numbers, leaders, protocols, members, assigned = SpanColumns(self._points), [], [], [], [], []
        for each in generations:
            spans.add(each.began, each.ended)
            numbers.append(each.generation_id)
            leaders.append(self._strings(each.leader_id))
            protocols.append(self._strings(each.protocol_name))
            members.append(len(each.members))
            assigned.append(self._points(each.assigned) if each.assigned else None)
        return {
            "number": numbers,
            "leader": leaders,
            "protocol": protocols,
            "members": members,
            "assigned": assigned,
            "began": spans.began,
            "length": spans.length,
        }

    def _rebalances(self, rebalances: Iterable[Rebalance]) -> dict[str, list[int]]:
        spans, ended_by = SpanColumns(self._points), []
        for each in rebalances:
            spans.add(each.began, each.ended)
            ended_by.append(self._strings(each.ended_by))
        return {"endedBy": ended_by, "began": spans.began, "length": spans.length}

    def _deadlines(self) -> dict[str, list[int]]:
        spans = SpanColumns(self._points)
        columns: dict[str, list[int]] = {"kind": [], "at": [], "member": [], "follows": []}
        for armed, began, ended in armed_spans(self._timeline.moments):
            if ended is None or ended.position > self._after:
                spans.add(began, ended)
                columns["kind"].append(self._strings(armed.kind))
                columns["at"].append(armed.at_ms)
                columns["member"].append(self._strings(armed.member_id))
                columns["follows"].append(self._phrases(known_text(armed.follows, FOLLOWS)))
        return columns | {"began": spans.began, "length": spans.length}

    def _steps(self) -> dict[str, list[int]]:
        """The columns of the changes of state and epoch of the consumer protocol's members, in the whole history."""
        columns: dict[str, list[int]] = {"member": [], "position": [], "state": [], "epoch": []}
        for member_id, session in self._timeline.sessions.items():
            before: tuple[str, int] | None = None
            for position, member in session.changes:
                step = reconciliation_of(member)
                now = (AWAY if step.is_away else step.state.name, step.epoch) if step else None
                if now is not None and now != before:
                    columns["member"].append(self._strings(member_id))
                    columns["position"].append(position)
                    columns["state"].append(self._strings(now[0]))
                    columns["epoch"].append(now[1])
                before = now
        return columns

    def _ownership(self) -> dict[str, Any]:
        """The columns of the changed spans of all partitions, those of one partition after those of the other.

        `rows` has the topic, the number and the count of spans of each partition.
        """
        spans, assigned, owners, revoking, rows = SpanColumns(self._points), [], [], [], []
        sets: dict[tuple[MemberId, ...], int] = {}
        for partition, of_partition in self._timeline.ownership.items():
            changed = list(self._changed(of_partition))
            if changed:
                rows.append((self._strings(partition.topic), partition.partition, len(changed)))
            for each in changed:
                spans.add(each.began, each.ended)
                assigned.append(sets.setdefault(each.assigned_to, len(sets)))
                owners.append(sets.setdefault(each.owners, len(sets)))
                revoking.append(sets.setdefault(each.revoking, len(sets)) if each.revoking else OPEN)
        return {
            "rows": rows,
            "sets": [[self._strings(member_id) for member_id in each] for each in sets],
            "assigned": assigned,
            "owners": owners,
            "revoking": revoking if any(each != OPEN for each in revoking) else [],
            "began": spans.began,
            "length": spans.length,
        }

    def _views(self) -> dict[str, Any]:
        """The columns of what simulated members believed they owned, in the whole history."""
        began, ended, members, partitions = list[Instant](), list[Instant | None](), [], []
        for each in self._timeline.views:
            began.append(Instant(each.began.at_ms, each.began.position))
            ended.append(each.ended and Instant(each.ended.at_ms, each.ended.position))
            members.append(self._strings(each.member_id))
            partitions.append([(self._strings(owned.topic), owned.partition) for owned in each.partitions])
        return {"member": members, "partitions": partitions, "from": began, "until": ended}

    def _sessions(self) -> dict[str, Any] | None:
        """The columns of members' session deadlines; None without recorded exchanges, or if they are too many."""
        found = session_spans(self._timeline)
        if found is None:
            return None
        return {
            "member": [self._strings(each.member_id) for each in found],
            "from": [each.began for each in found],
            "until": [each.ended for each in found],
            "at": [each.deadline.at_ms if each.deadline else None for each in found],
            "kind": [self._strings(each.deadline.kind if each.deadline else None) for each in found],
            "follows": [
                self._phrases(known_text(each.deadline.follows, FOLLOWS) if each.deadline else None) for each in found
            ],
            "uncertain": [each.deadline.uncertain_ms if each.deadline else 0 for each in found],
        }

    def _offsets(self) -> dict[str, Any]:
        rows: list[tuple[int, int, int]] = []
        positions: list[int] = []
        offsets: list[int | None] = []
        for partition, steps in self._timeline.offsets.items():
            later = [step for step in steps if step.began.position > self._after]
            if later:
                rows.append((self._strings(partition.topic), partition.partition, len(later)))
                positions += differences(self._points(step.began) for step in later)
                offsets += [step.offset for step in later]
        return {"rows": rows, "position": positions, "offset": offsets}


def state_machine(kind: GroupKind) -> dict[str, Any]:
    """The states of a group of this kind and the transitions between them, from the coordinator's table."""
    reader = READERS[kind]
    return {
        "states": list(reader.states),
        "transitions": [
            (before, after)
            for before in reader.transitions
            for after in reader.states
            if after in reader.transitions[before]
        ],
    }


def armed_spans(moments: Iterable[TimelineMoment]) -> Iterator[tuple[ArmedDeadline, Point, Point | None]]:
    """Yield each deadline, the point at which it was armed, and that from which it no longer ran, or None.

    They come in the order in which they ended; those that still run come last.
    """
    running: dict[ArmedDeadline, Point] = {}
    before: tuple[ArmedDeadline, ...] = ()
    for moment in moments:
        if moment.deadlines == before:
            continue
        for each in [each for each in running if each not in set(moment.deadlines)]:
            yield each, running.pop(each), moment.point
        for each in moment.deadlines:
            running.setdefault(each, moment.point)
        before = moment.deadlines
    for each, began in running.items():
        yield each, began, None
