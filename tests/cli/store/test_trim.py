"""`regroup trim`: older events are deleted, and the groups keep their state."""

import asyncio
import sqlite3
import time
from argparse import Namespace
from contextlib import closing
from pathlib import Path

import pytest

from regroup.cli.main import main
from regroup.cli.store.events import _selected_records
from regroup.coordinator import commands as c
from regroup.coordinator.group import Group
from regroup.coordinator.runtime.group_coordinator import GroupCoordinator
from regroup.coordinator.runtime.loading import load_groups
from regroup.coordinator.settings import CoordinatorSettings
from regroup.server.history.trim import save_snapshots_at
from regroup.storage.journal import Journal
from regroup.storage.memory import MemoryStore
from regroup.storage.records import NewRecord
from regroup.storage.sqlite.threaded import open_store

DAY_MS = 86_400_000


async def write_commits(path: Path, count: int, at_ms: int = 1_000) -> None:
    """Commit so many offsets of one partition."""
    async with await open_store(path) as store:
        journal = Journal(store)
        coordinator = GroupCoordinator(journal, settings=CoordinatorSettings(), now=lambda: at_ms)
        await coordinator.start()
        for offset in range(count):
            await coordinator.offset_commit(
                c.OffsetCommit(group_id="g", at_ms=at_ms, offsets=(c.RequestedOffset("orders", 0, offset),))
            )
        coordinator.stop()
        await journal.close()


async def trim_without_deleting(path: Path, before: int) -> None:
    """Do what a process does that is killed after the history begins later, and before its rows are deleted."""
    async with await open_store(path) as store:
        await save_snapshots_at(store, before - 1)
        await store.trim(before)


async def groups_of(path: Path) -> dict[str, Group]:
    async with await open_store(path, read_only=True) as store:
        return await load_groups(store)


async def last_position_of(path: Path) -> int:
    async with await open_store(path, read_only=True) as store:
        return store.last_position


def test_a_trimmed_store_holds_the_same_groups_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "groups.db"
    asyncio.run(write_commits(path, 20))
    before = asyncio.run(groups_of(path))
    assert main(["trim", str(path), "--before", "15"]) == 0
    assert asyncio.run(groups_of(path)) == before
    assert main(["verify", str(path)]) == 0
    asyncio.run(write_commits(path, 30))
    assert asyncio.run(groups_of(path))["g"].committed_offsets["orders"][0].offset == 29
    assert main(["verify", str(path)]) == 0


def test_trimming_twice_deletes_more(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "groups.db"
    asyncio.run(write_commits(path, 20))
    main(["trim", str(path), "--before", "5"])
    assert main(["trim", str(path), "--before", "10"]) == 0
    assert "5 events were deleted" in capsys.readouterr().out.splitlines()[-1]


def test_verify_counts_what_is_left_of_a_trimmed_history(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "groups.db"
    asyncio.run(write_commits(path, 20))
    last = asyncio.run(last_position_of(path))
    main(["trim", str(path), "--before", "15"])
    capsys.readouterr()
    assert main(["verify", str(path)]) == 0
    left = f"{last - 14} events (from 15 on; earlier ones were trimmed), 1 group: every invariant holds"
    assert capsys.readouterr().out.startswith(left)


def test_the_snapshots_before_a_trimmed_history_are_verified_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "groups.db"
    asyncio.run(write_commits(path, 20))
    main(["trim", str(path), "--before", "15"])
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            """UPDATE snapshots SET payload = json_set(payload, '$.leader_id', 'me') WHERE "group" = 'g'"""
        )
    assert main(["verify", str(path)]) == 1
    assert "one leader" in capsys.readouterr().out


def test_a_trimmed_history_without_snapshots_is_damage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "groups.db"
    asyncio.run(write_commits(path, 20))
    main(["trim", str(path), "--before", "15"])
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM cuts")
    assert main(["verify", str(path)]) == 2
    assert "no snapshots say what the groups were then" in capsys.readouterr().err


@pytest.mark.parametrize("before", ["0", "1000"])
def test_a_position_outside_the_history_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], before: str
) -> None:
    path = tmp_path / "groups.db"
    asyncio.run(write_commits(path, 3))
    assert main(["trim", str(path), "--before", before]) == 2
    assert "must be between 1 and" in capsys.readouterr().err


def test_a_missing_file_is_not_created(tmp_path: Path) -> None:
    assert main(["trim", str(tmp_path / "none.db"), "--before", "2"]) == 2
    assert list(tmp_path.iterdir()) == []


def test_commands_say_where_a_trimmed_history_begins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "groups.db"
    asyncio.run(write_commits(path, 20))
    main(["trim", str(path), "--before", "15"])
    capsys.readouterr()
    trimmed = "events up to position 14 have been trimmed"
    for command in (
        ["replay", "--at", "5"],
        ["why", "--group", "g"],
        ["why", "--group", "g", "--event", "5"],
        ["why", "--group", "g", "--member", "m"],
        ["step", "--at", "5"],
    ):
        assert main([command[0], str(path), *command[1:]]) == 2
        assert trimmed in capsys.readouterr().err
    assert main(["events", str(path)]) == 0
    assert trimmed in capsys.readouterr().err
    assert main(["story", str(path)]) == 0
    assert "Earlier events have been trimmed." in " ".join(capsys.readouterr().out.split())


def test_events_older_than_a_duration_are_deleted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "groups.db"
    now_ms = round(time.time() * 1000)
    asyncio.run(write_commits(path, 10, at_ms=now_ms - 8 * DAY_MS))
    kept_from = asyncio.run(last_position_of(path)) + 1
    asyncio.run(write_commits(path, 10, at_ms=now_ms - 6 * DAY_MS))
    assert main(["trim", str(path), "--older-than", "7d"]) == 0
    assert f"from position {kept_from} on are left" in capsys.readouterr().out
    assert main(["trim", str(path), "--older-than", "7d"]) == 0
    assert capsys.readouterr().out.startswith("0 events were deleted")
    assert main(["verify", str(path)]) == 0


def test_a_trim_deletes_what_a_killed_process_has_left_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "groups.db"
    asyncio.run(write_commits(path, 20))
    asyncio.run(trim_without_deleting(path, before=15))
    assert main(["trim", str(path), "--before", "15"]) == 0
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT min(position) FROM events").fetchone() == (15,)


async def test_events_go_on_behind_what_a_running_emulator_trims(capsys: pytest.CaptureFixture[str]) -> None:
    store, shown = MemoryStore(), list[int]()
    await store.append([NewRecord("g", number, 1, number, "joined", 1, b"{}", None) for number in range(1, 21)])
    async for record in _selected_records(store, Namespace(group=None, after=0, follow=False)):
        shown.append(record.position)
        if record.position == 3:
            await store.save_snapshots(14, [])
            await store.trim(15)
    assert shown == [1, 2, 3, *range(15, 21)]
    assert "up to position 14 have been trimmed" in capsys.readouterr().err
