"""What a user sees of a whole process, Java's own words included, when it cannot be done or is stopped."""

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients.emulator import eventually
from tests.pipeline.histories import crashes_of, write_store

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PATIENCE_S = 200
"""On a busy machine Spark alone takes a minute to start."""

# What is typed runs as ever, but its one task stops for good, and says so.
STALLED = """
import sys, time
from pathlib import Path
from regroup.cli.main import main
from regroup.pipeline import bronze

def stalls(block):
    Path(block.path).with_name("stalled").touch()
    time.sleep(3600)

bronze.write_block = stalls
sys.exit(main(sys.argv[1:]))
"""


def test_damage_that_only_a_worker_sees_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    write_store(path, crashes_of("range", 1))
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM events WHERE position = 10")
    connection.close()
    words = [sys.executable, "-m", "regroup.cli", "pipeline", "ingest", str(path), str(tmp_path / "out")]
    ended = subprocess.run([*words, "--master", "local[1]"], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"regroup pipeline: {path} is damaged: of the positions 1 to ")
    assert ended.stderr.count("\n") == 1


def test_ctrl_c_is_one_line_and_says_how_it_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    write_store(path, crashes_of("range", 1))
    words = ["pipeline", "ingest", str(path), str(tmp_path / "out"), "--master", "local[1]"]
    process = subprocess.Popen(
        [sys.executable, "-c", STALLED, *words], start_new_session=True, stderr=subprocess.PIPE, text=True
    )
    try:
        eventually((tmp_path / "stalled").exists, "the task", PATIENCE_S)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all that belong to the command
        _, said = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    assert (process.returncode, said) == (
        130,
        "regroup pipeline: stopped; the same command goes on where it stopped.\n",
    )
