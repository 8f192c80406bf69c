"""How long a join phase lasts: the initial delay, and the rebalance timeout."""

from regroup.coordinator.commands import DeadlineKind, LeavingMember
from regroup.coordinator.events import JoinPhaseExtended
from regroup.coordinator.group import GroupState
from regroup.protocol.errors import ErrorCode
from tests.coordinator.group_driver import START_MS
from tests.coordinator.group_harness import GroupHarness, behaviour
from tests.coordinator.simulated_client import sync_all


@behaviour("timeout.initial-delay.basic")
def test_the_first_rebalance_waits_for_more_members() -> None:
    harness = GroupHarness()
    request = harness.client("anna", version=3).send_join()
    harness.advance(1_500)
    assert request.is_pending
    harness.advance(1_500)
    assert (request.code, request.response.generation_id) == (ErrorCode.NONE, 1)
    assert request.responded_at_ms == START_MS + 3_000
    assert harness.state is GroupState.COMPLETING_REBALANCE


@behaviour("timeout.initial-delay.zero")
def test_without_an_initial_delay_the_generation_starts_at_once() -> None:
    harness = GroupHarness(group_initial_rebalance_delay_ms=0)
    request = harness.client("anna", version=3).send_join()
    assert request.is_pending
    harness.advance(0)
    assert request.response.generation_id == 1


def test_without_an_initial_delay_a_second_new_member_extends_nothing() -> None:
    harness = GroupHarness(group_initial_rebalance_delay_ms=0)
    requests = [harness.client(name, version=3).send_join() for name in ("anna", "ben")]
    harness.advance(1)
    assert [request.responded_at_ms for request in requests] == [START_MS, START_MS]
    assert harness.generation_id == 1


@behaviour("timeout.initial-delay.extended-by-new-member")
def test_new_members_extend_the_initial_delay() -> None:
    harness = GroupHarness()
    anna = harness.client("anna", version=3, rebalance_timeout_ms=9_000)
    ben = harness.client("ben", version=3, rebalance_timeout_ms=9_000)
    first = anna.send_join()
    harness.advance(2_999)
    second = ben.send_join()
    harness.advance(10_000)
    assert (first.responded_at_ms, second.responded_at_ms) == (START_MS + 6_000, START_MS + 6_000)


@behaviour("timeout.initial-delay.capped-by-rebalance-timeout")
def test_the_initial_delay_is_extended_to_the_rebalance_timeout_at_most() -> None:
    harness = GroupHarness()
    anna, ben, carla = (
        harness.client(name, version=3, rebalance_timeout_ms=6_000) for name in ("anna", "ben", "carla")
    )
    requests = [anna.send_join(), ben.send_join()]
    harness.advance(3_001)
    requests.append(carla.send_join())
    harness.advance(2_999)
    assert [request.responded_at_ms for request in requests] == [START_MS + 6_000] * 3
    assert harness.generation_id == 1


def test_a_new_member_that_extended_nothing_extends_the_next_initial_delay() -> None:
    harness = GroupHarness()
    names = ("anna", "ben", "carla", "dora")
    anna, ben, carla, dora = (harness.client(name, version=3, rebalance_timeout_ms=5_000) for name in names)
    requests = [anna.send_join(), ben.send_join()]
    harness.advance(3_001)
    requests.append(carla.send_join())
    harness.advance(1_999)
    assert [request.responded_at_ms for request in requests] == [START_MS + 5_000] * 3
    for consumer in (anna, ben, carla):
        consumer.leave()
    assert harness.state is GroupState.EMPTY
    request = dora.send_join()
    harness.advance(10_000)
    assert request.responded_at_ms == START_MS + 10_000


@behaviour("timeout.initial-delay.not-cut-short-when-everybody-joined")
def test_the_initial_delay_does_not_end_when_every_member_has_joined() -> None:
    harness = GroupHarness()
    anna = harness.client("anna", version=3)
    anna.send_join()
    anna.member_id = "anna"
    harness.advance(1_000)
    again = anna.send_join()
    harness.advance(1_999)
    assert again.is_pending
    harness.advance(1)
    assert again.code is ErrorCode.NONE


