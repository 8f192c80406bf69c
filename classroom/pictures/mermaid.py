"""A group's history as a Mermaid sequence diagram: members, coordinator, and the requests between them.

Only requests that led to an event are drawn, with the responses that the coordinator held for them.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from regroup.classroom.pictures.part import PictureLimits, PicturePart, readable_part
from regroup.classroom.sentences import sentence_of
from regroup.classroom.timeline import GroupTimeline, HeldRequest, PositionRange, TimelineMoment
from regroup.classroom.wording import not_recorded_text, partitions_text, without_control_characters
from regroup.coordinator import events as e
from regroup.coordinator.group import AwaitedResponse, MemberId

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
)
"""Events with a note beside the coordinator."""
_MARKUP: Final = re.compile(r"[^\w .,()+/=':-]|:(?! )")


def mermaid_picture(timeline: GroupTimeline, within: PositionRange | None = None) -> str:
    """The text of the diagram. Raises Unreadable for a part with too many members or events."""
    part = readable_part(timeline, within or timeline.positions, MERMAID_LIMITS)
    return "\n".join(MermaidPicture(part).lines()) + "\n"


def mermaid_text(text: str) -> str:
    """Text without markup of Mermaid or HTML: other characters than those of plain words become entities by number."""
    return _MARKUP.sub(lambda found: f"#{ord(found[0])};", without_control_characters(text))


class MermaidPicture:
    """Writes one part of a timeline, event by event."""

    def __init__(self, part: PicturePart) -> None:
        self._part, self._names = part, part.names
        members = dict.fromkeys(lane.member_id for lane in part.lanes)
        self._ids = {member_id: f"M{number}" for number, member_id in enumerate(members, start=1)}
        self._begins: dict[int, list[HeldRequest]] = defaultdict(list)
        self._ends: dict[int, list[HeldRequest]] = defaultdict(list)
        for each in part.held_requests:
            self._begins[each.began.position].append(each)
            if each.ended is not None:
                self._ends[each.ended.position].append(each)
        self._active: set[MemberId] = set()

    def lines(self) -> Iterator[str]:
        group = mermaid_text(self._part.timeline.group_id)
        yield "sequenceDiagram"
        yield f"    accTitle: Group {group}"
        for member_id, short in self._ids.items():
            yield f"    participant {short} as {mermaid_text(self._names[member_id])}"
        yield f"    participant {COORDINATOR} as coordinator of {group}"
        before_ms = None
        for moment in self._part.moments:
            lines = list(self._moment(moment))
            if lines and moment.at_ms != before_ms:
                since_s = (moment.at_ms - self._part.began_ms) / 1000
                yield f"    Note right of {COORDINATOR}: +{since_s:.3f} s, event {moment.position}"
                before_ms = moment.at_ms
            yield from lines
        yield from (f"    deactivate {self._ids[each]}" for each in sorted(self._active))
        if missing := not_recorded_text(self._part.timeline.recorded.missing):
            yield f"    Note over {COORDINATOR}: {mermaid_text(missing)}"

    def _moment(self, moment: TimelineMoment) -> Iterator[str]:
        """The requests that came with an event, the note about it, and the responses that it released."""
        event = moment.event
        if isinstance(event, e.MemberLeft):
            yield f"    {self._ids[event.member_id]}->>{COORDINATOR}: LeaveGroup"
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
        for each in self._ends[moment.position]:
            yield from self._end(each, moment)

    def _end(self, request: HeldRequest, moment: TimelineMoment) -> Iterator[str]:
        short = self._ids[request.member_id]
        if response := self._response(request, moment):
            yield f"    {COORDINATOR}-->>{short}: {mermaid_text(response)}"
        if request.member_id in self._active:
            self._active.discard(request.member_id)
            yield f"    deactivate {short}"

    def _response(self, request: HeldRequest, moment: TimelineMoment) -> str:
        """What the response says; empty if the event is no answer, as when a member was removed."""
        if isinstance(moment.event, e.GenerationStarted):
            leads = " as leader" if request.member_id == moment.leader_id else ""
            return f"generation {moment.generation_id}{leads}"
        if isinstance(moment.event, e.AssignmentCommitted | e.MemberSynced):
            spans = self._part.timeline.ownership_at(moment.position)
            return partitions_text(each.partition for each in spans if request.member_id in each.assigned_to)
        if isinstance(moment.event, e.RebalanceStarted):
            return "REBALANCE_IN_PROGRESS"
        return ""
