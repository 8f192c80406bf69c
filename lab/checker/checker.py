"""The checker of one run: observes its coordinators, members and store, and returns the violations and counts.

checker = Checker(settings, now_ms)
checker.make_coordinator(journal, settings=settings, now=clock)       # in place of a GroupCoordinator
checker.on_stored(records, last_position)         # from the store, before the coordinator is notified
checker.members.add_member("anna", group_id="payments")
checker.members.on_change("anna", change, at_ms)
verdict = checker.finish(records)
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from regroup.coordinator import commands as c
from regroup.coordinator.consumer.commands import ConsumerGroupHeartbeat, ResolveRegexes
from regroup.coordinator.group import GroupState
from regroup.coordinator.invariants import invariant_sentence
from regroup.coordinator.runtime.group_coordinator import GroupCoordinator
from regroup.coordinator.settings import CoordinatorSettings
from regroup.lab.checker import coordinator_invariants as invariants
from regroup.lab.checker.consumer.patterns import (
    SEARCHES_IN_TIME,
    PatternSearches,
    an_epoch_follows_what_patterns_match,
)
from regroup.lab.checker.consumer.responses import violations_of_response
from regroup.lab.checker.coordinator_state import CheckerState
from regroup.lab.checker.exchanges import ExchangeOutcome, ObservedExchange
from regroup.lab.checker.members.observed_members import ObservedMembers
from regroup.lab.checker.members.records.outputs import OutputLedger
from regroup.lab.checker.members.transactions import TransactionLedger
from regroup.lab.checker.metrics import RunCounter
from regroup.lab.checker.observed_coordinator import ObservedCoordinator
from regroup.lab.checker.offsets import offset_invariants
from regroup.lab.checker.offsets.expiry import CHECKS_KEEP_THEIR_INTERVAL
from regroup.lab.checker.offsets.fenced_producers import FencedProducers
from regroup.lab.checker.offsets.late_records import RECORDS_TIME_OUT, LateRecords
from regroup.lab.checker.offsets.prepared_transactions import PreparedTransactions
from regroup.lab.checker.offsets.transaction_ends import TransactionEnds
from regroup.lab.checker.open_requests import OpenRequests
from regroup.lab.checker.store import store_invariants
from regroup.lab.checker.store.comparison import GroupComparison
from regroup.lab.checker.verdict import RunVerdict
from regroup.lab.checker.violations import ViolationLog
from regroup.protocol.message import Message
from regroup.server.cluster.events import ClusterEvent, TopicCreated, TopicDeleted, decode_cluster_event
from regroup.storage.journal import Journal
from regroup.storage.records import NewRecord, Record


class Checker:
    """Checks the coordinators and members of one run. It changes nothing of what it observes.

    `now_ms` gives the milliseconds since the run began, by a clock that never jumps. `offered` has the first and last
    version of each API that brokers of an older release offer, by API key.
    """

    def __init__(
        self,
        settings: CoordinatorSettings,
        now_ms: Callable[[], int],
        offered: Mapping[int, tuple[int, int]] | None = None,
    ) -> None:
        self.state = CheckerState(settings, now_ms)
        self._violations = ViolationLog(self.state)
        self.outputs = OutputLedger()
        self.members = ObservedMembers(self.state, self.outputs, self._violations)
        self.transactions = TransactionLedger()
        self._fenced_producers = FencedProducers(offered)
        self._prepared = PreparedTransactions()
        self._transaction_ends = TransactionEnds()
        self._late_records = LateRecords()
        self._now_ms = now_ms
        self._open_requests = OpenRequests()
        self._groups = GroupComparison(self.state, self._violations)
        self._searches = PatternSearches(settings)
        self._counter = RunCounter()

    # Coordinators

    def make_coordinator(
        self, journal: Journal, *, settings: CoordinatorSettings, now: Callable[[], int], **options: Any
    ) -> GroupCoordinator:
        """Make a GroupCoordinator that this checker observes, from the arguments of GroupCoordinator."""
        self._transaction_ends.on_disturbance(self._now_ms())
        return ObservedCoordinator(journal, settings=settings, now=now, observer=self, **options).coordinator

    def next_exchange_number(self) -> int:
        """Return the number of an exchange that begins: 1, 2, 3 … over all coordinators of the run."""
        return self._counter.next_exchange_number()

    def on_response(self, exchange: ObservedExchange) -> None:
        """Check a response that is about to leave by the invariants of its request, and note what it confirms to its
        client.

        Responses of crashed coordinators reach no client, and are skipped.
        """
        if self._groups.has_crashed(exchange.coordinator):
            return
        if exchange.response_count > 1:
            self._violations.check(invariants.a_request_has_at_most_one_response, exchange)
            return
        kind = type(exchange.command)
        if not invariants.was_unavailable(exchange):
            self._violations.check_all(invariants.response_invariants(self.state, exchange), exchange)
            self.state.timeouts.on_response(exchange, self._now_ms())
            self._check_consumer_group(exchange)
        if kind is c.OffsetCommit:
            self.state.acknowledgements.on_commit_response(exchange, exchange.response)
        elif kind is c.SyncGroup:
            self.state.acknowledgements.on_sync_response(exchange, exchange.response)
        elif (
            kind is ConsumerGroupHeartbeat
            and not exchange.error_code
            and (detail := self._searches.on_heartbeat(exchange, self._now_ms()))
        ):
            self._violations.report_exchange(SEARCHES_IN_TIME, detail, exchange)

    def _check_consumer_group(self, exchange: ObservedExchange) -> None:
        """Check a response by the rules of the consumer protocol if its group is of that protocol.

        The members of a classic group are only noted, since they must still be there if the group changes its protocol.
        Afterwards the group as the product folds it is compared with the one that the lab folds.
        """
        groups = self.state.consumer_groups
        for sentence, detail in violations_of_response(groups, exchange, self.state.settings):
            self._violations.report_exchange(sentence, detail, exchange)
        group_id, after = exchange.group_id, exchange.after
        is_stored = self.state.shadow.group(group_id).event_number == after.event_number
        if is_stored and after.consumer is not exchange.before.consumer and not groups.group(group_id).queue:
            self._groups.compare_consumer_fold(group_id)

    def on_command(self, exchange: ObservedExchange) -> None:
        """Check a command that its coordinator has handled, by the group before and after it; commands that it refused
        are skipped.

        Timeouts, removed members and held requests are tracked from command to command, and an OffsetCommit is noted,
        so that later responses and loads can be checked.
        """
        if exchange.refusal is not None:
            return
        now_ms = self._now_ms()
        timeouts = self.state.timeouts
        if type(exchange.command) is not c.LoadGroup and timeouts.begin_look(exchange.before, exchange.after, now_ms):
            self._violations.check(invariants.no_deadline_is_missed, exchange)
        timeouts.on_command(exchange, now_ms)
        self._violations.check_all(invariants.COMMAND_INVARIANTS, exchange)
        for detail in self.state.expiry.early_look(exchange, now_ms):
            self._violations.report_exchange(CHECKS_KEEP_THEIR_INTERVAL, detail, exchange)
        for sentence, detail in self.state.expiry.on_command(exchange, now_ms):
            self._violations.report_exchange(sentence, detail, exchange)
        for detail in self._late_records.on_command(exchange, now_ms):
            self._violations.report_exchange(RECORDS_TIME_OUT, detail, exchange)
        if isinstance(exchange.command, ResolveRegexes):
            self._violations.check(an_epoch_follows_what_patterns_match, exchange)
            self._searches.on_search(exchange)
        if isinstance(exchange.command, c.DeadlinePassed):
            self._violations.check_all(invariants.DEADLINE_INVARIANTS, exchange)
        if exchange.after is not exchange.before:
            self._on_group_change(exchange, now_ms)
        if exchange.outcome is ExchangeOutcome.OPEN:
            self._open_requests.add(exchange)
            if exchange.held_under is not None:
                self._violations.check(invariants.only_dependent_responses_are_held, exchange)
            elif isinstance(exchange.command, c.OffsetCommit):
                self.state.acknowledgements.on_commit(exchange, exchange.command)

    def _on_group_change(self, exchange: ObservedExchange, now_ms: int) -> None:
        group_id, before, after = exchange.group_id, exchange.before, exchange.after
        self._groups.on_group_change(group_id, exchange.coordinator)
        self.state.acknowledgements.on_group_change(exchange)
        self.state.timeouts.on_group_change(exchange, now_ms)
        self._open_requests.on_group_change(exchange)
        self._violations.check_all(invariants.OFFSET_CHANGE_INVARIANTS, exchange)
        if before.committed_offsets is not after.committed_offsets:
            if not isinstance(exchange.command, c.OffsetCommit):
                self.members.on_other_offset_change(group_id)
            self.outputs.on_offset_change(before, after)
        if isinstance(exchange.command, c.EndTransaction):
            self._violations.check(offset_invariants.a_transaction_ends_as_a_whole, exchange)
            for sentence, detail in self.transactions.violations_of(before, after):
                self._violations.report_exchange(sentence, detail, exchange)
        if (before.consumer is None) != (after.consumer is None) and after.exists:
            self._violations.check(store_invariants.a_migration_keeps_acknowledged_offsets, exchange)
        if isinstance(exchange.command, c.LoadGroup):
            self._searches.on_load(group_id)
            self._violations.report_all(self.state.consumer_groups.proceed(group_id))
            self._violations.check_all(store_invariants.LOAD_INVARIANTS, exchange)
        elif isinstance(exchange.command, c.OffsetCommit):
            self._counter.on_offset_commit(exchange.before, exchange.command)
            self.members.on_commit(exchange, exchange.command)
        elif after.state is GroupState.STABLE and before.state is not GroupState.STABLE:
            self._on_assignment(exchange)
        elif not after.exists:
            self._counter.on_group_deleted(group_id)

    def _on_assignment(self, exchange: ObservedExchange) -> None:
        """Take a group that has just become Stable with a new assignment.

        A generation whose leader assigns unsoundly is noted: the owners of its partitions are not checked.
        """
        group = exchange.after
        if self.members.is_assigned_unsoundly(group.group_id, group.generation_id):
            self.state.unsound_generations.add((group.group_id, group.generation_id))
        self._counter.on_assignment(group)

    def on_coordinator_crash(self, coordinator: GroupCoordinator) -> None:
        """Stop expecting responses from a coordinator that has crashed: its open requests get none."""
        self._groups.on_crash(coordinator)
        self.outputs.on_crash()
        self.members.acknowledged.on_crash()
        self._prepared.on_disturbance(self._now_ms())
        self._transaction_ends.on_disturbance(self._now_ms())
        self._open_requests.close(
            ExchangeOutcome.COORDINATOR_CRASHED, lambda exchange: exchange.coordinator is coordinator
        )

    def on_connection_lost(self, connection: str) -> None:
        """Stop expecting responses to the requests of a connection that is lost: no client could receive them."""
        self._open_requests.close(
            ExchangeOutcome.CONNECTION_LOST,
            lambda exchange: exchange.cause is not None and exchange.cause.connection == connection,
        )

    # Producers with a transactional id

    def on_producer_request(self, message: Message) -> None:
        """Note a request that a client of such a producer sends."""
        self._fenced_producers.on_request(message)
        self._transaction_ends.on_request(message)

    def on_producer_response(self, message: Message, response: Any) -> None:
        """Check the response to such a request; None if it got none."""
        self._violations.report_all(self._fenced_producers.on_response(message, response))
        self._violations.report_all(self._transaction_ends.on_response(message, response))

    # The store

    def on_stored(self, records: Sequence[NewRecord], last_position: int) -> None:
        """Evolve the checker's own groups by records that the store has appended, and check the events in them.

        The groups are then compared with those of the coordinators. This is called before the coordinators are notified
        that the records are durable.
        """
        shadow = self.state.shadow
        for exchange in self._open_requests.overdue(shadow.position):
            self._violations.check(invariants.an_open_request_gets_its_response, exchange)
        for violation in shadow.apply(records, last_position):
            index = violation.position - (last_position - len(records)) - 1
            event = records[index].type if 0 <= index < len(records) else "the last event"
            self._violations.report(
                violation.sentence, f"{event} of group {violation.group} shows it", violation.position
            )
        for position, (record, decoded) in enumerate(
            zip(records, shadow.events, strict=True), last_position - len(records) + 1
        ):
            for sentence, detail in self._prepared.on_stored(
                record, decoded, self.state.classic_groups, self._now_ms()
            ):
                self._violations.report(sentence, detail, position)
            for sentence, detail in self._transaction_ends.on_stored(record, decoded, self._now_ms()):
                self._violations.report(sentence, detail, position)
            self._violations.report_all(self.outputs.on_stored(record))
            if record.type in ("topic-created", "topic-deleted"):
                self._on_topic(decode_cluster_event(record))
            if record.group is None or decoded is None:
                continue
            self.state.consumer_groups.on_stored(record, decoded)
            for detail in self._late_records.on_stored(record.group, record.event_number, decoded):
                self._violations.report(RECORDS_TIME_OUT, f"group {record.group}: {detail}", position)
            for sentence, detail in self.state.classic_groups.on_stored(record, decoded):
                self._violations.report(sentence, f"group {record.group}: {detail}", position)
        self._counter.on_stored(records)
        for position, record in enumerate(records, last_position - len(records) + 1):
            if record.type == "coordinator-loaded" and record.group is not None:
                self.state.expiry.on_loaded(record.group, self._now_ms())
            elif record.type == "upgrade-refused":
                self.state.refused_upgrades.add(position)
        for group_id in dict.fromkeys([each.group for each in records]):
            if group_id is not None:
                self._groups.compare(group_id)

    def _on_topic(self, event: ClusterEvent) -> None:
        match event:
            case TopicCreated():
                self.members.on_topic_created(event.name)
            case TopicDeleted():
                self.members.on_topic_deleted(event.name, self._now_ms())
                self.state.consumer_groups.on_topic_deleted(event.topic_id)

    # The end

    def finish(self, records: Iterable[Record] | None = None) -> RunVerdict:
        """Make the last checks at the end of a run, and return all violations and counts.

        If `records` has all records of the store, every group is evolved again from the first one and compared.
        """
        shadow = self.state.shadow
        for exchange in self._open_requests.overdue(shadow.position):
            self._violations.check(invariants.an_open_request_gets_its_response, exchange)
        for violation in shadow.violations_at_end():
            self._violations.report(violation.sentence, f"group {violation.group}", violation.position)
        for group in self._groups.compare_at_end():
            for detail in self.state.timeouts.overdue(group, self._now_ms()):
                self._violations.report(invariant_sentence(invariants.no_deadline_is_missed), detail)
            for detail in self.state.expiry.overdue(group, self._now_ms()):
                self._violations.report(CHECKS_KEEP_THEIR_INTERVAL, detail)
            for detail in self._late_records.overdue(group, self._now_ms()):
                self._violations.report(RECORDS_TIME_OUT, f"group {group.group_id}: {detail}")
        for group_id in self.state.consumer_groups.group_ids:
            self._violations.report_all(self.state.consumer_groups.proceed(group_id))
            self._groups.compare_consumer_fold(group_id)
        if records is not None:
            self._groups.compare_full_replay(records)
        self._violations.report_all(self.transactions.still_open(shadow.groups))
        self._violations.report_all(self._prepared.unfinished(self._now_ms()))
        self._violations.report_all(self._transaction_ends.overdue(self._now_ms()))
        skipped = self.members.check_records_at_end()
        return replace(self.verdict(), records_skipped=skipped)

    def verdict(self) -> RunVerdict:
        """The violations and counts up to now, without the checks of the end."""
        counts = self._counter.counts(self.members.ledgers.values(), self.members.unowned_s(self._now_ms()))
        return RunVerdict(tuple(self._violations.found), counts, 0, dict(self.members.unowned_partitions))
