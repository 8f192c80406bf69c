"""Which records a group has processed, as sets of offsets: the judge's own account beside the ledger of the members.

processed = ProcessedRecords()
processed.start(partition, 5)                  # a member starts to read there
processed.add(partition, 5, is_first=True)     # one has processed a record; what the ledger says of it
processed.skip(partition, 6, 8)                # there are no records with 6 <= offset < 8
processed.missing(partition, 0, 10)            # [8, 9]: below the committed offset 10, and not processed
"""

from typing import Final

from regroup.protocol.consumer.subscription import TopicPartition

COUNTED_AS_IT_WAS: Final = (
    "The ledger of a group counts a record as processed again only if it was processed before, and as skipped only if "
    "it is below a committed offset and was not processed."
)


class ProcessedRecords:
    """The records of one group."""

    def __init__(self) -> None:
        self._starts: dict[TopicPartition, int] = {}
        """The lowest offset of each partition that counts: where the first member has started, or a processed one."""
        self._processed: dict[TopicPartition, set[int]] = {}
        self._without_records: dict[TopicPartition, list[tuple[int, int]]] = {}
        """Ranges in which the log has no records: the first offset, and the one after the last."""
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

    def missing(self, partition: TopicPartition, first: int, committed: int) -> list[int]:
        """The offsets from `first` on below the committed one whose records were not processed."""
        processed = self._processed.get(partition, set())
        due = range(max(first, self._starts.get(partition, committed)), committed)
        return [each for each in due if each not in processed and not self._is_without_record(partition, each)]

    def remove_topic(self, topic: str) -> None:
        """Forget a deleted topic: if one of the same name is created, its offsets begin at 0."""
        for partition in [each for each in self._starts if each.topic == topic]:
            self._processed.pop(partition, None)
            self._without_records.pop(partition, None)
            del self._starts[partition]
