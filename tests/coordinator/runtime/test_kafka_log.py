"""The asyncio coordinator over an emulated Kafka log that is slow, or loses records."""

import asyncio

from regroup.coordinator.group import GroupState
from regroup.coordinator.runtime.kafka_log import CompleteRecord, DelayedLog
from regroup.protocol.errors import ErrorCode
from regroup.storage.memory import MemoryStore
from tests.coordinator.coordinator_harness import CoordinatorHarness, GatedStore, run_ready
from tests.coordinator.group_harness import behaviour


async def test_a_slow_log_delays_responses_and_keeps_their_order() -> None:
    harness = CoordinatorHarness(MemoryStore(), kafka_log=DelayedLog(latency_ms=700))
    await harness.coordinator.start()
    responded: list[str] = []
    harness.coordinator.submit(harness.offset_commit(1), lambda response: responded.append("first"))
    harness.coordinator.submit(harness.offset_commit(2), lambda response: responded.append("second"))
    await asyncio.sleep(0.6999)
    assert responded == []
    await asyncio.sleep(0.0002)
    assert responded == ["first", "second"]
    assert harness.group.committed_offsets["foo"][0].offset == 2
    harness.coordinator.stop()


@behaviour("sync.append-failure", "join.new-group.create-append-failure")
async def test_a_failing_log_loses_new_groups_and_assignments() -> None:
    log = DelayedLog(outcome=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    harness = CoordinatorHarness(MemoryStore(), kafka_log=log)
    await harness.coordinator.start()
    join = harness.submit(harness.join_group("anna"))
    log.complete_all()
    await run_ready()
    assert join.code is ErrorCode.NOT_COORDINATOR
    assert not harness.group.exists
    log.is_delaying = False
    harness.submit(harness.join_group("ben"))
    await asyncio.sleep(4)
    log.is_delaying = True
    sync = harness.submit(harness.sync_group("ben"))
    log.complete_all()
    await run_ready()
    assert sync.code is ErrorCode.NOT_COORDINATOR
    assert harness.group.state is GroupState.PREPARING_REBALANCE
    harness.coordinator.stop()


@behaviour("recovery.write-timeout")
async def test_a_commit_that_the_log_does_not_complete_times_out() -> None:
    log = DelayedLog()
    harness = CoordinatorHarness(MemoryStore(), kafka_log=log)
    await harness.coordinator.start()
    commit = harness.submit(harness.offset_commit(1))
    await asyncio.sleep(4.9)
    assert not commit.has_arrived
    await asyncio.sleep(0.2)
    [partition] = commit.response.topics[0].partitions
    assert partition.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    log.complete_all()
    await run_ready()
    assert harness.group.committed_offsets["foo"][0].offset == 1
    assert len(commit.responses) == 1
    harness.coordinator.stop()


async def test_a_coordinator_that_stops_refuses_requests_that_wait_for_the_log() -> None:
    log = DelayedLog()
    harness = CoordinatorHarness(MemoryStore(), kafka_log=log)
    await harness.coordinator.start()
    commit = harness.submit(harness.offset_commit(1))
    harness.coordinator.stop()
    [partition] = commit.response.topics[0].partitions
    assert partition.error_code == ErrorCode.NOT_COORDINATOR
    log.complete_all()
    await harness.coordinator.start()
    assert harness.group.committed_offsets == {}
    harness.coordinator.stop()
    assert len(commit.responses) == 1


async def test_each_record_is_handed_to_the_log_once() -> None:
    class CountingLog(DelayedLog):
        appended = 0

        def append(self, group_id: str, complete: CompleteRecord) -> None:
            self.appended += 1
            super().append(group_id, complete)

    log = CountingLog()
    harness = CoordinatorHarness(MemoryStore(), kafka_log=log)
    await harness.coordinator.start()
    for offset in (1, 2, 3):
        harness.submit(harness.offset_commit(offset))
    assert log.appended == len(harness.group.pending_appends) == 3
    log.complete_all()
    assert harness.group.pending_appends == {}
    harness.coordinator.stop()


async def test_the_completion_of_a_record_of_an_earlier_coordinator_epoch_is_ignored() -> None:
    log, store = DelayedLog(), GatedStore()
    harness = CoordinatorHarness(store, kafka_log=log)
    await harness.coordinator.start()
    store.is_full = True
    harness.submit(harness.offset_commit(1))
    await run_ready()
    store.is_full = False
    harness.journal.reopen(store)
    await harness.coordinator.start()
    harness.submit(harness.offset_commit(2))
    assert list(harness.group.pending_appends) == [2], "the number of the lost event is used again"
    log.complete_next()
    assert harness.group.committed_offsets == {}
    log.complete_next()
    assert harness.group.committed_offsets["foo"][0].offset == 2
    harness.coordinator.stop()
