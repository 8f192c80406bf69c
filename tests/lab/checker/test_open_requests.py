"""What a request without a response waits for: other members, Kafka's log, or the store alone."""

import pytest
from msgspec.structs import replace

from regroup.coordinator import commands as c
from regroup.coordinator.consumer.commands import ConsumerGroupHeartbeat
from regroup.coordinator.consumer_group import ConsumerGroup
from regroup.coordinator.group import (
    AwaitedResponse,
    Group,
    GroupState,
    LogRecordKind,
    Member,
    MemberProfile,
    PendingAppend,
)
from regroup.coordinator.topics import NO_TOPICS
from regroup.lab.checker.open_requests import OpenRequests
from tests.lab.checker.made_exchanges import made_exchange

GROUP = Group(group_id="payments", event_number=2)
WAITING = replace(GROUP, pending_appends={2: PendingAppend(kind=LogRecordKind.OFFSETS, deadline_ms=5_000)})
COMMIT = c.OffsetCommit(group_id="payments", at_ms=0, offsets=())
FETCH = c.OffsetFetch(group_id="payments", at_ms=0, partitions=())


@pytest.mark.parametrize(
    ("command", "awaits_log"),
    [
        (COMMIT, True),
        (replace(FETCH, require_stable=True), True),
        (FETCH, False),
        (c.DescribeGroup(group_id="payments", at_ms=0), False),
    ],
)
def test_a_request_that_only_reads_waits_for_the_store_alone(command: c.Command, awaits_log: bool) -> None:
    requests, exchange = OpenRequests(), made_exchange(command, GROUP, WAITING)
    exchange.required_position = 4
    requests.add(exchange)
    assert list(requests.overdue(3)) == []
    assert list(requests.overdue(4)) == ([] if awaits_log else [exchange])


@pytest.mark.parametrize(
    ("generation_id", "consumer", "awaits_log"),
    [(3, None, False), (2, None, True), (3, ConsumerGroup(group_epoch=2), True)],
    ids=["ends-a-join-phase", "same-generation", "downgrades-the-group"],
)
def test_a_join_group_that_ends_a_join_phase_waits_for_the_store_alone(
    generation_id: int, consumer: ConsumerGroup | None, awaits_log: bool
) -> None:
    profile = MemberProfile(session_timeout_ms=10_000, rebalance_timeout_ms=60_000, supported_protocols=())
    join = c.JoinGroup(
        group_id="payments",
        at_ms=0,
        member_id="ben",
        new_member_id="",
        new_short_member_id="",
        protocol_type="consumer",
        profile=profile,
    )
    before = replace(WAITING, generation_id=2, consumer=consumer)
    after = replace(before, generation_id=generation_id, consumer=None)
    requests, exchange = OpenRequests(), made_exchange(join, before, after)
    exchange.required_position = 4
    requests.add(exchange)
    assert list(requests.overdue(4)) == ([] if awaits_log else [exchange])


PROFILE = MemberProfile(session_timeout_ms=1, rebalance_timeout_ms=1, supported_protocols=())
ANNA_WAITS = Member(member_id="anna", profile=PROFILE, awaiting=AwaitedResponse.SYNC)
HELD = replace(GROUP, state=GroupState.COMPLETING_REBALANCE, members={"anna": ANNA_WAITS})


@pytest.mark.parametrize(
    "after",
    [
        replace(HELD, members={"anna": replace(ANNA_WAITS, awaiting=None)}, event_number=3),
        replace(HELD, members={}, consumer=ConsumerGroup(), event_number=3),
    ],
    ids=["refused", "upgraded"],
)
def test_a_heartbeat_of_the_consumer_protocol_to_a_classic_group_releases_a_sync_group(after: Group) -> None:
    """The response rests on that heartbeat, and not on what changes the group next."""
    requests = OpenRequests()
    sync = made_exchange(c.SyncGroup(group_id="payments", at_ms=0, member_id="anna", generation_id=1), GROUP, HELD)
    heartbeat = made_exchange(
        ConsumerGroupHeartbeat(group_id="payments", at_ms=0, member_id="", member_epoch=0, topics=NO_TOPICS),
        HELD,
        after,
    )
    requests.add(sync)
    requests.on_group_change(heartbeat)
    assert sync.decided_group is after
    assert list(requests.overdue(0)) == [sync]
