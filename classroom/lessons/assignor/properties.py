"""The properties that a learner's assignor must have in every made-up case, and the check of them."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from regroup.assignors.interface import Assignments, AssignorError, AssignorMember, ClusterMetadata
from regroup.assignors.registry import assign_checked
from regroup.classroom.languages import Language
from regroup.classroom.lessons.assignor.cases import MadeUpCase, made_up_cases
from regroup.classroom.lessons.assignor.own_assignor import ComputeCases, ReturnedAssignments, as_assignments
from regroup.classroom.lessons.problems import ASSIGNOR_PROBLEMS, in_chinese
from regroup.classroom.lessons.runs.conditions import ConditionResult
from regroup.protocol.consumer.subscription import TopicPartition


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


def _check_case(case: MadeUpCase, returned: Any, properties: Sequence[str]) -> InBoth | None:
    """A sentence about the first thing that is wrong with an assignor's result in one case; None if nothing is."""
    assignments = as_assignments(returned)
    members = {name: AssignorMember(tuple(each["topics"])) for name, each in case.members.items()}
    try:
        assign_checked(ReturnedAssignments(assignments), ClusterMetadata(case.partitions), members)
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
