"""The others that speak Kafka's group protocol, each as a broker on loopback: ours, kfake, librdkafka's mock.

Each is a context manager that gives an address (`HOST:PORT`) and goes away at the end; `NotHere` says why one cannot
run on this machine. Apache Kafka has a file of its own, `apache_kafka.py`.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import confluent_kafka

from tests.clients.emulator import EmulatorProcess

ROOMY = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "100"}
"""Settings under which stories are short."""

CROWDED = {
    "group.initial.rebalance.delay.ms": "1500",
    "group.min.session.timeout.ms": "100",
    "group.max.size": "4",
}
"""Small groups, and a first rebalance that waits."""

FORGETFUL = {
    **ROOMY,
    "offsets.retention.minutes": "1",
    "offsets.retention.check.interval.ms": "700",
}
"""Groups and offsets go soon; it would take the groups of other stories too."""

NARROW = {
    "group.initial.rebalance.delay.ms": "2415",
    "group.min.session.timeout.ms": "100",
    "group.max.size": "3",
}
"""For random courses: one member too many, and a first rebalance that waits, to end late in a slot of half a second."""

KFAKE = "github.com/twmb/franz-go/pkg/kfake@latest"
# The newest kfake may need a newer franz-go than it says.
FRANZ_GO = "github.com/twmb/franz-go@latest"

MOCK = """
import signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
from confluent_kafka.admin import AdminClient
client = AdminClient({"test.mock.num.brokers": int(sys.argv[1]), "log_level": 0})
broker = next(iter(client.list_topics(timeout=10).brokers.values()))
print(f"{broker.host}:{broker.port}", flush=True)
sys.stdin.read()
"""


class NotHere(Exception):
    """This machine cannot run the peer; the text says what is missing."""


class Regroup(EmulatorProcess):
    """`regroup serve`, which may be stopped and started again on the same port and store."""

    version = version("kafka-regroup")

    def stop(self) -> None:
        """End it in good order."""
        self.terminate()


@contextmanager
def regroup(settings: Mapping[str, str], *, brokers: int = 1) -> Iterator[Regroup]:
    """Our own broker, or a cluster of them, with a fresh store."""
    with tempfile.TemporaryDirectory(prefix="regroup-conformance-") as folder:
        words = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
        # As a broker of today: by default regroup serves old versions too, which Kafka 4 does not.
        words += ["--broker-version", "4.4", "--log-level", "error", "--brokers", str(brokers)]
        broker = Regroup(Path(folder, "regroup.db"), *words)
        try:
            broker.start()
            yield broker
        finally:
            broker.stop()


def kfake_built(folder: Path) -> tuple[Path, str]:
    """The launcher beside this file, built with the newest kfake; and its version."""
    if shutil.which("go") is None:
        raise NotHere("kfake needs go on the path")
    shutil.copy(Path(__file__).parent / "kfake" / "main.go", folder)
    for words in (
        ["mod", "init", "launcher"],
        ["get", KFAKE, FRANZ_GO],
        ["mod", "tidy"],
        ["build", "-o", "kfake", "."],
    ):
        done = subprocess.run(["go", *words], cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise NotHere(f"go {words[0]} failed: {done.stderr.strip()[-400:]}")
    listed = ["go", "list", "-m", "-f", "{{.Version}}", KFAKE.split("@", maxsplit=1)[0]]
    return folder / "kfake", subprocess.run(
        listed, cwd=folder, capture_output=True, text=True, check=True
    ).stdout.strip()


@contextmanager
def kfake(*, brokers: int = 1) -> Iterator[tuple[str, str]]:
    """Address and version of franz-go's fake cluster."""
    with tempfile.TemporaryDirectory(prefix="regroup-kfake-") as folder:
        program, which = kfake_built(Path(folder))
        process = _started([str(program), str(brokers)])
        try:
            yield _first_line(process), which
        finally:
            _stopped(process)


@contextmanager
def librdkafka_mock(*, brokers: int = 1) -> Iterator[str]:
    """Address of the mock cluster inside librdkafka."""
    process = _started([sys.executable, "-c", MOCK, str(brokers)])
    try:
        yield _first_line(process)
    finally:
        _stopped(process)


def librdkafka_version() -> str:
    """As it names itself."""
    return str(confluent_kafka.libversion()[0])


def _started(command: list[str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    )


def _first_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    if not line:
        raise NotHere(f"{process.args!r} ended with {process.wait()}")
    return line


def _stopped(process: "subprocess.Popen[str]") -> None:
    process.send_signal(signal.SIGINT)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
