"""Requests whose answers are held back, and by what: another member, or Kafka's own log."""

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from regroup.coordinator.commands import Command, JoinGroup
from regroup.coordinator.decision import Decision, Place, Settled
from regroup.coordinator.unavailable import refused_by_the_log
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Structure

Answering: TypeAlias = Callable[[Structure], None]
"""Takes the answer to one request."""


class Request(NamedTuple):
    """A command, and whoever wants to know what comes of it."""

    command: Command
    answering: Answering


class WaitingRoom:
    """Every request of every group that has no answer yet."""

    def __init__(self) -> None:
        self._parked: dict[tuple[str, Place], Request] = {}
        self._behind: dict[tuple[str, int], list[tuple[Request, Structure]]] = {}

    def keeps(self, decision: Decision, request: Request) -> bool:
        """Whether the request has to wait. A resent one takes the place of the one before it."""
        name = request.command.group_id
        if decision.parked is not None:
            self._parked[name, decision.parked] = request
            return True
        if decision.behind is not None and decision.answer is not None:
            self._behind.setdefault((name, decision.behind), []).append((request, decision.answer))
            return True
        return False

    def released_by(self, decision: Decision) -> Iterator[tuple[Request, Structure]]:
        """Those whose wait is over, in order, each with its answer."""
        name = decision.group.name
        for reply in decision.replies:
            parked = self._parked.pop((name, reply.place), None)
            if parked and reply.message is not None:
                yield parked, reply.message
        for settled in decision.settled:
            for request, message in self._behind.pop((name, settled.append), ()):
                yield request, message if settled.code is ErrorCode.NONE else refusal(settled, request)

    def empty(self) -> list[Request]:
        """Everybody, to be sent away."""
        behind = [request for requests in self._behind.values() for request, _ in requests]
        everybody = [*self._parked.values(), *behind]
        self._parked.clear()
        self._behind.clear()
        return everybody


def refusal(settled: Settled, request: Request) -> Structure:
    if settled.to_the_joiner is not None and isinstance(request.command, JoinGroup):
        return settled.to_the_joiner
    return refused_by_the_log(request.command, settled.code)
