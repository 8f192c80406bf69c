"""Invariants of members of the classic protocol in groups of the consumer protocol: JoinGroup, SyncGroup, Heartbeat.

They judge a response by the group that the stored events add up to (`StoredGroup`), before the request and after it.
"""

from base64 import urlsafe_b64decode
from struct import unpack
from typing import Any, Final

from regroup.coordinator import commands as c
from regroup.coordinator.settings import CoordinatorSettings
from regroup.lab.checker.consumer import rules
from regroup.lab.checker.consumer.groups import ConsumerGroups
from regroup.lab.checker.consumer.judging import ConsumerInvariant, unlike, waits_for_log
from regroup.lab.checker.consumer.profiles import a_classic_member_is_stored_as_it_describes_itself
from regroup.lab.checker.consumer.stored_group import StoredMember
from regroup.lab.checker.exchanges import ObservedExchange
from regroup.protocol.consumer.subscription import HIGHEST_VERSION, MalformedConsumerProtocol, decode_assignment
from regroup.protocol.errors import ErrorCode

MOST_KEYS_IN_A_SMALL_MAP: Final = 12
UNJUDGED: Final = (ErrorCode.UNKNOWN_SERVER_ERROR,)
"""The error of an assignor that failed, or of a description that no batch of the log holds."""


def a_classic_member_gets_the_error_of_the_rules(
    groups: ConsumerGroups, exchange: ObservedExchange, settings: CoordinatorSettings
) -> str | None:
    """A member of the classic protocol is let in, asked to join again, or refused, as the stored group requires."""
    command, group = exchange.command, groups.group(exchange.group_id).stored
    if not group.is_consumer:
        return None
    if isinstance(command, c.Heartbeat | c.SyncGroup):
        return unlike(rules.classic_error(group, command), exchange, UNJUDGED)
    if isinstance(command, c.JoinGroup) and exchange.held_under is None:
        return unlike(rules.join_error(group, command, settings), exchange, UNJUDGED)
    return None


def a_classic_member_joins_at_its_epoch(
    groups: ConsumerGroups, exchange: ObservedExchange, settings: CoordinatorSettings
) -> str | None:
    """The generation in a JoinGroup response is the stored epoch of its member, and no member leads.

    The assignor is the first that the member offers.
    """
    command, response, group = exchange.command, exchange.response, groups.group(exchange.group_id).stored
    if not isinstance(command, c.JoinGroup) or not group.is_consumer:
        return None
    said: Any = response
    member = group.members.get(said.member_id)
    if member is None or member.profile.classic is None or (command.member_id or said.member_id) != said.member_id:
        return f"{said.member_id} joins, and the store has no such member of the classic protocol"
    if said.generation_id != member.epoch:
        return f"{said.member_id} joins generation {said.generation_id}, and the store has epoch {member.epoch}"
    offered = command.profile.supported_protocols
    if member.profile.classic.supported_protocols != offered:
        return f"the store has other assignors of {said.member_id}, or another subscription"
    if (said.leader, list(said.members), said.protocol_type, said.protocol_name) != (
        "",
        [],
        "consumer",
        offered[0].name,
    ):
        return f"{said.member_id} is to assign as {said.leader!r} with {said.protocol_name!r}"
    return None


def a_classic_member_syncs_what_it_is_assigned(
    groups: ConsumerGroups, exchange: ObservedExchange, settings: CoordinatorSettings
) -> str | None:
    """The assignment in a SyncGroup response has the partitions that the store has for the member, by their topics.

    It is encoded in the version of the member's first subscription.
    """
    command, response, group = exchange.command, exchange.response, groups.group(exchange.group_id).stored
    if not isinstance(command, c.SyncGroup) or not group.is_consumer:
        return None
    said: Any = response
    member = group.members.get(command.member_id)
    if member is None:
        return f"{command.member_id} is no member"
    by_id = command.topics.by_id
    stored = {(by_id[topic_id].name, index) for topic_id, index in member.assigned if topic_id in by_id}
    try:
        assignment = decode_assignment(said.assignment)
    except MalformedConsumerProtocol as error:
        return f"the assignment of {command.member_id} cannot be decoded: {error}"
    given = [(each.topic, each.partition) for each in assignment.partitions]
    version = subscription_version(member)
    if version is not None and assignment.version != version:
        return f"{command.member_id} gets an assignment of version {assignment.version}, and subscribes with {version}"
    if sorted(given) != sorted(stored):
        return f"{command.member_id} gets {sorted(given)}, and the store has {sorted(stored)}"
    return None


