"""Sentences that a program reads as well as it writes them: one template does both.

    pauses = Template("{member} pauses for {for_ms}")
    pauses.fill({"member": "anna", "for_ms": 20_000})     "anna pauses for 20s"
    pauses.read("anna pauses for 20s")                    {"member": "anna", "for_ms": 20000}
    pauses.read("anna crashes")                           None

`(s)` in a template is an s that is missing behind a 1: "{count} rebalance(s)".
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cache
from typing import Any, ClassVar, Final

import msgspec

from regroup.members.faults import duration_text, parse_duration_ms
from regroup.protocol.apis import APIS
from regroup.protocol.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class Word:
    """What may stand in a gap: how it looks, how it is read and written, and one to show to somebody who is lost."""

    pattern: str
    example: Any
    read: Callable[[str], Any] = str
    write: Callable[[Any], str] = str

    def fits(self, text: str) -> bool:
        """Whether the text is such a word."""
        return re.fullmatch(self.pattern, text, re.ASCII) is not None


def _read_names(text: str) -> tuple[str, ...]:
    return tuple(re.split(", | and ", text))


def join_names(names: Iterable[str]) -> str:
    """`anna`, `anna and ben`, `anna, ben and carla`."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def time_text(milliseconds: int) -> str:
    """As `members.habits` reads durations: `300ms`, `20s`, `5m`; and `1.5s`, which people prefer to `1500ms`."""
    if milliseconds == 0:
        return "0s"
    if milliseconds < 1_000 or milliseconds % 1_000 == 0:
        return duration_text(milliseconds)
    return f"{milliseconds // 1_000}.{milliseconds % 1_000:03}".rstrip("0") + "s"


def _read_jump(text: str) -> int:
    back, _, time = text.rpartition("by ")
    return -parse_duration_ms(time) if back else parse_duration_ms(time)


def _write_jump(milliseconds: int) -> str:
    return f"{'back ' if milliseconds < 0 else ''}by {time_text(abs(milliseconds))}"


NAME_PATTERN: Final = r"(?!(?:nobody|everybody|the|and)\b)[A-Za-z][A-Za-z0-9_-]*"
_DURATION_PATTERN: Final = r"\d+(?:\.\d+)?(?:ms|s|m|h)"

NAME: Final = Word(NAME_PATTERN, "anna")
"""A member's name."""
NAMES: Final = Word(
    rf"{NAME_PATTERN}(?:, {NAME_PATTERN})*(?: and {NAME_PATTERN})?", ("anna", "ben"), _read_names, join_names
)
HOST: Final = Word(rf"broker \d+|the brokers|everybody|{NAME_PATTERN}", "broker 0")
"""A member's name, one broker, all of them, or everybody else."""
KAFKA_NAME: Final = Word(r"[A-Za-z0-9._-]+", "orders")
"""A topic or a group."""
DURATION: Final = Word(_DURATION_PATTERN, 20_000, parse_duration_ms, time_text)
"""Milliseconds, as `members.habits` reads them."""
JUMP: Final = Word(rf"(?:back )?by {_DURATION_PATTERN}", 30_000, _read_jump, _write_jump)
"""Milliseconds that may be negative: `by 30s`, `back by 30s`."""
COUNT: Final = Word(r"\d+", 3, int)
AMOUNT: Final = Word(r"\d+(?:\.\d+)?", 30.0, float, lambda number: f"{number:.3f}".rstrip("0").rstrip("."))
API: Final = Word("|".join(api.name for api in APIS.values()), "SyncGroup")
"""A request by Kafka's name."""
CODE: Final = Word("|".join(code.name for code in ErrorCode), "FENCED_INSTANCE_ID")
"""An error by Kafka's name."""

WORDS: Final[dict[str, Word]] = {
    "member": NAME,
    "members": NAMES,
    "host": HOST,
    "other": HOST,
    "broker": COUNT,
    "topic": KAFKA_NAME,
    "group": KAFKA_NAME,
    "partitions": COUNT,
    "api": API,
    "code": CODE,
    "count": COUNT,
    "number": COUNT,
    "partition_seconds": AMOUNT,
    "for_ms": DURATION,
    "after_ms": DURATION,
    "within_ms": DURATION,
    "latency_ms": DURATION,
    "jitter_ms": DURATION,
    "by_ms": JUMP,
}
"""What stands in the gap of each name."""

_GAP: Final = re.compile(r"\{(\w+)\}")
_PLURAL: Final = re.compile(r"\b1( [\w-]+)\(s\)")


@dataclass(frozen=True, slots=True)
class Template:
    """A sentence with named gaps. Raises KeyError for a gap that has no row in `words`."""

    text: str
    words: Mapping[str, Word] = field(default_factory=lambda: WORDS, repr=False)
    gaps: tuple[str, ...] = field(init=False)
    _pattern: re.Pattern[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        pieces = _GAP.split(self.text)  # plain text and names of gaps take turns
        pattern = "".join(
            f"(?P<{piece}>{self.words[piece].pattern})" if number % 2 else re.escape(piece).replace(r"\(s\)", "s?")
            for number, piece in enumerate(pieces)
        )
        object.__setattr__(self, "gaps", tuple(pieces[1::2]))
        object.__setattr__(self, "_pattern", re.compile(pattern, re.ASCII))

    def fill(self, values: Mapping[str, Any]) -> str:
        """The sentence with these values in its gaps; further values do not matter."""
        filled = _GAP.sub(lambda gap: self.words[gap[1]].write(values[gap[1]]), self.text)
        return _PLURAL.sub(r"1\1", filled).replace("(s)", "s")

    def read(self, sentence: str) -> dict[str, Any] | None:
        """The values in the gaps, or None if it is another sentence."""
        match = self._pattern.fullmatch(sentence)
        if match is None:
            return None
        return {gap: self.words[gap].read(text) for gap, text in match.groupdict().items()}

    def example(self) -> str:
        """The sentence as somebody could write it."""
        return self.fill({gap: self.words[gap].example for gap in self.gaps})


def nearest(sentence: str, templates: Iterable[Template]) -> str:
    """An example of the template that a sentence resembles most, word by word."""

    def likeness(example: str) -> float:
        return SequenceMatcher(None, sentence.lower().split(), example.lower().split()).ratio() + (
            SequenceMatcher(None, sentence.lower(), example.lower()).ratio() / 2
        )

    return max((template.example() for template in templates), key=likeness)


class Sentence(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="step", tag=str):
    """A value that reads as a sentence. `says` holds its templates; a field that a template leaves out has its default.

    It prints as the shortest template that says all of it, and is read from any.
    """

    says: ClassVar[tuple[str, ...]] = ()

    def __str__(self) -> str:
        values = msgspec.structs.asdict(self)
        told = {each.name for each in msgspec.structs.fields(self) if values[each.name] != each.default}
        complete = [form for form in forms_of(type(self)) if told <= set(form.gaps)]
        return min(complete, key=lambda form: len(form.gaps)).fill(values)


@cache
def forms_of(kind: type[Sentence]) -> tuple[Template, ...]:
    """The templates of a kind of sentence."""
    return tuple(Template(text) for text in kind.says)
