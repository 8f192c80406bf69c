"""The scenarios of campaigns: each makes the lab's plan of one run from the options of a cell and a seed."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from random import Random
from typing import Any, Final

from regroup.coordinator.settings import CoordinatorSettings
from regroup.lab.plan.plan import NO_WORKLOAD, MemberPlan, NetworkPlan, PlannedStep, SimulationPlan
from regroup.lab.plan.steps import (
    Crashes,
    Joins,
    Leaves,
    Pauses,
    Restarts,
    RestartsWithoutInstanceId,
    SimulationStep,
    TopicGrows,
)
from regroup.lab.plan.triggers import StepTrigger
from regroup.lab.plan.validation import CLASSIC, CONSUMER


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioOptions:
    """Options of every scenario, by their names in a campaign's file."""

    members: int = 6
    """Number of members; all join within the first five seconds."""
    partitions: int = 12
    """Number of partitions of the only topic."""
    protocol: str = CLASSIC
    """The protocol of all members: eager (range), cooperative (cooperative-sticky) and static (cooperative-sticky, with
    instance ids) are of the classic one, and classic leaves them to `assignor` and `static`; consumer is KIP-848's."""
    assignor: str = "cooperative-sticky"
    """The assignor of all members: range, roundrobin, sticky or cooperative-sticky; consumer has the broker's."""
    static: bool = False
    """Whether members have a `group.instance.id`, and keep it when they restart."""
    session_timeout_ms: int = 45_000
    """Kafka's `session.timeout.ms`, or the broker's `group.consumer.session.timeout.ms`."""
    heartbeat_interval_ms: int = 0
    """Kafka's `heartbeat.interval.ms`, or the broker's `group.consumer.heartbeat.interval.ms`, at most a third of the
    session timeout; 0 for Kafka's default, which is 3,000, or 5,000 of the consumer protocol."""
    restart_ms: int = 10_000
    """Time between the end of a member's process and the start of its next one."""
    between_ms: int = 60_000
    """Time from one restart or crash to the next."""
    graceful: bool = False
    """Whether a member in `rolling-restart` closes its consumer before its process ends, or is killed."""
    crashes: int = 3
    """Number of members that crash, each once."""
    joins: int = 2
    """Number of members that join later, in `scale-out` and `slow-member`."""
    growth: int = 12
    """Number of partitions that the topic gets in `topic-growth`."""
    latency_ms: float = 1.0
    """Time that each chunk of bytes takes on the network."""
    jitter_ms: float = 1.0
    """A random part of up to this time is added to the latency of each chunk."""
    out_of_step: bool = False
    """Whether each member pauses once before anything happens, for one to two heartbeat intervals. After a rebalance
    classic members send their heartbeats at the same moments; in a group that has run for hours they do not."""
    pauses: int = 0
    """Number of pauses of members (garbage collection) in `slow-network`."""
    pause_ms: int = 8_000
    """Mean length of a pause in `slow-network`, and its length in `slow-member`."""
    records_per_s: float = 0.0
    """Records written to the topic and processed by the members; they make a run several times as long."""


MIN_SESSION_TIMEOUT_MS: Final = 1_000
"""The least session timeout of a campaign. Kafka's own minimum is 6 s; campaigns may compare shorter ones."""
HOUR_MS: Final = 3_600_000