@behaviour("timeout.initial-delay.cut-short-by-member-expiry")
def test_the_initial_delay_ends_when_the_member_that_is_missing_expires() -> None:
    """A member that was seen before its first generation has its session timeout, and not five minutes."""
    harness = GroupHarness(group_initial_rebalance_delay_ms=600_000)
    anna, ben = harness.client("anna"), harness.client("ben", version=3)
    lost = anna.join()
    harness.advance(1)
    anna.heartbeat(generation_id=0)
    harness.advance(4_000)
    request = ben.send_join()
    harness.advance(5_999)
    assert (lost.is_pending, request.is_pending) == (True, True)
    harness.advance(1)
    assert (lost.code, request.code) == (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE)
    assert (harness.state, harness.generation_id) == (GroupState.COMPLETING_REBALANCE, 1)


@behaviour("timeout.initial-delay.cut-short-by-member-expiry")
def test_the_initial_delay_ends_when_no_member_is_left() -> None:
    harness = GroupHarness(group_initial_rebalance_delay_ms=600_000)
    request = harness.client("anna", version=3).send_join()
    harness.advance(299_999)
    assert request.is_pending
    harness.advance(1)
    assert request.code is ErrorCode.UNKNOWN_MEMBER_ID
    assert (harness.state, harness.generation_id) == (GroupState.EMPTY, 1)


def test_the_initial_delay_continues_while_a_pending_member_id_is_left() -> None:
    harness = GroupHarness(group_initial_rebalance_delay_ms=600_000)
    harness.client("anna", version=3).send_join()
    harness.advance(299_000)
    harness.client("ben", session_timeout_ms=6_000).send_join()
    harness.advance(1_000)
    assert (harness.state, len(harness.group.members)) == (GroupState.PREPARING_REBALANCE, 0)
    harness.advance(5_000)
    assert (harness.state, harness.generation_id) == (GroupState.EMPTY, 1)


def test_the_initial_delay_ends_when_the_last_pending_member_id_expires() -> None:
    harness = GroupHarness()
    harness.client("ben", session_timeout_ms=6_000).send_join()
    harness.advance(5_000)
    request = harness.client("anna", version=3).send_join()
    harness.advance(999)
    assert request.is_pending
    harness.advance(1)
    assert request.code is ErrorCode.NONE, "as in Kafka, before the end of the delay"
    assert (harness.state, harness.generation_id, harness.member_ids) == (GroupState.COMPLETING_REBALANCE, 1, ["anna"])


def test_the_initial_delay_goes_on_when_a_pending_member_id_expires_and_another_remains() -> None:
    harness = GroupHarness()
    harness.client("ben", session_timeout_ms=6_000).send_join()
    harness.client("carla", session_timeout_ms=10_000).send_join()
    harness.advance(5_000)
    request = harness.client("anna", version=3).send_join()
    harness.advance(1_000)
    assert request.is_pending


