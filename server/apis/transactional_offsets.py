"""Handler of TxnOffsetCommit: offsets that a producer commits as part of its transaction (KIP-98, KIP-447)."""

from collections.abc import Callable

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
from regroup.server.apis.group_offsets import codes_in_order, collect_offsets
from regroup.server.apis.requested_partitions import RequestedPartitions
from regroup.server.cluster.group_router import BrokerGroups
from regroup.server.cluster.state import ClusterState
from regroup.server.cluster.transaction_coordinator import ProducerIdentity, TransactionCoordinator
from regroup.server.cluster.transactions import check_unverified_write
from regroup.server.limits import MAX_COMMITTED_PARTITIONS
from regroup.server.net.exchange import Exchange, RequestHandler
from regroup.server.responses.partitions import every_partition

_LOADING_SINCE = 2
_ABORTABLE_SINCE = 4
_ADDS_GROUP_SINCE = 5
"""TxnOffsetCommit version since which the commit itself adds the group to the transaction (KIP-890)."""
_TOPIC_IDS_SINCE = 6
_GROUP_ID_NOT_FOUND_SINCE = 6


class TransactionalOffsetApis:
    """Handles TxnOffsetCommit. The transaction is checked first: a fenced producer must not leave pending offsets."""

    def __init__(self, state: ClusterState, groups: BrokerGroups, transactions: TransactionCoordinator) -> None:
        self._state = state
        self._groups = groups
        self._transactions = transactions

    def handlers(self) -> dict[int, RequestHandler]:
        return {TxnOffsetCommitRequest.api_key: self.commit_offsets}

    def commit_offsets(self, request: TxnOffsetCommitRequest, exchange: Exchange) -> None:
        """Answer a TxnOffsetCommit, once the events on which the check of the transaction rests are durable. If none of
        its partitions exists, neither transaction nor group is checked.

        Since v6 topics are named by id (KIP-1319).
        """
        if sum(len(topic.partitions) for topic in request.topics) > MAX_COMMITTED_PARTITIONS:
            exchange.respond(every_partition(request, ErrorCode.UNKNOWN_SERVER_ERROR))
            return
        is_by_id = exchange.version >= _TOPIC_IDS_SINCE
        requested, offsets = collect_offsets(self._state, request.topics, is_by_id=is_by_id)
        code = ErrorCode.INVALID_GROUP_ID if not request.group_id else ErrorCode.NONE
        if offsets and not code:
            code = self._check_transaction(request, exchange)
        if code or not offsets:
            response = _response(requested, lambda name, index: code)
            exchange.respond_when_durable(response, self._state.when_durable)
            return
        command = c.TxnOffsetCommit(
            group_id=request.group_id,
            at_ms=self._state.now_ms(),
            producer_id=request.producer_id,
            generation_id=request.generation_id,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            offsets=tuple(offsets),
            supports_group_id_not_found=exchange.version >= _GROUP_ID_NOT_FOUND_SINCE,
        )

        def on_response(response: TxnOffsetCommitResponse) -> None:
            codes = codes_in_order(response.topics)
            exchange.respond(
                _response(
                    requested,
                    lambda name, index: _code_for_version(ErrorCode(codes(name, index)), exchange.version),
                )
            )

        self._groups.submit(command, on_response, exchange.cause)

    def _check_transaction(self, request: TxnOffsetCommitRequest, exchange: Exchange) -> ErrorCode:
        """Check that the commit belongs to the producer's open transaction, to which newer request versions first add
        the group's partition of `__consumer_offsets`. Returns an error code, NONE if the commit is valid.

        Offsets without an open transaction would stay pending for ever, because no end of a transaction reaches them.
        """
        producer = ProducerIdentity(request.transactional_id, request.producer_id, request.producer_epoch)
        partition = self._state.partition_of_group(request.group_id)
        if exchange.version >= _ADDS_GROUP_SINCE:
            code = self._transactions.add_partitions(producer, {OFFSETS_TOPIC: [partition]}, exchange.cause)
        else:
            code = self._transactions.check_write(producer, OFFSETS_TOPIC, partition) or ErrorCode.NONE
        if code is ErrorCode.INVALID_PRODUCER_ID_MAPPING:
            return check_unverified_write(self._epoch_of_writer(request.producer_id, partition), request.producer_epoch)
        if code is ErrorCode.PRODUCER_FENCED:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if code is ErrorCode.INVALID_TXN_STATE and exchange.version >= _ABORTABLE_SINCE:
            return ErrorCode.TRANSACTION_ABORTABLE
        return code

    def _epoch_of_writer(self, producer_id: int, partition: int) -> int | None:
        """The producer epoch of the producer's open transaction, if it contains this partition of `__consumer_offsets`;
        None if not."""
        has_written = any(
            self._state.partition_of_group(group.group_id) == partition
            for group in self._groups.groups_of_producer(producer_id)
        )
        if not has_written:
            return None
        return self._transactions.epoch_of_open_transaction(producer_id, OFFSETS_TOPIC, partition)


def _code_for_version(code: ErrorCode, version: int) -> ErrorCode:
    """The error code as this request version may contain it: before v2 there is none for a group that is being loaded
    (behaviour `txn-offset.loading-mapped-for-old-clients`)."""
    is_unknown = code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < _LOADING_SINCE
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if is_unknown else code


def _response(requested: RequestedPartitions, code_of: Callable[[str, int], int]) -> TxnOffsetCommitResponse:
    """The TxnOffsetCommit response, with the error codes of existing partitions from `code_of` and those of partitions
    that do not exist."""
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=key if isinstance(key, str) else "",
                topic_id=key if isinstance(key, bytes) else NO_UUID,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=index, error_code=code) for index, code in codes
                ],
            )
            for key, codes in requested.answer(code_of)
        ]
    )
