"""How long the assignors take, beside those of kafka-python and aiokafka, in the same run on the same input.

    .venv/bin/python benchmarks/pure/assignors.py             groups of up to 500 members and 20,000 partitions
    .venv/bin/python benchmarks/pure/assignors.py --large     and up to 1,000,000 partitions (without clients)
    .venv/bin/python benchmarks/pure/assignors.py --sweep     hundreds of small groups; their worst ratios

Every figure is the median, in milliseconds, of the runs that fit into about a second, and of one where a single run
takes longer. The implementations run in turn, so that a busy machine disturbs all alike. Decoding the user data is
included, as it is in a leader; a dash is a client that was not measured, has no such assignor, or failed. The metadata
is made once, as a leader keeps it from one rebalance to the next; the first assignment, in which regroup names the
partitions, is a row of its own with --large. "One leaves" starts from the fresh assignment of the same assignor. The
ratio is the client's time divided by regroup's; below 1 regroup is slower. The sweep compares the quickest of many
runs, each of up to twenty calls, since a single call of a few microseconds is mostly noise.
"""

import argparse
import gc
import itertools
import logging
import random
import statistics
import time
from collections.abc import Callable, Iterator
from enum import Enum
from functools import partial
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
Assignments = dict[str, list[TopicPartition]]


class Shape(NamedTuple):
    """The size of a group: members, topics, and partitions of each topic."""

    members: int
    topics: int
    partitions: int

    def __str__(self) -> str:
        return f"{self.members}x{self.topics}x{self.partitions}"


LINE = "{:<18} {:<8} {:<13} {:<10} {:>10} {:>13} {:>8} {:>10} {:>8}"
HEADINGS = ("median ms", "subscr.", "members…", "phase", "regroup", "kafka-python", "ratio", "aiokafka", "ratio")
SMALL = [Shape(5, 3, 6), Shape(20, 10, 12), Shape(500, 100, 20)]
MEDIUM = [Shape(500, 100, 200)]
LARGE = [Shape(2000, 500, 2000)]
MAX_STICKY_PRODUCT = 1_000
"""The largest product of members, topics and partitions of a topic in the sweep.

Beyond it the clients take minutes.
"""
ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky", "sticky-before-2.6")


class ClientMetadata:
    """Cluster metadata in the form that kafka-python and aiokafka read."""

    def __init__(self, partition_counts: dict[str, int]) -> None:
        self.partition_counts = partition_counts

    def topics(self) -> set[str]:
        return set(self.partition_counts)

    def partitions_for_topic(self, topic: str) -> set[int]:
        return set(range(self.partition_counts[topic]))


class SubscriptionKind(Enum):
    """What the members of a group subscribe to.

    EQUAL: every member to all topics. UNEQUAL: every other member to all topics but the last. RANDOM: each to random
    topics. ONE_TOPIC: each to one topic.
    """

    EQUAL = "equal"
    UNEQUAL = "unequal"
    RANDOM = "random"
    ONE_TOPIC = "one topic"


def make_group(shape: Shape, kind: SubscriptionKind) -> tuple[dict[str, int], Subscriptions]:
    """Draw a group of this shape: the partition counts by topic, and the subscriptions by member."""
    topics = tuple(f"topic-{number:04d}" for number in range(shape.topics))
    rng = random.Random(1)
    subscriptions: Subscriptions = {}
    for index in range(shape.members):
        subscriptions[f"consumer-{index:05d}"] = {
            SubscriptionKind.EQUAL: topics,
            SubscriptionKind.UNEQUAL: topics if index % 2 else topics[:-1],
            SubscriptionKind.RANDOM: tuple(sorted(rng.sample(topics, rng.randint(1, len(topics))))),
            SubscriptionKind.ONE_TOPIC: (topics[index % len(topics)],),
        }[kind]
    return dict.fromkeys(topics, shape.partitions), subscriptions


def prepare_regroup(
    assignor: Assignor, partition_counts: dict[str, int], subscriptions: Subscriptions, last_assignments: Assignments
) -> Callable[[], Any]:
    is_cooperative = RebalanceProtocol.COOPERATIVE in assignor.supported_protocols
    members = {}
    for name, topics in subscriptions.items():
        last = LastAssignment(tuple(last_assignments[name]), 1) if name in last_assignments else None
        user_data = assignor.subscription_user_data(topics, last)
        owned = last.partitions if last and is_cooperative else ()
        members[name] = AssignorMember(topics, user_data, owned, 1 if last else -1)
    metadata = ClusterMetadata(partition_counts)

    return lambda: assignor.assign(metadata, members)


def prepare_kafka_python(
    assignor_class: Any, partition_counts: dict[str, int], subscriptions: Subscriptions, last_assignments: Assignments
) -> Callable[[], Any]:
    members = []
    for name, topics in subscriptions.items():
        assignor = assignor_class()
        if name in last_assignments:
            assignor.on_assignment(SimpleNamespace(partitions=lambda name=name: last_assignments[name]), 1)
        members.append(SimpleNamespace(member_id=name, group_instance_id=None, metadata=assignor.metadata(topics)))
        if hasattr(members[-1].metadata.user_data, "encode"):
            members[-1].metadata.user_data = members[-1].metadata.user_data.encode()

    return lambda: assignor_class().assign(ClientMetadata(partition_counts), members)


