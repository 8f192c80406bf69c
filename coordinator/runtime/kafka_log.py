"""How Kafka's own log, `__consumer_offsets`, takes what the coordinator writes to it. Usually at once."""

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeAlias

from regroup.coordinator.commands import Command
from regroup.protocol.errors import ErrorCode

Settle: TypeAlias = Callable[[ErrorCode], None]
"""Says what becomes of one record: NONE commits it, an error of Kafka's log loses it."""


class KafkaLog(Protocol):
    """A log that is slow, or fails. It settles records in the order in which they were written."""

    def holds_back(self, command: Command) -> bool:
        """Shall what this command writes wait? Whatever follows in its group waits too, until the log has caught up."""
        ...

    def written(self, group: str, settle: Settle) -> None:
        """A record waits now; `settle` is to be called once, later."""
        ...


class SlowLog:
    """Settles each record after so long; without a latency only when it is told to.

    What is in the log when its `outcome` changes is settled with the new one.
    """

    def __init__(self, *, latency_ms: int | None = None, outcome: ErrorCode = ErrorCode.NONE) -> None:
        self.latency_ms = latency_ms
        self.outcome = outcome
        self.is_slow = True
        """Whether new records are held back."""
        self._waiting: list[Settle] = []

    def holds_back(self, command: Command) -> bool:
        return self.is_slow

    def written(self, group: str, settle: Settle) -> None:
        self._waiting.append(settle)
        if self.latency_ms is not None:
            asyncio.get_running_loop().call_later(self.latency_ms / 1000, self.settle_next)

    def settle_next(self) -> None:
        """Settle the oldest record that waits, if any."""
        if self._waiting:
            self._waiting.pop(0)(self.outcome)

    def settle_all(self) -> None:
        """Settle everything that waits by now."""
        for _ in range(len(self._waiting)):
            self.settle_next()
