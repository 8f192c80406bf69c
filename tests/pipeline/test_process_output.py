"""All output of a command, Java's included, if it fails or is stopped."""

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients.emulator import eventually
from tests.pipeline.histories import crash_history, write_store

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

TIMEOUT_S = 200
"""Generous, since Spark alone takes a minute to start on a busy machine."""

# The command as usual, but its only task never ends, and leaves a file.
STALLED = """
import sys, time
from pathlib import Path
from regroup.cli.main import main
from regroup.pipeline.bronze import ingest

def stall(block):
    Path(block.path).with_name("stalled").touch()
    time.sleep(3600)

ingest.write_block = stall
sys.exit(main(sys.argv[1:]))
"""


def test_damage_that_a_worker_finds_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    write_store(path, crash_history("range", 1))
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM events WHERE position = 10")
    connection.close()
    words = [sys.executable, "-m", "regroup.cli", "pipeline", "ingest", str(path), str(tmp_path / "out")]
    ended = subprocess.run([*words, "--master", "local[1]"], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"regroup pipeline: {path} is damaged: of the positions 1 to ")
    assert ended.stderr.count("\n") == 1


def test_ctrl_c_is_one_line_that_says_how_to_continue(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    write_store(path, crash_history("range", 1))
    words = ["pipeline", "ingest", str(path), str(tmp_path / "out"), "--master", "local[1]"]
    process = subprocess.Popen(
        [sys.executable, "-c", STALLED, *words], start_new_session=True, stderr=subprocess.PIPE, text=True
    )
    try:
        eventually((tmp_path / "stalled").exists, "the task", TIMEOUT_S)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does, to all processes of the command
        _, errors = process.communicate(timeout=TIMEOUT_S)
    finally:
        process.kill()
    assert (process.returncode, errors) == (
        130,
        "regroup pipeline: stopped; the same command goes on where it stopped.\n",
    )
