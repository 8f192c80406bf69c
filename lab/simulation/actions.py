"""The effect of each step of a plan on its world."""

from contextlib import suppress
from functools import partial, singledispatch
from typing import Final

from regroup.coordinator.serialization import Cause
from regroup.lab.plan import steps
from regroup.lab.plan.sentences import Sentence
from regroup.lab.simulation.brokers import broker_host
from regroup.lab.simulation.world import World
from regroup.members.faults import MemberFaultKind
from regroup.protocol.errors import ErrorCode
from regroup.server.cluster.events import PartitionsAdded, TopicDeleted
from regroup.storage.errors import StoreError

PLAN_CAUSE: Final = Cause(internal="the plan")
LOG_FAILURE_LATENCY_MS: Final = 10
"""Time that Kafka's log takes to fail an append."""
_MEMBER_FAULTS: Final[dict[type[Sentence], MemberFaultKind]] = {
    steps.Leaves: MemberFaultKind.LEAVE,
    steps.Crashes: MemberFaultKind.CRASH,
    steps.BecomesZombie: MemberFaultKind.ZOMBIE,
    steps.Pauses: MemberFaultKind.PAUSE,
    steps.Restarts: MemberFaultKind.RESTART,
    steps.RestartsWithoutInstanceId: MemberFaultKind.RESTART_AS_STRANGER,
}


@singledispatch
def perform(step: Sentence, world: World) -> None:
    """Let a step happen now."""
    raise NotImplementedError(f"not an action: {step}")


# -- members


@perform.register
def _(step: steps.Joins, world: World) -> None:
    world.members.join(step.member)


@perform.register
def _(step: steps.Leaves | steps.Crashes | steps.BecomesZombie, world: World) -> None:
    world.members.inject_fault(step.member, _MEMBER_FAULTS[type(step)])


@perform.register
def _(step: steps.Pauses, world: World) -> None:
    world.members.inject_fault(step.member, _MEMBER_FAULTS[type(step)], step.duration_ms)


@perform.register
def _(step: steps.Restarts | steps.RestartsWithoutInstanceId, world: World) -> None:
    world.members.inject_fault(step.member, _MEMBER_FAULTS[type(step)], step.delay_ms)


@perform.register
def _(step: steps.RequestsRebalance, world: World) -> None:
    member = world.members.by_name.get(step.member)
    if member is not None and not member.is_stopped:
        member.enforce_rebalance("its application asked for it")


# -- network


@perform.register
def _(step: steps.CutOff | steps.ReceivesNothing, world: World) -> None:
    for host in _hosts(step.host, world):
        for other in _hosts(step.other, world):
            if isinstance(step, steps.CutOff):
                _cut(world, host, other, step.duration_ms)
            _cut(world, other, host, step.duration_ms)


def _cut(world: World, host: str, other: str, duration_ms: int) -> None:
    world.network.cut(host, other)
    world.later(duration_ms, partial(world.network.restore, host, other))


def _hosts(name: str, world: World) -> list[str]:
    """`the brokers` are as many hosts as there are brokers."""
    if name == steps.ALL_BROKERS:
        return [broker_host(broker) for broker in range(world.brokers.count)]
    return [name]


@perform.register
def _(step: steps.SlowNetwork, world: World) -> None:
    world.network.latency_ms, world.network.jitter_ms = step.latency_ms, step.jitter_ms
    world.later(step.duration_ms, world.network.restore_latency)


@perform.register
def _(step: steps.ConnectionsReset, world: World) -> None:
    for host in _hosts(step.host, world):
        world.network.reset_connections(host)


@perform.register
def _(step: steps.RequestLost | steps.ResponseLost, world: World) -> None:
    world.interceptor.lose_next(step.member, step.api, response=isinstance(step, steps.ResponseLost))


# -- brokers


@perform.register
def _(step: steps.BrokerStops, world: World) -> None:
    if step.broker < world.brokers.count:
        world.spawn(world.brokers.stop_broker(step.broker))
        world.later(step.duration_ms, lambda: world.spawn(world.brokers.start_broker(step.broker)))


@perform.register
def _(step: steps.BrokersCrash | steps.PowerFails, world: World) -> None:
    world.spawn(world.crash_brokers(silently=isinstance(step, steps.PowerFails)))
    world.later(step.duration_ms, lambda: world.spawn(world.brokers.start_with_retries()))


@perform.register
def _(step: steps.ClockJumps, world: World) -> None:
    world.brokers.jump_clock(step.offset_ms)


# -- disk and Kafka's log


@perform.register
def _(step: steps.DiskFull, world: World) -> None:
    world.disk.is_full = True
    world.later(step.duration_ms, partial(setattr, world.disk, "is_full", False))


@perform.register
def _(step: steps.DiskFails, world: World) -> None:
    world.disk.fails_next_write = True


@perform.register
def _(step: steps.SlowDisk, world: World) -> None:
    world.disk.latency_ms = step.latency_ms
    world.later(step.duration_ms, partial(setattr, world.disk, "latency_ms", world.plan.disk_latency_ms))


@perform.register
def _(step: steps.SlowKafkaLog, world: World) -> None:
    world.brokers.set_log_delay(step.latency_ms)
    world.later(step.duration_ms, partial(world.brokers.set_log_delay, None))


@perform.register
def _(step: steps.KafkaLogFails, world: World) -> None:
    world.brokers.set_log_delay(LOG_FAILURE_LATENCY_MS, ErrorCode[step.code])
    world.later(step.duration_ms, partial(world.brokers.set_log_delay, None))


# -- topics


@perform.register
def _(step: steps.TopicIsCreated, world: World) -> None:
    state = world.brokers.cluster_state
    if state is not None and step.topic not in state.topics:
        with suppress(StoreError):
            state.create_topic(step.topic, step.partitions, cause=PLAN_CAUSE)


@perform.register
def _(step: steps.TopicGrows, world: World) -> None:
    state = world.brokers.cluster_state
    topic = state.topics.get(step.topic) if state else None
    if state and topic and topic.partitions < step.partitions:
        with suppress(StoreError):
            state.record_event(PartitionsAdded(name=step.topic, partitions=step.partitions), PLAN_CAUSE)


@perform.register
def _(step: steps.TopicIsDeleted, world: World) -> None:
    state = world.brokers.cluster_state
    topic = state.topics.get(step.topic) if state else None
    if state and topic:
        with suppress(StoreError):
            state.record_event(TopicDeleted(name=step.topic, topic_id=topic.topic_id), PLAN_CAUSE)
            if world.checker:
                world.checker.members.on_topic_deleted(step.topic, world.now_ms)
