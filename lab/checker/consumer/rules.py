"""The errors that requests to a group of the consumer protocol get, independent of the code that decides.

    heartbeat_error(group.stored, command, max_size)       NONE if the heartbeat has to be accepted
    commit_error(group.stored, command)                    the error of the whole commit
    fetch_error(group.stored, command)                     the error of a request for committed offsets
    classic_error(group.stored, command)                   the error of a Heartbeat or SyncGroup (members of the classic
                                                           protocol)

The group is what the stored events add up to (`StoredGroup`). The checks are in Kafka's order: the first that fails
answers. What is wrong with a request whatever its group is like is not repeated here: `UNJUDGED`.
"""

from collections.abc import Iterable
from typing import Final

from regroup.coordinator import commands as c
from regroup.coordinator.consumer.commands import ConsumerGroupHeartbeat
from regroup.coordinator.consumer_group import AWAY_EPOCH, ReconciliationState
from regroup.lab.checker.consumer.stored_group import Partition, StoredGroup, StoredMember, flat
from regroup.protocol.errors import ErrorCode as E

UNJUDGED: Final = (
    E.INVALID_REQUEST,
    E.UNSUPPORTED_ASSIGNOR,
    E.INVALID_REGULAR_EXPRESSION,
    E.UNKNOWN_SERVER_ERROR,
    E.INCONSISTENT_GROUP_PROTOCOL,
    E.OFFSET_METADATA_TOO_LARGE,
)
"""Errors that do not follow from the group."""


def heartbeat_error(group: StoredGroup, command: ConsumerGroupHeartbeat, max_size: int) -> E:
    """The error of a heartbeat to a group that is of the consumer protocol, has no members, or does not exist."""
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


def identity_error(group: StoredGroup, member_id: str, instance_id: str | None) -> E:
    """Whether the member id is one of the group's, and with an instance id that of its static member."""
    if instance_id is None:
        return E.NONE if member_id in group.members else E.UNKNOWN_MEMBER_ID
    holder = group.member_of_instance(instance_id)
    if holder is None:
        return E.UNKNOWN_MEMBER_ID
    return E.NONE if holder == member_id else E.FENCED_INSTANCE_ID


def epoch_error(member: StoredMember, command: ConsumerGroupHeartbeat) -> E:
    """The present epoch is accepted, and the previous one from a member that reports what it owns, and owns no more
    than it is assigned: it has lost a response."""
    if command.member_epoch == member.epoch:
        return E.NONE
    if command.member_epoch != member.previous_epoch or command.member_epoch > member.epoch or command.owned is None:
        return E.FENCED_MEMBER_EPOCH
    return E.NONE if flat(command.owned) <= member.assigned.keys() else E.FENCED_MEMBER_EPOCH


def commit_error(group: StoredGroup, command: c.OffsetCommit | c.TxnOffsetCommit) -> E:
    """The error of a whole commit. Clients outside the group commit while it is Empty, and in transactions always."""
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
    """With its epoch a member commits any partition, with an older one those that it has had since (KIP-1251)."""
    if epoch >= member.epoch:
        return epoch == member.epoch
    held = member.held
    return all(epoch >= held.get(each, epoch + 1) for each in partitions)


def fetch_error(group: StoredGroup, command: c.OffsetFetch) -> E:
    """A member fetches with its present epoch and no other; a client that names no member always may."""
    if command.member_id is None:
        return E.NONE
    member = group.members.get(command.member_id)
    if member is None:
        return E.UNKNOWN_MEMBER_ID
    return E.NONE if command.member_epoch == member.epoch else stale_error(member)


def classic_error(group: StoredGroup, command: c.Heartbeat | c.SyncGroup) -> E:
    """The error of a member of the classic protocol: its generation is its epoch, and it joins again when it has to.

    A Heartbeat lets it join as soon as it has something to give up or to get; SyncGroup only if the target is newer.
    """
    refused = identity_error(group, command.member_id, command.group_instance_id)
    member = group.members.get(command.member_id)
    if refused or member is None or not member.is_classic:
        return refused or E.UNKNOWN_MEMBER_ID
    if command.generation_id != member.epoch:
        return E.ILLEGAL_GENERATION
    revokes = member.state is ReconciliationState.UNREVOKED_PARTITIONS
    if isinstance(command, c.SyncGroup):
        return E.REBALANCE_IN_PROGRESS if group.target_epoch > member.epoch and not revokes else E.NONE
    waits = member.state is ReconciliationState.UNRELEASED_PARTITIONS
    missing = group.targets.get(command.member_id, frozenset()) - member.assigned.keys()
    is_free = not any(group.other_holder(each, command.member_id) for each in missing)
    joins = group.target_epoch > member.epoch or revokes or (waits and is_free)
    return E.REBALANCE_IN_PROGRESS if joins else E.NONE


def stale_error(member: StoredMember) -> E:
    """The error of another epoch than the member's; a member of the classic protocol has a generation instead."""
    return E.ILLEGAL_GENERATION if member.is_classic else E.STALE_MEMBER_EPOCH
