"""The question of a lesson: how it is answered, which answer is right in the run, and what is said after an answer."""

from typing import Final, NamedTuple

from regroup.classroom.languages import Language
from regroup.classroom.lessons.format.language import filled_in, in_language
from regroup.classroom.lessons.format.parts import ANSWER, Lesson, Question, QuestionOption, RunCondition
from regroup.classroom.lessons.runs.answers import (
    AnswerKind,
    AnswerValue,
    Known,
    UnreadableAnswer,
    answer_text,
    parse_answer,
    rounded,
    with_plain_digits,
)
from regroup.classroom.lessons.runs.conditions import condition_holds
from regroup.classroom.lessons.runs.measures import measure_kind, measure_value
from regroup.classroom.lessons.runs.measuring import CannotMeasure, known_names
from regroup.classroom.lessons.runs.run import LessonRun

CHOICE: Final = "choice"
DEFAULT_TOLERANCE_MS: Final = 500.0
LETTERS: Final = "abcdefghij"


class AnswerResult(NamedTuple):
    """The verdict on an answer, the right answer, and the explanations that are shown with it."""

    is_right: bool | None
    """None for a question that was left."""
    right_answer: str
    because: str
    """About the chosen option, or the right one of a question that was left; empty where nothing is to be said."""
    explanation: str


def question_kind(question: Question) -> str:
    """What kind of answer a question needs: `choice`, `number`, `duration`, `names`, `partitions` or `word`."""
    return CHOICE if question.measure is None else measure_kind(question.measure).value


def right_options(question: Question, run: LessonRun) -> list[int]:
    """The indexes of the options that are right in this run. Raises CannotMeasure."""
    return [index for index, option in enumerate(question.options) if _is_right(option, run)]


def _is_right(option: QuestionOption, run: LessonRun) -> bool:
    return condition_holds(run, option.right) if isinstance(option.right, RunCondition) else option.right


def right_answer_text(lesson: Lesson, run: LessonRun, language: Language) -> str:
    """The right answer to the lesson's question as text: the text of an option, or a value with its unit."""
    question = lesson.parts.question
    if question.measure is None:
        return in_language(question.options[right_options(question, run)[0]].says, language)
    kind = measure_kind(question.measure)
    text = answer_text(kind, rounded(kind, measure_value(run, question.measure)), language)
    unit = in_language(question.unit, language)
    return f"{text} {unit}".rstrip() if kind is AnswerKind.NUMBER else text


def text_values(lesson: Lesson, run: LessonRun, language: Language) -> dict[str, str]:
    """The values of the run for the names in braces in a lesson's texts; `answer` is the right answer.

    A value that cannot be measured in this run is `?`.
    """
    values = {ANSWER: right_answer_text(lesson, run, language)}
    for name, measure in lesson.parts.values.items():
        try:
            kind = measure_kind(measure)
            values[name] = answer_text(kind, rounded(kind, measure_value(run, measure)), language)
        except CannotMeasure:
            values[name] = "?"
    return values


def check_answer(lesson: Lesson, run: LessonRun, answer: str, language: Language) -> AnswerResult:
    """Compare a learner's answer with what the run shows. Raises UnreadableAnswer for one of another kind."""
    question = lesson.parts.question
    given = read_answer(lesson, answer)
    values = text_values(lesson, run, language)
    because = ""
    if question.measure is None:
        assert isinstance(given, int)
        is_right = given in right_options(question, run)
        because = filled_in(in_language(question.options[given].because, language), values)
    else:
        is_right = is_close(given, measure_value(run, question.measure), tolerance_of(question))
    explanation = filled_in(in_language(question.explain, language), values)
    return AnswerResult(is_right, values[ANSWER], because, explanation)


def skipped_answer(lesson: Lesson, run: LessonRun, language: Language) -> AnswerResult:
    """What is shown if the learner skips the question: the right answer and the explanations, without a verdict."""
    question, values, because = lesson.parts.question, text_values(lesson, run, language), ""
    if question.measure is None:
        right = question.options[right_options(question, run)[0]]
        because = filled_in(in_language(right.because, language), values)
    return AnswerResult(None, values[ANSWER], because, filled_in(in_language(question.explain, language), values))


def read_answer(lesson: Lesson, answer: str) -> AnswerValue:
    """Parse a learner's answer: to the index of the named option, or to a value of the measure's kind.

    Raises UnreadableAnswer, also for an empty answer, which may be a key pressed too early.
    """
    question = lesson.parts.question
    if question.measure is None:
        return parse_choice(answer, len(question.options))
    kind = measure_kind(question.measure)
    if not answer.strip():
        raise UnreadableAnswer(kind)
    return parse_answer(kind, answer, known_names(lesson.plan))


def parse_choice(text: str, options: int) -> int:
    """The index of the option that a text names: 0 for `1` or `a`. Raises UnreadableAnswer."""
    word = with_plain_digits(text.strip()[:10]).strip(".)").lower()
    index = int(word) - 1 if word.isascii() and word.isdigit() else LETTERS.find(word) if len(word) == 1 else -1
    if not 0 <= index < options:
        raise UnreadableAnswer(AnswerKind.NUMBER, text.strip())
    return index


def tolerance_of(question: Question) -> float:
    """By how much an answer may differ from the right one; in milliseconds for a duration. Raises ValueError."""
    assert question.measure is not None
    kind = measure_kind(question.measure)
    if question.tolerance is None:
        return DEFAULT_TOLERANCE_MS if kind is AnswerKind.DURATION else 0.0
    value = parse_answer(kind, str(question.tolerance), Known((), ()))
    assert isinstance(value, float)
    return value


def is_close(given: AnswerValue, right: AnswerValue, tolerance: float) -> bool:
    """Whether two answers are equal: numbers within the tolerance, words without regard to upper and lower case."""
    if isinstance(given, float) and isinstance(right, float):
        return abs(given - right) <= tolerance
    if isinstance(given, str) and isinstance(right, str):
        return given.strip().lower() == right.lower()
    return given == right
