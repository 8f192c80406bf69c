"""Refused requests of members: found in responses, reported once, and then counted."""

import asyncio

from structlog.testing import capture_logs

from regroup.lab.simulation.virtual_clock import VirtualLoop, run_in_virtual_time
from regroup.protocol.messages.group import HeartbeatRequest, LeaveGroupRequest, MemberIdentity
from regroup.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from regroup.server.refusals.finding import Refusal
from regroup.server.refusals.notices import MAX_KINDS, RefusalNotice, RefusalNotices
from regroup.storage.memory import MemoryStore
from tests.server.cluster_harness import join_request, running_cluster


def refusal(group: str = "g", member: str = "anna-1", api: str = "Heartbeat") -> Refusal:
    return Refusal(1, group, api, "UNKNOWN_MEMBER_ID", member, None, member.partition("-")[0], "0-1", 3)


def commit_request(member_id: str, generation_id: int) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    return OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=generation_id,
        member_id=member_id,
        topics=[OffsetCommitRequestTopic(name="orders", partitions=[partition])],
    )


async def test_each_refused_request_of_a_member_is_noticed_with_its_code() -> None:
    async with running_cluster(MemoryStore(), 1) as harness:
        told: list[RefusalNotice] = []
        harness.cluster.refusals.listeners.append(told.append)
        member = await harness.add_member("g", 0)
        assert await harness.heartbeat("g", member, 0) == 0
        assert not told, "joining, syncing and an accepted heartbeat are no refusals"
        await harness.heartbeat("g", member, 0, generation=7)
        await harness.call(0, commit_request("stranger", 1), 8)
        await harness.call(0, LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="stranger")]), 4)
        await harness.call(0, join_request("g"), 9)  # MEMBER_ID_REQUIRED
    assert [(each.last.api, each.last.error, each.last.member_id, each.last.generation_id) for each in told] == [
        ("Heartbeat", "ILLEGAL_GENERATION", member, 7),
        ("OffsetCommit", "UNKNOWN_MEMBER_ID", "stranger", 1),
        ("LeaveGroup", "UNKNOWN_MEMBER_ID", "stranger", None),
    ]


async def test_an_observer_sees_every_exchange_of_every_broker_but_cached_heartbeats() -> None:
    async with running_cluster(MemoryStore()) as harness:
        seen: list[str] = []
        harness.cluster.observers.append(lambda exchange, response: seen.append(type(exchange.request).__name__))
        broker = await harness.coordinator_of("g")
        member = await harness.add_member("g", broker)
        for _ in range(5):
            await harness.heartbeat("g", member, broker)
    assert seen[-3:] == ["JoinGroupRequest", "SyncGroupRequest", "HeartbeatRequest"]
    assert seen.count(HeartbeatRequest.__name__) == 1


def test_a_storm_of_one_kind_is_one_line_at_once_and_one_with_the_count_in_ten_seconds() -> None:
    told: list[tuple[float, RefusalNotice]] = []

    async def storm() -> None:
        loop = asyncio.get_running_loop()
        notices = RefusalNotices(lambda: 0)
        notices.listeners.append(lambda notice: told.append((loop.time(), notice)))
        for number in range(2_000):  # a hundred a second, for twenty seconds
            notices.add(refusal(member=f"member{number % 50}-1"))
            await asyncio.sleep(0.01)
        await asyncio.sleep(60)
        notices.close()

    with capture_logs() as lines:
        run_in_virtual_time(storm(), VirtualLoop())
    assert [round(at_s) for at_s, _ in told] == [0, 10, 20]
    assert sum(notice.count for _, notice in told) == 2_000
    assert told[1][1].senders == ("member1", "member2", "member3")
    assert [line["log_level"] for line in lines if line["event"] == "request-refused"] == ["debug"] * 3
    counted = [line for line in lines if line["event"] == "requests-refused"]
    assert [line["log_level"] for line in counted] == ["info", "info"]
    assert sum(line["count"] for line in counted) == 2_000


def test_a_second_refusal_is_told_later_with_both_times() -> None:
    told: list[RefusalNotice] = []

    async def refuse_twice() -> None:
        loop = asyncio.get_running_loop()
        notices = RefusalNotices(lambda: round(loop.time() * 1000))
        notices.listeners.append(told.append)
        for _ in range(2):
            notices.add(replace(at_ms=round(loop.time() * 1000)))
            await asyncio.sleep(3)
        await asyncio.sleep(60)
        notices.close()

    def replace(at_ms: int) -> Refusal:
        return refusal()._replace(at_ms=at_ms)

    with capture_logs() as lines:
        run_in_virtual_time(refuse_twice(), VirtualLoop())
    began_ms = told[0].last.at_ms
    assert [(each.count, each.last.at_ms - began_ms, each.told_at_ms - began_ms) for each in told] == [
        (1, 0, 0),
        (1, 3_000, 10_000),
    ]
    assert [line.get("last_refused_ms_ago") for line in lines if line["event"] == "request-refused"] == [None, 7_000]


def test_invented_group_ids_are_counted_together_beyond_a_limit() -> None:
    told: list[RefusalNotice] = []

    async def storm() -> None:
        notices = RefusalNotices(lambda: 0)
        notices.listeners.append(told.append)
        for number in range(5_000):
            notices.add(refusal(group=f"invented-{number}"))
        notices.close()

    run_in_virtual_time(storm(), VirtualLoop())
    assert len(told) == MAX_KINDS + 1
    assert not told[-1].is_one_kind
    assert told[-1].count == 5_000 - MAX_KINDS


async def test_what_was_counted_is_told_when_the_cluster_closes() -> None:
    with capture_logs() as lines:
        async with running_cluster(MemoryStore(), 1) as harness:
            for _ in range(3):
                await harness.heartbeat("g", "stranger", 0)
    assert [line["count"] for line in lines if line["event"] == "requests-refused"] == [3]
