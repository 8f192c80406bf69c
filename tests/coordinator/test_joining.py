"""JoinGroup: who gets in, who is asked to come back, and whose JoinGroup starts a rebalance."""

import pytest

from regroup.coordinator.commands import DeadlineKind
from regroup.coordinator.events import GroupCreated
from regroup.coordinator.group import State, StoredGroup, Waiting
from regroup.protocol.errors import ErrorCode
from tests.coordinator.stage import NOW
from tests.coordinator.story import Story, behaviour


@behaviour("join.unknown-member-id.nonexistent-group")
@pytest.mark.parametrize("static", [False, True])
def test_nobody_makes_a_group_with_an_id_it_was_never_given(static: bool) -> None:
    story = Story()
    request = story.consumer("anna", static=static, id="some-id").asks_to_join()
    assert (request.code, request.answer.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "some-id")
    assert request.answer.generation_id == -1
    assert not story.group.exists


@behaviour("join.member-id-required.first-request")
def test_a_newcomer_is_given_an_id_and_asked_to_return_with_it() -> None:
    story = Story()
    request = story.consumer("anna", session_timeout_ms=12_000).asks_to_join()
    assert (request.code, request.answer.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "anna")
    assert (request.answer.generation_id, request.answer.leader, request.answer.members) == (-1, "", [])
    assert (story.state, story.generation, story.members) == (State.EMPTY, 0, [])
    assert list(story.group.reserved_ids) == ["anna"]
    assert story.ms_left(DeadlineKind.RESERVED_ID, "anna") == 12_000
    assert story.group.stored == StoredGroup(state_since_ms=NOW)


@behaviour("join.member-id-required.response-before-commit")
def test_the_id_is_handed_out_while_the_request_is_dealt_with() -> None:
    assert not Story().consumer("anna").asks_to_join().is_parked


@behaviour("join.member-id-required.not-before-v4")
def test_a_newcomer_that_cannot_return_is_admitted_at_once() -> None:
    story = Story()
    anna = story.consumer("anna", version=3)
    request = anna.asks_to_join()
    assert request.is_parked
    assert story.state is State.PREPARING
    assert story.ms_left(DeadlineKind.NEWCOMER, "anna") == 300_000
    assert story.ms_left(DeadlineKind.JOIN_PHASE) == 3_000
    story.passes(3_000)
    assert (request.code, request.answer.member_id) == (ErrorCode.NONE, "anna")


@behaviour("join.member-id-required.not-for-static")
def test_a_static_newcomer_is_admitted_at_once() -> None:
    story = Story()
    request = story.consumer("anna", static=True).asks_to_join()
    assert request.is_parked
    assert (story.state, story.members) == (State.PREPARING, ["anna"])
    assert story.ms_left(DeadlineKind.NEWCOMER, "anna") == 300_000
    assert story.ms_left(DeadlineKind.JOIN_PHASE) == 3_000


@behaviour("join.member-id-required.stable-group-undisturbed")
def test_handing_out_an_id_disturbs_nobody() -> None:
    story = Story()
    story.stable("anna")
    stored = story.group.stored
    assert story.consumer("ben").asks_to_join().code is ErrorCode.MEMBER_ID_REQUIRED
    assert (story.state, story.generation) == (State.STABLE, 1)
    assert story.ms_left(DeadlineKind.RESERVED_ID, "ben") == 10_000
    assert story.group.stored == stored


