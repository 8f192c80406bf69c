"""Emulators whose history begins later, because its first events have been trimmed."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final

import pytest

from regroup.server.history.trim import save_snapshots_at
from regroup.storage.errors import StoreDamaged
from regroup.storage.records import Record
from regroup.storage.store import EventStore
from regroup.testing import ActRefused, Emulator, WaitTimeout
from regroup.testing.groups import async_group
from tests.testing.conftest import stable_pair

StartEmulator = Callable[..., Emulator]

LAST_TRIMMED: Final = 10
"""The position of an event of the group `billing`, which has more events before and after."""


def trim_through(kafka: Emulator, position: int) -> None:
    """Trim the history up to and including this position."""

    async def trim(history: EventStore) -> None:
        await save_snapshots_at(history, position)
        await history.trim(position + 1)

    kafka._running.run(trim(kafka._emulator.history))


@pytest.fixture(params=["memory", "file"])
def kafka(request: pytest.FixtureRequest, emulator: StartEmulator, tmp_path: Path) -> Emulator:
    """An emulator with two members in a group, whose first events have been trimmed."""
    kafka = emulator(topics={"orders": 2}, store=tmp_path / "store.db" if request.param == "file" else None)
    stable_pair(kafka)
    trim_through(kafka, LAST_TRIMMED)
    return kafka


def test_the_events_of_a_group_are_those_that_have_not_been_trimmed(kafka: Emulator) -> None:
    assert kafka.group("billing").events()[0].position == LAST_TRIMMED + 1


def test_the_story_of_a_group_shows_the_events_that_have_not_been_trimmed(kafka: Emulator) -> None:
    assert "last events:" in kafka.group("billing").story()
    assert "group 'billing':" in kafka.story()


def test_a_failed_wait_raises_wait_timeout_with_the_story_of_a_trimmed_history(kafka: Emulator) -> None:
    with pytest.raises(WaitTimeout, match="last events:"):
        kafka.group("billing").wait_until_stable(members=3, timeout_s=0)


def test_a_failed_wait_raises_wait_timeout_also_if_its_story_cannot_be_read(
    kafka: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def damaged(*args: Any, **options: Any) -> AsyncIterator[Record]:
        raise StoreDamaged("the file is damaged")
        yield

    monkeypatch.setattr(kafka._emulator.history, "read", damaged)
    with pytest.raises(WaitTimeout, match=r"did not reach Stable with 3 members(.|\n)*the file is damaged"):
        kafka.group("billing").wait_until_stable(members=3, timeout_s=0)


def test_a_trimmed_history_cannot_be_saved(kafka: Emulator, tmp_path: Path) -> None:
    with pytest.raises(ActRefused, match=r"events up to position .* have been trimmed"):
        kafka.save(tmp_path / "saved.db")
    assert not (tmp_path / "saved.db").exists()


def test_the_story_of_a_long_history_does_not_read_its_beginning(
    kafka: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = kafka._emulator.history
    starts: list[int] = []
    read = history.read

    def noted(*, after: int = 0, **options: Any) -> AsyncIterator[Record]:
        starts.append(after)
        return read(after=after, **options)

    expected = kafka.group("billing").story()
    monkeypatch.setattr(async_group, "FIRST_REACH", 3)
    monkeypatch.setattr(history, "read", noted)
    story = kafka.group("billing").story()
    assert starts[0] > LAST_TRIMMED
    assert story == expected
