"""Folding the cluster's part of a history, topics and transactions, and checking it: what `regroup verify` does."""

from collections.abc import Iterable, Iterator

from regroup.coordinator.serialization import ILLEGIBLE, damaged
from regroup.coordinator.verification import CLUSTER, Fault, illegible
from regroup.server.cluster.events import (
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
from regroup.server.cluster.topics import SNAPSHOT_VERSION, Topics, evolve, from_snapshot
from regroup.storage.errors import StoreError
from regroup.storage.records import Record, Snapshot


class TopicsVerifier:
    """Give it a store's records in order; `faults_of` says what each one breaks. Records of groups pass by."""

    def __init__(self) -> None:
        self.topics = Topics()
        self._number = self._position = 0

    def begin_from(self, snapshots: Iterable[Snapshot]) -> None:
        """Where earlier records have been trimmed away, the fold begins here. StoreIsDamaged."""
        for snapshot in snapshots:
            if snapshot.group is None:
                self.topics, self._number, self._position = _read(snapshot), snapshot.number, snapshot.position

    def faults_of(self, record: Record) -> Iterator[Fault]:
        """What this record breaks."""
        if record.group is not None:
            return
        yield from illegible(record)
        before = self.topics
        try:
            event = read_event(record)
            self.topics = evolve(before, event)
            sentences = list(broken_by_step(before, event))
        except (StoreError, *ILLEGIBLE) as error:
            sentences = [f"The event cannot be folded: {error}"]
        self._number += 1
        self._position = record.position
        if record.number != self._number:
            sentences.append(f"The event is number {record.number}, not {self._number}.")
            if isinstance(record.number, int):  # a damaged row may hold anything
                self._number = record.number
        for sentence in sentences:
            yield Fault(record.position, CLUSTER, sentence)

    def faults_at_cut(self, cut: int, snapshots: Iterable[Snapshot]) -> Iterator[Fault]:
        """Whether the newest snapshot of the topics up to the cut is what their records so far add up to."""
        there = [each for each in snapshots if each.group is None]
        if not there and self._number:
            yield Fault(cut, CLUSTER, f"The snapshots up to position {cut} leave the topics out.")
        for snapshot in [each for each in there if each.version == SNAPSHOT_VERSION]:
            if (snapshot.number, snapshot.position) != (self._number, self._position):
                at = f"event {snapshot.number} at position {snapshot.position}"
                yield Fault(
                    self._position, CLUSTER, f"A snapshot of the topics is of {at}; here is event {self._number}."
                )
            else:
                yield from self._differs(snapshot)

    def _differs(self, snapshot: Snapshot) -> Iterator[Fault]:
        try:
            differs = _read(snapshot) != self.topics
        except StoreError as error:
            yield Fault(snapshot.position, CLUSTER, str(error))
        else:
            if differs:
                yield Fault(snapshot.position, CLUSTER, "The snapshot of the topics is not what they add up to.")


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
