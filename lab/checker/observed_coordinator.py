"""Observes a `GroupCoordinator` from outside: its commands before they are handled, its responses before they are sent.

    observed = ObservedCoordinator(journal, settings=settings, now=clock, observer=checker)
    observed.coordinator.submit(...)

How far the store is comes from the journal, not from the coordinator: whether the coordinator waits for it is one of
the things to be checked.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from msgspec.structs import replace

from regroup.coordinator import commands as c
from regroup.coordinator.responses import heartbeat_response
from regroup.coordinator.runtime.group_coordinator import GroupCoordinator
from regroup.coordinator.runtime.observer import Submit
from regroup.coordinator.runtime.pending_responses import ResponseCallback
from regroup.coordinator.serialization import Cause
from regroup.coordinator.settings import CoordinatorSettings
from regroup.lab.checker.exchanges import ExchangeOutcome, ObservedExchange
from regroup.protocol.message import Structure
from regroup.storage.journal import Journal


class ExchangeObserver(Protocol):
    """What an ObservedCoordinator reports its exchanges to. It must not change groups."""

    def next_exchange_number(self) -> int:
        """Return the number of the exchange that begins now, counted over all coordinators of a run."""

    def on_command(self, exchange: ObservedExchange) -> None:
        """Take an exchange whose command the coordinator has handled; its response has been sent, or will be."""

    def on_response(self, exchange: ObservedExchange) -> None:
        """Take an exchange whose response is about to leave: the first response, or a further one, which is a
        violation."""


class ObservedCoordinator:
    """A coordinator, and the `CoordinatorObserver` that turns what it does into exchanges.

    `options` are further arguments of the GroupCoordinator.
    """

    def __init__(
        self,
        journal: Journal,
        *,
        settings: CoordinatorSettings,
        now: Callable[[], int],
        observer: ExchangeObserver,
        **options: Any,
    ) -> None:
        self.coordinator = GroupCoordinator(journal, settings=settings, now=now, observer=self, **options)
        self._journal = journal
        self._now = now
        self._observer = observer
        self._last_positions: dict[str, int] = {}
        """By group id, the position of the group's last record in the present coordinator epoch."""
        self._epoch_of_positions = 0
        self._current: ObservedExchange | None = None
        """The exchange whose command is being handled; None between commands."""
        self._known_position = 0
        """The journal's last position when it was last read: records after it belong to the present command."""

    # CoordinatorObserver

    def submit(
        self, command: c.Command, on_response: ResponseCallback | None, cause: Cause | None, proceed: Submit
    ) -> None:
        """Let the coordinator handle a command, and report the exchange."""
        exchange = self._begin_exchange(command, cause)
        outer = self._current
        if outer is not None:
            self._finalize(outer)
        self._current, self._known_position = exchange, self._journal.last_position
        if on_response is None:
            exchange.outcome = ExchangeOutcome.INTERNAL
            proceed(command, None, cause)
        else:
            proceed(command, partial(self._respond, exchange, on_response), cause)
        self._finalize(exchange)
        self._current = outer
        self._observer.on_command(exchange)

    def revalidate_heartbeat(self, heartbeat: c.Heartbeat, proceed: Callable[[], bool]) -> bool:
        """Report a heartbeat that the coordinator accepts like the one before, without deciding it again.

        `proceed` asks the coordinator to accept it, and returns whether it has. If not, nothing is reported and False
        returned.
        """
        exchange = self._begin_exchange(replace(heartbeat, at_ms=self._now()), None)
        if not proceed():
            return False
        self._note_response(exchange, heartbeat_response())
        self._observer.on_command(exchange)
        return True

    # Exchanges

    def _begin_exchange(self, command: c.Command, cause: Cause | None) -> ObservedExchange:
        coordinator = self.coordinator
        return ObservedExchange(
            self._observer.next_exchange_number(),
            coordinator,
            coordinator.coordinator_epoch,
            command,
            coordinator.group(command.group_id),
            coordinator.refusal,
            cause,
        )

    def _respond(self, exchange: ObservedExchange, on_response: ResponseCallback, response: Structure) -> None:
        self._note_response(exchange, response)
        on_response(response)

    def _note_response(self, exchange: ObservedExchange, response: Structure) -> None:
        exchange.response_count += 1
        if exchange.response_count == 1:
            exchange.record_response(response, self._journal.durable_position)
            if self._current is not None and self._current.group_id == exchange.group_id:
                # The response is decided at this moment, so it also rests on the records that were queued just now.
                self._finalize(self._current)
                exchange.require(self._current.after, self._current.required_position)
        self._observer.on_response(exchange)
        exchange.outcome = ExchangeOutcome.RESPONDED

    def _finalize(self, exchange: ObservedExchange) -> None:
        """Set `after` of an exchange: the group as its command has left it.

        A response may lead to the next command while this one is still being handled; the next command's effects do
        not belong to this one.
        """
        if not exchange.is_final:
            exchange.is_final = True
            exchange.after = self.coordinator.group(exchange.group_id)
            exchange.require(exchange.after, self._last_position(exchange.group_id))

    def _last_position(self, group_id: str) -> int:
        """Position of the group's last record, 0 if it has none.

        The journal counts for all groups: records that the present command has queued are attributed to its group.
        """
        if self._epoch_of_positions != self.coordinator.coordinator_epoch:
            self._last_positions.clear()
            self._epoch_of_positions = self.coordinator.coordinator_epoch
        if self._journal.last_position > self._known_position:
            self._last_positions[group_id] = self._known_position = self._journal.last_position
        return self._last_positions.get(group_id, 0)
