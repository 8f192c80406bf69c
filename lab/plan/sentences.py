"""Sentences of scenarios, each with a template by which it is both parsed and printed.

    pauses = Template("{member} pauses for {duration_ms}")
    pauses.format({"member": "anna", "duration_ms": 20_000})     "anna pauses for 20s"
    pauses.parse("anna pauses for 20s")                          {"member": "anna", "duration_ms": 20000}
    pauses.parse("anna crashes")                                 None

`(s)` in a template is left out behind a 1: "{count} rebalance(s)".
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cache, partial
from typing import Any, ClassVar, Final

import msgspec

from regroup.lab.plan.flawed_requests import FLAWED_REQUESTS, ODD_REQUESTS
from regroup.notation.durations import DURATION_PATTERN, format_duration, parse_duration_ms
from regroup.protocol.apis import APIS
from regroup.protocol.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class Placeholder:
    """The text in place of a name in braces: its pattern, an example value, and how it is parsed and printed."""

    pattern: str
    example: Any
    parse: Callable[[str], Any] = str
    format: Callable[[Any], str] = str

    def matches(self, text: str) -> bool:
        """Whether the whole text is a value of this placeholder."""
        return re.fullmatch(self.pattern, text, re.ASCII) is not None


def _parse_names(text: str) -> tuple[str, ...]:
    return tuple(re.split(", | and ", text))


def join_names(names: Iterable[str]) -> str:
    """Write names as a list in words: `anna`, `anna and ben`, `anna, ben and carla`."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def _parse_signed_duration(text: str) -> int:
    back, _, duration = text.rpartition("by ")
    return -parse_duration_ms(duration) if back else parse_duration_ms(duration)


def _format_signed_duration(milliseconds: int) -> str:
    return f"{'back ' if milliseconds < 0 else ''}by {_format_duration(abs(milliseconds))}"


_format_duration = partial(format_duration, with_fractions=True)

MEMBER_NAME_PATTERN: Final = r"(?!(?:all|and|everybody|no|nobody|the)\b)[A-Za-z][A-Za-z0-9_-]*"

MEMBER_NAME: Final = Placeholder(MEMBER_NAME_PATTERN, "anna")
MEMBER_NAME_LIST: Final = Placeholder(
    rf"{MEMBER_NAME_PATTERN}(?:, {MEMBER_NAME_PATTERN})*(?: and {MEMBER_NAME_PATTERN})?",
    ("anna", "ben"),
    _parse_names,
    join_names,
)
HOST: Final = Placeholder(rf"broker \d+|the brokers|all hosts|{MEMBER_NAME_PATTERN}", "broker 0")
"""A member's name, one broker, all brokers, or all other hosts."""
KAFKA_NAME: Final = Placeholder(r"[A-Za-z0-9._-]+", "orders")
"""A topic or a group id."""
DURATION: Final = Placeholder(DURATION_PATTERN, 20_000, parse_duration_ms, _format_duration)
"""Milliseconds, written as `300ms`, `20s` or `1.5m`."""
SIGNED_DURATION: Final = Placeholder(
    rf"(?:back )?by {DURATION_PATTERN}", 30_000, _parse_signed_duration, _format_signed_duration
)
"""Milliseconds that may be negative: `by 30s`, `back by 30s`."""
COUNT: Final = Placeholder(r"\d+", 3, int)
DECIMAL: Final = Placeholder(r"\d+(?:\.\d+)?", 30.0, float, lambda number: f"{number:.3f}".rstrip("0").rstrip("."))
API_NAME: Final = Placeholder("|".join(api.name for api in APIS.values()), "SyncGroup")
"""A type of request by Kafka's name."""
ERROR_NAME: Final = Placeholder("|".join(code.name for code in ErrorCode), "FENCED_INSTANCE_ID")
"""An error code by Kafka's name."""
FLAWED_REQUEST: Final = Placeholder("|".join((*FLAWED_REQUESTS, *ODD_REQUESTS)), FLAWED_REQUESTS[4])
"""A request that has to be refused."""
REQUEST_WITH_GENERATION: Final = Placeholder("Heartbeat|SyncGroup|OffsetCommit", "OffsetCommit")
"""A request that names the generation of its member, by Kafka's name."""

PLACEHOLDERS: Final[dict[str, Placeholder]] = {
    "member": MEMBER_NAME,
    "members": MEMBER_NAME_LIST,
    "host": HOST,
    "other": HOST,
    "broker": COUNT,
    "topic": KAFKA_NAME,
    "group": KAFKA_NAME,
    "partitions": COUNT,
    "api": API_NAME,
    "code": ERROR_NAME,
    "flaw": FLAWED_REQUEST,
    "named_request": REQUEST_WITH_GENERATION,
    "count": COUNT,
    "number": COUNT,
    "partition_seconds": DECIMAL,
    "duration_ms": DURATION,
    "delay_ms": DURATION,
    "within_ms": DURATION,
    "latency_ms": DURATION,
    "jitter_ms": DURATION,
    "offset_ms": SIGNED_DURATION,
}
"""The placeholder for each name that a template may have in braces."""

