"""Steps, expectations and milestones: what is printed can be parsed."""

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regroup.lab.plan.expectations import AtMostRebalances, GroupIsEmpty, GroupIsStable, KeepsPartitions
from regroup.lab.plan.plan import MemberPlan, PlannedStep, SimulationPlan
from regroup.lab.plan.sentences import RENAMED_PHRASES, templates_of
from regroup.lab.plan.step_sentences import STEP_TYPES, brokers_named, members_named, parse_step
from regroup.lab.plan.steps import ClockJumps, Pauses, SimulationStep, SlowNetwork, TopicIsCreated
from regroup.lab.plan.triggers import MILESTONES, StepTrigger, check_milestone, milestone_members, parse_trigger
from regroup.lab.plan.validation import plan_problems

SENTENCES = [(kind, template.example()) for kind in STEP_TYPES for template in templates_of(kind)]


@pytest.mark.parametrize(("kind", "sentence"), SENTENCES, ids=[sentence for _, sentence in SENTENCES])
def test_every_sentence_is_parsed_as_its_type_of_step_and_printed_so_that_it_can_be_parsed(
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
        (GroupIsStable(("anna", "ben"), 60_000), "within 1m the group is Stable with anna and ben"),
        (GroupIsStable(("anna", "ben", "carla")), "the group is Stable with anna, ben and carla"),
        (GroupIsStable(within_ms=5_000, group="payments"), "within 5s group payments is Stable"),
        (GroupIsEmpty(), "the group is Empty"),
    ],
)
def test_a_step_prints_as_its_shortest_sentence(step: SimulationStep, sentence: str) -> None:
    assert str(step) == sentence
    assert parse_step(sentence) == step


def test_fractions_of_a_second_and_extra_blanks_are_accepted() -> None:
    assert parse_step(" anna   pauses for 1.5s ") == Pauses("anna", 1_500)
    assert parse_step("anna  keeps its partitions ") == KeepsPartitions("anna")


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
def test_an_unknown_sentence_is_refused_with_a_similar_one(sentence: str, hint: str) -> None:
    with pytest.raises(ValueError, match="unknown step") as refused:
        parse_step(sentence)
    assert hint in str(refused.value)


@pytest.mark.parametrize(
    ("sentence", "members", "brokers"),
    [
        ("anna is cut off from broker 1 for 20s", ("anna",), (1,)),
        ("broker 1 receives nothing from all hosts for 20s", (), (1,)),
        ("ben is cut off from anna for 20s", ("ben", "anna"), ()),
        ("broker 2 stops for 20s", (), (2,)),
        ("the group is Stable with anna, ben and carla", ("anna", "ben", "carla"), ()),
        ("the response to ben's next JoinGroup is lost", ("ben",), ()),
        ("the disk fails once", (), ()),
    ],
)
def test_a_step_knows_the_members_and_brokers_that_it_names(
    sentence: str, members: tuple[str, ...], brokers: tuple[int, ...]
) -> None:
    step = parse_step(sentence)
    assert members_named(step) == members
    assert brokers_named(step) == brokers


@pytest.mark.parametrize("name", ["everybody", "nobody", "all", "no", "the", "and"])
def test_a_word_with_another_meaning_is_not_a_member_name(name: str) -> None:
    with pytest.raises(ValueError, match="unknown step"):
        parse_step(f"{name} crashes")


@pytest.mark.parametrize(("old", "new"), RENAMED_PHRASES.items())
def test_a_phrase_of_the_first_version_is_refused_with_its_replacement(old: str, new: str) -> None:
    for parse, text in ((parse_step, f"anna {old} 5s"), (parse_trigger, f"after anna {old}")):
        with pytest.raises(ValueError, match="unknown") as refused:
            parse(text)
        assert f"{old!r} is now {new!r}" in str(refused.value)


@given(st.text(max_size=60) | st.sampled_from(SENTENCES).map(lambda each: each[1][:-1]))
def test_any_text_is_a_step_or_is_refused_with_a_value_error(text: str) -> None:
    with suppress(ValueError):
        step = parse_step(text)
        assert parse_step(str(step)) == step


@pytest.mark.parametrize("milestone", [template.example() for template in MILESTONES])
def test_every_milestone_can_be_a_trigger_with_and_without_a_delay(milestone: str) -> None:
    assert check_milestone(milestone) == milestone
    for trigger in (StepTrigger(milestone), StepTrigger(milestone, 5_000)):
        assert parse_trigger(str(trigger)) == trigger


def test_a_trigger_is_a_time_or_a_milestone() -> None:
    assert parse_trigger("at 1.5s") == StepTrigger(delay_ms=1_500)
    assert str(StepTrigger()) == "at 0s"
    assert parse_trigger("5s after  ben sends SyncGroup") == StepTrigger("ben sends SyncGroup", 5_000)
    assert milestone_members("ben sends SyncGroup") == ("ben",)
    assert milestone_members("the group is Stable") == ()


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("after anna is leader", "anna is elected leader"),
        ("in 20s", "at 20s"),
        ("at noon", "20s"),
        ("5 after the group is Stable", "20s"),
    ],
)
def test_an_invalid_trigger_is_refused_with_a_valid_one(text: str, hint: str) -> None:
    with pytest.raises(ValueError, match=hint):
        parse_trigger(text)


def test_a_plan_with_every_type_of_step_is_the_same_after_json() -> None:
    steps = tuple(PlannedStep(StepTrigger(), parse_step(sentence)) for _, sentence in SENTENCES)
    plan = SimulationPlan(title="All", members={"anna": MemberPlan(), "ben": MemberPlan(instance_id="b")}, steps=steps)
    assert msgspec.json.decode(msgspec.json.encode(plan), type=SimulationPlan) == plan
    assert {type(planned.step) for planned in plan.steps} == set(STEP_TYPES)


STEPS_WITH_A_TOPIC = [each for each in STEP_TYPES if "topic" in each.__struct_fields__ and each is not TopicIsCreated]


@pytest.mark.parametrize("kind", STEPS_WITH_A_TOPIC, ids=lambda kind: kind.__name__)
def test_a_step_for_a_topic_that_does_not_exist_is_a_problem_of_its_plan(kind: type) -> None:
    step = parse_step(templates_of(kind)[0].example())
    plan = SimulationPlan(
        topics={"clicks": 1},
        members={"anna": MemberPlan(topics=("clicks",))},
        steps=(PlannedStep(StepTrigger(), step),),
    )
    named = msgspec.structs.replace(step, topic="clicks")
    fitting = msgspec.structs.replace(plan, steps=(PlannedStep(StepTrigger(), named),))
    unknown = f"unknown topic: '{step.topic}'; known are clicks"
    assert unknown in [each.text for each in plan_problems(plan)]
    assert not any("topic" in each.text for each in plan_problems(fitting))
