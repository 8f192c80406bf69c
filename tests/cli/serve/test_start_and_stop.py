"""`regroup serve` obeys a signal at each moment of its start, ends when its start fails, and leaves a whole store."""

import asyncio
import os
import shutil
import signal
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from regroup.server.broker_cluster import BrokerCluster, ClusterEnvironment
from regroup.server.clock import Clock
from regroup.storage.memory import MemoryStore
from regroup.storage.sqlite.store import SqliteStore
from tests.cli.conftest import RunCommand
from tests.clients.emulator import REGROUP_COMMAND, TIMEOUT_S, eventually, run_regroup
from tests.clients.libraries import PRODUCERS
from tests.clients.processes import Serve

DAY_MS = 24 * 3600 * 1000
STORED_AT_MS = 1_700_000_000_000


async def never_ends(*_: Any, **__: Any) -> Any:
    """Take the place of a step of the start that waits for ever, and send SIGTERM to this process."""
    asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGTERM)
    await asyncio.get_running_loop().create_future()


@pytest.mark.parametrize(
    "step",
    [
        "regroup.cli.serve.command.open_store",
        "regroup.server.history.opening.load_cluster_state",
        "regroup.storage.sqlite.store.SqliteStore.next_coordinator_epoch",
        "regroup.coordinator.runtime.group_coordinator.load_groups",
        "regroup.server.broker.Broker.start",
        "regroup.server.broker_cluster.BrokerCluster.ensure_topic",
    ],
)
@pytest.mark.timeout(30)
def test_a_start_that_does_not_end_obeys_a_signal(
    step: str, run_command: RunCommand, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(step, never_ends)
    store = tmp_path / "groups.db"
    assert run_command("serve", "--port", "0", "--store", store, "--topic", "orders:2") == (0, "", "")
    monkeypatch.undo()
    assert run_regroup("serve", "--port", "0", "--store", store, "--topic", ":").returncode == 2, "no lock is left"


@pytest.mark.slow
def test_a_signal_at_any_moment_of_the_start_ends_it(tmp_path: Path) -> None:
    """Some of the signals come before Python has set up anything, some when it listens already."""
    words = [REGROUP_COMMAND, "serve", "--port", "0", "--store", tmp_path / "groups.db", "--topic", "orders:3"]
    start_s = 0.0
    for number in range(12):
        began_s = time.monotonic()
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            if number == 0:
                assert process.stdout
                process.stdout.readline()
                start_s = time.monotonic() - began_s
            else:
                time.sleep(start_s * number / 10)  # another moment of the start each time
            process.terminate()
            _, err = process.communicate(timeout=TIMEOUT_S)
        assert process.returncode in (0, -signal.SIGTERM), err
        assert "Traceback" not in err
    assert run_regroup("verify", tmp_path / "groups.db").returncode == 0


@pytest.mark.timeout(30)
def test_a_start_whose_writes_fail_ends_with_an_error(
    run_command: RunCommand, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The error is none that the store knows."""

    async def fail(*_: Any) -> int:
        raise MemoryError

    monkeypatch.setattr(SqliteStore, "append", fail)
    code, out, err = run_command("serve", "--port", "0", "--store", tmp_path / "groups.db", "--topic", "orders:2")
    assert (code, out) == (2, "")
    assert "The records could not be written (MemoryError())" in err.splitlines()[-1]
    assert "The journal's writer failed" in err, "the log has the traceback"


@pytest.mark.timeout(60)
def test_a_position_that_leaps_is_damage_and_hangs_no_command(store: Path, run_command: RunCommand) -> None:
    """One bit more in the row id of the last event."""
    with closing(sqlite3.connect(store, isolation_level=None)) as connection:
        connection.execute(
            "UPDATE events SET position = position + (1 << 40) WHERE position = (SELECT max(position) FROM events)"
        )
    verified = run_command("verify", store)
    assert verified.code == 1
    assert "The event before it, at position" in verified.out
    for words in (
        ("events", store),
        ("replay", store),
        ("trim", store, "--before", "2"),
        ("serve", "--port", "0", "--store", store),
    ):
        code, _, err = run_command(*words)
        assert code == 2, words
        assert len(err.splitlines()) == 1
        assert "is missing" in err


def bare_copy_events(store: Path) -> int:
    """The events in a copy of the store's file alone."""
    shutil.copy(store, store.with_name("bare.db"))
    with closing(sqlite3.connect(f"file:{store.with_name('bare.db')}?immutable=1", uri=True)) as connection:
        return int(connection.execute("SELECT count(*) FROM events").fetchone()[0])


def test_after_an_idle_second_the_file_has_every_event(serve: Serve) -> None:
    emulator = serve("--topic", "orders:2")
    PRODUCERS["confluent-kafka"](emulator.address, [("invoices", 0, "makes the topic")])
    written = len(emulator.events())
    assert written >= 2
    eventually(lambda: bare_copy_events(emulator.store) == written, "a checkpoint")


@pytest.mark.slow
def test_after_a_clean_stop_beside_a_reader_the_file_has_every_event(serve: Serve) -> None:
    emulator = serve("--topic", "orders:2")
    words = [REGROUP_COMMAND, "events", emulator.store, "--follow"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as follower:
        assert follower.stdout
        follower.stdout.readline()
        PRODUCERS["confluent-kafka"](emulator.address, [("invoices", 0, "makes the topic")])
        assert emulator.terminate() == 0
        assert bare_copy_events(emulator.store) == len(emulator.events())
        assert run_regroup("verify", emulator.store.with_name("bare.db")).returncode == 0
        follower.kill()


@pytest.mark.parametrize(
    ("days", "warning"), [(-3650, "earlier"), (-30, None), (0, None), (300, None), (3650, "later")]
)
async def test_a_clock_that_is_years_from_the_last_event_is_reported(days: int, warning: str | None) -> None:
    store = MemoryStore()
    for start_ms in (STORED_AT_MS, STORED_AT_MS + days * DAY_MS):
        environment = ClusterEnvironment(clock=Clock(started_at_ms=start_ms))
        with capture_logs() as lines:
            async with await BrokerCluster.start(store.open, None, environment) as cluster:
                await cluster.ensure_topic("orders", 1)
    warnings = [line for line in lines if line["event"].startswith("clock-is")]
    assert [line["event"] for line in warnings] == ([f"clock-is-{warning}-than-the-store"] if warning else [])
    assert not warnings or warnings[0]["days"] in (3649, 3650)
