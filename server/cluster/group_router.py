"""Routes commands to the group coordinators of all brokers, one for each shard.

A group belongs to the broker that leads its partition of `__consumer_offsets`. Each shard (the partitions that always
have the same leader) has a coordinator. When the leader changes, the coordinator answers its held requests and stops,
and loads its groups again in a new coordinator epoch.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias

from regroup.coordinator import commands as c
from regroup.coordinator.group import Group
from regroup.coordinator.runtime.group_coordinator import GroupCoordinator
from regroup.coordinator.runtime.unavailable import unavailable_response
from regroup.coordinator.serialization import Cause
from regroup.coordinator.settings import CoordinatorSettings
from regroup.protocol.errors import ErrorCode
from regroup.server.cluster.events import TRANSACTION_END, ClusterEvent, TopicDeleted
from regroup.server.cluster.state import ClusterState
from regroup.storage.records import Snapshot

_TOPIC_DELETION = Cause(api="DeleteTopics")
_ALLOW_EMPTY_GROUP_ID = (c.OffsetCommit, c.OffsetFetch, c.DescribeGroup, c.DeleteGroup)
"""Commands for which the empty group id is valid; for all others it is an error that every broker detects."""


OnResponse: TypeAlias = Callable[[Any], None]
"""Takes the response to a command; its type is that of the command's API."""


class BrokerGroups(Protocol):
    """The groups that one broker coordinates."""

    def submit(self, command: c.Command, on_response: OnResponse | None = None, cause: Cause | None = None) -> None:
        """Handle a command of a client now. `on_response` is called once with the response: before the method returns,
        or later if the request is held. `cause` is stored with the events to which the command leads."""

    def heartbeat_revalidator(self, heartbeat: c.Heartbeat) -> Callable[[], bool]:
        """Return a function that repeats `heartbeat`, which was accepted, for an equal request that need not be
        decoded. The function restarts the member's session timeout and returns True; it returns False if the heartbeat
        must be submitted as a command."""

    def groups(self) -> Iterator[Group]:
        """Iterate over the groups that exist and that this broker coordinates."""

    def groups_of_producer(self, producer_id: int) -> list[Group]:
        """The groups that hold offsets of this producer's open transaction."""

    def group(self, group_id: str) -> Group:
        """The present state of a group, also of one that another broker coordinates."""

    @property
    def settings(self) -> CoordinatorSettings:
        """The settings of the group coordinators, without those that single groups have of their own."""

    @property
    def refusal(self) -> ErrorCode | None:
        """The error code for requests about all groups, such as ListGroups, while a coordinator of this broker is
        loading or stopped; None if they can be answered."""


