"""Looking at a group, deleting it, and what another coordinator brings back of it."""

import pytest

from regroup.coordinator.commands import DeadlineKind
from regroup.coordinator.events import CoordinatorLoaded
from regroup.coordinator.group import State
from regroup.protocol.errors import ErrorCode
from tests.coordinator.story import DAY_MS, Story, behaviour


@behaviour("describe.unknown-group")
def test_a_group_that_does_not_exist_is_dead() -> None:
    answer = Story().describe()
    assert (answer.error_code, answer.group_id, answer.group_state) == (ErrorCode.NONE, "payments", "Dead")
    assert (answer.protocol_type, answer.protocol_data, answer.members) == ("", "", [])


@behaviour("describe.stable")
def test_a_stable_group_is_shown_with_everything() -> None:
    story = Story()
    [anna] = story.stable("anna")
    answer = story.describe()
    assert (answer.group_state, answer.protocol_type, answer.protocol_data) == ("Stable", "consumer", "range")
    [member] = answer.members
    assert (member.member_id, member.group_instance_id) == ("anna", None)
    assert (member.client_id, member.client_host) == ("c", "/10.0.0.7")
    assert (member.member_metadata, member.member_assignment) == (anna.offers()[0].metadata, b"share of anna")


@behaviour("describe.rebalancing")
def test_a_rebalancing_group_is_shown_without_protocol_and_subscriptions() -> None:
    story = Story()
    story.preparing("anna", "ben")
    answer = story.describe()
    assert (answer.group_state, answer.protocol_type, answer.protocol_data) == ("PreparingRebalance", "consumer", "")
    assert [(each.member_id, each.member_metadata, each.member_assignment) for each in answer.members] == [
        ("anna", b"", b"share of anna"),
        ("ben", b"", b"share of ben"),
        ("carla", b"", b""),
    ]


@behaviour("describe.completing")
def test_in_the_sync_phase_nobody_has_a_share() -> None:
    story = Story()
    story.completing("anna")
    answer = story.describe()
    assert (answer.group_state, answer.protocol_data) == ("CompletingRebalance", "")
    assert [(each.member_metadata, each.member_assignment) for each in answer.members] == [(b"", b"")]


@behaviour("describe.empty")
def test_an_empty_group_keeps_its_protocol_type() -> None:
    story = Story()
    story.empty()
    answer = story.describe()
    assert (answer.group_state, answer.protocol_type, answer.protocol_data) == ("Empty", "consumer", "")
    assert answer.members == []


@behaviour("describe.static-member", "describe.pending-members-hidden")
def test_instance_ids_are_shown_and_reserved_ids_are_not() -> None:
    story = Story()
    story.stable("anna", static=True)
    story.consumer("ben").asks_to_join()
    assert [(each.member_id, each.group_instance_id) for each in story.describe().members] == [("anna", "till-of-anna")]


@behaviour("delete.non-empty")
@pytest.mark.parametrize("state", [State.STABLE, State.PREPARING, State.COMPLETING])
def test_a_group_with_members_cannot_be_deleted(state: State) -> None:
    story = Story()
    {State.STABLE: story.stable, State.PREPARING: story.preparing, State.COMPLETING: story.completing}[state]("anna")
    request = story.delete()
    assert (request.code, request.events, story.state) == (ErrorCode.NON_EMPTY_GROUP, (), state)


@behaviour("delete.empty-with-offsets", "delete.fetch-after-delete")
def test_an_empty_group_goes_with_its_offsets() -> None:
    story = Story()
    [anna] = story.stable("anna")
    anna.commits(("foo", 0, 1), ("foo", 1, 2))
    anna.leaves()
    assert story.delete().code is ErrorCode.NONE
    assert story.describe().group_state == "Dead"
    assert story.fetch(foo=(0,)).offsets == {("foo", 0): -1}
    assert (story.group.stored, story.group.offsets) == (None, {})
    assert story.delete().code is ErrorCode.GROUP_ID_NOT_FOUND


@behaviour("delete.simple-group")
def test_a_simple_group_can_be_deleted() -> None:
    story = Story()
    story.commit(("foo", 0, 1))
    assert story.delete().code is ErrorCode.NONE
    assert story.fetch_everything().offsets == {}


def test_a_deleted_group_can_be_made_again_and_begins_anew() -> None:
    story = Story()
    story.empty()
    story.delete()
    story.consumer("ben").joins()
    assert (story.state, story.generation) == (State.PREPARING, 0)


