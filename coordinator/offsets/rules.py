"""What the kind of a group decides about its offsets; `offsets/` handles the rest for groups of every kind."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from regroup.coordinator.commands import OffsetCommit, OffsetDelete, OffsetFetch, RequestedOffset, TxnOffsetCommit
from regroup.coordinator.group import CommittedOffset, Group
from regroup.protocol.errors import ErrorCode


class OffsetRules(ABC):
    """The rules for the offsets of one kind of group: which requests are refused, and which offsets may be deleted."""

    @abstractmethod
    def refuse_commit(
        self, group: Group, command: OffsetCommit, accepted: Sequence[RequestedOffset]
    ) -> ErrorCode | None:
        """The error of a whole OffsetCommit; None if it is accepted. `accepted` are those of its offsets whose metadata
        are not too large."""

    @abstractmethod
    def refuse_transactional_commit(
        self, group: Group, command: TxnOffsetCommit, accepted: Sequence[RequestedOffset]
    ) -> ErrorCode | None:
        """The error of a whole TxnOffsetCommit; None if it is accepted. `accepted` are those of its offsets whose
        metadata are not too large."""

    @abstractmethod
    def refuse_fetch(self, group: Group, command: OffsetFetch) -> ErrorCode | None:
        """The error of an OffsetFetch; None if it is accepted."""

    @abstractmethod
    def refuse_delete(self, group: Group, command: OffsetDelete) -> ErrorCode | None:
        """The error of a whole OffsetDelete; None if it is accepted."""

    @abstractmethod
    def is_subscribed(self, group: Group, topic: str) -> bool:
        """Whether a member subscribes to the topic, so that its offsets may not be deleted."""

    @abstractmethod
    def retention_starts_ms(self, group: Group, topic: str, offset: CommittedOffset) -> int | None:
        """From when the retention of an offset counts, in epoch milliseconds; None if it cannot expire at present."""

    @abstractmethod
    def is_empty(self, group: Group) -> bool:
        """Whether the group has no members, so that the group is deleted with its last offset."""


def refuse_unknown_group(command: OffsetCommit | TxnOffsetCommit) -> ErrorCode:
    """The error of a commit that names a generation, to a group that does not exist."""
    return ErrorCode.GROUP_ID_NOT_FOUND if command.supports_group_id_not_found else ErrorCode.ILLEGAL_GENERATION
