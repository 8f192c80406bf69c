"""Bugs about committed offsets."""

from regroup.coordinator.commands import CommitOffsets
from regroup.coordinator.decision import Unfolding
from regroup.coordinator.group import Group, MemberId, Offsets
from regroup.coordinator.offsets import commits
from regroup.lab.planted_bugs.bug import Planted, bug, instead_of
from regroup.protocol.errors import ErrorCode


@bug
def zombie_may_commit() -> Planted:
    """A commit is accepted from a member that was taken out of the group."""

    def refuse_commit(group: Group, command: CommitOffsets) -> ErrorCode | None:
        refused = right(group, command)
        return None if refused is ErrorCode.UNKNOWN_MEMBER_ID and command.member_id else refused

    right = commits.refuse_commit
    return instead_of(commits, "refuse_commit", refuse_commit)


@bug
def commit_keeps_one_partition() -> Planted:
    """Of the partitions of one commit only the last is kept; all are acknowledged."""

    def write(now: Unfolding, committed: Offsets, member: MemberId, commit_deadline_ms: int | None) -> None:
        topic, partitions = list(committed.items())[-1]
        number, offset = list(partitions.items())[-1]
        right(now, {topic: {number: offset}}, member, commit_deadline_ms)

    right = commits.write
    return instead_of(commits, "write", write)
