"""Verifies a whole store: every event is folded, every invariant checked, every snapshot compared with the fold."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from regroup.coordinator.serialization import UNREADABLE_ERRORS
from regroup.coordinator.verification import CLUSTER, GroupsVerifier, Violation, unreadable_parts
from regroup.server.cluster.events import (
    ClusterEvent,
    OffsetsReserved,
    PartitionsAdded,
    PartitionsAddedToTransaction,
    ProducerIdsReserved,
    TopicCreated,
    TopicDeleted,
    TransactionCompleted,
    decode_cluster_event,
)
from regroup.server.cluster.image import SNAPSHOT_VERSION, ClusterImage, decode_cluster_snapshot, evolve_cluster
from regroup.server.history.trim import has_this_version
from regroup.storage.errors import StoreDamaged, StoreError
from regroup.storage.records import Head, Record, Snapshot
from regroup.storage.store import EventStore

PROGRESS_INTERVAL_EVENTS: Final = 1000

VerificationProgress: TypeAlias = Callable[[int, int], None]
"""A function that is called with the number of events verified so far, and the number of all events."""


class VerificationResult(NamedTuple):
    """The outcome of a verification: `events` were folded from position `first_position` on; earlier ones had been
    trimmed."""

    events: int
    first_position: int
    groups: int
    ignored_snapshots: int
    """How many of the newest snapshots have another version, so that no load reads them."""
    violations: Sequence[Violation]
    """Violations in order of their position."""


async def verify_store(
    store: EventStore, on_progress: VerificationProgress = lambda done, total: None
) -> VerificationResult:
    """Verify all records of a store, and the snapshots at each of its cuts.

    Raises StoreDamaged if events were trimmed and there are no snapshots to begin with.
    """
    verifier = _StoreVerifier(store, await store.heads(), (await store.cuts())[::-1])
    await verifier.begin()
    total = store.last_position - verifier.first_position + 1
    async for record in store.read(after=verifier.first_position - 1, allow_gaps=True):
        await verifier.fold(record)
        if verifier.events % PROGRESS_INTERVAL_EVENTS == 0:
            on_progress(verifier.events, total)
    return await verifier.end()


class _StoreVerifier:
    """Folds the records of a store in order, and compares the snapshots of each cut when that position is reached."""

    def __init__(self, store: EventStore, heads: dict[str | None, Head], cuts: list[int]) -> None:
        self._store = store
        self._heads = heads
        self._cuts = cuts
        """The cuts that have not been reached yet, in descending order."""
        self._groups = GroupsVerifier()
        self._cluster = ClusterVerifier()
        self._violations: list[Violation] = []
        self._last_position = self._ignored_snapshots = 0
        self.first_position = 1
        self.events = 0

    async def begin(self) -> None:
        """Start from the snapshots of the first cut, if the events before it were trimmed."""
        if not self._store.trimmed_through:
            return
        if not self._cuts:
            raise StoreDamaged(
                f"Events up to position {self._store.trimmed_through} were trimmed, and no snapshots say what the "
                "groups were then. Restore the store from a copy."
            )
        cut = self._cuts.pop()
        _, snapshots = await self._store.load_snapshots(cut)
        self._groups.begin_from(snapshots)
        self._cluster.begin_from(snapshots)
        self.first_position, self._last_position = cut + 1, cut

    async def fold(self, record: Record) -> None:
        while self._cuts and self._cuts[-1] < record.position:
            await self._compare_snapshots()
        if record.position != self._last_position + 1:
            sentence = f"The event before it, at position {record.position - 1}, is missing."
            group = CLUSTER if record.group is None else record.group
            self._violations.append(Violation(record.position, group, sentence))
        self._violations += self._groups.violations_of(record)
        self._violations += self._cluster.violations_of(record)
        self._last_position = record.position
        self.events += 1

    async def end(self) -> VerificationResult:
        while self._cuts:
            await self._compare_snapshots()
        self._violations += self._groups.violations_at_end()
        self._violations += self._missing_events()
        self._violations += await self._unusable_epochs()
        violations = sorted(self._violations, key=lambda violation: violation.position)
        groups = len(self._groups.groups)
        return VerificationResult(self.events, self.first_position, groups, self._ignored_snapshots, violations)

    def _missing_events(self) -> Iterator[Violation]:
        """A violation for each group of which snapshots and events show fewer events than the store's heads do: the
        missing ones were trimmed away."""
        for group_id, head in self._heads.items():
            group = self._groups.groups.get(group_id) if group_id is not None else None
            if group_id is not None and (group is None or group.event_number < head.event_number):
                sentence = f"Its last event is number {head.event_number}, which is in no snapshot and no event."
                yield Violation(head.position, group_id, sentence)

    async def _unusable_epochs(self) -> list[Violation]:
        """A violation if the next coordinator would get a coordinator epoch in which records exist already."""
        counter = await self._store.coordinator_epoch()
        newest = max(self._heads.values(), key=lambda head: head.coordinator_epoch, default=None)
        if newest is None or newest.coordinator_epoch <= counter:
            return []
        sentence = f"Its coordinator epoch is {newest.coordinator_epoch}, and the last one given out is {counter}."
        return [Violation(newest.position, CLUSTER, sentence)]

    async def _compare_snapshots(self) -> None:
        cut = self._cuts.pop()
        if cut > self._store.last_position:
            sentence = f"Snapshots were taken at position {cut}, but the events end here: the last ones are missing."
            self._violations.append(Violation(self._last_position, CLUSTER, sentence))
            return
        _, snapshots = await self._store.load_snapshots(cut)
        self._ignored_snapshots = sum(not has_this_version(each) for each in snapshots)
        self._violations += self._groups.violations_at_snapshot(cut, snapshots)
        self._violations += self._cluster.violations_at_snapshot(cut, snapshots)


class ClusterVerifier:
    """Verifies the cluster's records of a store in order: `violations_of` returns the violations of invariants by each
    record. Records of groups are ignored."""

    def __init__(self) -> None:
        self._image = ClusterImage()
        self._event_number = self._position = 0

    def begin_from(self, snapshots: Iterable[Snapshot]) -> None:
        """Start from the cluster's snapshot, because earlier records were trimmed. Raises StoreDamaged."""
        for each in snapshots:
            if each.group is None:
                self._image = decode_cluster_snapshot(each)
                self._event_number, self._position = each.event_number, each.position

    def violations_of(self, record: Record) -> Iterator[Violation]:
        """Fold this record into the cluster's state and yield a Violation for each fault found: an unreadable event, a
        violated invariant, or a wrong event number. A record of a group is ignored."""
        if record.group is not None:
            return
        yield from unreadable_parts(record)
        before = self._image
        try:
            event = decode_cluster_event(record)
            self._image = evolve_cluster(before, event)
            sentences = list(violations_of_step(before, event))
        except (StoreError, *UNREADABLE_ERRORS) as error:
            sentences = [f"The event cannot be folded: {error}"]
        self._event_number += 1
        self._position = record.position
        if record.event_number != self._event_number:
            sentences.append(f"The event has number {record.event_number}; expected {self._event_number}.")
            self._event_number = record.event_number
        for sentence in sentences:
            yield Violation(record.position, CLUSTER, sentence)

    def violations_at_snapshot(self, cut: int, snapshots: Iterable[Snapshot]) -> Iterator[Violation]:
        """What differs between the newest snapshot of the cluster up to the cut and the fold of the records so far."""
        own = [each for each in snapshots if each.group is None]
        if not own and self._event_number:
            yield Violation(cut, CLUSTER, f"The snapshots up to position {cut} leave the topics out.")
        for snapshot in [each for each in own if each.version == SNAPSHOT_VERSION]:
            if (snapshot.event_number, snapshot.position) != (self._event_number, self._position):
                sentence = (
                    f"A snapshot of the topics is of event {snapshot.event_number} at position {snapshot.position}; "
                    f"the last event here is {self._event_number}."
                )
                yield Violation(self._position, CLUSTER, sentence)
                continue
            try:
                differs = decode_cluster_snapshot(snapshot) != self._image
            except StoreError as error:
                yield Violation(snapshot.position, CLUSTER, str(error))
            else:
                if differs:
                    sentence = "The snapshot of the topics differs from the fold of the events."
                    yield Violation(snapshot.position, CLUSTER, sentence)


