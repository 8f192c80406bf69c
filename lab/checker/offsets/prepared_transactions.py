"""Transactions whose outcome the store has: each has to end so in all of its groups, whatever happens before it does.

    prepared = PreparedTransactions()
    prepared.on_stored(record, event, classic_groups, now_ms)     # what is wrong with a record that is durable
    prepared.on_disturbance(now_ms)                               # a coordinator has crashed, or has loaded its groups
    prepared.unfinished(now_ms)                                   # at the end of a run

A transaction coordinator stores the outcome first, and then ends the transaction in each group. If it dies in between,
the next one has to go on.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from regroup.coordinator.events import CoordinatorLoaded, Event, TransactionEnded
from regroup.lab.checker.classic.groups import ClassicGroups
from regroup.server.cluster.events import (
    ProducerInitialized,
    TransactionCompleted,
    TransactionPrepared,
    decode_cluster_event,
)
from regroup.storage.records import NewRecord

OUTCOME_IS_CARRIED_OUT: Final = (
    "A transaction whose outcome is stored ends with it in each of its groups, also if its coordinator dies before, "
    "and no transaction ends otherwise."
)
GRACE_MS: Final = 2_000
"""How long after its outcome, or after the last load of groups, a transaction may stay open, in milliseconds."""
_CLUSTER_EVENTS: Final = ("producer-initialized", "transaction-prepared", "transaction-completed")


class _Outcome(NamedTuple):
    """Whether a transaction is to be committed, and when that was stored, by the run's clock."""

    committed: bool
    stored_ms: int
    next_producer_id: int
    """The id of the producer once the transaction is complete; -1 if it keeps its id."""


class PreparedTransactions:
    """The transactions of a run whose outcome is stored and which are not complete, by transactional id."""

    def __init__(self) -> None:
        self._outcomes: dict[str, _Outcome] = {}
        self._producer_ids: dict[str, int] = {}
        self._disturbed_ms = 0

    def on_disturbance(self, now_ms: int) -> None:
        """Note that a coordinator has crashed, or has loaded a group: an open transaction gets more time."""
        self._disturbed_ms = now_ms

    def on_stored(
        self, record: NewRecord, event: Event | None, groups: ClassicGroups, now_ms: int
    ) -> Iterator[tuple[str, str]]:
        """Yield what is wrong with a stored record: a group whose transaction ends with another outcome than the stored
        one, or a completed transaction that has not ended in one of its groups.

        `event` is that of a group, None for a record of the cluster; `groups` have applied all records before this one.
        Records about anything else are in order.
        """
        if isinstance(event, CoordinatorLoaded):
            self.on_disturbance(now_ms)
        elif isinstance(event, TransactionEnded):
            yield from self._on_ended(event, record.group)
        elif record.group is None and record.type in _CLUSTER_EVENTS:
            match decode_cluster_event(record):
                case ProducerInitialized(transactional_id=name, producer_id=producer_id):
                    self._producer_ids[name] = producer_id
                case TransactionPrepared(transactional_id=name, committed=committed, next_producer_id=next_producer_id):
                    self._outcomes[name] = _Outcome(committed, now_ms, next_producer_id)
                case TransactionCompleted(transactional_id=name):
                    outcome = self._outcomes.pop(name, None)
                    for group_id in groups.with_open_transaction(self._producer_ids.get(name, -1)):
                        detail = f"the transaction of {name} is complete, and is open in group {group_id}"
                        yield OUTCOME_IS_CARRIED_OUT, detail
                    if outcome is not None and outcome.next_producer_id >= 0:
                        self._producer_ids[name] = outcome.next_producer_id

    def _on_ended(self, event: TransactionEnded, group_id: str | None) -> Iterator[tuple[str, str]]:
        name = next((name for name, each in self._producer_ids.items() if each == event.producer_id), None)
        outcome, ended = self._outcomes.get(name) if name is not None else None, _ending(event.committed)
        if outcome is None:
            whose = f"producer {event.producer_id}" if name is None else name
            detail = f"the transaction of {whose} is {ended} in group {group_id}, without an outcome"
            yield OUTCOME_IS_CARRIED_OUT, detail
        elif outcome.committed != event.committed:
            detail = f"the transaction of {name} was to be {_ending(outcome.committed)}, and is {ended}"
            yield OUTCOME_IS_CARRIED_OUT, f"{detail} in group {group_id}"

    def unfinished(self, now_ms: int) -> Iterator[tuple[str, str]]:
        """Yield each transaction that is still not complete at the end of a run, though nothing has kept it from
        that."""
        for name, outcome in self._outcomes.items():
            waited_ms = now_ms - max(outcome.stored_ms, self._disturbed_ms)
            if waited_ms > GRACE_MS:
                detail = (
                    f"the transaction of {name} was to be {_ending(outcome.committed)}, and is open for {waited_ms} ms"
                )
                yield OUTCOME_IS_CARRIED_OUT, detail


def _ending(committed: bool) -> str:
    return "committed" if committed else "aborted"
