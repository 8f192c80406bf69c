"""Formats partitions as people write them: `orders 0-3,7; payments 1`."""

from collections.abc import Iterable, Sequence


def format_partitions(partitions: Iterable[tuple[str, int]], between: str = "; ") -> str:
    """Format topics and partitions as `orders 0-3,7; payments 1`; `between` separates the topics."""
    numbers: dict[str, list[int]] = {}
    for topic, partition in partitions:
        numbers.setdefault(topic, []).append(partition)
    return between.join(f"{topic} {format_ranges(sorted(each))}" for topic, each in numbers.items())


def format_ranges(numbers: Sequence[int]) -> str:
    """Format ascending numbers as ranges: 0, 1, 2, 3 and 7 become `0-3,7`."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][-1] + 1:
            ranges[-1].append(number)
        else:
            ranges.append([number])
    return ",".join(str(each[0]) if len(each) == 1 else f"{each[0]}-{each[-1]}" for each in ranges)
