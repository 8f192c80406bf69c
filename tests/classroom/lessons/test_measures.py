"""What a lesson measures in a run equals what happened in it."""

import asyncio
from pathlib import Path

import pytest

from regroup.classroom.languages import Language
from regroup.classroom.lessons.document import recorded_timeline, run_lesson
from regroup.classroom.lessons.format.parts import Measure, Milliseconds, MomentSelector, RunCondition
from regroup.classroom.lessons.library import lesson
from regroup.classroom.lessons.runs.conditions import check_condition, condition_holds, measure_text
from regroup.classroom.lessons.runs.measures import MEASURES, measure_problems, measure_value
from regroup.classroom.lessons.runs.measuring import CannotMeasure
from regroup.classroom.lessons.runs.moments import find_moment, run_moments
from regroup.classroom.lessons.runs.reading_times import reading_times
from regroup.classroom.lessons.runs.run import LessonRun, RunRefused, record_scenario, run_scenario
from regroup.lab.plan.yaml_format import read_plan
from regroup.protocol.consumer.subscription import TopicPartition
from tests.classroom.lessons.files import small_lesson

CRASH = MomentSelector(moment="step", says="ben crashes")
REMOVAL = MomentSelector(moment="member-removed", member="ben")


@pytest.fixture(scope="module")
def run() -> LessonRun:
    """anna and ben share orders 0-3; ben crashes at +20 s, with a session timeout of 10 s."""
    return run_lesson(small_lesson())


def orders(*numbers: int) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition("orders", number) for number in numbers)


def ms(seconds: float) -> Milliseconds:
    return Milliseconds(seconds * 1000)


@pytest.mark.parametrize(
    ("measure", "value"),
    [
        (Measure(measure="rebalances"), 2),
        (Measure(measure="rebalances", until=ms(20)), 1),
        (Measure(measure="rebalances", from_=ms(20)), 1),
        (Measure(measure="generation"), 2),
        (Measure(measure="generation", at=ms(1)), 0),
        (Measure(measure="state"), "Stable"),
        (Measure(measure="state", at=ms(1)), "PreparingRebalance"),
        (Measure(measure="assignor"), "range"),
        (Measure(measure="assignor", at=ms(1)), ""),
        (Measure(measure="members", at=ms(19)), frozenset({"anna", "ben"})),
        (Measure(measure="members"), frozenset({"anna"})),
        (Measure(measure="leader"), frozenset({"anna"})),
        (Measure(measure="leader", at=ms(0)), frozenset()),
        (Measure(measure="removed"), frozenset({"ben"})),
        (Measure(measure="removed", until=ms(20)), frozenset()),
        (Measure(measure="partitions", member="anna", at=ms(19)), orders(0, 1)),
        (Measure(measure="partitions", member="anna"), orders(0, 1, 2, 3)),
        (Measure(measure="number of partitions", member="ben", at=ms(19)), 2),
        (Measure(measure="owner", partition="orders 3", at=ms(19)), frozenset({"ben"})),
        (Measure(measure="owner", partition="orders 3"), frozenset({"anna"})),
        (Measure(measure="difference", at=ms(19)), 0),
        (Measure(measure="moved", from_=ms(19)), orders(2, 3)),
        (Measure(measure="kept", from_=ms(19)), orders(0, 1)),
        (Measure(measure="kept", from_=ms(19), member="ben"), frozenset()),
        (Measure(measure="moments", of=MomentSelector(moment="member-joined")), 2),
        (Measure(measure="moments", of=MomentSelector(moment="member-joined"), from_=ms(10)), 0),
        (Measure(measure="time of", of=CRASH), 20_000),
        (Measure(measure="read by two"), frozenset()),
        (Measure(measure="violations"), 0),
        (Measure(measure="failed expectations"), 0),
        (Measure(measure="records processed"), 0),
        (Measure(measure="coordinator partition"), 43),
        (Measure(measure="coordinator broker"), 0),
        (Measure(measure="coordinator loads"), 0),
        (Measure(measure="committed offset", partition="orders 0"), 0),
        (Measure(measure="difference of offsets"), 0),
        (Measure(measure="partitions with records"), frozenset()),
    ],
    ids=lambda each: each.measure if isinstance(each, Measure) else "value",
)  # fmt: skip
def test_a_measure_has_the_value_of_the_run(run: LessonRun, measure: Measure, value: object) -> None:
    assert measure_value(run, measure) == value
    for language in Language:
        assert "{" not in measure_text(measure, language)


