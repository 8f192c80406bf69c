"""What a campaign can vary: each scenario makes the lab's plan of one run from a cell of the grid and a seed.

The cell gives the options that the scenario has by their names; what it leaves out has the default.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from random import Random
from typing import Any, Final

from regroup.coordinator.settings import Settings
from regroup.lab.plan.plan import QUIET, Happening, MemberPlan, NetworkPlan, Plan, When
from regroup.lab.plan.steps import Crashes, Joins, Pauses, Restarts, RestartsAsStranger, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What every scenario may be asked to vary. Times in milliseconds."""

    members: int = 6
    partitions: int = 12
    assignor: str = "cooperative-sticky"
    static: bool = False
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    restart_ms: int = 10_000
    """How long a process is away when it restarts."""
    between_ms: int = 60_000
    """From one restart, or crash, to the next."""
    crashes: int = 3
    """How many members crash, each once."""
    latency_ms: float = 1.0
    jitter_ms: float = 1.0
    pauses: int = 0
    """How often a member stops for a while (garbage collection), in a run on a slow network."""
    pause_ms: int = 8_000
    records_per_s: float = 0.0
    """Written to the topic, and read by the members; a run takes several times as long then."""


SHORTEST_SESSION_MS: Final = 1_000
"""Kafka's own limit is six seconds, and is in the way of a question about short ones."""
HOUR_MS: Final = 3_600_000

LIMITS: Final[dict[str, tuple[float, float]]] = {
    "members": (1, 1_000),
    "partitions": (1, 10_000),
    "session_timeout_ms": (SHORTEST_SESSION_MS, Settings().group_max_session_timeout_ms),
    "heartbeat_interval_ms": (1, HOUR_MS),
    "restart_ms": (1, HOUR_MS),
    "between_ms": (1, HOUR_MS),
    "crashes": (0, 1_000),
    "latency_ms": (0, 10_000),
    "jitter_ms": (0, 10_000),
    "pauses": (0, 1_000),
    "pause_ms": (1, HOUR_MS),
    "records_per_s": (0, 1_000),
}
"""The least and the most of each number; both are allowed themselves. Beyond them a run fails, or is answered wrongly:
with a session timeout that the coordinator refuses nobody ever joins, and nothing is ever lost."""

SETTLED_MS: Final = 30_000
"""By then everybody has joined and has its share."""


def name_of(number: int) -> str:
    return f"member-{number:03}"


def plan_of(options: Options, seed: int, later: list[tuple[int, Step]]) -> Plan:
    """Everybody joins within five seconds, in an order that the seed draws; then what `later` says, by time."""
    chance = Random(f"{seed}/arrivals")
    joins: list[tuple[int, Step]] = [(chance.randrange(5_000), Joins(name_of(n))) for n in range(options.members)]
    happenings = sorted([*joins, *later], key=lambda each: each[0])
    return Plan(
        seed=seed,
        settings={"group.min.session.timeout.ms": SHORTEST_SESSION_MS},
        topics={"orders": options.partitions},
        members={name_of(number): member(options, number) for number in range(options.members)},
        network=NetworkPlan(options.latency_ms, options.jitter_ms),
        workload=replace(QUIET, records_per_s=options.records_per_s),
        happenings=tuple(Happening(When("", at_ms), step) for at_ms, step in happenings),
        heal_ms=max(at_ms for at_ms, _ in happenings) + options.between_ms,
        bound_ms=max(900_000, 2 * options.session_timeout_ms),
    )


def member(options: Options, number: int) -> MemberPlan:
    return MemberPlan(
        assignors=(options.assignor,),
        instance_id=f"instance-{number:03}" if options.static else None,
        session_timeout_ms=options.session_timeout_ms,
        heartbeat_interval_ms=min(options.heartbeat_interval_ms, options.session_timeout_ms // 3),
    )


def rolling_restart(options: Options, seed: int) -> Plan:
    """One process after another is killed and comes back; a static member under its instance id."""
    chance = Random(f"{seed}/restarts")
    restart = Restarts if options.static else RestartsAsStranger
    times = [SETTLED_MS + n * options.between_ms + chance.randrange(5_000) for n in range(options.members)]
    return plan_of(options, seed, [(at_ms, restart(name_of(n), options.restart_ms)) for n, at_ms in enumerate(times)])


def crashes(options: Options, seed: int) -> Plan:
    """Members die and come back as strangers, at times that the seed draws."""
    chance = Random(f"{seed}/crashes")
    victims = chance.sample(range(options.members), min(options.crashes, options.members))
    times = [SETTLED_MS + n * options.between_ms + chance.randrange(options.between_ms) for n in range(len(victims))]
    return plan_of(
        options,
        seed,
        [
            (at_ms, RestartsAsStranger(name_of(victim), options.restart_ms))
            for at_ms, victim in zip(times, victims, strict=True)
        ],
    )


def slow_network(options: Options, seed: int) -> Plan:
    """One member dies for good, others only pause; answers take as long as the network says."""
    if options.pauses and options.members < 2:
        raise ValueError("one member dies and others pause: take 2 members or more, or 0 pauses")
    chance = Random(f"{seed}/pauses")
    end_ms = SETTLED_MS + 300_000
    later: list[tuple[int, Step]] = [(SETTLED_MS + chance.randrange(300_000), Crashes(name_of(0)))]
    for _ in range(options.pauses):
        sleeper = name_of(chance.randrange(1, options.members))
        pause_ms = max(1, round(chance.expovariate(1 / options.pause_ms)))
        later.append((chance.randrange(SETTLED_MS, end_ms), Pauses(sleeper, pause_ms)))
    return plan_of(options, seed, later)


Scenario = Callable[[Options, int], Plan]

SCENARIOS: Final[dict[str, Scenario]] = {
    "rolling-restart": rolling_restart,
    "crashes": crashes,
    "slow-network": slow_network,
}


def options_of(cell: Mapping[str, Any]) -> Options:
    """Raises ValueError for a name or a value that no scenario can do anything with."""
    known = {field.name: type(field.default) for field in fields(Options)}
    for name, value in cell.items():
        if name not in known:
            raise ValueError(f"no scenario has an option {name!r}; there are {', '.join(known)}")
        check_value(name, value, known[name])
    return Options(**cell)


KINDS: Final = {int: "a whole number", float: "a number", bool: "true or false", str: "a name"}


def check_value(name: str, value: object, kind: type) -> None:
    """A truth is no number here, although it is one in Python. Raises ValueError."""
    kinds = (int, float) if kind is float else (kind,)
    if type(value) not in kinds:
        raise ValueError(f"{name} takes {KINDS[kind]}, not {value!r}")
    if isinstance(value, int | float) and name in LIMITS:
        least, most = LIMITS[name]
        if not least <= value <= most:
            raise ValueError(f"{name} must be from {least:,} to {most:,}, not {value:,}")