def prepare_aiokafka(
    assignor_class: Any, partition_counts: dict[str, int], subscriptions: Subscriptions, last_assignments: Assignments
) -> Callable[[], Any]:
    if assignor_class is AioSticky:
        members = {
            name: assignor_class._metadata(list(topics), last_assignments.get(name), 1)
            for name, topics in subscriptions.items()
        }
    else:
        members = {name: assignor_class.metadata(topics) for name, topics in subscriptions.items()}

    return lambda: assignor_class.assign(ClientMetadata(partition_counts), members)


Preparation = Callable[[dict[str, int], Subscriptions, Assignments], Callable[[], Any]]
"""Prepares an assignment from partition counts, subscriptions and former assignments; returns the call to be timed."""


def implementations(name: str) -> Iterator[tuple[str, Preparation]]:
    yield "regroup", partial(prepare_regroup, assignor_named(name))
    kafka_python_class, aiokafka_class = {
        "range": (PyRange, AioRange),
        "roundrobin": (PyRoundRobin, AioRoundRobin),
        "sticky": (PySticky, AioSticky),
        "sticky-before-2.6": (PySticky, AioSticky),
        "cooperative-sticky": (PyCooperative, None),
    }[name]
    yield "kafka-python", partial(prepare_kafka_python, kafka_python_class)
    if aiokafka_class is not None:
        yield "aiokafka", partial(prepare_aiokafka, aiokafka_class)


def time_in_turn(assigns: dict[str, Callable[[], Any]], max_runs: int = 200, calls: int = 1) -> dict[str, list[float]]:
    """By implementation, the milliseconds of a call in each of its runs.

    The implementations run in turn, each again until its share of time is used.
    """
    durations: dict[str, list[float]] = {implementation: [] for implementation in assigns}
    for _ in range(max_runs):
        for implementation, assign in assigns.items():
            runs = durations[implementation]
            if not runs or sum(runs) + runs[-1] < BUDGET_S * 1000:
                started = time.perf_counter()
                for _ in range(calls):
                    assign()
                runs.append((time.perf_counter() - started) * 1000 / calls)
    return durations


def partitions_of(assignment: Any) -> list[TopicPartition]:
    return assignment if isinstance(assignment, list) else [TopicPartition(*each) for each in assignment.partitions()]


def measure(
    name: str,
    partition_counts: dict[str, int],
    subscriptions: Subscriptions,
    *,
    with_clients: bool,
    max_runs: int = 200,
    calls: int = 1,
) -> Iterator[tuple[str, dict[str, list[float]]]]:
    """Yield the milliseconds of each implementation: first assignment, later ones, and after one member left."""
    assigns: dict[str, Callable[[], Any]] = {}
    assignments: dict[str, Assignments] = {}
    first: dict[str, list[float]] = {}
    preparations = {each: prepare for each, prepare in implementations(name) if with_clients or each == "regroup"}
    for implementation, prepare in preparations.items():
        assign = prepare(partition_counts, subscriptions, {})
        gc.collect()
        started = time.perf_counter()
        try:
            result = assign()
        except Exception:  # noqa: BLE001 (kafka-python's roundrobin fails where subscriptions differ)
            continue
        first[implementation] = [(time.perf_counter() - started) * 1000]
        assigns[implementation] = assign
        assignments[implementation] = {member: partitions_of(assignment) for member, assignment in result.items()}
    yield "first", first
    yield "fresh", time_in_turn(assigns, max_runs, calls)
    if "sticky" in name:
        remaining = dict(list(subscriptions.items())[1:])
        assigns = {each: preparations[each](partition_counts, remaining, assignments[each]) for each in assigns}
        yield "one leaves", time_in_turn(assigns, max_runs, calls)


def sweep(name: str) -> None:
    """Measure small groups of every shape, and print how often a client was quicker, and where that was most so."""
    rows: list[tuple[float, str]] = []
    for members, topics, partitions in itertools.product((2, 3, 5, 8, 20, 50), (1, 2, 3, 5, 10, 20), (1, 3, 6, 12, 30)):
        shape = Shape(members, topics, partitions)
        product = members * topics * partitions
        if "sticky" in name and product > MAX_STICKY_PRODUCT:
            continue
        for kind in SubscriptionKind if topics > 1 else [SubscriptionKind.EQUAL]:
            group = make_group(shape, kind)
            max_runs = max(3, min(40, 20_000 // product))
            calls = 1 if "sticky" in name else max(1, min(20, 2_000 // product))
            for phase, durations in measure(name, *group, with_clients=True, max_runs=max_runs, calls=calls):
                for client in durations.keys() - {"regroup"} if phase != "first" else ():
                    ratio = min(durations[client]) / min(durations["regroup"])
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
    for shape in SMALL + (MEDIUM + LARGE if arguments.large else []):
        for name in names:
            if not (name == "sticky-before-2.6" and shape in LARGE):
                for kind in (SubscriptionKind.EQUAL, SubscriptionKind.UNEQUAL):
                    print_rows(name, shape, kind)


def print_rows(name: str, shape: Shape, kind: SubscriptionKind) -> None:
    for phase, durations in measure(name, *make_group(shape, kind), with_clients=shape in SMALL):
        if phase == "first" and shape not in LARGE:
            continue
        median = {implementation: statistics.median(runs) for implementation, runs in durations.items()}
        cells = [f"{median['regroup']:,.2f}"]
        for client in ("kafka-python", "aiokafka"):
            if client in median:
                cells += [f"{median[client]:,.2f}", f"{median[client] / median['regroup']:,.1f}"]
            else:
                cells += ["-", "-"]
        print(LINE.format(name, kind.value, str(shape), phase, *cells), flush=True)


if __name__ == "__main__":
    main()
