"""Records that members write for what they have processed, in transactions: what read-committed members see of them.

    outputs = OutputLedger()
    outputs.begin("transaction anna 1", "anna-transform", "lab", inputs)    # anna writes a record for each of these
    outputs.on_prepared("anna-transform", committed=True)                   # the outcome is stored
    outputs.on_fetched(TopicPartition("totals", 0), 7, "transaction anna 1")     # what a broker has sent a reader
    outputs.on_record("readers", TopicPartition("totals", 0), 7)            # what the reader's application has got
    outputs.without_output("lab", committed_offsets)                        # at the end of a run

A record is called by the label of its transaction, which its value has.
"""

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from regroup.coordinator.group import Group, OffsetsByPartition
from regroup.lab.checker.members.member_invariants import MemberViolation
from regroup.lab.checker.offsets.offset_invariants import changed_offsets
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.server.cluster.events import TransactionPrepared, decode_cluster_event
from regroup.storage.records import NewRecord

READS_COMMITTED: Final = "A read-committed member processes records of committed transactions, and of no other ones."
READS_ALL_COMMITTED: Final = "A read-committed member leaves out no record of a committed transaction."
OUTPUT_ONCE: Final = (
    "Each record that a group has processed and committed has its output in one committed transaction, and in no other."
)
OUTPUT_SENTENCES: Final = (READS_COMMITTED, READS_ALL_COMMITTED, OUTPUT_ONCE)

InputRecord: TypeAlias = tuple[TopicPartition, int]
"""The partition and offset of a record that was processed."""


class OutputLedger:
    """The records that the groups of a run have written in transactions, and what their readers have seen."""

    def __init__(self) -> None:
        self._inputs: dict[str, tuple[str, tuple[InputRecord, ...]]] = {}
        """By label, the group of a transaction and the records for which it has outputs."""
        self._open: dict[str, str] = {}
        """By transactional id, the label of the last transaction."""
        self._is_committed: dict[str, bool] = {}
        """By label, the stored outcome."""
        self._outputs: dict[tuple[str, InputRecord], str] = {}
        """By group and record, the label of the committed transaction with its output."""
        self._processed: dict[str, set[InputRecord]] = {}
        self._sent: dict[InputRecord, str] = {}
        """By partition and offset, the label of each written record that a reader was sent."""
        self._seen: set[tuple[str, TopicPartition, int]] = set()
        self._unjudged: set[str] = set()
        """Groups whose offsets were changed from outside: they may process records again, or never."""

    # Writing

    def begin(self, label: str, transactional_id: str, group_id: str, inputs: Iterable[InputRecord]) -> None:
        """Note that a producer begins a transaction in which it writes one record for each of `inputs`."""
        self._inputs[label] = group_id, tuple(inputs)
        self._open[transactional_id] = label

    def on_input(self, group_id: str, record: InputRecord) -> None:
        """Note that a member which transforms records has processed one."""
        self._processed.setdefault(group_id, set()).add(record)

    def on_offset_change(self, before: Group, after: Group) -> None:
        """Judge a group no more if its offsets were changed by something else than the transactions with its outputs.

        `before` and `after` are the group before and after the change.
        """
        if before.group_id in self._processed:
            changed = changed_offsets(before, after).values()
            if any(now is None or now.metadata not in self._inputs for _, now in changed):
                self._unjudged.add(before.group_id)

    def on_stored(self, record: NewRecord) -> Iterator[MemberViolation]:
        """Take the outcome of a transaction from a stored record; yields what `on_prepared` yields."""
        if record.type == "transaction-prepared":
            event = decode_cluster_event(record)
            assert isinstance(event, TransactionPrepared)
            yield from self.on_prepared(event.transactional_id, committed=event.committed)

    def on_prepared(self, transactional_id: str, *, committed: bool) -> Iterator[MemberViolation]:
        """Note the stored outcome of a transaction; yields each record whose output is in two committed ones."""
        label = self._open.pop(transactional_id, None)
        if label is None:
            return
        self._is_committed[label] = committed
        group_id, inputs = self._inputs[label]
        for record in inputs if committed and group_id not in self._unjudged else ():
            former = self._outputs.setdefault((group_id, record), label)
            if former != label:
                detail = f"the output of {_name(record)} is in {former}, and in {label}"
                yield MemberViolation(OUTPUT_ONCE, detail)

    # Reading

    def on_fetched(self, partition: TopicPartition, offset: int, label: str) -> None:
        """Note a written record in a response to a read-committed member, which may have to leave it out."""
        self._sent[partition, offset] = label

    def on_crash(self) -> None:
        """Forget which records were sent: brokers that crash lose all of them.

        Another reader need not find one that was sent and not processed.
        """
        self._sent.clear()

    def on_record(
        self, group_id: str, partition: TopicPartition, offset: int, *, reads_committed: bool = True
    ) -> MemberViolation | None:
        """Check a record that the application of a member has got. One that reads uncommitted records may get any."""
        self._seen.add((group_id, partition, offset))
        label = self._sent.get((partition, offset))
        if not reads_committed or label is None or self._is_committed.get(label):
            return None
        state = "was aborted" if label in self._is_committed else "is open"
        return MemberViolation(READS_COMMITTED, f"{_name((partition, offset))} is of {label}, which {state}")

    def on_skip(
        self, group_id: str, partition: TopicPartition, first: int, stop: int, *, reads_committed: bool = True
    ) -> MemberViolation | None:
        """Check the offsets first <= offset < stop, where a member finds no records, or leaves out what there is.

        Records there that the group has processed before are lost with a crash of the brokers, and need no output. A
        member that reads uncommitted records leaves nothing out.
        """
        if processed := self._processed.get(group_id):
            processed.difference_update((partition, offset) for offset in range(first, stop))
        for offset in range(first, stop) if reads_committed else ():
            label = self._sent.get((partition, offset))
            is_seen = (group_id, partition, offset) in self._seen
            if label is not None and self._is_committed.get(label) and not is_seen:
                detail = f"{_name((partition, offset))} is of {label}, which was committed"
                return MemberViolation(READS_ALL_COMMITTED, detail)
        return None

    # The end

    def without_output(self, group_id: str, committed: OffsetsByPartition) -> Iterator[MemberViolation]:
        """Yield the first record of each partition that the group has processed, and whose output is missing.

        `committed` are its offsets at the end of the run; records from them on are processed again.
        """
        missing: dict[TopicPartition, int] = {}
        for partition, offset in sorted(self._processed.get(group_id, ())):
            stored = committed.get(partition.topic, {}).get(partition.partition)
            is_below = stored is not None and offset < stored.offset
            if is_below and (group_id, (partition, offset)) not in self._outputs:
                missing.setdefault(partition, offset)
        for record in missing.items() if group_id not in self._unjudged else ():
            yield MemberViolation(OUTPUT_ONCE, f"{_name(record)} is below the committed offset, and has no output")


def _name(record: InputRecord) -> str:
    partition, offset = record
    return f"{partition.topic}-{partition.partition}@{offset}"
