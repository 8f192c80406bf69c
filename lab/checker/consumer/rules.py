"""The errors that requests to a group of the consumer protocol get, independent of the code that decides.

    heartbeat_error(group.stored, command, max_size)       NONE if the heartbeat has to be accepted
    commit_error(group.stored, command)                    the error of the whole commit
    fetch_error(group.stored, command)                     the error of a request for committed offsets
    classic_error(group.stored, command)                   the error of a Heartbeat or SyncGroup, and of a JoinGroup
    join_error(group.stored, command, settings)            (members of the classic protocol)

The group is what the stored events add up to (`StoredGroup`). The checks are in Kafka's order: the first that fails
answers. What is wrong with a request whatever its group is like is not repeated here: `UNJUDGED`.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from regroup.coordinator import commands as c
from regroup.coordinator.consumer.commands import ConsumerGroupHeartbeat
from regroup.coordinator.consumer_group import AWAY_EPOCH, ReconciliationState
from regroup.coordinator.group import Group, MemberProfile
from regroup.coordinator.settings import CoordinatorSettings, MigrationPolicy
from regroup.lab.checker.consumer.stored_group import Partition, StoredGroup, StoredMember, flat
from regroup.protocol.consumer.subscription import MalformedConsumerProtocol, decode_subscription
from regroup.protocol.errors import ErrorCode as E

INVALID_BY_ITSELF: Final = (E.INVALID_REQUEST, E.UNSUPPORTED_ASSIGNOR)
"""The errors of heartbeats that Kafka refuses before it looks for the group, also while the group is being loaded."""
SERVER_ASSIGNORS: Final = ("uniform", "range")
UNJUDGED: Final = (
    E.INVALID_REQUEST,
    E.UNSUPPORTED_ASSIGNOR,
    E.INVALID_REGULAR_EXPRESSION,
    E.UNKNOWN_SERVER_ERROR,
    E.INCONSISTENT_GROUP_PROTOCOL,
    E.OFFSET_METADATA_TOO_LARGE,
)
"""Errors that do not follow from the group."""


def request_error(command: ConsumerGroupHeartbeat) -> E:
    """The error of a heartbeat that is invalid by its own fields, whatever its group is like; NONE if it is valid."""
    epoch, names = command.member_epoch, (command.group_id, command.instance_id, command.rack_id)
    needs_member_id = command.requires_member_id or epoch not in (0, AWAY_EPOCH)
    is_first = command.rebalance_timeout_ms != -1 and command.owned is not None and not command.owned
    says_topics = command.subscribed_topics is not None or command.subscribed_regex is not None
    if (
        (needs_member_id and not command.member_id.strip())
        or any(each is not None and not each.strip() for each in names)
        or (epoch == 0 and not (is_first and says_topics))
        or (epoch == AWAY_EPOCH and command.instance_id is None)
        or epoch < AWAY_EPOCH
    ):
        return E.INVALID_REQUEST
    return E.NONE if command.server_assignor in (None, *SERVER_ASSIGNORS) else E.UNSUPPORTED_ASSIGNOR


def heartbeat_error(group: StoredGroup, command: ConsumerGroupHeartbeat, max_size: int) -> E:
    """The error that Kafka gives a heartbeat of the consumer protocol, NONE if it accepts it. `max_size` is the limit
    of members.

    The group is of the consumer protocol, has no members, or does not exist.
    """
    epoch, member_id, instance_id = command.member_epoch, command.member_id, command.instance_id
    if not group.is_consumer:
        return E.NONE if epoch == 0 else E.GROUP_ID_NOT_FOUND
    if epoch < 0:
        return identity_error(group, member_id, instance_id)
    holder = None if instance_id is None else group.member_of_instance(instance_id)
    if len(group.members) >= max_size and member_id not in group.members and holder is None:
        return E.GROUP_MAX_SIZE_REACHED
    if epoch == 0:
        owner = group.members[holder] if holder is not None else None
        is_free = owner is None or owner.is_classic or owner.epoch == AWAY_EPOCH
        return E.NONE if is_free else E.UNRELEASED_INSTANCE_ID
    refused = identity_error(group, member_id, instance_id)
    return refused or epoch_error(group.members[member_id], command)


def upgrade_error(group: Group, command: ConsumerGroupHeartbeat, settings: CoordinatorSettings) -> E:
    """The error that Kafka gives a heartbeat of the consumer protocol to a classic group with members, as far as the
    settings decide it; NONE if they allow that the group becomes one of the consumer protocol."""
    policy = settings.group_consumer_migration_policy
    may_upgrade = policy in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)
    is_small = len(group.members) <= settings.group_consumer_max_size
    return E.NONE if command.member_epoch == 0 and may_upgrade and is_small else E.GROUP_ID_NOT_FOUND


def identity_error(group: StoredGroup, member_id: str, instance_id: str | None) -> E:
    """The error for the member id and instance id of a request: NONE if the member with this id is in the group and,
    where an instance id is given, is the static member that has it."""
    if instance_id is None:
        return E.NONE if member_id in group.members else E.UNKNOWN_MEMBER_ID
    holder = group.member_of_instance(instance_id)
    if holder is None:
        return E.UNKNOWN_MEMBER_ID
    return E.NONE if holder == member_id else E.FENCED_INSTANCE_ID


def epoch_error(member: StoredMember, command: ConsumerGroupHeartbeat) -> E:
    """The error for the epoch in a heartbeat of a member: NONE for the member's present epoch.

    The previous epoch is accepted, too, from a member that has lost a response: one that lists what it owns, and owns
    no more than it is assigned.
    """
    if command.member_epoch == member.epoch:
        return E.NONE
    if command.member_epoch != member.previous_epoch or command.member_epoch > member.epoch or command.owned is None:
        return E.FENCED_MEMBER_EPOCH
    return E.NONE if flat(command.owned) <= member.assigned.keys() else E.FENCED_MEMBER_EPOCH


def commit_error(group: StoredGroup, command: c.OffsetCommit | c.TxnOffsetCommit) -> E:
    """The error of a commit as a whole, NONE if it is accepted.

    Clients that are no members may commit while the group has no members, and in transactions always.
    """
    is_transactional = isinstance(command, c.TxnOffsetCommit)
    if command.generation_id < 0:
        names_no_member = not command.member_id and command.group_instance_id is None
        if not group.members or (is_transactional and names_no_member):
            return E.NONE
    member = group.members.get(command.member_id)
    if member is None:
        return E.UNKNOWN_MEMBER_ID
    if not (is_transactional or member.is_classic or command.supports_group_id_not_found):
        return E.UNSUPPORTED_VERSION
    if may_commit(member, command.generation_id, ((each.topic_id, each.partition) for each in command.offsets)):
        return E.NONE
    if is_transactional and not command.supports_group_id_not_found:
        return E.ILLEGAL_GENERATION
    return stale_error(member)


def may_commit(member: StoredMember, epoch: int, partitions: Iterable[Partition]) -> bool:
    """Whether a member may commit these partitions with this epoch (KIP-1251).

    With its present epoch it may commit any partition, with an older one those that it has held since that epoch.
    """
    if epoch >= member.epoch:
        return epoch == member.epoch
    held = member.held
    return all(epoch >= held.get(each, epoch + 1) for each in partitions)


def fetch_error(group: StoredGroup, command: c.OffsetFetch) -> E:
    """The error of an OffsetFetch with a member epoch, NONE if it is accepted.

    A member has to name its present epoch; a client that names no member may always fetch.
    """
    if command.member_id is None:
        return E.NONE
    member = group.members.get(command.member_id)
    if member is None:
        return E.UNKNOWN_MEMBER_ID
    return E.NONE if command.member_epoch == member.epoch else stale_error(member)


def classic_error(group: StoredGroup, command: c.Heartbeat | c.SyncGroup) -> E:
    """The error of a Heartbeat or SyncGroup from a member of the classic protocol, whose generation id is its epoch.

    A Heartbeat gets REBALANCE_IN_PROGRESS as soon as the member has to give partitions up or can get some; SyncGroup
    only if the target assignment is newer than the member's epoch.
    """
    refused = identity_error(group, command.member_id, command.group_instance_id)
    member = group.members.get(command.member_id)
    if refused or member is None or not member.is_classic:
        return refused or E.UNKNOWN_MEMBER_ID
    if command.generation_id != member.epoch:
        return E.ILLEGAL_GENERATION
    revokes = member.state is ReconciliationState.UNREVOKED_PARTITIONS
    if isinstance(command, c.SyncGroup):
        if names_another_protocol(member, command):
            return E.INCONSISTENT_GROUP_PROTOCOL
        return E.REBALANCE_IN_PROGRESS if group.target_epoch > member.epoch and not revokes else E.NONE
    waits = member.state is ReconciliationState.UNRELEASED_PARTITIONS
    missing = group.targets.get(command.member_id, frozenset()) - member.assigned.keys()
    is_free = not any(group.other_holder(each, command.member_id) for each in missing)
    joins = group.target_epoch > member.epoch or revokes or (waits and is_free)
    return E.REBALANCE_IN_PROGRESS if joins else E.NONE


def names_another_protocol(member: StoredMember, command: c.SyncGroup) -> bool:
    """Whether a SyncGroup names another type than `consumer`, or another assignor than the first that was offered."""
    offered = member.profile.classic.supported_protocols if member.profile.classic else ()
    return command.protocol_type not in (None, "consumer") or (
        bool(offered) and command.protocol_name not in (None, offered[0].name)
    )


def join_error(group: StoredGroup, command: c.JoinGroup, settings: CoordinatorSettings) -> E:
    """The error of a JoinGroup to a group of the consumer protocol or without members, NONE if it is accepted.

    A group without members becomes a classic one with it, and knows no member id. In another group a dynamic member may
    choose an id of its own.
    """
    profile, member_id = command.profile, command.member_id
    instance_id = profile.instance_id
    if not settings.group_min_session_timeout_ms <= profile.session_timeout_ms <= settings.group_max_session_timeout_ms:
        return E.INVALID_SESSION_TIMEOUT
    if not group.members:
        return join_error_without_members(command)
    if settings.group_consumer_migration_policy is MigrationPolicy.DISABLED:
        return E.INCONSISTENT_GROUP_PROTOCOL
    is_known = member_id in group.members or (
        instance_id is not None and group.member_of_instance(instance_id) is not None
    )
    if not is_known and len(group.members) >= settings.group_consumer_max_size:
        return E.GROUP_MAX_SIZE_REACHED
    if command.protocol_type != "consumer" or not has_common_assignor(group, profile):
        return E.INCONSISTENT_GROUP_PROTOCOL
    if instance_id is None:
        needs_id = not member_id and command.supports_member_id_required
        error = E.MEMBER_ID_REQUIRED if needs_id else E.NONE
    else:
        error = identity_error(group, member_id, instance_id) if member_id else E.NONE
    return error or (E.NONE if has_readable_subscription(profile) else E.INCONSISTENT_GROUP_PROTOCOL)


def join_error_without_members(command: c.JoinGroup) -> E:
    """The error of a JoinGroup that makes a classic group of one that has no members."""
    names = Counter(each.name for each in command.profile.supported_protocols)
    if not command.protocol_type or 1 not in names.values():
        return E.INCONSISTENT_GROUP_PROTOCOL
    if command.member_id:
        return E.UNKNOWN_MEMBER_ID
    needs_id = command.profile.instance_id is None and command.supports_member_id_required
    return E.MEMBER_ID_REQUIRED if needs_id else E.NONE


def has_common_assignor(group: StoredGroup, profile: MemberProfile) -> bool:
    """Whether there is an assignor that this member and each classic member of the group list exactly once."""
    lists = [profile.supported_protocols]
    lists += [each.profile.classic.supported_protocols for each in group.members.values() if each.profile.classic]
    names = [Counter(each.name for each in offered) for offered in lists]
    return any(all(each[name] == 1 for each in names) for name in names[0])


def has_readable_subscription(profile: MemberProfile) -> bool:
    try:
        decode_subscription(profile.supported_protocols[0].metadata)
    except MalformedConsumerProtocol:
        return False
    return True


def stale_error(member: StoredMember) -> E:
    """The error for a request whose epoch is not the member's: ILLEGAL_GENERATION for a member of the classic protocol,
    otherwise STALE_MEMBER_EPOCH."""
    return E.ILLEGAL_GENERATION if member.is_classic else E.STALE_MEMBER_EPOCH
