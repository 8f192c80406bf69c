"""Texts of lessons in English, in Simplified Chinese, or in both."""

import re
from collections.abc import Mapping
from typing import Final, TypeAlias

import msgspec

from regroup.classroom.languages import Language


class Translations(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A text in English and in Chinese. A text in a lesson that users write themselves may have one of the two only."""

    en: str = ""
    zh: str = ""

    def __post_init__(self) -> None:
        if not self.en.strip() and not self.zh.strip():
            raise ValueError("a text is empty; write `en:`, `zh:`, or both")


LessonText: TypeAlias = str | Translations
"""A plain text is shown in every language."""

_CHINESE: Final = r"[\u2e80-\uffff]"
_PUNCTUATION: Final = "[，。、；：？！（）《》「」“”]"
_NO_BLANK: Final = re.compile(rf"(?<={_CHINESE})\n(?={_CHINESE})|(?<={_PUNCTUATION})\n|\n(?={_PUNCTUATION})")
_NAME_IN_TEXT: Final = re.compile(r"\{([a-z][a-z0-9 ]*)\}")


def in_language(text: LessonText, language: Language) -> str:
    """The text in this language, or in the other one if it lacks this one. Each returned paragraph is one line.

    In the lesson's file a paragraph may have several lines, and ends at an empty line. Its lines are joined; only a
    paragraph that begins with a blank or `- ` (code, lists) keeps them.
    """
    if isinstance(text, str):
        chosen = text
    else:
        first, second = (text.en, text.zh) if language is Language.ENGLISH else (text.zh, text.en)
        chosen = first if first.strip() else second
    return "\n\n".join(_joined(each) for each in re.split(r"\n\s*\n", chosen.strip("\n").rstrip()))


def _joined(paragraph: str) -> str:
    """The lines of a paragraph joined to one line, except if the paragraph begins with a blank or `- `.

    A line break becomes a blank; between Chinese characters and beside Chinese punctuation it is removed.
    """
    if paragraph.startswith((" ", "- ")):
        return paragraph.rstrip()
    return _NO_BLANK.sub("", paragraph.strip()).replace("\n", " ")


def languages_of(text: LessonText) -> tuple[Language, ...]:
    """The languages in which a text is written; a plain text without `en` and `zh` counts as written in all of them."""
    if isinstance(text, str):
        return tuple(Language)
    return tuple(language for language in Language if getattr(text, language.value).strip())


def names_in(text: LessonText) -> list[str]:
    """The names in braces in a text, in all its languages: `answer` for `The answer is {answer}.`"""
    texts = [text] if isinstance(text, str) else [text.en, text.zh]
    return [name for each in texts for name in _NAME_IN_TEXT.findall(each)]


def filled_in(text: str, values: Mapping[str, str]) -> str:
    """The text in which each `{name}` is replaced by `values[name]`; a name without a value stays as it is."""
    return _NAME_IN_TEXT.sub(lambda match: values.get(match[1], match[0]), text)
