"""Simulated members with faults, in a group that reads no records or few."""

import asyncio

from regroup.members.consumer.effects import (
    ConsumerError,
    ConsumerErrorKind,
    JoinedGroup,
    LeftGroup,
    PartitionsLost,
)
from regroup.members.consumer.state import MemberState
from regroup.members.faults import parse_fault
from regroup.members.runtime.notes import FaultBegan, RequestRefused
from regroup.members.runtime.workload import Workload
from tests.members.runtime.group_of_members import group_of_members


async def test_members_share_a_topic_and_one_that_closes_leaves_the_group() -> None:
    async with group_of_members() as group:
        for name in ("anna", "ben", "carla"):
            group.add(name)
        await asyncio.sleep(10)
        assert group.assigned_counts() == {"anna": 2, "ben": 2, "carla": 2}
        assert {member.view.state for member in group.members.values()} == {MemberState.STABLE}
        await group.members["ben"].close()
        await asyncio.sleep(10)
        assert group.assigned_counts() == {"anna": 3, "ben": 0, "carla": 3}
        assert group.members["ben"].view.condition == "left"


async def test_a_crashed_member_is_removed_after_its_session_timeout() -> None:
    async with group_of_members() as group:
        group.add("anna")
        group.add("ben", "crash@20s")
        await asyncio.sleep(20 + 40)
        assert group.assigned_counts() == {"anna": 3, "ben": 3}
        await asyncio.sleep(15)
        assert len(group.members["anna"].consumer.assigned_partitions) == 6


async def test_a_pause_longer_than_the_session_timeout_loses_the_partitions_and_a_shorter_one_does_not() -> None:
    for pause, loses_partitions in (("pause:20s@20s", False), ("pause:60s@20s", True)):
        async with group_of_members() as group:
            group.add("anna")
            group.add("ben", pause)
            await asyncio.sleep(120)
            assert bool(group.reports_of("ben", PartitionsLost)) is loses_partitions
            assert group.assigned_counts() == {"anna": 3, "ben": 3}


async def test_a_refused_request_is_noted_once() -> None:
    async with group_of_members() as group:
        group.add("anna")
        group.add("ben", "pause:60s@20s")
        await asyncio.sleep(120)
        assert group.notes.count(("ben", RequestRefused("Heartbeat", "UNKNOWN_MEMBER_ID"))) == 1


async def test_a_lasting_fault_is_noted_when_it_begins() -> None:
    async with group_of_members() as group:
        fault = parse_fault("slow-sync:1s@20s")
        group.add("anna", str(fault))
        await asyncio.sleep(19)
        assert group.notes == []
        await asyncio.sleep(2)
        assert group.notes == [("anna", FaultBegan(fault))]


async def test_a_member_that_joins_late_delays_the_rebalance_and_stays_in_the_group() -> None:
    async with group_of_members() as group:
        group.add("anna", "slow-join:60s@20s")
        await asyncio.sleep(30)
        group.add("ben")
        await asyncio.sleep(55)
        assert group.assigned_counts() == {"anna": 6, "ben": 0}
        await asyncio.sleep(20 + 60)
        assert group.assigned_counts() == {"anna": 3, "ben": 3}
        assert not group.reports_of("anna", PartitionsLost)


async def test_a_pause_can_be_ended_before_its_time() -> None:
    async with group_of_members() as group:
        group.add("anna")
        ben = group.add("ben", "pause:1h@20s")
        await asyncio.sleep(30)
        assert ben.view.condition == "paused"
        ben.resume()
        assert ben.view.condition == ""
        await asyncio.sleep(3600)
        assert not group.reports_of("ben", PartitionsLost)
        assert group.assigned_counts() == {"anna": 3, "ben": 3}


async def test_the_end_of_an_earlier_pause_does_not_end_a_later_one() -> None:
    async with group_of_members() as group:
        ben = group.add("ben")
        await asyncio.sleep(20)
        ben.inject_fault(parse_fault("pause:10s"))
        ben.resume()
        ben.inject_fault(parse_fault("pause:30s"))
        await asyncio.sleep(20)
        assert ben.view.condition == "paused"
        await asyncio.sleep(20)
        assert ben.view.condition == ""


async def test_a_member_that_is_not_paused_cannot_be_resumed() -> None:
    async with group_of_members() as group:
        ben = group.add("ben", "zombie@20s")
        await asyncio.sleep(30)
        ben.resume()
        assert (ben.view.condition, ben.is_zombie) == ("zombie", True)


async def test_a_zombie_that_is_to_pause_stays_a_zombie_and_closes() -> None:
    async with group_of_members() as group:
        ben = group.add("ben", "zombie@20s", session_timeout_ms=10_000)
        await asyncio.sleep(60)
        ben.inject_fault(parse_fault("pause:5s"))
        assert ben.view.condition == "zombie"
        await asyncio.sleep(10)
        assert ben.view.condition == "zombie"
        async with asyncio.timeout(10):
            await ben.close()


