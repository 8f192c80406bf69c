"""A real Mosquitto on its own port, which a test can kill and start again."""

import shutil
import socket
import subprocess
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest

TIMEOUT_S = 40
MOSQUITTO = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")
needs_mosquitto = pytest.mark.skipif(
    MOSQUITTO is None, reason="there is no mosquitto (Debian: apt-get install mosquitto)"
)


def free_port() -> int:
    with closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Mosquitto:
    """`lines` are added to its configuration; without any, it allows anonymous clients."""

    def __init__(self, folder: Path, *lines: str) -> None:
        self.port = free_port()
        self._config_file = folder / f"mosquitto-{self.port}.conf"
        words = [
            f"listener {self.port} 127.0.0.1",
            *(lines or ["allow_anonymous true"]),
            "max_queued_messages 0",
            "max_inflight_messages 1000",
            "set_tcp_nodelay true",
        ]
        self._config_file.write_text("\n".join(words) + "\n")
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> "Mosquitto":
        assert MOSQUITTO is not None
        words = [MOSQUITTO, "-c", str(self._config_file)]
        end_s = time.monotonic() + TIMEOUT_S
        while time.monotonic() < end_s:
            if (
                self.process is None or self.process.poll() is not None
            ):  # another process may have its port for a moment
                self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            with suppress(OSError), closing(socket.create_connection(("127.0.0.1", self.port), timeout=1)):
                return self
            time.sleep(0.01)
        raise AssertionError("mosquitto does not listen")

    def kill(self) -> None:
        """Kill -9: what it held in memory is lost."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None
