"""Simulated members that read, process and commit records."""

import asyncio

import pytest

from regroup.members.consumer.effects import (
    CommitCompleted,
)
from regroup.members.consumer.state import MemberState
from regroup.members.faults import parse_fault
from regroup.members.runtime.notes import RequestRefused
from regroup.members.runtime.workload import Workload
from tests.members.runtime.group_of_members import group_of_members


async def test_records_in_processing_are_dropped_at_a_restart() -> None:
    async with group_of_members(partitions=1) as group:
        workload = Workload(records_per_s=10, process_ms=5_000, max_poll_records=1)
        producer = group.produce(workload)
        anna = group.add("anna", "restart:1s@20s", workload=workload)
        await asyncio.sleep(20)
        before = anna.view.processed_count
        await asyncio.sleep(10)
        assert anna.view.state is MemberState.PREPARING_REBALANCE
        assert anna.view.processed_count == before
        producer.close()


async def test_an_application_unsubscribes_when_it_has_processed_its_batch() -> None:
    async with group_of_members(partitions=1) as group:
        workload = Workload(records_per_s=10, process_ms=5_000, max_poll_records=1)
        producer = group.produce(workload)
        anna = group.add("anna", workload=workload)
        await asyncio.sleep(20)
        before = anna.view.processed_count
        anna.unsubscribe()
        assert group.assigned_counts() == {"anna": 1}
        await asyncio.sleep(10)
        assert group.assigned_counts() == {"anna": 0}
        assert anna.view.processed_count == before + 1
        producer.close()


async def test_an_application_that_was_elsewhere_does_not_poll_before_it_has_processed_its_batch() -> None:
    async with group_of_members(partitions=1) as group:
        workload = Workload(records_per_s=10, process_ms=20_000, max_poll_records=1)
        producer = group.produce(workload)
        anna = group.add("anna", workload=workload)
        await asyncio.sleep(15)
        assert 0 < anna.outside_poll_ms < 15_000
        anna.inject_fault(parse_fault("no-poll:1s"))
        before_ms = anna.outside_poll_ms
        await asyncio.sleep(2)
        assert anna.outside_poll_ms == before_ms + 2_000
        producer.close()


async def test_a_zombie_processes_one_batch_at_a_time() -> None:
    async with group_of_members(partitions=1) as group:
        workload = Workload(records_per_s=10, process_ms=1_000, max_poll_records=1)
        producer = group.produce(workload)
        anna = group.add("anna", "zombie@10s", workload=workload)
        await asyncio.sleep(10 + 95)
        before = anna.view.processed_count
        await asyncio.sleep(20)
        assert 15 < anna.view.processed_count - before <= 21
        producer.close()


async def test_a_process_that_was_restarted_in_the_middle_of_a_batch_processes_records_again() -> None:
    async with group_of_members(partitions=1) as group:
        workload = Workload(records_per_s=10, process_ms=1_000, max_poll_records=1)
        producer = group.produce(workload)
        anna = group.add("anna", "restart:1s@10s", workload=workload)
        await asyncio.sleep(11 + 60)
        before = anna.view.processed_count
        await asyncio.sleep(20)
        assert anna.view.processed_count - before > 15
        producer.close()


async def test_the_commits_of_a_zombie_are_refused_with_unknown_member_id() -> None:
    async with group_of_members() as group:
        workload = Workload(records_per_s=10)
        group.add("anna", workload=workload)
        zombie = group.add("ben", "zombie@20s", workload=workload)
        await asyncio.sleep(20 + 80)
        producer = group.produce(workload)
        await asyncio.sleep(20)
        producer.close()
        assert len(group.members["anna"].consumer.assigned_partitions) == 6
        assert zombie.view.condition == "zombie"
        assert zombie.view.last_error == "commit: UNKNOWN_MEMBER_ID"
        assert group.notes[-1] == ("ben", RequestRefused("OffsetCommit", "UNKNOWN_MEMBER_ID"))
        assert group.ledger.counts.duplicates > 50


async def test_a_partition_that_is_assigned_to_two_members_is_processed_twice() -> None:
    async with group_of_members() as group:
        workload = Workload(records_per_s=50, keys=12)
        for name in ("anna", "ben"):
            group.add(name, "assignor-doubles", workload=workload)
        producer = group.produce(workload)
        await asyncio.sleep(20)
        producer.close()
        await asyncio.sleep(2)
        assert producer.refused_count == 0
        assert group.reports_of("anna", CommitCompleted)
        assert 0 < group.ledger.counts.duplicates < producer.acknowledged_count


