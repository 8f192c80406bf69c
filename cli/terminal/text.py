"""Text for a terminal: names from clients without control characters, and lists of names.

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
    """Escape control characters, and keep the line breaks, as of a traceback."""
    return "\n".join(printable(line) for line in text.split("\n"))


def join_names(names: Iterable[str]) -> str:
    """Return the sorted names with commas between them, `invoices, payments`, or `none`."""
    return ", ".join(printable(name) for name in sorted(names)) or "none"


def counted(number: int, noun: str) -> str:
    """Return `1 event`, `2 events`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def shorten_uuids(text: str) -> str:
    """Keep the first eight digits of each UUID; member ids end in one."""
    return UUID_TAIL.sub(r"\1…", text)
