"""Changes that a test forces on a group: they lead to the events that Kafka's own reasons would lead to."""

import pytest

from regroup.coordinator import commands as c
from regroup.coordinator.group import GroupState
from regroup.protocol.errors import ErrorCode
from tests.coordinator.group_driver import GROUP_ID
from tests.coordinator.group_harness import GroupHarness


def force(harness: GroupHarness, command: type[c.ForcedChange], **fields: object) -> list[str]:
    """The types of the events that the change leads to."""
    request = harness.handle(command(group_id=GROUP_ID, at_ms=harness.now_ms, **fields))
    return request.event_types


def test_a_session_ends_with_the_events_of_its_timeout() -> None:
    forced, timed_out = GroupHarness(), GroupHarness()
    _, ben = forced.reach_stable("anna", "ben")
    anna, _ = timed_out.reach_stable("anna", "ben")
    before = len(timed_out.events)
    timed_out.advance(10_000, heartbeating=[anna])
    natural = [type(event).__name__ for event in timed_out.events[before:]]
    assert force(forced, c.EndSession, member_id=ben.member_id) == natural == ["MemberRemoved", "RebalanceStarted"]
    assert forced.group.members.keys() == timed_out.group.members.keys()
    assert forced.state is timed_out.state is GroupState.PREPARING_REBALANCE


def test_a_pending_member_id_can_be_ended_too() -> None:
    harness = GroupHarness()
    request = harness.client("anna").send_join()
    assert request.code is ErrorCode.MEMBER_ID_REQUIRED
    (member_id,) = harness.group.pending_join_members
    force(harness, c.EndSession, member_id=member_id)
    assert harness.group.pending_join_members == {}


def test_a_forced_rebalance_aborts_a_sync_phase() -> None:
    harness = GroupHarness(group_initial_rebalance_delay_ms=0)
    anna = harness.client("anna", version=3)
    anna.send_join()
    harness.advance(1)
    assert harness.state is GroupState.COMPLETING_REBALANCE
    force(harness, c.StartRebalance)
    assert harness.state is GroupState.PREPARING_REBALANCE
    assert anna.sync().code is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_join_phase_that_is_ended_keeps_absent_static_members() -> None:
    harness = GroupHarness()
    anna, ben = harness.reach_stable("anna", "ben", static=True)
    force(harness, c.StartRebalance)
    anna.send_join()
    force(harness, c.CompleteJoinPhase)
    assert harness.group.members.keys() == {anna.member_id, ben.member_id}
    assert harness.state is GroupState.COMPLETING_REBALANCE


def test_a_raised_generation_is_restored_by_a_failover() -> None:
    harness = GroupHarness()
    harness.reach_stable("anna", "ben")
    generation_id = harness.generation_id
    assert force(harness, c.RaiseGeneration) == ["GenerationRaised"]
    harness.fail_over()
    assert (harness.state, harness.generation_id) == (GroupState.STABLE, generation_id + 1)


def test_forgotten_offsets_may_be_of_subscribed_topics() -> None:
    harness = GroupHarness()
    (anna,) = harness.reach_stable("anna")
    anna.commit(("foo", 0, 7))
    assert force(harness, c.ForgetOffsets, partitions={"foo": (0, 9)}) == ["OffsetsDeleted"]
    assert harness.group.committed_offsets == {}


@pytest.mark.parametrize(
    "command",
    [c.StartRebalance, c.CompleteJoinPhase, c.RaiseGeneration, c.ForgetOffsets],
)
def test_a_change_that_does_not_fit_leads_to_no_event(command: type[c.ForcedChange]) -> None:
    harness = GroupHarness()
    assert force(harness, command) == []
    assert force(harness, c.EndSession, member_id="nobody") == []
    assert harness.state is GroupState.DEAD
