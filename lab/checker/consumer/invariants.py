"""Invariants of responses in groups of the consumer protocol (KIP-848), each with its sentence in its first line.

They judge a response before it leaves, by what earlier responses have answered and by the stored events
(`ConsumerGroups`).
"""

from typing import Any, Final

from regroup.coordinator import commands as c
from regroup.coordinator.consumer.commands import ConsumerGroupHeartbeat
from regroup.coordinator.group import GroupState
from regroup.coordinator.settings import CoordinatorSettings
from regroup.lab.checker.consumer import rules
from regroup.lab.checker.consumer.classic_members import (
    CLASSIC_MEMBER_INVARIANTS,
    a_classic_member_gets_the_error_of_the_rules,
    a_leaving_member_gets_the_error_of_the_rules,
)
from regroup.lab.checker.consumer.groups import AnsweredMember, ConsumerGroups, assignment_of
from regroup.lab.checker.consumer.judging import ConsumerInvariant, unlike, waits_for_log
from regroup.lab.checker.consumer.profiles import a_member_is_stored_as_it_describes_itself
from regroup.lab.checker.consumer.stored_group import Partition, flat
from regroup.lab.checker.exchanges import ObservedExchange
from regroup.lab.checker.responses.descriptions import a_description_shows_the_stored_epochs
from regroup.protocol.errors import ErrorCode

FENCING_ERRORS: Final = (
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.UNRELEASED_INSTANCE_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.ILLEGAL_GENERATION,
)
NO_MEMBERS: Final = (GroupState.EMPTY, GroupState.DEAD)

# -- heartbeats that are accepted


def a_partition_is_free_before_it_is_assigned(
    groups: ConsumerGroups, exchange: ObservedExchange, settings: CoordinatorSettings
) -> str | None:
    """A partition is assigned to a member only when its former owner has released it, was removed or was fenced.

    What the store still has for a fenced member is not free.
    """
    response: Any = exchange.response
    group = groups.group(exchange.group_id)
    member = group.members.get(response.member_id)
    held = member.held if member else frozenset()
    for partition in sorted((assignment_of(response) or frozenset()) - held):
        for other in group.other_holders(response.member_id, partition):
            return f"{_name(partition)} is assigned to {response.member_id}, and {other} has not released it"
    return None


def only_its_owner_releases_a_partition(
    groups: ConsumerGroups, exchange: ObservedExchange, settings: CoordinatorSettings
) -> str | None:
    """A heartbeat releases a partition only if it lists what its member owns, and that partition is not among it."""
    command = exchange.command
    assert isinstance(command, ConsumerGroupHeartbeat)
    group = groups.group(exchange.group_id)
    after = group.stored.members.get(command.member_id)
    if group.before is None or after is None or command.member_epoch <= 0:
        return None
    released = group.before.held.keys() - after.held.keys()
    owned = released if command.owned is None else released & flat(command.owned)
    return f"{', '.join(map(_name, sorted(owned)))} of {command.member_id} is released" if owned else None


def epochs_of_a_member_never_run_back(
    groups: ConsumerGroups, exchange: ObservedExchange, settings: CoordinatorSettings
) -> str | None:
    """The epoch of a member never runs back between two joins."""
    command, response = exchange.command, exchange.response
    assert isinstance(command, ConsumerGroupHeartbeat)
    member = groups.group(exchange.group_id).members.get(command.member_id)
    if member is None or command.member_epoch <= 0:
        return None
    epoch: int = getattr(response, "member_epoch", 0)
    return f"{command.member_id} has epoch {member.epoch}, and the response {epoch}" if epoch < member.epoch else None


def a_response_has_the_epoch_of_the_member_or_the_target(
    groups: ConsumerGroups, exchange: ObservedExchange, settings: CoordinatorSettings
) -> str | None:
    """The epoch in a response is the one that the member had before, or that of the target assignment."""
    response: Any = exchange.response
    group = groups.group(exchange.group_id)
    former = group.before.epoch if group.before else 0
    if _epoch(exchange) < 0 or response.member_epoch in (former, group.stored.target_epoch):
        return None
    return (
        f"{response.member_id} had epoch {former}, the target has {group.stored.target_epoch}, "
        f"and the response {response.member_epoch}"
    )


def a_member_at_the_target_has_nothing_outside_it(
    groups: ConsumerGroups, exchange: ObservedExchange, settings: CoordinatorSettings
) -> str | None:
    """A member whose epoch is that of the target assignment is assigned nothing outside its share of the target."""
    response: Any = exchange.response
    group = groups.group(exchange.group_id)
    if response.member_epoch != group.stored.target_epoch:
        return None
    member, given = group.members.get(response.member_id, AnsweredMember()), assignment_of(response)
    target = group.stored.targets.get(response.member_id, frozenset())
    outside = (member.assigned if given is None else given) - target
    if not outside:
        return None
    return f"{response.member_id} has {', '.join(map(_name, sorted(outside)))} at epoch {response.member_epoch}"