class GroupRouter:
    """The group coordinators of all brokers, one for each shard. `new_coordinator` is a function that makes one; its
    argument is a function that returns for a group id whether the group belongs to the coordinator's shard."""

    def __init__(
        self, state: ClusterState, new_coordinator: Callable[[Callable[[str], bool]], GroupCoordinator]
    ) -> None:
        self._state = state
        self.coordinators = [new_coordinator(partial(self._is_in_shard, shard)) for shard in range(len(state.node_ids))]
        self._leaders = list(state.node_ids)
        state.event_listeners.append(self._on_events)
        state.group_count = lambda: sum(coordinator.group_count for coordinator in self.coordinators)

    def _is_in_shard(self, shard: int, group_id: str) -> bool:
        return self.shard_of(group_id) == shard

    def shard_of(self, group_id: str) -> int:
        return self._state.shard_of_partition(self._state.partition_of_group(group_id))

    def coordinator_of(self, group_id: str) -> GroupCoordinator:
        return self.coordinators[self.shard_of(group_id)]

    def leads(self, node_id: int, shard: int) -> bool:
        return self._state.leader_of(shard) == node_id

    def groups_of_broker(self, node_id: int) -> BrokerGroups:
        """The groups that this broker coordinates: all groups, if it is the only broker."""
        return self.coordinators[0] if len(self.coordinators) == 1 else RoutedGroups(self, node_id)

    async def start(self) -> None:
        """Start all coordinators; each loads its groups from the store. It is called before the brokers listen, and
        again after a failed store was reopened."""
        await self.start_shards(range(len(self.coordinators)))

    def stop_moved_shards(self) -> list[int]:
        """Stop the coordinators of all shards whose leader has changed since the last call, and return these shards."""
        moved = [shard for shard, leader in enumerate(self._leaders) if self._state.leader_of(shard) != leader]
        for shard in moved:
            self.coordinators[shard].stop()
            self._leaders[shard] = self._state.leader_of(shard)
        return moved

    async def start_shards(self, shards: Iterable[int]) -> None:
        """Start the coordinators of these shards, except shards without a leader."""
        for shard in shards:
            if self._leaders[shard] >= 0:
                await self.coordinators[shard].start()

    def stop(self) -> None:
        """Stop all coordinators: answer held requests with an error and refuse new ones."""
        for coordinator in self.coordinators:
            coordinator.stop()

    def take_snapshots(self) -> list[Snapshot]:
        """Return snapshots of the groups that have changed since they were last saved in a snapshot."""
        return [snapshot for coordinator in self.coordinators for snapshot in coordinator.take_snapshots()]

    def mark_saved(self, snapshots: Sequence[Snapshot]) -> None:
        """Note that these snapshots are stored, so that `take_snapshots` leaves out groups that have no event after
        them."""
        for coordinator in self.coordinators:
            coordinator.mark_saved(snapshots)

    def _on_events(self, events: Sequence[ClusterEvent]) -> None:
        """If topics were deleted by these events, delete the offsets that groups have committed in them, in the
        coordinators of all brokers."""
        topics = [event.name for event in events if isinstance(event, TopicDeleted)]
        if not topics:
            return
        at_ms = self._state.now_ms()
        for coordinator in self.coordinators:
            for group in [each for each in coordinator.groups() if each.may_have_offsets(topics)]:
                for topic in topics:
                    if group.partitions_with_offsets(topic):
                        command = c.DeleteTopicOffsets(group_id=group.group_id, at_ms=at_ms, topic=topic)
                        coordinator.submit(command, cause=_TOPIC_DELETION)

    def are_loaded(self, partitions: Iterable[int]) -> bool:
        """Whether the groups of these partitions of `__consumer_offsets` are loaded."""
        return all(self.coordinators[self._state.shard_of_partition(index)].is_ready for index in partitions)

    def end_transaction(self, partitions: Iterable[int], producer_id: int, *, committed: bool) -> None:
        """Commit or drop the offsets of this producer's transaction in every group of these partitions of
        `__consumer_offsets`, whether AddOffsetsToTxn named the group or not."""
        at_ms, indexes = self._state.now_ms(), set(partitions)
        for shard in sorted({self._state.shard_of_partition(index) for index in indexes}):
            coordinator = self.coordinators[shard]
            for group in coordinator.groups_of_producer(producer_id):
                if self._state.partition_of_group(group.group_id) in indexes:
                    command = c.EndTransaction(
                        group_id=group.group_id, at_ms=at_ms, producer_id=producer_id, committed=committed
                    )
                    coordinator.submit(command, cause=TRANSACTION_END)


class RoutedGroups:
    """The groups of the shards that one broker leads. Commands for other groups are answered with NOT_COORDINATOR."""

    def __init__(self, router: GroupRouter, node_id: int) -> None:
        self._router = router
        self._node_id = node_id

    def submit(self, command: c.Command, on_response: OnResponse | None = None, cause: Cause | None = None) -> None:
        shard = self._router.shard_of(command.group_id)
        is_invalid = not command.group_id and not isinstance(command, _ALLOW_EMPTY_GROUP_ID)
        if is_invalid or self._router.leads(self._node_id, shard):
            self._router.coordinators[shard].submit(command, on_response, cause)
        elif on_response:
            on_response(unavailable_response(command, ErrorCode.NOT_COORDINATOR))

    def heartbeat_revalidator(self, heartbeat: c.Heartbeat) -> Callable[[], bool]:
        return self._router.coordinator_of(heartbeat.group_id).heartbeat_revalidator(heartbeat)

    def groups(self) -> Iterator[Group]:
        for coordinator in self._own_coordinators():
            yield from coordinator.groups()

    def groups_of_producer(self, producer_id: int) -> list[Group]:
        return [group for each in self._own_coordinators() for group in each.groups_of_producer(producer_id)]

    def group(self, group_id: str) -> Group:
        return self._router.coordinator_of(group_id).group(group_id)

    @property
    def settings(self) -> CoordinatorSettings:
        return self._router.coordinators[0].settings

    @property
    def refusal(self) -> ErrorCode | None:
        return next((code for coordinator in self._own_coordinators() if (code := coordinator.refusal)), None)

    def _own_coordinators(self) -> list[GroupCoordinator]:
        return [
            coordinator
            for shard, coordinator in enumerate(self._router.coordinators)
            if self._router.leads(self._node_id, shard)
        ]
