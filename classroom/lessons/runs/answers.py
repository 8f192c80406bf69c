"""The values that measures have and learners write: numbers, times, names, partitions and words."""

import re
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple, TypeAlias

from regroup.classroom.languages import Language
from regroup.notation.durations import parse_duration_ms
from regroup.notation.partitions import format_partitions
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.server.explanation.sentences import duration_text


class AnswerKind(Enum):
    """The kinds of answers, such as numbers, durations and names, which differ in how they are written."""

    NUMBER = "number"
    DURATION = "duration"
    """In milliseconds; a learner writes `20s`."""
    NAMES = "names"
    PARTITIONS = "partitions"
    WORD = "word"


AnswerValue: TypeAlias = float | frozenset[str] | frozenset[TopicPartition] | str
"""A number or milliseconds, names, partitions, or a word."""


class Known(NamedTuple):
    """The names of members and of topics that an answer may contain."""

    members: tuple[str, ...]
    topics: tuple[str, ...]


class UnreadableAnswer(ValueError):
    """Raised for an answer that cannot be parsed; `expected` is the kind of answer that the question needs."""

    def __init__(self, kind: AnswerKind, detail: str = "") -> None:
        super().__init__(f"not a {kind.value}: {detail}")
        self.kind, self.detail = kind, detail


_SEPARATORS: Final = re.compile(r"[\s,;，；、]+")
_NONE_WORDS: Final = frozenset({"", "-", "–", "none", "nobody", "no one", "nothing", "无", "没有", "没人"})
_AND_WORDS: Final = frozenset({"and", "和", "与", "及"})
_NUMBER: Final = re.compile(r"([+-]?\d+(?:\.\d+)?)\s*(.*)", re.ASCII | re.DOTALL)
_UNITS: Final = {
    "": "s", "s": "s", "sec": "s", "second": "s", "seconds": "s", "秒": "s", "秒钟": "s",
    "ms": "ms", "millisecond": "ms", "milliseconds": "ms", "毫秒": "ms",
    "m": "m", "min": "m", "minute": "m", "minutes": "m", "分": "m", "分钟": "m",
    "h": "h", "hour": "h", "hours": "h", "小时": "h",
}  # fmt: skip
_FULL_WIDTH: Final = {0xFF01 + each: 0x21 + each for each in range(94)} | {0x3000: 0x20}
"""Full-width characters, and those of the usual width."""
_RANGE: Final = re.compile(r"(\d+)(?:-(\d+))?", re.ASCII)
_TOPIC_AND_RANGE: Final = re.compile(r"([A-Za-z][\w.]*)[-\s]?(\d+(?:-\d+)?)", re.ASCII)
_MAX_PARTITION: Final = 100_000
MAX_ANSWER_LENGTH: Final = 1_000
MAX_NUMBER: Final = 1_000_000_000
MAX_DURATION_MS: Final = 500 * 3_600_000
"""A protocol field of milliseconds holds a little more."""


def parse_answer(kind: AnswerKind, text: str, known: Known) -> AnswerValue:
    """Parse an answer as a learner types it to a value of this kind. Raises UnreadableAnswer."""
    text = text.strip()
    if len(text) > MAX_ANSWER_LENGTH:
        raise UnreadableAnswer(kind, f"{text[:20]}…")
    text = with_plain_digits(text)
    match kind:
        case AnswerKind.NUMBER:
            return _parse_number(text)
        case AnswerKind.DURATION:
            return _parse_duration(text)
        case AnswerKind.NAMES:
            return _parse_names(text, known)
        case AnswerKind.PARTITIONS:
            return _parse_partitions(text, known)
        case AnswerKind.WORD:
            return text


def with_plain_digits(text: str) -> str:
    """The text with full-width digits, letters and signs, as a Chinese keyboard writes them, in their usual width."""
    return text.translate(_FULL_WIDTH)


def read_value(kind: AnswerKind, value: Any, known: Known) -> AnswerValue:
    """A value as a lesson's file writes it: `7`, `20s`, `[anna, ben]`, `orders 0-2`. Raises UnreadableAnswer."""
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    if kind is AnswerKind.DURATION:
        try:
            return float(parse_duration_ms(str(value)))
        except ValueError:
            raise UnreadableAnswer(kind, str(value)) from None
    return parse_answer(kind, str(value), known)


