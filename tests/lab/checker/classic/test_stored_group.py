"""The lab's own fold of classic groups gives what `evolve` gives, and finds where that is wrong."""

from collections.abc import Callable
from copy import deepcopy

import pytest
from msgspec.structs import replace

from regroup.coordinator import commands as c
from regroup.coordinator.evolve import evolve
from regroup.coordinator.group import Group
from regroup.lab.checker.classic.stored_group import StoredClassicGroup
from regroup.lab.planted_bugs import folding
from regroup.lab.planted_bugs.bug import PlantedBug
from regroup.protocol.errors import ErrorCode
from tests.coordinator.group_harness import GroupHarness
from tests.coordinator.simulated_client import sync_all


def differences(harness: GroupHarness) -> list[str]:
    """What the lab's fold of all events has otherwise than the group of the harness."""
    group = StoredClassicGroup()
    for number, event in enumerate(harness.events, 1):
        group.apply(event, number)
    return list(group.differences(harness.group))


def dynamic_members_come_and_go() -> GroupHarness:
    harness = GroupHarness()
    anna, ben = harness.reach_stable("anna", "ben")
    carla = harness.client("carla")
    carla.join()
    anna.send_join()
    ben.send_join()
    sync_all([anna, ben, carla])
    anna.leave()
    harness.advance(30_000, heartbeating=[ben])
    return harness


def static_members_restart() -> GroupHarness:
    harness = GroupHarness()
    anna, ben = harness.reach_stable("anna", "ben", static=True, session_timeout_ms=120_000)
    anna.restart()
    anna.join()
    ben.send_join()
    harness.advance(70_000, heartbeating=[anna])
    return harness


def a_replacement_is_lost_in_the_sync_phase() -> GroupHarness:
    harness = GroupHarness()
    anna, ben = harness.reach_stable("anna", "ben", static=True, session_timeout_ms=45_000, rebalance_timeout_ms=3_000)
    harness.log_delays_appends = True
    former = anna.restart()
    anna.send_join()
    harness.client("carla").join()
    ben.send_join()
    harness.advance(3_000)
    harness.fail_append(ErrorCode.NOT_ENOUGH_REPLICAS)
    former.sync()
    return harness


def a_coordinator_fails_over() -> GroupHarness:
    harness = GroupHarness()
    [anna] = harness.reach_stable("anna")
    anna.commit(("foo", 0, 3))
    harness.client("ben").send_join()
    anna.send_join()
    harness.fail_over()
    return harness


def offsets_are_committed_and_deleted() -> GroupHarness:
    harness = GroupHarness()
    harness.commit(("foo", 0, 3), ("foo", 1, 4))
    harness.commit_in_transaction(7, ("foo", 0, 9))
    harness.commit(("foo", 0, 5))
    harness.end_transaction(7, committed=True)
    harness.commit_in_transaction(8, ("foo", 1, 9))
    harness.end_transaction(8, committed=True)
    harness.delete_offsets(foo=(0,))
    return harness


@pytest.mark.parametrize(
    "play",
    [
        dynamic_members_come_and_go,
        static_members_restart,
        a_replacement_is_lost_in_the_sync_phase,
        a_coordinator_fails_over,
        offsets_are_committed_and_deleted,
    ],
)
def test_both_folds_of_a_history_give_the_same_group(play: Callable[[], GroupHarness]) -> None:
    assert differences(play()) == []


def a_transaction_is_aborted() -> GroupHarness:
    harness = GroupHarness()
    harness.commit_in_transaction(7, ("foo", 0, 9))
    harness.end_transaction(7, committed=False)
    return harness


def the_group_becomes_empty() -> GroupHarness:
    harness = GroupHarness()
    harness.reach_empty()
    return harness


def rebalancing() -> GroupHarness:
    harness = GroupHarness()
    harness.reach_preparing_rebalance("anna")
    return harness


@pytest.mark.parametrize(
    ("bug", "play", "found"),
    [
        (folding.fold_commits_aborted_transactions, a_transaction_is_aborted, "the committed offsets"),
        (folding.fold_keeps_the_protocol_of_an_empty_group, the_group_becomes_empty, "the protocol"),
        (folding.fold_drops_assignments_of_a_stable_group, rebalancing, "member anna"),
        (folding.fold_dates_an_empty_group_back, the_group_becomes_empty, "since when it has its state"),
    ],
)
def test_a_wrong_fold_is_found(bug: PlantedBug, play: Callable[[], GroupHarness], found: str) -> None:
    with bug.plant():
        assert found in differences(play())


def test_a_load_forgets_pending_member_ids() -> None:
    harness = GroupHarness()
    harness.client("anna").send_join()
    harness.handle(c.LoadGroup(group_id=harness.group.group_id, at_ms=harness.now_ms))
    assert differences(harness) == []


def test_a_member_that_the_product_folds_otherwise_is_found_after_earlier_comparisons() -> None:
    harness = static_members_restart()
    group = StoredClassicGroup()
    folded = Group(group_id=harness.group.group_id)
    for number, event in enumerate(harness.events, 1):
        group.apply(event, number)
        folded = evolve(folded, event)
        assert list(group.differences(folded)) == []
        for member in folded.members.values():
            wrong = folded.with_member(replace(member, assignment=b"another"))
            assert list(deepcopy(group).differences(wrong)) == [f"member {member.member_id}"]


def test_what_the_log_holds_is_found_otherwise_after_earlier_comparisons() -> None:
    harness = dynamic_members_come_and_go()
    group = StoredClassicGroup()
    for number, event in enumerate(harness.events, 1):
        group.apply(event, number)
    metadata = harness.group.group_metadata
    assert metadata is not None
    assert list(group.differences(harness.group)) == []
    wrong = replace(harness.group, group_metadata=replace(metadata, leader_id="nobody"))
    for _ in range(2):
        assert list(group.differences(wrong)) == ["what the log holds of the generation"]
    assert list(group.differences(harness.group)) == []
