"""The leader of a group, the protocol of a generation, and the limit of a group's size."""

from collections.abc import Sequence

import pytest

from regroup.coordinator.commands import DeadlineKind
from regroup.coordinator.events import LeaderElected
from regroup.coordinator.group import GroupState
from regroup.protocol.errors import ErrorCode
from tests.coordinator.group_harness import GroupHarness, behaviour
from tests.coordinator.simulated_client import SimulatedClient, sync_all

TEN = tuple(f"member-{number}" for number in range(10))


@behaviour("leader.first-member")
def test_the_first_member_leads() -> None:
    harness = GroupHarness()
    anna, ben = harness.client("anna"), harness.client("ben")
    assert "LeaderElected" in anna.join().event_types
    assert "LeaderElected" not in ben.join().event_types
    assert harness.group.leader_id == "anna", "before the first generation"
    harness.advance(6_000)
    assert (anna.join_response.leader, ben.join_response.leader) == ("anna", "anna")


@behaviour("leader.kept-across-rebalances")
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_leader_stays_whatever_order_members_rejoin_in(order: Sequence[int]) -> None:
    harness = GroupHarness()
    members = harness.reach_stable("anna", "ben")
    members[1].topics = ("bar",)
    for number in order:
        members[number].send_join()
    assert harness.generation_id == 3
    assert [each.join_response.leader for each in members] == ["anna", "anna"]


@behaviour("leader.leaves")
def test_when_the_leader_leaves_another_member_leads() -> None:
    harness = GroupHarness()
    anna, ben, carla = harness.reach_stable("anna", "ben", "carla")
    anna.leave()
    assert harness.state is GroupState.PREPARING_REBALANCE
    assert harness.group.leader_id in ("ben", "carla")
    ben.send_join()
    carla.send_join()
    assert ben.join_response.leader == carla.join_response.leader == harness.group.leader_id


def test_by_default_the_next_leader_is_the_candidate_that_joined_first() -> None:
    harness = GroupHarness()
    anna, ben, carla = harness.reach_stable("anna", "ben", "carla")
    anna.leave()
    assert harness.group.leader_id == "ben"
    carla.send_join()
    harness.advance(60_000, heartbeating=[ben])
    assert harness.group.leader_id == "carla", "ben has not rejoined"


@behaviour("leader.dynamic-leader-silent")
def test_a_dynamic_leader_that_does_not_rejoin_is_removed_and_replaced() -> None:
    harness = GroupHarness()
    anna, ben, carla = harness.reach_preparing_rebalance("anna", "ben")
    ben.send_join()
    harness.advance(60_000, heartbeating=[anna])
    assert (harness.state, harness.generation_id, harness.member_ids) == (
        GroupState.COMPLETING_REBALANCE,
        3,
        ["ben", "carla"],
    )
    elected = [event.leader_id for event in harness.events if isinstance(event, LeaderElected)]
    assert elected == ["anna", ben.join_response.leader], "each election is an event"
    assert ben.join_response.leader == carla.join_response.leader
    assert ben.join_response.leader in ("ben", "carla")


@behaviour("leader.static-leader-silent")
def test_a_static_leader_that_does_not_rejoin_is_replaced_and_stays_a_member() -> None:
    harness = GroupHarness()
    anna, ben = harness.reach_stable("anna", "ben", static=True)
    ben.topics = ("bar",)
    ben.send_join()
    harness.advance(60_000, heartbeating=[anna])
    assert (harness.state, harness.member_ids) == (GroupState.COMPLETING_REBALANCE, ["anna", "ben"])
    assert ben.join_response.leader == "ben"
    elected = [event.leader_id for event in harness.events if isinstance(event, LeaderElected)]
    assert elected == ["anna", "ben"], "each election is an event"


@behaviour("leader.rejoins-in-time")
def test_a_leader_that_rejoins_in_time_stays_the_leader() -> None:
    harness = GroupHarness()
    anna, ben = harness.reach_stable("anna", "ben", session_timeout_ms=120_000)
    ben.topics = ("bar",)
    ben.send_join()
    harness.advance(59_999)
    assert anna.send_join().response.leader == "anna"


@behaviour("leader.none-when-empty")
def test_an_empty_group_has_no_leader_and_the_next_member_leads() -> None:
    harness = GroupHarness()
    harness.reach_empty()
    assert harness.group.leader_id is None
    assert harness.group.group_metadata is not None
    assert harness.group.group_metadata.leader_id is None
    ben = harness.client("ben")
    ben.join()
    harness.advance(3_000)
    assert ben.join_response.leader == "ben"


