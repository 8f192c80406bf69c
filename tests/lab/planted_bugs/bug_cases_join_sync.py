"""Cases of bugs in the join and sync phases."""

from typing import Any

from regroup.coordinator import commands as c
from regroup.coordinator.group import GroupState
from regroup.lab.planted_bugs import joining, responses, syncing
from regroup.protocol.errors import ErrorCode as E
from regroup.server.log.partition_log import PartitionLog
from tests.coordinator.group_harness import GroupHarness
from tests.coordinator.simulated_client import sync_all
from tests.lab.planted_bugs.bug_cases import bug_case


@bug_case(joining.unknown_member_is_let_in, expected=E.UNKNOWN_MEMBER_ID, with_bug=None)
def an_unknown_member_joins() -> Any:
    harness = GroupHarness()
    harness.reach_stable("anna")
    asked = harness.client("mallory", member_id="mallory-1").send_join()
    return None if asked.is_pending else asked.code


@bug_case(joining.full_group_takes_one_more, expected=E.GROUP_MAX_SIZE_REACHED, with_bug=None)
def a_third_member_joins_a_full_group() -> Any:
    harness = GroupHarness(group_max_size=2)
    harness.reach_stable("anna", "ben")
    asked = harness.client("carla").join()
    return None if asked.is_pending else asked.code


@bug_case(joining.protocol_of_the_first_member, expected="roundrobin", with_bug="range")
def one_of_two_members_does_not_support_range() -> Any:
    harness = GroupHarness()
    anna = harness.client("anna")
    ben = harness.client("ben", protocol_names=("roundrobin",))
    anna.join()
    ben.join()
    harness.advance(6_000)
    return harness.group.protocol_name


@bug_case(joining.stable_group_ignores_rejoins, expected=GroupState.PREPARING_REBALANCE, with_bug=GroupState.STABLE)
def the_leader_joins_again() -> Any:
    harness = GroupHarness()
    anna, _ = harness.reach_stable("anna", "ben")
    anna.send_join()
    return harness.state


@bug_case(joining.two_leaders, expected=["ben"], with_bug=["ben", "carla"])
def the_leader_of_three_leaves() -> Any:
    harness = GroupHarness()
    anna, *others = harness.reach_stable("anna", "ben", "carla")
    anna.leave()
    for each in others:
        each.send_join()
    return [each.name for each in others if each.is_leader]


@bug_case(joining.no_leader_after_the_leader_leaves, expected="ben", with_bug=None)
def the_leader_of_two_leaves() -> Any:
    harness = GroupHarness()
    anna, _ = harness.reach_stable("anna", "ben")
    anna.leave()
    return harness.group.leader_id


@bug_case(joining.member_that_did_not_join_is_kept, expected=["anna", "carla"], with_bug=["anna", "ben", "carla"])
def one_member_does_not_join_again() -> Any:
    harness = GroupHarness()
    anna, ben, _ = harness.reach_preparing_rebalance("anna", "ben")
    anna.send_join()
    harness.advance(60_000, heartbeating=[ben])
    return harness.member_ids


@bug_case(joining.emptied_group_keeps_its_generation, expected=2, with_bug=1)
def the_only_member_leaves() -> Any:
    harness = GroupHarness()
    [anna] = harness.reach_stable("anna")
    anna.leave()
    return harness.generation_id


@bug_case(joining.held_join_is_forgotten, expected=[False, False], with_bug=[False, True])
def two_members_wait_for_a_generation() -> Any:
    harness = GroupHarness()
    asked = [harness.client(name).join() for name in ("anna", "ben")]
    harness.advance(6_000)
    return [each.is_pending for each in asked]


@bug_case(joining.resent_join_is_answered_twice, expected=1, with_bug=2)
def a_join_is_sent_again() -> Any:
    harness = GroupHarness()
    anna = harness.client("anna")
    responses = []
    anna.join()
    again = anna.send_join()
    again.on_response = responses.append
    harness.advance(6_000)
    return len(responses)


@bug_case(syncing.sync_ignores_the_generation, expected=E.ILLEGAL_GENERATION, with_bug=E.NONE)
def a_sync_names_an_older_generation() -> Any:
    harness = GroupHarness()
    _, ben = harness.reach_stable("anna", "ben")
    return ben.sync(generation_id=1).code


@bug_case(syncing.follower_gets_an_empty_assignment, expected=None, with_bug=b"")
def a_follower_syncs_first() -> Any:
    harness = GroupHarness()
    _, ben = harness.reach_completing_rebalance("anna", "ben")
    asked = ben.sync()
    return None if asked.is_pending else asked.response.assignment


@bug_case(syncing.follower_gets_its_former_assignment, expected=None, with_bug=b"assignment of ben")
def a_follower_syncs_first_in_a_later_generation() -> Any:
    harness = GroupHarness()
    anna, ben, _ = harness.reach_preparing_rebalance("anna", "ben")
    anna.send_join()
    ben.send_join()
    asked = ben.sync()
    return None if asked.is_pending else asked.response.assignment


@bug_case(syncing.held_sync_is_forgotten, expected=False, with_bug=True)
def a_rebalance_interrupts_a_held_sync() -> Any:
    harness = GroupHarness()
    _, ben = harness.reach_completing_rebalance("anna", "ben")
    asked = ben.sync()
    harness.client("carla").join()
    return asked.is_pending


@bug_case(
    syncing.assignment_precedes_the_kafka_log, expected=GroupState.COMPLETING_REBALANCE, with_bug=GroupState.STABLE
)
def the_kafka_log_is_delayed() -> Any:
    harness = GroupHarness()
    consumers = harness.reach_completing_rebalance("anna", "ben")
    harness.log_delays_appends = True
    sync_all(consumers)
    return harness.state


@bug_case(responses.leave_response_names_no_member, expected=1, with_bug=0)
def a_member_that_leaves_is_named() -> Any:
    harness = GroupHarness()
    [anna] = harness.reach_stable("anna")
    response: Any = harness.remove_members(c.LeavingMember(anna.member_id)).response
    return len(response.members)


@bug_case(responses.description_leaves_a_member_out, expected=2, with_bug=1)
def a_group_of_two_is_described() -> Any:
    harness = GroupHarness()
    harness.reach_stable("anna", "ben")
    return len(harness.describe_group().members)


@bug_case(responses.stable_fetch_returns_older_offsets, expected={("foo", 0): 200}, with_bug={("foo", 0): 100})
def a_stable_fetch_waits_for_the_log() -> Any:
    harness = GroupHarness()
    harness.commit(("foo", 0, 100))
    harness.log_delays_appends = True
    harness.commit(("foo", 0, 200))
    fetch = harness.fetch_stable(foo=(0,))
    harness.complete_append()
    return fetch.offsets


@bug_case(responses.fetch_leaves_the_first_batch_out, expected=[3, 2], with_bug=[2, 2])
def three_batches_are_read_and_then_two() -> Any:
    log = PartitionLog(leader_epoch=0, retention_bytes=-1)
    for _ in range(3):
        log.append_marker(1, 0, committed=True, at_ms=0)
    return [len(log.read(each, before=3, max_bytes=1_000, at_least_one=True)) for each in (0, 1)]
