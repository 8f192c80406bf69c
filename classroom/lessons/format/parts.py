"""The parts of a lesson as values, with the names that they have in its YAML file.

Field names are written with blanks: `at_most` is `at most`. Which names a measure or a moment may have is in
`runs/measures.py` and `runs/moments.py`. `reading.py` makes these values of a file; `checking.py` runs a lesson and
says what is wrong with it.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from regroup.classroom.lessons.format.language import LessonText
from regroup.lab.plan.plan import SimulationPlan
from regroup.notation.durations import parse_duration_ms


class Milliseconds(int):
    """A time in milliseconds that a file writes as `20s`."""


def convert_duration(kind: type[Any], value: object) -> Any:
    """Convert a text such as `20s` to Milliseconds: the `dec_hook` of msgspec. Raises ValueError for other values."""
    if kind is not Milliseconds:
        raise NotImplementedError(f"{kind} is no type of a lesson")
    return Milliseconds(parse_duration_ms(str(value)))


class LessonPart(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    rename=lambda name: name.strip("_").replace("_", " "),
):
    """The base of all mappings in a lesson's file. A key that is no field of the mapping is an error."""


class MomentSelector(LessonPart, frozen=True, kw_only=True):
    """Selects one moment of a run: among the moments that match every given field, the one with this `number`."""

    moment: str
    """The type of an event (`member-removed`), or what members and the plan did; see `moments.py`."""
    member: str = ""
    generation: int | None = None
    """The generation of the group after the moment."""
    api: str = ""
    """Of a refused request."""
    error: str = ""
    """Of a refused request."""
    says: str = ""
    """A part of a step's sentence, or of the reason of an event."""
    after: Milliseconds = Milliseconds(0)
    """Only moments from this time on, since the start of the run."""
    number: int = 1
    """1 is the first of those that fit, -1 the last."""

    def __post_init__(self) -> None:
        if self.number == 0:
            raise ValueError("`number` is 1 for the first, 2 for the second, -1 for the last; 0 is none")


class ExplainedMoment(MomentSelector, frozen=True, kw_only=True):
    """A moment of the replay, and the note that stands beside it."""

    note: LessonText
    group: str = ""
    """The group of the moment, if it is the one beside the one that is shown."""


class Measure(LessonPart, frozen=True, kw_only=True):
    """A value that is counted or looked up in a run. Which of the fields a measure takes is in `measures.py`."""

    measure: str
    member: str = ""
    partition: str = ""
    """`orders 0`"""
    at: Milliseconds | None = None
    """A time since the start of the run; the end of the run if it is left out."""
    from_: Milliseconds | None = None
    until: Milliseconds | None = None
    of: MomentSelector | None = None
    to: MomentSelector | None = None
    key: str = ""
    """Of a record."""
    group: str = ""
    """The group that is measured, if it is another one than the lesson shows."""
    partitions: int | None = None
    """Of a topic, in place of the number that it has in the run."""

    def __post_init__(self) -> None:
        if self.partitions is not None and self.partitions < 1:
            raise ValueError(f"`partitions` is at least 1, not {self.partitions}")


class RunCondition(Measure, frozen=True, kw_only=True):
    """A measure of a run and the values with which it is compared.

    With `at least` and `at most`, for a measure whose value is a set of names or partitions, its size is compared.
    """

    is_: Any = None
    is_not: Any = None
    at_least: Any = None
    at_most: Any = None
    what: LessonText = ""
    """What is measured, in words; made of the measure's own words if it is left out."""
    because: LessonText = ""
    """Said if the condition does not hold; `{found}` is the value of the measure."""
    never: LessonText = ""
    """Said in place of `because` if the measure has no value, as of a moment that never came."""

    @property
    def comparisons(self) -> dict[str, Any]:
        """The comparisons that the file gives, by their keys in the file, such as `at most`."""
        given = {"is": self.is_, "is not": self.is_not, "at least": self.at_least, "at most": self.at_most}
        return {name: value for name, value in given.items() if value is not None}


class QuestionOption(LessonPart, frozen=True, kw_only=True):
    """One of the answers to choose from. Whether it is right is a condition on the run, or true or false."""

    says: LessonText
    right: bool | RunCondition = False
    because: LessonText = ""
    """Said to a learner who has chosen this option."""


