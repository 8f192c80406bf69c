"""Exchanges on their way to the store: written while brokers run and at the end, and left out while the store fails."""

import asyncio

import pytest
import structlog

from regroup.server.recording import recorder as recorder_module
from regroup.server.recording import writer as writer_module
from regroup.server.recording.blocks import MAX_ROWS
from regroup.server.recording.reading import read_exchanges
from regroup.server.recording.recorder import Recorder
from regroup.server.recording.writer import RecordingWriter
from regroup.storage.errors import StoreFull
from regroup.storage.memory import MemoryStore
from regroup.storage.records import NewExchangeBlock
from tests.server.recording.frames import HOST, Time, heartbeat


class FullStore(MemoryStore):
    """A store whose disk is full for a while."""

    is_full = True

    async def append_exchanges(self, block: NewExchangeBlock, *, max_bytes: int) -> None:
        if self.is_full:
            raise StoreFull("the disk is full")
        await super().append_exchanges(block, max_bytes=max_bytes)


def new_writer(recorder: Recorder, store: MemoryStore) -> RecordingWriter:
    return RecordingWriter(recorder, lambda: store, Time(), max_bytes=1_000_000)


async def stored_numbers(store: MemoryStore) -> list[int]:
    return [each.row.number for each in await read_exchanges(store)]


async def test_what_is_left_is_written_at_the_end_and_nothing_after_a_stop() -> None:
    recorder, store = Recorder(Time()), MemoryStore()
    recorder.begin("0-1@1", HOST, heartbeat())  # before the writer begins
    writer = new_writer(recorder, store)
    writer.start()
    recorder.begin("0-1@1", HOST, heartbeat())
    await writer.close()
    assert await stored_numbers(store) == [2]
    writer.start()
    recorder.begin("0-1@1", HOST, heartbeat())
    await writer.stop()
    assert await stored_numbers(store) == [2]


async def test_exchanges_are_left_out_while_the_store_fails_and_the_log_says_how_many() -> None:
    recorder, store = Recorder(Time()), FullStore()
    writer = new_writer(recorder, store)
    recorder.note_changes(wanted=True)
    with structlog.testing.capture_logs() as logged:
        for _ in range(3):
            recorder.begin("0-1@1", HOST, heartbeat())
        await writer._write()
        store.is_full = False
        recorder.begin("0-1@1", HOST, heartbeat())
        await writer._write()
    assert await stored_numbers(store) == [4]
    assert [(each["event"], each["count"], each["error"]) for each in logged] == [
        ("exchanges-not-recorded", 3, "the disk is full")
    ]


async def test_changes_that_a_slow_store_does_not_take_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "MAX_CHANGES", 5)
    recorder, store = Recorder(Time()), MemoryStore()
    writer = new_writer(recorder, store)
    recorder.note_changes(wanted=True)
    for _ in range(8):
        recorder.begin("0-1@1", HOST, heartbeat())
    with structlog.testing.capture_logs() as logged:
        await writer._write()
    assert await stored_numbers(store) == [1, 2, 3, 4, 5]
    assert [(each["count"], each["error"]) for each in logged] == [(3, "the store is too slow for them")]
    assert recorder.skipped_changes == 0


class NotifyingStore(MemoryStore):
    """A store that says when it has a block."""

    def __init__(self) -> None:
        super().__init__()
        self.has_block = asyncio.Event()

    async def append_exchanges(self, block: NewExchangeBlock, *, max_bytes: int) -> None:
        await super().append_exchanges(block, max_bytes=max_bytes)
        self.has_block.set()


async def test_the_writer_writes_by_itself() -> None:
    recorder, store = Recorder(Time()), NotifyingStore()
    writer = new_writer(recorder, store)
    writer.start()
    recorder.begin("0-1@1", HOST, heartbeat())
    await asyncio.wait_for(store.has_block.wait(), timeout=30)
    await writer.stop()
    assert await stored_numbers(store) == [1]


class HeldStore(NotifyingStore):
    """A store that takes one block, and the others when the test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on = asyncio.Event()

    async def append_exchanges(self, block: NewExchangeBlock, *, max_bytes: int) -> None:
        if self.has_block.is_set():
            await self.goes_on.wait()
        await super().append_exchanges(block, max_bytes=max_bytes)


async def test_a_close_in_the_middle_of_a_write_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "WRITE_INTERVAL_S", 0)
    count = 3 * MAX_ROWS
    recorder, store = Recorder(Time()), HeldStore()
    writer = new_writer(recorder, store)
    writer.start()
    for _ in range(count):
        recorder.begin("0-1@1", HOST, heartbeat())
    await asyncio.wait_for(store.has_block.wait(), timeout=30)
    assert await stored_numbers(store) == list(range(1, MAX_ROWS + 1))
    store.goes_on.set()
    await writer.close()
    assert await stored_numbers(store) == list(range(1, count + 1))
