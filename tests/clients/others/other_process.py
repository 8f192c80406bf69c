"""Consumers that are not written in Python: how each is started, and what its output means."""

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
"""What is downloaded is kept here, outside the project."""
KAFKAJS = "2.2.4"
JAVA_CLIENT = "4.1.1"
"""As in pom.xml."""
DOWNLOAD_S = 240

Said = dict[str, Any]
Read = Callable[[str], Iterator[Said]]


class Wanted(NamedTuple):
    """What a consumer is to read, and as whom."""

    address: str
    group: str
    topic: str
    session_timeout_ms: int = 5_000
    instance_id: str | None = None


class OtherProcess(ConsumerProcess):
    """Any command; `read` turns a line of its output or of its errors into what a Python consumer would have said."""

    def __init__(self, words: Sequence[str | Path], environment: dict[str, str], read: Read, log: Path) -> None:
        self.said: list[Said] = []
        self._log = log
        self._read_line = read
        self._process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ | environment
        )
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout
        with self._process.stdout as lines, self._log.open("w") as log:
            for line in lines:
                log.write(line)
                log.flush()
                self.said.extend(self._read_line(line))


def read_json(line: str) -> Iterator[Said]:
    """What our own programs print; a library's own words are left aside."""
    if line.startswith('{"what"'):
        yield json.loads(line)


def read_kcat(line: str) -> Iterator[Said]:
    """Records as JSON on one stream, rebalances in words on the other."""
    if line.startswith("{"):
        record = json.loads(line)
        value = record["payload"]
        yield {"what": "record", "value": value, **{name: record[name] for name in ("topic", "partition", "offset")}}
    elif "rebalanced" in line:
        what = "assigned" if "assigned:" in line else "revoked"
        listed = re.findall(r"(\S+) \[(\d+)\]", line.rpartition(":")[2])
        yield {"what": what, "partitions": [[topic, int(partition)] for topic, partition in listed]}


def needs(*programs: str) -> None:
    """Skip, with the reason, where a program is absent."""
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")


def downloaded(folder: str, *words: str) -> Path:
    """A folder in the cache that this command fills once; where it cannot, the test is skipped."""
    target = CACHE / folder
    if not target.exists():
        unfinished = target.with_name(f"{folder}.{os.getpid()}")
        unfinished.mkdir(parents=True)
        done = subprocess.run([*words, unfinished], capture_output=True, text=True, timeout=DOWNLOAD_S, check=False)
        if done.returncode:
            shutil.rmtree(unfinished)
            pytest.skip(f"{words[0]} could not download {folder}: {(done.stderr or done.stdout)[-200:]!r}")
        if not target.exists():
            unfinished.rename(target)
    return target


def kcat(wanted: Wanted, log: Path) -> OtherProcess:
    """librdkafka at the prompt; it commits by itself."""
    needs("kcat")
    settings = {
        "session.timeout.ms": wanted.session_timeout_ms,
        "heartbeat.interval.ms": 200,
        "auto.commit.interval.ms": 100,
        "auto.offset.reset": "earliest",
        **({"group.instance.id": wanted.instance_id} if wanted.instance_id else {}),
    }
    words = [word for name, value in settings.items() for word in ("-X", f"{name}={value}")]
    return OtherProcess(
        ["kcat", "-b", wanted.address, *words, "-u", "-J", "-G", wanted.group, wanted.topic], {}, read_kcat, log
    )


def kafkajs(wanted: Wanted, log: Path) -> OtherProcess:
    """The client of Node that is written in JavaScript. It knows no static members."""
    needs("node", "npm")
    folder = downloaded(
        f"kafkajs-{KAFKAJS}", "npm", "install", "--no-audit", "--no-fund", f"kafkajs@{KAFKAJS}", "--prefix"
    )
    words = ["node", HERE / "consume.cjs", wanted.address, wanted.group, wanted.topic, str(wanted.session_timeout_ms)]
    return OtherProcess(words, {"NODE_PATH": str(folder / "node_modules")}, read_json, log)


def java(assignor: str) -> Callable[[Wanted, Path], OtherProcess]:
    """Apache Kafka's own consumer, with one of its assignors."""

    def start(wanted: Wanted, log: Path) -> OtherProcess:
        needs("java", "mvn")
        fetch = ("sh", "-c", f"mvn -q -B -f {HERE / 'pom.xml'} dependency:copy-dependencies -DoutputDirectory=$0")
        folder = downloaded(f"kafka-clients-{JAVA_CLIENT}", *fetch)
        words = ["java", "-cp", f"{folder}/*", HERE / "Consume.java", wanted.address, wanted.group, wanted.topic]
        words += [assignor, str(wanted.session_timeout_ms), *([wanted.instance_id] if wanted.instance_id else [])]
        return OtherProcess(words, {}, read_json, log)

    return start


OTHERS: dict[str, Callable[[Wanted, Path], OtherProcess]] = {
    "kcat": kcat,
    "kafkajs": kafkajs,
    "java-range": java("RangeAssignor"),
    "java-cooperative-sticky": java("CooperativeStickyAssignor"),
}
