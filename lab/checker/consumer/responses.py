"""Checks a response by all that is known of its group: before the request, after it, and what members were answered."""

from collections.abc import Iterable, Iterator
from typing import Any

from regroup.coordinator import commands as c
from regroup.coordinator.consumer.commands import ConsumerGroupHeartbeat
from regroup.coordinator.invariants import invariant_sentence
from regroup.coordinator.settings import CoordinatorSettings
from regroup.lab.checker.consumer.groups import ConsumerGroups
from regroup.lab.checker.consumer.invariants import RULE_INVARIANTS, invariants_of
from regroup.lab.checker.consumer.judging import ConsumerInvariant
from regroup.lab.checker.exchanges import ObservedExchange
from regroup.protocol.errors import ErrorCode


def violations_of_response(
    groups: ConsumerGroups, exchange: ObservedExchange, settings: CoordinatorSettings
) -> Iterator[tuple[str, str]]:
    """Check a response to a member; yield the sentence of each violated invariant and what was found.

    What the response says is noted for later checks, also in classic groups: their members must not be lost if the
    group changes its protocol.
    """
    command: Any = exchange.command
    group_id, kind = exchange.group_id, type(command)
    group = groups.group(group_id)
    if exchange.exchange_number < group.exchange_number:
        # Kafka's log has delayed it: the group is further than it was when the response was decided.
        if kind is ConsumerGroupHeartbeat and not exchange.error_code:
            groups.on_late_heartbeat(command, exchange.response)
        elif kind is ConsumerGroupHeartbeat and has_changed_its_group(exchange):
            groups.on_release(command)
        return
    group.exchange_number = exchange.exchange_number
    if kind is ConsumerGroupHeartbeat or exchange.before.consumer is not None:
        yield from _violations_of_consumer_group(groups, exchange, settings)
    elif group.queue:
        yield from groups.proceed(group_id, exchange.after.event_number)
    if exchange.error_code:
        if kind is ConsumerGroupHeartbeat and has_changed_its_group(exchange):
            groups.on_release(command)
        if exchange.error_code == ErrorCode.FENCED_MEMBER_EPOCH and kind is ConsumerGroupHeartbeat:
            groups.on_fenced(command)
        return
    if kind is ConsumerGroupHeartbeat:
        groups.on_heartbeat(command, exchange.response)
    elif kind is c.SyncGroup or kind is c.Heartbeat:
        groups.on_classic_response(group_id, command.member_id)


def has_changed_its_group(exchange: ObservedExchange) -> bool:
    """Whether a request has led to events of its group, whatever it was answered."""
    return exchange.after.event_number > exchange.before.event_number


def _violations_of_consumer_group(
    groups: ConsumerGroups, exchange: ObservedExchange, settings: CoordinatorSettings
) -> Iterator[tuple[str, str]]:
    member_id = getattr(exchange.command, "member_id", None) or ""
    yield from groups.begin(exchange.group_id, exchange.before.event_number, member_id)
    yield from _violated(RULE_INVARIANTS, groups, exchange, settings)
    yield from groups.proceed(exchange.group_id, exchange.after.event_number)
    is_heartbeat = isinstance(exchange.command, ConsumerGroupHeartbeat)
    yield from _violated(invariants_of(is_heartbeat, exchange.error_code), groups, exchange, settings)


def _violated(
    invariants: Iterable[ConsumerInvariant],
    groups: ConsumerGroups,
    exchange: ObservedExchange,
    settings: CoordinatorSettings,
) -> Iterator[tuple[str, str]]:
    for invariant in invariants:
        if detail := invariant(groups, exchange, settings):
            yield invariant_sentence(invariant), detail
