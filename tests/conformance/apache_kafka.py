"""Apache Kafka, one broker on loopback, for tests and for trying things out.

    python tests/conformance/apache_kafka.py --set group.max.size=10        # prints HOST:PORT, runs until Ctrl-C

Maven downloads the newest 4.x once, into a cache outside the checkout: the folder that `REGROUP_KAFKA_HOME` names, or
`regroup/kafka` below `XDG_CACHE_HOME`. `REGROUP_KAFKA_VERSION` names another version.
"""

import argparse
import asyncio
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from regroup.protocol.client import ClientConnection, ConnectionLost
from regroup.protocol.messages.cluster import ApiVersionsRequest

NEWEST_VERSION = "[4.0,5.0)"
QUICK_START_OPTIONS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""For tests, which need a broker soon and not for long."""
START_TIMEOUT_S = 90

# The broker never needs kafka-tools-api, and not every release has published it.
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>regroup</groupId><artifactId>apache-kafka</artifactId><version>1</version><packaging>pom</packaging>
<dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{version}</version>
<exclusions><exclusion><groupId>org.apache.kafka</groupId><artifactId>kafka-tools-api</artifactId></exclusion></exclusions>
</dependency>
<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
</dependencies></project>
"""
COPY_DEPENDENCIES = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"

BROKER_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "log.segment.bytes": str(16 * 1024 * 1024),
    "offsets.topic.segment.bytes": str(16 * 1024 * 1024),
    "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),
    "controlled.shutdown.enable": "false",
}


class KafkaUnavailable(Exception):
    """Apache Kafka cannot run on this machine; the text says why."""


def missing_requirement() -> str | None:
    """The programs that this machine lacks, as a sentence; None if it can run Apache Kafka."""
    missing = [name for name in ("java", "mvn") if shutil.which(name) is None]
    return f"Apache Kafka needs {' and '.join(missing)} on the path" if missing else None


def cache_folder() -> Path:
    """The folder in which the jars are cached."""
    named = os.environ.get("REGROUP_KAFKA_HOME")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(named) if named else base / "regroup" / "kafka"


def kafka_jars() -> Path:
    """The folder with the jars of the broker, downloaded by Maven if they are not there yet."""
    if (reason := missing_requirement()) is not None:
        raise KafkaUnavailable(reason)
    wanted = os.environ.get("REGROUP_KAFKA_VERSION", NEWEST_VERSION)
    folder = cache_folder() / wanted.strip("[]()").replace(",", "-")
    with file_lock(folder.with_name(f"{folder.name}.lock")):
        if not any(folder.glob("kafka_2.13-*.jar")):
            _download(wanted, folder)
    return folder


@contextmanager
def file_lock(lock: Path) -> Iterator[None]:
    """A lock between processes: the first of several test processes downloads for all. It ends with its process."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _download(version: str, folder: Path) -> None:
    """Download all jars, or none: the folder is replaced at the end."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        (Path(work) / "pom.xml").write_text(POM.format(version=version), encoding="utf-8")
        command = ["mvn", "-q", "-B", COPY_DEPENDENCIES, f"-DoutputDirectory={work}/jars"]
        done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise KafkaUnavailable(f"Maven could not resolve Apache Kafka {version}: {done.stdout.strip()[-800:]}")
        shutil.rmtree(folder, ignore_errors=True)
        (Path(work) / "jars").rename(folder)


def version_of(folder: Path) -> str:
    """The version of the broker, from the name of its jar."""
    return next(iter(sorted(folder.glob("kafka_2.13-*.jar")))).stem.removeprefix("kafka_2.13-")


