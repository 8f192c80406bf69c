"""Clients of the consumer protocol (KIP-848) run for minutes on regroup or on Apache Kafka; what they warn of is shown.

    python -m tests.clients.long_run --minutes 5 --broker regroup
    python -m tests.clients.long_run --minutes 5 --broker kafka

The Java client, librdkafka and franz-go run side by side, each in groups of its own. Two consumers of each run from
beginning to end. Beside them others join and crash, restart as static members, and are moved from the classic protocol
to the consumer protocol and back one by one; another subscribes by a regular expression, whose topics become more. The
brokers have the same settings. Of each client the warnings are counted by their texts, in which numbers are left out.
"""

import argparse
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka.admin import AdminClient, NewTopic

from tests.clients.consumer_process import ConsumerProcess
from tests.clients.emulator import FAST_SETTINGS, EmulatorProcess, eventually
from tests.clients.libraries import PRODUCERS, ConsumerOptions
from tests.clients.others.other_process import OtherClientOptions, franz_go, java
from tests.conformance.apache_kafka import KafkaUnavailable, apache_kafka

PARTITIONS: Final = 4
START_TIMEOUT_S: Final = 120.0
SETTLE_TIMEOUT_S: Final = 60.0
CONSUMER: Final = "consumer"
"""Stands for the consumer protocol where others name a classic assignor."""
CLASSIC: Final[Mapping[str, str]] = {"java": "RangeAssignor", "librdkafka": "range", "franz-go": "range"}
"""The clients, and the assignor of each by the classic protocol."""
STATIC_CLIENTS: Final = ("java", "librdkafka")
"""Without franz-go 1.22: it leaves with epoch -2 and without its instance id, which Kafka refuses as well."""
CLIENTS_OF_PATTERNS: Final = ("java", "librdkafka")
"""Without franz-go, which compares topics with patterns itself, and asks for new topics every five minutes."""
SETTINGS: Final[Mapping[str, str]] = {
    **dict(each.split("=", 1) for each in FAST_SETTINGS),
    "group.consumer.session.timeout.ms": "15000",
    "group.consumer.heartbeat.interval.ms": "500",
}
"""Short timeouts; a static consumer starts again within its session."""
SESSION_TIMEOUT_MS: Final = 30_000
"""Of classic members: longer than the next process takes to start."""

OTHERS: Final = {"java": java, "franz-go": franz_go}
ADDRESS = re.compile(r"\b127\.0\.0\.1:\d+\b")
TIME = re.compile(r"\b\d{2,4}[-/:]\d{2}[-/:]\d{2}(?:[T ]\d{2}:\d{2}:\d{2})?[.,\d]*\b")
ID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b[A-Za-z0-9_-]{22}\b")
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


class LongRun(NamedTuple):
    """What one client did and warned of."""

    client: str
    cycles: int
    """How often members came, crashed, restarted and changed the protocol."""
    records: int
    warnings: Counter[str]


