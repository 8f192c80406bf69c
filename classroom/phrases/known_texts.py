"""Texts that other parts write in English, as phrases: causes, reasons of events, what follows after a deadline.

known_text("member anna expired", REASON)       phrase("reason expired", member="anna")
known_text("she asked for it", REASON)          "she asked for it": a client's own words are the same in every language
"""

import re
from functools import lru_cache
from typing import Final

from regroup.classroom.phrases.english import KNOWN_TEXTS
from regroup.classroom.phrases.phrase import Phrase, PhraseValue, series

CAUSE: Final = "cause"
FOLLOWS: Final = "follows"
REASON: Final = "reason"
LOST: Final = "lost"
MISSING: Final = "missing"
"""The first word of the keys of texts about one thing."""
NESTED: Final = "reason"
"""The value of a text that is such a text itself."""
LIST: Final = "members"
"""The value of a text that names several, with commas between them."""
_NAME: Final = re.compile(r"\\\{(\w+)\\\}")
_PATTERNS: Final = [
    (key, re.compile(_NAME.sub(r"(?P<\1>.+?)", re.escape(text)), re.DOTALL)) for key, text in KNOWN_TEXTS.items()
]


@lru_cache(maxsize=4096)
def known_text(text: str, about: str) -> PhraseValue:
    """The phrase whose English text this is; the text itself, untranslated, if there is none.

    `about` says what the text is, such as a cause or a reason, and so where to look. A text of several parts separated
    by semicolons is looked up part by part.
    """
    if found := _found(text, about):
        return found
    parts = text.split("; ")
    values = [_found(each, about) for each in parts]
    if len(parts) > 1 and any(values):
        return series("shares", (value or part for value, part in zip(values, parts, strict=True)), limit=None)
    return text


def _found(text: str, about: str) -> Phrase | None:
    for key, pattern in _PATTERNS:
        if key.startswith(f"{about} ") and (match := pattern.fullmatch(text)):
            return Phrase(key, {name: _value(name, each, about) for name, each in match.groupdict().items()})
    return None


def _value(name: str, text: str, about: str) -> PhraseValue:
    if name == LIST:
        return series("listed", text.split(", "), limit=None)
    return known_text(text, about) if name == NESTED else text
