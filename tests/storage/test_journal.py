"""The journal: order, batches, callbacks, failures."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from regroup.lab.simulation.virtual_clock import VirtualLoop, run_in_virtual_time
from regroup.storage.errors import EventNumberConflict, StoreError, StoreFailed, StoreFull
from regroup.storage.journal import CHECKPOINT_INTERVAL_RECORDS, MAX_COMMITS_WITHOUT_CHECKPOINT, Journal
from regroup.storage.memory import MemoryStore
from regroup.storage.records import NewRecord
from regroup.storage.sqlite.inline import open_inline_store
from regroup.storage.sqlite.store import SqliteStore
from regroup.storage.sqlite.threaded import open_store


def record(group: str, event_number: int) -> NewRecord:
    return NewRecord(group, event_number, 1, 0, "member-joined", 1, b"{}", None)


class WatchedStore(MemoryStore):
    """Records the size of each commit, waits at a gate before each, and can be full."""

    has_checkpoints = True

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[int] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.is_full = False
        self.error: Exception | None = None
        self.checkpoints: list[int] = []

    async def checkpoint(self) -> None:
        self.checkpoints.append(self.last_position)

    async def append(self, records: Sequence[NewRecord]) -> int:
        self.batches.append(len(records))
        await self.gate.wait()
        if self.is_full:
            raise StoreFull("no space")
        if self.error is not None:
            raise self.error
        return await super().append(records)


class Callbacks:
    """Records which positions of a journal became durable or were lost, and its failures."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.durable: list[int] = []
        self.lost: list[int] = []
        self.failures: list[StoreError] = []
        journal.on_failure(self.failures.append)

    def append(self, records: Sequence[NewRecord]) -> int:
        position = self.journal.append(records)
        self.journal.when_durable(position, lambda: self.durable.append(position), lambda: self.lost.append(position))
        return position


async def let_others_run(turns: int = 5) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)


async def test_records_appended_during_a_commit_are_committed_together() -> None:
    store = WatchedStore()
    journal = Journal(store)
    callbacks = Callbacks(journal)
    store.gate.clear()
    assert callbacks.append([record("a", 1)]) == 1
    await let_others_run()
    assert callbacks.append([record("b", 1), record("b", 2)]) == 3
    assert callbacks.append([record("a", 2)]) == 4
    assert (journal.durable_position, journal.last_position) == (0, 4)
    assert callbacks.durable == []
    store.gate.set()
    await journal.close()
    assert store.batches == [1, 3]
    assert callbacks.durable == [1, 3, 4]
    stored = [(r.group, r.event_number) async for r in store.read()]
    assert stored == [("a", 1), ("b", 1), ("b", 2), ("a", 2)]


async def test_a_batch_is_never_larger_than_its_limit() -> None:
    store = WatchedStore()
    journal = Journal(store, max_batch_records=2)
    callbacks = Callbacks(journal)
    for number in range(1, 6):
        callbacks.append([record("a", number)])
    await journal.close()
    assert store.batches == [2, 2, 1]
    assert callbacks.durable == [1, 2, 3, 4, 5]


async def test_other_tasks_run_between_two_commits() -> None:
    journal = Journal(MemoryStore(), max_batch_records=1)
    journal.append([record("a", number) for number in range(1, 101)])
    await let_others_run(10)
    assert 0 < journal.durable_position < 100
    await journal.close()
    assert journal.durable_position == 100


async def test_callbacks_are_called_in_the_order_of_positions_and_then_of_calls() -> None:
    journal = Journal(MemoryStore())
    journal.append([record("a", 1)])
    journal.append([record("a", 2)])
    called: list[str] = []
    for position, name in ((2, "second"), (1, "first"), (2, "third")):
        journal.when_durable(position, lambda name=name: called.append(name), lambda: called.append("lost"))  # type: ignore[misc]
    await journal.wait_until_durable(2)
    assert called == ["first", "second", "third"]
    journal.when_durable(2, lambda: called.append("at once"), lambda: called.append("lost"))
    assert called[3:] == ["at once"]


async def test_a_failed_append_loses_what_is_not_durable_and_is_reported_once() -> None:
    store = WatchedStore()
    journal = Journal(store)
    callbacks = Callbacks(journal)
    callbacks.append([record("a", 1)])
    await let_others_run()
    store.is_full = True
    store.gate.clear()
    callbacks.append([record("a", 2)])
    await let_others_run()
    callbacks.append([record("a", 3)])
    store.gate.set()
    await let_others_run()
    assert [type(failure) for failure in callbacks.failures] == [StoreFull]
    assert (callbacks.durable, callbacks.lost) == ([1], [2, 3])
    assert (journal.durable_position, journal.last_position) == (1, 1)
    with pytest.raises(StoreFull):
        journal.append([record("a", 2)])
    with pytest.raises(StoreFull):
        await journal.wait_until_durable(2)


async def test_a_reopened_journal_continues_after_the_last_durable_record() -> None:
    store = WatchedStore()
    journal = Journal(store)
    callbacks = Callbacks(journal)
    callbacks.append([record("a", 7)])
    await let_others_run()
    assert [type(failure) for failure in callbacks.failures] == [EventNumberConflict]
    journal.reopen(store)
    assert callbacks.append([record("a", 1)]) == 1
    await journal.close()
    assert callbacks.durable == [1]
    with pytest.raises(RuntimeError, match="has not failed"):
        journal.reopen(store)


async def test_a_journal_can_be_reopened_by_a_failure_listener() -> None:
    store = WatchedStore()
    store.is_full = True
    journal = Journal(store)
    callbacks = Callbacks(journal)

    def reopen(_: StoreError) -> None:
        store.is_full = False
        journal.reopen(store)
        callbacks.append([record("a", 1)])

    journal.on_failure(reopen)
    journal.append([record("a", 1)])
    await let_others_run()
    await journal.close()
    assert callbacks.durable == [1]


