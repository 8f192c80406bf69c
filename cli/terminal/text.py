"""Names and partitions as people read them in a terminal."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from regroup.protocol.consumer.subscription import TopicPartition

UUID_TAIL: Final = re.compile(r"([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def printable(text: str) -> str:
    """Names come from any client, and a terminal obeys what it is sent: so it is sent no control characters."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def printable_lines(text: str) -> str:
    """The same for text that may have several lines, such as a traceback."""
    return "\n".join(printable(line) for line in text.splitlines())


def listed(names: Iterable[str]) -> str:
    """`invoices, payments`, or that there are none."""
    return ", ".join(printable(name) for name in sorted(names)) or "none at all"


def short(text: str) -> str:
    """Member ids end in a UUID; its first eight digits tell people enough."""
    return UUID_TAIL.sub(r"\1…", text)


def partitions_text(partitions: Iterable[TopicPartition], between: str = "; ") -> str:
    """`orders 0-3,7`; runs of neighbours are drawn together."""
    numbers: dict[str, list[int]] = {}
    for topic, partition in partitions:
        numbers.setdefault(topic, []).append(partition)
    return between.join(f"{topic} {runs(sorted(each))}" for topic, each in numbers.items())


def runs(numbers: Sequence[int]) -> str:
    """`0-3,7`."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][-1] + 1:
            found[-1].append(number)
        else:
            found.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in found)
