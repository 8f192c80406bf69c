"""Turns changes of members and stored records into milestones, for which steps of a plan can wait."""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from regroup.coordinator.events import MemberJoined, MemberRemoved
from regroup.coordinator.group import Group, GroupState
from regroup.lab.plan.plan import SimulationPlan
from regroup.lab.simulation.clients.transactions import TRANSACTIONS_SUFFIX
from regroup.lab.simulation.clients.transforming import TRANSFORM_SUFFIX
from regroup.lab.simulation.world import World
from regroup.members.consumer.effects import (
    ConsumerChange,
    ConsumerClosed,
    ConsumerError,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
)
from regroup.members.faults import MemberMilestone, milestones_in
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.messages.group import JoinGroupRequest
from regroup.server.cluster.events import TransactionPrepared, decode_cluster_event
from regroup.server.releases import release_named
from regroup.storage.records import NewRecord

SKIPS_ASSIGNMENTS: Final = 9
"""The version of JoinGroup that has `skip_assignment` (KIP-814)."""
_MILESTONES_OF_MEMBERS: Final = {
    MemberMilestone.JOINED: "has joined",
    MemberMilestone.ELECTED: "is elected leader",
    MemberMilestone.ASSIGNED: "is assigned partitions",
    MemberMilestone.REVOKED: "revokes partitions",
    MemberMilestone.LOST: "loses partitions",
}


class Milestones:
    """Finds the milestones of a run in changes of members and in stored records, and calls `reach` with each."""

    def __init__(self, world: World, reach: Callable[[str], None]) -> None:
        self._world = world
        self._reach = reach
        self.removed: list[str] = []
        """Names of removed members, in the order of their removals; a name may occur again."""
        self.generation_count = 0
        """Number of generations that have begun, over all groups."""
        self._phases: dict[str, tuple[GroupState | None, int]] = {}
        """By group id, the state and generation that the group had when it was last compared."""
        self._leaders: dict[str, tuple[str | None, int]] = {}
        """By group id, the leader and generation that the group had when it was last compared."""
        self._overlooked: dict[str, tuple[int, frozenset[TopicPartition]]] = {}
        self._first_assigned: dict[str, tuple[TopicPartition, ...]] = {}
        self._first_lost: dict[str, tuple[TopicPartition, ...]] = {}

    # Members

    def on_member_change(self, name: str, change: ConsumerChange | ConsumerError) -> None:
        """Call `reach` with the milestones of a change of a member, such as that it has joined or is assigned
        partitions."""
        if isinstance(change, ConsumerError):
            return
        match change:
            case PartitionsAssigned(partitions) if partitions:
                self._first_assigned.setdefault(name, partitions)
            case PartitionsRevoked(partitions) | PartitionsLost(partitions) if partitions:
                self._first_lost.setdefault(name, partitions)
        for milestone in milestones_in(change):
            if milestone in _MILESTONES_OF_MEMBERS:
                self._reach(f"{name} {_MILESTONES_OF_MEMBERS[milestone]}")
        if isinstance(change, ConsumerClosed):
            self._reach(f"{name} has stopped")

    def lost_partitions(self, name: str) -> str | None:
        """The partitions of its first assignment that a member has revoked or lost; None if it kept them all."""
        if name in self._first_lost:
            return f"it gave up {_join_partitions(self._first_lost[name])}"
        member = self._world.members.by_name.get(name)
        owned = member.consumer.assigned_partitions if member else ()
        missing = set(self._first_assigned.get(name, ())) - set(owned)
        return f"it no longer has {_join_partitions(sorted(missing))}" if missing else None

    # Groups

    def on_stored(self, records: Sequence[NewRecord]) -> None:
        """Apply stored records to their groups, and call `reach` with the milestones that the groups have passed."""
        for record in records:
            if record.group is None:
                self._on_cluster_record(record)
                continue
            if record.type == "generation-started":
                self.generation_count += 1
            elif record.type == "member-joined":
                joined = msgspec.json.decode(record.payload, type=MemberJoined)
                self._world.members.register_member_id(joined.member_id, joined.profile.client_id)
            elif record.type == "member-removed":
                removed = msgspec.json.decode(record.payload, type=MemberRemoved)
                name = self._world.members.name_of(removed.member_id)
                if name is not None:
                    self.removed.append(name)
                    self._reach(f"{name} is removed")
        for group_id in dict.fromkeys(record.group for record in records if record.group is not None):
            group = self._world.brokers.group(group_id)
            if group is not None:
                self._compare(group)

    def _on_cluster_record(self, record: NewRecord) -> None:
        """Call `reach` with the milestone of a transaction whose outcome is stored."""
        if record.type == "transaction-prepared":
            event = decode_cluster_event(record)
            assert isinstance(event, TransactionPrepared)
            member = event.transactional_id.removesuffix(TRANSACTIONS_SUFFIX).removesuffix(TRANSFORM_SUFFIX)
            if member in self._world.plan.members:
                self._reach(f"{member}'s transaction is prepared")

    def _compare(self, group: Group) -> None:
        """Call `reach` with a milestone for each change of a group since the last comparison, such as a new state."""
        state, generation_id = self._phases.get(group.group_id, (None, 0))
        self._phases[group.group_id] = group.state, group.generation_id
        self._compare_leader(group)
        if generation_id != group.generation_id:
            self._reach(f"generation {group.generation_id} begins")
        if state is not group.state:
            who = "the group" if group.group_id == "lab" else f"group {group.group_id}"
            self._reach(f"{who} is {group.state}")

    def _compare_leader(self, group: Group) -> None:
        """Call `reach` with a milestone if a group has elected another leader.

        A leader id that changes within a Stable generation belongs to a static leader that has restarted: it is not
        new.
        """
        before = self._leaders.get(group.group_id)
        self._leaders[group.group_id] = now = (group.leader_id, group.generation_id)
        is_same_generation = before is not None and before[1] == group.generation_id
        if group.state is GroupState.STABLE and is_same_generation and before != now:
            partitions = frozenset(self._world.subscribed_partitions(group.group_id))
            self._overlooked[group.group_id] = group.generation_id, partitions

    def overlooked_partitions(self, group: Group) -> frozenset[TopicPartition]:
        """Partitions of a group that may stay without an owner until the next rebalance.

        A static leader that returns to a Stable group does not run its assignor, and takes the topics as it finds them
        as the reference for later changes (KIP-814). It overlooks partitions that were added while it was away, as
        Kafka's own consumer does. With a client or brokers from before Kafka 3.2 it does not know that it leads, and
        overlooks those that are added later as well.
        """
        generation_id, partitions = self._overlooked.get(group.group_id, (0, frozenset()))
        if generation_id != group.generation_id:
            return frozenset()
        name = self._world.members.name_of(group.leader_id or "")
        is_informed = name is None or _knows_skipped_assignments(self._world.plan, name)
        return partitions if is_informed else frozenset(self._world.subscribed_partitions(group.group_id))


def _knows_skipped_assignments(plan: SimulationPlan, name: str) -> bool:
    """Whether a JoinGroup response says to this member that it leads and assigns nothing, as since Kafka 3.2."""
    releases = [release_named(each) for each in (plan.release, plan.members[name].client) if each]
    versions = [each.apis[JoinGroupRequest.api_key][1] for each in releases]
    return min(versions, default=SKIPS_ASSIGNMENTS) >= SKIPS_ASSIGNMENTS


def _join_partitions(partitions: Sequence[TopicPartition]) -> str:
    return ", ".join(f"{topic}-{number}" for topic, number in partitions)