def topics_are_synced_in_the_order_of_their_ids(
    groups: ConsumerGroups, exchange: ObservedExchange, settings: CoordinatorSettings
) -> str | None:
    """The topics in a SyncGroup response are in the order of Kafka's hash map of their ids.

    A hash map of up to 12 keys has 16 buckets; the hash of an id is that of its 128 bits, 32 by 32.
    """
    command, response, group = exchange.command, exchange.response, groups.group(exchange.group_id).stored
    if not isinstance(command, c.SyncGroup) or not group.is_consumer or exchange.error_code:
        return None
    said: Any = response
    try:
        names = list(dict.fromkeys(each.topic for each in decode_assignment(said.assignment).partitions))
    except MalformedConsumerProtocol:
        return None
    by_name = command.topics.by_name
    if len(names) > MOST_KEYS_IN_A_SMALL_MAP or any(name not in by_name for name in names):
        return None
    buckets = [_bucket_of(by_name[name].topic_id) for name in names]
    if buckets == sorted(buckets):
        return None
    return f"{command.member_id} gets the topics {', '.join(names)} in the buckets {buckets}"


def _bucket_of(topic_id: str) -> int:
    """The bucket of a topic id in Java's smallest hash map. The text of an id is its bytes in base64."""
    first, second, third, fourth = unpack(">4I", urlsafe_b64decode(f"{topic_id}=="))
    hashed = int(first ^ second ^ third ^ fourth)
    return (hashed ^ hashed >> 16) % 16


def subscription_version(member: StoredMember) -> int | None:
    """The version of the first subscription of a classic member; None if it has none, or one that Kafka would not
    encode."""
    offered = member.profile.classic.supported_protocols if member.profile.classic else ()
    version = int.from_bytes(offered[0].metadata[:2], "big") if offered else HIGHEST_VERSION + 1
    return version if version <= HIGHEST_VERSION else None


def a_leaving_member_gets_the_error_of_the_rules(
    groups: ConsumerGroups, exchange: ObservedExchange, settings: CoordinatorSettings
) -> str | None:
    """LeaveGroup removes the members of a group of the consumer protocol that it names, and refuses to remove others.

    It names one by its member id, or by its instance id alone.
    """
    command, response, group = exchange.command, exchange.response, groups.group(exchange.group_id).stored
    if not isinstance(command, c.LeaveGroup) or not group.is_consumer or waits_for_log(exchange):
        return None
    said: Any = response
    for leaving, answered in zip(command.members, said.members, strict=False):
        names_instance_alone = not leaving.member_id and leaving.group_instance_id is not None
        if names_instance_alone and group.member_of_instance(leaving.group_instance_id or "") is not None:
            expected = ErrorCode.NONE
        else:
            expected = rules.identity_error(group, leaving.member_id, leaving.group_instance_id)
        if answered.error_code != expected:
            return f"{leaving} gets {ErrorCode.name_of(answered.error_code)}, and the rules have {expected.name}"
    return None


CLASSIC_MEMBER_INVARIANTS: Final[tuple[ConsumerInvariant, ...]] = (
    a_classic_member_joins_at_its_epoch,
    a_classic_member_is_stored_as_it_describes_itself,
    a_classic_member_syncs_what_it_is_assigned,
    topics_are_synced_in_the_order_of_their_ids,
)
"""Invariants of JoinGroup and SyncGroup that are accepted, by the group after them."""
