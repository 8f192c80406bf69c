"""Who leads, which protocol a generation works with, and how many may be in."""

from collections.abc import Sequence

import pytest

from regroup.coordinator.commands import DeadlineKind
from regroup.coordinator.events import LeaderElected
from regroup.coordinator.group import State
from regroup.protocol.errors import ErrorCode
from tests.coordinator.consumer import Consumer, syncs
from tests.coordinator.story import Story, behaviour

TEN = tuple(f"member-{number}" for number in range(10))


@behaviour("leader.first-member")
def test_the_first_one_to_join_leads() -> None:
    story = Story()
    anna, ben = story.consumer("anna"), story.consumer("ben")
    assert "LeaderElected" in anna.joins().event_names
    assert "LeaderElected" not in ben.joins().event_names
    assert story.group.leader == "anna", "it leads before there is a generation"
    story.passes(6_000)
    assert (anna.joined.leader, ben.joined.leader) == ("anna", "anna")


@behaviour("leader.kept-across-rebalances")
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_leader_leads_on_in_whatever_order_members_rejoin(order: Sequence[int]) -> None:
    story = Story()
    members = story.stable("anna", "ben")
    members[1].topics = ("bar",)
    for number in order:
        members[number].asks_to_join()
    assert story.generation == 3
    assert [each.joined.leader for each in members] == ["anna", "anna"]


@behaviour("leader.leaves")
def test_when_the_leader_leaves_another_member_leads() -> None:
    story = Story()
    anna, ben, carla = story.stable("anna", "ben", "carla")
    anna.leaves()
    assert story.state is State.PREPARING
    assert story.group.leader in ("ben", "carla")
    ben.asks_to_join()
    carla.asks_to_join()
    assert ben.joined.leader == carla.joined.leader == story.group.leader


@behaviour("leader.dynamic-leader-silent")
def test_a_leader_that_does_not_rejoin_loses_its_office_and_its_place() -> None:
    story = Story()
    anna, ben, carla = story.preparing("anna", "ben")
    ben.asks_to_join()
    story.passes(60_000, beating=[anna])
    assert (story.state, story.generation, story.members) == (State.COMPLETING, 3, ["ben", "carla"])
    elected = [event.leader for event in story.history if isinstance(event, LeaderElected)]
    assert elected == ["anna", ben.joined.leader], "the history says who followed whom"
    assert ben.joined.leader == carla.joined.leader
    assert ben.joined.leader in ("ben", "carla")


@behaviour("leader.static-leader-silent")
def test_a_static_leader_that_does_not_rejoin_loses_its_office_alone() -> None:
    story = Story()
    anna, ben = story.stable("anna", "ben", static=True)
    ben.topics = ("bar",)
    ben.asks_to_join()
    story.passes(60_000, beating=[anna])
    assert (story.state, story.members) == (State.COMPLETING, ["anna", "ben"])
    assert ben.joined.leader == "ben"
    elected = [event.leader for event in story.history if isinstance(event, LeaderElected)]
    assert elected == ["anna", "ben"], "the history says who followed whom"


@behaviour("leader.rejoins-in-time")
def test_a_leader_that_rejoins_at_the_last_moment_leads_on() -> None:
    story = Story()
    anna, ben = story.stable("anna", "ben", session_timeout_ms=120_000)
    ben.topics = ("bar",)
    ben.asks_to_join()
    story.passes(59_999)
    assert anna.asks_to_join().answer.leader == "anna"


@behaviour("leader.none-when-empty")
def test_an_empty_group_has_no_leader_and_the_next_one_to_join_leads() -> None:
    story = Story()
    story.empty()
    assert story.group.leader is None
    assert story.group.stored is not None
    assert story.group.stored.leader is None
    ben = story.consumer("ben")
    ben.joins()
    story.passes(3_000)
    assert ben.joined.leader == "ben"


