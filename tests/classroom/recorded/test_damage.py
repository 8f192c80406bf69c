"""Damaged recordings: one clear error, or a timeline; never another exception."""

import asyncio
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from regroup.classroom.incidents import incidents_of
from regroup.classroom.pictures.mermaid import mermaid_picture
from regroup.classroom.pictures.part import Unreadable
from regroup.classroom.pictures.svg import svg_picture
from regroup.classroom.pictures.text import text_picture
from regroup.classroom.reading import read_timelines
from regroup.classroom.recorded.messages import read_messages
from regroup.classroom.recorded.session_clocks import SessionClocks
from regroup.classroom.recorded.views import disputes
from regroup.classroom.story import story_lines
from regroup.server.recording.observations import MessageObserved, ViewObserved, encode_observations
from regroup.storage.errors import StoreDamaged
from regroup.storage.memory import MemoryStore
from regroup.storage.records import NewExchangeBlock
from tests.classroom.recorded.recordings import recorded_run

UNDAMAGED = 1_000_000
"""The number of a block that no store here has."""


async def damaged(store: MemoryStore, number: int, at: int, byte: int) -> MemoryStore:
    """A copy of which one byte in one block of exchanges or observations is another one."""
    copy, seen = MemoryStore(), 0
    await copy.append([record async for record in store.read()])
    for read, append in (
        (store.read_exchanges, copy.append_exchanges),
        (store.read_observations, copy.append_observations),
    ):
        async for block in read():
            payload = bytearray(block.payload)
            if seen == number:
                payload[at % len(payload)] = byte
            seen += 1
            await append(
                NewExchangeBlock(block.first_ms, block.last_ms, block.count, bytes(payload)), max_bytes=1 << 30
            )
    return copy


async def show(store: MemoryStore) -> None:
    """Everything that is made of a timeline with its recording."""
    history = (await read_timelines(store, ["lab"]))["lab"]
    assert list(story_lines(history))
    for picture in (svg_picture, mermaid_picture, text_picture):
        with suppress(Unreadable):
            picture(history, None)
    clocks = SessionClocks(history)
    for moment in history.moments:
        clocks.at(moment.position)
    incidents_of(history), disputes(history.views)
    await read_messages(store, history.exchanges)


@pytest.mark.quick("[zombie-commits-after-removal]")
@pytest.mark.parametrize("what", ["power-fails", "zombie-commits-after-removal"])
@settings(max_examples=15, deadline=None)
@given(number=st.integers(0, 60), at=st.integers(0, 100_000), byte=st.integers(0, 255))
def test_a_damaged_byte_is_one_clear_error_or_shown_as_it_is(what: str, number: int, at: int, byte: int) -> None:
    sound = recorded_run(what)

    async def run() -> None:
        with suppress(StoreDamaged):
            await show(await damaged(sound, number, at, byte))

    asyncio.run(run())


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\x93",
        msgspec.msgpack.encode([["unknown", 1]]),
        msgspec.msgpack.encode([["view", -1, 1, "anna", "lab", "anna-1", []]]),
        msgspec.msgpack.encode([["view", 1, 1, "anna", "lab", "anna-1", [["orders", "x"]]]]),
        msgspec.msgpack.encode([["message", 2**63, 1, "anna", "0-1@1", 1, 12, False, None, 0, "lost"]]),
    ],
)
def test_observations_of_another_form_are_one_clear_error(payload: bytes) -> None:
    sound = recorded_run("first-join")

    async def run() -> None:
        store = await damaged(sound, UNDAMAGED, 0, 0)
        await store.append_observations(NewExchangeBlock(1, 1, 1, payload), max_bytes=1 << 30)
        await read_timelines(store, ["lab"])

    with pytest.raises(StoreDamaged, match=r"of the observations is damaged .* events can still be read"):
        asyncio.run(run())


def test_an_observation_of_another_group_or_connection_changes_nothing() -> None:
    sound = recorded_run("first-join")

    async def run() -> None:
        store = await damaged(sound, UNDAMAGED, 0, 0)
        before = (await read_timelines(store, ["lab"]))["lab"]
        message = MessageObserved(1, 1, "eve", "9-9@9", 7, 12, False, 5, 4, "slow")
        view = ViewObserved(1, 1, "eve", "other", "eve-1", (("orders", 0),))
        for rows in ([message, replace(message, is_response=True)], [view]):
            for block in encode_observations(rows):
                await store.append_observations(block, max_bytes=1 << 30)
        assert (await read_timelines(store, ["lab"]))["lab"] == before

    asyncio.run(run())