class Question(LessonPart, frozen=True, kw_only=True):
    """The question asked before the run is shown: with options to choose from, or about the value of a measure."""

    ask: LessonText
    options: tuple[QuestionOption, ...] = ()
    measure: Measure | None = None
    tolerance: Any = None
    """How far a number or a time may be off: `1`, `2s`."""
    unit: LessonText = ""
    """What a number counts: `partitions`."""
    explain: LessonText
    """Said after the answer."""

    def __post_init__(self) -> None:
        if bool(self.options) == (self.measure is not None):
            raise ValueError("a question has either `options` or a `measure`")


class Setting(LessonPart, frozen=True, kw_only=True):
    """A value that the learner chooses in a task, such as a timeout, with its limits or choices."""

    type: str
    """`duration`, `number`, or `choice`."""
    says: LessonText = ""
    """What is chosen; the name of the setting if it is left out."""
    least: Any = None
    most: Any = None
    choices: tuple[str, ...] | Mapping[str, str] = ()
    """The choices, or what stands for each in the scenario."""


class AssignorTask(LessonPart, frozen=True, kw_only=True):
    """A task in which the learner writes an assignor, which the scenario of the task names `mine`."""

    properties: tuple[str, ...]
    """What it must do in every case: names of `PROPERTIES` in `assignor/properties.py`."""


class Task(LessonPart, frozen=True, kw_only=True):
    """The task of a lesson: the learner chooses settings or writes an assignor, which the lab runs in a scenario.

    The task is solved if all conditions hold in that run.
    """

    ask: LessonText
    settings: Mapping[str, Setting] = {}
    """By name; `<name>` stands for the value in the scenario."""
    assignor: AssignorTask | None = None
    scenario: Mapping[str, Any] = {}
    """A scenario of its own."""
    change: Mapping[str, Any] = {}
    """What differs from the lesson's scenario."""
    bug: str = ""
    """A planted bug of the lab (`regroup chaos list`) that the task's run has."""
    conditions: tuple[RunCondition, ...]
    right: tuple[Any, ...]
    """Examples that solve the task: settings by name, or the text of an assignor. The first one can be shown."""
    wrong: tuple[Any, ...]
    """Examples that do not."""
    done: LessonText
    """Said when the task is solved."""

    def __post_init__(self) -> None:
        if bool(self.settings) == (self.assignor is not None):
            raise ValueError("a task has either `settings` or an `assignor`")
        if self.scenario and self.change:
            raise ValueError("a task has a `scenario` of its own or a `change` of the lesson's, not both")
        if not self.conditions:
            raise ValueError("a task needs `conditions`")
        if not self.right or not self.wrong:
            raise ValueError("a task needs at least one example under `right` and one under `wrong`")


class LessonFile(LessonPart, frozen=True, kw_only=True):
    """The mapping at the top of a lesson's file."""

    lesson: str
    """The id of the lesson: small letters, digits and `-`."""
    title: LessonText
    text: LessonText
    scenario: Mapping[str, Any] | str
    """A scenario, or the name of one that comes with the lab."""
    group: str = "lab"
    """The group that the replay shows."""
    beside: str = ""
    """A second group of the run, which has to be one of the consumer protocol; the replay shows its events too."""
    bug: str = ""
    """A planted bug of the lab that the run has."""
    values: Mapping[str, Measure] = {}
    """Measures whose values stand in texts as `{name}`."""
    question: Question
    moments: tuple[ExplainedMoment, ...]
    task: Task


class Lesson(msgspec.Struct, frozen=True, kw_only=True):
    """A lesson as read from its file: the file's parts, the plan of its scenario, and the line of each part."""

    parts: LessonFile
    plan: SimulationPlan
    scenario: Mapping[str, Any]
    """The scenario as plain values, for the changes of a task."""
    lines: Mapping[str, int] = {}
    """The line of each part of the file by its path, as in `question.options[0].says`; lines count from 1."""

    @property
    def id(self) -> str:
        return self.parts.lesson


ANSWER: Final = "answer"
FOUND: Final = "found"
RESERVED_NAMES: Final = (ANSWER, FOUND)
"""Names of values that a lesson cannot define: the answer to the question, and the value that a condition found."""