@behaviour("recovery.stable-group", "leader.restored-from-log")
def test_a_stable_group_comes_back_as_it_was() -> None:
    story = Story()
    anna, ben = story.stable("anna", "ben")
    before = story.group
    story.passes(9_000)
    story.fails_over()
    assert (story.state, story.generation, story.group.leader) == (State.STABLE, 2, "anna")
    assert (story.group.protocol_type, story.group.protocol_name) == ("consumer", "range")
    for name, member in story.group.members.items():
        assert member.protocols == before.members[name].protocols[:1]
        assert (member.client_id, member.client_host, member.assignment) == (
            "c",
            "/10.0.0.7",
            f"share of {name}".encode(),
        )
        assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (10_000, 60_000)
        assert story.ms_left(DeadlineKind.SESSION, name) == 10_000
    assert (anna.beats().code, ben.beats().code) == (ErrorCode.NONE, ErrorCode.NONE)


@behaviour("recovery.empty-group")
def test_an_empty_group_comes_back_and_its_age_counts_on() -> None:
    story = Story()
    [anna] = story.stable("anna")
    anna.commits(("foo", 0, 1))
    anna.leaves()
    story.passes(6 * DAY_MS)
    story.fails_over()
    assert (story.state, story.generation, story.group.protocol_type) == (State.EMPTY, 2, "consumer")
    assert story.is_cleaned_up() == []
    story.passes(1 * DAY_MS)
    assert [type(event).__name__ for event in story.is_cleaned_up()] == ["OffsetsForgotten", "GroupDeleted"]


@behaviour("recovery.rebalance-in-progress-lost", "recovery.unload-answers-parked-requests")
def test_a_rebalance_in_progress_is_forgotten() -> None:
    story = Story()
    anna, ben = story.stable("anna", "ben", protocols=("range",))
    carla = story.consumer("carla", protocols=("range",))
    parked = carla.joins()
    [loaded] = story.fails_over()
    assert isinstance(loaded, CoordinatorLoaded)
    assert loaded.forgotten == (
        "the parked JoinGroup of carla",
        "the members carla",
        "the rebalance that was running",
    )
    assert parked.code is ErrorCode.NOT_COORDINATOR
    assert (story.state, story.generation, story.members) == (State.STABLE, 2, ["anna", "ben"])
    assert carla.asks_to_join().code is ErrorCode.UNKNOWN_MEMBER_ID
    assert ben.asks_to_join().answer.generation_id == 2
    assert anna.asks_to_join().is_parked


@behaviour("recovery.completing-lost", "recovery.unload-answers-parked-requests")
def test_a_generation_that_was_never_stored_is_forgotten_and_its_number_used_again() -> None:
    story = Story()
    anna, ben = story.completing("anna", "ben")
    parked = ben.syncs()
    story.fails_over()
    assert parked.code is ErrorCode.NOT_COORDINATOR
    assert (story.state, story.generation, story.members) == (State.STABLE, 1, ["anna"])
    assert anna.syncs().code is ErrorCode.ILLEGAL_GENERATION
    assert ben.syncs().code is ErrorCode.UNKNOWN_MEMBER_ID
    ben.restarts()
    ben.joins()
    anna.asks_to_join()
    assert story.generation == 2


@behaviour("recovery.group-tombstone")
def test_a_deleted_group_does_not_come_back() -> None:
    story = Story()
    story.empty()
    story.delete()
    story.fails_over()
    assert not story.group.exists


@behaviour("recovery.offsets-without-group")
def test_offsets_alone_make_a_simple_group() -> None:
    story = Story()
    story.commit(("foo", 0, 1))
    story.fails_over()
    assert (story.state, story.generation, story.group.protocol_type) == (State.EMPTY, 0, "")
    assert story.fetch(foo=(0,)).offsets == {("foo", 0): 1}


@behaviour("recovery.static-members")
def test_static_members_come_back_with_their_instance_ids() -> None:
    story = Story()
    anna, ben = story.stable("anna", "ben", static=True)
    story.fails_over()
    assert story.group.static_members == {"till-of-anna": "anna", "till-of-ben": "ben"}
    assert anna.beats().code is ErrorCode.NONE
    ben.restarts()
    ben.protocols = ("range",)
    assert ben.asks_to_join().answer.member_id == "ben-2"
    assert story.state is State.STABLE


@behaviour("recovery.subscribed-topics-recomputed")
def test_subscriptions_are_read_again_from_the_stored_bytes() -> None:
    story = Story()
    [anna] = story.stable("anna", topics=("foo",))
    anna.commits(("foo", 0, 1))
    story.fails_over()
    assert story.delete_offsets(foo=(0,)).codes == {("foo", 0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}


def test_a_reserved_id_is_forgotten() -> None:
    story = Story()
    anna = story.consumer("anna")
    anna.asks_to_join()
    [loaded] = story.fails_over()
    assert isinstance(loaded, CoordinatorLoaded)
    assert loaded.forgotten == ("the reserved ids anna",)
    assert anna.asks_to_join().code is ErrorCode.UNKNOWN_MEMBER_ID
    assert story.state is State.EMPTY
