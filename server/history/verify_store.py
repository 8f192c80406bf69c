"""A store read from its first record to its last, everything in it checked: what `regroup verify` does."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from regroup.coordinator.serialization import SNAPSHOT_VERSION as GROUP_VERSION
from regroup.coordinator.verification import CLUSTER, Fault, Verifier
from regroup.server.cluster.topics import SNAPSHOT_VERSION as TOPICS_VERSION
from regroup.server.history.verification import TopicsVerifier
from regroup.storage.errors import StoreIsDamaged
from regroup.storage.records import Head, Record, Snapshot
from regroup.storage.store import EventStore

TELL_EVERY: Final = 1000

Progress: TypeAlias = Callable[[int, int], None]
"""Told how many events have been folded, and of how many."""


class Verified(NamedTuple):
    """`events` were folded, from position `first` on; earlier ones were trimmed away. Faults go by their position."""

    events: int
    first: int
    groups: int
    left_aside: int
    """Snapshots of another version, among the newest: nobody reads them, so nobody compares them."""
    faults: Sequence[Fault]


async def verify_store(store: EventStore, progress: Progress = lambda done, total: None) -> Verified:
    """Fold it all, check every invariant, and compare the snapshots of every cut with the fold there."""
    folding = _Folding(store)
    await folding.begin()
    total = store.last_position - folding.first + 1
    async for record in store.read(after=folding.first - 1):
        await folding.take(record)
        if folding.events % TELL_EVERY == 0:
            progress(folding.events, total)
    return await folding.end()


class _Folding:
    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._groups = Verifier()
        self._topics = TopicsVerifier()
        self._cuts: list[int] = []
        self._heads: dict[str | None, Head] = {}
        self._faults: list[Fault] = []
        self._last = self._left_aside = 0
        self.first = 1
        self.events = 0

    async def begin(self) -> None:
        """At the first event, or at the cut before what is left."""
        self._heads = await self._store.heads()
        self._cuts = (await self._store.cuts())[::-1]
        if self._store.trimmed_through:
            if not self._cuts:
                raise StoreIsDamaged(
                    f"Events up to position {self._store.trimmed_through} were trimmed, and no snapshots say what the "
                    "groups were then. Restore the store from a copy."
                )
            cut = self._cuts.pop()
            _, snapshots = await self._store.load_snapshots(cut)
            self._groups.begin_from(snapshots)
            self._topics.begin_from(snapshots)
            self.first, self._last = cut + 1, cut

    async def take(self, record: Record) -> None:
        while self._cuts and self._cuts[-1] < record.position:
            await self._check_cut()
        self._faults += gap_before(record, self._last)
        self._faults += self._groups.faults_of(record)
        self._faults += self._topics.faults_of(record)
        self._last = record.position
        self.events += 1

    async def end(self) -> Verified:
        while self._cuts:
            await self._check_cut()
        self._faults += self._groups.faults_at_the_end()
        self._faults += self._left_out()
        in_order = sorted(self._faults, key=lambda fault: fault.position)
        return Verified(self.events, self.first, len(self._groups.groups), self._left_aside, in_order)

    def _left_out(self) -> Iterator[Fault]:
        """What neither a snapshot nor an event tells of, though the store knows that it was: it was trimmed away."""
        for name, head in self._heads.items():
            if name is not None and (name not in self._groups.groups or self._groups.groups[name].number < head.number):
                sentence = f"It has come to event {head.number}, which is in no snapshot and no event."
                yield Fault(head.position, name, sentence)

    async def _check_cut(self) -> None:
        cut = self._cuts.pop()
        if cut > self._store.last_position:
            sentence = f"Snapshots were taken at position {cut}, and the events end here: the last ones are missing."
            self._faults.append(Fault(self._last, CLUSTER, sentence))
            return
        _, snapshots = await self._store.load_snapshots(cut)
        self._left_aside = sum(each.version != version_of(each) for each in snapshots)
        self._faults += self._groups.faults_at_cut(cut, snapshots)
        self._faults += self._topics.faults_at_cut(cut, snapshots)


def version_of(snapshot: Snapshot) -> int:
    """Which version of it is written today."""
    return TOPICS_VERSION if snapshot.group is None else GROUP_VERSION


def gap_before(record: Record, last: int) -> Iterator[Fault]:
    """Positions follow one another without a gap, whatever they are about."""
    if record.position != last + 1:
        whose = CLUSTER if record.group is None else record.group
        yield Fault(record.position, whose, f"The event before it, at position {record.position - 1}, is missing.")
