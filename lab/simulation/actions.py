"""Performs each step of a plan on the simulated world: members, brokers, network, disk and topics."""

from contextlib import suppress
from functools import partial
from itertools import product
from typing import Final

from regroup.coordinator.serialization import Cause
from regroup.lab.plan import rare_steps as rare
from regroup.lab.plan import steps as s
from regroup.lab.plan.sentences import Sentence
from regroup.lab.simulation.brokers import broker_host
from regroup.lab.simulation.clients.other_clients import perform_as_other_client
from regroup.lab.simulation.clients.transactions import perform_in_transaction
from regroup.lab.simulation.world import World
from regroup.members.faults import MemberFaultKind
from regroup.protocol.errors import ErrorCode
from regroup.server.cluster.events import PartitionsAdded, TopicDeleted
from regroup.storage.errors import StoreError

PLAN_CAUSE: Final = Cause(internal="the plan")


def perform(step: Sentence, world: World) -> None:
    """Carry out a step of a plan on the world; one that lasts for some time continues in a task of its own."""
    if isinstance(step, s.MemberStep):
        _perform_on_member(step, world)
    elif isinstance(step, s.TransactionStep):
        perform_in_transaction(step, world)
    elif isinstance(step, s.ClientStep):
        perform_as_other_client(step, world)
    elif isinstance(step, s.NetworkStep):
        _perform_on_network(step, world)
    elif isinstance(step, s.BrokerStep):
        _perform_on_brokers(step, world)
    elif isinstance(step, s.StorageStep):
        _perform_on_storage(step, world)
    elif isinstance(step, s.TopicStep):
        with suppress(StoreError):  # the disk is full, or fails
            _perform_on_topic(step, world)
    else:
        raise NotImplementedError(f"not an action: {step}")


def _perform_on_member(step: s.MemberStep, world: World) -> None:
    members = world.members
    match step:
        case s.Joins():
            members.join(step.member)
        case s.Leaves():
            members.inject_fault(step.member, MemberFaultKind.LEAVE)
        case s.Crashes():
            members.inject_fault(step.member, MemberFaultKind.CRASH)
        case s.BecomesZombie():
            members.inject_fault(step.member, MemberFaultKind.ZOMBIE)
        case s.Pauses():
            members.inject_fault(step.member, MemberFaultKind.PAUSE, step.duration_ms)
        case s.Restarts():
            members.inject_fault(step.member, MemberFaultKind.RESTART, step.delay_ms)
        case s.RestartsWithoutInstanceId():
            members.inject_fault(step.member, MemberFaultKind.RESTART_AS_STRANGER, step.delay_ms)
        case s.StaysOutsidePoll():
            members.inject_fault(step.member, MemberFaultKind.NO_POLL, step.duration_ms)
        case rare.Unsubscribes():
            members.unsubscribe(step.member)
            world.later(step.duration_ms, partial(members.subscribe, step.member))
        case rare.SubscribesToOneTopic():
            members.subscribe(step.member, (step.topic,))
            world.later(step.duration_ms, partial(members.subscribe, step.member))
        case s.RequestsRebalance():
            member = members.by_name.get(step.member)
            if member is not None and not member.is_stopped:
                member.enforce_rebalance("its application asked for it")


def _perform_on_network(step: s.NetworkStep, world: World) -> None:
    network = world.network
    match step:
        case s.CutOff() | s.ReceivesNothing():
            for host, other in product(_hosts(step.host, world), _hosts(step.other, world)):
                if isinstance(step, s.CutOff):
                    _cut(world, host, other, step.duration_ms)
                _cut(world, other, host, step.duration_ms)
        case s.SlowNetwork():
            network.latency_ms, network.jitter_ms = step.latency_ms, step.jitter_ms
            world.later(step.duration_ms, network.restore_latency)
        case s.ConnectionsReset():
            for host in _hosts(step.host, world):
                network.reset_connections(host)
        case rare.ErrorIsUnknown():
            world.members.unknown_errors.expect(step.member, step.api)
        case rare.ResponseIsLate():
            world.members.late_responses.expect(step.member, step.api, step.latency_ms)
        case rare.TopicIsUnknown():
            unknown = world.members.unknown_topics
            unknown.begin(step.member, step.topic)
            world.later(step.duration_ms, partial(unknown.end, step.member, step.topic))
        case s.RequestLost() | s.ResponseLost():
            world.interceptor.lose_next(step.member, step.api, response=isinstance(step, s.ResponseLost))


def _cut(world: World, host: str, other: str, duration_ms: int) -> None:
    world.network.cut(host, other)
    world.later(duration_ms, partial(world.network.restore, host, other))


def _hosts(name: str, world: World) -> list[str]:
    """The names of the hosts that a step means: for `the brokers` the host of each broker, for another name that name
    alone."""
    return [broker_host(broker) for broker in range(world.brokers.count)] if name == s.ALL_BROKERS else [name]


def _perform_on_brokers(step: s.BrokerStep, world: World) -> None:
    brokers = world.brokers
    match step:
        case s.BrokerStops():
            if step.broker < brokers.count:
                world.spawn(brokers.stop_broker(step.broker))
                world.later(step.duration_ms, lambda: world.spawn(brokers.start_broker(step.broker)))
        case s.BrokersCrash() | s.PowerFails():
            world.spawn(world.crash_brokers(silently=isinstance(step, s.PowerFails)))
            world.later(step.duration_ms, lambda: world.spawn(brokers.start_with_retries()))
        case s.ClockJumps():
            brokers.jump_clock(step.offset_ms)


def _perform_on_storage(step: s.StorageStep, world: World) -> None:
    disk, brokers = world.disk, world.brokers
    match step:
        case s.DiskFull():
            disk.is_full = True
            world.later(step.duration_ms, partial(setattr, disk, "is_full", False))
        case s.DiskFails():
            disk.fails_next_write = True
        case s.SlowDisk():
            disk.latency_ms = step.latency_ms
            world.later(step.duration_ms, partial(setattr, disk, "latency_ms", world.plan.disk_latency_ms))
        case s.SlowKafkaLog():
            brokers.set_log_delay(step.latency_ms)
            world.later(step.duration_ms, partial(brokers.set_log_delay, None))
        case s.KafkaLogFails():
            brokers.set_log_delay(step.latency_ms, ErrorCode[step.code])
            world.later(step.duration_ms, partial(brokers.set_log_delay, None))


def _perform_on_topic(step: s.TopicStep, world: World) -> None:
    state = world.brokers.cluster_state
    if state is None:
        return
    topic = state.topics.get(step.topic)
    match step:
        case s.TopicIsCreated() if topic is None:
            state.create_topic(step.topic, step.partitions, cause=PLAN_CAUSE)
        case s.TopicGrows() if topic is not None and topic.partitions < step.partitions:
            state.record_event(PartitionsAdded(name=step.topic, partitions=step.partitions), PLAN_CAUSE)
        case s.TopicIsDeleted() if topic is not None:
            state.record_event(TopicDeleted(name=step.topic, topic_id=topic.topic_id), PLAN_CAUSE)
            if world.checker:
                world.checker.members.on_topic_deletion(step.topic)
