"""Work in turns: a request that takes long is handled in portions, so that other connections are served in between."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import TypeAlias

from regroup.server.limits import FIRST_STEPS_WHILE_OTHERS_WAIT, STEPS_PER_TURN

Turns: TypeAlias = Iterator[int]
"""Work that can pause: an iterator that pauses where it yields, and yields the number of steps since the last pause."""


class TurnQueue:
    """Runs the long work of one event loop in portions: in each turn of the loop, at most one large portion of one
    piece of work.

    Thus other connections wait for one large portion at most, however many connections have sent long requests.
    """

    def __init__(self) -> None:
        self._waiting: deque[LongWork] = deque()
        self._is_scheduled = False

    def run(self, turns: Turns, on_error: Callable[[Exception], object]) -> "LongWork":
        """Start the work `turns`: run its first portion at once and the others in later turns of the event loop. If the
        work raises an exception, `on_error` is called with it. Returns the work, so that it can be cancelled.

        The first portion is a small one while other work waits, since many requests may be due at the same time.
        """
        work = LongWork(turns, on_error)
        self._run_portion(work, FIRST_STEPS_WHILE_OTHERS_WAIT if self._waiting else STEPS_PER_TURN)
        self._schedule()
        return work

    def _run_portion(self, work: "LongWork", max_steps: int) -> None:
        work.run_portion(max_steps)
        if not work.is_done:
            self._waiting.append(work)

    def _schedule(self) -> None:
        if self._waiting and not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._run_next)

    def _run_next(self) -> None:
        self._is_scheduled = False
        if self._waiting:
            self._run_portion(self._waiting.popleft(), STEPS_PER_TURN)
        self._schedule()


class LongWork:
    """One piece of work in a TurnQueue; what has been run of it so far may be a part."""

    def __init__(self, turns: Turns, on_error: Callable[[Exception], object]) -> None:
        self._turns = turns
        self._on_error = on_error
        self._is_cancelled = False
        self.is_done = False

    def cancel(self) -> None:
        """Stop the work, because its result is not needed any more."""
        self._is_cancelled = True

    def run_portion(self, max_steps: int) -> None:
        """Run the work until it has done at least `max_steps` more steps, or until its end."""
        steps = 0
        try:
            while steps < max_steps and not self._is_cancelled:
                steps += next(self._turns)
        except StopIteration:
            self.is_done = True
        except Exception as error:  # noqa: BLE001  # the starter of the work handles its errors
            self.is_done = True
            self._on_error(error)
        if self._is_cancelled or self.is_done:
            self.is_done, self._turns = True, iter(())  # frees what the work holds


class NextTurn:
    """Schedules one function: it runs once in the next turn of the event loop, however often `schedule` is called in
    this turn."""

    __slots__ = ("_call", "_is_scheduled", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
        self._loop, self._call = loop, call
        self._is_scheduled = False

    def schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._run)

    def _run(self) -> None:
        self._is_scheduled = False
        self._call()
