"""Offsets of groups of the consumer protocol: member epochs decide who may commit and fetch."""

from collections.abc import Sequence

from regroup.coordinator.commands import OffsetCommit, OffsetDelete, OffsetFetch, RequestedOffset, TxnOffsetCommit
from regroup.coordinator.consumer.evolve_group import consumer_of
from regroup.coordinator.consumer_group import ConsumerGroup, ConsumerMember
from regroup.coordinator.group import CommittedOffset, Group
from regroup.coordinator.offsets.rules import OffsetRules
from regroup.protocol.errors import ErrorCode


class ConsumerOffsetRules(OffsetRules):
    """A member commits with its epoch. With an older one it may commit partitions that it has had since then.

    The generation of a member of the classic protocol is its epoch.
    """

    def refuse_commit(
        self, group: Group, command: OffsetCommit, accepted: Sequence[RequestedOffset]
    ) -> ErrorCode | None:
        """The checks of `ConsumerGroup.validateOffsetCommit`, in its order; the instance id is not looked at."""
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
        """A request that names no member is accepted. Up to v5 a client does not understand STALE_MEMBER_EPOCH."""
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
        """A member must name its present epoch; a client that names no member may fetch.

        Kafka fails with an exception if there is an epoch and no member id.
        """
        if command.member_id is None:
            return None if command.member_epoch < 0 else ErrorCode.UNKNOWN_SERVER_ERROR
        member = consumer_of(group).members.get(command.member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return None if member.epoch == command.member_epoch else stale_error(member)

    def refuse_delete(self, group: Group, command: OffsetDelete) -> ErrorCode | None:
        """The request is never refused as a whole."""
        return None

    def is_subscribed(self, group: Group, topic: str) -> bool:
        """By name, or by a pattern that is resolved."""
        consumer = consumer_of(group)
        return topic in consumer.subscriptions or any(
            topic in each.topics for each in consumer.resolved_regexes.values()
        )

    def retention_starts_ms(self, group: Group, topic: str, offset: CommittedOffset) -> int | None:
        """Always the commit, never the end of the last member."""
        return None if self.is_subscribed(group, topic) else offset.committed_at_ms

    def is_empty(self, group: Group) -> bool:
        return is_empty(consumer_of(group))


def is_empty(consumer: ConsumerGroup) -> bool:
    """Whether the group has no members; one that is away counts."""
    return not consumer.members


def stale_error(member: ConsumerMember) -> ErrorCode:
    """The error of a request with another epoch than the member's."""
    return ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH


def names_no_member(command: TxnOffsetCommit) -> bool:
    return not command.member_id and command.group_instance_id is None


def may_commit(member: ConsumerMember, epoch: int, offsets: Sequence[RequestedOffset]) -> bool:
    """One partition that the member has not had since the epoch refuses the whole request (KIP-1251)."""
    if epoch >= member.epoch:
        return epoch == member.epoch
    assigned_at = (member.assignment_epoch_of(each.topic_id, each.partition) for each in offsets)
    return all(since is not None and epoch >= since for since in assigned_at)
