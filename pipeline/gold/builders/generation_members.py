"""Builds the table `generation_members`: each member of each generation, with its join, sync and assignment."""

from functools import lru_cache
from typing import Any, Final

from regroup.coordinator import events as e
from regroup.coordinator.consumer.migration.events import GroupUpgraded
from regroup.coordinator.group import AwaitedResponse, Group, Member, MemberId
from regroup.pipeline.gold.builders.table_builder import (
    TableBuilder,
    Transition,
    owned_partitions,
    partition_names,
    rack_of,
    subscribed_topics,
)
from regroup.pipeline.gold.folded_rows import FoldedRows
from regroup.protocol.consumer.subscription import assigned_partitions

FOLLOWED: Final = frozenset(
    {
        e.MemberJoined,
        e.MemberRejoined,
        e.StaticMemberReplaced,
        e.GenerationStarted,
        e.MemberSynced,
        e.AssignmentCommitted,
        e.GroupEmptied,
        e.GroupDeleted,
        e.CoordinatorLoaded,
        GroupUpgraded,
    }
)


class GenerationMembers(TableBuilder):
    """Builds the table `generation_members` for one group."""

    def __init__(self) -> None:
        self._joined_ms: dict[MemberId, int] = {}
        """By member id, when the member sent its last JoinGroup; without those that missed the latest join phase."""
        self._open: dict[MemberId, dict[str, Any]] = {}
        """The rows of the present generation, which are not complete yet, by member id."""
        self._generation: dict[str, Any] = {}
        """The columns that all rows of the present generation share."""

    def on_event(self, transition: Transition, rows: FoldedRows) -> None:
        event, after, at_ms = transition.event, transition.after, transition.at_ms
        if type(event) not in FOLLOWED:
            return
        match event:
            case e.MemberJoined() | e.MemberRejoined():
                self._joined_ms[event.member_id] = at_ms
            case e.StaticMemberReplaced():
                self._joined_ms[event.member_id] = at_ms
                if event.replaced_member_id in self._open and not event.awaits_join:
                    self._take_over(after, event.member_id, at_ms)
            case e.GenerationStarted():
                self._end_all(rows)
                self._begin(transition, event)
            case e.MemberSynced() if event.member_id in self._open:
                self._open[event.member_id].setdefault("synced_ms", at_ms)
            case e.AssignmentCommitted():
                for member_id in self._open.keys() & after.members.keys():
                    self._open[member_id] |= assignment_columns(after.members[member_id], at_ms)
            case e.GroupEmptied() | e.GroupDeleted() | e.CoordinatorLoaded() | GroupUpgraded():
                self._end_all(rows)
                self._joined_ms.clear()

    def on_end(self, rows: FoldedRows) -> None:
        self._end_all(rows)

    def _end_all(self, rows: FoldedRows) -> None:
        for row in self._open.values():
            rows.add("generation_members", row)
        self._open = {}

    def _begin(self, transition: Transition, event: e.GenerationStarted) -> None:
        self._generation = {
            "position": transition.record.position,
            "coordinator_epoch": transition.record.coordinator_epoch,
            "generation_id": event.generation_id,
            "started_ms": transition.at_ms,
        }
        # Each event that starts a generation clears what its members await, so the group before says who has joined.
        missed = {
            each.member_id for each in transition.before.members.values() if each.awaiting is not AwaitedResponse.JOIN
        }
        members = transition.after.members
        self._joined_ms = {
            each: at_ms for each, at_ms in self._joined_ms.items() if each in members and each not in missed
        }
        for member in members.values():
            columns = self._member_columns(member, event.leader_id)
            self._open[member.member_id] = self._generation | columns | {"missed": member.member_id in missed}

    def _take_over(self, group: Group, member_id: MemberId, at_ms: int) -> None:
        """Begin a row for the new process of a static member, which gets its assignment without a rebalance."""
        member = group.members[member_id]
        row = self._generation | self._member_columns(member, group.leader_id)
        self._open[member_id] = row | (assignment_columns(member, at_ms) if member.assignment else {})

    def _member_columns(self, member: Member, leader_id: MemberId | None) -> dict[str, Any]:
        protocols = member.profile.supported_protocols
        metadata = protocols[0].metadata if protocols else b""
        return {
            "member_id": member.member_id,
            "instance_id": member.instance_id,
            "is_leader": member.member_id == leader_id,
            "missed": False,
            "joined_ms": self._joined_ms.get(member.member_id),
            "assignors": [each.name for each in protocols],
            **subscription_columns(metadata),
        }


@lru_cache(maxsize=4096)
def subscription_columns(metadata: bytes) -> dict[str, Any]:
    return {
        "topics": list(subscribed_topics(metadata)),
        "rack": rack_of(metadata),
        "owned": partition_names(owned_partitions(metadata)),
    }


def assignment_columns(member: Member, at_ms: int) -> dict[str, Any]:
    return {"assigned_ms": at_ms, "assignment": assigned_names(member.assignment)}


@lru_cache(maxsize=4096)
def assigned_names(assignment: bytes) -> list[str]:
    return partition_names(assigned_partitions(assignment))
