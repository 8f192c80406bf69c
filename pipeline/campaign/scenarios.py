"""The scenarios of campaigns: each makes the lab's plan of one run from the options of a cell and a seed."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Final

from regroup.lab.plan.plan import NO_WORKLOAD, MemberPlan, NetworkPlan, PlannedStep, SimulationPlan
from regroup.lab.plan.steps import (
    BrokerStops,
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
from regroup.lab.plan.validation import CONSUMER
from regroup.pipeline.campaign.options import (
    MIN_SESSION_TIMEOUT_MS,
    ScenarioOptions,
    heartbeat_interval_ms,
    is_classic,
)

STEADY_MS: Final = 30_000
"""Milliseconds from the start of a run until every member has joined and has its assignment."""
DRIFT_MS: Final = 18_000
"""When the members pause if their heartbeats have to be out of step."""
METADATA_MAX_AGE_MS: Final = 300_000
"""Kafka's `metadata.max.age.ms`: after this time at the latest a classic member knows that a topic has grown."""
BROKERS: Final = 2
"""The number of brokers in `failover-restart`; one coordinates the group, and the other one takes over."""


def member_name(number: int) -> str:
    return f"member-{number:03}"


def make_plan(
    options: ScenarioOptions,
    seed: int,
    later: list[tuple[int, SimulationStep]],
    *,
    last_effect_ms: int = 0,
    brokers: int = 1,
) -> SimulationPlan:
    """A plan whose members join within 5 s, in an order drawn from the seed; then the steps `later` follow.

    The run goes on after the last step for `between_ms`, or for `last_effect_ms` if that is longer.
    """
    random = Random(f"{seed}/arrivals")
    joins: list[tuple[int, SimulationStep]] = [
        (random.randrange(5_000), Joins(member_name(number))) for number in range(options.members)
    ]
    steps = sorted([*joins, *drifts(options, seed), *later], key=lambda each: each[0])
    names = [step.member for _, step in steps if isinstance(step, Joins)]
    return SimulationPlan(
        seed=seed,
        brokers=brokers,
        settings=group_settings(options),
        topics={"orders": options.partitions},
        members={name: planned_member(options, name) for name in sorted(set(names))},
        network=NetworkPlan(options.latency_ms, options.jitter_ms),
        workload=replace(
            NO_WORKLOAD,
            records_per_s=options.records_per_s,
            process_ms=options.process_ms,
            max_poll_records=options.max_poll_records,
        ),
        steps=tuple(PlannedStep(StepTrigger("", at_ms), step) for at_ms, step in steps),
        faults_end_ms=max(at_ms for at_ms, _ in steps) + max(options.between_ms, last_effect_ms),
        recovery_timeout_ms=max(900_000, 2 * options.session_timeout_ms),
    )


def drifts(options: ScenarioOptions, seed: int) -> Iterator[tuple[int, SimulationStep]]:
    """Yield short pauses of all members, after which their heartbeats come at different times."""
    random = Random(f"{seed}/drifts")
    for number in range(options.members if options.out_of_step else 0):
        interval_ms = heartbeat_interval_ms(options)
        yield DRIFT_MS, Pauses(member_name(number), interval_ms + random.randrange(interval_ms))


def group_settings(options: ScenarioOptions) -> dict[str, str | int]:
    """The settings of the broker; in the consumer protocol they include the timeouts, which members do not send."""
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


def rolling_restart(options: ScenarioOptions, seed: int) -> SimulationPlan:
    """The members are killed, or closed in order (`graceful`), and restarted one after another; a static member keeps
    its instance id."""
    return make_plan(options, seed, [*restarts_in_turn(options, seed)])


def restarts_in_turn(options: ScenarioOptions, seed: int) -> Iterator[tuple[int, SimulationStep]]:
    random = Random(f"{seed}/restarts")
    for number in range(options.members):
        name, at_ms = member_name(number), STEADY_MS + number * options.between_ms + random.randrange(5_000)
        if options.graceful:
            yield at_ms, Leaves(name)
            yield at_ms + options.restart_ms, Joins(name)
        else:
            yield at_ms, restart_of(options, name)


def failover_restart(options: ScenarioOptions, seed: int) -> SimulationPlan:
    """The members restart one after another, at the times of `rolling-restart`, and the two brokers do, too. Each is
    shut down for `restart_ms` while a member is away or the group rebalances for its return; the other one coordinates
    the group until it is back. Raises ValueError if both brokers would stop in the restart of one member."""
    if options.members < BROKERS:
        raise ValueError(
            f"{BROKERS} brokers stop, each in the restart of another member: take {BROKERS} members or more"
        )
    random = Random(f"{seed}/brokers")
    steps = [*restarts_in_turn(options, seed)]
    left_ms = [at_ms for at_ms, step in steps if not isinstance(step, Joins)]
    for broker in range(BROKERS):
        absence_ms = options.restart_ms + heartbeat_interval_ms(options)
        at_ms = left_ms[(2 * broker + 1) * len(left_ms) // (2 * BROKERS)] + random.randrange(absence_ms)
        steps.append((at_ms, BrokerStops(broker, options.restart_ms)))
    return make_plan(options, seed, steps, brokers=BROKERS)


def restart_of(options: ScenarioOptions, name: str) -> SimulationStep:
    """The step in which a member's process is killed and started again."""
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


def scale_in(options: ScenarioOptions, seed: int) -> SimulationPlan:
    """Members are closed, one after another, and do not return; at least one stays."""
    random = Random(f"{seed}/leaves")
    leaving = random.sample(range(options.members), min(options.leaves, options.members - 1))
    steps: list[tuple[int, SimulationStep]] = [
        (STEADY_MS + number * options.between_ms + random.randrange(options.between_ms // 2 + 1), Leaves(name))
        for number, name in enumerate(map(member_name, leaving))
    ]
    return make_plan(options, seed, steps)


def surge(options: ScenarioOptions, seed: int) -> SimulationPlan:
    """Each member is replaced by a new one that joins `overlap_ms` before it is closed; a static replacement has an
    instance id of its own."""
    random = Random(f"{seed}/surge")
    steps: list[tuple[int, SimulationStep]] = []
    for number in range(options.members):
        at_ms = STEADY_MS + number * options.between_ms + random.randrange(5_000)
        steps += [
            (at_ms, Joins(member_name(options.members + number))),
            (at_ms + options.overlap_ms, Leaves(member_name(number))),
        ]
    return make_plan(options, seed, steps)


def paused_node(options: ScenarioOptions, seed: int) -> SimulationPlan:
    """Several members are paused at the same moment for `pause_ms`, as when the machine under them stands still."""
    random = Random(f"{seed}/node")
    at_ms = STEADY_MS + random.randrange(options.between_ms)
    paused = random.sample(range(options.members), min(options.paused, options.members))
    return make_plan(options, seed, [(at_ms, Pauses(member_name(each), options.pause_ms)) for each in paused])


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
    "scale-in": scale_in,
    "surge": surge,
    "paused-node": paused_node,
    "failover-restart": failover_restart,
}


def disturbances_ms(plan: SimulationPlan) -> list[int]:
    """The times of the disturbances in a plan, in ms since the start of the run.

    The first joins are no disturbances; a member that leaves and returns counts once, when it leaves.
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