def violations_of_step(before: ClusterImage, event: ClusterEvent) -> Iterator[str]:
    """The invariants that `event` violates, as sentences, given the cluster's state `before` the event."""
    topics, transactions = before.topics, before.transactions
    match event:
        case TopicCreated(name=name) if name in topics:
            yield f"Topic {name} was created while it existed."
        case TopicDeleted(name=name) if name not in topics or topics[name].topic_id != event.topic_id:
            yield f"Topic {name} was deleted, but no topic had this name and id."
        case PartitionsAdded(name=name) if event.partitions <= topics[name].partitions:
            yield f"Topic {name} was extended to {event.partitions} partitions, but had {topics[name].partitions}."
        case OffsetsReserved(name=name) if not 0 <= event.partition < topics[name].partitions:
            yield f"Offsets were reserved in partition {event.partition} of topic {name}, which does not exist."
        case ProducerIdsReserved() if event.before <= before.producer_ids_before:
            yield "Producer ids were reserved that were in use."
        case PartitionsAddedToTransaction(transactional_id=name) if transactions[name].is_prepared:
            yield f"Partitions were added to transaction {name} after it was prepared."
        case TransactionCompleted(transactional_id=name) if not transactions[name].is_prepared:
            yield f"Transaction {name} was completed, but had not been prepared."
