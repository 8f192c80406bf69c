"""A sentence as a key of the catalogues with its values; a language makes a text of it.

said = phrase("member left", member="anna", because="")
in_language(said, Language.CHINESE)     "anna 离开"
pattern_of(said)                        Pattern(texts=("{0} left", "{0} 离开"), values=("anna",))

Names, numbers and times are values, and the same in every language.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from regroup.classroom.languages import Language
from regroup.classroom.phrases.chinese import CHINESE
from regroup.classroom.phrases.english import ENGLISH

MAX_LISTED: Final = 12
"""Items of a series in a sentence; further ones are counted."""
CATALOGUES: Final[Mapping[Language, Mapping[str, str]]] = {Language.ENGLISH: ENGLISH, Language.CHINESE: CHINESE}


class Phrase(NamedTuple):
    """A text of the catalogues by its key, and the values for the names in its braces."""

    key: str
    values: "Mapping[str, PhraseValue]"


class Series(NamedTuple):
    """Several values in a row, of which `limit` are written. `way` is the key of the words between them."""

    way: str
    items: "tuple[PhraseValue, ...]"
    limit: int | None = MAX_LISTED


PhraseValue: TypeAlias = str | int | Phrase | Series
"""A text or a number is the same in each language; an empty text stands for nothing."""


class Pattern(NamedTuple):
    """The texts of a phrase in all languages, in the order of `Language`, with `{0}`, `{1}` in place of its values.

    `values` are these values, in the order of their numbers.
    """

    texts: tuple[str, ...]
    values: tuple[str, ...]


def phrase(key: str, **values: PhraseValue) -> Phrase:
    """The text of the catalogues with this key, and its values."""
    return Phrase(key, values)


def series(way: str, items: Iterable[PhraseValue], limit: int | None = MAX_LISTED) -> Series | str:
    """The items as a Series; an empty text if there are none."""
    found = tuple(items)
    return Series(way, found, limit) if found else ""


def in_language(value: PhraseValue, language: Language) -> str:
    """Write a value (a phrase, series, text or number) in a language."""
    return _written(value, CATALOGUES[language], str)


def pattern_of(value: PhraseValue) -> Pattern:
    """Split a value into its texts in all languages, with numbers in braces, and the names and numbers for these."""
    numbers: dict[str, int] = {}

    def number(text: str) -> str:
        return f"{{{numbers.setdefault(text, len(numbers))}}}"

    texts = tuple(_written(value, CATALOGUES[language], number) for language in Language)
    return Pattern(texts, tuple(numbers))


class _Written:
    """A mapping for `format_map`: gives the value of a phrase by its name, written in the language of a catalogue."""

    __slots__ = ("_catalogue", "_leaf", "_values")

    def __init__(
        self, values: Mapping[str, PhraseValue], catalogue: Mapping[str, str], leaf: Callable[[str], str]
    ) -> None:
        self._values, self._catalogue, self._leaf = values, catalogue, leaf

    def __getitem__(self, name: str) -> str:
        return _written(self._values[name], self._catalogue, self._leaf)


def _written(value: PhraseValue, catalogue: Mapping[str, str], leaf: Callable[[str], str]) -> str:
    if isinstance(value, str):
        return leaf(value) if value else ""
    if isinstance(value, int):
        return leaf(str(value))
    if isinstance(value, Phrase):
        return catalogue[value.key].format_map(_Written(value.values, catalogue, leaf))
    items = [_written(each, catalogue, leaf) for each in value.items[: value.limit]]
    between = catalogue[f"{value.way}, between"]
    if more := len(value.items) - len(items):
        return between.join(items) + catalogue[f"{value.way}, more"].format(count=leaf(str(more)))
    *first, last = items
    return catalogue[f"{value.way}, last"].join(filter(None, (between.join(first), last)))