@behaviour("leader.changes-mid-completing-by-expiry")
def test_a_leader_that_expires_in_the_sync_phase_is_replaced() -> None:
    harness = GroupHarness()
    _, ben = harness.reach_completing_rebalance("anna", "ben")
    harness.advance(10_000, heartbeating=[ben])
    assert (harness.state, harness.group.leader_id) == (GroupState.PREPARING_REBALANCE, "ben")
    assert ben.sync().code is ErrorCode.REBALANCE_IN_PROGRESS


def members_of_generation(*protocol_names: tuple[str, ...]) -> list[SimulatedClient]:
    """Let members join that support these protocols, in this order."""
    harness = GroupHarness()
    members = [harness.client(f"member-{number}", protocol_names=names) for number, names in enumerate(protocol_names)]
    for member in members:
        member.join()
    harness.advance(60_000)
    return members


@behaviour("protocol.only-common-candidates")
def test_only_protocols_that_every_member_supports_can_be_selected() -> None:
    anna, ben = members_of_generation(("range", "roundrobin"), ("roundrobin", "foo"))
    assert anna.join_response.protocol_name == ben.join_response.protocol_name == "roundrobin"


def test_the_protocol_that_most_members_prefer_is_selected() -> None:
    members = members_of_generation(("range", "sticky"), ("sticky", "range"), ("sticky", "range"))
    assert {member.join_response.protocol_name for member in members} == {"sticky"}


@behaviour("protocol.tie-unspecified")
@pytest.mark.parametrize(
    ("selected", "other"),
    [
        ("range", "roundrobin"),
        ("range", "cooperative-sticky"),
        ("sticky", "range"),
        ("sticky", "cooperative-sticky"),
    ],
)
def test_a_tie_goes_to_the_protocol_that_a_java_hash_map_iterates_first(selected: str, other: str) -> None:
    for first, second in [(selected, other), (other, selected)]:
        anna, ben = members_of_generation((first, second), (second, first))
        assert (anna.join_response.protocol_name, ben.join_response.protocol_name) == (selected, selected)


@behaviour("protocol.joiner-may-narrow")
def test_a_new_member_may_change_the_selected_protocol() -> None:
    harness = GroupHarness()
    anna, ben = harness.reach_stable("anna", "ben")
    carla = harness.client("carla", version=3, protocol_names=("roundrobin",))
    carla.send_join()
    anna.send_join()
    ben.send_join()
    assert carla.join_response.protocol_name == anna.join_response.protocol_name == "roundrobin"


@behaviour("protocol.leaver-may-widen")
def test_a_member_that_leaves_may_make_other_protocols_possible() -> None:
    harness = GroupHarness()
    anna = harness.client("anna", protocol_names=("range", "sticky"))
    ben = harness.client("ben", protocol_names=("range",))
    anna.join()
    ben.join()
    harness.advance(6_000)
    sync_all([anna, ben])
    ben.leave()
    anna.send_join()
    assert anna.join_response.protocol_name == "range"
    assert harness.client("carla", version=3, protocol_names=("sticky",)).send_join().is_pending


@behaviour("protocol.empty-group-accepts-anything")
def test_an_empty_group_accepts_any_protocol() -> None:
    harness = GroupHarness()
    harness.reach_empty()
    assert harness.client("ben", version=3, protocol_names=("anything",)).send_join().is_pending


