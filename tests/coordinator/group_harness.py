"""A group under test with its clients, on a virtual clock: `decide` and `next_deadline` alone, no event loop.

    harness = GroupHarness()
    anna, ben = harness.reach_stable("anna", "ben")
    harness.advance(10_000, heartbeating=[anna])
    assert harness.state is GroupState.PREPARING_REBALANCE

A client's first member id is its name. Clients have the defaults of the catalogue `behaviours.jsonl`: protocols range
and roundrobin, session timeout 10 s, rebalance timeout 60 s.
"""

from collections.abc import Iterable
from typing import Any

import pytest

from regroup.coordinator import commands as c
from regroup.coordinator.events import Event
from regroup.coordinator.group import GroupState, Member
from regroup.protocol.errors import ErrorCode
from tests.coordinator.group_driver import GROUP_ID, GroupDriver, SentRequest
from tests.coordinator.simulated_client import SimulatedClient, commit_command, requested_offsets, sync_all

behaviour = pytest.mark.behaviour
"""Names the behaviours of the catalogue that a test covers: `@behaviour("sync.preparing")`."""

LOG_AND_CLIENT_ERRORS = [
    (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
    (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
    (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    (ErrorCode.INVALID_FETCH_SIZE, ErrorCode.UNKNOWN_SERVER_ERROR),
    (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
]
"""Errors of the emulated Kafka log, each with the error that clients get whose requests wait for the record."""

HEARTBEAT_INTERVAL_MS = 3_000
DAY_MS = 86_400_000


class GroupHarness(GroupDriver):
    """One group, with the requests of administrators and producers, and the states that tests start from."""

    def client(self, name: str, *, static: bool = False, **fields: Any) -> SimulatedClient:
        """A client that has not joined. A static one has the instance id `instance-<name>`."""
        return SimulatedClient(self, name, instance_id=f"instance-{name}" if static else None, **fields)

    def member_of(self, client: SimulatedClient) -> Member:
        return self.group.members[client.member_id]

    def advance(self, ms: int, heartbeating: Iterable[SimulatedClient] = ()) -> None:
        """Move the clock; deadlines pass, and the `heartbeating` clients send Heartbeats meanwhile."""
        end_ms, clients = self.now_ms + ms, list(heartbeating)
        while clients and self.now_ms + HEARTBEAT_INTERVAL_MS < end_ms:
            self.advance_to(self.now_ms + HEARTBEAT_INTERVAL_MS)
            for client in clients:
                client.heartbeat()
        self.advance_to(end_ms)

    # The broker

    def expire_offsets(self) -> list[Event]:
        """Check the retention of offsets, as the coordinator does periodically."""
        return list(self.handle(c.ExpireOffsets(group_id=GROUP_ID, at_ms=self.now_ms)).events)

    def delete_topic(self, topic: str) -> list[Event]:
        return list(self.handle(c.DeleteTopicOffsets(group_id=GROUP_ID, at_ms=self.now_ms, topic=topic)).events)

    def complete_append(self, append_number: int | None = None) -> SentRequest:
        """Let the log commit a pending append; by default the oldest."""
        number = next(iter(self.group.pending_appends)) if append_number is None else append_number
        return self.handle(c.CompleteAppend(group_id=GROUP_ID, at_ms=self.now_ms, append_number=number))

    def fail_append(self, code: ErrorCode) -> SentRequest:
        """Let the log lose the oldest pending append."""
        number = next(iter(self.group.pending_appends))
        return self.handle(c.FailAppend(group_id=GROUP_ID, at_ms=self.now_ms, append_number=number, error_code=code))

    # Administrators, producers, and consumers outside the group

    def describe_group(self) -> Any:
        """The DescribeGroups response."""
        return self.handle(c.DescribeGroup(group_id=GROUP_ID, at_ms=self.now_ms)).response

    def delete_group(self, group_id: str = GROUP_ID) -> SentRequest:
        return self.handle(c.DeleteGroup(group_id=group_id, at_ms=self.now_ms))

    def remove_members(self, *leaving: c.LeavingMember) -> SentRequest:
        """Send a LeaveGroup with these members, as an administrator does."""
        return self.handle(c.LeaveGroup(group_id=GROUP_ID, at_ms=self.now_ms, members=leaving, topics=self.topics))

    def commit(self, *offsets: tuple[str, int, int], **fields: Any) -> SentRequest:
        """Commit offsets, each given as (topic, partition, offset), without a member id."""
        return self.handle(commit_command(self.now_ms, offsets, **fields))

    def delete_offsets(self, group_id: str = GROUP_ID, **partitions: tuple[int, ...]) -> SentRequest:
        return self.handle(c.OffsetDelete(group_id=group_id, at_ms=self.now_ms, partitions=partitions))

    def fetch(self, **partitions: tuple[int, ...]) -> SentRequest:
        return self.handle(c.OffsetFetch(group_id=GROUP_ID, at_ms=self.now_ms, partitions=partitions))

    def fetch_stable(self, **partitions: tuple[int, ...]) -> SentRequest:
        """OffsetFetch with `require_stable`, as `read_committed` consumers send it."""
        command = c.OffsetFetch(group_id=GROUP_ID, at_ms=self.now_ms, partitions=partitions, require_stable=True)
        return self.handle(command)

    def fetch_all(self, *, require_stable: bool = False) -> SentRequest:
        """OffsetFetch for every partition with a committed offset."""
        command = c.OffsetFetch(group_id=GROUP_ID, at_ms=self.now_ms, partitions=None, require_stable=require_stable)
        return self.handle(command)

    def commit_in_transaction(self, producer_id: int, *offsets: tuple[str, int, int], **fields: Any) -> SentRequest:
        """TxnOffsetCommit of offsets, each given as (topic, partition, offset)."""
        requested = requested_offsets(offsets)
        return self.handle(
            c.TxnOffsetCommit(
                group_id=GROUP_ID, at_ms=self.now_ms, producer_id=producer_id, offsets=requested, **fields
            )
        )

    def end_transaction(self, producer_id: int, *, committed: bool) -> SentRequest:
        command = c.EndTransaction(group_id=GROUP_ID, at_ms=self.now_ms, producer_id=producer_id, committed=committed)
        return self.handle(command)

    # States to start from

    def reach_completing_rebalance(self, *names: str, **fields: Any) -> list[SimulatedClient]:
        """Let clients join one after another, so that the generation id is their number and the first one leads.

        No member has sent SyncGroup in the last generation.
        """
        clients = [self.client(name, **fields) for name in names]
        for number, client in enumerate(clients):
            if number:
                sync_all(clients[:number])
            client.join()
            for other in clients[:number]:
                other.send_join()
            if number == 0:
                self.advance(self.settings.group_initial_rebalance_delay_ms)
        assert (self.state, self.generation_id) == (GroupState.COMPLETING_REBALANCE, len(names))
        return clients

    def reach_stable(self, *names: str, **fields: Any) -> list[SimulatedClient]:
        """As `reach_completing_rebalance`, and every member has its assignment."""
        clients = self.reach_completing_rebalance(*names, **fields)
        sync_all(clients)
        assert self.state is GroupState.STABLE
        return clients

    def reach_preparing_rebalance(self, *names: str, new_member: str = "carla", **fields: Any) -> list[SimulatedClient]:
        """As `reach_stable`; then a new member joins, and its response is held. It comes last in the list."""
        clients = self.reach_stable(*names, **fields)
        joining = self.client(new_member)
        joining.join()
        assert self.state is GroupState.PREPARING_REBALANCE
        return [*clients, joining]

    def reach_empty(self) -> SimulatedClient:
        """Let one client, anna, join, sync and leave."""
        [anna] = self.reach_stable("anna")
        anna.leave()
        assert (self.state, self.generation_id) == (GroupState.EMPTY, 2)
        return anna
