"""How long a join phase lasts: the initial delay, and the rebalance timeout."""

from regroup.coordinator.commands import DeadlineKind, Leaving
from regroup.coordinator.events import JoinPhaseProlonged
from regroup.coordinator.group import State
from regroup.protocol.errors import ErrorCode
from tests.coordinator.consumer import syncs
from tests.coordinator.stage import NOW
from tests.coordinator.story import Story, behaviour


@behaviour("timeout.initial-delay.basic")
def test_the_first_rebalance_waits_for_more_members() -> None:
    story = Story()
    request = story.consumer("anna", version=3).asks_to_join()
    story.passes(1_500)
    assert request.is_parked
    story.passes(1_500)
    assert (request.code, request.answer.generation_id) == (ErrorCode.NONE, 1)
    assert request.answered_at_ms == NOW + 3_000
    assert story.state is State.COMPLETING


@behaviour("timeout.initial-delay.zero")
def test_without_an_initial_delay_the_next_tick_begins_the_generation() -> None:
    story = Story(group_initial_rebalance_delay_ms=0)
    request = story.consumer("anna", version=3).asks_to_join()
    assert request.is_parked
    story.passes(0)
    assert request.answer.generation_id == 1


def test_without_an_initial_delay_a_newcomer_in_the_same_moment_draws_out_nothing() -> None:
    story = Story(group_initial_rebalance_delay_ms=0)
    requests = [story.consumer(name, version=3).asks_to_join() for name in ("anna", "ben")]
    story.passes(1)
    assert [request.answered_at_ms for request in requests] == [NOW, NOW]
    assert story.generation == 1


@behaviour("timeout.initial-delay.extended-by-new-member")
def test_newcomers_draw_the_initial_delay_out() -> None:
    story = Story()
    anna = story.consumer("anna", version=3, rebalance_timeout_ms=9_000)
    ben = story.consumer("ben", version=3, rebalance_timeout_ms=9_000)
    first = anna.asks_to_join()
    story.passes(2_999)
    second = ben.asks_to_join()
    story.passes(10_000)
    assert (first.answered_at_ms, second.answered_at_ms) == (NOW + 6_000, NOW + 6_000)


@behaviour("timeout.initial-delay.capped-by-rebalance-timeout")
def test_newcomers_cannot_draw_the_initial_delay_out_for_ever() -> None:
    story = Story()
    anna, ben, carla = (
        story.consumer(name, version=3, rebalance_timeout_ms=6_000) for name in ("anna", "ben", "carla")
    )
    requests = [anna.asks_to_join(), ben.asks_to_join()]
    story.passes(3_001)
    requests.append(carla.asks_to_join())
    story.passes(2_999)
    assert [request.answered_at_ms for request in requests] == [NOW + 6_000] * 3
    assert story.generation == 1


def test_a_newcomer_who_drew_nothing_out_draws_out_the_next_initial_delay() -> None:
    story = Story()
    names = ("anna", "ben", "carla", "dora")
    anna, ben, carla, dora = (story.consumer(name, version=3, rebalance_timeout_ms=5_000) for name in names)
    requests = [anna.asks_to_join(), ben.asks_to_join()]
    story.passes(3_001)
    requests.append(carla.asks_to_join())
    story.passes(1_999)
    assert [request.answered_at_ms for request in requests] == [NOW + 5_000] * 3
    for consumer in (anna, ben, carla):
        consumer.leaves()
    assert story.state is State.EMPTY
    request = dora.asks_to_join()
    story.passes(10_000)
    assert request.answered_at_ms == NOW + 10_000


@behaviour("timeout.initial-delay.not-cut-short-when-everybody-joined")
def test_the_initial_delay_is_not_cut_short() -> None:
    story = Story()
    anna = story.consumer("anna", version=3)
    anna.asks_to_join()
    anna.id = "anna"
    story.passes(1_000)
    again = anna.asks_to_join()
    story.passes(1_999)
    assert again.is_parked
    story.passes(1)
    assert again.code is ErrorCode.NONE


def test_the_initial_delay_ends_when_the_last_reserved_id_expires() -> None:
    story = Story()
    story.consumer("ben", session_timeout_ms=6_000).asks_to_join()
    story.passes(5_000)
    request = story.consumer("anna", version=3).asks_to_join()
    story.passes(999)
    assert request.is_parked
    story.passes(1)
    assert request.code is ErrorCode.NONE, "as in Kafka, though the delay is not over"
    assert (story.state, story.generation, story.members) == (State.COMPLETING, 1, ["anna"])


def test_the_initial_delay_goes_on_when_a_reserved_id_expires_and_another_is_out() -> None:
    story = Story()
    story.consumer("ben", session_timeout_ms=6_000).asks_to_join()
    story.consumer("carla", session_timeout_ms=10_000).asks_to_join()
    story.passes(5_000)
    request = story.consumer("anna", version=3).asks_to_join()
    story.passes(1_000)
    assert request.is_parked


