"""Looking at a group, waiting for it, and acting on it; the members speak the protocol themselves."""

import threading
from collections.abc import Callable
from time import monotonic

import pytest

from regroup.coordinator.verification import GroupsVerifier
from regroup.protocol.errors import ErrorCode
from regroup.testing import ActRefused, Emulator, GroupState, UnknownMember, WaitTimeout
from tests.testing.conftest import ManualMember, commit, stable_pair

StartEmulator = Callable[..., Emulator]


@pytest.fixture
def kafka(emulator: StartEmulator) -> Emulator:
    return emulator(topics={"orders": 2})


def verified_violations(kafka: Emulator) -> list[str]:
    """What the invariants say about the whole history."""

    async def verify() -> list[str]:
        verifier = GroupsVerifier()
        history = kafka._emulator.history
        found = [each async for record in history.read() for each in verifier.violations_of(record)]
        return [each.sentence for each in (*found, *verifier.violations_at_end())]

    return kafka._running.run(verify())


# Look


def test_a_group_that_does_not_exist_is_dead(kafka: Emulator) -> None:
    group = kafka.group("billing").now()
    assert (group.state, group.generation, group.leader, group.members) == (GroupState.DEAD, 0, None, ())


def test_a_view_shows_members_by_all_their_names_and_stays_as_it_was(kafka: Emulator) -> None:
    first, second = stable_pair(kafka)
    group = kafka.group("billing").now()
    assert (group.state, group.generation, group.protocol) == ("Stable", 2, "range")
    assert group.leader == first.member_id
    assert group.partitions_of("first") == {("orders", 0)}
    assert group.partitions_of(second.member_id) == {("orders", 1)}
    assert group.member("second").subscription == {"orders"}
    assert group.member("first").host == "/127.0.0.1"
    kafka.group("billing").remove("second")
    assert len(group.members) == 2


def test_a_static_member_is_found_by_its_instance_id(kafka: Emulator) -> None:
    anna = ManualMember(kafka, "client", instance_id="anna")
    anna.join()
    assert kafka.group("billing").now().member("anna").member_id == anna.member_id


def test_a_name_that_is_not_one_member_is_an_error_that_lists_the_members(kafka: Emulator) -> None:
    stable_pair(kafka)
    group = kafka.group("billing").now()
    with pytest.raises(UnknownMember, match="no member of group 'billing' is called 'third'; members: first, second"):
        group.partitions_of("third")
    ManualMember(kafka, "first").post_join()
    group = kafka.group("billing").wait_until(lambda seen: len(seen.members) == 3)
    with pytest.raises(UnknownMember, match="2 members of group 'billing' have the client id 'first': name one of"):
        group.partitions_of("first")


def test_lag_counts_the_records_behind_the_committed_offset(kafka: Emulator) -> None:
    first, _ = stable_pair(kafka)
    commit(first, {0: 1, 1: 0})
    for number in range(3):
        kafka.produce("orders", str(number), partition=0)
    group = kafka.group("billing").now()
    assert group.committed == kafka.committed("billing") == {("orders", 0): 1, ("orders", 1): 0}
    assert (group.lag, group.total_lag) == ({("orders", 0): 2, ("orders", 1): 0}, 2)


def test_offsets_of_a_deleted_topic_have_no_lag(kafka: Emulator) -> None:
    first, _ = stable_pair(kafka)
    commit(first, {0: 1})
    kafka.delete_topic("orders")
    assert kafka.group("billing").now().lag == {}


# Wait


def test_a_wait_ends_with_the_change_that_it_waits_for(kafka: Emulator) -> None:
    first = ManualMember(kafka, "first")
    threading.Timer(0.05, first.join).start()
    group = kafka.group("billing").wait_until(lambda seen: seen.generation == 1)
    assert group.state is GroupState.COMPLETING_REBALANCE


def test_a_wait_for_lag_ends_when_records_come(kafka: Emulator) -> None:
    first, _ = stable_pair(kafka)
    commit(first, {0: 0})
    threading.Timer(0.05, kafka.produce, ("orders", "late")).start()
    assert kafka.group("billing").wait_until(lambda seen: seen.total_lag == 1).lag[("orders", 0)] == 1


def test_stable_means_that_every_member_has_its_assignment(kafka: Emulator) -> None:
    first, second = ManualMember(kafka, "first"), ManualMember(kafka, "second")
    first.join()
    waiting = second.post_join()
    kafka.group("billing").wait_until(lambda seen: len(seen.members) == 2)
    first.join()
    second.joined(waiting.result(10))
    first.sync({first.member_id: [0], second.member_id: [1]}).result(10)
    group = kafka.group("billing").now()
    assert (group.state, group.unsynced, group.is_settled) == ("Stable", (second.member_id,), False)
    second.sync().result(10)
    assert kafka.group("billing").wait_until_stable(members=2).is_settled


def test_a_late_wait_tells_the_last_events_and_requests(kafka: Emulator) -> None:
    first, _ = stable_pair(kafka)
    first.heartbeat()
    first.heartbeat()
    before_s = monotonic()
    with pytest.raises(WaitTimeout) as caught:
        kafka.group("billing").wait_until_stable(members=3, timeout_s=0.1)
    assert 0.1 <= monotonic() - before_s < 5
    text = str(caught.value)
    assert text.startswith(
        "group 'billing' did not reach Stable with 3 members within 0.1 s. "
        "It is Stable in generation 2, members: first, second."
    )
    rows = [" ".join(line.split()) for line in text.splitlines()]
    assert any("generation-started" in row and "JoinGroup of first" in row for row in rows)
    assert any("first Heartbeat x2, last" in row and "NONE" in row for row in rows)
    assert caught.value.group.generation == 2