def _parse_number(text: str) -> float:
    """Parse a number that may have a unit behind it: `7`, `7 partitions`. A text with two numbers is refused."""
    match = _NUMBER.fullmatch(text)
    if match is None or abs(float(match[1])) > MAX_NUMBER or any(each.isdigit() for each in match[2]):
        raise UnreadableAnswer(AnswerKind.NUMBER, text)
    return float(match[1])


def _parse_duration(text: str) -> float:
    match = _NUMBER.fullmatch(text)
    unit = _UNITS.get(match[2].strip().lower()) if match else None
    if match is None or unit is None or match[1].startswith("-"):
        raise UnreadableAnswer(AnswerKind.DURATION, text)
    try:
        milliseconds = float(parse_duration_ms(f"{match[1].lstrip('+')}{unit}"))
    except ValueError:
        raise UnreadableAnswer(AnswerKind.DURATION, text) from None
    if milliseconds > MAX_DURATION_MS:
        raise UnreadableAnswer(AnswerKind.DURATION, text)
    return milliseconds


def _parse_names(text: str, known: Known) -> frozenset[str]:
    if text.lower() in _NONE_WORDS:
        return frozenset()
    by_lower = {name.lower(): name for name in known.members}
    words = [word for word in _SEPARATORS.split(text) if word and word.lower() not in _AND_WORDS]
    for word in words:
        if word.lower() not in by_lower:
            raise UnreadableAnswer(AnswerKind.NAMES, word)
    return frozenset(by_lower[word.lower()] for word in words)


def _parse_partitions(text: str, known: Known) -> frozenset[TopicPartition]:
    if text.lower() in _NONE_WORDS:
        return frozenset()
    topic = known.topics[0] if len(known.topics) == 1 else ""
    found = set()
    for word in _SEPARATORS.split(text):
        match = _TOPIC_AND_RANGE.fullmatch(word)
        if match and match[1] in known.topics:
            topic, word = match[1], match[2]
        if word in known.topics:
            topic = word
        elif numbers := _RANGE.fullmatch(word):
            first, last = int(numbers[1]), int(numbers[2] or numbers[1])
            if not topic or last > _MAX_PARTITION or last < first:
                raise UnreadableAnswer(AnswerKind.PARTITIONS, word)
            found |= {TopicPartition(topic, number) for number in range(first, last + 1)}
        elif word and word.lower() not in _AND_WORDS:
            raise UnreadableAnswer(AnswerKind.PARTITIONS, word)
    if not found:
        raise UnreadableAnswer(AnswerKind.PARTITIONS, text)
    return frozenset(found)


def number_of(value: AnswerValue) -> float:
    """The value itself if it is a number; the count of names or partitions if it is a set of them."""
    if isinstance(value, frozenset):
        return len(value)
    return value if isinstance(value, float | int) else 0.0


def answer_text(kind: AnswerKind, value: AnswerValue, language: Language) -> str:
    """A value as text to show to a learner: `20 s`, `anna, ben`, `orders 0-2`."""
    none = "none" if language is Language.ENGLISH else "无"
    match value:
        case str():
            return value or none
        case frozenset():
            names = [each for each in value if isinstance(each, str)]
            partitions = sorted(each for each in value if isinstance(each, TopicPartition))
            return (_partitions_text(partitions) if partitions else listed_names(names)) or none
        case _ if kind is AnswerKind.DURATION:
            return duration_text(round(value))
        case _:
            return f"{value:g}"


def rounded(kind: AnswerKind, value: AnswerValue) -> AnswerValue:
    """A value as lesson texts show it: durations from a second on are rounded to a tenth of a second, others stay."""
    if kind is AnswerKind.DURATION and isinstance(value, float) and value >= 1_000:
        return float(round(value / 100) * 100)
    return value


def _partitions_text(partitions: Sequence[TopicPartition]) -> str:
    return format_partitions((each.topic, each.partition) for each in partitions)


def listed_names(names: Iterable[str]) -> str:
    """Sorted names with commas between them."""
    return ", ".join(sorted(names))
