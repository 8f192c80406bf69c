"""Watching a consumer that runs as a process of its own."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from threading import Thread
from typing import Any

from tests.clients.emulator import SECONDS
from tests.clients.libraries import Seen, Wish

Owned = set[tuple[str, int]]


class ConsumerProcess:
    """What it has said so far is in `said`; the rest is read off that."""

    def __init__(self, library: str, wish: Wish, log: Path) -> None:
        self.said: list[dict[str, Any]] = []
        self._log = log
        words = [
            sys.executable,
            "-m",
            "tests.clients.consume",
            json.dumps({"library": library, **wish._asdict()}),
        ]
        with log.open("a") as errors:
            self._process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=errors, text=True)
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout
        with self._process.stdout as lines:
            self.said.extend(map(json.loads, lines))

    @property
    def owned(self) -> Owned:
        """The partitions that it has been given and has not lost since."""
        owned: Owned = set()
        for each in list(self.said):
            partitions = {(topic, partition) for topic, partition in each.get("partitions", ())}
            if each["what"] == "assigned":
                owned |= partitions
            else:
                owned -= partitions
        return owned

    @property
    def records(self) -> list[Seen]:
        return [Seen(**{k: v for k, v in each.items() if k != "what"}) for each in self.told("record")]

    def told(self, what: str) -> list[dict[str, Any]]:
        return [each for each in list(self.said) if each["what"] == what]

    @property
    def errors(self) -> str:
        """What it wrote to standard error."""
        return self._log.read_text()

    def kill(self) -> None:
        """SIGKILL; what it had said by then is read to the end."""
        self._end(signal.SIGKILL)

    def leave(self) -> None:
        """SIGTERM, on which it closes its consumer."""
        code = self._end(signal.SIGTERM)
        assert code == 0, self.errors

    def _end(self, how: signal.Signals) -> int:
        self._process.send_signal(how)
        code = self._process.wait(SECONDS)
        self._reader.join(SECONDS)
        return code

    def close(self) -> None:
        if self._process.returncode is None:
            self.kill()
