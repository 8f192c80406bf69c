"""A sync phase removes no member that has synced, and a join phase ends with the last member that was missing."""

from msgspec.structs import replace

from regroup.coordinator import commands as c
from regroup.coordinator.group import AwaitedResponse, Group, GroupState, PendingJoinMember
from regroup.lab.checker.acknowledgements import AcknowledgedAssignments
from regroup.lab.checker.classic.phases import (
    a_join_phase_ends_with_the_last_missing_member,
    a_member_that_has_synced_stays,
)
from tests.lab.checker.checker_harness import GROUP, CheckerHarness
from tests.lab.checker.made_exchanges import checker_state, made_exchange


def deadline(kind: c.DeadlineKind, member_id: str = "") -> c.DeadlinePassed:
    return c.DeadlinePassed(group_id=GROUP, at_ms=1, kind=kind, member_id=member_id)


def without(group: Group, member_id: str) -> Group:
    return replace(group, members={name: each for name, each in group.members.items() if name != member_id})


async def test_a_member_that_is_removed_although_it_has_synced_is_found() -> None:
    harness, state = CheckerHarness(), checker_state()
    await harness.stabilize("anna", "ben")
    group, ended = harness.group, deadline(c.DeadlineKind.SYNC_PHASE)
    state.acknowledgements.assignments[GROUP] = AcknowledgedAssignments(group.generation_id, {"anna": b"all"})
    found = a_member_that_has_synced_stays(state, made_exchange(ended, group, without(group, "anna")))
    assert found == "anna had got an assignment in generation 1"
    assert a_member_that_has_synced_stays(state, made_exchange(ended, group, without(group, "ben"))) is None
    later = replace(group, generation_id=2)
    assert a_member_that_has_synced_stays(state, made_exchange(ended, later, without(later, "anna"))) is None


async def test_a_join_phase_that_goes_on_without_a_missing_member_is_found() -> None:
    harness, state = CheckerHarness(), checker_state()
    await harness.stabilize("anna", "ben", "carla")
    harness.join(member_id="anna")
    group, expired = harness.group, deadline(c.DeadlineKind.SESSION, "ben")
    assert group.state is GroupState.PREPARING_REBALANCE
    one_is_missing = made_exchange(expired, group, without(group, "ben"))
    assert a_join_phase_ends_with_the_last_missing_member(state, one_is_missing) is None
    before = without(group, "carla")
    found = a_join_phase_ends_with_the_last_missing_member(
        state, made_exchange(expired, before, without(before, "ben"))
    )
    assert found == "ben is gone, and all others have joined"


async def test_a_join_phase_that_goes_on_after_its_last_member_has_joined_is_found_but_for_the_initial_delay() -> None:
    harness, state = CheckerHarness(), checker_state()
    await harness.stabilize("anna", "ben")
    harness.join(member_id="anna")
    before = harness.group
    assert before.join_phase is not None
    members = {name: replace(each, awaiting=AwaitedResponse.JOIN) for name, each in before.members.items()}
    after, ends = replace(before, members=members), a_join_phase_ends_with_the_last_missing_member
    ended = deadline(c.DeadlineKind.JOIN_PHASE)
    assert ends(state, made_exchange(ended, before, after)) == "all members have joined"
    assert ends(state, made_exchange(ended, after, after)) is None
    initial = replace(after, join_phase=replace(before.join_phase, is_initial=True))
    assert ends(state, made_exchange(ended, before, initial)) is None
    expired = deadline(c.DeadlineKind.SESSION, "ben")
    assert ends(state, made_exchange(expired, before, without(initial, "ben"))) is not None
    waiting = replace(after, pending_join_members={"carla": PendingJoinMember(session_timeout_ms=1, added_at_ms=1)})
    assert ends(state, made_exchange(ended, before, waiting)) is None


async def test_a_join_phase_goes_on_when_a_member_that_joins_is_removed() -> None:
    harness, state = CheckerHarness(), checker_state()
    await harness.stabilize("anna", "ben")
    harness.join(member_id="anna")
    join = harness.join_command(member_id="anna")
    group, ends = harness.group, a_join_phase_ends_with_the_last_missing_member
    assert ends(state, made_exchange(join, group, without(group, "ben"))) is None
    carla = {"carla": PendingJoinMember(session_timeout_ms=1, added_at_ms=1)}
    with_carla = replace(without(group, "ben"), pending_join_members=carla)
    assert ends(state, made_exchange(join, with_carla, without(group, "ben"))) is None
    commit = c.CompleteAppend(group_id=GROUP, at_ms=1, append_number=1)
    assert ends(state, made_exchange(commit, group, without(group, "ben"))) is None, "it is not by this that it ends"
    leave = c.LeaveGroup(group_id=GROUP, at_ms=1, members=())
    assert ends(state, made_exchange(leave, group, without(group, "ben"))) == "ben is gone, and all others have joined"
