"""TxnOffsetCommit: offsets that a producer commits as part of its transaction (KIP-98, KIP-447)."""

from regroup.coordinator import commands as c
from regroup.protocol.errors import ErrorCode
from regroup.protocol.fields import NO_UUID
from regroup.protocol.internal_topics import OFFSETS_TOPIC
from regroup.protocol.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from regroup.server.apis.group_offsets import codes_by_partition, existing_offsets
from regroup.server.cluster.group_router import BrokerGroups
from regroup.server.cluster.state import ClusterState
from regroup.server.cluster.transaction_coordinator import ProducerIdentity, TransactionCoordinator
from regroup.server.net.exchange import Exchange, RequestHandler

_LOADING_SINCE = 2
_ABORTABLE_SINCE = 4
_ADDS_GROUP_SINCE = 5
"""Since v5 the commit itself adds the group to the transaction (KIP-890)."""


class TransactionalOffsetApis:
    """Handles TxnOffsetCommit. The transaction is checked first: a fenced producer must not leave pending offsets."""

    def __init__(self, state: ClusterState, groups: BrokerGroups, transactions: TransactionCoordinator) -> None:
        self._state = state
        self._groups = groups
        self._transactions = transactions

    def handlers(self) -> dict[int, RequestHandler]:
        return {TxnOffsetCommitRequest.api_key: self.commit_offsets}

    def commit_offsets(self, request: TxnOffsetCommitRequest, exchange: Exchange) -> None:
        """A request without existing partitions needs neither the transaction nor the group."""
        offsets = tuple(
            offset
            for topic in request.topics
            for offset in existing_offsets(self._state.find_topic(topic.name, NO_UUID), topic.partitions)
        )
        code = ErrorCode.INVALID_GROUP_ID if not request.group_id else ErrorCode.NONE
        if offsets and not code:
            code = self._check_transaction(request, exchange)
        if code or not offsets:
            codes = {(offset.topic, offset.partition): code for offset in offsets}
            exchange.respond(_response(request, codes))
            return
        command = c.TxnOffsetCommit(
            group_id=request.group_id,
            at_ms=self._state.now_ms(),
            producer_id=request.producer_id,
            generation_id=request.generation_id,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            offsets=offsets,
        )

        def on_response(response: TxnOffsetCommitResponse) -> None:
            codes = {
                partition: _code_for_version(ErrorCode(code), exchange.version)
                for partition, code in codes_by_partition(response.topics).items()
            }
            exchange.respond(_response(request, codes))

        self._groups.submit(command, on_response, exchange.cause)

    def _check_transaction(self, request: TxnOffsetCommitRequest, exchange: Exchange) -> ErrorCode:
        """The error of a commit outside the transaction: the end of the transaction would not reach its offsets."""
        producer = ProducerIdentity(request.transactional_id, request.producer_id, request.producer_epoch)
        partition = self._state.partition_of_group(request.group_id)
        if exchange.version >= _ADDS_GROUP_SINCE:
            code = self._transactions.add_partitions(producer, {OFFSETS_TOPIC: [partition]}, exchange.cause)
        else:
            code = self._transactions.check_write(producer, OFFSETS_TOPIC, partition) or ErrorCode.NONE
        if code is ErrorCode.PRODUCER_FENCED:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if code is ErrorCode.INVALID_TXN_STATE and exchange.version >= _ABORTABLE_SINCE:
            return ErrorCode.TRANSACTION_ABORTABLE
        return code


def _code_for_version(code: ErrorCode, version: int) -> ErrorCode:
    """Producers before v2 know no code for a group that is being loaded (behaviour
    `txn-offset.loading-mapped-for-old-clients`)."""
    is_unknown = code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < _LOADING_SINCE
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if is_unknown else code


def _response(request: TxnOffsetCommitRequest, codes: dict[tuple[str, int], ErrorCode]) -> TxnOffsetCommitResponse:
    """The codes in the order of the request; a partition without one does not exist."""
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=each.partition_index,
                        error_code=codes.get((topic.name, each.partition_index), missing),
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
