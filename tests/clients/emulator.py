"""`regroup serve` as a process of its own: started, killed, started again on the same port and the same store."""

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

SECONDS = 40.0
"""As long as anything here may take before the test has failed."""
LOOK_AGAIN_S = 0.02
QUICK = (
    "group.initial.rebalance.delay.ms=100",
    "group.min.session.timeout.ms=500",
)
REGROUP = Path(sys.executable).with_name("regroup")
"""The command as it is installed beside the Python that runs the tests."""


def eventually(look: Callable[[], Found], what: str, seconds: float = SECONDS) -> Found:
    """What `look` finds, as soon as it is truthy; fails with `what` was waited for."""
    end = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < end, f"waited {seconds:g} s for {what}"
        time.sleep(LOOK_AGAIN_S)
    return found


def free_port() -> int:
    """A port that nobody listens on. It stays free a while, since the system hands out others first."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def regroup(*words: str | Path, seconds: float = SECONDS) -> subprocess.CompletedProcess[str]:
    """Run a command of `regroup` to its end."""
    return subprocess.run([REGROUP, *words], capture_output=True, text=True, timeout=seconds, check=False)


class EmulatorProcess:
    """One `regroup serve`. Its log goes to a file beside the store, where `log` finds it."""

    def __init__(self, store: Path, *options: str) -> None:
        self.store, self.options, self.port = store, options, 0
        self._log = store.with_suffix(".log")
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it, on the port that it had before if it had one, and wait until it listens."""
        words = ["serve", "--port", str(self.port), "--store", str(self.store), *self.options]
        with self._log.open("a") as log:
            self._process = subprocess.Popen([REGROUP, *words], stdout=subprocess.PIPE, stderr=log, text=True)
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

    def kill(self) -> None:
        """SIGKILL: no goodbye to anybody, nothing flushed."""
        self._end(signal.SIGKILL)

    def terminate(self) -> int:
        """SIGTERM; the exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> int:
        assert self._process
        assert self._process.stdout
        self._process.send_signal(how)
        code = self._process.wait(SECONDS)
        self._process.stdout.close()
        return code

    def close(self) -> None:
        """End it if it still runs."""
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
        """Of the group's last rebalance; 0 if there was none."""
        started = self.events(group, kind="generation-started")
        return int(started[-1]["generation"]) if started else 0

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """The offset of each partition as the last commit left it."""
        return {
            (topic, int(partition)): int(row["offset"])
            for event in self.events(group, kind="offsets-committed")
            for topic, rows in event["offsets"].items()
            for partition, row in rows.items()
        }
