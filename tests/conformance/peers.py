"""Other brokers with Kafka's group protocol, on loopback: regroup, kfake and librdkafka's mock cluster.

Each is a context manager that starts the broker, gives its address (`HOST:PORT`) and stops it at the end.
PeerUnavailable says why one cannot run on this machine. Apache Kafka is in `apache_kafka.py`.
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

from regroup.conformance.stories import CASES
from tests.clients.emulator import EmulatorProcess

FAST_SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "100",
}
"""Settings for short stories."""

SMALL_GROUP_SETTINGS = {
    "group.initial.rebalance.delay.ms": "1500",
    "group.min.session.timeout.ms": "100",
    "group.max.size": "4",
    "group.consumer.max.size": "3",
}
"""Settings for small groups, and for a first rebalance with a delay."""

POLICY_SETTINGS = [
    {**FAST_SETTINGS, "group.consumer.migration.policy": policy, **more}
    for policy, more in (("disabled", {}), ("upgrade", {}), ("downgrade", {"group.max.size": "2"}))
]
"""Settings for each policy of migration between the protocols that is not the default."""

SHORT_RETENTION_SETTINGS = {
    **FAST_SETTINGS,
    "offsets.retention.minutes": "1",
    "offsets.retention.check.interval.ms": "700",
}
"""Settings for the expiry of offsets and groups; they would remove the groups of other stories, too."""

RANDOM_COURSE_SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "group.max.size": "3",
    "group.consumer.max.size": "3",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "100",
}
"""Settings for random courses: less room than members, short sessions, and no initial delay."""

TWO_BROKER_CASES = [
    CASES[name] for name in ("validation.not-coordinator", "offset-fetch.not-coordinator", "list.scope-is-one-broker")
]
"""Stories that a single broker cannot show."""

KFAKE = "github.com/twmb/franz-go/pkg/kfake@latest"
# The newest kfake may need a newer franz-go than its go.mod requires.
FRANZ_GO = "github.com/twmb/franz-go@latest"

MOCK_PROGRAM = """
import signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
from confluent_kafka.admin import AdminClient
client = AdminClient({"test.mock.num.brokers": int(sys.argv[1]), "log_level": 0})
broker = next(iter(client.list_topics(timeout=10).brokers.values()))
print(f"{broker.host}:{broker.port}", flush=True)
sys.stdin.read()
"""


class PeerUnavailable(Exception):
    """The broker cannot run on this machine; the text says why."""


class RegroupBroker(EmulatorProcess):
    """`regroup serve`, which can be stopped and started again on the same port and store."""

    version = version("kafka-regroup")

    def stop(self) -> None:
        """Stop it with SIGTERM."""
        self.terminate()


@contextmanager
def regroup_broker(settings: Mapping[str, str], *, brokers: int = 1) -> Iterator[RegroupBroker]:
    """A broker of regroup, or a cluster of several, with a new store."""
    with tempfile.TemporaryDirectory(prefix="regroup-conformance-") as folder:
        options = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
        options += ["--log-level", "error", "--brokers", str(brokers)]
        broker = RegroupBroker(Path(folder, "regroup.db"), *options)
        try:
            broker.start()
            yield broker
        finally:
            broker.stop()


def build_kfake(folder: Path) -> tuple[Path, str]:
    """Build `kfake/main.go` with the newest kfake; the program and the version of kfake."""
    if shutil.which("go") is None:
        raise PeerUnavailable("kfake needs go on the path")
    shutil.copy(Path(__file__).parent / "kfake" / "main.go", folder)
    for arguments in (
        ["mod", "init", "launcher"],
        ["get", KFAKE, FRANZ_GO],
        ["mod", "tidy"],
        ["build", "-o", "kfake", "."],
    ):
        done = subprocess.run(["go", *arguments], cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise PeerUnavailable(f"go {arguments[0]} failed: {done.stderr.strip()[-400:]}")
    list_version = ["go", "list", "-m", "-f", "{{.Version}}", KFAKE.split("@", maxsplit=1)[0]]
    listed = subprocess.run(list_version, cwd=folder, capture_output=True, text=True, check=True)
    return folder / "kfake", listed.stdout.strip()


@contextmanager
def kfake_cluster(*, brokers: int = 1) -> Iterator[tuple[str, str]]:
    """The address and the version of kfake, the fake cluster of franz-go."""
    with tempfile.TemporaryDirectory(prefix="regroup-kfake-") as folder:
        program, kfake_version = build_kfake(Path(folder))
        process = _start([str(program), str(brokers)])
        try:
            yield _first_line(process), kfake_version
        finally:
            _stop(process)


@contextmanager
def librdkafka_mock_cluster(*, brokers: int = 1) -> Iterator[str]:
    """The address of the mock cluster of librdkafka."""
    process = _start([sys.executable, "-c", MOCK_PROGRAM, str(brokers)])
    try:
        yield _first_line(process)
    finally:
        _stop(process)


def librdkafka_version() -> str:
    """The version of librdkafka."""
    return str(confluent_kafka.libversion()[0])


def _start(command: list[str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    )


def _first_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    if not line:
        raise PeerUnavailable(f"{process.args!r} ended with exit code {process.wait()}")
    return line


def _stop(process: "subprocess.Popen[str]") -> None:
    process.send_signal(signal.SIGINT)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
