"""The interface of a coordinator's observer, which sees every command, response and revalidated heartbeat."""

from collections.abc import Callable
from typing import Protocol, TypeAlias

from regroup.coordinator.commands import Command, Heartbeat
from regroup.coordinator.runtime.pending_responses import ResponseCallback
from regroup.coordinator.serialization import Cause

Submit: TypeAlias = Callable[[Command, ResponseCallback | None, Cause | None], None]


class CoordinatorObserver(Protocol):
    """An object through which a coordinator passes every command, also its own deadlines and loads, and every response:
    it calls the observer, which calls the coordinator's own function `proceed`."""

    def submit(
        self, command: Command, on_response: ResponseCallback | None, cause: Cause | None, proceed: Submit
    ) -> None:
        """Called when a command is submitted: it must call `proceed` with the command and a callback for the
        response."""

    def revalidate_heartbeat(self, heartbeat: Heartbeat, proceed: Callable[[], bool]) -> bool:
        """Called when an accepted heartbeat is repeated: it must return what `proceed` returns, False if the heartbeat
        has to be submitted again."""
