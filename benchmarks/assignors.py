"""How long the assignors take, beside those of kafka-python and aiokafka, in the same run on the same input.

    .venv/bin/python benchmarks/assignors.py             groups of up to 500 members and 20,000 partitions
    .venv/bin/python benchmarks/assignors.py --large     and up to 1,000,000 partitions (without clients)
    .venv/bin/python benchmarks/assignors.py --sweep     hundreds of small groups; for each assignor the worst ratios

Every figure is the median, in milliseconds, of the runs that fit into about a second, and of one where a single run
takes longer. The contestants take turns, so that a busy machine is as busy for all. Reading the user data is part of
it, as it is in a leader; a dash is a client that was not asked, has no such assignor, or failed. The metadata is made
once, as a leader keeps it from one rebalance to the next; the first deal, in which our partitions get their names, is
a row of its own with --large. "One leaves" starts from the fresh assignment of the same assignor. The ratio says how
many times as long as ours the client takes; below 1 ours is slower. The sweep compares the quickest of many runs, each
of up to twenty calls, since a single call of a few microseconds is mostly noise.
"""

import argparse
import gc
import logging
import random
import statistics
import time
from collections.abc import Callable, Iterator
from enum import Enum
from itertools import product
from types import SimpleNamespace
from typing import Any, NamedTuple

from aiokafka.coordinator.assignors.range import RangePartitionAssignor as AioRange
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor as AioRoundRobin
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor as AioSticky
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor as PyCooperative
from kafka.coordinator.assignors.range import RangePartitionAssignor as PyRange
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor as PyRoundRobin
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor as PySticky

from regroup.assignors.interface import Assignor, AssignorMember, ClusterMetadata, LastAssignment, RebalanceProtocol
from regroup.assignors.registry import assignor_named
from regroup.protocol.consumer.subscription import TopicPartition

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
MOST_WORK_FOR_STICKY = 1_000
"""Members times topics times partitions; beyond it the clients take minutes for the sweep."""
ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky", "sticky-before-2.6")


class Metadata:
    """A cluster as both clients ask for it."""

    def __init__(self, sizes: dict[str, int]) -> None:
        self.sizes = sizes

    def topics(self) -> set[str]:
        return set(self.sizes)

    def partitions_for_topic(self, topic: str) -> set[int]:
        return set(range(self.sizes[topic]))


class Kind(Enum):
    """Who subscribes to what: all to everything, every other not to the last topic, anything, each to one topic."""

    EQUAL = "equal"
    UNEQUAL = "unequal"
    RANDOM = "random"
    APART = "apart"


def group(shape: Shape, kind: Kind) -> tuple[dict[str, int], Subscriptions]:
    """Topic sizes and subscriptions."""
    topics = tuple(f"topic-{number:04d}" for number in range(shape.topics))
    draw = random.Random(1)
    own: Subscriptions = {}
    for index in range(shape.members):
        own[f"consumer-{index:05d}"] = {
            Kind.EQUAL: topics,
            Kind.UNEQUAL: topics if index % 2 else topics[:-1],
            Kind.RANDOM: tuple(sorted(draw.sample(topics, draw.randint(1, len(topics))))),
            Kind.APART: (topics[index % len(topics)],),
        }[kind]
    return dict.fromkeys(topics, shape.partitions), own


def ours(assignor: Assignor, sizes: dict[str, int], own: Subscriptions, had: Had) -> Callable[[], Any]:
    cooperative = RebalanceProtocol.COOPERATIVE in assignor.supported_protocols
    members = {}
    for name, topics in own.items():
        last = LastAssignment(tuple(had[name]), 1) if name in had else None
        data = assignor.subscription_user_data(topics, last)
        members[name] = AssignorMember(
            topics, data, tuple(had[name]) if last and cooperative else (), 1 if last else -1
        )
    cluster = ClusterMetadata(sizes)

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
Measured = Iterator[tuple[str, dict[str, list[float]]]]


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


def take_turns(assigns: dict[str, Callable[[], Any]], at_most: int = 200, calls: int = 1) -> dict[str, list[float]]:
    """Milliseconds of a call in each run of each contestant; one that has used up its time is not asked again."""
    taken: dict[str, list[float]] = {who: [] for who in assigns}
    for _ in range(at_most):
        for who, assign in assigns.items():
            if not taken[who] or sum(taken[who]) + taken[who][-1] < BUDGET_S * 1000:
                begin = time.perf_counter()
                for _ in range(calls):
                    assign()
                taken[who].append((time.perf_counter() - begin) * 1000 / calls)
    return taken


