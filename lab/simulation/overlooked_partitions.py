"""The partitions of a Stable group that no member is assigned, and that Kafka would leave without an owner too."""

from collections.abc import Sequence
from typing import Final

import msgspec

from regroup.coordinator.events import MemberJoined, MemberRejoined, StaticMemberReplaced
from regroup.coordinator.group import Group, GroupState, MemberProfile
from regroup.lab.plan.plan import SimulationPlan
from regroup.lab.simulation.world import World
from regroup.protocol.consumer.subscription import (
    MalformedConsumerProtocol,
    Subscription,
    TopicPartition,
    assigned_partitions,
    decode_subscription,
)
from regroup.protocol.messages.group import JoinGroupRequest
from regroup.server.releases import release_named
from regroup.storage.records import NewRecord

SKIPS_ASSIGNMENTS: Final = 9
"""The version of JoinGroup that has `skip_assignment` (KIP-814)."""

NO_SUBSCRIPTION: Final = Subscription(0, ())

JOIN_EVENTS: Final = {"member-joined": MemberJoined, "member-rejoined": MemberRejoined}


class OverlookedPartitions:
    """Finds the partitions that a group may overlook until its next rebalance, since a static member has restarted.

    - A static leader that returns to a Stable group does not run its assignor, and takes the topics as it finds them as
      the reference for later changes (KIP-814). It overlooks partitions that were added while it was away. With a
      client or brokers from before Kafka 3.2 it does not know that it leads, and overlooks those that are added later
      as well.
    - A cooperative member that has revoked partitions joins again, so that they get their new owners (KIP-429). If it
      is static and restarts before, its new process has revoked nothing, and the coordinator answers its JoinGroup
      without a rebalance (KIP-345): the partitions stay without an owner.
    - A static member whose pattern matches a new topic when it restarts tells the coordinator so in that JoinGroup, and
      the leader does not learn of it: the topic stays without owners.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._leaders: dict[str, tuple[str | None, int]] = {}
        """By group id, the leader and generation that the group had when it was last compared."""
        self._restarted_leaders: dict[str, tuple[str | None, int]] = {}
        """By group id, the static leader that has restarted last, and the generation in which it did."""
        self._subscriptions: dict[str, Subscription] = {}
        """By member id, what the member sent in its last JoinGroup: its topics, and the partitions that it owned."""
        self._overlooked: dict[str, tuple[int, frozenset[TopicPartition]]] = {}
        """By group id, the generation in which partitions may be overlooked, and which ones."""

    def on_stored(self, records: Sequence[NewRecord]) -> None:
        """Apply stored records."""
        for record in records:
            if record.type in JOIN_EVENTS:
                joined = msgspec.json.decode(record.payload, type=JOIN_EVENTS[record.type])
                self._subscriptions[joined.member_id] = subscription_of(joined.profile)
            elif record.type == "static-member-replaced" and record.group is not None:
                self._on_replaced(record.group, msgspec.json.decode(record.payload, type=StaticMemberReplaced))
        for group_id in dict.fromkeys(record.group for record in records if record.group is not None):
            if (group := self._world.brokers.group(group_id)) is not None:
                self._compare_leader(group)

    def of(self, group: Group) -> frozenset[TopicPartition]:
        """The partitions of a group that may stay without an owner until its next rebalance."""
        generation_id, partitions = self._overlooked.get(group.group_id, (0, frozenset()))
        if generation_id != group.generation_id:
            return frozenset()
        name = self._world.members.name_of(group.leader_id or "")
        is_leader_uninformed = self._restarted_leaders.get(group.group_id) == (group.leader_id, generation_id) and (
            name is not None and not knows_skipped_assignments(self._world.plan, name)
        )
        return frozenset(self._world.subscribed_partitions(group.group_id)) if is_leader_uninformed else partitions

    def _on_replaced(self, group_id: str, event: StaticMemberReplaced) -> None:
        """Note what the former process has revoked in this generation, since it has not joined again, and the topics to
        which only the new one subscribes."""
        former = self._subscriptions.get(event.replaced_member_id, NO_SUBSCRIPTION)
        present = self._subscriptions[event.member_id] = subscription_of(event.profile)
        group = self._world.brokers.group(group_id)
        if group is None or group.state is not GroupState.STABLE or event.member_id not in group.members:
            return
        kept = frozenset(assigned_partitions(group.members[event.member_id].assignment))
        topics = {*present.topics}.difference(former.topics)
        new = (each for each in self._world.subscribed_partitions(group_id) if each.topic in topics)
        self._overlook(group, frozenset([*former.owned_partitions, *new]) - kept)

    def _compare_leader(self, group: Group) -> None:
        """Note all partitions if a static leader has restarted: the leader's id has changed in a Stable generation."""
        before = self._leaders.get(group.group_id)
        self._leaders[group.group_id] = now = (group.leader_id, group.generation_id)
        is_same_generation = before is not None and before[1] == group.generation_id
        if group.state is GroupState.STABLE and is_same_generation and before != now:
            self._restarted_leaders[group.group_id] = now
            self._overlook(group, frozenset(self._world.subscribed_partitions(group.group_id)))

    def _overlook(self, group: Group, partitions: frozenset[TopicPartition]) -> None:
        self._overlooked[group.group_id] = group.generation_id, self.of(group) | partitions


def knows_skipped_assignments(plan: SimulationPlan, name: str) -> bool:
    """Whether a JoinGroup response says to this member that it leads and assigns nothing, as since Kafka 3.2."""
    releases = [release_named(each) for each in (plan.release, plan.members[name].client) if each]
    versions = [each.apis[JoinGroupRequest.api_key][1] for each in releases]
    return min(versions, default=SKIPS_ASSIGNMENTS) >= SKIPS_ASSIGNMENTS


def subscription_of(profile: MemberProfile) -> Subscription:
    """What a member of the classic protocol sends for its first assignor as it joins; nothing if that is malformed."""
    try:
        return decode_subscription(profile.supported_protocols[0].metadata)
    except (IndexError, MalformedConsumerProtocol):
        return NO_SUBSCRIPTION
