"""Output on a full disk, to a closed pipe, and in an old encoding; and how the program names itself."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from regroup.cli.terminal import output
from regroup.coordinator.serialization import ENCODER, EVENT_VERSION
from regroup.storage.records import NewRecord
from regroup.storage.sqlite.threaded import open_store
from tests.clients.emulator import REGROUP_COMMAND, TIMEOUT_S, run_regroup
from tests.clients.processes import Serve

FULL = Path("/dev/full")
MANY = 2_000


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history whose text is longer than any pipe's buffer."""
    path = tmp_path_factory.mktemp("history") / "groups.db"
    write_history(path, MANY)
    return path


def write_history(path: Path, events: int) -> None:
    """Write a member's departures from a group that it never joined."""
    payload = ENCODER.encode({"at_ms": 0, "member_id": "anna-1f2e3d4c-0000-4000-8000-000000000001", "reason": "…"})
    numbers = range(1, events + 1)

    async def write() -> None:
        async with await open_store(path) as store:
            await store.append(
                [
                    NewRecord("café \U0001f980", number, 1, 0, "member-left", EVENT_VERSION, payload, None)
                    for number in numbers
                ]
            )

    asyncio.run(write())


@pytest.mark.quick("[events STORE]")
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
def test_a_full_disk_is_reported_in_one_line_with_exit_code_2(words: list[str], history: Path, tmp_path: Path) -> None:
    places = {"STORE": str(history), "NEW": str(tmp_path / "new.db")}
    with FULL.open("w") as full:
        done = subprocess.run(
            [REGROUP_COMMAND, *(places.get(word, word) for word in words)],
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
    assert done.returncode == 2, done.stderr
    *_, last = done.stderr.splitlines()
    assert last == (
        f"regroup {words[0]}: cannot write the output: No space left on device; free some space, or send it elsewhere"
    )
    assert "Traceback" not in done.stderr


@pytest.mark.quick("[jsonl]")
@pytest.mark.parametrize("form", ["text", "jsonl"])
def test_a_pipe_that_is_closed_early_is_no_error(form: str, history: Path) -> None:
    command = [REGROUP_COMMAND, "events", history, "--format", form]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stderr
        assert process.stdout.readline()
        process.stdout.close()
        assert (process.wait(TIMEOUT_S), process.stderr.read()) == (0, "")


@pytest.mark.quick("[1-1]")
@pytest.mark.parametrize(("position", "code"), [("0", 0), ("1", 1)])
def test_the_exit_code_is_kept_although_the_pipe_is_closed(position: str, code: int, tmp_path: Path) -> None:
    """The exit code for an empty history, and for one with an impossible event."""
    store = tmp_path / "groups.db"
    write_history(store, int(position))
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [REGROUP_COMMAND, "verify", store], stdout=writer, stderr=subprocess.PIPE, timeout=TIMEOUT_S, check=False
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (code, b"")


@pytest.mark.slow
def test_members_leave_their_group_when_the_pipe_is_closed(serve: Serve) -> None:
    emulator = serve("--topic", "orders:2")
    words = ["--bootstrap", emulator.address, "--group", "g", "--topic", "orders", "--count", "2", "--for", "30s"]
    with subprocess.Popen(
        [REGROUP_COMMAND, "members", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stderr
        assert process.stdout.readline()
        process.stdout.close()
        assert (process.wait(TIMEOUT_S), process.stderr.read()) == (0, b"")
    assert {event["reason"] for event in emulator.events("g", kind="member-removed")} == set()


def in_ascii(*words: str | Path) -> str:
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [REGROUP_COMMAND, *words], env=environment, capture_output=True, timeout=TIMEOUT_S, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode("ascii")


def test_characters_that_an_old_encoding_lacks_are_escaped(history: Path) -> None:
    assert r"member anna-1f2e3d4c\u2026  because \u2026" in in_ascii("events", history)
    assert r"REGROUP_MQTT_PASSWORD, \u2026" in in_ascii("serve", "--help")


def test_json_stays_json_in_an_old_encoding(history: Path) -> None:
    row = json.loads(in_ascii("events", history, "--format", "jsonl").splitlines()[0])
    assert row["group"] == "café \U0001f980"


@pytest.mark.quick("[verify]")
@pytest.mark.parametrize("command", ["events", "replay", "verify"])
def test_a_missing_store_is_reported_with_the_command_that_creates_one(command: str, tmp_path: Path) -> None:
    done = run_regroup(command, tmp_path / "my groups.db")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"`regroup serve --store '{tmp_path / 'my groups.db'}'` creates one." in done.stderr


@pytest.mark.parametrize(
    ("called", "on_path", "typed"),
    [
        ("BIN/regroup", True, "regroup"),
        ("BIN/regroup", False, "BIN/regroup"),
        ("site-packages/regroup/__main__.py", True, f"{sys.executable} -m regroup"),
        ("another-program", False, "regroup"),
    ],
)
def test_the_program_is_named_as_it_was_called(
    called: str, on_path: bool, typed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "regroup").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path) if on_path else os.defpath)
    monkeypatch.setattr(sys, "argv", [called.replace("BIN", str(tmp_path))])
    assert output.program_name() == typed.replace("BIN", str(tmp_path))
