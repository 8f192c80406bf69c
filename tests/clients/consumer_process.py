"""A consumer that runs as a process, and the output from which a test reads its state."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from threading import Thread
from typing import Any

from tests.clients.emulator import TIMEOUT_S
from tests.clients.libraries import ConsumedRecord, ConsumerOptions

WARNING = re.compile(r"^%[0-4]\||\b(WARN|ERROR)\b")
"""What marks a warning in the logs of librdkafka, of the Java client, and of franz-go."""

OwnedPartitions = set[tuple[str, int]]


class ConsumerProcess:
    """`output` holds the lines that the process has printed so far."""

    def __init__(self, library: str, options: ConsumerOptions, log: Path) -> None:
        self.output: list[dict[str, Any]] = []
        self._log = log
        command = [
            sys.executable,
            "-m",
            "tests.clients.consumer_main",
            json.dumps({"library": library, **options._asdict()}),
        ]
        with log.open("a") as errors:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout
        with self._process.stdout as lines:
            self.output.extend(map(json.loads, lines))

    @property
    def owned_partitions(self) -> OwnedPartitions:
        """The partitions that were assigned and not revoked or lost since."""
        owned: OwnedPartitions = set()
        for each in list(self.output):
            partitions = {(topic, partition) for topic, partition in each.get("partitions", ())}
            if each["what"] == "assigned":
                owned |= partitions
            else:
                owned -= partitions
        return owned

    @property
    def records(self) -> list[ConsumedRecord]:
        return [ConsumedRecord(**{k: v for k, v in each.items() if k != "what"}) for each in self.messages("record")]

    def messages(self, what: str) -> list[dict[str, Any]]:
        return [each for each in list(self.output) if each["what"] == what]

    @property
    def errors(self) -> str:
        """Its standard error."""
        return self._log.read_text()

    @property
    def warnings(self) -> list[str]:
        """The lines of its library's log that are a warning or worse."""
        return [line for line in self.errors.splitlines() if WARNING.search(line)]

    def kill(self) -> None:
        """Send SIGKILL, and read the rest of its output."""
        self._end(signal.SIGKILL)

    def leave(self) -> None:
        """Send SIGTERM, on which it closes its consumer."""
        code = self._end(signal.SIGTERM)
        assert code == 0, self.errors

    def _end(self, number: signal.Signals) -> int:
        self._process.send_signal(number)
        code = self._process.wait(TIMEOUT_S)
        self._reader.join(TIMEOUT_S)
        return code

    def close(self) -> None:
        if self._process.returncode is None:
            self.kill()
