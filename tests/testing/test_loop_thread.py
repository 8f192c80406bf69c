"""The thread with the event loop of a blocking emulator."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from regroup.testing import BlockingConnection, EmulatorDown, FaultHandle
from regroup.testing.clock.loop_thread import LoopThread, new_event_loop


def test_a_call_while_the_loop_is_stopped_is_refused() -> None:
    running = LoopThread(lambda: new_event_loop("real"))
    began, may_end = threading.Event(), threading.Event()

    async def clean_up_slowly() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            began.set()
            await asyncio.to_thread(may_end.wait, 10)

    running.start(clean_up_slowly())
    stopping = threading.Thread(target=running.stop)
    stopping.start()
    began.wait(10)
    try:
        with pytest.raises(EmulatorDown):
            running.start(asyncio.sleep(60))
    finally:
        may_end.set()
        stopping.join(10)


@pytest.mark.parametrize(
    "end",
    [
        lambda thread, ended: BlockingConnection(thread, ended, 1).close(),
        lambda thread, ended: FaultHandle(thread, ended).remove(),
    ],
    ids=["connection", "rule"],
)
def test_what_is_closed_while_the_loop_is_stopped_raises_nothing(end: Callable[[LoopThread, Any], None]) -> None:
    running = LoopThread(lambda: new_event_loop("real"))
    began = threading.Event()

    class EndedSlowly:
        async def close(self) -> None:
            began.set()
            await asyncio.sleep(60)

        remove = close

    def stop() -> None:
        began.wait(10)
        running.stop()

    stopping = threading.Thread(target=stop)
    stopping.start()
    try:
        end(running, EndedSlowly())
    finally:
        stopping.join(10)
    end(running, EndedSlowly())