@behaviour("timeout.initial-delay.member-leaves")
def test_the_initial_delay_goes_on_when_a_member_leaves() -> None:
    harness = GroupHarness()
    anna, ben = harness.client("anna"), harness.client("ben")
    waiting, leaving = anna.join(), ben.join()
    ben.leave()
    assert (leaving.code, leaving.response.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")
    assert waiting.is_pending
    assert harness.state is GroupState.PREPARING_REBALANCE


@behaviour("timeout.initial-delay.reapplied-after-empty")
def test_every_rebalance_from_empty_has_an_initial_delay() -> None:
    harness = GroupHarness()
    harness.reach_empty()
    request = harness.client("ben", version=3).send_join()
    assert (harness.state, harness.generation_id) == (GroupState.PREPARING_REBALANCE, 2)
    assert harness.remaining_ms(DeadlineKind.JOIN_PHASE) == 3_000
    harness.advance(1_000)
    harness.client("carla", version=3).send_join()
    harness.advance(2_000)
    assert request.is_pending
    assert harness.remaining_ms(DeadlineKind.JOIN_PHASE) == 3_000


@behaviour("timeout.rebalance.expels-silent-dynamic-members")
def test_dynamic_members_that_do_not_rejoin_in_time_are_removed_in_spite_of_heartbeats() -> None:
    harness = GroupHarness()
    anna, ben, carla = harness.reach_preparing_rebalance("anna", "ben")
    stored = harness.group.group_metadata
    harness.advance(60_000, heartbeating=[anna, ben])
    assert (carla.generation_id, carla.join_response.leader) == (3, "carla")
    assert [each.member_id for each in carla.join_response.members] == ["carla"]
    assert (harness.state, harness.member_ids) == (GroupState.COMPLETING_REBALANCE, ["carla"])
    assert harness.remaining_ms(DeadlineKind.SYNC_PHASE) == 60_000
    assert (anna.heartbeat().code, ben.heartbeat().code) == (ErrorCode.UNKNOWN_MEMBER_ID,) * 2
    assert harness.group.group_metadata == stored


@behaviour("timeout.rebalance.keeps-silent-static-members")
def test_static_members_that_do_not_rejoin_stay_in_the_group() -> None:
    harness = GroupHarness()
    anna, ben = harness.reach_stable("anna", "ben", static=True)
    carla = harness.client("carla")
    carla.join()
    anna.send_join()
    harness.advance(60_000, heartbeating=[ben])
    assert (anna.generation_id, carla.generation_id, ben.generation_id) == (3, 3, 2)
    assert [each.member_id for each in anna.join_response.members] == ["anna", "ben", "carla"]
    assert (harness.state, len(harness.member_ids)) == (GroupState.COMPLETING_REBALANCE, 3)


@behaviour("timeout.rebalance.nobody-rejoined-only-static-left")
def test_a_join_phase_is_extended_while_only_absent_static_members_remain() -> None:
    harness = GroupHarness()
    anna, ben, carla = harness.reach_stable("anna", "ben", "carla", static=True)
    carla.leave()
    stored = harness.group.group_metadata
    for _ in range(2):
        harness.advance(60_000, heartbeating=[anna, ben])
        assert (harness.state, harness.generation_id, harness.member_ids) == (
            GroupState.PREPARING_REBALANCE,
            3,
            ["anna", "ben"],
        )
        assert harness.remaining_ms(DeadlineKind.JOIN_PHASE) == 60_000
    assert harness.group.group_metadata == stored
    anna.send_join()
    ben.send_join()
    assert (harness.state, harness.generation_id) == (GroupState.COMPLETING_REBALANCE, 4)


@behaviour("timeout.rebalance.is-max-of-members")
def test_a_join_phase_lasts_for_the_longest_rebalance_timeout() -> None:
    harness = GroupHarness()
    anna, ben = harness.client("anna", rebalance_timeout_ms=30_000), harness.client("ben", rebalance_timeout_ms=90_000)
    anna.join()
    ben.join()
    harness.advance(6_000)
    anna.sync()
    harness.client("carla", rebalance_timeout_ms=10_000).join()
    assert harness.remaining_ms(DeadlineKind.JOIN_PHASE) == 90_000


@behaviour("timeout.rebalance.deadline-not-extended")
def test_later_new_members_do_not_extend_the_join_phase() -> None:
    harness = GroupHarness()
    harness.reach_preparing_rebalance("anna", "ben")
    harness.advance(5_000)
    late = harness.client("dora", version=3, rebalance_timeout_ms=600_000)
    assert late.send_join().is_pending
    assert harness.remaining_ms(DeadlineKind.JOIN_PHASE) == 55_000


@behaviour("timeout.rebalance.session-expiry-completes-join")
def test_the_join_phase_ends_when_the_last_missing_member_expires() -> None:
    harness = GroupHarness()
    harness.reach_stable("anna")
    ben = harness.client("ben")
    request = ben.join()
    harness.advance(10_000)
    assert (request.code, ben.generation_id, ben.join_response.leader) == (ErrorCode.NONE, 2, "ben")
    assert harness.state is GroupState.COMPLETING_REBALANCE
    assert harness.remaining_ms(DeadlineKind.JOIN_PHASE) is None


def test_waiting_for_static_members_does_not_clear_the_new_member_of_an_initial_delay() -> None:
    harness = GroupHarness()
    anna, ben = (
        harness.client(name, static=True, rebalance_timeout_ms=3_000, session_timeout_ms=600_000)
        for name in ("anna", "ben")
    )
    anna.join()
    ben.join()
    harness.advance(3_000)
    sync_all([anna, ben])
    harness.client("carla", version=3, rebalance_timeout_ms=3_000).send_join()
    harness.remove_members(LeavingMember("carla"))
    harness.advance(3_000)
    assert isinstance(harness.events[-1], JoinPhaseExtended)
    harness.remove_members(LeavingMember("anna"), LeavingMember("ben"))
    harness.advance(3_000)
    assert harness.state is GroupState.EMPTY
    harness.client("dora").join()
    harness.advance(3_000)
    assert harness.state is GroupState.PREPARING_REBALANCE, "carla, who joined long ago, still extends the delay"
