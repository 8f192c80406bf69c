"""The servers that the benchmarks measure, each in a process of its own on a free port of this machine."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent
PEERS = FOLDER.parent / "peers"
ROOT = FOLDER.parents[1]
"""The root of the repository, where the servers start."""
MOCK_CLUSTER = """
import time
from confluent_kafka import Producer
producer = Producer({"bootstrap.servers": "unused:1", "test.mock.num.brokers": 1, "log_level": 0})
print("listening on", next(iter(producer.list_topics(timeout=10).brokers.values())), flush=True)
time.sleep(86400)
"""


class Unavailable(Exception):
    """Raised for a program that this machine does not have; the message names it."""


class Server(NamedTuple):
    """A running server: its process, and the address at which it listens."""

    host: str
    port: int
    process_id: int

    def cpu_s(self) -> float:
        """CPU seconds of the server's process so far, for user and system; 0 where there is no /proc."""
        try:
            stat = Path(f"/proc/{self.process_id}/stat").read_text(encoding="ascii")
        except FileNotFoundError:
            return 0.0
        fields = stat.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def compile_client(folder: Path, name: str) -> Path:
    """Compile `heartbeats.c` or `load.c` and return the program. Raises Unavailable."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise Unavailable("there is no C compiler (cc), and a client in Python would be slower than the servers")
    program = folder / name
    subprocess.run([compiler, "-O2", "-std=gnu11", "-o", program, FOLDER / f"{name}.c"], check=True)
    return program


def compile_kfake(folder: Path) -> Path:
    """Compile franz-go's kfake from the Go module proxy and return the program. Raises Unavailable."""
    if shutil.which("go") is None:
        raise Unavailable("there is no Go, which kfake is written in")
    program = folder / "kfake"
    build = subprocess.run(
        ["go", "build", "-o", program, "."], cwd=PEERS / "kfake", capture_output=True, text=True, check=False
    )
    if build.returncode:
        raise Unavailable(f"kfake cannot be built: {build.stderr.strip().splitlines()[-1]}")
    return program


def regroup_command(store: Path, initial_delay_ms: int) -> list[str]:
    serve = [sys.executable, "-m", "regroup.cli", "serve", "--port", "0", "--log-level", "error"]
    return [*serve, "--store", str(store), "--set", f"group.initial.rebalance.delay.ms={initial_delay_ms}"]


def server_commands(folder: Path) -> dict[str, list[str]]:
    """The command that starts each server, by name. Prints one line if kfake is unavailable."""
    commands = {
        "regroup": [*regroup_command(folder / "bench.db", initial_delay_ms=0), "--loop", "asyncio"],
        "uvloop": [*regroup_command(folder / "uvloop.db", initial_delay_ms=0), "--loop", "uvloop"],
        "mock": [sys.executable, "-c", MOCK_CLUSTER],
        "bare": [sys.executable, str(PEERS / "bare_protocol.py")],
    }
    try:
        commands["kfake"] = [str(compile_kfake(folder))]
    except Unavailable as reason:
        print(f"Without kfake: {reason}.")
    return commands


@contextmanager
def running_server(command: list[str], cwd: Path | None = None) -> Iterator[Server]:
    """Start a server, wait until it prints the address on which it listens, and stop it at the end."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=cwd) as process:
        try:
            assert process.stdout is not None
            words = process.stdout.readline().replace("/", " ").split()
            if not words:
                raise Unavailable(f"{command[0]} ended without listening")
            address = next(word for word in words if word.count(":") == 1)
            host, _, port = address.partition(":")
            yield Server(host, int(port), process.pid)
        finally:
            process.terminate()
