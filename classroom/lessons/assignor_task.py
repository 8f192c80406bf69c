"""A learner's own assignor: the properties that it must have in made-up cases, and its place in a live group.

The learner's file has one function:

    def assign(partitions, members):
        return {"anna": [("orders", 0)], "ben": [("orders", 1)]}

`partitions` is the number of partitions of each topic, `members` has for each member its `topics`, and the `owned`
partitions of its last assignment. Running the file is left to `ComputeCases`.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, Final, NamedTuple, TypeAlias

from regroup.assignors.interface import (
    Assignments,
    Assignor,
    AssignorError,
    AssignorMember,
    ClusterMetadata,
    LastAssignment,
)
from regroup.assignors.range_assignor import RangeAssignor
from regroup.assignors.registry import assign_checked
from regroup.classroom.languages import Language
from regroup.classroom.lessons.format.parts import Lesson
from regroup.classroom.lessons.problems import ASSIGNOR_PROBLEMS, in_chinese, problem_text
from regroup.classroom.lessons.runs.conditions import ConditionResult
from regroup.classroom.lessons.runs.run import RunRefused, run_scenario
from regroup.classroom.lessons.settings import plan_of_task
from regroup.classroom.lessons.tasks import TaskResult, judged
from regroup.protocol.consumer.subscription import TopicPartition

OWN_ASSIGNOR: Final = "mine"
"""The name of the learner's assignor in the scenario of a task."""
NUMBER_OF_CASES: Final = 60
_SEED: Final = "cases of the lesson about assignors"
_NAMES: Final = ("anna", "ben", "carla", "dora", "emil", "fay", "gus")
_TOPICS: Final = ("orders", "payments", "refunds")


class MadeUpCase(NamedTuple):
    """The arguments of one call of a learner's assignor, as plain values that can be sent to another process."""

    partitions: dict[str, int]
    members: dict[str, dict[str, Any]]
    """For each member its `topics`, and the `owned` partitions of its last assignment as pairs."""

    def text(self, language: Language) -> str:
        """The case as one line of text for the learner, in this language."""
        return str(self) if language is Language.ENGLISH else self._in_chinese()

    def _in_chinese(self) -> str:
        members = "，".join(
            f"{name}（订阅 {'、'.join(each['topics'])}"
            + (f"；原来拥有 {_pairs(each['owned'])}" if each["owned"] else "")
            + "）"
            for name, each in self.members.items()
        )
        topics = "，".join(f"{topic} 有 {count} 个 partition" for topic, count in self.partitions.items())
        return f"topic：{topics}；成员：{members}"

    def __str__(self) -> str:
        members = ", ".join(
            f"{name} ({', '.join(each['topics'])})" + (f" owning {_pairs(each['owned'])}" if each["owned"] else "")
            for name, each in self.members.items()
        )
        topics = ", ".join(f"{topic} with {count}" for topic, count in self.partitions.items())
        return f"topics: {topics}; members: {members}"


class AssignorFailure(Exception):
    """A learner's assignor gave no result: it raised an error, took too long, or returned nonsense.

    `kind` is one of `FAILURES`, `detail` what can be added: a traceback, or the value.
    """

    def __init__(self, kind: str, detail: str = "") -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind, self.detail = kind, detail

    def text(self, language: Language) -> str:
        """The message for the learner."""
        template = FAILURES[self.kind][0 if language is Language.ENGLISH else 1]
        detail = self.detail if language is Language.ENGLISH else in_chinese(self.detail, ASSIGNOR_PROBLEMS)
        return template.format(detail=detail).strip()


