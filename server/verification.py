"""Folding the cluster's part of a history, topics and transactions, and checking it: what `regroup verify` does."""

from collections.abc import Iterable, Iterator

from regroup.coordinator.verification import Fault
from regroup.coordinator.written import ILLEGIBLE, damaged
from regroup.server.cluster_events import (
    ClusterEvent,
    OffsetsReserved,
    PartitionsAdded,
    ProducerIdsReserved,
    TopicCreated,
    TopicDeleted,
    TransactionCompleted,
    TransactionGrew,
    read_event,
)
from regroup.server.topics import SNAPSHOT_VERSION, Topics, evolve, from_snapshot
from regroup.storage.errors import StoreError
from regroup.storage.records import Record, Snapshot

CLUSTER = "(cluster)"
"""Stands in a `Fault` where groups have their name."""


class TopicsVerifier:
    """Give it a store's records in order; `faults_of` says what each one breaks. Records of groups pass by."""

    def __init__(self, snapshots: Iterable[Snapshot] = ()) -> None:
        self.topics = Topics()
        self._number = 0
        self._snapshots = [each for each in snapshots if each.group is None and each.version == SNAPSHOT_VERSION]

    def begin_from(self, snapshots: Iterable[Snapshot]) -> None:
        """Where earlier records have been trimmed away, the fold begins here. StoreIsDamaged."""
        for snapshot in snapshots:
            if snapshot.group is None:
                self.topics, self._number = _read(snapshot), snapshot.number

    def faults_of(self, record: Record) -> Iterator[Fault]:
        """What this record breaks."""
        if record.group is not None:
            return
        before = self.topics
        try:
            event = read_event(record)
            self.topics = evolve(before, event)
            sentences = list(broken_by_step(before, event))
        except (StoreError, *ILLEGIBLE) as error:
            sentences = [f"The event cannot be folded: {error}"]
        self._number += 1
        if record.number != self._number:
            sentences.append(f"The event is number {record.number}, not {self._number}.")
            if isinstance(record.number, int):  # a damaged row may hold anything
                self._number = record.number
        for sentence in sentences:
            yield Fault(record.position, CLUSTER, sentence)
        yield from self._differs_from_snapshot(record)

    def _differs_from_snapshot(self, record: Record) -> Iterator[Fault]:
        for snapshot in self._snapshots:
            if snapshot.number == record.number:
                try:
                    differs = _read(snapshot) != self.topics
                except StoreError as error:
                    yield Fault(record.position, CLUSTER, str(error))
                else:
                    if differs:
                        yield Fault(record.position, CLUSTER, "The snapshot of the topics is not what they add up to.")

    def faults_at_the_end(self) -> Iterator[Fault]:
        """Snapshots of what never happened."""
        for snapshot in self._snapshots:
            if not isinstance(snapshot.number, int):
                yield Fault(snapshot.position, CLUSTER, f"A snapshot of the topics counts {snapshot.number!r} events.")
            elif snapshot.number > self._number:
                sentence = f"A snapshot of the topics counts {snapshot.number} events, and there are {self._number}."
                yield Fault(snapshot.position, CLUSTER, sentence)


def broken_by_step(before: Topics, event: ClusterEvent) -> Iterator[str]:
    """What cannot have happened to these topics."""
    match event:
        case TopicCreated(name=name) if name in before.by_name:
            yield f"Topic {name} came to be while it was there."
        case TopicDeleted(name=name) if name not in before.by_name or before.by_name[name].topic_id != event.topic_id:
            yield f"Topic {name} was deleted, and there was none with this id."
        case PartitionsAdded(name=name) if event.partitions <= before.by_name[name].partitions:
            yield f"Topic {name} was to grow to {event.partitions} partitions, and had as many."
        case OffsetsReserved(name=name) if not 0 <= event.partition < before.by_name[name].partitions:
            yield f"Offsets were reserved in partition {event.partition} of topic {name}, which does not exist."
        case ProducerIdsReserved() if event.before <= before.producer_ids_before:
            yield "Producer ids were reserved that were in use."
        case TransactionGrew(transactional_id=name) if before.transactions[name].is_prepared:
            yield f"Transaction {name} grew when it was settled already."
        case TransactionCompleted(transactional_id=name) if not before.transactions[name].is_prepared:
            yield f"Transaction {name} was completed, and had not been settled."


def _read(snapshot: Snapshot) -> Topics:
    try:
        return from_snapshot(snapshot.payload)
    except ILLEGIBLE as error:
        raise damaged(f"The snapshot of the topics at position {snapshot.position}", error) from error
