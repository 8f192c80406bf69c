"""The interface of a coordinator's observer, which sees every command, response and revalidated heartbeat."""

from collections.abc import Callable
from typing import Protocol, TypeAlias

from regroup.coordinator.commands import Command, Heartbeat
from regroup.coordinator.runtime.pending_responses import ResponseCallback
from regroup.coordinator.serialization import Cause

Submit: TypeAlias = Callable[[Command, ResponseCallback | None, Cause | None], None]


class CoordinatorObserver(Protocol):
    """Stands between the callers of a coordinator and the coordinator, its own deadlines and loads included."""

    def submit(
        self, command: Command, on_response: ResponseCallback | None, cause: Cause | None, proceed: Submit
    ) -> None:
        """A command is submitted: call `proceed` with it, and with a callback that takes the response."""

    def revalidate_heartbeat(self, heartbeat: Heartbeat, proceed: Callable[[], bool]) -> bool:
        """A heartbeat comes once more: return what `proceed` returns, whether it is accepted without `submit`."""