FAILURES: Final[dict[str, tuple[str, str]]] = {
    "too long": (
        "assign() did not return within {detail}. Look for a loop that does not end.",
        "assign() 在 {detail} 内没有返回。请检查有没有不会结束的循环。",
    ),
    "too much output": (
        "the assignor printed more than {detail}. Print less.",
        "assignor 输出超过 {detail}。请少输出一些。",
    ),
    "too much memory": (
        "the assignor took more memory than {detail}.",
        "assignor 使用的内存超过 {detail}。",
    ),
    "result too large": (
        "assign() returned more than {detail}.",
        "assign() 返回的内容超过 {detail}。",
    ),
    "refused": (
        "the assignor tried to {detail}, which an assignor of a lesson may not: it only computes.",
        "assignor 试图做不允许的事（{detail}）：课程里的 assignor 只做计算。",
    ),
    "raised": ("assign() raised an error:\n{detail}", "assign() 抛出了异常：\n{detail}"),
    "cannot be loaded": (
        "the file cannot be loaded:\n{detail}",
        "文件无法加载：\n{detail}",
    ),
    "no function": (
        "the file has no function assign(partitions, members).",
        "文件里没有函数 assign(partitions, members)。",
    ),
    "nonsense": (
        'assign() must return a dict such as {{"anna": [("orders", 0)]}}; it returned {detail}',
        'assign() 必须返回字典，例如 {{"anna": [("orders", 0)]}}；它返回的是 {detail}',
    ),
    "impossible": ("in the live group: {detail}.", "在真实运行的 group 里：{detail}。"),
    "ended": (
        "the process of the assignor ended before it had a result ({detail}).",
        "assignor 的进程没有给出结果就结束了（{detail}）。",
    ),
}
"""What can go wrong with a learner's assignor, in English and in Chinese."""

ComputeCases: TypeAlias = Callable[[Sequence[MadeUpCase]], list[Any]]
"""Runs the learner's function for each case and returns what it returned, as JSON has it. Raises AssignorFailure."""


class OwnAssignor(Assignor):
    """The learner's function as an assignor of a member. The last assignment travels as user data.

    After its first failure the function is not called again, and range takes its place: a leader whose assignor fails
    would try again until the end of the run, with a new process each time.
    """

    name = OWN_ASSIGNOR

    def __init__(self, compute: ComputeCases) -> None:
        self._compute = compute
        self.failure: AssignorFailure | None = None
        """The failure in a live group, if there was one."""

    def subscription_user_data(self, topics: Sequence[str], last: LastAssignment | None) -> bytes | None:
        return json.dumps([list(each) for each in last.partitions] if last else []).encode()

    def assign(self, cluster: ClusterMetadata, members: Mapping[str, AssignorMember]) -> Assignments:
        if self.failure is None:
            try:
                return self._computed(cluster, members)
            except AssignorFailure as failure:
                self.failure = failure
        return RangeAssignor().assign(cluster, members)

    def _computed(self, cluster: ClusterMetadata, members: Mapping[str, AssignorMember]) -> Assignments:
        described = {
            name: {"topics": list(member.topics), "owned": json.loads(member.user_data or b"[]")}
            for name, member in members.items()
        }
        (returned,) = self._compute([MadeUpCase(dict(cluster.partitions_per_topic), described)])
        try:
            return assign_checked(_Given(as_assignments(returned)), cluster, members)
        except AssignorError as error:
            raise AssignorFailure("impossible", str(error)) from None


def as_assignments(returned: Any) -> Assignments:
    """What a learner's function returned, as an assignment. Raises AssignorFailure if it is none."""
    if not isinstance(returned, dict):
        raise AssignorFailure("nonsense", _short(returned))
    found: Assignments = {}
    for name, partitions in returned.items():
        if not isinstance(partitions, list):
            raise AssignorFailure("nonsense", f"{_short(partitions)} for {name}")
        for each in partitions:
            if not (isinstance(each, list) and len(each) == 2 and isinstance(each[0], str) and type(each[1]) is int):
                raise AssignorFailure("nonsense", f"{_short(each)} as a partition of {name}")
        found[str(name)] = [TopicPartition(*each) for each in partitions]
    return found


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


# -- properties


class InBoth(NamedTuple):
    """A sentence in English and in Chinese."""

    english: str
    chinese: str

    def text(self, language: Language) -> str:
        return self.english if language is Language.ENGLISH else self.chinese


class _CheckedCase(NamedTuple):
    case: MadeUpCase
    assignments: Assignments


