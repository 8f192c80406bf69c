"""Random operations in random order: memory and SQLite give the same results, also after closing and reopening.

Both are compared with a simpler model, too: a list of all records that were ever appended.
"""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from unittest.mock import patch

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from regroup.storage.errors import StoreError
from regroup.storage.memory import MemoryStore
from regroup.storage.records import ExchangeBlock, NewExchangeBlock, NewRecord, Record, Snapshot
from regroup.storage.sqlite.inline import open_inline_store
from regroup.storage.store import ANY_GROUP, AnyGroup, EventStore

GROUPS = st.sampled_from([None, "", "a", "é", "b\0c"])
POSITIONS = st.integers(min_value=0, max_value=25)

Result = tuple[str, object]


async def result_of(operation: Awaitable[object]) -> Result:
    """The returned value, or the error's class and text."""
    try:
        return "returned", await operation
    except (StoreError, ValueError) as error:
        return type(error).__name__, str(error)


class StoreComparison(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name, "store")
        self.memory = MemoryStore()
        self.file: EventStore = self.loop.run_until_complete(open_inline_store(self.path))
        self.appended: list[NewRecord] = []
        self.blocks: list[NewExchangeBlock] = []
        self.event_numbers: dict[str | None, int] = {}

    def both(self, operation: Callable[[EventStore], Awaitable[object]]) -> Result:
        of_memory, of_file = (
            self.loop.run_until_complete(result_of(operation(store))) for store in (self.memory, self.file)
        )
        assert of_memory == of_file
        return of_memory

    @rule(
        groups=st.lists(GROUPS, max_size=6),
        epoch=st.integers(1, 3),
        gap=st.sampled_from([0, 0, 0, 0, 1, -1]),
        payload=st.sampled_from([b"{}", '{"é":"🙂"}'.encode(), b'"\\u0000"']),
    )
    def append(self, groups: list[str | None], epoch: int, gap: int, payload: bytes) -> None:
        numbers = dict(self.event_numbers)
        batch = []
        for group in groups:
            numbers[group] = numbers.get(group, 0) + 1
            batch.append(NewRecord(group, numbers[group], epoch, 7, f"type-{epoch}", 1, payload, None))
        if batch and gap:
            last = batch[-1]
            batch[-1] = NewRecord(last.group, last.event_number + gap, epoch, 7, last.type, 1, payload, payload)
        outcome, _ = self.both(lambda store: store.append(batch))
        assert outcome != "returned" or not (batch and gap)
        if outcome == "returned":
            self.appended += batch
            self.event_numbers = numbers

    @rule(cut=POSITIONS, groups=st.lists(GROUPS, unique=True))
    def save_snapshots(self, cut: int, groups: list[str | None]) -> None:
        snapshots = [Snapshot(group, cut, cut, 1, 1, b"%d" % cut) for group in groups]
        self.both(lambda store: store.save_snapshots(cut, snapshots))

    @rule(at=st.none() | POSITIONS)
    def load_snapshots(self, at: int | None) -> None:
        self.both(lambda store: store.load_snapshots(at))

    @rule(before=POSITIONS)
    def trim(self, before: int) -> None:
        self.both(lambda store: store.trim(before))

    @rule()
    def delete_a_portion_of_what_was_trimmed(self) -> None:
        with patch("regroup.storage.sqlite.trimming.MAX_PORTION_RECORDS", 2):
            self.loop.run_until_complete(self.file.delete_trimmed())

    @rule(
        group=GROUPS | st.just(ANY_GROUP),
        after=POSITIONS,
        until=st.none() | POSITIONS,
        types=st.none() | st.sets(st.sampled_from(["type-1", "type-2"])),
    )
    def read(self, group: str | AnyGroup | None, after: int, until: int | None, types: set[str] | None) -> None:
        async def records(store: EventStore) -> list[Record]:
            return [record async for record in store.read(group=group, after=after, until=until, types=types)]

        outcome, read = self.both(records)
        last = len(self.appended) if until is None else until
        if after < self.memory.trimmed_through:
            assert outcome == "PositionTrimmed" or last <= after
        else:
            assert isinstance(read, list)
            assert [record.position for record in read] == [
                position
                for position, new in enumerate(self.appended, 1)
                if after < position <= last
                and (group is ANY_GROUP or new.group == group)
                and (types is None or new.type in types)
            ]

    @rule(name=st.sampled_from(["feed", "cluster"]), value=st.binary(max_size=3))
    def put_value(self, name: str, value: bytes) -> None:
        self.both(lambda store: store.put_value(name, value))
        assert self.both(lambda store: store.get_value(name)) == ("returned", value)

    @rule(first_ms=st.integers(0, 9), length_ms=st.integers(0, 9), payload=st.binary(max_size=40))
    def append_exchanges(self, first_ms: int, length_ms: int, payload: bytes) -> None:
        block = NewExchangeBlock(first_ms, first_ms + length_ms, len(payload), payload)
        self.both(lambda store: store.append_exchanges(block, max_bytes=120))
        self.blocks.append(block)

    @rule(from_ms=st.integers(0, 9), to_ms=st.none() | st.integers(0, 18))
    def read_exchanges(self, from_ms: int, to_ms: int | None) -> None:
        async def blocks(store: EventStore) -> list[ExchangeBlock]:
            return [block async for block in store.read_exchanges(from_ms=from_ms, to_ms=to_ms)]

        _, read = self.both(blocks)
        assert isinstance(read, list)
        for block in read:
            new = self.blocks[block.number - 1]
            assert (block.first_ms, block.last_ms, block.payload) == (new.first_ms, new.last_ms, new.payload)
        if self.blocks and from_ms == 0 and to_ms is None:
            assert read[-1].number == len(self.blocks)

    @rule()
    def next_coordinator_epoch(self) -> None:
        self.both(lambda store: store.next_coordinator_epoch())

    @rule()
    def reopen(self) -> None:
        self.loop.run_until_complete(self.file.close())
        self.file = self.loop.run_until_complete(open_inline_store(self.path))

    @invariant()
    def heads_and_positions_count_every_appended_record(self) -> None:
        _, heads = self.both(lambda store: store.heads())
        assert isinstance(heads, dict)
        assert {group: head.event_number for group, head in heads.items()} == self.event_numbers
        assert self.memory.last_position == self.file.last_position == len(self.appended)
        assert self.memory.trimmed_through == self.file.trimmed_through

    def teardown(self) -> None:
        self.loop.run_until_complete(self.file.close())
        self.loop.close()
        self.folder.cleanup()


TestStoreComparison = StoreComparison.TestCase
TestStoreComparison.settings = settings(stateful_step_count=30)
