"""A signal for every change of an emulator, so that a test can wait without polling."""

import asyncio
from collections.abc import Callable

from regroup.coordinator.commands import Command, Heartbeat
from regroup.coordinator.runtime.observer import Submit
from regroup.coordinator.runtime.pending_responses import ResponseCallback
from regroup.coordinator.serialization import Cause


class Changes:
    """An observer of coordinators: with each change it completes the futures that `next_change` has returned."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []

    def next_change(self) -> asyncio.Future[None]:
        """A future that is done with the next change of any group, topic or broker."""
        change: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(change)
        return change

    def notify(self) -> None:
        """Complete every future that `next_change` has returned, since something has changed."""
        waiting, self._waiting = self._waiting, []
        for change in waiting:
            if not change.done():
                change.set_result(None)

    # The interface of CoordinatorObserver

    def submit(
        self, command: Command, on_response: ResponseCallback | None, cause: Cause | None, proceed: Submit
    ) -> None:
        proceed(command, on_response, cause)
        self.notify()

    def revalidate_heartbeat(self, heartbeat: Heartbeat, proceed: Callable[[], bool]) -> bool:
        return proceed()