def _is_balanced(checked: _CheckedCase) -> InBoth | None:
    """A sentence about two members whose shares differ by two partitions or more; None if there are no such two.

    Only cases in which all members subscribe to the same topics are checked.
    """
    subscriptions = {tuple(sorted(each["topics"])) for each in checked.case.members.values()}
    counts = {name: len(partitions) for name, partitions in checked.assignments.items()}
    if len(subscriptions) == 1 and max(counts.values()) - min(counts.values()) > 1:
        most, least = max(counts, key=counts.__getitem__), min(counts, key=counts.__getitem__)
        return InBoth(
            f"the shares differ by more than one partition: {most} got {counts[most]}, {least} got {counts[least]}.",
            f"partition 数相差超过 1：{most} 得到 {counts[most]} 个，{least} 得到 {counts[least]} 个。",
        )
    return None


def _is_complete(checked: _CheckedCase) -> InBoth | None:
    """A sentence about a partition that has a subscriber and was assigned to no member; None if there is none."""
    assigned = {each for partitions in checked.assignments.values() for each in partitions}
    wanted = {topic for each in checked.case.members.values() for topic in each["topics"]}
    missing = [
        f"{topic}-{number}"
        for topic, count in checked.case.partitions.items()
        if topic in wanted
        for number in range(count)
        if TopicPartition(topic, number) not in assigned
    ]
    if not missing:
        return None
    named = ", ".join(missing[:5])
    more = len(missing) - 5
    return InBoth(
        f"no member got these partitions: {named}{f', and {more} more' if more > 0 else ''}.",
        f"没有成员得到这些 partition：{named}{f'，以及另外 {more} 个' if more > 0 else ''}。",
    )


def _keeps_what_it_can(checked: _CheckedCase) -> InBoth | None:
    """A sentence about a member that lost a partition to another one although its share did not shrink; else None."""
    case, assigned = checked.case, dict[TopicPartition, str]()
    for name, partitions in checked.assignments.items():
        assigned |= dict.fromkeys(partitions, name)
    for name, member in case.members.items():
        owned = {TopicPartition(*each) for each in member["owned"]}
        lost = sorted(each for each in owned if assigned.get(each, name) != name)
        if lost and len(checked.assignments[name]) >= len(owned):
            partition = f"{lost[0].topic}-{lost[0].partition}"
            return InBoth(
                f"{name} got as many partitions as before, and yet lost {partition} to {assigned[lost[0]]}.",
                f"{name} 的 partition 数没有减少，却把 {partition} 让给了 {assigned[lost[0]]}。",
            )
    return None


class AssignorProperty(NamedTuple):
    """A property that a learner's assignor must have in every case.

    `counterexample` returns a sentence about a violation in one case, and None if the property holds there.
    """

    counterexample: Callable[[_CheckedCase], InBoth | None]
    english: str
    chinese: str


PROPERTIES: Final[dict[str, AssignorProperty]] = {
    "complete": AssignorProperty(
        _is_complete,
        "every partition of a subscribed topic has a member",
        "每个被订阅的 topic 的所有 partition 都有成员",
    ),
    "balanced": AssignorProperty(
        _is_balanced,
        "with equal subscriptions the shares differ by one partition at most",
        "订阅相同时，各成员的 partition 数最多相差 1",
    ),
    "keeps": AssignorProperty(
        _keeps_what_it_can,
        "a member that gets as many partitions as it had loses none of them",
        "如果一个成员得到的 partition 数不比原来少，它就不丢失原有的 partition",
    ),
}
"""The properties that a task can ask for. That no partition has two members or goes to one that is not subscribed to
its topic, and that no member is left out, is always asked for."""


def made_up_cases() -> Iterator[MadeUpCase]:
    """Yield the cases for checking an assignor: a few fixed ones, then random ones with a fixed seed."""
    yield MadeUpCase({"orders": 7}, {name: _member(["orders"]) for name in _NAMES[:3]})
    yield MadeUpCase({"orders": 2}, {name: _member(["orders"]) for name in _NAMES[:3]})
    yield MadeUpCase({"orders": 3, "payments": 3}, {name: _member(["orders", "payments"]) for name in _NAMES[:2]})
    rng = Random(_SEED)
    for _ in range(NUMBER_OF_CASES):
        topics = {topic: rng.randint(1, 9) for topic in rng.sample(_TOPICS, rng.randint(1, 3))}
        names = rng.sample(_NAMES, rng.randint(1, len(_NAMES)))
        are_equal = rng.random() < 0.6
        members = {}
        for name in names:
            chosen = sorted(topics) if are_equal else sorted(rng.sample(sorted(topics), rng.randint(1, len(topics))))
            members[name] = _member(chosen)
        if rng.random() < 0.5:
            _give_former_assignment(topics, members, rng)
        yield MadeUpCase(topics, members)


