"""The thread with the event loop of a blocking emulator."""

import asyncio
import threading

import pytest

from regroup.testing import EmulatorDown
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
