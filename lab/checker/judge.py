"""The judge of a run: hears of everything, and says in the end what was broken and what it cost.

judge = Judge(settings, now_ms)
judge.make_coordinator(journal, settings=settings, now=clock)     # in place of a GroupCoordinator
judge.stored(records, last_position)           # from the store, before anybody is told
judge.joins("anna", group="payments")          # and judge.ledger("payments", "anna") for its Member
judge.changed("anna", change, at_ms)
verdict = judge.finish(records)
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from regroup.coordinator import commands as c
from regroup.coordinator.group import State
from regroup.coordinator.invariants import sentence
from regroup.coordinator.runtime.group_coordinator import GroupCoordinator
from regroup.coordinator.settings import Settings
from regroup.lab.checker import coordinator_invariants as of
from regroup.lab.checker.coordinator_invariants import Invariant, Known
from regroup.lab.checker.exchanges import Exchange, Outcome
from regroup.lab.checker.member_invariants import MemberLedger, Members, Seen
from regroup.lab.checker.metrics import Counts, moved_for_nothing, shares_of
from regroup.lab.checker.observed_coordinator import WitnessedCoordinator
from regroup.lab.checker.open_requests import StillOpen
from regroup.members.consumer.effects import Change, ConsumerError
from regroup.members.runtime.workload import Ledger
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.storage.records import NewRecord, Record

NOTHING: Final = Counts()
MOST_BROKEN: Final = 100
"""Of one run; what comes later follows from the first, as a rule."""
FULL_FOLD: Final = "A full fold of the store is what was folded row by row."


@dataclass(frozen=True, slots=True)
class Broken:
    """An invariant that does not hold: its sentence, when, after which row if that is known, and the case."""

    sentence: str
    at_ms: int
    position: int | None
    detail: str

    def __str__(self) -> str:
        where = "" if self.position is None else f", position {self.position}"
        return f"{self.sentence} (at {self.at_ms} ms{where}) {self.detail}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was broken, in the order in which it was seen, and what was counted."""

    broken: tuple[Broken, ...] = ()
    counts: Counts = NOTHING

    def with_broken(self, broken: Iterable[Broken]) -> "Verdict":
        """The same, with these broken sentences in place of its own."""
        return replace(self, broken=tuple(broken))

    @property
    def sentences(self) -> tuple[str, ...]:
        """Each broken sentence once, the first first."""
        return tuple(dict.fromkeys(each.sentence for each in self.broken))