def partitions_of(answer: Any) -> list[TopicPartition]:
    return answer if isinstance(answer, list) else [TopicPartition(*each) for each in answer.partitions()]


def measure(
    name: str, sizes: dict[str, int], own: Subscriptions, *, clients: bool, at_most: int = 200, calls: int = 1
) -> Measured:
    """The milliseconds of each contestant: the very first deal, later ones, and those after one member left."""
    assigns: dict[str, Callable[[], Any]] = {}
    dealt: dict[str, Had] = {}
    first: dict[str, list[float]] = {}
    makers = {who: make for who, make in contestants(name) if clients or who == "ours"}
    for who, make in makers.items():
        assign = make(sizes, own, {})
        gc.collect()
        begin = time.perf_counter()
        try:
            answer = assign()
        except Exception:  # noqa: BLE001 (kafka-python's roundrobin fails where subscriptions differ)
            continue
        first[who] = [(time.perf_counter() - begin) * 1000]
        assigns[who] = assign
        dealt[who] = {name: partitions_of(share) for name, share in answer.items()}
    yield "first", first
    yield "fresh", take_turns(assigns, at_most, calls)
    if "sticky" in name:
        left = dict(list(own.items())[1:])
        again = {who: makers[who](sizes, left, dealt[who]) for who in assigns}
        yield "one leaves", take_turns(again, at_most, calls)


def sweep(name: str) -> None:
    """Small groups of every shape: how often a client was quicker, and where that was most so."""
    rows: list[tuple[float, str]] = []
    for members, topics, partitions in product((2, 3, 5, 8, 20, 50), (1, 2, 3, 5, 10, 20), (1, 3, 6, 12, 30)):
        shape = Shape(members, topics, partitions)
        work = members * topics * partitions
        if "sticky" in name and work > MOST_WORK_FOR_STICKY:
            continue
        for kind in Kind if topics > 1 else [Kind.EQUAL]:
            sizes, own = group(shape, kind)
            at_most = max(3, min(40, 20_000 // work))
            calls = 1 if "sticky" in name else max(1, 2_000 // work)
            for phase, taken in measure(name, sizes, own, clients=True, at_most=at_most, calls=min(calls, 20)):
                for client in taken.keys() - {"ours"} if phase != "first" else ():
                    ratio = min(taken[client]) / min(taken["ours"])
                    rows.append((ratio, f"{ratio:.2f}  {client}, {kind.value}, {shape}, {phase}"))
    rows.sort()
    slower = sum(ratio < 1 for ratio, _ in rows)
    print(f"{name}: {len(rows)} comparisons, {slower} below 1; the median ratio is {rows[len(rows) // 2][0]:.1f}")
    for _, text in rows[:3]:
        print(f"    {text}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--large", action="store_true", help="also 20,000 to 1,000,000 partitions, without the clients")
    parser.add_argument("--sweep", action="store_true", help="small groups of many shapes in place of the table")
    parser.add_argument("--only", help="one assignor")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    names = [name for name in ASSIGNORS if arguments.only in (None, name)]
    if arguments.sweep:
        for name in names:
            sweep(name)
        return
    print(LINE.format(*HEADINGS))
    for shape in SMALL + (MIDDLE + LARGE if arguments.large else []):
        for name in names:
            if not (name == "sticky-before-2.6" and shape in LARGE):
                for kind in (Kind.EQUAL, Kind.UNEQUAL):
                    print_rows(name, shape, kind)


def print_rows(name: str, shape: Shape, kind: Kind) -> None:
    for phase, taken in measure(name, *group(shape, kind), clients=shape in SMALL):
        if phase == "first" and shape not in LARGE:
            continue
        median = {who: statistics.median(runs) for who, runs in taken.items()}
        cells = [f"{median['ours']:,.2f}"]
        for client in ("kafka-python", "aiokafka"):
            if client in median:
                cells += [f"{median[client]:,.2f}", f"{median[client] / median['ours']:,.1f}"]
            else:
                cells += ["-", "-"]
        print(LINE.format(name, kind.value, str(shape), phase, *cells), flush=True)


if __name__ == "__main__":
    main()