def _member(topics: list[str]) -> dict[str, Any]:
    return {"topics": topics, "owned": []}


def _give_former_assignment(topics: Mapping[str, int], members: dict[str, dict[str, Any]], rng: Random) -> None:
    """Choose some members as those that were there before, and give them all partitions in turn as `owned`."""
    former = rng.sample(sorted(members), rng.randint(1, len(members)))
    turn = 0
    for topic in sorted(topics):
        subscribed = [name for name in former if topic in members[name]["topics"]]
        for number in range(topics[topic] if subscribed else 0):
            members[subscribed[turn % len(subscribed)]]["owned"].append([topic, number])
            turn += 1


class _Given(Assignor):
    """An assignor that returns a result computed before, so that `assign_checked` can check this result."""

    name = OWN_ASSIGNOR

    def __init__(self, result: Assignments) -> None:
        self._result = result

    def assign(self, cluster: ClusterMetadata, members: Mapping[str, AssignorMember]) -> Assignments:
        return self._result


def _check_case(case: MadeUpCase, returned: Any, properties: Sequence[str]) -> InBoth | None:
    """A sentence about the first thing that is wrong with an assignor's result in one case; None if nothing is."""
    assignments = as_assignments(returned)
    members = {name: AssignorMember(tuple(each["topics"])) for name, each in case.members.items()}
    try:
        assign_checked(_Given(assignments), ClusterMetadata(case.partitions), members)
    except AssignorError as error:
        return InBoth(f"{error}.", f"{in_chinese(str(error), ASSIGNOR_PROBLEMS)}。")
    checked = _CheckedCase(case, assignments)
    return next(filter(None, (PROPERTIES[name].counterexample(checked) for name in properties)), None)


def check_properties(
    compute: ComputeCases, properties: Sequence[str], language: Language
) -> tuple[ConditionResult, ...]:
    """Call the learner's function for all cases, and return one result for each of the properties.

    Raises AssignorFailure.
    """
    is_english = language is Language.ENGLISH
    cases = list(made_up_cases())
    for number, (case, returned) in enumerate(zip(cases, compute(cases), strict=True), start=1):
        if problem := _check_case(case, returned, properties):
            where = InBoth(
                f"Case {number} of {len(cases)} has a wrong result:",
                f"第 {number} 个用例（共 {len(cases)} 个）的结果不对：",
            )
            because = f"{problem.text(language)}\n{case.text(language)}"
            return (ConditionResult(False, where.text(language), because),)
    return tuple(
        ConditionResult(True, PROPERTIES[name].english if is_english else PROPERTIES[name].chinese)
        for name in properties
    )


def _pairs(partitions: Sequence[Sequence[Any]]) -> str:
    return " ".join(f"{topic}-{number}" for topic, number in partitions)


def run_assignor_task(lesson: Lesson, compute: ComputeCases, language: Language) -> TaskResult:
    """Check the properties of a learner's assignor, then let it run in a live group."""
    assert lesson.parts.task.assignor is not None
    assignor = OwnAssignor(compute)
    try:
        properties = check_properties(compute, lesson.parts.task.assignor.properties, language)
        if not all(result.holds for result in properties):
            return TaskResult(False, results=properties)
        run = run_scenario(
            plan_of_task(lesson, {}, assignor), lesson.parts.group, bug=lesson.parts.task.bug, assignor=assignor
        )
    except AssignorFailure as failure:
        return TaskResult(False, problem=failure.text(language))
    except RunRefused as error:
        return TaskResult(False, problem=problem_text(error, language))
    if assignor.failure is not None:
        return TaskResult(False, problem=assignor.failure.text(language))
    result = judged(lesson, run, language)
    return result._replace(results=(*properties, *result.results))
