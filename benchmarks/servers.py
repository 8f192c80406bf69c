"""The coordinators that are measured beside regroup, each in a process of its own on a free port of this machine."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
MOCK = """
import time
from confluent_kafka import Producer
producer = Producer({"bootstrap.servers": "nobody:1", "test.mock.num.brokers": 1, "log_level": 0})
print("listening on", next(iter(producer.list_topics(timeout=10).brokers.values())), flush=True)
time.sleep(86400)
"""


class Unavailable(Exception):
    """Something that this machine does not have; the message says what."""


def compiled_client(folder: Path) -> Path:
    """The client in C. Raises Unavailable."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise Unavailable("there is no C compiler (cc), and a client in Python would be slower than what it measures")
    program = folder / "heartbeats"
    subprocess.run([compiler, "-O2", "-std=gnu11", "-o", program, HERE / "heartbeats.c"], check=True)
    return program


def compiled_kfake(folder: Path) -> Path:
    """franz-go's kfake, from the Go module proxy. Raises Unavailable."""
    if shutil.which("go") is None:
        raise Unavailable("there is no Go, which kfake is written in")
    program = folder / "kfake"
    built = subprocess.run(
        ["go", "build", "-o", program, "."], cwd=HERE / "kfake", capture_output=True, text=True, check=False
    )
    if built.returncode:
        raise Unavailable(f"kfake cannot be built: {built.stderr.strip().splitlines()[-1]}")
    return program


def regroup(store: Path, initial_delay_ms: int) -> list[str]:
    serve = [sys.executable, "-m", "regroup.cli", "serve", "--port", "0", "--log-level", "error"]
    return [*serve, "--store", str(store), "--set", f"group.initial.rebalance.delay.ms={initial_delay_ms}"]


def commands(folder: Path) -> dict[str, list[str]]:
    """How each coordinator is started, by name. Says in one line which one is missing."""
    python = sys.executable
    found = {
        "regroup": regroup(folder / "bench.db", initial_delay_ms=0),
        "uvloop": [*regroup(folder / "uvloop.db", initial_delay_ms=0), "--loop", "uvloop"],
        "mock": [python, "-c", MOCK],
        "bare": [python, str(HERE / "bare.py")],
    }
    try:
        found["kfake"] = [str(compiled_kfake(folder))]
    except Unavailable as reason:
        print(f"Without kfake: {reason}.")
    return found


@contextmanager
def running(command: list[str]) -> Iterator[tuple[tuple[str, int], int]]:
    """Its address, once it says that it listens, and its process id; it is killed at the end."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            words = process.stdout.readline().replace("/", " ").split()
            if not words:
                raise Unavailable(f"{command[0]} ended without listening")
            address = next(word for word in words if word.count(":") == 1)
            host, _, port = address.partition(":")
            yield (host, int(port)), process.pid
        finally:
            process.kill()
