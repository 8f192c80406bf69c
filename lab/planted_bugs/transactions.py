"""Bugs of transactions: their outcome after a restart, who may change them, their timeouts, and the records in them."""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from regroup.coordinator.classic.offset_rules import ClassicOffsetRules
from regroup.coordinator.commands import RequestedOffset, TxnOffsetCommit
from regroup.coordinator.events import TransactionEnded
from regroup.coordinator.group import Group
from regroup.coordinator.layered_mapping import without
from regroup.coordinator.offsets import evolve_offsets
from regroup.lab.planted_bugs.bug import BugContext, patch_attribute, patch_evolver, planted_bug
from regroup.members.runtime.fetcher import AbortedProducers
from regroup.protocol.errors import ErrorCode
from regroup.protocol.record_batch import read_batch_header
from regroup.server.cluster.transaction_coordinator import ProducerIdentity, TransactionCoordinator
from regroup.server.cluster.transactions import Transaction, TransactionState
from regroup.server.log.partition_log import PartitionLog
from regroup.server.log.producer_state import AbortedSpan, ProducerStates

# -- outcomes


@planted_bug
def prepared_transaction_is_forgotten() -> BugContext:
    """A transaction whose outcome is stored stays open if its coordinator dies before it has ended it."""
    return starting_with(lambda prepared: None)


@planted_bug
def prepared_commit_is_aborted_by_a_restart() -> BugContext:
    """A coordinator that starts again aborts each transaction that has not ended, also if its commit is stored."""
    return starting_with(lambda prepared: replace(prepared, state=TransactionState.PREPARE_ABORT))


@planted_bug
def prepared_transaction_loses_its_offsets() -> BugContext:
    """A coordinator that starts again completes each transaction whose outcome is stored, and not in its groups."""
    return starting_with(lambda prepared: replace(prepared, partitions={}))


def starting_with(change: Callable[[Transaction], Transaction | None]) -> BugContext:
    """Make the context of a bug: a transaction coordinator that starts finds each prepared transaction changed.

    `change` returns it as it is found; None if it is not found any more.
    """
    start, find = TransactionCoordinator.start, TransactionCoordinator._find

    def find_changed(transactions: TransactionCoordinator, transactional_id: str) -> Transaction | None:
        found = find(transactions, transactional_id)
        return change(found) if found is not None and found.is_prepared else found

    def start_with_changed(transactions: TransactionCoordinator) -> None:
        with patch_attribute(TransactionCoordinator, "_find", find_changed):
            start(transactions)

    return patch_attribute(TransactionCoordinator, "start", start_with_changed)


# -- epochs of producers


@planted_bug
def any_epoch_adds_to_a_transaction() -> BugContext:
    """A producer that was fenced adds partitions and groups to the transaction of the newer one."""
    return with_present_epoch("add_partitions")


@planted_bug
def any_epoch_writes_in_a_transaction() -> BugContext:
    """A producer that was fenced writes offsets in the transaction of the newer one."""
    return with_present_epoch("write_checker")


@planted_bug
def any_epoch_ends_a_transaction() -> BugContext:
    """A producer that was fenced ends the transaction of the newer one."""
    return with_present_epoch("end_transaction")


def with_present_epoch(method: str) -> BugContext:
    """Make the context of a bug: this method of a transaction coordinator takes any epoch of a producer for its present
    one."""
    call = getattr(TransactionCoordinator, method)

    def call_with_present(
        transactions: TransactionCoordinator, producer: ProducerIdentity, *arguments: Any, **options: Any
    ) -> Any:
        found = transactions._find(producer.transactional_id)
        if found is not None and found.producer_id == producer.producer_id:
            producer = producer._replace(epoch=found.epoch)
        return call(transactions, producer, *arguments, **options)

    return patch_attribute(TransactionCoordinator, method, call_with_present)


# -- timeouts


@planted_bug
def transaction_times_out_early() -> BugContext:
    """A transaction is aborted after a twentieth of its timeout."""
    deadline = property(lambda transaction: transaction.started_at_ms + transaction.timeout_ms // 20)
    return patch_attribute(Transaction, "deadline_ms", deadline)


@planted_bug
def transaction_never_times_out() -> BugContext:
    """A transaction stays open as long as neither its producer nor a newer one ends it."""
    return patch_attribute(TransactionCoordinator, "_check_timeout", lambda transactions, transactional_id: None)


# -- records in transactions


@planted_bug
def reader_takes_aborted_records() -> BugContext:
    """A read-committed member takes every record that a broker sends it, also those of aborted transactions."""
    return patch_attribute(AbortedProducers, "leaves_out", lambda producers, batch: False)


@planted_bug
def reader_leaves_out_what_follows_an_abort() -> BugContext:
    """A read-committed member leaves out all later records of a producer that has aborted a transaction."""

    def leaves_out(producers: AbortedProducers, batch: bytes) -> bool:
        header = read_batch_header(batch)
        while producers._ahead and producers._ahead[-1].first_offset <= header.last_offset:
            producers._producer_ids.add(producers._ahead.pop().producer_id)
        return header.producer_id in producers._producer_ids

    return patch_attribute(AbortedProducers, "leaves_out", leaves_out)


@planted_bug
def fetch_names_no_aborted_transaction() -> BugContext:
    """A Fetch response to a read-committed member does not name the aborted transactions among its records."""

    def aborted_transactions(states: ProducerStates, start: int, stop: int) -> list[AbortedSpan]:
        return []

    return patch_attribute(ProducerStates, "aborted_transactions", aborted_transactions)


@planted_bug
def fetch_reads_open_transactions() -> BugContext:
    """A read-committed member gets the records of transactions that are still open."""

    def readable_end(log: PartitionLog, *, read_committed: bool) -> int:
        return log.high_watermark

    return patch_attribute(PartitionLog, "readable_end", readable_end)


@planted_bug
def offsets_are_fetched_before_a_transaction_ends() -> BugContext:
    """OffsetFetch returns the offset before an open transaction, also to a member that asks for stable ones."""
    return patch_attribute(Group, "has_pending_transactional_offset", lambda group, topic, partition: False)


@planted_bug
def former_owner_commits_in_a_transaction() -> BugContext:
    """TxnOffsetCommit is accepted with any member id and generation."""

    def refuse(
        rules: ClassicOffsetRules, group: Group, command: TxnOffsetCommit, accepted: Sequence[RequestedOffset]
    ) -> ErrorCode | None:
        return None

    return patch_attribute(ClassicOffsetRules, "refuse_transactional_commit", refuse)


@planted_bug
def older_transaction_wins() -> BugContext:
    """When a transaction commits, older offsets of other open transactions are not lost to its own."""

    def ended(group: Group, event: TransactionEnded) -> Group:
        others = without(group.pending_transactional_offsets, event.producer_id)
        return replace(evolve_offsets.transaction_ended(group, event), pending_transactional_offsets=others)

    return patch_evolver(TransactionEnded, ended)
