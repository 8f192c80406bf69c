"""Says everything that is wrong with a lesson: names that do not exist, moments that do not come, wrong examples.

problems = lesson_problems(read_lesson(text))         ["line 31, question.measure: unknown measure …"]
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from regroup.classroom.languages import Language
from regroup.classroom.lessons.assignor.own_assignor import OWN_ASSIGNOR, OwnAssignor
from regroup.classroom.lessons.assignor.properties import PROPERTIES
from regroup.classroom.lessons.format.language import LessonText, names_in
from regroup.classroom.lessons.format.parts import FOUND, RESERVED_NAMES, Lesson, RunCondition
from regroup.classroom.lessons.format.reading import at_line
from regroup.classroom.lessons.questions import right_options, tolerance_of
from regroup.classroom.lessons.runs.conditions import condition_problems
from regroup.classroom.lessons.runs.measures import measure_kind, measure_problems, measure_value
from regroup.classroom.lessons.runs.measuring import CannotMeasure
from regroup.classroom.lessons.runs.moments import find_explained, selector_problems, selector_text
from regroup.classroom.lessons.runs.run import LessonRun, RunRefused, bound_problems, run_scenario
from regroup.classroom.lessons.settings import placeholders, plan_of_task, setting_problems, task_scenario
from regroup.classroom.lessons.tasks import run_task
from regroup.lab.plan.plan import SimulationPlan
from regroup.lab.plan.validation import CONSUMER
from regroup.lab.plan.yaml_format import InvalidScenario
from regroup.lab.planted_bugs.registry import UnknownBug, bug_named


class _Problem(NamedTuple):
    path: str
    text: str


def lesson_problems(lesson: Lesson) -> list[str]:
    """Everything that is wrong, each with its line and field, in the order of the file. Empty for a sound lesson.

    The examples of an assignor are not run here: only the terminal runs a learner's code.
    """
    found = list(_static_problems(lesson))
    if not found:
        try:
            run = run_scenario(lesson.plan, lesson.parts.group, bug=lesson.parts.bug)
        except RunRefused as error:
            found = [_Problem("scenario", str(error))]
        else:
            found = [*_run_problems(lesson, run), *_example_problems(lesson)]
    found.sort(key=lambda problem: lesson.lines.get(problem.path, 0))
    return [at_line(lesson.lines, problem.path, problem.text) for problem in found]


# -- without a run


def _static_problems(lesson: Lesson) -> Iterator[_Problem]:
    parts, plan = lesson.parts, lesson.plan
    for problem in bound_problems(plan):
        yield _Problem("scenario", problem)
    yield from _bug_problems("bug", parts.bug)
    if not placeholders(parts.task.bug):
        yield from _bug_problems("task.bug", parts.task.bug)
    for name, measure in parts.values.items():
        if name in RESERVED_NAMES:
            yield _Problem(f"values.{name}", f"the name {name!r} is taken; choose another one")
        for problem in measure_problems(measure, plan):
            yield _Problem(f"values.{name}", problem)
    yield from _question_problems(lesson)
    yield from _group_problems(lesson)
    for index, moment in enumerate(parts.moments):
        if moment.group not in ("", parts.beside):
            yield _Problem(f"moments[{index}]", f"the group {moment.group!r} is neither shown nor `beside`")
        for problem in selector_problems(moment, tuple(plan.members)):
            yield _Problem(f"moments[{index}]", problem)
    yield from _task_problems(lesson)
    yield from _text_problems(lesson)


def _group_problems(lesson: Lesson) -> Iterator[_Problem]:
    """Yield what is wrong with the protocols of the lesson's groups.

    The group that pictures show must be classic. The second group (`beside`), which has sentences only, must be one of
    the consumer protocol.
    """
    protocols: dict[str, set[str]] = {}
    for member in lesson.plan.members.values():
        protocols.setdefault(member.group, set()).add(member.protocol)
    if CONSUMER in protocols.get(lesson.parts.group, ()):
        yield _Problem("group", "its members have the protocol consumer, which no picture shows; name it as `beside`")
    if lesson.parts.beside and protocols.get(lesson.parts.beside) != {CONSUMER}:
        yield _Problem("beside", f"{lesson.parts.beside!r} is no group whose members all have the protocol consumer")


def _bug_problems(path: str, bug: str) -> Iterator[_Problem]:
    if bug:
        try:
            bug_named(bug)
        except UnknownBug as error:
            yield _Problem(path, str(error))


def _question_problems(lesson: Lesson) -> Iterator[_Problem]:
    question, plan = lesson.parts.question, lesson.plan
    if len(question.options) == 1:
        yield _Problem("question.options", "a question has at least two options")
    for index, option in enumerate(question.options):
        if isinstance(option.right, RunCondition):
            for problem in condition_problems(option.right, plan):
                yield _Problem(f"question.options[{index}].right", problem)
    if question.measure is not None:
        problems = list(measure_problems(question.measure, plan))
        yield from (_Problem("question.measure", problem) for problem in problems)
        if not problems:
            try:
                tolerance_of(question)
            except ValueError:
                kind = measure_kind(question.measure).value
                yield _Problem("question.tolerance", f"{question.tolerance!r} is no tolerance of a {kind}")


def _task_problems(lesson: Lesson) -> Iterator[_Problem]:
    task = lesson.parts.task
    for name, setting in task.settings.items():
        for problem in setting_problems(setting):
            yield _Problem(f"task.settings.{name}", problem)
    used = placeholders(task_scenario(lesson)) | placeholders(task.bug)
    where = "task.scenario" if task.scenario else "task.change"
    for name in sorted(used - task.settings.keys()):
        yield _Problem(where, f"<{name}> stands for no setting; settings are {', '.join(task.settings) or 'none'}")
    for name in task.settings:
        if name not in used:
            yield _Problem(f"task.settings.{name}", f"the scenario of the task has no <{name}>")
    for name in task.assignor.properties if task.assignor else ():
        if name not in PROPERTIES:
            known = ", ".join(PROPERTIES)
            yield _Problem("task.assignor.properties", f"unknown property {name!r}; known are {known}")
    members = _members_of_task(lesson)
    for index, condition in enumerate(task.conditions):
        for problem in condition_problems(condition, members):
            yield _Problem(f"task.conditions[{index}]", problem)
    for kind in ("right", "wrong"):
        for index, example in enumerate(getattr(task, kind)):
            expected: type = str if task.assignor else Mapping
            if not isinstance(example, expected):
                what = "the text of an assignor" if task.assignor else "settings with values"
                yield _Problem(f"task.{kind}[{index}]", f"an example is {what}, not {example!r}")
    if task.assignor:
        try:
            plan_of_task(lesson, {}, OwnAssignor(lambda cases: []))
        except InvalidScenario as error:
            yield _Problem(where, str(error))
        if OWN_ASSIGNOR not in str(task_scenario(lesson)):
            yield _Problem(where, f"no member of the task's scenario uses the assignor {OWN_ASSIGNOR!r}")


def _members_of_task(lesson: Lesson) -> SimulationPlan:
    """A plan with the members and topics of the task's scenario, in which conditions are checked for unknown names."""
    scenario = task_scenario(lesson)
    members, topics = scenario.get("members") or {}, scenario.get("topics") or lesson.plan.topics
    named = {str(name): lesson.plan.members.get(str(name)) for name in members}
    known: dict[str, Any] = {name: member or next(iter(lesson.plan.members.values())) for name, member in named.items()}
    return SimulationPlan(members=known, topics={str(topic): 1 for topic in topics})


