"""Every rebalance of a group, from what set it off to who had what in the end: the table `rebalances`."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from regroup.coordinator import events as e
from regroup.coordinator.group import Group
from regroup.pipeline.gold.ownership import Holdings
from regroup.pipeline.gold.transition import Moment, Row, identity, partitions_in

TRIGGERS: Final[dict[type[e.Event], str]] = {
    e.MemberJoined: "joined",
    e.MemberRejoined: "rejoined",
    e.MemberLeft: "left",
    e.MemberExpelled: "expelled",
    e.StaticMemberReplaced: "replaced",
    e.CoordinatorLoaded: "loaded",
    e.AppendRefused: "append-refused",
}
"""What can set a rebalance off: the last of these before it within the same command."""


class Rebalances:
    """Watches one group, beside its holdings, which must see each moment afterwards."""

    def __init__(self, holdings: Holdings) -> None:
        self._holdings = holdings
        self._open: dict[str, Any] | None = None
        self._came_and_went: Counter[str] = Counter()
        self._in_command: Counter[str] = Counter()
        self._last_trigger: e.Event | None = None
        self._members_before = 0

    def sees(self, moment: Moment) -> Iterator[Row]:
        if moment.begins_command:
            self._begin_command(moment.before)
        event = moment.event
        if type(event) in TRIGGERS:
            self._last_trigger = event
            self._in_command[TRIGGERS[type(event)]] += 1
        match event:
            case e.RebalanceStarted():
                yield from self._close("superseded", with_command=False)
                self._open = self._row(moment, event)
            case e.GenerationStarted() if self._open:
                self._open |= {
                    "join_end_ms": moment.at_ms,
                    "generation": event.generation,
                    "leader": event.leader,
                    "protocol": event.protocol_name,
                    "members_after": len(moment.after.members),
                }
            case e.GroupEmptied() if self._open:
                self._open |= {"join_end_ms": moment.at_ms, "generation": event.generation, "members_after": 0}
                yield from self._close("emptied")
            case e.AssignmentCommitted() if self._open:
                self._open |= {"sync_end_ms": moment.at_ms, **self._moves(moment.after)}
                yield from self._close("completed")
            case e.CoordinatorLoaded() | e.GroupDeleted():
                yield from self._close("lost")

    def ends(self) -> Iterator[Row]:
        yield from self._close("running")

    def _begin_command(self, before: Group) -> None:
        if self._in_command:
            self._came_and_went += self._in_command
            self._in_command.clear()
        self._last_trigger = None
        self._members_before = len(before.members)

    def _row(self, moment: Moment, event: e.RebalanceStarted) -> dict[str, Any]:
        cause = self._last_trigger
        self._holdings.trigger = TRIGGERS[type(cause)] if cause else "other"
        last_heard_ms = cause.last_heard_ms if isinstance(cause, e.MemberExpelled) else None
        return {
            "reign": moment.record.reign,
            "position": moment.record.position,
            "trigger": self._holdings.trigger,
            "trigger_member": getattr(cause, "member", None),
            "reason": event.reason,
            "cause": moment.record.cause.decode() if moment.record.cause else None,
            "initial": event.initial,
            "silence_ms": None if last_heard_ms is None else moment.at_ms - last_heard_ms,
            "started_ms": moment.at_ms,
            "members_before": self._members_before,
        }

    def _close(self, outcome: str, *, with_command: bool = True) -> Iterator[Row]:
        """`with_command`: what the present command did belongs to this rebalance, not to the one that it sets off."""
        counts = self._came_and_went + self._in_command if with_command else self._came_and_went
        if self._open is not None:
            came_and_went = {each: counts[each] for each in ("joined", "left", "expelled", "replaced")}
            yield "rebalances", self._open | {"outcome": outcome} | came_and_went
            self._open = None
            self._came_and_went = Counter()
            if with_command:
                self._in_command.clear()

    def _moves(self, group: Group) -> dict[str, int]:
        """What became of each partition, beside who held it last."""
        moves = dict.fromkeys(("partitions", "moved", "kept", "given_up_for_nothing", "new"), 0)
        for name, member in group.members.items():
            for partition in partitions_in(member.assignment):
                last = self._holdings.last_owner.get(partition)
                moves["partitions"] += 1
                if last is None:
                    moves["new"] += 1
                elif last != identity(member, name):
                    moves["moved"] += 1
                elif self._holdings.holds(name, partition):
                    moves["kept"] += 1
                else:
                    moves["given_up_for_nothing"] += 1
        return moves
