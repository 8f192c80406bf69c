"""Offsets of classic groups, and of groups that do not exist: who may commit, and what expires."""

from collections.abc import Sequence

from regroup.coordinator.classic.member_checks import refuse_generation
from regroup.coordinator.classic.protocol_vote import CONSUMER_PROTOCOL_TYPE
from regroup.coordinator.commands import OffsetCommit, OffsetDelete, OffsetFetch, RequestedOffset, TxnOffsetCommit
from regroup.coordinator.group import CommittedOffset, Group, GroupState
from regroup.coordinator.offsets.rules import OffsetRules, refuse_unknown_group
from regroup.protocol.errors import ErrorCode


class ClassicOffsetRules(OffsetRules):
    """Members commit for their generation; any client may commit while the group is Empty."""

    def refuse_commit(
        self, group: Group, command: OffsetCommit, accepted: Sequence[RequestedOffset]
    ) -> ErrorCode | None:
        """The checks of Kafka's `validateOffsetCommit`, in its order.

        Members of the previous generation may commit until the join phase ends, and must then wait for the assignment.
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
        """The checks of a commit, except that a request may name no member, and that the sync phase allows commits."""
        if not group.exists:
            return None if command.generation_id < 0 else refuse_unknown_group(command)
        names_no_member = command.generation_id < 0 and not command.member_id and command.group_instance_id is None
        if names_no_member or (command.generation_id < 0 and group.state is GroupState.EMPTY):
            return None
        return refuse_generation(group, command.member_id, command.group_instance_id, command.generation_id)

    def refuse_fetch(self, group: Group, command: OffsetFetch) -> ErrorCode | None:
        """Anyone may read the offsets of a classic group."""
        return None

    def refuse_delete(self, group: Group, command: OffsetDelete) -> ErrorCode | None:
        """Whether members subscribe to a topic is known only of consumers."""
        if not command.group_id:
            return ErrorCode.INVALID_GROUP_ID
        if not group.exists:
            return ErrorCode.GROUP_ID_NOT_FOUND
        has_opaque_members = group.protocol_type != CONSUMER_PROTOCOL_TYPE and group.state is not GroupState.EMPTY
        return ErrorCode.NON_EMPTY_GROUP if has_opaque_members else None

    def is_subscribed(self, group: Group, topic: str) -> bool:
        """If a subscription could not be decoded, every topic counts."""
        return group.subscribed_topics is None or topic in group.subscribed_topics

    def retention_starts_ms(self, group: Group, topic: str, offset: CommittedOffset) -> int | None:
        """Offsets of a group that had members expire after the group became Empty, others after their commit.

        During a rebalance nothing expires; in Stable only offsets of topics to which no member subscribes.
        """
        if not group.protocol_type:
            return offset.committed_at_ms
        if group.state is GroupState.EMPTY:
            return group.state_since_ms
        is_known = group.state is GroupState.STABLE and group.protocol_type == CONSUMER_PROTOCOL_TYPE
        return None if not is_known or self.is_subscribed(group, topic) else offset.committed_at_ms

    def is_empty(self, group: Group) -> bool:
        return group.state is GroupState.EMPTY