def test_times_are_those_between_moments(run: LessonRun) -> None:
    waited = measure_value(run, Measure(measure="time between", of=CRASH, to=REMOVAL))
    assert isinstance(waited, float)
    assert 7_000 <= waited <= 10_000, "10 s after the last heartbeat, which is sent every 3 s"
    gap, unread = (measure_value(run, Measure(measure=name)) for name in ("longest gap", "unread"))
    assert isinstance(gap, float)
    assert isinstance(unread, float)
    assert 0 < gap < 4_000, "the coordinator's view: since the removal"
    assert unread == pytest.approx(waited + gap, abs=50), "the members' view: since the crash"
    total = measure_value(run, Measure(measure="ownerless time"))
    assert total == pytest.approx(2 * gap, abs=50), "two partitions"
    assert measure_value(run, Measure(measure="unread", partition="orders 0")) == pytest.approx(0, abs=50)
    summed = measure_value(run, Measure(measure="unread time"))
    assert summed == pytest.approx(2 * unread, abs=100), "two partitions of ben, and two of anna for a moment"
    assert isinstance(summed, float)
    parts = [measure_value(run, Measure(measure="unread time", partition=f"orders {number}")) for number in range(4)]
    assert summed == sum(each for each in parts if isinstance(each, float))
    halves = [Measure(measure="unread time", until=ms(25)), Measure(measure="unread time", from_=ms(25))]
    assert summed == sum(each for half in halves if isinstance(each := measure_value(run, half), float))


def test_a_moment_that_does_not_come_has_no_time(run: LessonRun) -> None:
    never = MomentSelector(moment="member-left")
    for measure in (Measure(measure="time of", of=never), Measure(measure="time between", of=CRASH, to=never)):
        with pytest.raises(CannotMeasure, match="member-left"):
            measure_value(run, measure)
    condition = RunCondition(measure="time of", of=never, at_most="1h", because="It came at {found}.")
    result = check_condition(run, condition, Language.CHINESE)
    assert not result.holds
    assert result.because == "It came at 从未发生."


def test_moments_are_in_order_and_can_be_counted_from_either_end(run: LessonRun) -> None:
    moments = run_moments(run)
    assert [each.index for each in moments] == list(range(len(moments)))
    assert [each.at_ms for each in moments] == sorted(each.at_ms for each in moments)
    generations = [each.generation for each in moments if each.name == "generation-started"]
    assert generations == [1, 2]
    first, last = (find_moment(run, MomentSelector(moment="generation-started", number=each)) for each in (1, -1))
    assert first is not None
    assert last is not None
    assert (first.generation, last.generation) == (1, 2)
    assert find_moment(run, MomentSelector(moment="generation-started", number=3)) is None
    assert find_moment(run, MomentSelector(moment="generation-started", number=-3)) is None


@pytest.mark.parametrize(
    ("comparison", "holds"),
    [
        ({"is_": ["anna"]}, False),
        ({"is_": "anna, ben"}, True),
        ({"is_not": ["anna"]}, True),
        ({"at_least": 2}, True),
        ({"at_most": 1}, False),
        ({"at_least": 1, "at_most": 2}, True),
        ({"at_least": 1, "at_most": 1}, False),
    ],
)
def test_every_comparison_of_a_condition_must_hold(run: LessonRun, comparison: dict[str, object], holds: bool) -> None:
    assert condition_holds(run, RunCondition(measure="members", at=ms(19), **comparison)) is holds


