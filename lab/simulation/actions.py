"""What each step of a plan does to the world."""

from contextlib import suppress
from functools import partial, singledispatch
from typing import TYPE_CHECKING

from regroup.coordinator.serialization import Cause, written_cause
from regroup.lab.plan import steps
from regroup.lab.plan.sentences import Sentence
from regroup.lab.simulation.brokers import host_of
from regroup.lab.simulation.expectation_checks import expect
from regroup.lab.simulation.network import EVERYBODY
from regroup.members.faults import Kind
from regroup.protocol.errors import ErrorCode
from regroup.server.cluster.events import PartitionsAdded, TopicDeleted
from regroup.storage.errors import StoreError

if TYPE_CHECKING:
    from regroup.lab.simulation.world import World

PLAN = written_cause(Cause(occasion="the plan"))
LOG_ANSWERS_MS = 10
"""How long Kafka's log takes to refuse a write."""


@singledispatch
def do(step: Sentence, world: "World") -> None:
    """Let a step happen now. What is not an act is an expectation."""
    expect(step, world)


# -- members


@do.register(steps.Joins)
def _(step: steps.Joins, world: "World") -> None:
    world.company.join(step.member)


@do.register(steps.Leaves)
def _(step: steps.Leaves, world: "World") -> None:
    world.company.misbehave(step.member, Kind.LEAVE)


@do.register(steps.Crashes)
def _(step: steps.Crashes, world: "World") -> None:
    world.company.misbehave(step.member, Kind.CRASH)


@do.register(steps.Pauses)
def _(step: steps.Pauses, world: "World") -> None:
    world.company.misbehave(step.member, Kind.PAUSE, step.for_ms)


@do.register(steps.Restarts)
def _(step: steps.Restarts, world: "World") -> None:
    world.company.misbehave(step.member, Kind.RESTART, step.after_ms)


@do.register(steps.RestartsAsStranger)
def _(step: steps.RestartsAsStranger, world: "World") -> None:
    world.company.misbehave(step.member, Kind.RESTART_AS_STRANGER, step.after_ms)


@do.register(steps.AsksForRebalance)
def _(step: steps.AsksForRebalance, world: "World") -> None:
    member = world.company.members.get(step.member)
    if member is not None and not member.is_over:
        member.enforce_rebalance("its application asked for it")


@do.register(steps.TurnsZombie)
def _(step: steps.TurnsZombie, world: "World") -> None:
    world.company.misbehave(step.member, Kind.ZOMBIE)


# -- network


@do.register(steps.CutOff)
def _(step: steps.CutOff, world: "World") -> None:
    for host in _hosts(step.host, world):
        for other in _hosts(step.other, world):
            _cut(world, host, other, step.for_ms)
            _cut(world, other, host, step.for_ms)


@do.register(steps.NoLongerHears)
def _(step: steps.NoLongerHears, world: "World") -> None:
    for host in _hosts(step.host, world):
        for other in _hosts(step.other, world):
            _cut(world, other, host, step.for_ms)


def _cut(world: "World", host: str, other: str, for_ms: int) -> None:
    world.network.cut(host, other)
    world.later(for_ms, partial(world.network.mend, host, other))


def _hosts(name: str, world: "World") -> list[str]:
    """`the brokers` are as many hosts as there are brokers."""
    if name == steps.THE_BROKERS:
        return [host_of(broker) for broker in range(world.brokers.count)]
    return [EVERYBODY if name == steps.EVERYBODY else name]


@do.register(steps.SlowNetwork)
def _(step: steps.SlowNetwork, world: "World") -> None:
    world.network.latency_ms, world.network.jitter_ms = step.latency_ms, step.jitter_ms
    world.later(step.for_ms, world.network.as_planned)


@do.register(steps.ConnectionsReset)
def _(step: steps.ConnectionsReset, world: "World") -> None:
    for host in _hosts(step.host, world):
        world.network.reset(host)


@do.register(steps.RequestLost)
def _(step: steps.RequestLost, world: "World") -> None:
    world.wiretap.lose(step.member, step.api, answer=False)


@do.register(steps.AnswerLost)
def _(step: steps.AnswerLost, world: "World") -> None:
    world.wiretap.lose(step.member, step.api, answer=True)


# -- brokers


@do.register(steps.BrokerStops)
def _(step: steps.BrokerStops, world: "World") -> None:
    if step.broker < world.brokers.count:
        world.spawn(world.brokers.stop_broker(step.broker))
        world.later(step.for_ms, partial(_start_broker, world, step.broker))


def _start_broker(world: "World", broker: int) -> None:
    world.spawn(world.brokers.start_broker(broker))


@do.register(steps.BrokersCrash)
def _(step: steps.BrokersCrash, world: "World") -> None:
    _crash(world, step.for_ms, silently=False)


@do.register(steps.PowerFails)
def _(step: steps.PowerFails, world: "World") -> None:
    _crash(world, step.for_ms, silently=True)


def _crash(world: "World", for_ms: int, *, silently: bool) -> None:
    world.spawn(world.crash_brokers(silently=silently))
    world.later(for_ms, partial(_start_brokers, world))


def _start_brokers(world: "World") -> None:
    world.spawn(world.brokers.start())


@do.register(steps.ClockJumps)
def _(step: steps.ClockJumps, world: "World") -> None:
    world.brokers.jump(step.by_ms)


# -- disk and log


@do.register(steps.DiskFull)
def _(step: steps.DiskFull, world: "World") -> None:
    world.disk.is_full = True
    world.later(step.for_ms, partial(setattr, world.disk, "is_full", False))


@do.register(steps.DiskFails)
def _(step: steps.DiskFails, world: "World") -> None:
    world.disk.fails_once = True


@do.register(steps.SlowDisk)
def _(step: steps.SlowDisk, world: "World") -> None:
    world.disk.latency_ms = step.latency_ms
    world.later(step.for_ms, partial(setattr, world.disk, "latency_ms", world.plan.disk_latency_ms))


@do.register(steps.SlowLog)
def _(step: steps.SlowLog, world: "World") -> None:
    world.brokers.slow_log(step.latency_ms)
    world.later(step.for_ms, partial(world.brokers.slow_log, None))


@do.register(steps.LogRefuses)
def _(step: steps.LogRefuses, world: "World") -> None:
    world.brokers.slow_log(LOG_ANSWERS_MS, ErrorCode[step.code])
    world.later(step.for_ms, partial(world.brokers.slow_log, None))


# -- topics


@do.register(steps.TopicAppears)
def _(step: steps.TopicAppears, world: "World") -> None:
    if (cluster := world.brokers.cluster) is not None and step.topic not in cluster.topics.by_name:
        with suppress(StoreError):
            cluster.create_topic(step.topic, step.partitions, cause=PLAN)


@do.register(steps.TopicGrows)
def _(step: steps.TopicGrows, world: "World") -> None:
    cluster = world.brokers.cluster
    topic = cluster.topics.by_name.get(step.topic) if cluster else None
    if cluster and topic and topic.partitions < step.partitions:
        with suppress(StoreError):
            cluster.happen(PartitionsAdded(name=step.topic, partitions=step.partitions), PLAN)


@do.register(steps.TopicVanishes)
def _(step: steps.TopicVanishes, world: "World") -> None:
    cluster = world.brokers.cluster
    topic = cluster.topics.by_name.get(step.topic) if cluster else None
    if cluster and topic:
        with suppress(StoreError):
            cluster.happen(TopicDeleted(name=step.topic, topic_id=topic.topic_id), PLAN)
            if world.judge:
                world.judge.topic_vanished(step.topic, world.now_ms)
