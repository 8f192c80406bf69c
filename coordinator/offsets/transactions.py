"""TxnOffsetCommit: offsets that are committed together with a transaction's records (KIP-98, KIP-447)."""

from regroup.coordinator import responses
from regroup.coordinator.commands import EndTransaction, TxnOffsetCommit
from regroup.coordinator.decision import Decision, DecisionBuilder
from regroup.coordinator.events import GroupCreated, TransactionalOffsetsWritten, TransactionEnded
from regroup.coordinator.offsets.commits import accepted_offsets, metadata_codes, with_code_none
from regroup.coordinator.offsets.log_batch_size import offsets_fit
from regroup.coordinator.offsets.rules import OffsetRules
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.transactions import EndTxnResponse


def txn_offset_commit(rules: OffsetRules, decision: DecisionBuilder, command: TxnOffsetCommit) -> Decision:
    """Handle a TxnOffsetCommit: write offsets that are committed with the producer's transaction. It does not restart
    the member's session timeout, unlike OffsetCommit."""
    codes = metadata_codes(decision.settings, command.offsets)
    accepted = with_code_none(command.offsets, codes)
    if refused := rules.refuse_transactional_commit(decision.group, command, accepted):
        return decision.build(responses.txn_offset_commit_response(command, refused))
    if not offsets_fit(command.group_id, accepted):
        return decision.build(responses.txn_offset_commit_response(command, ErrorCode.UNKNOWN_SERVER_ERROR))
    if not decision.group.exists:
        decision.apply(GroupCreated, by_join=False, reason="TxnOffsetCommit")
    if offsets := accepted_offsets(accepted, command.at_ms):
        decision.apply(
            TransactionalOffsetsWritten,
            producer_id=command.producer_id,
            member_id=command.member_id,
            offsets=offsets,
        )
    return decision.build_after_pending_appends(responses.txn_offset_commit_response(command, codes))


def end_transaction(decision: DecisionBuilder, command: EndTransaction) -> Decision:
    """Handle the end of a producer's transaction: commit or drop the offsets that it has written for this group.
    Without such offsets the group does not change."""
    if command.producer_id in decision.group.pending_transactional_offsets:
        decision.apply(TransactionEnded, producer_id=command.producer_id, committed=command.committed)
    return decision.build(EndTxnResponse())