async def test_a_journal_that_is_made_to_fail_loses_what_is_not_durable() -> None:
    store = WatchedStore()
    journal = Journal(store)
    callbacks = Callbacks(journal)
    store.gate.clear()
    callbacks.append([record("a", 1)])
    await let_others_run()
    for _ in range(2):
        journal.fail(StoreFull("no space"))
    assert (callbacks.lost, len(callbacks.failures)) == ([1], 1)
    await journal.close()
    assert store.last_position == 0


class ExceptionReports:
    """What is reported to the event loop's exception handler."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: self.messages.append(context["message"]))


@pytest.mark.parametrize("error", [MemoryError(), OverflowError("int too large"), RuntimeError("a defect")])
async def test_any_exception_of_the_store_fails_the_journal_and_frees_who_waits(error: Exception) -> None:
    store = WatchedStore()
    store.error = error
    reports, journal = ExceptionReports(), Journal(store)
    callbacks = Callbacks(journal)
    with pytest.raises(StoreFailed, match=type(error).__name__):
        await journal.wait_until_durable(callbacks.append([record("a", 1)]))
    assert callbacks.lost == [1]
    assert [type(failure) for failure in callbacks.failures] == [StoreFailed]
    assert reports.messages == ["The journal's writer failed"]
    store.error = None
    journal.reopen(store)
    callbacks.append([record("a", 1)])
    await journal.close()
    assert callbacks.durable == [1]


async def test_a_callback_that_raises_keeps_no_other_from_being_called() -> None:
    store = WatchedStore()
    store.is_full = True
    reports, journal = ExceptionReports(), Journal(store)

    def fail(*_: object) -> None:
        raise RuntimeError("a defect")

    journal.on_failure(fail)
    callbacks = Callbacks(journal)
    journal.when_durable(journal.append([record("a", 1)]), fail, fail)
    callbacks.append([record("a", 2)])
    await journal.close()
    assert callbacks.lost == [2]
    assert len(callbacks.failures) == 1
    assert reports.messages == ["A callback of the journal failed"] * 2


async def test_a_durable_callback_that_raises_fails_the_journal() -> None:
    reports, journal = ExceptionReports(), Journal(MemoryStore())
    callbacks = Callbacks(journal)

    def fail() -> None:
        raise RuntimeError("a defect")

    journal.when_durable(journal.append([record("a", 1)]), fail, fail)
    callbacks.append([record("a", 2)])
    await let_others_run()
    assert callbacks.lost == [2]
    assert reports.messages == ["The journal's writer failed"]
    await journal.close()


async def test_a_closed_journal_refuses_records() -> None:
    journal = Journal(MemoryStore())
    await journal.close()
    with pytest.raises(RuntimeError, match="make a new one"):
        journal.append([record("a", 1)])


async def test_a_checkpoint_is_made_when_no_record_is_pending() -> None:
    store = WatchedStore()
    journal = Journal(store, max_batch_records=CHECKPOINT_INTERVAL_RECORDS // 2)
    journal.append([record("a", number) for number in range(1, 3 * CHECKPOINT_INTERVAL_RECORDS + 1)])
    await let_others_run(20)
    journal.append([record("b", 1)])
    await journal.close()
    assert store.checkpoints == [3 * CHECKPOINT_INTERVAL_RECORDS]


async def test_a_busy_journal_makes_a_checkpoint_after_some_thousand_commits() -> None:
    store = WatchedStore()
    journal = Journal(store, max_batch_records=1)
    journal.append([record("a", number) for number in range(1, MAX_COMMITS_WITHOUT_CHECKPOINT + 11)])
    await journal.close()
    assert store.checkpoints == [MAX_COMMITS_WITHOUT_CHECKPOINT]


async def test_the_checkpoint_of_a_store_that_has_none_is_never_called() -> None:
    store = WatchedStore()
    store.has_checkpoints = False
    journal = Journal(store)
    journal.append([record("a", number) for number in range(1, CHECKPOINT_INTERVAL_RECORDS + 2)])
    await let_others_run(20)
    await journal.close()
    assert len(store.batches) > 1
    assert store.checkpoints == []


def test_a_checkpoint_is_made_in_an_idle_second_and_only_one() -> None:
    async def scenario() -> None:
        store = WatchedStore()
        journal = Journal(store)
        for number in range(1, 6):
            journal.append([record("a", number)])
            await asyncio.sleep(0.4)
        assert store.checkpoints == []
        await asyncio.sleep(2.5)
        assert store.checkpoints == [5]
        await asyncio.sleep(100)
        assert store.checkpoints == [5]
        journal.append([record("a", 6)])
        await asyncio.sleep(2.5)
        assert store.checkpoints == [5, 6]
        await journal.close()

    run_in_virtual_time(scenario(), VirtualLoop())


@pytest.mark.parametrize("opener", [open_store, open_inline_store])
async def test_durable_records_are_in_the_file(
    tmp_path: Path, opener: Callable[[Path], Awaitable[SqliteStore]]
) -> None:
    async with await opener(tmp_path / "store") as store:
        journal = Journal(store)
        callbacks = Callbacks(journal)
        for number in range(1, 200):
            callbacks.append([record(group, number) for group in "abc"])
            await asyncio.sleep(0)
        await journal.close()
        assert journal.durable_position == callbacks.durable[-1] == 597
    async with await opener(tmp_path / "store") as store:
        assert [r.event_number async for r in store.read(group="b")] == list(range(1, 200))
