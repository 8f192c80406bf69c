"""Runs the commands of a document, one after the other, in a folder of their own."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

from tests.make_docs.blocks import ROOT, Block

DOCUMENTED_PORTS = (9092, 9093, 9094, 9080)
"""Servers of documents listen here; when the commands are run, other ports take their place. The first ones are in a
row, for several brokers."""
TIMEOUT_S = 600
SCRIPT = "#!{python}\nimport sys\nfrom regroup.cli.main import main\nsys.exit(main())\n"


class Shell:
    """Runs commands as a reader would type them; `regroup` is the one of this repository."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "work"
        self.folder.mkdir()
        program = folder / "bin" / "regroup"
        program.parent.mkdir()
        program.write_text(SCRIPT.format(python=sys.executable))
        program.chmod(0o755)
        self._port = free_ports(len(DOCUMENTED_PORTS))
        self._server: subprocess.Popen[str] | None = None
        # Plans are named from the root of the repository.
        (self.folder / "pipeline").mkdir()
        shutil.copytree(ROOT / "pipeline" / "plans", self.folder / "pipeline" / "plans")
        paths = [str(program.parent), str(Path(sys.executable).parent), os.environ.get("PATH", "")]
        self._environment = os.environ | {"PATH": os.pathsep.join(paths), "NO_COLOR": "1", "COLUMNS": "80"}

    def transcript(self, block: Block) -> str:
        """The commands of a block, each with what it prints now."""
        parts = []
        for command in block.commands:
            lines = self._serve(command) if block.options.serves else self._run(command)
            head = block.options.head
            shown = [*lines[:head], "…"] if head and len(lines) > head else lines
            parts.append("\n".join([f"$ {command}", *map(str.rstrip, shown)]) + "\n")
            parts.append("\n" * bool(shown))
        return "".join(parts).rstrip("\n") + "\n"

    def _run(self, command: str) -> list[str]:
        done = subprocess.run(
            self._as_run(command),
            shell=True,
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        return self._as_documented(done.stdout).splitlines()

    def _serve(self, command: str) -> list[str]:
        """Start a server, and wait until it listens. The log of the server is not part of the document."""
        self.stop_server()
        self._server = subprocess.Popen(
            f"exec {self._as_run(command)}",
            shell=True,
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._server.stdout is not None
        lines = 1 + sum(option in command for option in (" --control ", " --page "))
        return [self._as_documented(self._server.stdout.readline()).rstrip() for _ in range(lines)]

    def stop_server(self) -> None:
        if self._server is not None:
            self._server.send_signal(signal.SIGTERM)
            self._server.wait(TIMEOUT_S)
            assert self._server.stdout is not None
            self._server.stdout.close()
            self._server = None

    def _as_run(self, command: str) -> str:
        command = command.replace(".venv/bin/regroup", "regroup")
        for number, documented in enumerate(DOCUMENTED_PORTS):
            command = command.replace(str(documented), str(self._port + number))
        return command

    def _as_documented(self, output: str) -> str:
        for number, documented in enumerate(DOCUMENTED_PORTS):
            output = re.sub(rf"\b{self._port + number}\b", str(documented), output)
        return output


@contextmanager
def shell() -> Iterator[Shell]:
    """A shell in a fresh folder, which is removed at the end."""
    with tempfile.TemporaryDirectory() as folder:
        made = Shell(Path(folder))
        try:
            yield made
        finally:
            made.stop_server()


def free_ports(count: int) -> int:
    """The first of `count` ports in a row that are free now; processes get different ones."""
    while True:
        with closing(socket.socket()) as drawn:
            drawn.bind(("127.0.0.1", 0))
            first = int(drawn.getsockname()[1])
            with suppress(OSError, OverflowError), ExitStack() as others:
                for port in range(first + 1, first + count):
                    others.enter_context(closing(socket.socket())).bind(("127.0.0.1", port))
                return first


def normalised(content: str, *, as_shape: bool) -> list[str]:
    """The lines without what varies: times, dates, ids, progress; as shapes also without numbers, once each, sorted."""
    content = re.sub(r"\b\d{4}-\d\d-\d\d\b", "DATE", content)
    content = re.sub(r"\b\d\d:\d\d:\d\d(\.\d+)?", "TIME", content)
    content = re.sub(r"\b[0-9a-f]{8}(…|(-[0-9a-f]{4}){3}-[0-9a-f]{12})", "ID", content)
    content = re.sub(r"\bin \d+\.\d+ s\b", "in N s", content)
    lines = [" ".join(line.split()) for line in content.splitlines() if line.strip()]
    # How often a long job reports its progress depends on how busy the machine is.
    lines = [line for line in lines if not re.fullmatch(r"[a-z ]+: [\d,]+ of [\d,]+|folding: [\d,]+", line)]
    if not as_shape:
        return lines
    # Whether a member learns of a rebalance by its Heartbeat or by its SyncGroup depends on that too.
    lines = [line for line in lines if "REBALANCE_IN_PROGRESS" not in line]
    shapes = (re.sub(r"\d+(?:[-,]\d+)*", "N", line.replace(" (leader)", "")) for line in lines)
    return sorted(set(shapes))
