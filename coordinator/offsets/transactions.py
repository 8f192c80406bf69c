"""Offsets that are committed together with the records a transaction writes, or not at all (KIP-98, KIP-447)."""

from regroup.coordinator import responses
from regroup.coordinator.classic.validation import refuse_generation
from regroup.coordinator.commands import CommitTransactionalOffsets, EndTransaction
from regroup.coordinator.decision import Decision, Unfolding
from regroup.coordinator.events import GroupCreated, TransactionalOffsetsWritten, TransactionEnded
from regroup.coordinator.group import Group, State
from regroup.coordinator.offsets.commits import as_committed, notes_too_long
from regroup.coordinator.settings import Settings
from regroup.protocol.errors import ErrorCode


def commit_transactional_offsets(settings: Settings, group: Group, command: CommitTransactionalOffsets) -> Decision:
    """Not a sign of life. What is written here counts once the transaction commits."""
    now = Unfolding(group, command.at_ms)
    if refused := refuse(group, command):
        return now.ends(responses.committed_in_transaction(command, refused))
    if not group.exists:
        now.happens(GroupCreated(at_ms=now.at_ms, by_join=False, reason="a transaction commits offsets for it"))
    too_long = notes_too_long(settings, command.offsets)
    if offsets := as_committed(command.offsets, too_long, command.at_ms):
        now.happens(
            TransactionalOffsetsWritten(
                at_ms=now.at_ms, producer_id=command.producer_id, member=command.member_id, offsets=offsets
            )
        )
    return now.ends_behind_the_log(responses.committed_in_transaction(command, too_long))


def refuse(group: Group, command: CommitTransactionalOffsets) -> ErrorCode | None:
    """As for other commits, except that whoever says nothing of members is let in, and that the sync phase is no
    obstacle."""
    if not group.exists:
        return None if command.generation_id < 0 else ErrorCode.ILLEGAL_GENERATION
    names_nobody = command.generation_id < 0 and not command.member_id and command.group_instance_id is None
    if names_nobody or (command.generation_id < 0 and group.state is State.EMPTY):
        return None
    return refuse_generation(group, command.member_id, command.group_instance_id, command.generation_id)


def end_transaction(settings: Settings, group: Group, command: EndTransaction) -> Decision:
    """A producer that wrote nothing here has nothing to end."""
    now = Unfolding(group, command.at_ms)
    if command.producer_id in group.pending_offsets:
        now.happens(TransactionEnded(at_ms=now.at_ms, producer_id=command.producer_id, committed=command.committed))
    return now.ends(responses.transaction_ended())
