"""The checker of one run: observes its coordinators, members and store, and returns the violations and counts.

checker = Checker(settings, now_ms)
checker.make_coordinator(journal, settings=settings, now=clock)       # in place of a GroupCoordinator
checker.on_stored(records, last_position)         # from the store, before the coordinator is notified
checker.members.add_member("anna", group_id="payments")      # and checker.ledger("payments", "anna") for its process
checker.on_member_change("anna", change, at_ms)
verdict = checker.finish(records)
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from regroup.coordinator import commands as c
from regroup.coordinator.consumer_group import ConsumerGroupState
from regroup.coordinator.group import GroupState
from regroup.coordinator.invariants import invariant_sentence
from regroup.coordinator.runtime.group_coordinator import GroupCoordinator
from regroup.coordinator.settings import CoordinatorSettings
from regroup.lab.checker import coordinator_invariants as invariants
from regroup.lab.checker import store_invariants
from regroup.lab.checker.consumer.responses import violations_of_response
from regroup.lab.checker.coordinator_invariants import CheckerState, ExchangeInvariant
from regroup.lab.checker.exchanges import ExchangeOutcome, ObservedExchange
from regroup.lab.checker.fenced_members import FencedMembers
from regroup.lab.checker.member_invariants import MemberChecker, MemberLedger, MemberViolation
from regroup.lab.checker.metrics import Counts, needless_moves, partitions_by_member
from regroup.lab.checker.observed_coordinator import ObservedCoordinator
from regroup.lab.checker.open_requests import OpenRequests
from regroup.members.consumer.effects import ConsumerChange, ConsumerError, JoinedGroup
from regroup.members.runtime.workload import RecordLedger
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.message import Message
from regroup.storage.journal import Journal
from regroup.storage.records import NewRecord, Record

__all__ = ["RunViolation", "RunVerdict"]

NO_COUNTS: Final = Counts()
MAX_VIOLATIONS: Final = 100
"""How many violations of one run are recorded. Later ones usually follow from earlier ones."""
FULL_REPLAY: Final = "A full replay of the store gives the same groups as the records one by one."


@dataclass(frozen=True, slots=True)
class RunViolation:
    """An invariant or expectation that does not hold."""

    sentence: str
    """The invariant or expectation."""
    at_ms: int
    """Milliseconds since the run began."""
    position: int | None
    """Position of the record after which it was found, if known."""
    detail: str
    """What was found."""
    raw: str = ""
    """The values of the exchange in which it was found, as Python writes them; empty if there is none."""

    def __str__(self) -> str:
        where = "" if self.position is None else f", position {self.position}"
        return f"{self.sentence} (at {self.at_ms} ms{where}) {self.detail}"


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """The violations of a run, in the order in which they were found, and its counts."""

    violations: tuple[RunViolation, ...] = ()
    counts: Counts = NO_COUNTS
    records_skipped: int = 0
    """Records below the committed offsets that no member has processed."""
    unowned_partitions: Mapping[int, int] = field(default_factory=dict)
    """By the time of each change of owners, in ms since the run began, how many partitions had lost theirs after it."""

    def with_violations(self, violations: Iterable[RunViolation]) -> "RunVerdict":
        """A verdict with the same counts, and these violations instead of its own."""
        return replace(self, violations=tuple(violations))

    @property
    def sentences(self) -> tuple[str, ...]:
        """Each violated sentence once, in the order of its first violation."""
        return tuple(dict.fromkeys(each.sentence for each in self.violations))


class Checker:
    """Checks the coordinators and members of one run. It changes nothing of what it observes.

    `now_ms` gives the milliseconds since the run began, by a clock that never jumps.
    """

    def __init__(self, settings: CoordinatorSettings, now_ms: Callable[[], int]) -> None:
        self.state = CheckerState(settings, now_ms)
        self.members = MemberChecker(self.state.acknowledgements.removed_members)
        self.fenced = FencedMembers()
        self.violations: list[RunViolation] = []
        self._now_ms = now_ms
        self._open_requests = OpenRequests()
        self._coordinators: dict[str, GroupCoordinator] = {}
        """By group id, the coordinator that handled the last command which changed the group."""
        self._crashed: dict[int, GroupCoordinator] = {}
        """Coordinators whose process has crashed, by their `id()`: they are not compared with the store any more."""
        self._assignments: dict[str, dict[str, frozenset[TopicPartition]]] = {}
        """By group id, the last committed assignment: the partitions of each member."""
        self._compared: dict[str, tuple[GroupState | ConsumerGroupState, int]] = {}
        """By group id, the state and generation in which the group was last compared with its shadow in full."""
        self._exchanges = self._events = self._rebalances = self._removals = 0
        self._offsets_went_back = self._needless_moves = 0

    # Coordinators

    def make_coordinator(
        self, journal: Journal, *, settings: CoordinatorSettings, now: Callable[[], int], **options: Any
    ) -> GroupCoordinator:
        """Make a GroupCoordinator that this checker observes, from the arguments of GroupCoordinator."""
        return ObservedCoordinator(journal, settings=settings, now=now, observer=self, **options).coordinator

    def next_exchange_number(self) -> int:
        """Return the number of an exchange that begins: 1, 2, 3 … over all coordinators of the run."""
        self._exchanges += 1
        return self._exchanges

    def on_response(self, exchange: ObservedExchange) -> None:
        """Check a response that is about to leave. Responses of crashed coordinators reach no client."""
        if id(exchange.coordinator) in self._crashed:
            return
        if exchange.response_count > 1:
            self._check(invariants.a_request_has_at_most_one_response, exchange)
            return
        kind = type(exchange.command)
        if not invariants.was_unavailable(exchange):
            for invariant in invariants.response_invariants(self.state, exchange):
                self._check(invariant, exchange)
            self.state.timeouts.on_response(exchange, self._now_ms())
            self._check_consumer_group(exchange)
        if kind is c.OffsetCommit:
            self.state.acknowledgements.on_commit_response(exchange, exchange.response)
        elif kind is c.SyncGroup:
            self.state.acknowledgements.on_sync_response(exchange, exchange.response)

    def _check_consumer_group(self, exchange: ObservedExchange) -> None:
        """Check a response by the rules of the consumer protocol, if its group is one of these; follow others, too."""
        groups = self.state.consumer_groups
        for sentence, detail in violations_of_response(groups, exchange, self.state.settings):
            self._report_exchange(sentence, detail, exchange)
        if exchange.after.consumer is not exchange.before.consumer and not groups.group(exchange.group_id).queue:
            self._compare_folds(exchange.group_id, exchange.after.event_number)

    def _compare_folds(self, group_id: str, event_number: int) -> None:
        stored = self.state.shadow.group(group_id)
        if stored.event_number == event_number and (detail := store_invariants.both_folds_agree(stored, self.state)):
            self._report(invariant_sentence(store_invariants.both_folds_agree), detail, self.state.shadow.position)

    def _report_steps(self, violations: Iterable[tuple[str, str]]) -> None:
        for sentence, detail in violations:
            self._report(sentence, detail)

    def on_command(self, exchange: ObservedExchange) -> None:
        """Check a command that its coordinator has handled."""
        if exchange.refusal is not None:
            return
        now_ms = self._now_ms()
        self.state.timeouts.on_command(exchange, now_ms)
        if isinstance(exchange.command, c.DeadlinePassed):
            for invariant in invariants.DEADLINE_INVARIANTS:
                self._check(invariant, exchange)
        if exchange.after is not exchange.before:
            self._on_group_change(exchange, now_ms)
        if exchange.outcome is ExchangeOutcome.OPEN:
            self._open_requests.add(exchange)
            if exchange.held_under is not None:
                self._check(invariants.only_dependent_responses_are_held, exchange)
            elif isinstance(exchange.command, c.OffsetCommit):
                self.state.acknowledgements.on_commit(exchange, exchange.command)

    def _on_group_change(self, exchange: ObservedExchange, now_ms: int) -> None:
        group_id, before, after = exchange.group_id, exchange.before, exchange.after
        self._coordinators[group_id] = exchange.coordinator
        self.state.acknowledgements.on_group_change(exchange)
        self.state.timeouts.on_group_change(exchange, now_ms)
        self._open_requests.on_group_change(exchange)
        if (before.consumer is None) != (after.consumer is None) and after.exists:
            self._check(store_invariants.a_migration_keeps_acknowledged_offsets, exchange)
        if isinstance(exchange.command, c.LoadGroup):
            self._report_steps(self.state.consumer_groups.proceed(group_id))
            for invariant in store_invariants.LOAD_INVARIANTS:
                self._check(invariant, exchange)
        elif isinstance(exchange.command, c.OffsetCommit):
            self._on_offset_commit(exchange, exchange.command)
        elif after.state is GroupState.STABLE and before.state is not GroupState.STABLE:
            self._on_assignment(exchange)
        elif not after.exists:
            self._assignments.pop(group_id, None)

    def _on_offset_commit(self, exchange: ObservedExchange, command: c.OffsetCommit) -> None:
        """Count the offsets of an accepted commit that are lower than before, and check those of a member.

        A commit without a generation, by a command-line tool for example, may set any offset, so none is checked.
        """
        for each in command.offsets:
            partition = TopicPartition(each.topic, each.partition)
            committed = exchange.before.committed_offset(each.topic, each.partition)
            if committed is not None and each.offset < committed.offset:
                self._offsets_went_back += 1
            if command.generation_id < 0:
                self.members.ledger(exchange.group_id).ignore_below(partition, each.offset)
            else:
                self._report_members(self.members.on_commit(exchange.group_id, partition, each.offset))

    def _on_assignment(self, exchange: ObservedExchange) -> None:
        """Count the needless moves of a committed assignment.

        A generation whose leader has an unsound assignor is noted: its owners are not checked.
        """
        group = exchange.after
        observed = self.members.by_name.values()
        if any(each.member_id == group.leader_id and not each.has_sound_assignor for each in observed):
            self.state.unsound_generations.add((group.group_id, group.generation_id))
        assignment = partitions_by_member(group)
        self._needless_moves += needless_moves(self._assignments.get(group.group_id, {}), assignment)
        self._assignments[group.group_id] = assignment

    def on_coordinator_crash(self, coordinator: GroupCoordinator) -> None:
        """A coordinator has crashed: its open requests get no response."""
        self._crashed[id(coordinator)] = coordinator
        self._open_requests.close(
            ExchangeOutcome.COORDINATOR_CRASHED, lambda exchange: exchange.coordinator is coordinator
        )

    def on_connection_lost(self, connection: str) -> None:
        """A connection is lost: responses to its requests reach no client."""
        self._open_requests.close(
            ExchangeOutcome.CONNECTION_LOST,
            lambda exchange: exchange.cause is not None and exchange.cause.connection == connection,
        )

    # The store

    def on_stored(self, records: Sequence[NewRecord], last_position: int) -> None:
        """Apply records that the store has appended.

        It is called before the coordinator is notified that they are durable.
        """
        shadow = self.state.shadow
        for exchange in self._open_requests.overdue(shadow.position):
            self._check(invariants.an_open_request_gets_its_response, exchange)
        for violation in shadow.apply(records, last_position):
            index = violation.position - (last_position - len(records)) - 1
            event = records[index].type if 0 <= index < len(records) else "the last event"
            self._report(violation.sentence, f"{event} of group {violation.group} shows it", violation.position)
        for position, record in enumerate(records, last_position - len(records) + 1):
            self.state.consumer_groups.on_stored(record, position)
        self._events += len(records)
        for record in records:
            if record.type == "assignment-committed":
                self._rebalances += 1
            elif record.type == "member-removed":
                self._removals += 1
            elif record.type in ("group-upgraded", "upgrade-refused") and record.group is not None:
                self.state.upgraded_groups.add(record.group)
        for group_id in dict.fromkeys([each.group for each in records]):
            if group_id is not None:
                self._compare(group_id)

    def _compare(self, group_id: str, *, in_full: bool = False) -> None:
        """Compare a group in its coordinator with its shadow, which is evolved from the stored records.

        The event numbers are always compared; all fields only in a new state or generation, or with `in_full`.
        """
        coordinator = self._coordinators.get(group_id)
        if coordinator is None or id(coordinator) in self._crashed or not coordinator.is_ready:
            return
        live, stored = coordinator.group(group_id), self.state.shadow.group(group_id)
        consumer = live.consumer
        phase = (live.state, live.generation_id) if consumer is None else (consumer.state, consumer.group_epoch)
        if live.event_number == stored.event_number and not in_full:
            if self._compared.get(group_id) == phase:
                return
            self._compared[group_id] = phase
        is_all_durable = coordinator.journal.last_position <= self.state.shadow.position
        invariant = store_invariants.the_shadow_group_equals_the_live_group
        if detail := invariant(live, stored, is_all_durable):
            raw = f"live {live}, stored {stored}"
            self._report(invariant_sentence(invariant), detail, self.state.shadow.position, raw)

    # Members

    def ledger(self, group_id: str, name: str | None = None) -> RecordLedger:
        """The ledger of a group's processed records.

        With a member's name, one for that SimulatedMember, which reports the member's own processing to this checker.
        """
        ledger = self.members.ledger(group_id)
        if name is None:
            return ledger
        return MemberLedger(ledger, lambda partition: self._on_record(name, partition))

    def _on_record(self, name: str, partition: TopicPartition) -> None:
        self._report_members(self.members.on_record(name, partition))
        if violation := self.fenced.on_record(name, partition, self._now_ms()):
            self._report_members([violation])

    def on_member_request(self, name: str, message: Message) -> None:
        """Check a request that a member sends."""
        if violation := self.fenced.on_request(name, message):
            self._report_members([violation])

    def on_member_change(self, name: str, change: ConsumerChange | ConsumerError, at_ms: int) -> None:
        """Check a change of a member's consumer. An error that the consumer reports violates no invariant."""
        if isinstance(change, JoinedGroup):
            self.fenced.on_new_life(name)
        if not isinstance(change, ConsumerError):
            self._report_members(self.members.on_member_change(name, change, at_ms))

    def on_member_stop(self, name: str, at_ms: int) -> None:
        """A member's process has ended or restarted."""
        self.fenced.on_new_life(name)
        self.members.on_member_stop(name, at_ms)

    # The end

    def finish(self, records: Iterable[Record] | None = None) -> RunVerdict:
        """The verdict on the run.

        If all records of the store are given, their groups are evolved again and compared.
        """
        shadow = self.state.shadow
        for exchange in self._open_requests.overdue(shadow.position):
            self._check(invariants.an_open_request_gets_its_response, exchange)
        for violation in shadow.violations_at_end():
            self._report(violation.sentence, f"group {violation.group}", violation.position)
        for group_id, coordinator in self._coordinators.items():
            self._compare(group_id, in_full=True)
            if coordinator.is_ready and id(coordinator) not in self._crashed:
                for detail in self.state.timeouts.overdue(coordinator.group(group_id), self._now_ms()):
                    self._report(invariant_sentence(invariants.no_deadline_is_missed), detail)
        for group_id in self.state.consumer_groups.group_ids:
            self._report_steps(self.state.consumer_groups.proceed(group_id))
            self._compare_folds(group_id, shadow.group(group_id).event_number)
        for group_id in shadow.differing_groups(records) if records is not None else ():
            self._report(FULL_REPLAY, f"group {group_id}", shadow.position)
        skipped = 0
        for group_id, ledger in self.members.ledgers.items():
            committed_offsets = shadow.group(group_id).committed_offsets
            self._report_members(self.members.skipped_records(group_id, committed_offsets))
            skipped += ledger.number_skipped(committed_offsets)
        return RunVerdict(tuple(self.violations), self._counts(), skipped, dict(self.members.unowned_partitions))

    def _counts(self) -> Counts:
        counts = [ledger.counts for ledger in self.members.ledgers.values()]
        return Counts(
            processed=sum(each.processed for each in counts),
            processed_twice=sum(each.duplicates for each in counts),
            offsets_went_back=self._offsets_went_back,
            ownerless_s=self.members.unowned_s(self._now_ms()),
            needless_moves=self._needless_moves,
            rebalances=self._rebalances,
            removals=self._removals,
            exchanges=self._exchanges,
            events=self._events,
        )

    # Reports

    def _check(self, invariant: ExchangeInvariant, exchange: ObservedExchange) -> None:
        if detail := invariant(self.state, exchange):
            self._report_exchange(invariant_sentence(invariant), detail, exchange)

    def _report_exchange(self, sentence: str, detail: str, exchange: ObservedExchange) -> None:
        position = exchange.required_position or None
        self._report(sentence, f"{detail.rstrip('.')}. {exchange.summary}", position, str(exchange))

    def _report_members(self, violations: Iterable[MemberViolation]) -> None:
        for each in violations:
            self._report(each.sentence, each.detail)

    def _report(self, sentence: str, detail: str, position: int | None = None, raw: str = "") -> None:
        if len(self.violations) < MAX_VIOLATIONS:
            self.violations.append(RunViolation(sentence, self._now_ms(), position, detail, raw))
