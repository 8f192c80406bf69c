"""`regroup trim`: older events are deleted, and the groups keep their state."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from regroup.cli.main import main
from regroup.coordinator import commands as c
from regroup.coordinator.group import Group
from regroup.coordinator.runtime.group_coordinator import GroupCoordinator
from regroup.coordinator.runtime.loading import load_groups
from regroup.coordinator.settings import CoordinatorSettings
from regroup.storage.journal import Journal
from regroup.storage.sqlite.threaded import open_store


async def write_commits(path: Path, count: int) -> None:
    """Commit so many offsets of one partition."""
    async with await open_store(path) as store:
        journal = Journal(store)
        coordinator = GroupCoordinator(journal, settings=CoordinatorSettings(), now=lambda: 1_000)
        await coordinator.start()
        for offset in range(count):
            await coordinator.offset_commit(
                c.OffsetCommit(group_id="g", at_ms=1_000, offsets=(c.RequestedOffset("orders", 0, offset),))
            )
        coordinator.stop()
        await journal.close()


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
