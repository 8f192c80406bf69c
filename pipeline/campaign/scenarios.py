"""The scenarios of campaigns: each makes the lab's plan of one run from the options of a cell and a seed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from random import Random
from typing import Any, Final

from regroup.coordinator.settings import CoordinatorSettings
from regroup.lab.plan.plan import NO_WORKLOAD, MemberPlan, NetworkPlan, PlannedStep, SimulationPlan
from regroup.lab.plan.steps import Crashes, Joins, Pauses, Restarts, RestartsWithoutInstanceId, SimulationStep
from regroup.lab.plan.triggers import StepTrigger


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioOptions:
    """Options of every scenario, by their names in a campaign's file."""

    members: int = 6
    """Number of members; all join within the first five seconds."""
    partitions: int = 12
    """Number of partitions of the only topic."""
    assignor: str = "cooperative-sticky"
    """The assignor of all members: range, roundrobin, sticky or cooperative-sticky."""
    static: bool = False
    """Whether members have a `group.instance.id`, and keep it when they restart."""
    session_timeout_ms: int = 45_000
    """Kafka's `session.timeout.ms`."""
    heartbeat_interval_ms: int = 3_000
    """Kafka's `heartbeat.interval.ms`, at most a third of the session timeout."""
    restart_ms: int = 10_000
    """Time between the end of a member's process and the start of its next one."""
    between_ms: int = 60_000
    """Time from one restart or crash to the next."""
    crashes: int = 3
    """Number of members that crash, each once."""
    latency_ms: float = 1.0
    """Time that each chunk of bytes takes on the network."""
    jitter_ms: float = 1.0
    """A random part of up to this time is added to the latency of each chunk."""
    pauses: int = 0
    """Number of pauses of members (garbage collection) in `slow-network`."""
    pause_ms: int = 8_000
    """Mean length of a pause."""
    records_per_s: float = 0.0
    """Records written to the topic and processed by the members; they make a run several times as long."""


MIN_SESSION_TIMEOUT_MS: Final = 1_000
"""The least session timeout of a campaign. Kafka's own minimum is 6 s; campaigns may compare shorter ones."""
HOUR_MS: Final = 3_600_000

OPTION_LIMITS: Final[dict[str, tuple[float, float]]] = {
    "members": (1, 1_000),
    "partitions": (1, 10_000),
    "session_timeout_ms": (MIN_SESSION_TIMEOUT_MS, CoordinatorSettings().group_max_session_timeout_ms),
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
"""Minimum and maximum of each number. Beyond them a run fails or misleads: if the coordinator rejects the session
timeout, no member ever joins and no partition ever loses its owner."""

STEADY_MS: Final = 30_000
"""Milliseconds from the start of a run until every member has joined and has its assignment."""


def member_name(number: int) -> str:
    return f"member-{number:03}"


def make_plan(options: ScenarioOptions, seed: int, later: list[tuple[int, SimulationStep]]) -> SimulationPlan:
    """A plan in which all members join within 5 s, in an order that the seed draws, and the steps `later` follow."""
    random = Random(f"{seed}/arrivals")
    joins: list[tuple[int, SimulationStep]] = [
        (random.randrange(5_000), Joins(member_name(number))) for number in range(options.members)
    ]
    steps = sorted([*joins, *later], key=lambda each: each[0])
    return SimulationPlan(
        seed=seed,
        settings={"group.min.session.timeout.ms": MIN_SESSION_TIMEOUT_MS},
        topics={"orders": options.partitions},
        members={
            member_name(number): MemberPlan(
                assignors=(options.assignor,),
                instance_id=f"instance-{number:03}" if options.static else None,
                session_timeout_ms=options.session_timeout_ms,
                heartbeat_interval_ms=min(options.heartbeat_interval_ms, options.session_timeout_ms // 3),
            )
            for number in range(options.members)
        },
        network=NetworkPlan(options.latency_ms, options.jitter_ms),
        workload=replace(NO_WORKLOAD, records_per_s=options.records_per_s),
        steps=tuple(PlannedStep(StepTrigger("", at_ms), step) for at_ms, step in steps),
        faults_end_ms=max(at_ms for at_ms, _ in steps) + options.between_ms,
        recovery_timeout_ms=max(900_000, 2 * options.session_timeout_ms),
    )


def rolling_restart(options: ScenarioOptions, seed: int) -> SimulationPlan:
    """The members are killed and restarted one after another; a static member keeps its instance id."""
    random = Random(f"{seed}/restarts")
    restart = Restarts if options.static else RestartsWithoutInstanceId
    steps: list[tuple[int, SimulationStep]] = [
        (
            STEADY_MS + number * options.between_ms + random.randrange(5_000),
            restart(member_name(number), options.restart_ms),
        )
        for number in range(options.members)
    ]
    return make_plan(options, seed, steps)


def crashes(options: ScenarioOptions, seed: int) -> SimulationPlan:
    """Members crash at times that the seed draws, and restart without their instance ids."""
    random = Random(f"{seed}/crashes")
    crashed = random.sample(range(options.members), min(options.crashes, options.members))
    steps: list[tuple[int, SimulationStep]] = [
        (
            STEADY_MS + number * options.between_ms + random.randrange(options.between_ms),
            RestartsWithoutInstanceId(member_name(member), options.restart_ms),
        )
        for number, member in enumerate(crashed)
    ]
    return make_plan(options, seed, steps)


def slow_network(options: ScenarioOptions, seed: int) -> SimulationPlan:
    """One member crashes and does not restart, others pause. Raises ValueError if no member is left to pause."""
    if options.pauses and options.members < 2:
        raise ValueError("one member crashes and others pause: take 2 members or more, or 0 pauses")
    random = Random(f"{seed}/pauses")
    end_ms = STEADY_MS + 300_000
    steps: list[tuple[int, SimulationStep]] = [(STEADY_MS + random.randrange(300_000), Crashes(member_name(0)))]
    for _ in range(options.pauses):
        member = member_name(random.randrange(1, options.members))
        pause_ms = max(1, round(random.expovariate(1 / options.pause_ms)))
        steps.append((random.randrange(STEADY_MS, end_ms), Pauses(member, pause_ms)))
    return make_plan(options, seed, steps)


CampaignScenario = Callable[[ScenarioOptions, int], SimulationPlan]

SCENARIOS: Final[dict[str, CampaignScenario]] = {
    "rolling-restart": rolling_restart,
    "crashes": crashes,
    "slow-network": slow_network,
}

TYPE_NAMES: Final = {int: "a whole number", float: "a number", bool: "true or false", str: "a name"}


def parse_options(cell: Mapping[str, Any]) -> ScenarioOptions:
    """The options of a cell; those that it does not name have their defaults. Raises ValueError."""
    types = {field.name: type(field.default) for field in fields(ScenarioOptions)}
    for name, value in cell.items():
        if name not in types:
            raise ValueError(f"unknown option {name!r}; options: {', '.join(types)}")
        accepted = (int, float) if types[name] is float else (types[name],)
        if type(value) not in accepted:  # not isinstance: True is no number here
            raise ValueError(f"{name} takes {TYPE_NAMES[types[name]]}, not {value!r}")
        minimum, maximum = OPTION_LIMITS.get(name, (value, value))
        if not minimum <= value <= maximum:
            raise ValueError(f"{name} must be from {minimum:,} to {maximum:,}, not {value:,}")
    return ScenarioOptions(**cell)
