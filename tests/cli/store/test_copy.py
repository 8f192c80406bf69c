"""`regroup copy`, and what `regroup verify` and `regroup serve` say of a copy of one file of a served store."""

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import RunCommand
from tests.clients.emulator import run_regroup
from tests.clients.libraries import PRODUCERS
from tests.clients.processes import Serve


def test_a_served_store_is_copied_and_the_copy_verifies(serve: Serve, run_command: RunCommand, tmp_path: Path) -> None:
    emulator = serve("--topic", "orders:2")
    PRODUCERS["confluent-kafka"](emulator.address, [("orders", 0, "#1")])
    written = len(emulator.events())
    copy = tmp_path / "monday.db"
    assert run_command("copy", emulator.store, copy) == (
        0,
        f"{copy} has the {written} events up to position {written}.\n",
        "",
    )
    assert run_command("verify", copy).code == 0
    events = run_command("events", copy, "--format", "jsonl").out.splitlines()
    assert [json.loads(line)["position"] for line in events] == list(range(1, written + 1))


def test_a_copy_is_not_written_over_a_file(store: Path, run_command: RunCommand, tmp_path: Path) -> None:
    before = store.read_bytes()
    for to in (store, tmp_path / "missing" / "copy.db"):
        code, out, err = run_command("copy", store, to)
        assert (code, out) == (2, "")
        assert len(err.splitlines()) == 1
    assert store.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == [store.name]


def test_nothing_is_copied_from_a_file_that_is_no_store(run_command: RunCommand, tmp_path: Path) -> None:
    (tmp_path / "diary").write_text("Dear diary")
    code, _, err = run_command("copy", tmp_path / "diary", tmp_path / "copy.db")
    assert code == 2
    assert "not a store of this program" in err
    assert run_command("copy", tmp_path / "nothing", tmp_path / "copy.db").code == 2
    assert [each.name for each in tmp_path.iterdir()] == ["diary"]


@pytest.mark.slow
def test_a_bare_copy_of_a_served_store_is_recognized(serve: Serve, run_command: RunCommand, tmp_path: Path) -> None:
    emulator = serve("--topic", "orders:2")
    bare = tmp_path / "bare.db"
    shutil.copy(emulator.store, bare)
    code, out, _ = run_command("verify", bare)
    assert code == 1
    assert "bare.db-wal is missing: its last events are probably missing, too" in out
    refused = run_command("copy", bare, tmp_path / "second.db")
    assert refused.code == 2
    assert "bare.db-wal is missing" in refused.err
    trimmed = run_command("trim", bare, "--before", "1")
    assert trimmed.code == 2
    assert "bare.db-wal is missing" in trimmed.err
    emulator.kill()
    emulator.store.with_name("groups.db-wal").unlink()
    emulator.start()
    assert "write-ahead-log-is-missing" in emulator.log
    assert emulator.terminate() == 0
    assert run_regroup("verify", emulator.store).returncode == 0
