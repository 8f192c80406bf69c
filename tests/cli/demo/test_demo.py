"""`regroup demo` as a whole, and with a folder that holds other files."""

import asyncio
import os
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from regroup.cli.demo import command
from regroup.cli.demo.command import prepare_store_path
from regroup.cli.main import main
from regroup.storage.records import NewRecord
from regroup.storage.sqlite.threaded import open_store
from regroup.storage.sqlite.writer_lock import WriterLock
from tests.clients.emulator import REGROUP_COMMAND, TIMEOUT_S


def write_store(path: Path, *groups: str) -> None:
    async def write() -> None:
        async with await open_store(path) as store:
            await store.append([NewRecord(group, 1, 1, 0, "group-deleted", 1, b"{}", None) for group in groups])

    asyncio.run(write())


@pytest.mark.slow
def test_it_runs_to_its_last_line_and_the_commands_that_it_names_work(tmp_path: Path) -> None:
    """Called as `make demo` calls it: by a path, from a shell that finds no `regroup`."""
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    (bin_folder / "regroup").symlink_to(REGROUP_COMMAND)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("years of work")
    done = subprocess.run(
        ["bin/regroup", "demo", "--directory", "out"],
        cwd=tmp_path, env=os.environ | {"PATH": os.defpath}, capture_output=True, text=True, timeout=90, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert "Generation 4 with anna and carla: the group is the same as before." in lines
    assert lines[-4] == "The history is in out/groups.db. To look at it:"
    assert lines[-3:] == [f"    bin/regroup {word} out/groups.db" for word in ("events", "replay", "verify")]
    for line in lines[-3:]:
        subprocess.run(line.split(), cwd=tmp_path, capture_output=True, timeout=TIMEOUT_S, check=True)
    command = ["bin/regroup", "exchanges", "out/groups.db", "--group", "shop", "--api", "JoinGroup"]
    shown = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    assert {"anna", "ben", "carla"} <= {line.split()[1] for line in shown.stdout.splitlines()[1:]}
    assert (tmp_path / "out" / "thesis.txt").read_text() == "years of work"


def a_text(path: Path) -> str:
    path.write_text("Dear diary")
    path.with_name("groups.db-wal").write_text("more of it")
    return "was not written by regroup"


def another_program_s_database(path: Path) -> str:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE events (position INTEGER)")
    return "was not written by regroup"


def a_history_of_other_groups(path: Path) -> str:
    write_store(path, "shop", "payments")
    return "holds other groups than that of the demo (payments)"


@pytest.mark.parametrize("foreign", [a_text, another_program_s_database, a_history_of_other_groups])
def test_a_file_that_no_demo_has_written_is_refused_and_left_as_it_is(
    foreign: Callable[[Path], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = foreign(tmp_path / "groups.db")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert main(["demo", "--directory", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert expected in said
    assert "Name another folder with --directory." in said
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_the_store_of_an_earlier_demo_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    write_store(tmp_path / "groups.db", "shop")
    (tmp_path / "groups.db.bak").write_text("a copy of mine")
    asyncio.run(prepare_store_path(tmp_path / "groups.db", "shop"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["groups.db.bak", "groups.db.lock"]


def test_a_running_demo_is_not_disturbed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_store(tmp_path / "groups.db", "shop")
    lock = WriterLock(tmp_path / "groups.db")
    assert main(["demo", "--directory", str(tmp_path)]) == 2
    lock.release()
    assert "is being written by another process" in capsys.readouterr().err
    assert (tmp_path / "groups.db").exists()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "taken").write_text("a file")
    assert main(["demo", "--directory", str(tmp_path / "taken" / "demo")]) == 2
    assert f"The folder {tmp_path / 'taken' / 'demo'} cannot be made: Not a directory." in capsys.readouterr().err


def test_a_coordinator_that_does_not_start_is_reported_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "SERVE_ARGUMENTS", ("serve", "--topic", "orders:none"))
    assert main(["demo", "--directory", str(tmp_path)]) == 2
    *_, why = capfd.readouterr().err.splitlines()
    assert why == "regroup demo: the coordinator ended with exit code 2; its message is above"
