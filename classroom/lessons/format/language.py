"""Texts of lessons that are written in one or both of them."""

import re
from collections.abc import Mapping
from typing import Final, TypeAlias

import msgspec

from regroup.classroom.languages import Language


class Translations(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A text in English and in Chinese. A lesson of one's own may have one of them only."""

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
    """The text in this language, or else in the other one, with one line for each paragraph.

    Paragraphs are separated by an empty line. One that begins with a blank or `- ` keeps its lines.
    """
    if isinstance(text, str):
        chosen = text
    else:
        first, second = (text.en, text.zh) if language is Language.ENGLISH else (text.zh, text.en)
        chosen = first if first.strip() else second
    return "\n\n".join(_joined(each) for each in re.split(r"\n\s*\n", chosen.strip("\n").rstrip()))


def _joined(paragraph: str) -> str:
    """The lines of a paragraph as one: between Chinese characters, and beside Chinese punctuation, without a blank."""
    if paragraph.startswith((" ", "- ")):
        return paragraph.rstrip()
    return _NO_BLANK.sub("", paragraph.strip()).replace("\n", " ")


def languages_of(text: LessonText) -> tuple[Language, ...]:
    """The languages in which a text is written; all of them for a plain one."""
    if isinstance(text, str):
        return tuple(Language)
    return tuple(language for language in Language if getattr(text, language.value).strip())


def names_in(text: LessonText) -> list[str]:
    """The names that stand in braces in a text, in any of its languages: `{answer}`."""
    texts = [text] if isinstance(text, str) else [text.en, text.zh]
    return [name for each in texts for name in _NAME_IN_TEXT.findall(each)]


def filled_in(text: str, values: Mapping[str, str]) -> str:
    """The text with `{name}` replaced by the value of that name; an unknown name stays as it is."""
    return _NAME_IN_TEXT.sub(lambda match: values.get(match[1], match[0]), text)