class ClientCourse:
    """The groups of one client on one broker, and the processes of its consumers."""

    def __init__(self, client: str, address: str, folder: Path, stack: ExitStack) -> None:
        self._client, self._address, self._folder, self._stack = client, address, folder, stack
        self._numbers = count(1)
        self._processes: list[ConsumerProcess] = []
        self._topics = AdminClient({"bootstrap.servers": address})
        self.cycles = 0
        self.produced = 0
        self.topic = f"orders-{client}"
        self.create_topic(self.topic, PARTITIONS)

    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic, and wait until it exists."""
        for done in self._topics.create_topics([NewTopic(name, partitions, 1)]).values():
            done.result(START_TIMEOUT_S)

    def start(
        self, group: str, assignor: str = CONSUMER, *, instance_id: str | None = None, pattern: str = ""
    ) -> ConsumerProcess:
        """Start a consumer in one of the client's groups."""
        log = self._folder / f"{self._client}-{next(self._numbers)}.log"
        name = f"{group}-{self._client}"
        if self._client in OTHERS:
            topic = f"~{pattern}" if pattern else self.topic
            options = OtherClientOptions(self._address, name, topic, SESSION_TIMEOUT_MS, instance_id)
            process: ConsumerProcess = OTHERS[self._client](assignor)(options, log)
        else:
            is_new = assignor == CONSUMER
            wanted = ConsumerOptions(
                self._address,
                name,
                () if pattern else [self.topic],
                pattern=pattern,
                assignor="uniform" if is_new else assignor,
                instance_id=instance_id,
                session_timeout_ms=SESSION_TIMEOUT_MS,
                uses_consumer_protocol=is_new,
            )
            process = ConsumerProcess("confluent-kafka", wanted, log)
        self._processes.append(process)
        return self._stack.enter_context(closing(process))

    def produce(self, topic: str | None = None) -> None:
        """Produce a record to each partition of a topic."""
        self.produced += 1
        rows = [(topic or self.topic, partition, f"{self.produced}") for partition in range(PARTITIONS)]
        PRODUCERS["confluent-kafka"](self._address, rows)

    def shared(self, *consumers: ConsumerProcess) -> None:
        """Wait until the consumers have all partitions of the topic together, each as many as any other."""
        everything = {(self.topic, partition) for partition in range(PARTITIONS)}
        least = PARTITIONS // len(consumers)

        def is_shared() -> bool:
            owned = [each.owned_partitions for each in consumers]
            return (
                set().union(*owned) == everything
                and sum(map(len, owned)) == PARTITIONS
                and min(map(len, owned)) >= least
            )

        eventually(is_shared, f"{self._client}: shares of {len(consumers)}", START_TIMEOUT_S)
        self.produce()

    def run(self, duration_s: float) -> LongRun:
        """Run for so long, and a little longer until the last cycle is complete."""
        end_s = time.monotonic() + duration_s
        residents = self.start("long"), self.start("long")
        self.shared(*residents)
        self.create_topic(self._invoices(0), PARTITIONS)
        by_pattern = self.start("pattern", pattern=f"invoices-{self._client}-.*")
        migrating = self.start("moved", CLASSIC[self._client]), self.start("moved", CLASSIC[self._client])
        self.shared(*migrating)
        while time.monotonic() < end_s or not self.cycles:
            self.cycles += 1
            self._crash(residents)
            if self._client in STATIC_CLIENTS:
                self._restart_static()
            if self._client in CLIENTS_OF_PATTERNS:
                self._find_topic(by_pattern, self.cycles)
            migrating = self._move(migrating, CONSUMER if self.cycles % 2 else CLASSIC[self._client])
        for each in (*residents, by_pattern, *migrating):
            each.leave()
        return self._outcome()

    def _crash(self, residents: Sequence[ConsumerProcess]) -> None:
        third = self.start("long")
        self.shared(*residents, third)
        third.kill()
        self.shared(*residents)

    def _restart_static(self) -> None:
        first, second = (self.start("static", instance_id=name) for name in "ab")
        self.shared(first, second)
        second.leave()
        again = self.start("static", instance_id="b")
        self.shared(first, again)
        first.leave()
        again.leave()

    def _invoices(self, number: int) -> str:
        return f"invoices-{self._client}-{number}"

    def _find_topic(self, consumer: ConsumerProcess, number: int) -> None:
        name = self._invoices(number)
        self.create_topic(name, PARTITIONS)
        eventually(lambda: (name, 0) in consumer.owned_partitions, f"{self._client}: a new topic", SETTLE_TIMEOUT_S)
        self.produce(name)

    def _move(self, members: Sequence[ConsumerProcess], assignor: str) -> tuple[ConsumerProcess, ConsumerProcess]:
        """Replace two members, one after the other, by two that speak another protocol."""
        first, second = members
        first.leave()
        third = self.start("moved", assignor)
        self.shared(second, third)
        second.leave()
        fourth = self.start("moved", assignor)
        self.shared(third, fourth)
        return third, fourth

    def _outcome(self) -> LongRun:
        warnings = Counter(plain(line) for each in self._processes for line in each.warnings)
        return LongRun(self._client, self.cycles, sum(len(each.records) for each in self._processes), warnings)


def plain(warning: str) -> str:
    """A warning without what differs from run to run: times, addresses, ids and numbers."""
    for pattern, replacement in ((ADDRESS, "HOST:PORT"), (TIME, "TIME"), (ID, "ID"), (NUMBER, "N")):
        warning = pattern.sub(replacement, warning)
    return warning.strip()


def run_clients(clients: Sequence[str], address: str, folder: Path, duration_s: float) -> list[LongRun]:
    """Run these clients side by side."""
    with ExitStack() as stack, ThreadPoolExecutor(len(clients)) as threads:
        runs = [threads.submit(ClientCourse(client, address, folder, stack).run, duration_s) for client in clients]
        return [each.result() for each in runs]


@contextmanager
def running_broker(name: str, folder: Path) -> Iterator[str]:
    """A broker with short timeouts; yields its address."""
    if name == "kafka":
        with apache_kafka(SETTINGS) as kafka:
            yield kafka.address
    else:
        settings = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
        with closing(EmulatorProcess(folder / "long.db", *settings)) as emulator:
            emulator.start()
            yield emulator.address
            if "WARN" in emulator.log:
                print(emulator.log)


def print_runs(broker: str, runs: Sequence[LongRun]) -> None:
    """Print how much each client did, and how often each warning came."""
    for run in runs:
        print(
            f"{broker:8} {run.client:11} {run.cycles:3} cycles {run.records:6} records "
            f"{run.warnings.total():5} warnings",
            flush=True,
        )
        for text, number in run.warnings.most_common():
            print(f"    {number:5}  {text}")


def main() -> int:
    """Run clients on one broker."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5.0, help="how long they run at least (default 5)")
    parser.add_argument("--broker", choices=("regroup", "kafka"), default="regroup", help="(default regroup)")
    parser.add_argument("--client", action="append", choices=sorted(CLASSIC), help="only this one; may be repeated")
    options = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory() as folder, running_broker(options.broker, Path(folder)) as address:
            print_runs(
                options.broker,
                run_clients(options.client or sorted(CLASSIC), address, Path(folder), options.minutes * 60),
            )
    except KafkaUnavailable as reason:
        print(reason, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
