"""Steps, expectations and points: what is written is what is read."""

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regroup.lab.plan.expectations import AtMostRebalances, GroupIsEmpty, GroupIsStable, KeepsItsPartitions
from regroup.lab.plan.plan import Happening, MemberPlan, Plan, When
from regroup.lab.plan.sentences import forms_of
from regroup.lab.plan.steps import (
    KINDS,
    ClockJumps,
    Pauses,
    SlowNetwork,
    Step,
    brokers_named,
    members_named,
    parse_step,
)
from regroup.lab.plan.triggers import POINTS, check_point, members_in, parse_when

SENTENCES = [(kind, form.example()) for kind in KINDS for form in forms_of(kind)]


@pytest.mark.parametrize(("kind", "sentence"), SENTENCES, ids=[sentence for _, sentence in SENTENCES])
def test_every_sentence_is_read_as_its_own_kind_of_step_and_written_so_that_it_is_read_again(
    kind: type, sentence: str
) -> None:
    step = parse_step(sentence)
    assert type(step) is kind
    assert parse_step(str(step)) == step


@pytest.mark.parametrize(
    ("step", "sentence"),
    [
        (Pauses("ben", 20_000), "ben pauses for 20s"),
        (SlowNetwork(200, 30_000, 100), "the network takes 200ms, up to 100ms more, for 30s"),
        (SlowNetwork(200, 30_000), "the network takes 200ms for 30s"),
        (ClockJumps(30_000), "the clock jumps by 30s"),
        (ClockJumps(-1_500), "the clock jumps back by 1.5s"),
        (AtMostRebalances(1), "there have been at most 1 rebalance"),
        (AtMostRebalances(3), "there have been at most 3 rebalances"),
        (GroupIsStable(("anna", "ben"), 60_000), "within 1m the group is stable with anna and ben"),
        (GroupIsStable(("anna", "ben", "carla")), "the group is stable with anna, ben and carla"),
        (GroupIsStable(within_ms=5_000, group="payments"), "within 5s group payments is stable"),
        (GroupIsEmpty(), "the group is empty"),
    ],
)
def test_a_step_reads_as_people_would_say_it(step: Step, sentence: str) -> None:
    assert str(step) == sentence
    assert parse_step(sentence) == step


def test_fractions_of_a_second_and_spare_blanks_are_understood() -> None:
    assert parse_step(" anna   pauses for 1.5s ") == Pauses("anna", 1_500)
    assert parse_step("anna keeps her partitions") == KeepsItsPartitions("anna")


@pytest.mark.parametrize(
    ("sentence", "hint"),
    [
        ("anna crahses", "anna crashes"),
        ("ben pauses", "anna pauses for 20s"),
        ("the disk is full", "the disk is full for 20s"),
        ("anna's next SyncGrup is lost", "anna's next SyncGroup is lost"),
        (
            "log refuses writes with NO_SUCH_CODE for 2s",
            "Kafka's log refuses writes with FENCED_INSTANCE_ID for 20s",
        ),
    ],
)
def test_a_sentence_that_does_not_exist_is_refused_with_one_like_it(sentence: str, hint: str) -> None:
    with pytest.raises(ValueError, match="there is no such sentence") as refused:
        parse_step(sentence)
    assert hint in str(refused.value)


@pytest.mark.parametrize(
    ("sentence", "members", "brokers"),
    [
        ("anna is cut off from broker 1 for 20s", ("anna",), (1,)),
        ("broker 1 no longer hears everybody for 20s", (), (1,)),
        ("ben is cut off from anna for 20s", ("ben", "anna"), ()),
        ("broker 2 stops for 20s", (), (2,)),
        ("the group is stable with anna, ben and carla", ("anna", "ben", "carla"), ()),
        ("the answer to ben's next JoinGroup is lost", ("ben",), ()),
        ("the disk fails once", (), ()),
    ],
)
def test_a_step_knows_the_members_and_brokers_it_speaks_of(
    sentence: str, members: tuple[str, ...], brokers: tuple[int, ...]
) -> None:
    step = parse_step(sentence)
    assert members_named(step) == members
    assert brokers_named(step) == brokers


@pytest.mark.parametrize("name", ["everybody", "nobody", "the", "and"])
def test_nobody_is_called_by_a_word_that_means_something_else(name: str) -> None:
    with pytest.raises(ValueError, match="there is no such sentence"):
        parse_step(f"{name} crashes")


@given(st.text(max_size=60) | st.sampled_from(SENTENCES).map(lambda each: each[1][:-1]))
def test_any_text_is_a_step_that_can_be_written_or_is_refused_by_a_value_error(text: str) -> None:
    with suppress(ValueError):
        step = parse_step(text)
        assert parse_step(str(step)) == step


@pytest.mark.parametrize("point", [template.example() for template in POINTS])
def test_every_point_may_be_waited_for_with_and_without_a_pause_behind_it(point: str) -> None:
    assert check_point(point) == point
    for when in (When(point), When(point, 5_000)):
        assert parse_when(str(when)) == when


def test_a_moment_is_a_time_or_a_point() -> None:
    assert parse_when("at 1.5s") == When(delay_ms=1_500)
    assert str(When()) == "at 0s"
    assert parse_when("5s after  ben sends SyncGroup") == When("ben sends SyncGroup", 5_000)
    assert members_in("ben sends SyncGroup") == ("ben",)
    assert members_in("the group is stable") == ()


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("after anna is leader", "anna is elected leader"),
        ("in 20s", "at 20s"),
        ("at noon", "20s"),
        ("5 after the group is stable", "20s"),
    ],
)
def test_a_moment_that_never_comes_is_refused_with_one_that_does(text: str, hint: str) -> None:
    with pytest.raises(ValueError, match=hint):
        parse_when(text)


def test_a_plan_with_every_kind_of_step_is_the_same_after_json() -> None:
    happenings = tuple(Happening(When(), parse_step(sentence)) for _, sentence in SENTENCES)
    plan = Plan(title="All", members={"anna": MemberPlan(), "ben": MemberPlan(instance_id="b")}, happenings=happenings)
    assert msgspec.json.decode(msgspec.json.encode(plan), type=Plan) == plan
    assert {type(happening.step) for happening in plan.happenings} == set(KINDS)
