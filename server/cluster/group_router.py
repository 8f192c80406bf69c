"""Who coordinates which groups, where there are several brokers.

A group lives on the broker that leads its partition of `__consumer_offsets`. Partitions that always have the same
leader make a share, and each share has a coordinator of its own, which goes where their lead goes: it answers whoever
waits, stops, and starts again in a new reign with what is on disk.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Protocol

from regroup.coordinator import commands as c
from regroup.coordinator.group import Group
from regroup.coordinator.runtime.group_coordinator import Answering, Because, GroupCoordinator
from regroup.coordinator.serialization import Cause, written_cause
from regroup.coordinator.unavailable import unavailable
from regroup.protocol.errors import ErrorCode
from regroup.server.cluster.causes import TRANSACTION_ENDS
from regroup.server.cluster.events import ClusterEvent, TopicDeleted
from regroup.server.cluster.state import Cluster
from regroup.storage.records import Snapshot

DELETION = Cause(api="DeleteTopics")
NAMELESS = (c.CommitOffsets, c.FetchOffsets)
"""The empty group id is one like any other here; for other commands it is a fault that every broker sees at once."""


class Groups(Protocol):
    """The groups that one broker coordinates."""

    def submit(self, command: c.Command, answering: Answering | None = None, cause: Because | None = None) -> None:
        """Deal with a command now; `answering` is called once, now or later."""

    def repeats(self, heartbeat: c.Heartbeat) -> Callable[[], bool]:
        """To be asked when an accepted heartbeat comes once more: True if it has been accepted again."""

    def groups(self) -> Iterator[Group]:
        """Every group that exists."""

    @property
    def refusal(self) -> ErrorCode | None:
        """What a question about all groups gets at present, if it cannot be answered."""


class GroupShares:
    """The coordinators of all groups, one a share. `make` is given the rule by which a coordinator knows its groups."""

    def __init__(self, cluster: Cluster, make: Callable[[Callable[[str], bool]], GroupCoordinator]) -> None:
        self._cluster = cluster
        self.coordinators = [make(partial(self._lies_in, share)) for share in range(len(cluster.node_ids))]
        self._leaders = list(cluster.node_ids)
        cluster.watchers.append(self._follow)

    def _lies_in(self, share: int, group_id: str) -> bool:
        return self.share_of(group_id) == share

    def share_of(self, group_id: str) -> int:
        return self._cluster.place_of(self._cluster.partition_of_group(group_id))

    def leads(self, node_id: int, share: int) -> bool:
        return self._cluster.leader_of(share) == node_id

    def at(self, node_id: int) -> Groups:
        """The groups as this broker has them. Of a broker that is alone these are all."""
        return self.coordinators[0] if len(self.coordinators) == 1 else GroupsOfBroker(self, node_id)

    async def start(self) -> None:
        """Load everything, before the brokers listen. Also the way back after a failure of the store."""
        await self.take_over(range(len(self.coordinators)))

    def let_go(self) -> list[int]:
        """Stop the coordinators whose share has another leader than before; returns the shares."""
        moved = [share for share, leader in enumerate(self._leaders) if self._cluster.leader_of(share) != leader]
        for share in moved:
            self.coordinators[share].stop()
            self._leaders[share] = self._cluster.leader_of(share)
        return moved

    async def take_over(self, moved: Iterable[int]) -> None:
        """Start the coordinators of these shares again, where they have a leader."""
        for share in moved:
            if self._leaders[share] >= 0:
                await self.coordinators[share].start()

    def stop(self) -> None:
        """Answer whoever still waits, and take nothing more."""
        for coordinator in self.coordinators:
            coordinator.stop()

    def take_snapshots(self) -> list[Snapshot]:
        """The groups that changed since their snapshots were saved."""
        return [snapshot for coordinator in self.coordinators for snapshot in coordinator.take_snapshots()]

    def snapshots_are_saved(self, snapshots: Sequence[Snapshot]) -> None:
        """These need not be taken again."""
        for coordinator in self.coordinators:
            coordinator.snapshots_are_saved(snapshots)

    def _follow(self, event: ClusterEvent) -> None:
        """With a topic goes what groups have committed of it, whichever broker coordinates them."""
        if not isinstance(event, TopicDeleted):
            return
        at_ms = self._cluster.now_ms()
        for coordinator in self.coordinators:
            for group in [each for each in coordinator.groups() if each.partitions_with_offsets(event.name)]:
                coordinator.submit(
                    c.ForgetTopic(group_id=group.name, at_ms=at_ms, topic=event.name),
                    None,
                    partial(written_cause, DELETION),
                )

    # What a transaction's end asks for

    def can_settle(self, partitions: Iterable[int]) -> bool:
        return all(self.coordinators[self._cluster.place_of(index)].is_ready for index in partitions)

    def settle(self, partitions: Iterable[int], producer_id: int, *, committed: bool) -> None:
        """Every group of these partitions in which the producer has written offsets, announced or not."""
        at_ms, wanted = self._cluster.now_ms(), set(partitions)
        for share in sorted({self._cluster.place_of(index) for index in wanted}):
            coordinator = self.coordinators[share]
            for group in list(coordinator.groups()):
                if producer_id in group.pending_offsets and self._cluster.partition_of_group(group.name) in wanted:
                    coordinator.submit(
                        c.EndTransaction(
                            group_id=group.name, at_ms=at_ms, producer_id=producer_id, committed=committed
                        ),
                        cause=lambda: TRANSACTION_ENDS,
                    )


class GroupsOfBroker:
    """The shares that one broker leads; for other groups it is not the coordinator."""

    def __init__(self, shares: GroupShares, node_id: int) -> None:
        self._shares = shares
        self._node_id = node_id

    def submit(self, command: c.Command, answering: Answering | None = None, cause: Because | None = None) -> None:
        share = self._shares.share_of(command.group_id)
        is_fault = not command.group_id and not isinstance(command, NAMELESS)
        if is_fault or self._shares.leads(self._node_id, share):
            self._shares.coordinators[share].submit(command, answering, cause)
        elif answering:
            answering(unavailable(command, ErrorCode.NOT_COORDINATOR))

    def repeats(self, heartbeat: c.Heartbeat) -> Callable[[], bool]:
        return self._shares.coordinators[self._shares.share_of(heartbeat.group_id)].repeats(heartbeat)

    def groups(self) -> Iterator[Group]:
        for coordinator in self._own():
            yield from coordinator.groups()

    @property
    def refusal(self) -> ErrorCode | None:
        return next((refusal for coordinator in self._own() if (refusal := coordinator.refusal)), None)

    def _own(self) -> list[GroupCoordinator]:
        return [
            coordinator
            for share, coordinator in enumerate(self._shares.coordinators)
            if self._shares.leads(self._node_id, share)
        ]
