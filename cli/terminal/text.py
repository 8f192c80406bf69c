"""Prepares text for a terminal: escapes control characters in names from clients, and formats lists of names.

Everything that comes from a client, a store or a file goes through `printable`, or `printable_json` if it is JSON, on
its way to standard output, standard error or the log.
"""

import json
import re
from collections.abc import Iterable
from typing import Final

UUID_TAIL: Final = re.compile(r"([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def printable(text: str) -> str:
    """Escape control characters: names come from any client, and a terminal carries out what it is sent."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def printable_json(text: str) -> str:
    """Escape control, format and bidirectional characters in JSON as JSON does, so that parsing gives the same text.

    `text` is encoded JSON, in which such characters stand inside strings only; line breaks stay.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each == "\n" else json.dumps(each)[1:-1] for each in text)


def printable_lines(text: str) -> str:
    """Escape control characters, but keep line breaks, for example in a traceback."""
    return "\n".join(printable(line) for line in text.split("\n"))


def join_names(names: Iterable[str]) -> str:
    """The names, sorted and with commas between them: `invoices, payments`; `none` if there are none."""
    return ", ".join(printable(name) for name in sorted(names)) or "none"


def counted(number: int, noun: str) -> str:
    """A number with its noun: `1 event`, `2 events`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def shorten_uuids(text: str) -> str:
    """Shorten each UUID in a text to its first eight digits; member ids end in a UUID."""
    return UUID_TAIL.sub(r"\1…", text)
