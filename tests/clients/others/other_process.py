"""Consumers that are not written in Python: how each is started, and how its output is read."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import pytest

from tests.clients.consumer_process import ConsumerProcess

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "regroup"
"""The folder of the downloads, outside the project."""
KAFKAJS = "2.2.4"
JAVA_CLIENT = "4.1.1"
"""The version in pom.xml."""
JAVA_FOLDER = f"kafka-clients-{JAVA_CLIENT}-with-log"
DOWNLOAD_S = 240

OutputMessage = dict[str, Any]
ReadLine = Callable[[str], Iterator[OutputMessage]]


class OtherClientOptions(NamedTuple):
    """The settings of a consumer."""

    address: str
    group: str
    topic: str
    session_timeout_ms: int = 5_000
    instance_id: str | None = None


class OtherClientProcess(ConsumerProcess):
    """Any command. `read` turns a line of its output or its errors into the messages of a Python consumer."""

    def __init__(
        self,
        command: Sequence[str | Path],
        environment: dict[str, str],
        read: ReadLine,
        log: Path,
        library_log: Path | None = None,
    ) -> None:
        self.output: list[OutputMessage] = []
        self._log = log
        self._library_log = library_log
        self._read_line = read
        log.touch()
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ | environment
        )
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def errors(self) -> str:
        """Its standard error, and the log of its library if that is another file."""
        own = self._library_log.read_text() if self._library_log and self._library_log.exists() else ""
        return super().errors + own

    def _read(self) -> None:
        assert self._process.stdout
        with self._process.stdout as lines, self._log.open("w") as log:
            for line in lines:
                log.write(line)
                log.flush()
                self.output.extend(self._read_line(line))


def read_json(line: str) -> Iterator[OutputMessage]:
    """The messages that our own programs print, without the lines of the library."""
    if line.startswith('{"what"'):
        yield json.loads(line)


def read_kcat(line: str) -> Iterator[OutputMessage]:
    """Records as JSON on one stream, rebalances as text on the other."""
    if line.startswith("{"):
        record = json.loads(line)
        value = record["payload"]
        yield {"what": "record", "value": value, **{name: record[name] for name in ("topic", "partition", "offset")}}
    elif "rebalanced" in line:
        what = "assigned" if "assigned:" in line else "revoked"
        listed = re.findall(r"(\S+) \[(\d+)\]", line.rpartition(":")[2])
        yield {"what": what, "partitions": [[topic, int(partition)] for topic, partition in listed]}


def skip_without(*programs: str) -> None:
    """Skip the test if a program is not installed."""
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")


def downloaded(folder: str, *command: str) -> Path:
    """A folder of the cache, which this command fills once; if it fails, the test is skipped."""
    target = CACHE / folder
    if not target.exists():
        unfinished = target.with_name(f"{folder}.{os.getpid()}")
        unfinished.mkdir(parents=True)
        done = subprocess.run([*command, unfinished], capture_output=True, text=True, timeout=DOWNLOAD_S, check=False)
        if done.returncode:
            shutil.rmtree(unfinished)
            pytest.skip(f"{command[0]} could not download {folder}: {(done.stderr or done.stdout)[-200:]!r}")
        if not target.exists():
            unfinished.rename(target)
    return target


def kcat(options: OtherClientOptions, log: Path) -> OtherClientProcess:
    """kcat, the command line of librdkafka, with auto commit."""
    skip_without("kcat")
    settings = {
        "session.timeout.ms": options.session_timeout_ms,
        "heartbeat.interval.ms": 200,
        "auto.commit.interval.ms": 100,
        "auto.offset.reset": "earliest",
        **({"group.instance.id": options.instance_id} if options.instance_id else {}),
    }
    arguments = [word for name, value in settings.items() for word in ("-X", f"{name}={value}")]
    command = ["kcat", "-b", options.address, *arguments, "-u", "-J", "-G", options.group, options.topic]
    return OtherClientProcess(command, {}, read_kcat, log)


def kafkajs(options: OtherClientOptions, log: Path) -> OtherClientProcess:
    """kafkajs, the client for Node written in JavaScript; it has no static members."""
    skip_without("node", "npm")
    folder = downloaded(
        f"kafkajs-{KAFKAJS}", "npm", "install", "--no-audit", "--no-fund", f"kafkajs@{KAFKAJS}", "--prefix"
    )
    command = ["node", HERE / "consume.cjs", options.address, options.group, options.topic]
    command.append(str(options.session_timeout_ms))
    return OtherClientProcess(command, {"NODE_PATH": str(folder / "node_modules")}, read_json, log)


def java(assignor: str) -> Callable[[OtherClientOptions, Path], OtherClientProcess]:
    """Apache Kafka's own consumer with one of its assignors."""

    def start(options: OtherClientOptions, log: Path) -> OtherClientProcess:
        skip_without("java", "mvn")
        fetch = ("sh", "-c", f"mvn -q -B -f {HERE / 'pom.xml'} dependency:copy-dependencies -DoutputDirectory=$0")
        folder = downloaded(JAVA_FOLDER, *fetch)
        library_log = log.with_suffix(".library.log")
        command = ["java", f"-Dorg.slf4j.simpleLogger.logFile={library_log}", "-cp", f"{folder}/*"]
        command += [HERE / "Consume.java", *arguments_of(assignor, options)]
        return OtherClientProcess(command, {}, read_json, log, library_log)

    return start


def franz_go(assignor: str) -> Callable[[OtherClientOptions, Path], OtherClientProcess]:
    """franz-go, the client for Go written in Go."""

    def start(options: OtherClientOptions, log: Path) -> OtherClientProcess:
        skip_without("go")
        program = log.with_name("franz-go")
        build = ["go", "build", "-C", HERE / "franz_go", "-o", program, "."]
        done = subprocess.run(build, capture_output=True, text=True, timeout=DOWNLOAD_S, check=False)
        if done.returncode:
            pytest.skip(f"go could not build franz-go: {done.stderr[-200:]!r}")
        return OtherClientProcess([program, *arguments_of(assignor, options)], {}, read_json, log)

    return start


def arguments_of(assignor: str, options: OtherClientOptions) -> list[str]:
    """The arguments that our programs for Java and Go share."""
    instance_id = [options.instance_id] if options.instance_id else []
    return [
        options.address,
        options.group,
        options.topic,
        assignor,
        str(options.session_timeout_ms),
        *instance_id,
    ]


OTHER_CLIENTS: dict[str, Callable[[OtherClientOptions, Path], OtherClientProcess]] = {
    "kcat": kcat,
    "kafkajs": kafkajs,
    "java-range": java("RangeAssignor"),
    "java-cooperative-sticky": java("CooperativeStickyAssignor"),
}