def only_a_present_epoch_is_accepted(
    groups: ConsumerGroups, exchange: ObservedExchange, settings: CoordinatorSettings
) -> str | None:
    """A heartbeat is accepted only with the epoch of the last response to its member, or with the one before.

    The one before a join may be that of a former join whose response was an error, since Kafka's log was late.
    """
    command = exchange.command
    assert isinstance(command, ConsumerGroupHeartbeat)
    if command.member_epoch <= 0:
        return None
    group = groups.group(exchange.group_id)
    member = group.members.get(command.member_id)
    if member is None:
        return f"{command.member_id} was no member"
    if command.member_epoch in member.epochs[-2:]:
        return None
    has_just_joined = len(member.epochs) == 1
    if has_just_joined and group.before is not None and command.member_epoch == group.before.previous_epoch:
        return None
    return f"epoch {command.member_epoch} of {command.member_id}, whose responses had {member.epochs[-2:]}"


def a_response_says_what_is_stored(
    groups: ConsumerGroups, exchange: ObservedExchange, settings: CoordinatorSettings
) -> str | None:
    """The store holds the epoch and the assignment of a response, which names an assignment whenever it has changed.

    A response to a member that joins has one too.
    """
    response: Any = exchange.response
    if _epoch(exchange) < 0:
        return None
    group, given = groups.group(exchange.group_id), assignment_of(response)
    stored = group.stored.members.get(response.member_id)
    if stored is None or stored.epoch != response.member_epoch:
        found = "no member" if stored is None else f"epoch {stored.epoch}"
        return f"{response.member_id} has epoch {response.member_epoch}, and the store {found}"
    if given is not None and given != stored.assigned.keys():
        return f"the assignment of {response.member_id} is not the stored one"
    has_changed = group.before is None or group.before.assigned != stored.assigned or _epoch(exchange) == 0
    if given is None and has_changed:
        return f"{response.member_id} has another assignment than before, and the response has none"
    return None


def a_full_heartbeat_gets_its_assignment(
    groups: ConsumerGroups, exchange: ObservedExchange, settings: CoordinatorSettings
) -> str | None:
    """A heartbeat that names timeout, subscription and owned partitions gets the assignment, also an unchanged one."""
    command, response = exchange.command, exchange.response
    assert isinstance(command, ConsumerGroupHeartbeat)
    names_subscription = command.subscribed_topics is not None or command.subscribed_regex is not None
    is_full = command.rebalance_timeout_ms != -1 and names_subscription and command.owned is not None
    if command.member_epoch < 0 or not is_full or assignment_of(response) is not None:
        return None
    return f"the response to {command.member_id} has no assignment"


def a_heartbeat_bumps_the_group_epoch_once(
    groups: ConsumerGroups, exchange: ObservedExchange, settings: CoordinatorSettings
) -> str | None:
    """A heartbeat bumps the group epoch once at most, and not if it names neither topics nor a member that leaves.

    Topics that have changed, and an assignor of its own, are reasons too.
    """
    command, group = exchange.command, groups.group(exchange.group_id)
    assert isinstance(command, ConsumerGroupHeartbeat)
    if exchange.before.consumer is None:
        return None  # a group that is created or upgraded takes its first epoch from elsewhere
    bumped = group.stored.group_epoch - group.epoch_before
    says_nothing = command.subscribed_topics is None and command.subscribed_regex is None
    is_delta = says_nothing and command.server_assignor is None and command.member_epoch > 0
    allowed = 0 if is_delta and group.topics_are_known(command.topics) else 1
    if bumped <= allowed:
        return None
    return f"the group epoch went from {group.epoch_before} to {group.stored.group_epoch}"


# -- requests with and without success


def only_an_invalid_heartbeat_is_refused_as_invalid(
    groups: ConsumerGroups, exchange: ObservedExchange, settings: CoordinatorSettings
) -> str | None:
    """A heartbeat is refused as invalid if one of its own fields is wrong or missing, and only then."""
    command = exchange.command
    if not isinstance(command, ConsumerGroupHeartbeat):
        return None
    expected = rules.request_error(command)
    is_refused = exchange.error_code in rules.INVALID_BY_ITSELF
    return f"its fields have {expected.name}" if (expected or is_refused) and exchange.error_code != expected else None


def a_heartbeat_gets_the_error_of_the_rules(
    groups: ConsumerGroups, exchange: ObservedExchange, settings: CoordinatorSettings
) -> str | None:
    """A heartbeat is accepted, or refused with an error, as the stored group and Kafka's rules require."""
    command = exchange.command
    before = exchange.before
    if not isinstance(command, ConsumerGroupHeartbeat):
        return None
    if before.consumer is None and before.state not in NO_MEMBERS:
        expected = rules.upgrade_error(before, command, settings)  # the rest depends on the members of the group
        return unlike(expected, exchange, rules.INVALID_BY_ITSELF) if expected else None
    stored = groups.group(exchange.group_id).stored
    return unlike(rules.heartbeat_error(stored, command, settings.group_consumer_max_size), exchange)


