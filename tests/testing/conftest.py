"""Emulators, and groups on them whose members speak the protocol themselves."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from regroup.protocol.consumer.subscription import (
    Assignment,
    Subscription,
    TopicPartition,
    encode_assignment,
    encode_subscription,
)
from regroup.protocol.messages.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from regroup.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from regroup.testing import BlockingConnection, Emulator


class ManualMember:
    """A member that sends each request when a test says so, and no heartbeats by itself."""

    def __init__(self, kafka: Emulator, client_id: str, group: str = "billing", *, instance_id: str | None = None):
        self.connection: BlockingConnection = kafka.connect(client_id, group=group)
        self.group, self.instance_id = group, instance_id
        self.member_id, self.generation = "", -1

    def join(self, session_timeout_ms: int = 9_000) -> None:
        """Join and wait until the join phase is over."""
        self.joined(self.post_join(session_timeout_ms).result(10))

    def post_join(self, session_timeout_ms: int = 9_000, version: int = 3):
        subscription = encode_subscription(Subscription(1, ("orders",)))
        join = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=60_000,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription)],
        )
        return self.connection.post(join, 5 if self.instance_id else version)

    def joined(self, response) -> None:
        assert response.error_code == 0, response
        self.member_id, self.generation = response.member_id, response.generation_id

    def sync(self, assignments: dict[str, list[int]] | None = None):
        """Send SyncGroup, the leader's with the partitions of `orders` for each member id."""
        return self.connection.post(
            SyncGroupRequest(
                group_id=self.group,
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=self.instance_id,
                assignments=[
                    SyncGroupRequestAssignment(
                        member_id=member_id,
                        assignment=encode_assignment(
                            Assignment(1, tuple(TopicPartition("orders", index) for index in indexes))
                        ),
                    )
                    for member_id, indexes in (assignments or {}).items()
                ],
            ),
            3,
        )

    def heartbeat(self) -> int:
        """Send a heartbeat; returns the error code."""
        return self.connection.send(
            HeartbeatRequest(
                group_id=self.group,
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=self.instance_id,
            ),
            3,
        ).error_code


def stable_pair(kafka: Emulator, group: str = "billing") -> tuple[ManualMember, ManualMember]:
    """Members `first` and `second` in generation 2; `first` leads and has partition 0, `second` has partition 1."""
    first, second = ManualMember(kafka, "first", group), ManualMember(kafka, "second", group)
    first.join()
    first.sync({first.member_id: [0, 1]}).result(10)
    waiting = second.post_join()
    kafka.group(group).wait_until(lambda seen: len(seen.members) == 2)
    first.join()
    second.joined(waiting.result(10))
    synced = second.sync()
    first.sync({first.member_id: [0], second.member_id: [1]}).result(10)
    synced.result(10)
    return first, second


@pytest.fixture
def emulator() -> Iterator[Callable[..., Emulator]]:
    """Starts emulators, and closes them at the end of the test."""
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(Emulator(**options))


def commit(member: ManualMember, offsets: dict[int, int]) -> None:
    """Commit offsets in partitions of `orders`."""
    partitions = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
        for index, offset in offsets.items()
    ]
    request = OffsetCommitRequest(
        group_id=member.group,
        generation_id_or_member_epoch=member.generation,
        member_id=member.member_id,
        topics=[OffsetCommitRequestTopic(name="orders", partitions=partitions)],
    )
    response = member.connection.send(request, 7)
    assert not any(partition.error_code for topic in response.topics for partition in topic.partitions), response
