"""Waits for a change without polling; and the error of a wait that took too long."""

from collections.abc import Callable
from typing import TypeVar

from regroup.testing.clock.manual_clock import call_after_real_time
from regroup.testing.groups.changes import Changes
from regroup.testing.groups.views import GroupView

Result = TypeVar("Result")


class WaitTimeout(TimeoutError):
    """A group did not reach what a test waited for. The message has the group's last events and requests."""

    def __init__(self, text: str, group: GroupView) -> None:
        super().__init__(text)
        self.group = group
        """The group at the end of the wait."""


async def wait_for_change(changes: Changes, check: Callable[[], Result | None], timeout_s: float) -> Result | None:
    """Call `check` now and after every change, and return its first result that is not None; None if the time is over.

    `timeout_s` is in real time, even if the clock of the emulator is turned by hand.
    """
    is_late = False

    def give_up() -> None:
        nonlocal is_late
        is_late = True
        changes.notify()

    cancel = call_after_real_time(timeout_s, give_up)
    try:
        while True:
            change = changes.next_change()
            result = check()
            if result is not None or is_late:
                return result
            await change
    finally:
        cancel()
