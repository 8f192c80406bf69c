"""Runs an event loop in a thread of its own, for callers that block."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, Final, TypeVar

from regroup.testing.clock.manual_clock import ManualClockLoop
from regroup.testing.errors import EmulatorDown
from regroup.testing.options import ClockKind

Result = TypeVar("Result")

TURNS_TO_CLOSE: Final = 5
"""How many turns of the loop it takes to make, abort and close a connection that was accepted just before."""


def new_event_loop(clock: ClockKind) -> asyncio.AbstractEventLoop:
    """A new event loop, in real time or with a clock that is turned by hand."""
    return ManualClockLoop() if clock == "manual" else asyncio.new_event_loop()


class LoopThread:
    """A thread with an event loop, which runs coroutines until `stop`."""

    def __init__(self, new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
        self._loop = new_loop()
        self._is_stopping = False
        """Whether `stop` was called: no coroutine is taken any more."""
        # Without it a coroutine could be submitted behind the one that cancels all others, and never end.
        self._submitting = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="regroup-emulator", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def start(self, coroutine: Coroutine[Any, Any, Result]) -> Future[Result]:
        """Run the coroutine in the thread, and return a future that gets its result. Raises EmulatorDown once `stop`
        was called."""
        return self._start(coroutine)

    def _start_last(self, coroutine: Coroutine[Any, Any, Result]) -> Future[Result]:
        """Run the coroutine as `start` does, and let every later `start` raise EmulatorDown."""
        return self._start(coroutine, is_last=True)

    def _start(self, coroutine: Coroutine[Any, Any, Result], *, is_last: bool = False) -> Future[Result]:
        with self._submitting:
            if not self._is_stopping:
                self._is_stopping = is_last
                return asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        coroutine.close()
        raise EmulatorDown("the emulator was closed")

    def run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Run the coroutine in the thread, and wait for its result. It is cancelled if the wait is interrupted, as by
        Ctrl-C."""
        return self._result_of(coroutine, self.start)

    def _result_of(
        self,
        coroutine: Coroutine[Any, Any, Result],
        start: Callable[[Coroutine[Any, Any, Result]], Future[Result]],
    ) -> Result:
        if threading.current_thread() is self._thread:
            coroutine.close()
            raise RuntimeError("a condition of a wait cannot call the emulator; use the GroupView that it is given")
        future = start(coroutine)
        try:
            return future.result()
        except CancelledError:
            raise EmulatorDown("the emulator was closed meanwhile") from None
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        """Cancel the coroutines that still run, and end the thread."""
        self._result_of(self._cancel_tasks(), self._start_last)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _cancel_tasks(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for _ in range(TURNS_TO_CLOSE):
            await asyncio.sleep(0)
        await self._loop.shutdown_asyncgens()
        await self._loop.shutdown_default_executor()
