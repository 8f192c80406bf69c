"""Offsets of groups of the consumer protocol: member epochs decide who may commit and fetch."""

from collections.abc import Sequence

from regroup.coordinator.commands import OffsetCommit, OffsetDelete, OffsetFetch, RequestedOffset, TxnOffsetCommit
from regroup.coordinator.consumer.evolve_group import consumer_of
from regroup.coordinator.consumer_group import ConsumerGroup, ConsumerMember
from regroup.coordinator.group import CommittedOffset, Group
from regroup.coordinator.offsets.rules import OffsetRules
from regroup.protocol.errors import ErrorCode


class ConsumerOffsetRules(OffsetRules):
    """The offset rules of groups of the consumer protocol. A member commits with its epoch; with an older epoch it may
    commit only partitions that it has had since that epoch.

    For a member of the classic protocol the generation in its request is compared with its epoch.
    """

    def refuse_commit(
        self, group: Group, command: OffsetCommit, accepted: Sequence[RequestedOffset]
    ) -> ErrorCode | None:
        """The error of an OffsetCommit, by the checks of Kafka's `ConsumerGroup.validateOffsetCommit` in their order;
        None if it is accepted. The instance id is not checked."""
        consumer = consumer_of(group)
        if command.generation_id < 0 and not consumer.members:
            return None
        member = consumer.members.get(command.member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not member.is_classic and not command.supports_group_id_not_found:
            return ErrorCode.UNSUPPORTED_VERSION
        return None if may_commit(member, command.generation_id, accepted) else stale_error(member)

    def refuse_transactional_commit(
        self, group: Group, command: TxnOffsetCommit, accepted: Sequence[RequestedOffset]
    ) -> ErrorCode | None:
        """The error of a TxnOffsetCommit; None if it is accepted, as one that names no member always is. For a wrong
        epoch, requests up to v5 get ILLEGAL_GENERATION, since such clients do not know STALE_MEMBER_EPOCH."""
        consumer = consumer_of(group)
        if command.generation_id < 0 and (names_no_member(command) or not consumer.members):
            return None
        member = consumer.members.get(command.member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if may_commit(member, command.generation_id, accepted):
            return None
        return stale_error(member) if command.supports_group_id_not_found else ErrorCode.ILLEGAL_GENERATION

    def refuse_fetch(self, group: Group, command: OffsetFetch) -> ErrorCode | None:
        """The error of an OffsetFetch; None if it is accepted. A request that names a member must have its present
        epoch; one that names neither member nor epoch is accepted.

        An epoch without a member id is answered with UNKNOWN_SERVER_ERROR: Kafka fails with an exception there.
        """
        if command.member_id is None:
            return None if command.member_epoch < 0 else ErrorCode.UNKNOWN_SERVER_ERROR
        member = consumer_of(group).members.get(command.member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return None if member.epoch == command.member_epoch else stale_error(member)

    def refuse_delete(self, group: Group, command: OffsetDelete) -> ErrorCode | None:
        """Always None: OffsetDelete is never refused as a whole, only for topics to which a member subscribes."""
        return None

    def is_subscribed(self, group: Group, topic: str) -> bool:
        """Whether a member subscribes to the topic, by its name or by a pattern whose matching topics are known."""
        consumer = consumer_of(group)
        return topic in consumer.subscriptions or any(
            topic in each.topics for each in consumer.resolved_regexes.values()
        )

    def retention_starts_ms(self, group: Group, topic: str, offset: CommittedOffset) -> int | None:
        """When the offset was committed, in epoch milliseconds; None while a member subscribes to the topic. When the
        last member left the group does not matter."""
        return None if self.is_subscribed(group, topic) else offset.committed_at_ms

    def is_empty(self, group: Group) -> bool:
        return is_empty(consumer_of(group))


def is_empty(consumer: ConsumerGroup) -> bool:
    """Whether the group has no members. A static member that has left temporarily counts as a member."""
    return not consumer.members


def stale_error(member: ConsumerMember) -> ErrorCode:
    """The error code for a request whose epoch or generation is not the member's epoch: ILLEGAL_GENERATION for a member
    of the classic protocol, otherwise STALE_MEMBER_EPOCH."""
    return ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH


def names_no_member(command: TxnOffsetCommit) -> bool:
    return not command.member_id and command.group_instance_id is None


def may_commit(member: ConsumerMember, epoch: int, offsets: Sequence[RequestedOffset]) -> bool:
    """Whether the member may commit these offsets with this epoch: with its present epoch any offsets, with an older
    one only if it has had all of their partitions since that epoch (KIP-1251)."""
    if epoch >= member.epoch:
        return epoch == member.epoch
    assigned_at = (member.assignment_epoch_of(each.topic_id, each.partition) for each in offsets)
    return all(since is not None and epoch >= since for since in assigned_at)
