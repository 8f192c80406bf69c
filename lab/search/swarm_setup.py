"""Draws the members, topics, settings, network and workload of a plan: everything but its steps."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from random import Random
from typing import Final

from regroup.lab.plan.plan import NO_WORKLOAD, MemberPlan, NetworkPlan
from regroup.members.partitioners import PARTITIONER_CLASSES, PartitionerSettings
from regroup.members.runtime.workload import Workload

DRAWN_MEMBER_NAMES: Final = (
    *("anna", "ben", "carla", "david", "emma", "finn"),
    *("greta", "henry", "ida", "jonas", "klara", "lukas"),
)
DRAWN_TOPICS: Final = ("orders", "payments", "clicks")

ASSIGNOR_MIXES: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "eager": (("range",), ("range", "roundrobin"), ("sticky", "range")),
    "sticky": (("sticky",),),
    "cooperative": (("cooperative-sticky",),),
    "eager or cooperative": (("range", "cooperative-sticky"), ("cooperative-sticky", "range")),
    "on the way to cooperative": (("cooperative-sticky", "range"), ("range",)),
}
"""Sets of assignor lists. Each member of a plan gets one list of the same set; all lists of a set share an assignor."""

SESSION_TIMEOUTS_MS: Final = ((6_000, 2_000), (10_000, 3_000), (10_000, 1_000), (30_000, 3_000), (45_000, 3_000))
"""Pairs of session timeout and heartbeat interval that are drawn, in milliseconds."""
RECORDS_PER_S_TOGETHER: Final = 25
"""Records per second of which a producer, which waits 100 ms, sends two or three together."""
BUILT_IN_SHARE: Final = 1 / 4
"""The share of plans with records whose producers have the built-in partitioner, and small batches."""
BUILT_IN_RECORDS_PER_S: Final = 3
"""Records per second of these producers, so that some are without a response when the next is written; more would take
too long to play."""
LASTING_FAULTS: Final = ("slow-join:{}s", "slow-sync:{}s", "never-sync")
ASSIGNOR_FAULTS: Final = ("assignor-fails", "assignor-forgets", "assignor-doubles")


def draw_topics(rng: Random) -> dict[str, int]:
    """Draw one to three topics with their partition counts. A large topic is rare."""
    count = rng.choices((1, 2, 3), (6, 3, 1))[0]
    return {topic: rng.choice((1, 2, 3, 4, 6, 8, 12)) for topic in DRAWN_TOPICS[:count]}


def draw_settings(rng: Random, members: int) -> dict[str, str | int]:
    """Draw values of the broker settings that operators of Kafka change."""
    settings: dict[str, str | int] = {"group.initial.rebalance.delay.ms": rng.choice((0, 500, 3_000))}
    if rng.random() < 0.1:
        settings["group.max.size"] = max(1, members - rng.randint(0, 2))
    if rng.random() < 0.2:
        settings["offsets.commit.timeout.ms"] = rng.choice((500, 1_000, 10_000))
    return settings


def draw_network(rng: Random) -> NetworkPlan:
    """Draw the latency of a network, from one within a machine to one between continents, with little loss or none."""
    latency_ms = rng.choice((0.5, 1, 1, 5, 20, 100))
    return NetworkPlan(
        latency_ms=latency_ms,
        jitter_ms=rng.choice((0.0, latency_ms, 2 * latency_ms)),
        stall_share=rng.choice((0.0, 0.0, 0.0, 0.001, 0.01)),
        stall_ms=rng.choice((500.0, 5_000.0)),
    )


def draw_workload(rng: Random) -> Workload:
    """Draw a workload for one run of six, since fetches take most of a run's time.

    Its rates are low: a few records suffice to show that one is skipped.
    """
    if rng.random() < 5 / 6:
        return NO_WORKLOAD
    return Workload(
        records_per_s=rng.choice((0.2, 0.5, 1, 2)),
        keys=rng.choice((0, 0, 7)),
        process_ms=rng.choice((0, 0, 10, 200)),
        max_poll_records=rng.choice((2, 10, 500)),
    )


def within_poll_interval(workload: Workload, members: Collection[MemberPlan]) -> Workload:
    """The workload, with batches that these members process in half of the shortest `max.poll.interval.ms` at most.

    A member with a longer batch leaves its group, joins again, gets the same records, and so on: with Kafka as well,
    such a group never becomes Stable once it has fallen behind.
    """
    if not workload.process_ms or not members:
        return workload
    shortest_ms = min(each.max_poll_interval_ms for each in members)
    records = int(shortest_ms // (2 * workload.process_ms))
    return replace(workload, max_poll_records=min(workload.max_poll_records, records))


def draw_partitioner(rng: Random, workload: Workload) -> Workload:
    """The workload with a partitioner that is drawn for it, with batches of a few records; without records as it is.

    One in eight gets so many records that several of them are sent together.
    """
    if not workload.records_per_s:
        return workload
    settings = PartitionerSettings(
        partitioner_class=rng.choice(list(PARTITIONER_CLASSES)),
        partitioner_ignore_keys=rng.random() < 0.5,
        partitioner_adaptive_partitioning_enable=rng.random() < 0.7,
        partitioner_availability_timeout_ms=rng.choice((0, 500)),
        batch_size=rng.choice((1, 100, 200, 16_384)),
    )
    if rng.random() < 1 / 8:  # none of them takes long, or members would stay outside poll() for ever
        workload = replace(workload, records_per_s=RECORDS_PER_S_TOGETHER, process_ms=0)
    return replace(workload, partitioner=settings)


def draw_built_in_producer(rng: Random, workload: Workload) -> Workload:
    """The workload with the built-in partitioner, which often chooses another partition, and less often one whose
    batches have no responses; in most plans, and always without records, the workload as it is."""
    if not workload.records_per_s or rng.random() >= BUILT_IN_SHARE:
        return workload
    settings = PartitionerSettings(
        partitioner_class="BuiltInPartitioner",
        partitioner_ignore_keys=True,
        partitioner_availability_timeout_ms=rng.choice((0, 0, 500)),
        batch_size=rng.choice((1, 64, 128, 200)),
    )
    return replace(workload, records_per_s=BUILT_IN_RECORDS_PER_S, process_ms=0, partitioner=settings)


def draw_members(rng: Random, topics: Sequence[str], max_members: int) -> dict[str, MemberPlan]:
    """Draw members, as a rule one to six, with the same timeouts and with assignors that fit together."""
    count = min(max_members, rng.choices((rng.randint(1, 6), rng.randint(7, 12)), (9, 1))[0])
    session_timeout_ms, heartbeat_interval_ms = rng.choice(SESSION_TIMEOUTS_MS)
    assignors = ASSIGNOR_MIXES[rng.choice(list(ASSIGNOR_MIXES))]
    max_poll_interval_ms = rng.choice((30_000, 60_000, 300_000))
    static_share = rng.choices((0.0, 0.5, 1.0), (5, 2, 3))[0]
    fault_share = rng.choices((0.0, 0.2, 0.6), (6, 3, 1))[0]
    has_assignor_faults = rng.random() < 0.05
    second_group_share = 0.4 if rng.random() < 0.1 else 0.0
    return {
        name: MemberPlan(
            topics=_draw_subscription(rng, topics),
            group="audit" if rng.random() < second_group_share else "lab",
            assignors=rng.choice(assignors),
            instance_id=_draw_instance_id(rng, name) if rng.random() < static_share else None,
            session_timeout_ms=session_timeout_ms,
            heartbeat_interval_ms=heartbeat_interval_ms,
            max_poll_interval_ms=max_poll_interval_ms,
            auto_commit_interval_ms=rng.choice((1_000, 5_000)),
            faults=_draw_faults(rng, fault_share, has_assignor_faults),
        )
        for name in DRAWN_MEMBER_NAMES[:count]
    }


def _draw_subscription(rng: Random, topics: Sequence[str]) -> tuple[str, ...]:
    if rng.random() < 0.8:
        return tuple(topics)
    return tuple(topics[: rng.randint(1, len(topics))])


def _draw_instance_id(rng: Random, name: str) -> str:
    """Draw a group instance id for a member: its own, or rarely that of another member, which is then fenced."""
    return f"{name if rng.random() < 0.97 else DRAWN_MEMBER_NAMES[0]}-1"


def _draw_faults(rng: Random, share: float, has_assignor_faults: bool) -> tuple[str, ...]:
    if has_assignor_faults and rng.random() < 0.5:
        return (rng.choice(ASSIGNOR_FAULTS),)
    if rng.random() < share:
        return (rng.choice(LASTING_FAULTS).format(rng.choice((1, 5, 20))),)
    return ()
