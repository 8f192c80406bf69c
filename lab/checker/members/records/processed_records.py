"""Which records a group has processed, as sets of offsets: the judge's own account beside the ledger of the members.

processed = ProcessedRecords()
processed.start(partition, 5)                  # a member starts to read there
processed.add(partition, 5, is_first=True)     # one has processed a record; what the ledger says of it
processed.skip(partition, 6, 8)                # there are no records with 6 <= offset < 8
processed.missing(partition, 0, 10)            # [(8, 10)]: below the committed offset 10, and not processed
"""

from collections.abc import Collection, Iterable
from typing import Final, TypeAlias

from regroup.protocol.consumer.subscription import TopicPartition

COUNTED_AS_IT_WAS: Final = (
    "The ledger of a group counts a record as processed again only if it was processed before, and as skipped only if "
    "it is below a committed offset and was not processed."
)

OffsetRange: TypeAlias = tuple[int, int]
"""The first offset, and the one after the last. A committed offset may be any number, so that these are not listed one
by one."""


class ProcessedRecords:
    """The records of one group."""

    def __init__(self) -> None:
        self._starts: dict[TopicPartition, int] = {}
        """The lowest offset of each partition that counts: where the first member has started, or a processed one."""
        self._processed: dict[TopicPartition, set[int]] = {}
        self._without_records: dict[TopicPartition, list[OffsetRange]] = {}
        """Ranges in which the log has no records."""
        self.miscounted: list[str] = []
        """What the ledger has counted as something else than it was."""

    def start(self, partition: TopicPartition, offset: int) -> None:
        """Note that a member starts to read a partition. Lower offsets count if a record there is processed."""
        self._starts.setdefault(partition, offset)

    def skip(self, partition: TopicPartition, first: int, stop: int) -> None:
        """Note that the log has no records with first <= offset < stop. Offsets that do not count stay as they are."""
        if partition in self._starts:
            found = max(first, self._starts[partition]), stop
            self._without_records.setdefault(partition, []).append(found)

    def add(self, partition: TopicPartition, offset: int, *, is_first: bool) -> None:
        """Note a processed record, and whether the ledger says that this is the first time.

        What it says of an offset without a record is not judged.
        """
        processed = self._processed.setdefault(partition, set())
        if is_first == (offset in processed) and not self._is_without_record(partition, offset):
            count = "for the first time" if is_first else "again"
            self.miscounted.append(f"the ledger says that {partition}@{offset} is processed {count}")
        processed.add(offset)
        self._starts[partition] = min(offset, self._starts.get(partition, offset))

    def _is_without_record(self, partition: TopicPartition, offset: int) -> bool:
        return any(first <= offset < stop for first, stop in self._without_records.get(partition, ()))

    def missing(self, partition: TopicPartition, first: int, committed: int) -> list[OffsetRange]:
        """The offsets from `first` on below the committed one whose records were not processed."""
        processed = [(each, each + 1) for each in self._processed.get(partition, ())]
        begin, found = max(first, self._starts.get(partition, committed)), []
        for start, stop in sorted(processed + self._without_records.get(partition, [])):
            found.append((begin, min(start, committed)))
            begin = max(begin, stop)
        return merged([*found, (begin, committed)])

    def remove_topic(self, topic: str) -> None:
        """Forget a deleted topic: if one of the same name is created, its offsets begin at 0."""
        for partition in [each for each in self._starts if each.topic == topic]:
            self._processed.pop(partition, None)
            self._without_records.pop(partition, None)
            del self._starts[partition]


def merged(ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
    """The same offsets in as few ranges as possible, in their order."""
    found: list[OffsetRange] = []
    for first, stop in sorted(each for each in ranges if each[0] < each[1]):
        if found and first <= found[-1][1]:
            found[-1] = found[-1][0], max(stop, found[-1][1])
        else:
            found.append((first, stop))
    return found


def without(ranges: Iterable[OffsetRange], left_out: Collection[OffsetRange]) -> list[OffsetRange]:
    """These offsets without the ones of other ranges."""
    found = [*ranges]
    for first, stop in left_out:
        parts = [((begin, min(end, first)), (max(begin, stop), end)) for begin, end in found]
        found = [each for pair in parts for each in pair if each[0] < each[1]]
    return found


def first_difference(ranges: Collection[OffsetRange], others: Collection[OffsetRange]) -> int | None:
    """The lowest offset that only one of these has, each of them merged; None if both have the same."""
    different = set(ranges) ^ set(others)
    bounds = sorted(each for found in different for each in found)
    return next((each for each in bounds if _has(ranges, each) is not _has(others, each)), None)


def _has(ranges: Collection[OffsetRange], offset: int) -> bool:
    return any(first <= offset < stop for first, stop in ranges)
