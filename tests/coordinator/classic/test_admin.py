"""DescribeGroups and DeleteGroups."""

import pytest

from regroup.coordinator.group import GroupState
from regroup.protocol.errors import ErrorCode
from tests.coordinator.group_harness import GroupHarness, behaviour


@behaviour("describe.unknown-group")
def test_a_group_that_does_not_exist_is_described_as_dead() -> None:
    response = GroupHarness().describe_group()
    assert (response.error_code, response.group_id, response.group_state) == (ErrorCode.NONE, "payments", "Dead")
    assert (response.protocol_type, response.protocol_data, response.members) == ("", "", [])


@behaviour("describe.stable")
def test_a_stable_group_is_described_with_subscriptions_and_assignments() -> None:
    harness = GroupHarness()
    [anna] = harness.reach_stable("anna")
    response = harness.describe_group()
    assert (response.group_state, response.protocol_type, response.protocol_data) == ("Stable", "consumer", "range")
    [member] = response.members
    assert (member.member_id, member.group_instance_id) == ("anna", None)
    assert (member.client_id, member.client_host) == ("c", "/10.0.0.7")
    assert (member.member_metadata, member.member_assignment) == (
        anna.supported_protocols()[0].metadata,
        b"assignment of anna",
    )


@behaviour("describe.rebalancing")
def test_a_rebalancing_group_is_described_without_protocol_and_subscriptions() -> None:
    harness = GroupHarness()
    harness.reach_preparing_rebalance("anna", "ben")
    response = harness.describe_group()
    assert (response.group_state, response.protocol_type, response.protocol_data) == (
        "PreparingRebalance",
        "consumer",
        "",
    )
    assert [(each.member_id, each.member_metadata, each.member_assignment) for each in response.members] == [
        ("anna", b"", b"assignment of anna"),
        ("ben", b"", b"assignment of ben"),
        ("carla", b"", b""),
    ]


@behaviour("describe.completing")
def test_in_the_first_sync_phase_members_are_described_without_assignments() -> None:
    harness = GroupHarness()
    harness.reach_completing_rebalance("anna")
    response = harness.describe_group()
    assert (response.group_state, response.protocol_data) == ("CompletingRebalance", "")
    assert [(each.member_metadata, each.member_assignment) for each in response.members] == [(b"", b"")]


@behaviour("describe.empty")
def test_an_empty_group_keeps_its_protocol_type() -> None:
    harness = GroupHarness()
    harness.reach_empty()
    response = harness.describe_group()
    assert (response.group_state, response.protocol_type, response.protocol_data) == ("Empty", "consumer", "")
    assert response.members == []


@behaviour("describe.static-member", "describe.pending-members-hidden")
def test_instance_ids_are_described_and_pending_member_ids_are_not() -> None:
    harness = GroupHarness()
    harness.reach_stable("anna", static=True)
    harness.client("ben").send_join()
    assert [(each.member_id, each.group_instance_id) for each in harness.describe_group().members] == [
        ("anna", "instance-anna")
    ]


@behaviour("delete.non-empty")
@pytest.mark.parametrize("state", [GroupState.STABLE, GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE])
def test_a_group_with_members_cannot_be_deleted(state: GroupState) -> None:
    harness = GroupHarness()
    reach = {
        GroupState.STABLE: harness.reach_stable,
        GroupState.PREPARING_REBALANCE: harness.reach_preparing_rebalance,
        GroupState.COMPLETING_REBALANCE: harness.reach_completing_rebalance,
    }
    reach[state]("anna")
    request = harness.delete_group()
    assert (request.code, request.events, harness.state) == (ErrorCode.NON_EMPTY_GROUP, (), state)


@behaviour("delete.empty-with-offsets", "delete.fetch-after-delete")
def test_an_empty_group_is_deleted_with_its_offsets() -> None:
    harness = GroupHarness()
    [anna] = harness.reach_stable("anna")
    anna.commit(("foo", 0, 1), ("foo", 1, 2))
    anna.leave()
    assert harness.delete_group().code is ErrorCode.NONE
    assert harness.describe_group().group_state == "Dead"
    assert harness.fetch(foo=(0,)).offsets == {("foo", 0): -1}
    assert (harness.group.group_metadata, harness.group.committed_offsets) == (None, {})
    assert harness.delete_group().code is ErrorCode.GROUP_ID_NOT_FOUND


@behaviour("delete.simple-group")
def test_a_simple_group_can_be_deleted() -> None:
    harness = GroupHarness()
    harness.commit(("foo", 0, 1))
    assert harness.delete_group().code is ErrorCode.NONE
    assert harness.fetch_all().offsets == {}


def test_a_deleted_group_can_be_created_again_with_generation_zero() -> None:
    harness = GroupHarness()
    harness.reach_empty()
    harness.delete_group()
    harness.client("ben").join()
    assert (harness.state, harness.generation_id) == (GroupState.PREPARING_REBALANCE, 0)
