"""The test kit: from nothing to the first response beside Apache Kafka, a crash among three consumers, and memory.

    python benchmarks/testing.py [--runs N]

Each start is a process of its own; its time runs from before the first import to the first response. The three
consumers are confluent-kafka's, with a heartbeat every 100 ms; what they wait for is theirs: a crash is seen by the
next heartbeat of each. Their time without these waits is that of three members that speak the protocol themselves.
"""

import argparse
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

import confluent_kafka

from regroup.protocol.messages.cluster import ApiVersionsRequest
from regroup.protocol.messages.group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from regroup.testing import Emulator

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.conformance.apache_kafka import KafkaUnavailable, apache_kafka, kafka_jars

NAMES = ("first", "second", "third")
START = """
import time
began = time.perf_counter()
from regroup.testing import Emulator
imported = time.perf_counter()
kafka = Emulator(topics={"orders": 6}).start()
from regroup.protocol.messages.cluster import ApiVersionsRequest
kafka.connect().send(ApiVersionsRequest(), 0)
answered = time.perf_counter()
kafka.close()
print(imported - began, answered - imported, time.perf_counter() - answered, time.process_time())
"""


def measure_start() -> list[float]:
    """Seconds of the import, of the start up to the first response, of the stop, and of CPU for all three."""
    done = subprocess.run([sys.executable, "-c", START], capture_output=True, text=True, check=True)
    return [float(seconds) for seconds in done.stdout.split()]


@contextmanager
def consumer(servers: str, name: str) -> Iterator[None]:
    settings = {"bootstrap.servers": servers, "group.id": "g", "client.id": name, "heartbeat.interval.ms": 100}
    client = confluent_kafka.Consumer(settings | {"log_level": 0})
    client.subscribe(["orders"])
    stop = threading.Event()

    def poll() -> None:
        while not stop.is_set():
            client.poll(0.05)

    thread = threading.Thread(target=poll)
    thread.start()
    yield
    stop.set()
    thread.join()
    client.close()


def measure_real_consumers() -> tuple[float, float]:
    """Seconds until three consumers are Stable, and from the crash of one of them until the others are Stable again."""
    with Emulator(topics={"orders": 6}, wait_timeout_s=60) as kafka, ExitStack() as stack:
        began = time.perf_counter()
        for name in NAMES:
            stack.enter_context(consumer(kafka.bootstrap_servers, name))
        kafka.group("g").wait_until_stable(members=3)
        stable = time.perf_counter()
        kafka.crash_client("second")
        kafka.group("g").wait_until_stable(members=2)
        return stable - began, time.perf_counter() - stable


def measure_members_by_hand() -> float:
    """Seconds in which three members join, one of them is crashed, and the others become Stable again."""
    with Emulator(topics={"orders": 6}) as kafka:
        began = time.perf_counter()
        connections = {name: kafka.connect(name) for name in NAMES}
        ids = dict.fromkeys(NAMES, "")
        for names in (NAMES[:1], NAMES, ("first", "third")):
            if names == ("first", "third"):
                kafka.crash_client("second")
            joins = {}
            # New members first: a leader that joins again while it is alone would not wait for them.
            for name in sorted(names, key=lambda name: bool(ids[name])):
                join = JoinGroupRequest(
                    group_id="g",
                    session_timeout_ms=45_000,
                    rebalance_timeout_ms=60_000,
                    member_id=ids[name],
                    protocol_type="consumer",
                    protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
                )
                joins[name] = connections[name].post(join, 3)
                if not ids[name] and name != "first":
                    kafka.group("g").wait_until(lambda seen, name=name: any(m.client_id == name for m in seen.members))
            joined = {name: future.result(10) for name, future in joins.items()}
            ids |= {name: response.member_id for name, response in joined.items()}
            syncs = [
                connections[name].post(
                    SyncGroupRequest(
                        group_id="g",
                        generation_id=response.generation_id,
                        member_id=response.member_id,
                        assignments=[
                            SyncGroupRequestAssignment(member_id=each, assignment=b"")
                            for each in ids.values()
                            if response.leader == response.member_id and each
                        ],
                    ),
                    3,
                )
                for name, response in joined.items()
            ]
            for sync in syncs:
                sync.result(10)
        kafka.group("g").wait_until_stable(members=2)
        return time.perf_counter() - began


def measure_kafka() -> float:
    """Seconds in which Apache Kafka formats its log and starts, up to its first response. Raises KafkaUnavailable."""
    kafka_jars()  # a download does not count
    began = time.perf_counter()
    with apache_kafka():
        return time.perf_counter() - began


def measure_memory(count: int = 20) -> float:
    """Bytes that one more emulator takes in a process that has one already."""
    with Emulator() as first:
        first.connect().send(ApiVersionsRequest(), 0)
    before = resident_bytes()
    with ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(Emulator(topics={"orders": 6}))
        return (resident_bytes() - before) / count


def resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=9)
    runs = parser.parse_args().runs

    def shown(seconds: list[float]) -> str:
        return f"{median(seconds) * 1000:.0f} ms ({min(seconds) * 1000:.0f} to {max(seconds) * 1000:.0f})"

    starts = [measure_start() for _ in range(runs)]
    for name, seconds in zip(
        ("import", "start to first response", "stop", "CPU of these, with Python itself"),
        zip(*starts, strict=True),
        strict=True,
    ):
        print(f"{name}: {shown(list(seconds))}")
    totals = [imported + answered for imported, answered, *_ in starts]
    print(f"import and start: {shown(totals)}")
    try:
        kafka = [measure_kafka() for _ in range(min(runs, 3))]
        print(f"Apache Kafka formats and starts: {shown(kafka)}, {median(kafka) / median(totals):.0f} times as long")
    except KafkaUnavailable as reason:
        print(f"Apache Kafka is left out: {reason}")
    by_hand = [measure_members_by_hand() for _ in range(runs)]
    print(f"three members by hand join, one is crashed, the rest is Stable: {shown(by_hand)}")
    real = [measure_real_consumers() for _ in range(runs)]
    print(f"three confluent-kafka consumers are Stable: {shown([joined for joined, _ in real])}")
    print(f"one is crashed, the others are Stable: {shown([replaced for _, replaced in real])}")
    print(f"memory of an emulator: {measure_memory() / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
