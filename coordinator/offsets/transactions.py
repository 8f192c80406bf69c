"""TxnOffsetCommit: offsets that are committed together with a transaction's records (KIP-98, KIP-447)."""

from regroup.coordinator import responses
from regroup.coordinator.classic.member_checks import refuse_generation
from regroup.coordinator.commands import EndTransaction, TxnOffsetCommit
from regroup.coordinator.decision import Decision, DecisionBuilder
from regroup.coordinator.events import GroupCreated, TransactionalOffsetsWritten, TransactionEnded
from regroup.coordinator.group import Group, GroupState
from regroup.coordinator.offsets.commits import accepted_offsets, fits_into_batch, metadata_codes, refuse_unknown_group
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.transactions import EndTxnResponse


def txn_offset_commit(decision: DecisionBuilder, command: TxnOffsetCommit) -> Decision:
    """TxnOffsetCommit does not restart the member's session timeout, unlike OffsetCommit."""
    if refused := refuse_txn_offset_commit(decision.group, command):
        return decision.build(responses.txn_offset_commit_response(command, refused))
    codes = metadata_codes(decision.settings, command.offsets)
    if not fits_into_batch(decision, command, codes):
        return decision.build(responses.txn_offset_commit_response(command, ErrorCode.UNKNOWN_SERVER_ERROR))
    if not decision.group.exists:
        decision.apply(GroupCreated, by_join=False, reason="TxnOffsetCommit")
    if offsets := accepted_offsets(command.offsets, codes, command.at_ms):
        decision.apply(
            TransactionalOffsetsWritten,
            producer_id=command.producer_id,
            member_id=command.member_id,
            offsets=offsets,
        )
    return decision.build_after_pending_appends(responses.txn_offset_commit_response(command, codes))


def refuse_txn_offset_commit(group: Group, command: TxnOffsetCommit) -> ErrorCode | None:
    """The checks of OffsetCommit, except that a request may name no member, and that the sync phase allows commits."""
    if not group.exists:
        return None if command.generation_id < 0 else refuse_unknown_group(command)
    names_no_member = command.generation_id < 0 and not command.member_id and command.group_instance_id is None
    if names_no_member or (command.generation_id < 0 and group.state is GroupState.EMPTY):
        return None
    return refuse_generation(group, command.member_id, command.group_instance_id, command.generation_id)


def end_transaction(decision: DecisionBuilder, command: EndTransaction) -> Decision:
    """A producer that has written no offsets of this group changes nothing."""
    if command.producer_id in decision.group.pending_transactional_offsets:
        decision.apply(TransactionEnded, producer_id=command.producer_id, committed=command.committed)
    return decision.build(EndTxnResponse())
