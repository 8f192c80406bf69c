"""What was recorded beside the events, for the document of the page: exchanges, and the sessions of members."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from regroup.classroom.incidents import MEMBER_APIS
from regroup.classroom.page.columns import PhraseTable, StringTable, differences
from regroup.classroom.page.event_json import readable_message
from regroup.classroom.phrases.known_texts import REASON, known_text
from regroup.classroom.recorded.messages import ExchangeMessages
from regroup.classroom.recorded.session_clocks import SessionClocks
from regroup.classroom.recorded_values import ExchangeFate, TimelineExchange
from regroup.classroom.timeline import ArmedDeadline, GroupTimeline
from regroup.coordinator.group import MemberId

MAX_SESSION_STEPS: Final = 200_000
"""Times at which a session may start again, multiplied by the members: of more, sessions are not shown."""

RULE_REASON: Final = "fault rule: "
HOLDING_EFFECTS: Final = frozenset({"hold", "delay"})
MAX_LOG_ENDS: Final = 20_000
"""Ends of logs in one document."""


class Instant(NamedTuple):
    """A time, and the position of the event after which it lies, since several events may have the same time."""

    at_ms: int
    position: int


class SessionSpan(NamedTuple):
    """A time during which the session deadline of a member was the same; without `deadline`, it is not known."""

    member_id: MemberId
    began: Instant
    ended: Instant | None
    """None if it runs at the end of the history."""
    deadline: ArmedDeadline | None


def recorded_facts(timeline: GroupTimeline) -> dict[str, Any]:
    """Which kinds of recordings the timeline has, as a boolean for each; `missing` names those that it lacks."""
    recorded = timeline.recorded
    return {
        "exchanges": recorded.exchanges,
        "network": recorded.network,
        "views": recorded.views,
        "reads": recorded.reads,
        "missing": list(recorded.missing),
    }


def exchange_columns(
    exchanges: Sequence[TimelineExchange],
    string: StringTable,
    phrases: PhraseTable,
    messages: Mapping[int, ExchangeMessages],
) -> dict[str, list[Any]]:
    """The exchanges as columns with one entry for each exchange.

    `at` has the time of the request, as the difference from the request before. `arrived`, `last`, `answered`,
    `closed`, `sent` and `received` are milliseconds after that request; None if it did not happen, or is not known.
    """
    return {
        "at": list(differences(each.at_ms for each in exchanges)),
        "arrived": [_since(each.arrived_at_ms, each) for each in exchanges],
        "last": [each.last_at_ms - each.at_ms for each in exchanges],
        "answered": [_since(each.answered_at_ms, each) for each in exchanges],
        "closed": [_since(each.closed_at_ms, each) for each in exchanges],
        "sent": [_since(each.sent_at_ms, each) for each in exchanges],
        "received": [_since(each.received_at_ms, each) for each in exchanges],
        "member": [string(each.member_id) for each in exchanges],
        "client": [string(each.client_id) for each in exchanges],
        "api": [string(each.api) for each in exchanges],
        "error": [string(each.error) for each in exchanges],
        "fate": [string(each.fate) for each in exchanges],
        "reason": [phrases(known_text(each.reason or each.error_message, REASON)) for each in exchanges],
        "held": [int(is_held_by_rule(each)) for each in exchanges],
        "count": [each.count for each in exchanges],
        "refused": [int(each.is_refused) for each in exchanges],
        "incident": [int(_is_incident(each)) for each in exchanges],
        "generation": [each.generation for each in exchanges],
        "events": [each.events for each in exchanges],
        "request": [_text(messages, each.number, "request") for each in exchanges] if messages else [],
        "response": [_text(messages, each.number, "response") for each in exchanges] if messages else [],
    }


def is_held_by_rule(exchange: TimelineExchange) -> bool:
    """Whether a fault rule holds or delays the request, or did so, before the coordinator handled it."""
    effects = exchange.reason.removeprefix(RULE_REASON).split(", ")
    return exchange.reason.startswith(RULE_REASON) and not HOLDING_EFFECTS.isdisjoint(effects)


def _is_incident(exchange: TimelineExchange) -> bool:
    """Whether the exchange is about membership or offsets, and was refused, lost, late or handled twice.

    Refused searches for the coordinator do not count: they may be refused until there is a coordinator.
    """
    is_answered = exchange.fate in (ExchangeFate.ANSWERED, ExchangeFate.UNANSWERED)
    return exchange.api in MEMBER_APIS and (exchange.is_refused or not is_answered)


def _since(at_ms: int | None, exchange: TimelineExchange) -> int | None:
    return None if at_ms is None else at_ms - exchange.at_ms


def _text(messages: Mapping[int, ExchangeMessages], number: int, side: str) -> str:
    """The decoded request or response (`side`) of the exchange with this number, as JSON; empty if there is none."""
    found = getattr(messages.get(number), side, None)
    return "" if found is None else msgspec.json.encode(readable_message(found)).decode()


def log_end_columns(timeline: GroupTimeline, string: StringTable) -> dict[str, Any]:
    """The ends of logs that were recorded, as columns: those of one partition after those of the other.

    `rows` has the topic, the number and the count of ends of each partition; `at` and `offset` have the times and the
    offsets of these ends, each as the difference from the one before. If the timeline has more than MAX_LOG_ENDS ends,
    only every n-th end of each partition is kept, and its last one; n is the smallest number with which about
    MAX_LOG_ENDS are left.
    """
    total = sum(map(len, timeline.log_ends.values()))
    every = -(-total // MAX_LOG_ENDS) or 1
    rows: list[tuple[int, int, int]] = []
    at, offsets = list[int](), list[int]()
    for partition, ends in timeline.log_ends.items():
        kept = [*ends[:-1:every], *ends[-1:]]
        rows.append((string(partition.topic), partition.partition, len(kept)))
        at += differences(end.at_ms for end in kept)
        offsets += differences(end.offset for end in kept)
    return {"rows": rows, "at": at, "offset": offsets}


def repeated_read_columns(timeline: GroupTimeline, string: StringTable) -> dict[str, Any]:
    """The records that members processed again, as columns: those of one partition after those of the other.

    `rows` has the topic, the number and the count of repeated reads of each partition; the other columns have one entry
    for each repeated read: its time, as the difference from the one before, the client id, the first offset and the
    number of records.
    """
    rows: list[tuple[int, int, int]] = []
    at, client, first, count = list[int](), list[int](), list[int](), list[int]()
    for partition, reads in timeline.repeated_reads.items():
        rows.append((string(partition.topic), partition.partition, len(reads)))
        at += differences(each.at_ms for each in reads)
        client += (string(each.client_id) for each in reads)
        first += (each.first for each in reads)
        count += (each.record_count for each in reads)
    return {"rows": rows, "at": at, "client": client, "first": first, "count": count}


def session_spans(timeline: GroupTimeline) -> list[SessionSpan] | None:
    """The session deadlines of all members over time, as far as requests were recorded.

    None if no exchanges were recorded, or if there are more than MAX_SESSION_STEPS times multiplied by members.
    """
    if not timeline.recorded.exchanges:
        return None
    seen = {at_ms for exchange in timeline.exchanges for at_ms in (exchange.at_ms, *exchange.seen_ms)}
    times = {Instant(moment.at_ms, moment.position) for moment in timeline.moments}
    times |= {Instant(at_ms, timeline.position_at(at_ms)) for at_ms in seen}
    if len(times) * max(1, len(timeline.sessions)) > MAX_SESSION_STEPS:
        return None
    clocks, running = SessionClocks(timeline), dict[MemberId, tuple[Instant, ArmedDeadline | None]]()
    found: list[SessionSpan] = []
    for instant in sorted(times):
        now = clocks.at(instant.position, instant.at_ms)
        present = {each.member_id: each for each in now.deadlines} | dict.fromkeys(now.not_recorded)
        for member_id in [each for each, (_, deadline) in running.items() if present.get(each, ()) != deadline]:
            began, deadline = running.pop(member_id)
            found.append(SessionSpan(member_id, began, instant, deadline))
        for member_id, armed in present.items():
            running.setdefault(member_id, (instant, armed))
    found += [SessionSpan(each, began, None, deadline) for each, (began, deadline) in running.items()]
    return sorted(found, key=lambda span: (span.member_id, span.began))
