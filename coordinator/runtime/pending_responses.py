"""Requests whose responses are held: until another member acts, or until the emulated Kafka log completes a record."""

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from regroup.coordinator.commands import Command, JoinGroup
from regroup.coordinator.decision import CompletedAppend, Decision, ResponseKey
from regroup.coordinator.runtime.unavailable import failed_append_response
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Structure

ResponseCallback: TypeAlias = Callable[[Structure], None]
"""Takes the response to one request."""


class PendingRequest(NamedTuple):
    """A command, and the callback that takes its response."""

    command: Command
    on_response: ResponseCallback


class PendingResponses:
    """The requests of all groups that wait for other members, or for the emulated Kafka log to commit a record."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, ResponseKey], PendingRequest] = {}
        self._after_append: dict[tuple[str, int], list[tuple[PendingRequest, Structure]]] = {}

    def hold(self, decision: Decision, request: PendingRequest) -> bool:
        """Keep the request if the decision holds its response; returns whether it does. If a request of the same member
        and kind is kept already, the client has sent it again: the new request replaces it."""
        group_id = request.command.group_id
        if decision.held_under is not None:
            self._held[group_id, decision.held_under] = request
            return True
        if decision.after_append is None or decision.response is None:
            return False
        waiting = self._after_append.setdefault((group_id, decision.after_append), [])
        waiting.append((request, decision.response))
        return True

    def release(self, decision: Decision) -> Iterator[tuple[PendingRequest, Structure]]:
        """Remove the requests that the decision answers, and yield each with its response, in order."""
        group_id = decision.group.group_id
        for released in decision.released:
            held = self._held.pop((group_id, released.key), None)
            if held and released.response is not None:
                yield held, released.response
        for completed in decision.completed_appends:
            for request, response in self._after_append.pop((group_id, completed.append_number), ()):
                failed = completed.error_code is not ErrorCode.NONE
                yield request, error_response(completed, request) if failed else response

    def drain(self) -> list[PendingRequest]:
        """Remove every held request, and return all of them."""
        after_append = [request for requests in self._after_append.values() for request, _ in requests]
        drained = [*self._held.values(), *after_append]
        self._held.clear()
        self._after_append.clear()
        return drained


def error_response(completed: CompletedAppend, request: PendingRequest) -> Structure:
    if completed.join_response is not None and isinstance(request.command, JoinGroup):
        return completed.join_response
    return failed_append_response(request.command, completed.error_code)