def test_a_crashed_and_a_paused_member_read_nothing() -> None:
    plan = read_plan(
        """
        scenario: A pause
        topics: {orders: 1}
        members: {anna: {session timeout: 10s}, ben: {session timeout: 10s}}
        steps:
          - at 0s: anna joins
          - at 10s: anna becomes a zombie
          - at 12s: ben joins
        faults end at: 60s
        """
    )
    run = run_scenario(plan, "lab")
    readers = [(sorted(each.readers), each.began_ms // 1000) for each in reading_times(run)]
    assert readers[0][0] == ["anna"]
    assert ([], 10) in readers
    assert ["ben"] in [names for names, _ in readers]
    assert measure_value(run, Measure(measure="read by two")) == orders(0), "the zombie reads on when it wakes"


def test_every_group_of_a_run_can_be_measured() -> None:
    plan = read_plan(
        """
        scenario: Two groups
        topics: {orders: 2}
        members: {anna: {}, ben: {group: other}, carla: {group: other}}
        steps:
          - at 0s: [anna joins, ben joins]
          - at 20s: carla joins
        faults end at: 40s
        """
    )
    run = run_scenario(plan, "lab")
    assert measure_value(run, Measure(measure="generation")) == 1
    assert measure_value(run, Measure(measure="generation", group="other")) == 2
    assert measure_value(run, Measure(measure="members", group="other")) == frozenset({"ben", "carla"})
    assert [each.text for each in run_moments(run) if each.name == "step"] == ["anna joins"]
    assert "carla joins" in [each.text for each in run_moments(run.of_group("other"))]
    with pytest.raises(CannotMeasure, match="no event of group 'nowhere'"):
        measure_value(run, Measure(measure="generation", group="nowhere"))
    assert list(measure_problems(Measure(measure="generation", group="nowhere"), plan)) == [
        "unknown group 'nowhere'; known are lab, other"
    ]


def test_records_that_were_skipped_are_counted() -> None:
    plan = read_plan(
        """
        scenario: Records are skipped
        topics: {orders: 2}
        workload: {records per s: 10, process: 150ms, max poll records: 50}
        members: {anna: {session timeout: 10s}, ben: {session timeout: 10s}}
        steps:
          - at 0s: [anna joins, ben joins]
          - at 30s: ben crashes
        """
    )
    sound, faulty = (run_scenario(plan, "lab", bug=bug) for bug in ("", "member-starts-one-offset-too-far"))
    assert measure_value(sound, Measure(measure="records skipped")) == 0
    assert measure_value(sound, Measure(measure="records processed")) != 0
    assert measure_value(sound, Measure(measure="partitions with records")) == orders(0, 1)
    skipped = measure_value(faulty, Measure(measure="records skipped"))
    assert isinstance(skipped, float)
    assert skipped > 0
    assert measure_value(faulty, Measure(measure="violations")) != 0


def test_a_run_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regroup.classroom.lessons.runs.run.MAX_CALLBACKS", 50)
    with pytest.raises(RunRefused, match="takes too long"):
        run_lesson(lesson(1))


def test_the_partition_of_a_key_follows_the_number_of_partitions() -> None:
    run = run_lesson(lesson(5))
    (partitions, *_) = run.plan.topics.values()
    of_the_run = measure_value(run, Measure(measure="partition of key", key="key-3"))
    assert of_the_run == 308_347_547 % partitions  # what Kafka's murmur2 gives for key-3, without its sign
    assert measure_value(run, Measure(measure="partition of key", key="key-3", partitions=6)) == 5


def test_a_topic_has_at_least_one_partition() -> None:
    with pytest.raises(ValueError, match="`partitions` is at least 1, not 0"):
        Measure(measure="partition of key", key="key-3", partitions=0)


def test_every_measure_has_a_value_in_this_file() -> None:
    """A measure that no test computes may be wrong."""
    source = Path(__file__).read_text(encoding="utf-8")
    elsewhere = {"records read twice"}
    assert {name for name in MEASURES if f'measure="{name}"' not in source and f'"{name}"' not in source} <= elsewhere


@pytest.mark.parametrize("number", [2, 4])
def test_a_recorded_run_has_the_same_events_and_exchanges_too(number: int) -> None:
    run, recorded = run_lesson(lesson(number)), recorded_timeline(lesson(number))
    moments = [(each.position, each.at_ms, each.type) for each in run.timeline.moments]
    assert [(each.position, each.at_ms, each.type) for each in recorded.moments] == moments
    assert recorded.exchanges
    assert recorded.views
    assert not run.timeline.exchanges


@pytest.mark.parametrize("recorded", [False, True], ids=["run", "recorded"])
def test_processes_have_the_names_of_the_scenario(recorded: bool) -> None:
    """The coordinator has the client id of a static member's first process for all of them."""
    plan = read_plan(
        """
        scenario: A restart and a twin
        topics: {orders: 2}
        members: {ben: {instance id: one}, twin: {instance id: one}}
        steps:
          - at 0s: ben joins
          - at 20s: ben restarts after 5s
          - at 40s: twin joins
        """
    )
    timeline = record_scenario(plan, "lab") if recorded else run_scenario(plan, "lab").timeline
    assert [lane.name for lane in timeline.lanes] == ["ben", "ben#2", "twin"]
    assert list(timeline.names.values()) == ["ben", "ben#2", "twin"]


async def test_runs_of_several_threads_do_not_disturb_each_other() -> None:
    """A web server calls lessons in threads; the number of rebalances is that of each scenario."""
    runs = await asyncio.gather(*(asyncio.to_thread(run_lesson, lesson(number)) for number in (1, 3, 1, 3)))
    assert [measure_value(run, Measure(measure="rebalances")) for run in runs] == [1, 3, 1, 3]