@behaviour("protocol.unparsable-metadata", "offset-delete.unparsable-subscription")
def test_a_subscription_that_cannot_be_decoded_makes_every_topic_count_as_subscribed() -> None:
    harness = GroupHarness()
    [anna] = harness.reach_stable("anna", metadata=b"no subscription")
    anna.commit(("foo", 0, 1))
    assert harness.delete_offsets(foo=(0,)).codes == {("foo", 0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}
    harness.now_ms += 30 * 86_400_000
    assert harness.expire_offsets() == []


@behaviour("protocol.non-consumer-type-opaque")
def test_the_metadata_of_other_protocol_types_is_not_decoded() -> None:
    harness = GroupHarness()
    harness.reach_stable("worker", protocol_type="connect", protocol_names=("sessioned",), metadata=b"\x00")
    assert harness.group.subscribed_topics is None


@behaviour("limits.stable-full.new-member")
def test_a_full_group_returns_no_member_id() -> None:
    harness = GroupHarness(group_max_size=10)
    harness.reach_stable(*TEN)
    request = harness.client("late").send_join()
    assert (request.code, request.response.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert (request.response.generation_id, request.events) == (-1, ())


@behaviour("limits.stable-full.pending-dropped")
def test_a_join_with_a_pending_id_to_a_full_group_is_refused_and_the_id_removed() -> None:
    harness = GroupHarness(group_max_size=2)
    [anna] = harness.reach_stable("anna")
    late, ben = harness.client("late", session_timeout_ms=600_000), harness.client("ben")
    late.send_join()
    ben.join()
    anna.send_join()
    harness.advance(60_000)
    sync_all([anna, ben])
    assert (harness.state, harness.member_ids, list(harness.group.pending_join_members)) == (
        GroupState.STABLE,
        ["anna", "ben"],
        ["late"],
    )
    request = late.send_join()
    assert (request.code, request.response.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert (harness.state, harness.group.pending_join_members) == (GroupState.STABLE, {})


@behaviour("limits.preparing-counts-parked")
def test_in_preparing_rebalance_the_limit_counts_held_joins() -> None:
    harness = GroupHarness(group_max_size=10)
    eleven = [harness.client(name) for name in (*TEN, "late")]
    for each in eleven:
        each.send_join()
    assert all(each.send_join().is_pending for each in eleven[:10])
    request = eleven[10].send_join()
    assert (request.code, request.response.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert (harness.state, harness.group.pending_join_members) == (GroupState.PREPARING_REBALANCE, {})


@behaviour("limits.empty-group-unlimited-pending")
def test_an_empty_group_has_no_limit_of_pending_member_ids() -> None:
    harness = GroupHarness(group_max_size=10)
    codes = {harness.client(name).send_join().code for name in (*TEN, "late")}
    assert codes == {ErrorCode.MEMBER_ID_REQUIRED}
    assert (harness.state, len(harness.group.pending_join_members)) == (GroupState.EMPTY, 11)


@behaviour("limits.preparing.parked-member-may-resend")
def test_a_member_with_a_held_join_may_repeat_it_in_a_full_group() -> None:
    harness = GroupHarness(group_max_size=10)
    ten = [harness.client(name) for name in TEN]
    for each in ten:
        each.join()
    assert ten[3].send_join().is_pending
    assert harness.state is GroupState.PREPARING_REBALANCE


@behaviour("limits.completing.existing-accepted")
def test_a_member_of_a_full_group_may_repeat_its_join_in_the_sync_phase() -> None:
    harness = GroupHarness(group_max_size=10)
    members = harness.reach_completing_rebalance(*TEN)
    assert members[3].send_join().response.generation_id == 10


@behaviour("limits.static-members")
def test_the_limit_counts_static_members_too() -> None:
    harness = GroupHarness(group_max_size=10)
    for name in TEN:
        harness.client(name, static=True).send_join()
    assert harness.client("late", static=True).send_join().code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert harness.state is GroupState.PREPARING_REBALANCE


@behaviour("limits.over-capacity-after-load")
def test_a_group_above_a_new_limit_rebalances_after_a_failover_and_the_last_to_rejoin_are_removed() -> None:
    harness = GroupHarness()
    members = harness.reach_stable("anna", "ben", "carla")
    harness.fail_over(group_max_size=2)
    assert (harness.state, len(harness.member_ids)) == (GroupState.PREPARING_REBALANCE, 3)
    assert harness.remaining_ms(DeadlineKind.JOIN_PHASE) == 60_000
    assert [harness.remaining_ms(DeadlineKind.SESSION, name) for name in harness.member_ids] == [10_000] * 3
    assert members[0].send_join().is_pending
    assert members[1].send_join().is_pending
    assert members[2].send_join().code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert harness.member_ids == ["anna", "ben"]


def test_a_group_at_a_new_limit_stays_stable_after_a_failover() -> None:
    harness = GroupHarness()
    harness.reach_stable("anna", "ben")
    harness.fail_over(group_max_size=2)
    assert (harness.state, harness.member_ids) == (GroupState.STABLE, ["anna", "ben"])


@behaviour("limits.default-unbounded")
def test_by_default_the_size_of_a_group_has_no_limit() -> None:
    assert GroupHarness().settings.group_max_size == 2_147_483_647
