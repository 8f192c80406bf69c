"""Text for a terminal: names from clients without control characters, lists of names, and ranges of partitions.

Everything that comes from a client, a store or a file goes through `printable`, or `printable_json` if it is JSON, on
its way to standard output, standard error or the log.
"""

import json
import re
from collections.abc import Iterable, Sequence
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


def format_partitions(partitions: Iterable[tuple[str, int]], between: str = "; ") -> str:
    """Format topics and partitions as `orders 0-3,7; payments 1`."""
    numbers: dict[str, list[int]] = {}
    for topic, partition in partitions:
        numbers.setdefault(topic, []).append(partition)
    return between.join(f"{topic} {format_ranges(sorted(each))}" for topic, each in numbers.items())


def format_ranges(numbers: Sequence[int]) -> str:
    """Format ascending numbers as `0-3,7`."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][-1] + 1:
            ranges[-1].append(number)
        else:
            ranges.append([number])
    return ",".join(str(each[0]) if len(each) == 1 else f"{each[0]}-{each[-1]}" for each in ranges)