OPTION_LIMITS: Final[dict[str, tuple[float, float]]] = {
    "members": (1, 1_000),
    "partitions": (1, 10_000),
    "session_timeout_ms": (MIN_SESSION_TIMEOUT_MS, CoordinatorSettings().group_max_session_timeout_ms),
    "heartbeat_interval_ms": (0, HOUR_MS),
    "restart_ms": (1, HOUR_MS),
    "between_ms": (1, HOUR_MS),
    "crashes": (0, 1_000),
    "joins": (1, 1_000),
    "growth": (1, 10_000),
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
DRIFT_MS: Final = 18_000
"""When the members pause if their heartbeats have to be out of step."""
DEFAULT_HEARTBEAT_MS: Final = {CLASSIC: 3_000, CONSUMER: 5_000}
METADATA_MAX_AGE_MS: Final = 300_000
"""Kafka's `metadata.max.age.ms`: after this time at the latest a classic member knows that a topic has grown."""

PROTOCOLS: Final[dict[str, dict[str, Any]]] = {
    CLASSIC: {},
    "eager": {"assignor": "range", "static": False},
    "cooperative": {"assignor": "cooperative-sticky", "static": False},
    "static": {"assignor": "cooperative-sticky", "static": True},
    CONSUMER: {"assignor": ""},
    "static-consumer": {"assignor": "", "static": True},
}
"""The protocols of campaigns, each with the options that it decides."""


def member_name(number: int) -> str:
    return f"member-{number:03}"


def make_plan(
    options: ScenarioOptions, seed: int, later: list[tuple[int, SimulationStep]], *, last_effect_ms: int = 0
) -> SimulationPlan:
    """A plan in which all members join within 5 s, in an order that the seed draws, and the steps `later` follow.

    The effect of the last step may take up to `last_effect_ms`, also if `between_ms` is less.
    """
    random = Random(f"{seed}/arrivals")
    joins: list[tuple[int, SimulationStep]] = [
        (random.randrange(5_000), Joins(member_name(number))) for number in range(options.members)
    ]
    steps = sorted([*joins, *drifts(options, seed), *later], key=lambda each: each[0])
    names = [step.member for _, step in steps if isinstance(step, Joins)]
    return SimulationPlan(
        seed=seed,
        settings=group_settings(options),
        topics={"orders": options.partitions},
        members={name: planned_member(options, name) for name in sorted(set(names))},
        network=NetworkPlan(options.latency_ms, options.jitter_ms),
        workload=replace(NO_WORKLOAD, records_per_s=options.records_per_s),
        steps=tuple(PlannedStep(StepTrigger("", at_ms), step) for at_ms, step in steps),
        faults_end_ms=max(at_ms for at_ms, _ in steps) + max(options.between_ms, last_effect_ms),
        recovery_timeout_ms=max(900_000, 2 * options.session_timeout_ms),
    )


def drifts(options: ScenarioOptions, seed: int) -> Iterator[tuple[int, SimulationStep]]:
    """The pauses that let the heartbeats of all members fall out of step."""
    random = Random(f"{seed}/drifts")
    for number in range(options.members if options.out_of_step else 0):
        interval_ms = heartbeat_interval_ms(options)
        yield DRIFT_MS, Pauses(member_name(number), interval_ms + random.randrange(interval_ms))


def group_settings(options: ScenarioOptions) -> dict[str, str | int]:
    """The broker's settings: those of the consumer protocol have the timeouts of its members."""
    if is_classic(options):
        return {"group.min.session.timeout.ms": MIN_SESSION_TIMEOUT_MS}
    values = {"session.timeout": options.session_timeout_ms, "heartbeat.interval": heartbeat_interval_ms(options)}
    return {
        f"group.consumer.{limit}{name}.ms": value for name, value in values.items() for limit in ("", "min.", "max.")
    }


def planned_member(options: ScenarioOptions, name: str) -> MemberPlan:
    instance_id = f"instance-{name.removeprefix('member-')}" if options.static else None
    if not is_classic(options):
        return MemberPlan(protocol=CONSUMER, instance_id=instance_id)
    return MemberPlan(
        assignors=(options.assignor,),
        instance_id=instance_id,
        session_timeout_ms=options.session_timeout_ms,
        heartbeat_interval_ms=heartbeat_interval_ms(options),
    )


def is_classic(options: ScenarioOptions) -> bool:
    return options.protocol not in (CONSUMER, "static-consumer")


def heartbeat_interval_ms(options: ScenarioOptions) -> int:
    default_ms = DEFAULT_HEARTBEAT_MS[CLASSIC if is_classic(options) else CONSUMER]
    return min(options.heartbeat_interval_ms or default_ms, options.session_timeout_ms // 3)


def rolling_restart(options: ScenarioOptions, seed: int) -> SimulationPlan:
    """The members are killed, or closed in order (`graceful`), and restarted one after another; a static member keeps
    its instance id."""
    random = Random(f"{seed}/restarts")
    steps: list[tuple[int, SimulationStep]] = []
    for number in range(options.members):
        name, at_ms = member_name(number), STEADY_MS + number * options.between_ms + random.randrange(5_000)
        if options.graceful:
            steps += [(at_ms, Leaves(name)), (at_ms + options.restart_ms, Joins(name))]
        else:
            steps.append((at_ms, restart_of(options, name)))
    return make_plan(options, seed, steps)


def restart_of(options: ScenarioOptions, name: str) -> SimulationStep:
    """A member's process is killed, and starts again."""
    return (Restarts if options.static else RestartsWithoutInstanceId)(name, options.restart_ms)


def crashes(options: ScenarioOptions, seed: int) -> SimulationPlan:
    """Members crash at times that the seed draws, and restart; a static member keeps its instance id."""
    random = Random(f"{seed}/crashes")
    crashed = random.sample(range(options.members), min(options.crashes, options.members))
    steps: list[tuple[int, SimulationStep]] = [
        (
            STEADY_MS + number * options.between_ms + random.randrange(options.between_ms),
            restart_of(options, member_name(member)),
        )
        for number, member in enumerate(crashed)
    ]
    return make_plan(options, seed, steps)


def scale_out(options: ScenarioOptions, seed: int) -> SimulationPlan:
    """More members join, one after another."""
    return make_plan(options, seed, [*later_joins(options, Random(f"{seed}/joins"))])


def slow_member(options: ScenarioOptions, seed: int) -> SimulationPlan:
    """More members join, one after another, each while a member of the group is paused for `pause_ms`."""
    random = Random(f"{seed}/joins")
    joins = [*later_joins(options, random)]
    pauses = [(at_ms, Pauses(member_name(random.randrange(options.members)), options.pause_ms)) for at_ms, _ in joins]
    return make_plan(options, seed, [*pauses, *joins])


def later_joins(options: ScenarioOptions, random: Random) -> Iterator[tuple[int, SimulationStep]]:
    for number in range(options.joins):
        at_ms = STEADY_MS + number * options.between_ms + random.randrange(options.between_ms // 2 + 1)
        yield at_ms, Joins(member_name(options.members + number))


def topic_growth(options: ScenarioOptions, seed: int) -> SimulationPlan:
    """The topic gets more partitions, at a time that the seed draws."""
    at_ms = STEADY_MS + Random(f"{seed}/growth").randrange(METADATA_MAX_AGE_MS)
    steps: list[tuple[int, SimulationStep]] = [(at_ms, TopicGrows("orders", options.partitions + options.growth))]
    return make_plan(options, seed, steps, last_effect_ms=METADATA_MAX_AGE_MS + STEADY_MS)


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
    "scale-out": scale_out,
    "slow-member": slow_member,
    "topic-growth": topic_growth,
}


def disturbances_ms(plan: SimulationPlan) -> list[int]:
    """When something happened to the group or its topic, in ms since the run began; the first joins are left out.

    The return of a member that left belongs to its leaving.
    """
    times: dict[int, None] = {}
    away: dict[str, None] = {}
    for each in plan.steps:
        step, at_ms = each.step, each.trigger.delay_ms
        if isinstance(step, Leaves):
            away[step.member] = None
        elif isinstance(step, Joins) and step.member in away:
            del away[step.member]
            continue
        if at_ms >= STEADY_MS:
            times[at_ms] = None
    return [*times]


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
    protocol = cell.get("protocol", CLASSIC)
    if protocol not in PROTOCOLS:
        raise ValueError(f"unknown protocol {protocol!r}; protocols: {', '.join(PROTOCOLS)}")
    decided = PROTOCOLS[protocol]
    if twice := [name for name in decided if name in cell]:
        raise ValueError(f"the protocol {protocol} decides the option {twice[0]}: remove one of them")
    return ScenarioOptions(**{**cell, **decided})