_NAME_IN_BRACES: Final = re.compile(r"\{(\w+)\}")
_SINGULAR: Final = re.compile(r"\b1( [\w-]+)\(s\)")


@dataclass(frozen=True, slots=True)
class Template:
    """A sentence with names in braces, each a key of `PLACEHOLDERS`. Raises KeyError for any other name."""

    text: str
    names: tuple[str, ...] = field(init=False)
    """The names in braces, in the order of the sentence."""
    _pattern: re.Pattern[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        pieces = _NAME_IN_BRACES.split(self.text)  # plain text and names alternate
        pattern = "".join(
            f"(?P<{piece}>{PLACEHOLDERS[piece].pattern})" if number % 2 else re.escape(piece).replace(r"\(s\)", "s?")
            for number, piece in enumerate(pieces)
        )
        object.__setattr__(self, "names", tuple(pieces[1::2]))
        object.__setattr__(self, "_pattern", re.compile(pattern, re.ASCII))

    def format(self, values: Mapping[str, Any]) -> str:
        """The template's sentence with these values in place of the names in braces; values of other names are
        ignored."""
        filled = _NAME_IN_BRACES.sub(lambda name: PLACEHOLDERS[name[1]].format(values[name[1]]), self.text)
        return _SINGULAR.sub(r"1\1", filled).replace("(s)", "s")

    def parse(self, sentence: str) -> dict[str, Any] | None:
        """The values in a sentence, or None if it does not fit the template."""
        match = self._pattern.fullmatch(sentence)
        if match is None:
            return None
        return {name: PLACEHOLDERS[name].parse(text) for name, text in match.groupdict().items()}

    def example(self) -> str:
        """A sentence of this template with the example value of each placeholder."""
        return self.format({name: PLACEHOLDERS[name].example for name in self.names})


class Sentence(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="step", tag=str):
    """A value that prints as a sentence. It is parsed from any of its templates.

    A field that a template does not name has its default. It prints by the shortest template that names all other
    fields.
    """

    templates: ClassVar[tuple[str, ...]] = ()

    def __str__(self) -> str:
        values = msgspec.structs.asdict(self)
        needed = {name for name, default in _defaults_of(type(self)).items() if values[name] != default}
        complete = [template for template in templates_of(type(self)) if needed <= set(template.names)]
        return min(complete, key=lambda template: len(template.names)).format(values)


@cache
def _defaults_of(kind: type[Sentence]) -> dict[str, Any]:
    """The default value of each field of a type of sentence, by name; `msgspec.NODEFAULT` for a field without a
    default."""
    return {field.name: field.default for field in msgspec.structs.fields(kind)}


@cache
def templates_of(kind: type[Sentence]) -> tuple[Template, ...]:
    """The templates by which sentences of this type are parsed and printed."""
    return tuple(Template(text) for text in kind.templates)


# -- hints for unknown sentences

RENAMED_PHRASES: Final = {
    "no longer hears": "receives nothing from",
    "everybody": "all hosts",
    "restarts as a stranger": "restarts without its instance id",
    "asks for a rebalance": "requests a rebalance",
    "turns into a zombie": "becomes a zombie",
    "the answer to": "the response to",
    "appears with": "is created with",
    "vanishes": "is deleted",
    "nobody was expelled": "no member was removed",
    "was expelled": "was removed",
    "was not expelled": "was not removed",
    "keeps her partitions": "keeps its partitions",
    "keeps his partitions": "keeps its partitions",
    "is answered": "receives the … response",
    "gives up partitions": "revokes partitions",
    "is expelled": "is removed",
    "is gone": "has stopped",
    "is preparing": "is PreparingRebalance",
    "is completing": "is CompletingRebalance",
    "is stable": "is Stable",
    "is empty": "is Empty",
}
"""Phrases of the first scenario format, which are not parsed any more, and the phrase that replaces each."""


def hint_for(sentence: str, templates: Iterable[Template]) -> str:
    """A hint for an unknown sentence: the new phrase for an old one, or else a similar sentence."""
    for old, new in RENAMED_PHRASES.items():
        if re.search(rf"\b{old}\b", sentence):
            return f"{old!r} is now {new!r}"
    return f"for example {nearest_example(sentence, templates)!r}"


def nearest_example(sentence: str, templates: Iterable[Template]) -> str:
    """An example of the template that a sentence resembles most, by words and by characters."""

    def likeness(example: str) -> float:
        by_words = SequenceMatcher(None, sentence.lower().split(), example.lower().split()).ratio()
        return by_words + SequenceMatcher(None, sentence.lower(), example.lower()).ratio() / 2

    return max((template.example() for template in templates), key=likeness)