@behaviour("leader.changes-mid-completing-by-expiry")
def test_a_leader_that_falls_silent_before_it_assigns_is_followed_by_another() -> None:
    story = Story()
    _, ben = story.completing("anna", "ben")
    story.passes(10_000, beating=[ben])
    assert (story.state, story.group.leader) == (State.PREPARING, "ben")
    assert ben.syncs().code is ErrorCode.REBALANCE_IN_PROGRESS


def generation_of(*offers: tuple[str, ...]) -> list[Consumer]:
    """Members with these protocols complete a join phase."""
    story = Story()
    members = [story.consumer(f"member-{number}", protocols=protocols) for number, protocols in enumerate(offers)]
    for member in members:
        member.joins()
    story.passes(60_000)
    return members


@behaviour("protocol.only-common-candidates")
def test_only_what_everybody_supports_can_be_chosen() -> None:
    anna, ben = generation_of(("range", "roundrobin"), ("roundrobin", "foo"))
    assert anna.joined.protocol_name == ben.joined.protocol_name == "roundrobin"


def test_the_protocol_that_most_members_prefer_is_chosen() -> None:
    members = generation_of(("range", "sticky"), ("sticky", "range"), ("sticky", "range"))
    assert {member.joined.protocol_name for member in members} == {"sticky"}


@behaviour("protocol.tie-unspecified")
@pytest.mark.parametrize(
    ("chosen", "other"),
    [
        ("range", "roundrobin"),
        ("range", "cooperative-sticky"),
        ("sticky", "range"),
        ("sticky", "cooperative-sticky"),
    ],
)
def test_a_tie_goes_to_the_name_that_a_java_hash_map_shows_first_whoever_came_first(chosen: str, other: str) -> None:
    for first, second in [(chosen, other), (other, chosen)]:
        anna, ben = generation_of((first, second), (second, first))
        assert (anna.joined.protocol_name, ben.joined.protocol_name) == (chosen, chosen)


@behaviour("protocol.joiner-may-narrow")
def test_a_newcomer_may_narrow_the_choice() -> None:
    story = Story()
    anna, ben = story.stable("anna", "ben")
    carla = story.consumer("carla", version=3, protocols=("roundrobin",))
    carla.asks_to_join()
    anna.asks_to_join()
    ben.asks_to_join()
    assert carla.joined.protocol_name == anna.joined.protocol_name == "roundrobin"


@behaviour("protocol.leaver-may-widen")
def test_a_leaver_may_widen_the_choice() -> None:
    story = Story()
    anna = story.consumer("anna", protocols=("range", "sticky"))
    ben = story.consumer("ben", protocols=("range",))
    anna.joins()
    ben.joins()
    story.passes(6_000)
    syncs([anna, ben])
    ben.leaves()
    anna.asks_to_join()
    assert anna.joined.protocol_name == "range"
    assert story.consumer("carla", version=3, protocols=("sticky",)).asks_to_join().is_parked


@behaviour("protocol.empty-group-accepts-anything")
def test_an_empty_group_accepts_any_protocol() -> None:
    story = Story()
    story.empty()
    assert story.consumer("ben", version=3, protocols=("anything",)).asks_to_join().is_parked