def a_commit_gets_the_error_of_the_rules(
    groups: ConsumerGroups, exchange: ObservedExchange, settings: CoordinatorSettings
) -> str | None:
    """A commit is accepted if the rules of member epochs and partitions allow it, and only then.

    Offsets are fetched under the same rules, with the present epoch alone.
    """
    command, group = exchange.command, groups.group(exchange.group_id).stored
    if not group.is_consumer:
        return None
    if isinstance(command, c.OffsetCommit | c.TxnOffsetCommit):
        return unlike(rules.commit_error(group, command), exchange)
    if isinstance(command, c.OffsetFetch):
        return unlike(rules.fetch_error(group, command), exchange)
    return None


def a_fenced_request_changes_nothing(
    groups: ConsumerGroups, exchange: ObservedExchange, settings: CoordinatorSettings
) -> str | None:
    """A request that is refused because of its member id, its epoch or its own fields changes nothing in the group."""
    if (
        exchange.error_code not in (*FENCING_ERRORS, *rules.INVALID_BY_ITSELF)
        or exchange.after is exchange.before
        or waits_for_log(exchange)
    ):
        return None
    before, after = exchange.before.event_number, exchange.after.event_number
    return f"it had events {before + 1} to {after}" if after != before else None


def a_commit_names_a_present_epoch(
    groups: ConsumerGroups, exchange: ObservedExchange, settings: CoordinatorSettings
) -> str | None:
    """A member commits with its present epoch, or with an older one what it has had assigned since then."""
    command = exchange.command
    if not isinstance(command, c.OffsetCommit | c.TxnOffsetCommit) or command.generation_id < 0:
        return None
    group = groups.group(exchange.group_id)
    member, stored = group.members.get(command.member_id), group.stored.members.get(command.member_id)
    if stored is not None and stored.is_classic:
        return None  # it sends no such heartbeats
    if member is None:
        # The heartbeat by which it joined may have taken effect and got the error of an earlier record.
        is_stored = stored is not None and command.generation_id == stored.epoch
        return None if is_stored else f"{command.member_id} is not a member"
    if command.generation_id == member.epoch:
        return None
    if command.generation_id > member.epoch:
        return f"epoch {command.generation_id} of {command.member_id}, whose epoch is {member.epoch}"
    # A classic member whose id joins by the consumer protocol has had its partitions for longer than heartbeats show.
    held = stored.held if stored is not None else {}
    for each in command.offsets:
        partition = each.topic_id, each.partition
        shown = member.since.get(partition) if each.topic_id else None
        since = None if shown is None else min(shown, held.get(partition, shown))
        if since is None or command.generation_id < since:
            return f"epoch {command.generation_id} for {each.topic}-{each.partition}, assigned at {since}"
    return None


def _epoch(exchange: ObservedExchange) -> int:
    command = exchange.command
    assert isinstance(command, ConsumerGroupHeartbeat)
    return command.member_epoch


def _name(partition: Partition) -> str:
    return f"partition {partition[1]} of topic {partition[0]}"


RULE_INVARIANTS: Final[tuple[ConsumerInvariant, ...]] = (
    only_an_invalid_heartbeat_is_refused_as_invalid,
    a_heartbeat_gets_the_error_of_the_rules,
    a_commit_gets_the_error_of_the_rules,
    a_classic_member_gets_the_error_of_the_rules,
    a_leaving_member_gets_the_error_of_the_rules,
)
"""Invariants of all responses, by the group as it was before the request."""
HEARTBEAT_INVARIANTS: Final[tuple[ConsumerInvariant, ...]] = (
    a_partition_is_free_before_it_is_assigned,
    only_its_owner_releases_a_partition,
    epochs_of_a_member_never_run_back,
    a_response_has_the_epoch_of_the_member_or_the_target,
    a_member_at_the_target_has_nothing_outside_it,
    only_a_present_epoch_is_accepted,
    a_response_says_what_is_stored,
    a_member_is_stored_as_it_describes_itself,
    a_full_heartbeat_gets_its_assignment,
    a_heartbeat_bumps_the_group_epoch_once,
)
"""Invariants of heartbeats that are accepted, by the group after them."""
OTHER_INVARIANTS: Final[tuple[ConsumerInvariant, ...]] = (
    a_commit_names_a_present_epoch,
    a_description_shows_the_stored_epochs,
    *CLASSIC_MEMBER_INVARIANTS,
)
"""Invariants of other requests that are accepted."""
REFUSAL_INVARIANTS: Final[tuple[ConsumerInvariant, ...]] = (a_fenced_request_changes_nothing,)
"""Invariants of requests that are refused."""
CONSUMER_INVARIANTS: Final = (*RULE_INVARIANTS, *HEARTBEAT_INVARIANTS, *REFUSAL_INVARIANTS, *OTHER_INVARIANTS)


def invariants_of(is_heartbeat: bool, error_code: int) -> tuple[ConsumerInvariant, ...]:
    """The invariants that apply to a response: to a heartbeat or to another request, with this error code."""
    if error_code:
        return REFUSAL_INVARIANTS
    return HEARTBEAT_INVARIANTS if is_heartbeat else OTHER_INVARIANTS