async def test_every_record_is_processed_once_without_faults() -> None:
    async with group_of_members() as group:
        workload = Workload(records_per_s=50)
        for name in ("anna", "ben"):
            group.add(name, workload=workload)
        await asyncio.sleep(5)
        producer = group.produce(workload)
        await asyncio.sleep(20)
        producer.close()
        await asyncio.sleep(2)
        tally = group.ledger.counts
        assert (tally.processed, tally.duplicates, tally.late, tally.skipped) == (producer.acknowledged_count, 0, 0, 0)
        assert producer.acknowledged_count == producer.sent_count > 900


async def test_an_eager_member_processes_no_records_while_it_commits_before_it_revokes() -> None:
    async with group_of_members() as group:
        group.commit_delay_s = 1.5
        eager = {"partition_assignment_strategy": ("range",), "heartbeat_interval_ms": 100}
        workload = Workload(records_per_s=50)
        producer = group.produce(workload)
        for name in ("anna", "ben", "carla"):
            group.add(name, workload=workload, **eager)
            await asyncio.sleep(7)
        assert group.assigned_counts() == {"anna": 2, "ben": 2, "carla": 2}
        producer.close()
        await asyncio.sleep(5)
        tally = group.ledger.counts
        assert (tally.processed, tally.duplicates, tally.skipped) == (producer.acknowledged_count, 0, 0)


async def test_records_that_a_closed_member_has_not_completed_are_processed_by_the_next_owner() -> None:
    async with group_of_members(partitions=1) as group:
        group.commit_delay_s = 1.5
        workload = Workload(records_per_s=10, process_ms=1_000, max_poll_records=1)
        producer = group.produce(workload)
        anna = group.add("anna", workload=workload)
        await asyncio.sleep(10.5)
        before = anna.view.processed_count
        await anna.close()
        producer.close()
        assert anna.view.processed_count == before > 3
        group.add("ben", workload=Workload())
        await asyncio.sleep(10)
        tally = group.ledger.counts
        assert (tally.processed, tally.duplicates, tally.skipped) == (producer.acknowledged_count, 0, 0)


async def test_the_same_run_gives_the_same_reports() -> None:
    runs = []
    for _ in range(2):
        async with group_of_members() as group:
            group.add("anna", "pause:60s@20s")
            group.add("ben", "slow-sync:1s")
            group.add("carla", "leave@40s")
            await asyncio.sleep(150)
            runs.append(list(group.reports))
    assert runs[0] == runs[1]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_member_fetches_again_when_it_has_begun_with_the_last_record_that_it_has(protocol: str) -> None:
    """It joins in at most three seconds, and processes three records for ten seconds each; poll() returns two first."""
    async with group_of_members(partitions=1) as group:
        producer = group.produce(Workload(records_per_s=1))
        await asyncio.sleep(3.5)
        producer.close()
        workload = Workload(process_ms=10_000, max_poll_records=2)
        anna = (
            group.add("anna", workload=workload)
            if protocol == "classic"
            else group.add_of_consumer_protocol("anna", workload)
        )
        await asyncio.sleep(15)
        assert (group.fetch_count, anna.view.processed_count) == (1, 0)
        await asyncio.sleep(12)
        assert anna.view.processed_count == 2
        assert group.fetch_count > 1


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("process_ms", [0, 3_000])
async def test_a_member_reads_a_topic_that_is_created_again_from_its_beginning(protocol: str, process_ms: int) -> None:
    async with group_of_members(partitions=1) as group:
        workload = Workload(records_per_s=2, process_ms=process_ms, max_poll_records=1)
        producer = group.produce(workload)
        anna = (
            group.add("anna", workload=workload)
            if protocol == "classic"
            else group.add_of_consumer_protocol("anna", workload)
        )
        await asyncio.sleep(20)
        group.delete_topic()
        await asyncio.sleep(60)
        before = anna.view.processed_count
        await asyncio.sleep(60)
        producer.close()
        assert anna.view.processed_count >= before + 19


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_zombie_goes_on_reading(protocol: str) -> None:
    async with group_of_members(partitions=1) as group:
        workload = Workload(records_per_s=10)
        producer = group.produce(workload)
        zombie = (
            group.add("anna", "zombie@15s", workload=workload)
            if protocol == "classic"
            else group.add_of_consumer_protocol("anna", workload, "zombie@15s")
        )
        await asyncio.sleep(15 + 100)
        before = zombie.view.processed_count
        await asyncio.sleep(20)
        producer.close()
        assert zombie.view.processed_count - before > 190
