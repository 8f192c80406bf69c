"""How long the assignors take, beside those of kafka-python and aiokafka, in the same run on the same input.

    .venv/bin/python benchmarks/assignors.py             groups of up to 500 members and 20,000 partitions
    .venv/bin/python benchmarks/assignors.py --large     and up to 1,000,000 partitions (without clients)

Every figure is the median, in milliseconds, of the runs that fit into about a second, and of one where a single run
takes longer. Reading the user data is part of it, as it is in a leader; a dash is a client that was
not asked, has no such assignor, or failed. "One leaves" starts from the fresh assignment
of the same assignor. The ratio says how many times as long as ours the client takes; below 1 ours is slower.
"""

import argparse
import gc
import logging
import statistics
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

from aiokafka.coordinator.assignors.range import RangePartitionAssignor as AioRange
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor as AioRoundRobin
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor as AioSticky
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor as PyCooperative
from kafka.coordinator.assignors.range import RangePartitionAssignor as PyRange
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor as PyRoundRobin
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor as PySticky

from regroup.assignors.interface import Assignor, Cluster, LastAssignment, Member, RebalanceProtocol
from regroup.assignors.registry import assignor_named
from regroup.protocol.consumer_protocol import TopicPartition

BUDGET_S = 1.0
Subscriptions = dict[str, tuple[str, ...]]
Had = dict[str, list[TopicPartition]]


class Shape(NamedTuple):
    """How large a group is."""

    members: int
    topics: int
    partitions: int

    def __str__(self) -> str:
        return f"{self.members}x{self.topics}x{self.partitions}"


LINE = "{:<18} {:<8} {:<13} {:<10} {:>10} {:>13} {:>8} {:>10} {:>8}"
HEADINGS = ("median ms", "subscr.", "members…", "phase", "ours", "kafka-python", "ratio", "aiokafka", "ratio")
SMALL = [Shape(5, 3, 6), Shape(20, 10, 12), Shape(500, 100, 20)]
MIDDLE = [Shape(500, 100, 200)]
LARGE = [Shape(2000, 500, 2000)]


class Metadata:
    """A cluster as both clients ask for it."""

    def __init__(self, sizes: dict[str, int]) -> None:
        self.sizes = sizes

    def topics(self) -> set[str]:
        return set(self.sizes)

    def partitions_for_topic(self, topic: str) -> set[int]:
        return set(range(self.sizes[topic]))


def group(shape: Shape, *, equal: bool) -> tuple[dict[str, int], Subscriptions]:
    """Topic sizes and subscriptions; where they are not equal, every other member lacks the last topic."""
    topics = tuple(f"topic-{number:04d}" for number in range(shape.topics))
    names = [f"consumer-{number:05d}" for number in range(shape.members)]
    own = {name: topics if equal or index % 2 else topics[:-1] for index, name in enumerate(names)}
    return dict.fromkeys(topics, shape.partitions), own


def ours(assignor: Assignor, sizes: dict[str, int], own: Subscriptions, had: Had) -> Callable[[], Any]:
    cooperative = RebalanceProtocol.COOPERATIVE in assignor.supported_protocols
    members = {}
    for name, topics in own.items():
        last = LastAssignment(tuple(had[name]), 1) if name in had else None
        data = assignor.subscription_user_data(topics, last)
        members[name] = Member(topics, data, tuple(had[name]) if last and cooperative else (), 1 if last else -1)
    cluster = Cluster(sizes)

    return lambda: assignor.assign(cluster, members)


def kafka_python(client: Any, sizes: dict[str, int], own: Subscriptions, had: Had) -> Callable[[], Any]:
    members = []
    for name, topics in own.items():
        assignor = client()
        if name in had:
            assignor.on_assignment(SimpleNamespace(partitions=lambda name=name: had[name]), 1)
        members.append(SimpleNamespace(member_id=name, group_instance_id=None, metadata=assignor.metadata(topics)))
        if hasattr(members[-1].metadata.user_data, "encode"):
            members[-1].metadata.user_data = members[-1].metadata.user_data.encode()

    return lambda: client().assign(Metadata(sizes), members)