class Judge:
    """Of one run. The world calls it; it calls nobody, and changes nothing.

    `now_ms` gives the milliseconds since the run began, by a clock that never jumps.
    """

    def __init__(self, settings: Settings, now_ms: Callable[[], int]) -> None:
        self.known = Known(settings, now_ms)
        self.make_coordinator = partial(WitnessedCoordinator, witness=self)
        self._now_ms = now_ms
        self.members = Members(self.known.promises.out)
        self.broken: list[Broken] = []
        self._open = StillOpen()
        self._coordinators: dict[str, WitnessedCoordinator] = {}
        self._dead: dict[int, WitnessedCoordinator] = {}
        self._shares: dict[str, dict[str, frozenset[TopicPartition]]] = {}
        self._compared: dict[str, tuple[State, int]] = {}
        self._exchanges = self._events = self._rebalances = self._expulsions = 0
        self._went_back = self._moved = 0

    # The coordinators' witness

    def next_number(self) -> int:
        self._exchanges += 1
        return self._exchanges

    def answered(self, exchange: Exchange) -> None:
        """An answer leaves. What the dead say is heard by nobody."""
        if id(exchange.coordinator) in self._dead:
            return
        if exchange.answers > 1:
            self._look(of.a_request_is_answered_once, exchange)
            return
        kind = type(exchange.command)
        if not of.was_not_served(exchange):
            for invariant in of.OF_ANSWERS_TO.get(kind, of.OF_ANSWERS):
                if detail := invariant(self.known, exchange):
                    self._broke(invariant, exchange, detail)
            self.known.patience.answered(exchange, self._now_ms())
        if kind is c.CommitOffsets:
            self.known.promises.acknowledged(exchange, exchange.answer)
        elif kind is c.SyncGroup:
            self.known.promises.given(exchange, exchange.answer)

    def dealt_with(self, exchange: Exchange) -> None:
        """A command has had its effect."""
        if exchange.refusal is not None:
            return
        now_ms = self._now_ms()
        self.known.patience.dealt_with(exchange, now_ms)
        if isinstance(exchange.command, c.DeadlinePassed):
            for invariant in of.OF_DEADLINES:
                self._look(invariant, exchange)
        if exchange.after is not exchange.before:
            self._changed(exchange, now_ms)
        if exchange.outcome is Outcome.OPEN:
            self._open.takes(exchange)
            if exchange.place is not None:
                self._look(of.only_what_depends_on_others_is_parked, exchange)
            elif type(exchange.command) is c.CommitOffsets:
                self.known.promises.handed_in(exchange, exchange.command)

    def _changed(self, exchange: Exchange, now_ms: int) -> None:
        name, before, after = exchange.group_id, exchange.before, exchange.after
        self._coordinators[name] = exchange.coordinator
        self.known.promises.changed(exchange)
        self.known.patience.changed(exchange, now_ms)
        self._open.releases(exchange)
        if isinstance(exchange.command, c.TakeOver):
            for invariant in of.OF_LOADS:
                self._look(invariant, exchange)
        elif isinstance(exchange.command, c.CommitOffsets):
            self._commits(exchange, exchange.command)
        elif after.state is State.STABLE and before.state is not State.STABLE:
            self._deals(exchange)
        elif not after.exists:
            self._shares.pop(name, None)

    def _commits(self, exchange: Exchange, command: c.CommitOffsets) -> None:
        """Offsets that somebody sets from outside may lie anywhere."""
        for each in command.offsets:
            partition = TopicPartition(each.topic, each.partition)
            present = exchange.before.committed(each.topic, each.partition)
            if present is not None and each.offset < present.offset:
                self._went_back += 1
            if command.generation_id < 0:
                self.members.ledger(exchange.group_id).excuse(partition, each.offset)
            else:
                self._saw(self.members.commits(exchange.group_id, partition, each.offset))

    def _deals(self, exchange: Exchange) -> None:
        """The leader's assignment counts from now on."""
        group = exchange.after
        if any(m.member_id == group.leader and not m.deals_soundly for m in self.members.by_name.values()):
            self.known.unsound.add((group.name, group.generation))
        shares = shares_of(group)
        self._moved += moved_for_nothing(self._shares.get(group.name, {}), shares)
        self._shares[group.name] = shares

    # The disk

    def stored(self, records: Sequence[NewRecord], last_position: int) -> None:
        """The store has taken these rows; whoever waits for them is told after this."""
        second = self.known.second
        for exchange in self._open.overdue(second.position):
            self._look(of.whoever_waits_is_answered, exchange)
        for fault in second.stored(records, last_position):
            self._note(fault.sentence, f"group {fault.group}", fault.position)
        self._events += len(records)
        for record in records:
            if record.type == "assignment-committed":
                self._rebalances += 1
            elif record.type == "member-expelled":
                self._expulsions += 1
        for name in dict.fromkeys([each.group for each in records]):
            self._compare(name)

    def _compare(self, name: str | None, *, wholly: bool = False) -> None:
        """The numbers always, the whole groups whenever they have moved on."""
        coordinator = self._coordinators.get(name) if name is not None else None
        if name is None or coordinator is None or id(coordinator) in self._dead or not coordinator.is_ready:
            return
        live, stored = coordinator.group(name), self.known.second.group(name)
        stage = live.state, live.generation
        if live.number == stored.number and not wholly:
            if self._compared.get(name) == stage:
                return
            self._compared[name] = stage
        is_all_durable = coordinator.journal.last_position <= self.known.second.position
        detail = of.the_stored_rows_add_up_to_the_live_group(live, stored, is_all_durable)
        if detail:
            broken = sentence(of.the_stored_rows_add_up_to_the_live_group)
            self._note(broken, detail, self.known.second.position)

    # What else happens to coordinators

    def crashed(self, coordinator: GroupCoordinator) -> None:
        """It died without a word: whoever waits for it will not be answered."""
        assert isinstance(coordinator, WitnessedCoordinator)
        self._dead[id(coordinator)] = coordinator
        self._open.ends(Outcome.DIED, lambda exchange: exchange.coordinator is coordinator)

    def connection_lost(self, connection: str) -> None:
        """Nobody hears the answers to what came on it."""
        self._open.ends(
            Outcome.LOST, lambda exchange: exchange.cause is not None and exchange.cause.connection == connection
        )

    # The members

    def joins(self, name: str, group: str, *, behaves: bool = True, deals_soundly: bool = True) -> None:
        """A member takes part. Only what behaves well is judged; whoever deals badly leads generations without
        owners."""
        self.members.joins(name, group, behaves=behaves, deals_soundly=deals_soundly)

    def ledger(self, group: str, name: str | None = None) -> Ledger:
        """The books of a group; those that a Member is given should know its name."""
        books = self.members.ledger(group)
        if name is None:
            return books
        return MemberLedger(books, lambda partition: self._saw(self.members.reads(name, partition)))

    def changed(self, name: str, change: Change | ConsumerError, at_ms: int) -> None:
        """As a Member's observer hears it; errors break nothing."""
        if not isinstance(change, ConsumerError):
            self._saw(self.members.changed(name, change, at_ms))

    def is_gone(self, name: str, at_ms: int) -> None:
        """A member crashed, or its process began anew: it reads nothing any more."""
        self.members.is_gone(name, at_ms)

    def topic_vanished(self, topic: str, at_ms: int) -> None:
        """Topics may come back, with offsets from 0."""
        self.members.topic_vanished(topic, at_ms)

    # The end

    def finish(self, records: Iterable[Record] | None = None) -> Verdict:
        """The run is over. With the store's records, all of them, they are folded once more from the first."""
        second = self.known.second
        for exchange in self._open.overdue(second.position):
            self._look(of.whoever_waits_is_answered, exchange)
        for fault in second.faults_at_the_end():
            self._note(fault.sentence, f"group {fault.group}", fault.position)
        for name, coordinator in self._coordinators.items():
            self._compare(name, wholly=True)
            if coordinator.is_ready and id(coordinator) not in self._dead:
                for detail in self.known.patience.overdrawn(coordinator.group(name), self._now_ms()):
                    self._note(sentence(of.no_deadline_is_overlooked), detail)
        for name in second.differs_from(records) if records is not None else ():
            self._note(FULL_FOLD, f"group {name}", second.position)
        for group in self.members.ledgers:
            self._saw(self.members.skipped(group, second.group(group).offsets))
        return Verdict(tuple(self.broken), self._counts())

    def _counts(self) -> Counts:
        tallies = [ledger.tally for ledger in self.members.ledgers.values()]
        return Counts(
            processed=sum(tally.processed for tally in tallies),
            processed_twice=sum(tally.twice for tally in tallies),
            offsets_went_back=self._went_back,
            ownerless_s=self.members.ownerless_s(self._now_ms()),
            moved_for_nothing=self._moved,
            rebalances=self._rebalances,
            expulsions=self._expulsions,
            exchanges=self._exchanges,
            events=self._events,
        )

    # Sentences

    def _look(self, invariant: Invariant, exchange: Exchange) -> None:
        if detail := invariant(self.known, exchange):
            self._broke(invariant, exchange, detail)

    def _broke(self, invariant: Invariant, exchange: Exchange, detail: str) -> None:
        self._note(sentence(invariant), f"{detail}. {exchange}", exchange.position or None)

    def _saw(self, seen: Iterable[Seen]) -> None:
        for each in seen:
            self._note(each.sentence, each.detail)

    def _note(self, broken: str, detail: str, position: int | None = None) -> None:
        if len(self.broken) < MOST_BROKEN:
            self.broken.append(Broken(broken, self._now_ms(), position, detail))