def test_an_error_in_a_condition_reaches_the_test(kafka: Emulator) -> None:
    with pytest.raises(ZeroDivisionError):
        kafka.group("billing").wait_until(lambda seen: 1 / len(seen.members))


def test_a_condition_that_calls_the_emulator_is_refused(kafka: Emulator) -> None:
    with pytest.raises(RuntimeError, match="cannot call the emulator"):
        kafka.group("billing").wait_until(lambda seen: kafka.groups())


# Act


def test_a_member_whose_session_was_ended_is_unknown(kafka: Emulator) -> None:
    first, second = stable_pair(kafka)
    group = kafka.group("billing").expire("second")
    assert (group.state, [each.client_id for each in group.members]) == ("PreparingRebalance", ["first"])
    assert second.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_held_join_of_a_member_whose_session_was_ended_is_refused(kafka: Emulator) -> None:
    stable_pair(kafka)
    waiting = ManualMember(kafka, "third").post_join()
    kafka.group("billing").wait_until(lambda seen: len(seen.members) == 3)
    kafka.group("billing").expire("third")
    assert waiting.result(10).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_removed_static_member_is_unknown(kafka: Emulator) -> None:
    anna = ManualMember(kafka, "client", instance_id="anna")
    anna.join()
    assert kafka.group("billing").remove("anna").members == ()
    assert anna.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_forced_rebalance_asks_every_member_to_join_again(kafka: Emulator) -> None:
    first, second = stable_pair(kafka)
    kafka.group("billing").rebalance()
    assert {first.heartbeat(), second.heartbeat()} == {ErrorCode.REBALANCE_IN_PROGRESS}
    waiting = first.post_join()
    second.join()
    assert waiting.result(10).generation_id == 3


def test_a_join_phase_that_is_ended_leaves_out_who_has_not_joined(kafka: Emulator) -> None:
    first, second = stable_pair(kafka)
    kafka.group("billing").rebalance()
    waiting = first.post_join()
    kafka.group("billing").wait_until(lambda seen: seen.member("first").awaiting == "join")
    assert len(kafka.group("billing").complete_join_phase().members) == 1
    assert waiting.result(10).error_code == 0
    assert second.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_initial_delay_can_be_ended(emulator: StartEmulator) -> None:
    kafka = emulator(topics={"orders": 2}, settings={"group.initial.rebalance.delay.ms": 60_000})
    waiting = ManualMember(kafka, "first").post_join()
    kafka.group("billing").wait_until(lambda seen: seen.members)
    kafka.group("billing").complete_join_phase()
    assert waiting.result(10).generation_id == 1


def test_a_bumped_generation_refuses_the_members_and_survives_a_kill(kafka: Emulator) -> None:
    first, second = stable_pair(kafka)
    group = kafka.group("billing").bump_generation()
    assert (group.state, group.generation) == ("Stable", 3)
    assert {first.heartbeat(), second.heartbeat()} == {ErrorCode.ILLEGAL_GENERATION}
    kafka.kill()
    kafka.restart()
    assert kafka.group("billing").now().generation == 3


def test_forgotten_offsets_are_gone_although_members_subscribe(kafka: Emulator) -> None:
    first, _ = stable_pair(kafka)
    commit(first, {0: 4, 1: 5})
    assert kafka.group("billing").forget_offsets(("orders", 0)).committed == {("orders", 1): 5}
    assert kafka.group("billing").forget_offsets().committed == {}


def test_a_group_is_deleted_with_its_members(kafka: Emulator) -> None:
    first, _ = stable_pair(kafka)
    kafka.group("billing").delete()
    assert kafka.groups() == []
    assert first.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    with pytest.raises(ActRefused, match="GROUP_ID_NOT_FOUND"):
        kafka.group("billing").delete()


@pytest.mark.parametrize("act", ["rebalance", "bump_generation", "complete_join_phase"])
def test_an_act_that_does_not_fit_the_state_is_refused(kafka: Emulator, act: str) -> None:
    with pytest.raises(ActRefused, match="it is Dead in generation 0, members: none; this needs"):
        getattr(kafka.group("billing"), act)()


def test_acts_stand_in_the_history_as_causes_and_those_beyond_kafka_are_marked(kafka: Emulator) -> None:
    first, _ = stable_pair(kafka)
    commit(first, {0: 4})
    group = kafka.group("billing")
    group.forget_offsets()
    group.bump_generation()
    group.rebalance()
    group.complete_join_phase()
    acts = [(each.cause.test, each.cause.beyond_kafka) for each in group.events() if each.cause and each.cause.test]
    assert list(dict.fromkeys(acts)) == [
        ("forget-offsets", True),
        ("bump-generation", True),
        ("rebalance", False),
        ("complete-join-phase", False),
    ]
    assert group.events()[-1].cause_text == "test: complete-join-phase"


def test_a_history_with_acts_breaks_no_invariant(kafka: Emulator) -> None:
    first, _ = stable_pair(kafka)
    commit(first, {0: 4})
    group = kafka.group("billing")
    group.bump_generation()
    group.expire("first")
    group.complete_join_phase()
    group.forget_offsets()
    group.delete()
    assert verified_violations(kafka) == []
