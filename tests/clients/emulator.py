"""`regroup serve` as a process: started, killed, and started again on the same port and the same store."""

import json
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

Found = TypeVar("Found")

TIMEOUT_S = 40.0
"""The longest time that anything here may take."""
POLL_INTERVAL_S = 0.02
FAST_SETTINGS = (
    "group.initial.rebalance.delay.ms=100",
    "group.min.session.timeout.ms=500",
    "group.consumer.min.session.timeout.ms=500",
    "group.consumer.session.timeout.ms=5000",
    "group.consumer.min.heartbeat.interval.ms=100",
    "group.consumer.heartbeat.interval.ms=200",
    "group.consumer.assignment.interval.ms=100",
)
REGROUP_COMMAND = Path(sys.executable).with_name("regroup")
"""The command that is installed beside the Python that runs the tests."""


def eventually(find: Callable[[], Found], what: str, timeout_s: float = TIMEOUT_S) -> Found:
    """Wait until `find` returns something truthy, and return that; the failure says what was waited for."""
    end = time.monotonic() + timeout_s
    while not (found := find()):
        assert time.monotonic() < end, f"waited {timeout_s:g} s for {what}"
        time.sleep(POLL_INTERVAL_S)
    return found


def free_port() -> int:
    """A port without a listener. It stays free for a while, since the system hands out other ports first."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run_regroup(*arguments: str | Path, timeout_s: float = TIMEOUT_S) -> subprocess.CompletedProcess[str]:
    """Run `regroup` with these arguments to its end."""
    return subprocess.run([REGROUP_COMMAND, *arguments], capture_output=True, text=True, timeout=timeout_s, check=False)


class EmulatorProcess:
    """One `regroup serve`, with its log in a file beside the store."""

    def __init__(self, store: Path, *options: str) -> None:
        self.store, self.options, self.port = store, options, 0
        self._log = store.with_suffix(".log")
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it, after the first time on the same port, and wait until it listens."""
        command = [REGROUP_COMMAND, "serve", "--port", str(self.port), "--store", str(self.store), *self.options]
        with self._log.open("a") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self._process.stdout
        line = self._process.stdout.readline()
        assert line.startswith("listening on 127.0.0.1:"), f"{line!r}, and on standard error: {self.log}"
        self.port = int(line.rpartition(":")[2])

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return self._log.read_text()

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, such as SIGSTOP, and do not wait for the end."""
        assert self._process
        self._process.send_signal(number)

    def kill(self) -> None:
        """Send SIGKILL: no connection is closed, nothing is flushed."""
        self._end(signal.SIGKILL)

    def terminate(self) -> int:
        """Send SIGTERM; returns the exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int:
        assert self._process
        assert self._process.stdout
        self._process.send_signal(number)
        code = self._process.wait(TIMEOUT_S)
        self._process.stdout.close()
        return code

    def close(self) -> None:
        """Terminate it if it still runs."""
        if self._process and self._process.returncode is None:
            self.terminate()

    def events(self, group: str | None = None, *, kind: str | None = None) -> list[dict[str, Any]]:
        """The stored events with their payloads, read while the emulator writes."""
        with closing(sqlite3.connect(f"file:{self.store}?mode=ro", uri=True)) as connection:
            rows = connection.execute(
                'SELECT position, type, payload, cause FROM events WHERE "group" IS ? ORDER BY position', (group,)
            ).fetchall()
        return [
            {"position": position, "type": name, "cause": json.loads(cause) if cause else None, **json.loads(payload)}
            for position, name, payload, cause in rows
            if kind in (None, name)
        ]

    def generation(self, group: str) -> int:
        """The generation id of the group's last rebalance; 0 if there was none."""
        started = self.events(group, kind="generation-started")
        return int(started[-1]["generation_id"]) if started else 0

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """The committed offset of each partition."""
        return {
            (topic, int(partition)): int(row["offset"])
            for event in self.events(group, kind="offsets-committed")
            for topic, rows in event["offsets"].items()
            for partition, row in rows.items()
        }
