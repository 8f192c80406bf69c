"""Bugs of transaction coordinators: what they do with a transaction whose outcome is stored when they start again."""

from collections.abc import Callable

from msgspec.structs import replace

from regroup.lab.planted_bugs.bug import BugContext, patch_attribute, planted_bug
from regroup.server.cluster.transaction_coordinator import TransactionCoordinator
from regroup.server.cluster.transactions import Transaction, TransactionState


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
