"""Who was in a group, from when to when, and what it committed: the tables `member_lives` and `commits`."""

from collections.abc import Iterator
from typing import Any

from regroup.coordinator import events as e
from regroup.coordinator.group import Group, Member, MemberId, Offsets, Written
from regroup.pipeline.gold.transition import Moment, Row


class Lives:
    """Watches the members of one group."""

    def __init__(self) -> None:
        self._open: dict[MemberId, dict[str, Any]] = {}

    def begins_with(self, group: Group) -> None:
        """The history before this moment is gone; the members' own words tell when they came."""
        for member in group.members.values():
            self._open[member.member_id] = life(member, member.joined_at_ms, None)

    def sees(self, moment: Moment) -> Iterator[Row]:
        event = moment.event
        match event:
            case e.MemberJoined():
                self._open[event.member] = life(moment.after.members[event.member], moment.at_ms, None)
            case e.StaticMemberReplaced():
                yield from self._end(event.replaces, moment.at_ms, "replaced", event.reason)
                self._open[event.member] = life(moment.after.members[event.member], moment.at_ms, event.replaces)
            case e.GenerationStarted():
                for name in moment.after.members:
                    self._open[name]["generations"] += 1
            case e.MemberLeft():
                yield from self._end(event.member, moment.at_ms, "left", event.reason)
            case e.MemberExpelled():
                heard = {"last_heard_ms": event.last_heard_ms, "timeout_ms": event.timeout_ms}
                yield from self._end(event.member, moment.at_ms, "expelled", event.reason, **heard)
            case e.CoordinatorLoaded() | e.GroupDeleted() | e.AppendRefused():
                yield from self._after_a_loss(moment)

    def ends(self) -> Iterator[Row]:
        for row in self._open.values():
            yield "member_lives", row

    def _after_a_loss(self, moment: Moment) -> Iterator[Row]:
        """The group has become what was stored: some are forgotten, and an older process may be back in its place."""
        for name in [name for name in self._open if name not in moment.after.members]:
            yield from self._end(name, moment.at_ms, "forgotten", "the coordinator no longer knew it")
        for name, member in moment.after.members.items():
            if name not in self._open:
                self._open[name] = life(member, moment.at_ms, None)

    def _end(self, name: MemberId, at_ms: int, end: str, reason: str, **more: int | None) -> Iterator[Row]:
        row = self._open.pop(name, None)
        if row is not None:
            yield "member_lives", row | {"to_ms": at_ms, "end": end, "reason": reason} | more


def life(member: Member, from_ms: int, replaces: MemberId | None) -> dict[str, Any]:
    return {
        "member": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "session_timeout_ms": member.session_timeout_ms,
        "replaces": replaces,
        "from_ms": from_ms,
        "end": "open",
        "generations": 0,
    }


class Commits:
    """Watches the offsets of one group."""

    def sees(self, moment: Moment) -> Iterator[Row]:
        event = moment.event
        match event:
            case e.OffsetsCommitted():
                yield from committed(moment, event.offsets, event.member, "plain")
            case e.AppendCommitted():
                append = moment.before.appends[event.append]
                if append.what is Written.OFFSETS:
                    yield from committed(moment, append.offsets, "", "late")
            case e.TransactionEnded(committed=True):
                pending = moment.before.pending_offsets.get(event.producer_id, {})
                offsets = {
                    topic: {number: each.offset for number, each in partitions.items() if not each.overtaken}
                    for topic, partitions in pending.items()
                }
                yield from committed(moment, offsets, "", "transaction")

    def ends(self) -> Iterator[Row]:
        return iter(())


def committed(moment: Moment, offsets: Offsets, member: MemberId, kind: str) -> Iterator[Row]:
    for topic, partitions in offsets.items():
        known = moment.before.offsets.get(topic, {})
        for number, each in partitions.items():
            previous = known[number].offset if number in known else None
            yield (
                "commits",
                {
                    "position": moment.record.position,
                    "reign": moment.record.reign,
                    "at_ms": moment.at_ms,
                    "member": member or None,
                    "topic": topic,
                    "partition": number,
                    "offset": each.offset,
                    "previous_offset": previous,
                    "reprocessed": max(0, previous - each.offset) if previous is not None else 0,
                    "kind": kind,
                },
            )