async def test_a_member_whose_process_restarts_while_it_closes_is_closed_all_the_same() -> None:
    async with group_of_members() as group:
        group.commit_delay_s = 2.0  # close() commits first
        ben = group.add("ben", "restart:3s@21s", workload=Workload())
        await asyncio.sleep(20.5)
        async with asyncio.timeout(10):
            await ben.close()
        requests = group.request_count
        await asyncio.sleep(20)
        assert group.request_count == requests


async def test_a_lasting_fault_that_has_ended_delays_no_further_rebalance() -> None:
    async with group_of_members() as group:
        anna = group.add("anna", "slow-join:60s@20s")
        await asyncio.sleep(30)
        anna.end_fault(parse_fault("slow-join:60s").kind)
        group.add("ben")
        await asyncio.sleep(15)
        assert group.assigned_counts() == {"anna": 3, "ben": 3}


async def test_a_member_that_syncs_late_gets_its_partitions_late() -> None:
    async with group_of_members() as group:
        group.add("anna", "slow-sync:10s")
        await asyncio.sleep(12)
        assert group.assigned_counts() == {"anna": 0}
        await asyncio.sleep(5)
        assert group.assigned_counts() == {"anna": 6}


async def test_a_lasting_fault_is_reported_when_it_begins() -> None:
    async with group_of_members() as group:
        group.add("anna", "slow-sync:10s@after-assigned+5s")
        await asyncio.sleep(1)
        assert group.notes == []
        await asyncio.sleep(12)
        assert group.notes == [("anna", FaultBegan(parse_fault("slow-sync:10s@after-assigned+5s")))]


async def test_a_refused_heartbeat_is_reported() -> None:
    async with group_of_members() as group:
        group.add("anna", "pause:60s@20s")
        await asyncio.sleep(90)
        assert ("anna", RequestRefused("Heartbeat", "UNKNOWN_MEMBER_ID")) in group.notes


async def test_a_member_that_never_syncs_gets_no_partitions() -> None:
    async with group_of_members() as group:
        group.add("anna", "never-sync")
        await asyncio.sleep(200)
        assert group.assigned_counts() == {"anna": 0}
        assert group.reports_of("anna", JoinedGroup)


async def test_a_static_member_restarts_without_a_rebalance_unless_it_loses_its_instance_id() -> None:
    for fault, generations in (("restart:10s@20s", 1), ("restart-as-stranger:10s@20s", 2)):
        async with group_of_members() as group:
            group.add("anna", group_instance_id="a")
            group.add("ben", fault, group_instance_id="b")
            await asyncio.sleep(100)
            assert len(group.reports_of("anna", JoinedGroup)) == generations
            if generations == 1:
                assert group.assigned_counts() == {"anna": 3, "ben": 3}


async def test_a_member_that_restarts_sends_nothing_until_its_next_process_starts() -> None:
    async with group_of_members(partitions=1) as group:
        group.add("anna", "restart:5s@20s", workload=Workload(records_per_s=0))
        await asyncio.sleep(20.1)
        before = group.request_count
        await asyncio.sleep(4.8)
        assert group.request_count == before
        await asyncio.sleep(1)
        assert group.request_count > before


async def test_a_member_that_unsubscribes_owns_nothing_until_it_subscribes_again() -> None:
    async with group_of_members() as group:
        anna, _ = group.add("anna"), group.add("ben")
        await asyncio.sleep(10)
        anna.unsubscribe()
        await asyncio.sleep(10)
        assert group.assigned_counts() == {"anna": 0, "ben": 6}
        anna.subscribe()
        await asyncio.sleep(10)
        assert group.assigned_counts() == {"anna": 3, "ben": 3}


async def test_a_leader_whose_assignor_fails_stays_in_the_group_and_its_polls_raise_the_error() -> None:
    async with group_of_members() as group:
        group.add("anna", "assignor-fails")
        await asyncio.sleep(30)
        errors = group.reports_of("anna", ConsumerError)
        assert len(errors) > 10
        assert {error.kind for error in errors} == {ConsumerErrorKind.ASSIGNOR}
        assert not group.reports_of("anna", LeftGroup)


async def test_an_application_is_outside_poll_after_an_error_until_it_polls_again() -> None:
    async with group_of_members() as group:
        anna = group.add("anna", "assignor-fails")
        await asyncio.sleep(30)
        found_ms = []
        for _ in range(20):
            await asyncio.sleep(0.1)
            found_ms.append(anna.outside_poll_ms)
        assert 800 < max(found_ms) <= 1_000, "it polls again a second after each error"


async def test_a_member_without_an_assignment_fails_in_poll_and_the_others_go_on() -> None:
    async with group_of_members() as group:
        for name in ("anna", "ben", "carla"):
            group.add(name, "assignor-forgets")
        await asyncio.sleep(10)
        assert sorted(group.assigned_counts().values()) == [0, 2, 2]
        (unassigned,) = [name for name, count in group.assigned_counts().items() if not count]
        assert group.reports_of(unassigned, ConsumerError)[0].kind is ConsumerErrorKind.ASSIGNMENT
