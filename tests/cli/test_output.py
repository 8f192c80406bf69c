"""What is said arrives, or its end is told in a line: on a full disk, to a reader who has gone, in an old encoding."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from regroup.cli.terminal import output
from regroup.coordinator.serialization import ENCODER
from regroup.storage.records import NewRecord
from regroup.storage.sqlite.threaded import open_store
from tests.clients.emulator import REGROUP, SECONDS, regroup
from tests.clients.processes import Serve

FULL = Path("/dev/full")
MANY = 2_000


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """So much that no pipe holds all of it."""
    path = tmp_path_factory.mktemp("history") / "groups.db"
    write_history(path, MANY)
    return path


def write_history(path: Path, events: int) -> None:
    """Somebody leaves a group again and again, and never was in it."""
    payload = ENCODER.encode({"at_ms": 0, "member": "anna-1f2e3d4c-0000-4000-8000-000000000001", "reason": "…"})
    numbers = range(1, events + 1)

    async def write() -> None:
        async with await open_store(path) as store:
            await store.append(
                [NewRecord("café \U0001f980", number, 1, 0, "member-left", 1, payload, None) for number in numbers]
            )

    asyncio.run(write())


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")
@pytest.mark.parametrize(
    "words",
    [
        ["events", "STORE"],
        ["events", "STORE", "--format", "jsonl"],
        ["verify", "STORE"],
        ["replay", "STORE", "--at", "0"],
        ["serve", "--port", "0", "--store", "NEW"],
        ["chaos", "list"],
        ["serve", "--help"],
    ],
    ids=" ".join,
)
def test_a_full_disk_is_told_in_one_line_and_is_no_fault_that_was_found(
    words: list[str], history: Path, tmp_path: Path
) -> None:
    places = {"STORE": str(history), "NEW": str(tmp_path / "new.db")}
    with FULL.open("w") as full:
        done = subprocess.run(
            [REGROUP, *(places.get(word, word) for word in words)],
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=SECONDS, check=False,
        )  # fmt: skip
    assert done.returncode == 2, done.stderr
    *_, last = done.stderr.splitlines()
    assert last == (
        f"regroup {words[0]}: the output cannot be written: No space left on device. Free some room, or send it "
        "elsewhere."
    )
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("form", ["text", "jsonl"])
def test_a_reader_that_has_seen_enough_is_no_fault(form: str, history: Path) -> None:
    command = [REGROUP, "events", history, "--format", form]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stderr
        assert process.stdout.readline()
        process.stdout.close()
        assert (process.wait(SECONDS), process.stderr.read()) == (0, "")


@pytest.mark.parametrize(("position", "code"), [("0", 0), ("1", 1)])
def test_a_verdict_is_kept_although_nobody_reads_it(position: str, code: int, tmp_path: Path) -> None:
    """Of an empty history, and of one with an event that cannot be."""
    store = tmp_path / "groups.db"
    write_history(store, int(position))
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [REGROUP, "verify", store], stdout=writer, stderr=subprocess.PIPE, timeout=SECONDS, check=False
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (code, b"")


def test_members_whose_lines_nobody_reads_leave_politely(serve: Serve) -> None:
    emulator = serve("--topic", "orders:2")
    words = ["--bootstrap", emulator.address, "--group", "g", "--topic", "orders", "--count", "2", "--for", "30s"]
    with subprocess.Popen([REGROUP, "members", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        assert process.stdout.readline()
        process.stdout.close()
        assert (process.wait(SECONDS), process.stderr.read()) == (0, b"")
    assert {event["reason"] for event in emulator.events("g", kind="member-expelled")} == set()


def in_ascii(*words: str | Path) -> str:
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run([REGROUP, *words], env=environment, capture_output=True, timeout=SECONDS, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode("ascii")


def test_an_old_encoding_is_shown_in_escapes(history: Path) -> None:
    assert r"member anna-1f2e3d4c\u2026  because \u2026" in in_ascii("events", history)
    assert r"REGROUP_MQTT_PASSWORD, \u2026" in in_ascii("serve", "--help")


def test_what_is_json_remains_json_in_an_old_encoding(history: Path) -> None:
    row = json.loads(in_ascii("events", history, "--format", "jsonl").splitlines()[0])
    assert row["group"] == "café \U0001f980"


@pytest.mark.parametrize("command", ["events", "replay", "verify"])
def test_whoever_names_a_store_that_is_not_there_is_told_what_makes_one(command: str, tmp_path: Path) -> None:
    done = regroup(command, tmp_path / "my groups.db")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"`regroup serve --store '{tmp_path / 'my groups.db'}'` makes one" in done.stderr


@pytest.mark.parametrize(
    ("called", "on_path", "typed"),
    [
        ("BIN/regroup", True, "regroup"),
        ("BIN/regroup", False, "BIN/regroup"),
        (output.__file__.replace("output.py", "__main__.py"), True, f"{sys.executable} -m regroup.cli"),
        ("somebody's program", False, "regroup"),
    ],
)
def test_it_is_called_again_as_it_was_called(
    called: str, on_path: bool, typed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "regroup").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path) if on_path else os.defpath)
    monkeypatch.setattr(sys, "argv", [called.replace("BIN", str(tmp_path))])
    assert output.own_name() == typed.replace("BIN", str(tmp_path))
