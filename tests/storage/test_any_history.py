"""Whatever is asked of a store in whatever order, memory and SQLite answer alike, also after closing and reopening.

Beside both stands a model that is simpler still: a list of everything that was ever appended.
"""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from regroup.storage.errors import StoreError
from regroup.storage.memory import MemoryStore
from regroup.storage.records import NewRecord, Record, Snapshot
from regroup.storage.sqlite.inline import open_inline_store
from regroup.storage.store import ANY, EventStore, Groups

GROUPS = st.sampled_from([None, "", "a", "é", "b\0c"])
POSITIONS = st.integers(min_value=0, max_value=25)

Answer = tuple[str, object]


async def answer_of(question: Awaitable[object]) -> Answer:
    """What came back, or the name of the refusal and its words."""
    try:
        return "answer", await question
    except (StoreError, ValueError) as refusal:
        return type(refusal).__name__, str(refusal)


class AnyHistory(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name, "store")
        self.memory = MemoryStore()
        self.file: EventStore = self.loop.run_until_complete(open_inline_store(self.path))
        self.everything: list[NewRecord] = []
        self.numbers: dict[str | None, int] = {}

    def both(self, ask: Callable[[EventStore], Awaitable[object]]) -> Answer:
        in_memory, in_file = (self.loop.run_until_complete(answer_of(ask(store))) for store in (self.memory, self.file))
        assert in_memory == in_file
        return in_memory

    @rule(
        groups=st.lists(GROUPS, max_size=6),
        reign=st.integers(1, 3),
        slip=st.sampled_from([0, 0, 0, 0, 1, -1]),
        payload=st.sampled_from([b"{}", '{"é":"🙂"}'.encode(), b'"\\u0000"']),
    )
    def append(self, groups: list[str | None], reign: int, slip: int, payload: bytes) -> None:
        numbers = dict(self.numbers)
        batch = []
        for group in groups:
            numbers[group] = numbers.get(group, 0) + 1
            batch.append(NewRecord(group, numbers[group], reign, 7, f"type-{reign}", 1, payload, None))
        if batch and slip:
            last = batch[-1]
            batch[-1] = NewRecord(last.group, last.number + slip, reign, 7, last.type, 1, payload, payload)
        outcome, _ = self.both(lambda store: store.append(batch))
        assert outcome != "answer" or not (batch and slip)
        if outcome == "answer":
            self.everything += batch
            self.numbers = numbers

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

    @rule(
        group=GROUPS | st.just(ANY),
        after=POSITIONS,
        until=st.none() | POSITIONS,
        types=st.none() | st.sets(st.sampled_from(["type-1", "type-2"])),
    )
    def read(self, group: str | Groups | None, after: int, until: int | None, types: set[str] | None) -> None:
        async def records(store: EventStore) -> list[Record]:
            return [record async for record in store.read(group=group, after=after, until=until, types=types)]

        outcome, read = self.both(records)
        last = len(self.everything) if until is None else until
        if after < self.memory.trimmed_through:
            assert outcome == "PositionTrimmed" or last <= after
        else:
            assert isinstance(read, list)
            assert [record.position for record in read] == [
                position
                for position, new in enumerate(self.everything, 1)
                if after < position <= last
                and (group is ANY or new.group == group)
                and (types is None or new.type in types)
            ]

    @rule(name=st.sampled_from(["feed", "cluster"]), value=st.binary(max_size=3))
    def keep(self, name: str, value: bytes) -> None:
        self.both(lambda store: store.keep(name, value))
        assert self.both(lambda store: store.kept(name)) == ("answer", value)

    @rule()
    def next_reign(self) -> None:
        self.both(lambda store: store.next_reign())

    @rule()
    def reopen(self) -> None:
        self.loop.run_until_complete(self.file.close())
        self.file = self.loop.run_until_complete(open_inline_store(self.path))

    @invariant()
    def nothing_that_was_accepted_is_forgotten_by_the_books(self) -> None:
        _, heads = self.both(lambda store: store.heads())
        assert isinstance(heads, dict)
        assert {group: head.number for group, head in heads.items()} == self.numbers
        assert self.memory.last_position == self.file.last_position == len(self.everything)
        assert self.memory.trimmed_through == self.file.trimmed_through

    def teardown(self) -> None:
        self.loop.run_until_complete(self.file.close())
        self.loop.close()
        self.folder.cleanup()


TestAnyHistory = AnyHistory.TestCase
TestAnyHistory.settings = settings(max_examples=60, stateful_step_count=30)