TEXT_FIELDS: Final = ("text", "question.explain", "task.done")


def lesson_texts(lesson: Lesson) -> Iterator[tuple[str, LessonText]]:
    """Yield every text of a lesson, each with its path in the file, such as `question.options[0].says`."""
    parts = lesson.parts
    yield from (("title", parts.title), ("text", parts.text))
    yield from (("question.ask", parts.question.ask), ("question.explain", parts.question.explain))
    if parts.question.unit:
        yield "question.unit", parts.question.unit
    for index, option in enumerate(parts.question.options):
        yield f"question.options[{index}].says", option.says
        if option.because:
            yield f"question.options[{index}].because", option.because
    for index, moment in enumerate(parts.moments):
        yield f"moments[{index}].note", moment.note
    yield from (("task.ask", parts.task.ask), ("task.done", parts.task.done))
    for name, setting in parts.task.settings.items():
        if setting.says:
            yield f"task.settings.{name}.says", setting.says
    for index, condition in enumerate(parts.task.conditions):
        for name in ("what", "because"):
            if text := getattr(condition, name):
                yield f"task.conditions[{index}].{name}", text


def _text_problems(lesson: Lesson) -> Iterator[_Problem]:
    for path, text in lesson_texts(lesson):
        known = (
            {*lesson.parts.values, "answer"} if _has_values(path) else {FOUND} if path.endswith("because") else set()
        )
        for name in names_in(text):
            if name not in known:
                hint = f"known here are {', '.join(sorted(known))}" if known else "no value can stand here"
                yield _Problem(path, f"{{{name}}} is no value; {hint}")


def _has_values(path: str) -> bool:
    """Whether the text at this path may contain values of the run, such as `{answer}`: it is shown after the answer."""
    return path == "question.explain" or path.startswith("moments") or ("options" in path and path.endswith("because"))


# -- in a run


def _run_problems(lesson: Lesson, run: LessonRun) -> Iterator[_Problem]:
    parts = lesson.parts
    for name, measure in parts.values.items():
        try:
            measure_value(run, measure)
        except CannotMeasure as error:
            yield _Problem(f"values.{name}", str(error))
    yield from _answer_problems(lesson, run)
    for index, moment in enumerate(parts.moments):
        if find_explained(run, moment) is None:
            yield _Problem(f"moments[{index}]", f"the run has no such moment: {selector_text(moment)}")
    for sentence in run.outcome.verdict.sentences if not parts.bug else ():
        yield _Problem("scenario", f"the run violates an invariant or an expectation: {sentence}")


def _answer_problems(lesson: Lesson, run: LessonRun) -> Iterator[_Problem]:
    question = lesson.parts.question
    try:
        if question.measure is not None:
            measure_value(run, question.measure)
            return
        right = right_options(question, run)
    except CannotMeasure as error:
        yield _Problem("question", str(error))
        return
    if len(right) != 1:
        shown = ", ".join(str(index + 1) for index in right) or "none"
        yield _Problem("question.options", f"exactly one option is right in the run; here it is: {shown}")


def _example_problems(lesson: Lesson) -> Iterator[_Problem]:
    task = lesson.parts.task
    if task.assignor:
        return
    for kind in ("right", "wrong"):
        for index, example in enumerate(getattr(task, kind)):
            result = run_task(lesson, {name: str(value) for name, value in example.items()}, Language.ENGLISH)
            if result.is_solved != (kind == "right"):
                found = "; ".join(filter(None, (result.problem, *(each.text for each in result.results))))
                verb = "does not solve" if kind == "right" else "solves"
                yield _Problem(f"task.{kind}[{index}]", f"this example {verb} the task ({found})")