def aiokafka(client: Any, sizes: dict[str, int], own: Subscriptions, had: Had) -> Callable[[], Any]:
    if client is AioSticky:
        members = {name: client._metadata(list(topics), had.get(name), 1) for name, topics in own.items()}
    else:
        members = {name: client.metadata(topics) for name, topics in own.items()}

    return lambda: client.assign(Metadata(sizes), members)


Maker = Callable[[dict[str, int], Subscriptions, Had], Callable[[], Any]]


def contestants(name: str) -> Iterator[tuple[str, Maker]]:
    yield "ours", lambda sizes, own, had: ours(assignor_named(name), sizes, own, had)
    clients = {
        "range": (PyRange, AioRange),
        "roundrobin": (PyRoundRobin, AioRoundRobin),
        "sticky": (PySticky, AioSticky),
        "sticky-before-2.6": (PySticky, AioSticky),
        "cooperative-sticky": (PyCooperative, None),
    }[name]
    yield "kafka-python", lambda sizes, own, had: kafka_python(clients[0], sizes, own, had)
    if clients[1] is not None:
        yield "aiokafka", lambda sizes, own, had: aiokafka(clients[1], sizes, own, had)


def median_ms(assign: Callable[[], Any]) -> tuple[float, Had]:
    taken: list[float] = []
    gc.collect()
    while not taken or (sum(taken) + taken[-1] < BUDGET_S and len(taken) < 200):
        begin = time.perf_counter()
        dealt = assign()
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken) * 1000, {name: partitions_of(answer) for name, answer in dealt.items()}


def partitions_of(answer: Any) -> list[TopicPartition]:
    return answer if isinstance(answer, list) else [TopicPartition(*each) for each in answer.partitions()]


def measure(name: str, shape: Shape, *, equal: bool, clients: bool) -> Iterator[tuple[str, dict[str, float]]]:
    """The milliseconds of each contestant, fresh and after one member left."""
    sizes, own = group(shape, equal=equal)
    fresh: dict[str, float] = {}
    leaves: dict[str, float] = {}
    for who, make in contestants(name):
        if who != "ours" and not clients:
            continue
        try:
            fresh[who], dealt = median_ms(make(sizes, own, {}))
        except Exception:  # noqa: BLE001 (kafka-python's roundrobin fails where subscriptions differ)
            continue
        if "sticky" in name:
            left = dict(list(own.items())[1:])
            leaves[who], _ = median_ms(make(sizes, left, dealt))
    yield "fresh", fresh
    if leaves:
        yield "one leaves", leaves


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--large", action="store_true", help="also 20,000 to 1,000,000 partitions, without the clients")
    parser.add_argument("--only", help="one assignor")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    print(LINE.format(*HEADINGS))
    for shape in SMALL + (MIDDLE + LARGE if arguments.large else []):
        for name in ("range", "roundrobin", "sticky", "cooperative-sticky", "sticky-before-2.6"):
            if arguments.only in (None, name) and not (name == "sticky-before-2.6" and shape in LARGE):
                for equal in (True, False):
                    print_rows(name, shape, equal=equal)


def print_rows(name: str, shape: Shape, *, equal: bool) -> None:
    for phase, taken in measure(name, shape, equal=equal, clients=shape in SMALL):
        cells = [f"{taken['ours']:,.2f}"]
        for client in ("kafka-python", "aiokafka"):
            if client in taken:
                cells += [f"{taken[client]:,.2f}", f"{taken[client] / taken['ours']:,.1f}"]
            else:
                cells += ["-", "-"]
        print(LINE.format(name, "equal" if equal else "unequal", str(shape), phase, *cells), flush=True)


if __name__ == "__main__":
    main()
