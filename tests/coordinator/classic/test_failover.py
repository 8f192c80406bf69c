"""What a coordinator restores when it loads a group, and what is lost."""

from regroup.coordinator.commands import DeadlineKind
from regroup.coordinator.events import CoordinatorLoaded
from regroup.coordinator.group import GroupState
from regroup.protocol.errors import ErrorCode
from tests.coordinator.group_harness import DAY_MS, GroupHarness, behaviour


@behaviour("recovery.stable-group", "leader.restored-from-log")
def test_a_failover_restores_a_stable_group() -> None:
    harness = GroupHarness()
    anna, ben = harness.reach_stable("anna", "ben")
    before = harness.group
    harness.advance(9_000)
    harness.fail_over()
    assert (harness.state, harness.generation_id, harness.group.leader_id) == (GroupState.STABLE, 2, "anna")
    assert (harness.group.protocol_type, harness.group.protocol_name) == ("consumer", "range")
    for name, member in harness.group.members.items():
        assert member.profile.supported_protocols == before.members[name].profile.supported_protocols[:1]
        assert (member.profile.client_id, member.profile.client_host, member.assignment) == (
            "c",
            "/10.0.0.7",
            f"assignment of {name}".encode(),
        )
        assert (member.profile.session_timeout_ms, member.profile.rebalance_timeout_ms) == (10_000, 60_000)
        assert harness.remaining_ms(DeadlineKind.SESSION, name) == 10_000
    assert (anna.heartbeat().code, ben.heartbeat().code) == (ErrorCode.NONE, ErrorCode.NONE)


@behaviour("recovery.empty-group")
def test_a_failover_restores_an_empty_group_and_since_when_it_is_empty() -> None:
    harness = GroupHarness()
    [anna] = harness.reach_stable("anna")
    anna.commit(("foo", 0, 1))
    anna.leave()
    harness.advance(6 * DAY_MS)
    harness.fail_over()
    assert (harness.state, harness.generation_id, harness.group.protocol_type) == (GroupState.EMPTY, 2, "consumer")
    assert harness.expire_offsets() == []
    harness.advance(1 * DAY_MS)
    assert [type(event).__name__ for event in harness.expire_offsets()] == ["OffsetsDeleted", "GroupDeleted"]


@behaviour("recovery.rebalance-in-progress-lost", "recovery.unload-answers-parked-requests")
def test_a_failover_loses_a_running_rebalance() -> None:
    harness = GroupHarness()
    anna, ben = harness.reach_stable("anna", "ben", protocol_names=("range",))
    carla = harness.client("carla", protocol_names=("range",))
    held = carla.join()
    [loaded] = harness.fail_over()
    assert isinstance(loaded, CoordinatorLoaded)
    assert loaded.lost == (
        "held JoinGroup of carla",
        "members carla",
        "the running rebalance",
    )
    assert held.code is ErrorCode.NOT_COORDINATOR
    assert (harness.state, harness.generation_id, harness.member_ids) == (GroupState.STABLE, 2, ["anna", "ben"])
    assert carla.send_join().code is ErrorCode.UNKNOWN_MEMBER_ID
    assert ben.send_join().response.generation_id == 2
    assert anna.send_join().is_pending


@behaviour("recovery.completing-lost", "recovery.unload-answers-parked-requests")
def test_a_failover_loses_an_uncommitted_generation_whose_id_is_used_again() -> None:
    harness = GroupHarness()
    anna, ben = harness.reach_completing_rebalance("anna", "ben")
    held = ben.sync()
    harness.fail_over()
    assert held.code is ErrorCode.NOT_COORDINATOR
    assert (harness.state, harness.generation_id, harness.member_ids) == (GroupState.STABLE, 1, ["anna"])
    assert anna.sync().code is ErrorCode.ILLEGAL_GENERATION
    assert ben.sync().code is ErrorCode.UNKNOWN_MEMBER_ID
    ben.restart()
    ben.join()
    anna.send_join()
    assert harness.generation_id == 2


@behaviour("recovery.group-tombstone")
def test_a_failover_does_not_restore_a_deleted_group() -> None:
    harness = GroupHarness()
    harness.reach_empty()
    harness.delete_group()
    harness.fail_over()
    assert not harness.group.exists


@behaviour("recovery.offsets-without-group")
def test_a_failover_restores_a_group_with_offsets_alone_as_a_simple_group() -> None:
    harness = GroupHarness()
    harness.commit(("foo", 0, 1))
    harness.fail_over()
    assert (harness.state, harness.generation_id, harness.group.protocol_type) == (GroupState.EMPTY, 0, "")
    assert harness.fetch(foo=(0,)).offsets == {("foo", 0): 1}


@behaviour("recovery.static-members")
def test_a_failover_restores_static_members_with_their_instance_ids() -> None:
    harness = GroupHarness()
    anna, ben = harness.reach_stable("anna", "ben", static=True)
    harness.fail_over()
    assert harness.group.static_members == {"instance-anna": "anna", "instance-ben": "ben"}
    assert anna.heartbeat().code is ErrorCode.NONE
    ben.restart()
    ben.protocol_names = ("range",)
    assert ben.send_join().response.member_id == "ben-2"
    assert harness.state is GroupState.STABLE


@behaviour("recovery.subscribed-topics-recomputed")
def test_a_failover_decodes_the_stored_subscriptions_again() -> None:
    harness = GroupHarness()
    [anna] = harness.reach_stable("anna", topics=("foo",))
    anna.commit(("foo", 0, 1))
    harness.fail_over()
    assert harness.delete_offsets(foo=(0,)).codes == {("foo", 0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}


def test_a_failover_loses_pending_member_ids() -> None:
    harness = GroupHarness()
    anna = harness.client("anna")
    anna.send_join()
    [loaded] = harness.fail_over()
    assert isinstance(loaded, CoordinatorLoaded)
    assert loaded.lost == ("pending member ids anna",)
    assert anna.send_join().code is ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.state is GroupState.EMPTY
