"""Invariants of the consumer protocol (KIP-848), each with the sentence of a violation in its first line.

They judge a response, before it leaves, by what earlier responses have told (`ConsumerGroups`).
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from regroup.coordinator import commands as c
from regroup.coordinator.consumer.commands import ConsumerGroupHeartbeat
from regroup.lab.checker.consumer_groups import ConsumerGroups, Partition, ToldMember, assignment_of
from regroup.lab.checker.exchanges import ObservedExchange
from regroup.protocol.errors import ErrorCode

ConsumerInvariant: TypeAlias = Callable[[ConsumerGroups, ObservedExchange], str | None]

FENCING_ERRORS: Final = (
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.UNRELEASED_INSTANCE_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.STALE_MEMBER_EPOCH,
)


def a_partition_is_free_before_it_is_assigned(groups: ConsumerGroups, exchange: ObservedExchange) -> str | None:
    """A partition is assigned to a member only when its former owner has released it, or was removed."""
    response: Any = exchange.response
    group = groups.group(exchange.group_id)
    told = group.members.get(response.member_id)
    held = told.held if told else frozenset()
    for partition in (assignment_of(response) or frozenset()) - held:
        for other in group.other_holders(response.member_id, partition):
            return f"{_name(partition)} is assigned to {response.member_id}, and {other} has not released it"
    return None


def epochs_of_a_member_never_run_back(groups: ConsumerGroups, exchange: ObservedExchange) -> str | None:
    """The epoch of a member never runs back between two joins."""
    command, response = exchange.command, exchange.response
    assert isinstance(command, ConsumerGroupHeartbeat)
    told = groups.group(exchange.group_id).members.get(command.member_id)
    if told is None or command.member_epoch <= 0:
        return None
    epoch: int = getattr(response, "member_epoch", 0)
    return f"{command.member_id} has epoch {told.epoch}, and was told {epoch}" if epoch < told.epoch else None


def a_member_at_the_target_has_nothing_outside_it(groups: ConsumerGroups, exchange: ObservedExchange) -> str | None:
    """A member whose epoch is that of the target assignment is assigned nothing outside its share of the target."""
    response: Any = exchange.response
    group = groups.group(exchange.group_id)
    if response.member_epoch != group.target_epoch:
        return None
    told, given = group.members.get(response.member_id, ToldMember()), assignment_of(response)
    outside = (told.assigned if given is None else given) - group.targets.get(response.member_id, frozenset())
    if not outside:
        return None
    return (
        f"{response.member_id} has {', '.join(_name(each) for each in sorted(outside))} at epoch {group.target_epoch}"
    )


def only_a_present_epoch_is_accepted(groups: ConsumerGroups, exchange: ObservedExchange) -> str | None:
    """A heartbeat is accepted only with the epoch that its member was told last, or the one before."""
    command = exchange.command
    assert isinstance(command, ConsumerGroupHeartbeat)
    if command.member_epoch <= 0:
        return None
    told = groups.group(exchange.group_id).members.get(command.member_id)
    if told is None:
        return f"{command.member_id} was no member"
    if command.member_epoch in told.epochs[-2:]:
        return None
    return f"epoch {command.member_epoch} of {command.member_id}, which was told {told.epochs[-2:]}"


def a_fenced_request_changes_nothing(groups: ConsumerGroups, exchange: ObservedExchange) -> str | None:
    """A request that is refused because of its member id or its epoch changes nothing in the group."""
    if exchange.error_code not in FENCING_ERRORS or exchange.after is exchange.before:
        return None
    if exchange.before.pending_appends or exchange.after.pending_appends:
        return None  # Kafka's log may have undone what was written
    before, after = exchange.before.event_number, exchange.after.event_number
    return f"it had events {before + 1} to {after}" if after != before else None


def a_commit_names_a_present_epoch(groups: ConsumerGroups, exchange: ObservedExchange) -> str | None:
    """A member commits with its present epoch, or with an older one what it has had assigned since then."""
    command = exchange.command
    if not isinstance(command, c.OffsetCommit | c.TxnOffsetCommit) or command.generation_id < 0:
        return None
    group = groups.group(exchange.group_id)
    told = group.members.get(command.member_id)
    if told is None:
        return None if _is_classic_member(exchange, command.member_id) else f"{command.member_id} is not a member"
    if command.generation_id == told.epoch:
        return None
    if command.generation_id > told.epoch:
        return f"epoch {command.generation_id} of {command.member_id}, whose epoch is {told.epoch}"
    for each in command.offsets:
        since = told.since.get((each.topic_id, each.partition)) if each.topic_id else None
        if since is None or command.generation_id < since:
            return f"epoch {command.generation_id} for {each.topic}-{each.partition}, assigned at {since}"
    return None


def _is_classic_member(exchange: ObservedExchange, member_id: str) -> bool:
    """Whether a member of a mixed group speaks the classic protocol: it sends no such heartbeats."""
    consumer = exchange.before.consumer
    member = consumer.members.get(member_id) if consumer else None
    return member is not None and member.is_classic


def _name(partition: Partition) -> str:
    return f"partition {partition[1]} of topic {partition[0]}"


HEARTBEAT_INVARIANTS: Final[tuple[ConsumerInvariant, ...]] = (
    a_partition_is_free_before_it_is_assigned,
    epochs_of_a_member_never_run_back,
    a_member_at_the_target_has_nothing_outside_it,
    only_a_present_epoch_is_accepted,
)
"""Invariants of heartbeats that are accepted."""
COMMIT_INVARIANTS: Final[tuple[ConsumerInvariant, ...]] = (a_commit_names_a_present_epoch,)
"""Invariants of commits that are accepted."""
REFUSAL_INVARIANTS: Final[tuple[ConsumerInvariant, ...]] = (a_fenced_request_changes_nothing,)
"""Invariants of requests that are refused."""
CONSUMER_INVARIANTS: Final = (*HEARTBEAT_INVARIANTS, *REFUSAL_INVARIANTS, *COMMIT_INVARIANTS)


def invariants_of(is_heartbeat: bool, error_code: int) -> tuple[ConsumerInvariant, ...]:
    """The invariants of a response to a heartbeat or a request about offsets."""
    if error_code:
        return REFUSAL_INVARIANTS
    return HEARTBEAT_INVARIANTS if is_heartbeat else COMMIT_INVARIANTS