@behaviour("timeout.initial-delay.member-leaves")
def test_the_initial_delay_goes_on_when_somebody_leaves() -> None:
    story = Story()
    anna, ben = story.consumer("anna"), story.consumer("ben")
    waiting, leaving = anna.joins(), ben.joins()
    ben.leaves()
    assert (leaving.code, leaving.answer.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")
    assert waiting.is_parked
    assert story.state is State.PREPARING


@behaviour("timeout.initial-delay.reapplied-after-empty")
def test_whenever_the_group_was_empty_there_is_an_initial_delay() -> None:
    story = Story()
    story.empty()
    request = story.consumer("ben", version=3).asks_to_join()
    assert (story.state, story.generation) == (State.PREPARING, 2)
    assert story.ms_left(DeadlineKind.JOIN_PHASE) == 3_000
    story.passes(1_000)
    story.consumer("carla", version=3).asks_to_join()
    story.passes(2_000)
    assert request.is_parked
    assert story.ms_left(DeadlineKind.JOIN_PHASE) == 3_000


@behaviour("timeout.rebalance.expels-silent-dynamic-members")
def test_whoever_does_not_rejoin_in_time_is_expelled_in_spite_of_its_heartbeats() -> None:
    story = Story()
    anna, ben, carla = story.preparing("anna", "ben")
    stored = story.group.stored
    story.passes(60_000, beating=[anna, ben])
    assert (carla.generation, carla.joined.leader) == (3, "carla")
    assert [each.member_id for each in carla.joined.members] == ["carla"]
    assert (story.state, story.members) == (State.COMPLETING, ["carla"])
    assert story.ms_left(DeadlineKind.SYNC_PHASE) == 60_000
    assert (anna.beats().code, ben.beats().code) == (ErrorCode.UNKNOWN_MEMBER_ID,) * 2
    assert story.group.stored == stored


@behaviour("timeout.rebalance.keeps-silent-static-members")
def test_static_members_may_miss_a_rebalance() -> None:
    story = Story()
    anna, ben = story.stable("anna", "ben", static=True)
    carla = story.consumer("carla")
    carla.joins()
    anna.asks_to_join()
    story.passes(60_000, beating=[ben])
    assert (anna.generation, carla.generation, ben.generation) == (3, 3, 2)
    assert [each.member_id for each in anna.joined.members] == ["anna", "ben", "carla"]
    assert (story.state, len(story.members)) == (State.COMPLETING, 3)


@behaviour("timeout.rebalance.nobody-rejoined-only-static-left")
def test_a_join_phase_without_anybody_is_drawn_out_for_static_members() -> None:
    story = Story()
    anna, ben, carla = story.stable("anna", "ben", "carla", static=True)
    carla.leaves()
    stored = story.group.stored
    for _ in range(2):
        story.passes(60_000, beating=[anna, ben])
        assert (story.state, story.generation, story.members) == (State.PREPARING, 3, ["anna", "ben"])
        assert story.ms_left(DeadlineKind.JOIN_PHASE) == 60_000
    assert story.group.stored == stored
    anna.asks_to_join()
    ben.asks_to_join()
    assert (story.state, story.generation) == (State.COMPLETING, 4)


@behaviour("timeout.rebalance.is-max-of-members")
def test_a_join_phase_lasts_for_the_most_patient_member() -> None:
    story = Story()
    anna, ben = story.consumer("anna", rebalance_timeout_ms=30_000), story.consumer("ben", rebalance_timeout_ms=90_000)
    anna.joins()
    ben.joins()
    story.passes(6_000)
    anna.syncs()
    story.consumer("carla", rebalance_timeout_ms=10_000).joins()
    assert story.ms_left(DeadlineKind.JOIN_PHASE) == 90_000


@behaviour("timeout.rebalance.deadline-not-extended")
def test_later_newcomers_do_not_push_the_deadline() -> None:
    story = Story()
    story.preparing("anna", "ben")
    story.passes(5_000)
    late = story.consumer("dora", version=3, rebalance_timeout_ms=600_000)
    assert late.asks_to_join().is_parked
    assert story.ms_left(DeadlineKind.JOIN_PHASE) == 55_000


@behaviour("timeout.rebalance.session-expiry-completes-join")
def test_the_join_phase_ends_when_the_one_it_waits_for_falls_silent() -> None:
    story = Story()
    story.stable("anna")
    ben = story.consumer("ben")
    request = ben.joins()
    story.passes(10_000)
    assert (request.code, ben.generation, ben.joined.leader) == (ErrorCode.NONE, 2, "ben")
    assert story.state is State.COMPLETING
    assert story.ms_left(DeadlineKind.JOIN_PHASE) is None


def test_a_newcomer_is_left_over_even_where_static_members_were_waited_for_meanwhile() -> None:
    story = Story()
    anna, ben = (
        story.consumer(name, static=True, rebalance_timeout_ms=3_000, session_timeout_ms=600_000)
        for name in ("anna", "ben")
    )
    anna.joins()
    ben.joins()
    story.passes(3_000)
    syncs([anna, ben])
    story.consumer("carla", version=3, rebalance_timeout_ms=3_000).asks_to_join()
    story.leave(Leaving("carla"))
    story.passes(3_000)
    assert isinstance(story.history[-1], JoinPhaseProlonged)
    story.leave(Leaving("anna"), Leaving("ben"))
    story.passes(3_000)
    assert story.state is State.EMPTY
    story.consumer("dora").joins()
    story.passes(3_000)
    assert story.state is State.PREPARING, "the delay was drawn out for one who came long ago"
