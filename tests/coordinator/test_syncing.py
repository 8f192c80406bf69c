"""SyncGroup: the leader hands in the shares, and everybody fetches one."""

import pytest

from regroup.coordinator.commands import DeadlineKind, Leaving
from regroup.coordinator.group import State
from regroup.protocol.errors import ErrorCode
from tests.coordinator.story import Story, behaviour


@behaviour("sync.empty-group")
def test_an_empty_group_has_no_shares() -> None:
    story = Story()
    anna = story.empty()
    assert anna.syncs(generation_id=2).code is ErrorCode.UNKNOWN_MEMBER_ID
    assert story.state is State.EMPTY


@behaviour("sync.unknown-member")
def test_a_stranger_gets_no_share() -> None:
    story = Story()
    story.stable("anna")
    assert story.consumer("ben", id="other", generation=1).syncs().code is ErrorCode.UNKNOWN_MEMBER_ID
    assert story.state is State.STABLE


@behaviour("sync.illegal-generation")
@pytest.mark.parametrize("generation", [0, 2, -1])
def test_shares_belong_to_the_present_generation(generation: int) -> None:
    story = Story()
    [anna] = story.stable("anna")
    assert anna.syncs(generation_id=generation).code is ErrorCode.ILLEGAL_GENERATION
    assert story.state is State.STABLE


@behaviour("sync.protocol-type-mismatch", "sync.protocol-name-mismatch")
@pytest.mark.parametrize("field", ["protocol_type", "protocol_name"])
def test_a_sync_for_another_protocol_does_not_count(field: str) -> None:
    story = Story()
    [anna] = story.completing("anna")
    request = anna.syncs(**{field: "other"})
    assert (request.code, request.answer.assignment) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, b"")
    assert (request.answer.protocol_type, request.answer.protocol_name) == (None, None)
    assert (story.state, story.group.owes_sync) == (State.COMPLETING, ("anna",))


@behaviour("sync.protocol-fields-absent-before-v5")
def test_a_protocol_that_is_left_open_matches_anything() -> None:
    story = Story()
    [anna] = story.completing("anna")
    assert anna.syncs(protocol_type=None, protocol_name=None).code is ErrorCode.NONE
    assert story.state is State.STABLE


@behaviour("sync.response-protocol-fields-v5")
def test_a_share_names_the_protocol_that_it_was_made_by() -> None:
    story = Story()
    [anna] = story.completing("anna")
    answer = anna.syncs().answer
    assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")


@behaviour("sync.preparing")
def test_nobody_gets_a_share_while_the_group_prepares() -> None:
    story = Story()
    anna, _, _ = story.preparing("anna", "ben")
    request = anna.syncs()
    assert (request.code, request.answer.assignment) == (ErrorCode.REBALANCE_IN_PROGRESS, b"")
    assert story.state is State.PREPARING


@behaviour("sync.preparing")
def test_in_the_first_join_phase_there_is_no_protocol_to_be_wrong_about() -> None:
    story = Story()
    anna = story.consumer("anna", version=3)
    anna.asks_to_join()
    request = anna.syncs(member_id="anna", generation_id=0, protocol_name="range")
    assert (story.state, request.code) == (State.PREPARING, ErrorCode.REBALANCE_IN_PROGRESS)


def test_whoever_fetches_its_share_late_owes_nothing_any_more() -> None:
    story = Story()
    anna, ben = story.completing("anna", "ben")
    anna.syncs()
    assert story.group.owes_sync == ("ben",)
    ben.syncs()
    assert story.group.owes_sync == ()
    story.passes(60_001, beating=[anna, ben])
    assert (story.state, story.members) == (State.STABLE, ["anna", "ben"])