class ApacheKafkaBroker:
    """One broker with its own settings and its own log directory, which can be stopped and started again.

    It is a cluster of its own, or the second broker of the cluster that it is `controlled_by`, which must be running.
    """

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, str] | None = None,
        controlled_by: "ApacheKafkaBroker | None" = None,
        jvm_options: Sequence[str] = QUICK_START_OPTIONS,
    ) -> None:
        self._jars = kafka_jars()
        self._folder = folder
        self._jvm_options = jvm_options
        self._port, self._controller_port = _free_ports(2)
        self._process: subprocess.Popen[bytes] | None = None
        self._write_properties(settings or {}, controlled_by)
        self._java("kafka.tools.StorageTool", "format", "--cluster-id", "cmVncm91cC1rYWZrYS0wMQ", "--config")

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    @property
    def version(self) -> str:
        return version_of(self._jars)

    def _write_properties(self, settings: Mapping[str, str], controlled_by: "ApacheKafkaBroker | None") -> None:
        controller = f"127.0.0.1:{(controlled_by or self)._controller_port}"
        addresses = {
            "controller.quorum.voters": f"1@{controller}",
            "listeners": f"PLAINTEXT://{self.address}" + ("" if controlled_by else f",CONTROLLER://{controller}"),
            "log.dirs": str(self._folder / "log"),
        }
        role = {"process.roles": "broker", "node.id": "2"} if controlled_by else {}
        lines = [f"{name}={value}" for name, value in (BROKER_SETTINGS | addresses | role | dict(settings)).items()]
        self._properties.write_text("\n".join(lines) + "\n", encoding="utf-8")

    @property
    def _properties(self) -> Path:
        return self._folder / "server.properties"

    @property
    def _output(self) -> Path:
        return self._folder / "output.txt"

    def _command(self, main: str, *arguments: str) -> list[str]:
        return [
            "java",
            *self._jvm_options,
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-cp",
            f"{self._jars}/*",
            main,
            *arguments,
            str(self._properties),
        ]

    def _java(self, main: str, *arguments: str) -> None:
        done = subprocess.run(self._command(main, *arguments), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise KafkaUnavailable(f"{main} failed: {(done.stdout + done.stderr).strip()[-800:]}")

    def start(self) -> None:
        """Start and wait until the broker answers ApiVersions."""
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                self._command("kafka.Kafka"), stdout=output, stderr=output, start_new_session=True
            )
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while not asyncio.run(_is_ready(self._port)):
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                output_text = self._output.read_text(encoding="utf-8", errors="replace")
                self.stop()
                raise KafkaUnavailable(f"Apache Kafka did not start: {output_text.strip()[-800:]}")
            time.sleep(0.1)

    def stop(self) -> None:
        """Stop the broker with SIGTERM, or with SIGKILL if that takes too long."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for probe in sockets:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in sockets]
    finally:
        for probe in sockets:
            probe.close()


async def _is_ready(port: int) -> bool:
    try:
        connection = await ClientConnection.open("127.0.0.1", port)
    except OSError:
        return False
    try:
        async with asyncio.timeout(5):
            await connection.send(ApiVersionsRequest(), 0)
    except (ConnectionLost, TimeoutError):
        return False
    finally:
        await connection.close()
    return True


@contextmanager
def apache_kafka(
    settings: Mapping[str, str] | None = None,
    controlled_by: ApacheKafkaBroker | None = None,
    jvm_options: Sequence[str] = QUICK_START_OPTIONS,
) -> Iterator[ApacheKafkaBroker]:
    """A running broker, whose folder is deleted at the end. KafkaUnavailable if it cannot run here."""
    with tempfile.TemporaryDirectory(prefix="regroup-kafka-") as folder:
        broker = ApacheKafkaBroker(Path(folder), settings, controlled_by, jvm_options)
        try:
            broker.start()
            yield broker
        finally:
            broker.stop()


def main() -> int:
    """Run one broker, or a cluster of two, until Ctrl-C."""
    parser = argparse.ArgumentParser(description="Run Apache Kafka on loopback until Ctrl-C.")
    parser.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], help="a broker setting")
    parser.add_argument("--brokers", type=int, choices=(1, 2), default=1, help="brokers of the cluster")
    parser.add_argument("--jvm-options", default=" ".join(QUICK_START_OPTIONS), help="options of java, for all brokers")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    settings = dict(pair.split("=", 1) for pair in arguments.set)
    options = arguments.jvm_options.split()
    try:
        with ExitStack() as stack:
            broker = stack.enter_context(apache_kafka(settings, jvm_options=options))
            if arguments.brokers > 1:
                broker = stack.enter_context(apache_kafka(settings, controlled_by=broker, jvm_options=options))
            print(f"Apache Kafka {broker.version} at {broker.address}", flush=True)
            signal.pause()
    except KafkaUnavailable as reason:
        print(reason, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