@behaviour("protocol.unparsable-metadata", "offset-delete.unparsable-subscription")
def test_bytes_that_are_no_subscription_make_every_topic_count_as_subscribed() -> None:
    story = Story()
    [anna] = story.stable("anna", metadata=b"no subscription")
    anna.commits(("foo", 0, 1))
    assert story.delete_offsets(foo=(0,)).codes == {("foo", 0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}
    story.now_ms += 30 * 86_400_000
    assert story.is_cleaned_up() == []


@behaviour("protocol.non-consumer-type-opaque")
def test_what_a_connect_worker_says_is_not_read() -> None:
    story = Story()
    story.stable("worker", protocol_type="connect", protocols=("sessioned",), metadata=b"\x00")
    assert story.group.subscribed_topics is None


@behaviour("limits.stable-full.new-member")
def test_a_full_group_hands_out_no_ids() -> None:
    story = Story(group_max_size=10)
    story.stable(*TEN)
    request = story.consumer("late").asks_to_join()
    assert (request.code, request.answer.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert (request.answer.generation_id, request.events) == (-1, ())


@behaviour("limits.stable-full.pending-dropped")
def test_a_group_that_filled_up_meanwhile_drops_a_reserved_id() -> None:
    story = Story(group_max_size=2)
    [anna] = story.stable("anna")
    late, ben = story.consumer("late", session_timeout_ms=600_000), story.consumer("ben")
    late.asks_to_join()
    ben.joins()
    anna.asks_to_join()
    story.passes(60_000)
    syncs([anna, ben])
    assert (story.state, story.members, list(story.group.reserved_ids)) == (State.STABLE, ["anna", "ben"], ["late"])
    request = late.asks_to_join()
    assert (request.code, request.answer.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert (story.state, story.group.reserved_ids) == (State.STABLE, {})


@behaviour("limits.preparing-counts-parked")
def test_while_members_gather_those_who_wait_are_counted() -> None:
    story = Story(group_max_size=10)
    eleven = [story.consumer(name) for name in (*TEN, "late")]
    for each in eleven:
        each.asks_to_join()
    assert all(each.asks_to_join().is_parked for each in eleven[:10])
    request = eleven[10].asks_to_join()
    assert (request.code, request.answer.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert (story.state, story.group.reserved_ids) == (State.PREPARING, {})


@behaviour("limits.empty-group-unlimited-pending")
def test_an_empty_group_hands_out_any_number_of_ids() -> None:
    story = Story(group_max_size=10)
    codes = {story.consumer(name).asks_to_join().code for name in (*TEN, "late")}
    assert codes == {ErrorCode.MEMBER_ID_REQUIRED}
    assert (story.state, len(story.group.reserved_ids)) == (State.EMPTY, 11)


@behaviour("limits.preparing.parked-member-may-resend")
def test_whoever_waits_already_may_ask_again() -> None:
    story = Story(group_max_size=10)
    ten = [story.consumer(name) for name in TEN]
    for each in ten:
        each.joins()
    assert ten[3].asks_to_join().is_parked
    assert story.state is State.PREPARING


@behaviour("limits.completing.existing-accepted")
def test_members_of_a_full_group_may_ask_again() -> None:
    story = Story(group_max_size=10)
    members = story.completing(*TEN)
    assert members[3].asks_to_join().answer.generation_id == 10


@behaviour("limits.static-members")
def test_static_members_are_counted_too() -> None:
    story = Story(group_max_size=10)
    for name in TEN:
        story.consumer(name, static=True).asks_to_join()
    assert story.consumer("late", static=True).asks_to_join().code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert story.state is State.PREPARING


@behaviour("limits.over-capacity-after-load")
def test_a_group_that_is_too_large_for_a_new_limit_rebalances_and_the_last_to_rejoin_go() -> None:
    story = Story()
    members = story.stable("anna", "ben", "carla")
    story.fails_over(group_max_size=2)
    assert (story.state, len(story.members)) == (State.PREPARING, 3)
    assert story.ms_left(DeadlineKind.JOIN_PHASE) == 60_000
    assert [story.ms_left(DeadlineKind.SESSION, name) for name in story.members] == [10_000] * 3
    assert members[0].asks_to_join().is_parked
    assert members[1].asks_to_join().is_parked
    assert members[2].asks_to_join().code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert story.members == ["anna", "ben"]


def test_a_group_that_just_fits_a_new_limit_is_left_alone() -> None:
    story = Story()
    story.stable("anna", "ben")
    story.fails_over(group_max_size=2)
    assert (story.state, story.members) == (State.STABLE, ["anna", "ben"])


@behaviour("limits.default-unbounded")
def test_a_group_may_have_any_number_of_members_unless_told_otherwise() -> None:
    assert Story().settings.group_max_size == 2_147_483_647
