"""Offsets of classic groups, and of groups that do not exist: who may commit, and what expires."""

from collections.abc import Sequence

from regroup.coordinator.classic.member_checks import refuse_generation
from regroup.coordinator.classic.protocol_vote import CONSUMER_PROTOCOL_TYPE
from regroup.coordinator.commands import OffsetCommit, OffsetDelete, OffsetFetch, RequestedOffset, TxnOffsetCommit
from regroup.coordinator.group import CommittedOffset, Group, GroupState
from regroup.coordinator.offsets.rules import OffsetRules, refuse_unknown_group
from regroup.protocol.errors import ErrorCode


class ClassicOffsetRules(OffsetRules):
    """The offset rules of classic groups: a member commits for its generation, and any client commits while the group
    is Empty."""

    def refuse_commit(
        self, group: Group, command: OffsetCommit, accepted: Sequence[RequestedOffset]
    ) -> ErrorCode | None:
        """The error of an OffsetCommit, by the checks of Kafka's `validateOffsetCommit` in their order; None if it is
        accepted.

        Members of the previous generation may commit until the join phase ends; in the sync phase every commit is
        refused.
        """
        if not group.exists:
            if command.generation_id < 0:
                return None
            return refuse_unknown_group(command)
        if command.generation_id < 0 and group.state is GroupState.EMPTY:
            return None
        if command.generation_id < 0 and not command.member_id and command.group_instance_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        refused = refuse_generation(group, command.member_id, command.group_instance_id, command.generation_id)
        if refused is None and group.state is GroupState.COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return refused

    def refuse_transactional_commit(
        self, group: Group, command: TxnOffsetCommit, accepted: Sequence[RequestedOffset]
    ) -> ErrorCode | None:
        """The error of a TxnOffsetCommit; None if it is accepted. The checks are those of `refuse_commit`, but the
        request need not name a member, and the sync phase does not refuse it."""
        if not group.exists:
            return None if command.generation_id < 0 else refuse_unknown_group(command)
        names_no_member = command.generation_id < 0 and not command.member_id and command.group_instance_id is None
        if names_no_member or (command.generation_id < 0 and group.state is GroupState.EMPTY):
            return None
        return refuse_generation(group, command.member_id, command.group_instance_id, command.generation_id)

    def refuse_fetch(self, group: Group, command: OffsetFetch) -> ErrorCode | None:
        """Always None: any client may fetch the offsets of a classic group."""
        return None

    def refuse_delete(self, group: Group, command: OffsetDelete) -> ErrorCode | None:
        """The error of an OffsetDelete; None if it is accepted. A group with members is refused unless its protocol
        type is `consumer`: only then does the coordinator know the topics to which members subscribe."""
        if not command.group_id:
            return ErrorCode.INVALID_GROUP_ID
        if not group.exists:
            return ErrorCode.GROUP_ID_NOT_FOUND
        has_opaque_members = group.protocol_type != CONSUMER_PROTOCOL_TYPE and group.state is not GroupState.EMPTY
        return ErrorCode.NON_EMPTY_GROUP if has_opaque_members else None

    def is_subscribed(self, group: Group, topic: str) -> bool:
        """Whether a member subscribes to the topic; True for every topic if a subscription could not be decoded."""
        return group.subscribed_topics is None or topic in group.subscribed_topics

    def retention_starts_ms(self, group: Group, topic: str, offset: CommittedOffset) -> int | None:
        """From when the retention of an offset counts, in epoch milliseconds; None if it cannot expire at present.

        In an Empty group that had members it counts from when the group became Empty, in a group that never had any
        from the commit. During a rebalance nothing expires; in Stable only offsets of topics to which no member
        subscribes.
        """
        if not group.protocol_type:
            return offset.committed_at_ms
        if group.state is GroupState.EMPTY:
            return group.state_since_ms
        is_known = group.state is GroupState.STABLE and group.protocol_type == CONSUMER_PROTOCOL_TYPE
        return None if not is_known or self.is_subscribed(group, topic) else offset.committed_at_ms

    def is_empty(self, group: Group) -> bool:
        return group.state is GroupState.EMPTY
