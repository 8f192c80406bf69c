"""A group's history as a Mermaid sequence diagram: members, coordinator, and the requests between them.

Requests that led to an event are drawn, with the responses that the coordinator held for them; and where exchanges were
recorded, those that were refused, lost or late.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from heapq import merge
from typing import Final, NamedTuple

from regroup.classroom.incidents import Incident, IncidentKind
from regroup.classroom.pictures.part import PictureLimits, PicturePart, readable_part
from regroup.classroom.points import PositionRange
from regroup.classroom.sentences import sentence_of
from regroup.classroom.timeline import GroupTimeline, HeldRequest, TimelineMoment
from regroup.classroom.wording import not_recorded_text, partitions_text, without_control_characters
from regroup.coordinator import events as e
from regroup.coordinator.consumer import events as ce
from regroup.coordinator.group import AwaitedResponse, MemberId
from regroup.server.explanation.sentences import duration_text

MERMAID_LIMITS: Final = PictureLimits(members=10, times=60)
COORDINATOR: Final = "C"
NOTED: Final = (
    e.RebalanceStarted,
    e.MemberRemoved,
    e.StaticMemberReplaced,
    e.GroupEmptied,
    e.CoordinatorLoaded,
    e.AssignmentWritten,
    e.LeaderElected,
    e.AppendFailed,
    e.GroupDeleted,
    e.GenerationRaised,
    ce.GroupEpochBumped,
    ce.TargetAssigned,
    ce.StaticMemberAway,
    ce.StaticConsumerReplaced,
)
"""Events with a note beside the coordinator."""
_MARKUP: Final = re.compile(r"[^\w .,()+/=':-]|:(?! )")


def mermaid_picture(timeline: GroupTimeline, within: PositionRange | None = None) -> str:
    """The text of a Mermaid diagram of a part of the history. Raises Unreadable for too many members or events."""
    part = readable_part(timeline, within or timeline.positions, MERMAID_LIMITS)
    return "\n".join(MermaidPicture(part).lines()) + "\n"


def mermaid_text(text: str) -> str:
    """Text without markup of Mermaid or HTML: other characters than those of plain words become entities by number."""
    return _MARKUP.sub(lambda found: f"#{ord(found[0])};", without_control_characters(text))


class Step(NamedTuple):
    """The lines of one event or one incident. `at_ms` is epoch milliseconds."""

    at_ms: int
    position: int | None
    """None for an incident."""
    lines: list[str]


def _incident_lines(incident: Incident, member: str) -> Iterator[str]:
    """Yield the lines for an incident.

    A lost message is an arrow with a cross (`--x`), a late one an arrow with an open head (`--)`), a refusal a request
    and a response.
    """
    api, times = incident.api, f", {incident.count} times" if incident.count > 1 else ""
    why = mermaid_text(f" - {incident.reason}" if incident.reason else "")
    match incident.kind:
        case IncidentKind.REFUSED:
            yield f"    {member}->>{COORDINATOR}: {api}{times}"
            yield f"    {COORDINATOR}-->>{member}: {mermaid_text(incident.error)}"
        case IncidentKind.REQUEST_LOST:
            yield f"    {member}--x{COORDINATOR}: {api} lost{times}{why}"
        case IncidentKind.RESPONSE_LOST:
            yield f"    {COORDINATOR}--x{member}: response to {api} lost{times}{why}"
        case IncidentKind.CLOSED:
            yield f"    {COORDINATOR}--x{member}: no response to {api}{times}{why}"
        case IncidentKind.LATE:
            took = duration_text(incident.ended_ms - incident.at_ms)
            yield f"    {member}--){COORDINATOR}: {api} and its response took {took}{times}{why}"
        case _:
            yield f"    Note over {member}: {mermaid_text(incident.text)}"


def _leaving_api(moment: TimelineMoment) -> str:
    """The API with which a member left: LeaveGroup, or ConsumerGroupHeartbeat in the consumer protocol."""
    return moment.cause.api if moment.cause is not None and moment.cause.api else "LeaveGroup"


class MermaidPicture:
    """Writes the lines of a Mermaid diagram of one part of a timeline, event by event."""

    def __init__(self, part: PicturePart) -> None:
        self._part, self._names = part, part.names
        members = dict.fromkeys(lane.member_id for lane in part.lanes)
        self._ids = {member_id: f"M{number}" for number, member_id in enumerate(members, start=1)}
        self._begins: dict[int, list[HeldRequest]] = defaultdict(list)
        self._ends: dict[int, list[HeldRequest]] = defaultdict(list)
        held = [each for each in part.held_requests if isinstance(each.response, AwaitedResponse)]
        for each in held:
            self._begins[each.began.position].append(each)
            if each.ended is not None:
                self._ends[each.ended.position].append(each)
        self._active: set[MemberId] = set()
        self._incidents = [
            (incident, self._ids[lane.member_id])
            for lane, incidents in part.incidents_by_lane.items()
            for incident in incidents
        ]
        self._incidents.sort(key=lambda each: each[0].at_ms)

    def lines(self) -> Iterator[str]:
        group = mermaid_text(self._part.timeline.group_id)
        yield "sequenceDiagram"
        yield f"    accTitle: Group {group}"
        for member_id, short in self._ids.items():
            yield f"    participant {short} as {mermaid_text(self._names[member_id])}"
        yield f"    participant {COORDINATOR} as coordinator of {group}"
        steps = merge(self._steps_of_events(), self._steps_of_incidents(), key=lambda step: step.at_ms)
        before_ms = None
        for step in steps:
            if step.at_ms != before_ms:
                event = "" if step.position is None else f", event {step.position}"
                yield f"    Note right of {COORDINATOR}: {self._part.since_began(step.at_ms)} s{event}"
                before_ms = step.at_ms
            yield from step.lines
        yield from (f"    deactivate {self._ids[each]}" for each in sorted(self._active))
        if missing := not_recorded_text(self._part.timeline.recorded.missing):
            yield f"    Note over {COORDINATOR}: {mermaid_text(missing)}"

    def _steps_of_events(self) -> Iterator[Step]:
        for moment in self._part.moments:
            if lines := list(self._moment(moment)):
                yield Step(moment.at_ms, moment.position, lines)

    def _steps_of_incidents(self) -> Iterator[Step]:
        for incident, member in self._incidents:
            yield Step(incident.at_ms, None, list(_incident_lines(incident, member)))

    def _moment(self, moment: TimelineMoment) -> Iterator[str]:
        """Yield the lines for an event: requests that led to it, a note, and the held responses that it released."""
        event = moment.event
        if isinstance(event, e.MemberLeft):
            yield f"    {self._ids[event.member_id]}->>{COORDINATOR}: {_leaving_api(moment)}"
        for each in self._begins[moment.position]:
            api = "JoinGroup" if each.response is AwaitedResponse.JOIN else "SyncGroup"
            yield f"    {self._ids[each.member_id]}->>{COORDINATOR}: {api}"
            if each.ended != each.began:
                yield f"    activate {self._ids[each.member_id]}"
                self._active.add(each.member_id)
        if isinstance(event, NOTED):
            yield f"    Note over {COORDINATOR}: {mermaid_text(sentence_of(moment, self._names))}"
        elif isinstance(event, e.GenerationStarted):
            over = f"{next(iter(self._ids.values()))},{COORDINATOR}"
            yield f"    Note over {over}: {mermaid_text(sentence_of(moment, self._names))}"
        elif isinstance(event, ce.MemberReconciled):
            yield from self._reconciled(event, moment)
        for each in self._ends[moment.position]:
            yield from self._end(each, moment)

    def _reconciled(self, event: ce.MemberReconciled, moment: TimelineMoment) -> Iterator[str]:
        """Yield the lines for a heartbeat of the consumer protocol that changed the member's reconciliation."""
        short = self._ids[event.member_id]
        spans = self._part.timeline.ownership_at(moment.position)
        given = partitions_text(
            each.partition for each in spans if event.member_id in each.owners and event.member_id not in each.revoking
        )
        yield f"    {short}->>{COORDINATOR}: ConsumerGroupHeartbeat"
        yield f"    {COORDINATOR}-->>{short}: {mermaid_text(f'epoch {event.epoch}, {given}')}"

    def _end(self, request: HeldRequest, moment: TimelineMoment) -> Iterator[str]:
        short = self._ids[request.member_id]
        if response := self._response(request, moment):
            yield f"    {COORDINATOR}-->>{short}: {mermaid_text(response)}"
        if request.member_id in self._active:
            self._active.discard(request.member_id)
            yield f"    deactivate {short}"

    def _response(self, request: HeldRequest, moment: TimelineMoment) -> str:
        """The words for the response to a held request; empty if there was none, as when the member was removed."""
        if isinstance(moment.event, e.GenerationStarted):
            leads = " as leader" if request.member_id == moment.leader_id else ""
            return f"generation {moment.generation_id}{leads}"
        if isinstance(moment.event, e.AssignmentCommitted | e.MemberSynced):
            spans = self._part.timeline.ownership_at(moment.position)
            return partitions_text(each.partition for each in spans if request.member_id in each.assigned_to)
        if isinstance(moment.event, e.RebalanceStarted):
            return "REBALANCE_IN_PROGRESS"
        return ""