@behaviour("sync.completing.leader-commits")
def test_the_leaders_sync_serves_everybody_who_waits() -> None:
    story = Story()
    anna, ben = story.completing("anna", "ben")
    began_ms = story.now_ms
    story.passes(2_000)
    parked = ben.syncs()
    assert parked.is_parked
    story.passes(3_000)
    leaders = anna.syncs({"anna": b"A1", "ben": b"A2"})
    assert (leaders.code, leaders.answer.assignment) == (ErrorCode.NONE, b"A1")
    assert (parked.code, parked.answer.assignment) == (ErrorCode.NONE, b"A2")
    assert (story.state, story.generation) == (State.STABLE, 2)
    assert story.ms_left(DeadlineKind.SYNC_PHASE) is None
    assert [story.ms_left(DeadlineKind.SESSION, name) for name in story.members] == [10_000, 10_000]
    stored = story.group.stored
    assert stored is not None
    assert (stored.generation, stored.protocol_name, stored.leader) == (2, "range", "anna")
    assert stored.state_since_ms == began_ms
    assert [(each.member_id, each.assignment) for each in stored.members] == [("anna", b"A1"), ("ben", b"A2")]
    assert [[protocol.name for protocol in each.protocols] for each in stored.members] == [["range"], ["range"]]


@behaviour("sync.leader-omits-members", "sync.leader-adds-unknown-members")
def test_whom_the_leader_forgot_gets_an_empty_share_and_whom_it_invented_none() -> None:
    story = Story()
    anna, ben = story.completing("anna", "ben")
    anna.syncs({"anna": b"A1", "ghost": b"X"})
    assert ben.syncs().answer.assignment == b""
    stored = story.group.stored
    assert stored is not None
    assert {each.member_id: each.assignment for each in stored.members} == {"anna": b"A1", "ben": b""}
    assert story.state is State.STABLE


@behaviour("sync.stable.leader-again")
def test_in_stable_a_leader_cannot_deal_out_anew() -> None:
    story = Story()
    anna, ben = story.stable("anna", "ben")
    again = anna.syncs({"anna": b"NEW1", "ben": b"NEW2"})
    assert (again.code, again.answer.assignment, again.events) == (ErrorCode.NONE, b"share of anna", ())
    assert ben.syncs().answer.assignment == b"share of ben"


@behaviour("sync.duplicate-follower-request")
def test_a_resent_sync_takes_the_place_of_the_one_that_waited() -> None:
    story = Story()
    anna, ben = story.completing("anna", "ben")
    first, second = ben.syncs(), ben.syncs()
    anna.syncs()
    assert first.is_parked
    assert second.answer.assignment == b"share of ben"


def test_a_parked_sync_of_a_member_that_is_removed_is_never_answered() -> None:
    story = Story()
    _, ben, carla = story.completing("anna", "ben", "carla")
    of_the_removed, of_another = ben.syncs(), carla.syncs()
    story.leave(Leaving("ben"))
    assert of_the_removed.is_parked
    assert of_another.code is ErrorCode.REBALANCE_IN_PROGRESS
    story.fails_over()
    assert of_the_removed.is_parked, "nobody knows of it any more"


@behaviour("sync.fenced-static", "sync.replaced-static-without-instance-id")
def test_a_replaced_static_member_gets_no_share() -> None:
    story = Story()
    _, ben = story.stable("anna", "ben", static=True)
    zombie = ben.restarts()
    ben.joins()
    assert zombie.syncs().code is ErrorCode.FENCED_INSTANCE_ID
    assert zombie.syncs(group_instance_id=None).code is ErrorCode.UNKNOWN_MEMBER_ID


@behaviour("sync.rejoin-aborts-parked-syncs")
def test_a_leaving_member_ends_the_sync_phase() -> None:
    story = Story()
    anna, ben, carla = story.completing("anna", "ben", "carla")
    story.passes(4_000)
    parked = ben.syncs()
    carla.leaves()
    assert (parked.code, parked.answer.assignment) == (ErrorCode.REBALANCE_IN_PROGRESS, b"")
    assert story.state is State.PREPARING
    assert story.ms_left(DeadlineKind.SESSION, "ben") == 10_000
    assert anna.syncs().code is ErrorCode.REBALANCE_IN_PROGRESS


@behaviour("sync.rejoin-aborts-parked-syncs")
def test_a_member_that_falls_silent_ends_the_sync_phase() -> None:
    story = Story()
    anna, ben = story.completing("anna", "ben")
    parked = ben.syncs()
    story.passes(10_000)
    assert anna.id not in story.members
    assert parked.code is ErrorCode.REBALANCE_IN_PROGRESS
