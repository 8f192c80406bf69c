"""A coordinator that is watched: the very `GroupCoordinator`, with somebody looking over its shoulder.

    make = partial(WitnessedCoordinator, witness=judge)        # called as GroupCoordinator is
    coordinator = make(journal, settings=settings, now=clock)

The witness sees each request before the coordinator does, and each answer before the client does. It asks the journal
how far the disk is, and takes no word of the coordinator's for it: that is among the things it judges.
"""

from collections.abc import Callable
from functools import partial
from typing import Protocol

from msgspec.structs import replace

from regroup.coordinator import commands as c
from regroup.coordinator.responses import beat
from regroup.coordinator.runtime.awaitable import Because
from regroup.coordinator.runtime.group_coordinator import GroupCoordinator
from regroup.coordinator.runtime.kafka_log import KafkaLog
from regroup.coordinator.runtime.pending_responses import Answering
from regroup.coordinator.settings import Settings
from regroup.lab.checker.exchanges import Exchange, Outcome
from regroup.protocol.message import Structure
from regroup.storage.journal import Journal


class Witness(Protocol):
    """Is told of every exchange. What it does must not touch the groups."""

    def next_number(self) -> int:
        """Exchanges of all coordinators of a run are numbered in the order in which they began."""

    def dealt_with(self, exchange: Exchange) -> None:
        """The coordinator has looked at the command; the answer has come, or is yet to come."""

    def answered(self, exchange: Exchange) -> None:
        """An answer leaves now, the first or a further one."""


class WitnessedCoordinator(GroupCoordinator):
    """Behaves as a GroupCoordinator does, and hands every exchange to the witness."""

    def __init__(
        self,
        journal: Journal,
        *,
        settings: Settings,
        now: Callable[[], int],
        kafka_log: KafkaLog | None = None,
        owns: Callable[[str], bool] = lambda name: True,
        witness: Witness,
    ) -> None:
        super().__init__(journal, settings=settings, now=now, kafka_log=kafka_log, owns=owns)
        self._witness = witness
        self._written: dict[str, int] = {}
        self._written_in_reign = 0
        self._at_work: Exchange | None = None
        self._mark = 0

    @property
    def reign(self) -> int:
        return self._reign

    @property
    def journal(self) -> Journal:
        return self._journal

    def submit(self, command: c.Command, answering: Answering | None = None, cause: Because | None = None) -> None:
        exchange = self._exchange(command, cause)
        outer = self._at_work
        if outer is not None:
            self._seal(outer)
        self._at_work, self._mark = exchange, self._journal.last_position
        if answering is None:
            exchange.outcome = Outcome.UNHEARD
            super().submit(command, None, cause)
        else:
            super().submit(command, partial(self._answers, exchange, answering), cause)
        self._seal(exchange)
        self._at_work = outer
        self._witness.dealt_with(exchange)

    def repeats(self, heartbeat: c.Heartbeat) -> Callable[[], bool]:
        again = super().repeats(heartbeat)

        def seen() -> bool:
            exchange = self._exchange(replace(heartbeat, at_ms=self._now()), None)
            if not again():
                return False
            self._note(exchange, beat())
            self._witness.dealt_with(exchange)
            return True

        return seen

    def _exchange(self, command: c.Command, cause: Because | None) -> Exchange:
        before = self.group(command.group_id)
        return Exchange(self._witness.next_number(), self, self._reign, command, before, self.refusal, cause)

    def _answers(self, exchange: Exchange, answering: Answering, message: Structure) -> None:
        self._note(exchange, message)
        answering(message)

    def _note(self, exchange: Exchange, message: Structure) -> None:
        exchange.answers += 1
        if exchange.answers == 1:
            exchange.take(message, self._now(), self._journal.durable_position)
            if self._at_work is not None and self._at_work.group_id == exchange.group_id:
                # It is decided at this moment: what was queued just now counts too.
                self._seal(self._at_work)
                exchange.rests_on(self._at_work.after, self._at_work.position)
        self._witness.answered(exchange)
        exchange.outcome = Outcome.ANSWERED

    def _seal(self, exchange: Exchange) -> None:
        """Note where a command has left its group. An answer may lead to the next command while this one is at work,
        and what comes then is not its doing."""
        if not exchange.is_sealed:
            exchange.is_sealed = True
            exchange.after = self.group(exchange.group_id)
            exchange.rests_on(exchange.after, self._last_position(exchange.group_id))

    def _last_position(self, name: str) -> int:
        """Of the group's last record, as the journal counts: what a command queued is its group's."""
        if self._written_in_reign != self._reign:
            self._written.clear()
            self._written_in_reign = self._reign
        if self._journal.last_position > self._mark:
            self._written[name] = self._mark = self._journal.last_position
        return self._written.get(name, 0)