@behaviour("join.nonempty.protocol-type-mismatch")
def test_a_group_has_one_kind_of_members() -> None:
    story = Story()
    story.stable("anna")
    request = story.consumer("ben", protocol_type="connect", protocols=("range",)).asks_to_join()
    assert (request.code, request.answer.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
    assert request.events == ()
    assert not story.group.reserved_ids


@behaviour("join.nonempty.no-common-protocol")
def test_whoever_shares_no_protocol_with_the_others_is_refused() -> None:
    story = Story()
    story.stable("anna", protocols=("range",))
    request = story.consumer("ben", protocols=("roundrobin",)).asks_to_join()
    assert (request.code, request.answer.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
    assert request.events == ()


@behaviour("join.unknown-member-id.existing-group")
def test_an_id_that_the_group_does_not_know_is_refused() -> None:
    story = Story()
    story.stable("anna")
    request = story.consumer("ben", id="other").asks_to_join()
    assert (request.code, request.answer.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "other")
    assert (request.answer.generation_id, request.events) == (-1, ())


@behaviour("join.empty-group.empty-protocol-type")
def test_an_empty_group_wants_to_know_the_protocol_type() -> None:
    story = Story()
    story.empty()
    request = story.consumer("ben", protocol_type="", protocols=("range",)).asks_to_join()
    assert (request.code, request.answer.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
    assert (story.state, request.events) == (State.EMPTY, ())


@behaviour("join.new-group.rejected-request-still-creates-group")
def test_a_group_is_made_even_by_somebody_who_is_refused() -> None:
    story = Story()
    request = story.consumer("anna", protocol_type="").asks_to_join()
    assert request.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert request.event_names == [GroupCreated.__name__]
    assert story.describe().group_state == "Empty"


@behaviour("join.empty-state.known-member")
def test_an_id_is_worth_nothing_after_its_member_left() -> None:
    story = Story()
    anna = story.empty()
    request = anna.asks_to_join()
    assert (request.code, request.answer.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "anna")
    assert (request.answer.generation_id, story.state) == (-1, State.EMPTY)


@behaviour("join.after-empty.protocol-type-can-change")
def test_an_empty_group_can_become_a_group_of_another_kind() -> None:
    story = Story()
    story.empty()
    worker = story.consumer("worker", version=3, protocol_type="connect", protocols=("sessioned",))
    assert worker.asks_to_join().is_parked
    assert (story.state, story.group.protocol_type) == (State.PREPARING, "connect")


@behaviour("join.preparing.rejoin-parks")
def test_while_the_group_prepares_a_rejoining_member_waits() -> None:
    story = Story()
    _, ben, _ = story.preparing("anna", "ben")
    story.passes(1_000)
    ben.topics, ben.session_timeout_ms, ben.rebalance_timeout_ms = ("bar",), 8_000, 90_000
    assert ben.asks_to_join().is_parked
    assert (story.state, story.generation) == (State.PREPARING, 2)
    assert story.ms_left(DeadlineKind.JOIN_PHASE) == 59_000
    member = story.member(ben)
    assert (member.protocols, member.session_timeout_ms, member.rebalance_timeout_ms) == (ben.offers(), 8_000, 90_000)


@behaviour("join.preparing.last-rejoin-completes")
def test_the_last_one_to_rejoin_begins_the_generation() -> None:
    story = Story()
    anna, ben, carla = story.preparing("anna", "ben")
    stored = story.group.stored
    first = anna.asks_to_join()
    last = ben.asks_to_join()
    assert (story.state, story.generation) == (State.COMPLETING, 3)
    assert (anna.generation, ben.generation, carla.generation) == (3, 3, 3)
    assert [each.member_id for each in first.answer.members] == ["anna", "ben", "carla"]
    assert last.answer.members == []
    assert story.ms_left(DeadlineKind.JOIN_PHASE) is None
    assert story.ms_left(DeadlineKind.SYNC_PHASE) == 60_000
    assert [story.ms_left(DeadlineKind.SESSION, name) for name in story.members] == [10_000] * 3
    assert story.group.stored == stored


@behaviour("join.completing.follower-unchanged")
def test_a_follower_that_lost_its_answer_is_answered_again() -> None:
    story = Story()
    _, ben = story.completing("anna", "ben")
    request = ben.asks_to_join()
    assert (request.code, request.answer.generation_id, request.events) == (ErrorCode.NONE, 2, ())
    assert (request.answer.leader, request.answer.member_id, request.answer.members) == ("anna", "ben", [])
    assert (request.answer.skip_assignment, request.answer.protocol_name) == (False, "range")
    assert (story.state, story.generation) == (State.COMPLETING, 2)


@behaviour("join.completing.leader-unchanged")
def test_a_leader_that_lost_its_answer_is_told_the_members_again() -> None:
    story = Story()
    anna, ben = story.completing("anna", "ben")
    request = anna.asks_to_join()
    assert (request.code, request.answer.generation_id, request.answer.leader) == (ErrorCode.NONE, 2, "anna")
    assert {each.member_id: each.metadata for each in request.answer.members} == {
        "anna": anna.offers()[0].metadata,
        "ben": ben.offers()[0].metadata,
    }
    assert (story.state, story.generation) == (State.COMPLETING, 2)


@behaviour("join.completing.changed-metadata", "sync.rejoin-aborts-parked-syncs")
def test_a_changed_subscription_ends_the_sync_phase() -> None:
    story = Story()
    anna, ben = story.completing("anna", "ben")
    story.passes(4_000)
    parked = ben.syncs()
    anna.topics = ("bar",)
    assert anna.asks_to_join().is_parked
    assert (parked.code, parked.answer.assignment) == (ErrorCode.REBALANCE_IN_PROGRESS, b"")
    assert (story.state, story.generation) == (State.PREPARING, 2)
    assert story.ms_left(DeadlineKind.SYNC_PHASE) is None
    assert story.group.owes_sync == ()
    assert story.ms_left(DeadlineKind.JOIN_PHASE) == 60_000
    assert story.ms_left(DeadlineKind.SESSION, "ben") == 10_000
    assert all(member.assignment == b"" for member in story.group.members.values())


def test_a_member_that_joins_again_while_its_own_sync_waits_hears_of_the_rebalance_there() -> None:
    story = Story()
    _, ben = story.completing("anna", "ben")
    parked = ben.syncs()
    ben.topics = ("bar",)
    assert ben.asks_to_join().is_parked
    assert parked.code is ErrorCode.REBALANCE_IN_PROGRESS


@behaviour("join.completing.new-member", "sync.rejoin-aborts-parked-syncs")
def test_a_newcomer_ends_the_sync_phase() -> None:
    story = Story()
    _, ben = story.completing("anna", "ben")
    parked = ben.syncs()
    assert story.consumer("carla", version=3).asks_to_join().is_parked
    assert parked.code is ErrorCode.REBALANCE_IN_PROGRESS
    assert (story.state, story.generation) == (State.PREPARING, 2)
    assert story.ms_left(DeadlineKind.JOIN_PHASE) == 60_000
    assert story.ms_left(DeadlineKind.NEWCOMER, "carla") == 300_000


@behaviour("join.stable.follower-unchanged")
def test_a_follower_that_joins_again_unchanged_disturbs_nobody() -> None:
    story = Story()
    _, ben = story.stable("anna", "ben")
    request = ben.asks_to_join()
    assert (request.code, request.answer.generation_id, request.answer.leader) == (ErrorCode.NONE, 2, "anna")
    assert (request.answer.members, request.answer.member_id) == ([], "ben")
    assert (story.state, request.events) == (State.STABLE, ())


@behaviour("join.stable.follower-changed-metadata")
def test_a_follower_that_wants_other_topics_starts_a_rebalance() -> None:
    story = Story()
    _, ben = story.stable("anna", "ben")
    stored = story.group.stored
    ben.topics = ("foo", "bar")
    assert ben.asks_to_join().is_parked
    assert (story.state, story.generation) == (State.PREPARING, 2)
    assert story.ms_left(DeadlineKind.JOIN_PHASE) == 60_000
    assert story.group.stored == stored


@behaviour("join.stable.protocol-order-matters")
def test_the_order_of_preference_is_part_of_what_a_member_wants() -> None:
    story = Story()
    _, ben = story.stable("anna", "ben")
    ben.protocols = ("roundrobin", "range")
    assert ben.asks_to_join().is_parked
    assert story.state is State.PREPARING


@behaviour("join.stable.leader-unchanged-rebalances")
def test_a_leader_that_joins_again_always_starts_a_rebalance() -> None:
    story = Story()
    anna, ben = story.stable("anna", "ben")
    request = anna.asks_to_join()
    assert request.is_parked
    assert (story.state, story.generation) == (State.PREPARING, 2)
    assert story.ms_left(DeadlineKind.JOIN_PHASE) == 60_000
    ben.asks_to_join()
    assert request.answer.generation_id == 3


@behaviour("join.stable.new-member-rebalances")
def test_a_newcomer_with_its_id_starts_a_rebalance() -> None:
    story = Story()
    story.stable("anna")
    stored = story.group.stored
    ben = story.consumer("ben", rebalance_timeout_ms=70_000)
    assert ben.joins().is_parked
    assert (story.state, story.generation) == (State.PREPARING, 1)
    assert story.ms_left(DeadlineKind.NEWCOMER, "ben") == 300_000
    assert story.ms_left(DeadlineKind.JOIN_PHASE) == 70_000
    assert story.group.stored == stored


@behaviour("join.pending-blocks-completion")
def test_an_id_that_is_still_out_keeps_the_join_phase_open() -> None:
    story = Story()
    anna, ben, _ = story.preparing("anna", "ben")
    story.consumer("dora").asks_to_join()
    assert anna.asks_to_join().is_parked
    assert ben.asks_to_join().is_parked
    assert story.state is State.PREPARING


@behaviour("join.pending-joins-completes")
def test_the_one_whose_id_was_still_out_completes_the_join_phase() -> None:
    story = Story()
    anna, ben, carla = story.preparing("anna", "ben")
    dora = story.consumer("dora")
    dora.asks_to_join()
    anna.asks_to_join()
    ben.asks_to_join()
    assert dora.asks_to_join().code is ErrorCode.NONE
    assert [each.generation for each in (anna, ben, carla, dora)] == [3, 3, 3, 3]
    assert story.state is State.COMPLETING
    assert story.ms_left(DeadlineKind.JOIN_PHASE) is None
    assert story.ms_left(DeadlineKind.SYNC_PHASE) == 60_000


@behaviour("join.pending-survives-rebalance-timeout")
def test_a_reserved_id_outlives_the_join_phase() -> None:
    story = Story()
    anna, ben, carla = story.preparing("anna", "ben")
    story.passes(55_000, beating=[anna, ben])
    dora = story.consumer("dora")
    dora.asks_to_join()
    story.passes(5_000, beating=[anna, ben])
    assert (carla.generation, story.members, story.state) == (3, ["carla"], State.COMPLETING)
    assert dora.asks_to_join().is_parked
    assert story.state is State.PREPARING


@behaviour("join.pending.with-instance-id")
def test_a_reserved_id_never_belongs_to_a_static_member() -> None:
    story = Story()
    anna = story.consumer("anna")
    anna.asks_to_join()
    anna.instance_id = "till-1"
    assert anna.asks_to_join().code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert list(story.group.reserved_ids) == ["anna"]


@behaviour("join.response.leader-sees-all-members")
def test_the_leader_is_told_of_members_that_stayed_away_as_well() -> None:
    story = Story()
    anna, ben = story.stable("anna", "ben", static=True)
    ben.topics = ("foo", "bar")
    request = ben.asks_to_join()
    story.passes(60_000, beating=[anna])
    assert (request.code, request.answer.leader) == (ErrorCode.NONE, "ben")
    assert [(each.member_id, each.group_instance_id, each.metadata) for each in request.answer.members] == [
        ("anna", "till-of-anna", anna.offers()[0].metadata),
        ("ben", "till-of-ben", ben.offers()[0].metadata),
    ]
    assert story.state is State.COMPLETING


@behaviour("join.response.protocol-type-v7")
def test_the_answer_names_protocol_and_protocol_type() -> None:
    story = Story()
    [anna] = story.completing("anna")
    assert (anna.joined.protocol_type, anna.joined.protocol_name) == ("consumer", "range")


@behaviour("join.generation.first-is-one")
def test_the_first_generation_is_the_first_and_an_empty_one_counts() -> None:
    story = Story()
    [anna] = story.completing("anna")
    assert (anna.generation, story.state) == (1, State.COMPLETING)
    anna.leaves()
    assert (story.generation, story.state) == (2, State.EMPTY)


@behaviour("join.generation.unchanged-while-preparing")
def test_the_old_generation_is_valid_until_the_join_phase_ends() -> None:
    story = Story()
    _, ben, _ = story.preparing("anna", "ben")
    assert story.generation == 2
    assert ben.beats().code is ErrorCode.REBALANCE_IN_PROGRESS
    assert ben.commits().codes == {("foo", 0): ErrorCode.NONE}


@behaviour("join.sole-member-disjoint-protocols-rejected")
def test_a_member_alone_cannot_change_to_other_protocols() -> None:
    story = Story()
    [anna] = story.stable("anna", protocols=("range",))
    anna.protocols = ("roundrobin",)
    request = anna.asks_to_join()
    assert (request.code, request.answer.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "anna")
    assert (story.state, request.events) == (State.STABLE, ())


def test_a_resent_join_takes_the_place_of_the_one_that_waited() -> None:
    story = Story()
    anna, ben, _ = story.preparing("anna", "ben")
    first, second = ben.asks_to_join(), ben.asks_to_join()
    anna.asks_to_join()
    assert first.is_parked
    assert second.code is ErrorCode.NONE
    assert story.member(ben).waiting is not Waiting.JOIN
