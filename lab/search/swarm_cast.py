"""Who takes part in a run that a seed draws, and how everything is set up before anything happens."""

from collections.abc import Sequence
from random import Random
from typing import Final

from regroup.lab.plan.plan import QUIET, MemberPlan, NetworkPlan
from regroup.members.runtime.workload import Workload

NAMES: Final = ("anna", "ben", "carla", "david", "emma", "finn", "greta", "henry", "ida", "jonas", "klara", "lukas")
TOPICS: Final = ("orders", "payments", "clicks")

ASSIGNORS: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "eager": (("range",), ("range", "roundrobin"), ("sticky", "range")),
    "sticky": (("sticky",),),
    "cooperative": (("cooperative-sticky",),),
    "eager or cooperative": (("range", "cooperative-sticky"), ("cooperative-sticky", "range")),
    "on the way to cooperative": (("cooperative-sticky", "range"), ("range",)),
}
"""From each row every member gets one; all of a row have an assignor in common."""

TIMEOUTS_MS: Final = ((6_000, 2_000), (10_000, 3_000), (10_000, 1_000), (30_000, 3_000), (45_000, 3_000))
"""Session timeout and heartbeat interval."""
LASTING_HABITS: Final = ("slow-join:{}s", "slow-sync:{}s", "never-sync")
SPOILT_ASSIGNORS: Final = ("assignor-fails", "assignor-forgets", "assignor-doubles")


def draw_topics(chance: Random) -> dict[str, int]:
    """One to three topics, and seldom a large one."""
    count = chance.choices((1, 2, 3), (6, 3, 1))[0]
    return {topic: chance.choice((1, 2, 3, 4, 6, 8, 12)) for topic in TOPICS[:count]}


def draw_settings(chance: Random, members: int) -> dict[str, str | int]:
    """What Kafka's operators may have set."""
    settings: dict[str, str | int] = {"group.initial.rebalance.delay.ms": chance.choice((0, 500, 3_000))}
    if chance.random() < 0.1:
        settings["group.max.size"] = max(1, members - chance.randint(0, 2))
    if chance.random() < 0.2:
        settings["offsets.commit.timeout.ms"] = chance.choice((500, 1_000, 10_000))
    return settings


def draw_network(chance: Random) -> NetworkPlan:
    """From one machine to another continent, over ways that lose nothing or a piece now and then."""
    latency_ms = chance.choice((0.5, 1, 1, 5, 20, 100))
    return NetworkPlan(
        latency_ms=latency_ms,
        jitter_ms=chance.choice((0.0, latency_ms, 2 * latency_ms)),
        stall_share=chance.choice((0.0, 0.0, 0.0, 0.001, 0.01)),
        stall_ms=chance.choice((500.0, 5_000.0)),
    )


def draw_workload(chance: Random) -> Workload:
    """Every sixth run has records, since fetches cost a run most of its time; a few records can be skipped as well
    as many."""
    if chance.random() < 5 / 6:
        return QUIET
    return Workload(
        records_per_s=chance.choice((0.2, 0.5, 1, 2)),
        keys=chance.choice((0, 0, 7)),
        process_ms=chance.choice((0, 0, 10, 200)),
        max_poll_records=chance.choice((2, 10, 500)),
    )


def draw_members(chance: Random, topics: Sequence[str], most: int) -> dict[str, MemberPlan]:
    """One to six as a rule, all of one mind about timeouts and assignors."""
    count = min(most, chance.choices((chance.randint(1, 6), chance.randint(7, 12)), (9, 1))[0])
    timeouts = chance.choice(TIMEOUTS_MS)
    assignors = ASSIGNORS[chance.choice(list(ASSIGNORS))]
    max_poll_interval_ms = chance.choice((30_000, 60_000, 300_000))
    static = chance.choices((0.0, 0.5, 1.0), (5, 2, 3))[0]
    habits = chance.choices((0.0, 0.2, 0.6), (6, 3, 1))[0]
    spoils = chance.random() < 0.05
    second_group = 0.4 if chance.random() < 0.1 else 0.0
    return {
        name: MemberPlan(
            topics=_subscription(chance, topics),
            group="audit" if chance.random() < second_group else "lab",
            assignors=chance.choice(assignors),
            instance_id=_instance_id(chance, name) if chance.random() < static else None,
            session_timeout_ms=timeouts[0],
            heartbeat_interval_ms=timeouts[1],
            max_poll_interval_ms=max_poll_interval_ms,
            auto_commit_interval_ms=chance.choice((1_000, 5_000)),
            habits=_habits(chance, habits, spoils),
        )
        for name in NAMES[:count]
    }


def _subscription(chance: Random, topics: Sequence[str]) -> tuple[str, ...]:
    if chance.random() < 0.8:
        return tuple(topics)
    return tuple(topics[: chance.randint(1, len(topics))])


def _instance_id(chance: Random, name: str) -> str:
    """Seldom somebody has the instance id of another."""
    return f"{name if chance.random() < 0.97 else NAMES[0]}-1"


def _habits(chance: Random, share: float, spoils: bool) -> tuple[str, ...]:
    if spoils and chance.random() < 0.5:
        return (chance.choice(SPOILT_ASSIGNORS),)
    if chance.random() < share:
        return (chance.choice(LASTING_HABITS).format(chance.choice((1, 5, 20))),)
    return ()
