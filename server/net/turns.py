"""Work in turns: a request that takes long is handled in portions, and other connections are served in between."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import TypeAlias

from regroup.server.limits import STEPS_PER_TURN

Turns: TypeAlias = Iterator[int]
"""Work that may pause wherever it yields. It yields the number of steps since the last pause."""


class TurnQueue:
    """All work in progress of one event loop: at most one portion of it runs in each turn of the loop.

    So however many connections send long requests, the others wait for one portion only.
    """

    def __init__(self) -> None:
        self._waiting: deque[LongWork] = deque()
        self._is_scheduled = False

    def run(self, turns: Turns, on_error: Callable[[Exception], object]) -> "LongWork":
        """Run the first portion at once, and the others in later turns. `on_error` gets what the work raises."""
        work = LongWork(turns, on_error)
        self._run_portion(work)
        self._schedule()
        return work

    def _run_portion(self, work: "LongWork") -> None:
        work.run_portion()
        if not work.is_done:
            self._waiting.append(work)

    def _schedule(self) -> None:
        if self._waiting and not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._run_next)

    def _run_next(self) -> None:
        self._is_scheduled = False
        if self._waiting:
            self._run_portion(self._waiting.popleft())
        self._schedule()


class LongWork:
    """One piece of work, of which the first portions are done."""

    def __init__(self, turns: Turns, on_error: Callable[[Exception], object]) -> None:
        self._turns = turns
        self._on_error = on_error
        self._is_cancelled = False
        self.is_done = False

    def cancel(self) -> None:
        """Stop the work, because its result is not needed any more."""
        self._is_cancelled = True

    def run_portion(self) -> None:
        """Run for STEPS_PER_TURN, or to the end."""
        steps = 0
        try:
            while steps < STEPS_PER_TURN and not self._is_cancelled:
                steps += next(self._turns)
        except StopIteration:
            self.is_done = True
        except Exception as error:  # noqa: BLE001  # the starter of the work handles its errors
            self.is_done = True
            self._on_error(error)
        if self._is_cancelled or self.is_done:
            self.is_done, self._turns = True, iter(())  # frees what the work holds
