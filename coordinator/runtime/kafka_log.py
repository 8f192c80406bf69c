"""The emulated Kafka log `__consumer_offsets`: whether and when it commits the coordinator's records. Usually it does
so at once.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeAlias

from regroup.coordinator.commands import Command
from regroup.protocol.errors import ErrorCode

CompleteRecord: TypeAlias = Callable[[ErrorCode], None]
"""Completes one record of the log: with NONE the record is committed, with an error code it is lost."""


class KafkaLog(Protocol):
    """The emulated Kafka log, which may be slow or lose records. It completes records in the order in which they were
    written."""

    def delays(self, command: Command) -> bool:
        """Whether the log delays the records of this command. If it does, later records of the group are delayed too,
        to keep their order."""

    def append(self, group_id: str, complete: CompleteRecord) -> None:
        """Accept a delayed record of the group. Once the record is committed or lost, the log must call `complete`
        once, with the error code."""


class DelayedLog:
    """A log that completes each record after `latency_ms`. If that is None, records are completed only when
    `complete_next` is called.

    Each record is completed with the value that `outcome` has at that time.
    """

    def __init__(self, *, latency_ms: int | None = None, outcome: ErrorCode = ErrorCode.NONE) -> None:
        self.latency_ms = latency_ms
        self.outcome = outcome
        self.is_delaying = True
        """Whether new records are delayed; otherwise they are committed at once."""
        self._records: list[CompleteRecord] = []

    def delays(self, command: Command) -> bool:
        return self.is_delaying

    def append(self, group_id: str, complete: CompleteRecord) -> None:
        self._records.append(complete)
        if self.latency_ms is not None:
            asyncio.get_running_loop().call_later(self.latency_ms / 1000, self.complete_next)

    def complete_next(self) -> None:
        """Complete the oldest record, if there is one."""
        if self._records:
            self._records.pop(0)(self.outcome)

    def complete_all(self) -> None:
        """Complete every record that was written until now, in order."""
        for _ in range(len(self._records)):
            self.complete_next()
