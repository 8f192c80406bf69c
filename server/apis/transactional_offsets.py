"""The door to offsets that count when a transaction does: TxnOffsetCommit (KIP-98, KIP-447)."""

from collections.abc import Iterable, Iterator
from typing import cast

from regroup.coordinator import commands as c
from regroup.protocol.errors import ErrorCode
from regroup.protocol.fields import NO_UUID
from regroup.protocol.message import Structure
from regroup.protocol.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from regroup.server.apis.group_offsets import codes_by_partition, offsets_to_commit
from regroup.server.cluster.group_router import Groups
from regroup.server.cluster.state import Cluster
from regroup.server.cluster.topics import OFFSETS_TOPIC
from regroup.server.cluster.transaction_coordinator import Producer, TransactionCoordinator
from regroup.server.net.exchange import Exchange, Handler

_KNOWS_LOADING_SINCE = 2
_ABORTABLE_SINCE = 4
_ADDS_SINCE = 5
"""Since v5 the commit itself announces the group to the transaction (KIP-890)."""


class TransactionalOffsetApis:
    """The transaction is looked at first: a producer that is over must not leave offsets that nobody ever settles."""

    def __init__(self, cluster: Cluster, groups: Groups, transactions: TransactionCoordinator) -> None:
        self._cluster = cluster
        self._groups = groups
        self._transactions = transactions

    def handlers(self) -> dict[int, Handler]:
        return {TxnOffsetCommitRequest.api_key: self.commit_offsets}

    def commit_offsets(self, exchange: Exchange) -> None:
        """Partitions that do not exist are answered here; if no other is left, nobody else is asked."""
        request = cast("TxnOffsetCommitRequest", exchange.request)
        offsets = tuple(self._to_commit(request))
        refused = ErrorCode.INVALID_GROUP_ID if not request.group_id else None
        if offsets and not refused:
            refused = self._refuse_transaction(request, exchange)
        if refused or not offsets:
            exchange.reply(response_to(request, dict.fromkeys(places(offsets), refused or ErrorCode.NONE)))
            return
        command = c.CommitTransactionalOffsets(
            group_id=request.group_id,
            at_ms=self._cluster.now_ms(),
            producer_id=request.producer_id,
            generation_id=request.generation_id,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            offsets=offsets,
        )

        def reply(answer: Structure) -> None:
            codes = codes_by_partition(cast("TxnOffsetCommitResponse", answer).topics)
            known = {place: for_version(ErrorCode(code), exchange.version) for place, code in codes.items()}
            exchange.reply(response_to(request, known))

        self._groups.submit(command, reply, exchange.cause)

    def _to_commit(self, request: TxnOffsetCommitRequest) -> Iterator[c.OffsetToCommit]:
        for topic in request.topics:
            yield from offsets_to_commit(self._cluster.topic(topic.name, NO_UUID), topic.partitions)

    def _refuse_transaction(self, request: TxnOffsetCommitRequest, exchange: Exchange) -> ErrorCode | None:
        """Only offsets of a group that the transaction knows of are settled when it ends."""
        producer = Producer(request.transactional_id, request.producer_id, request.producer_epoch)
        partition = self._cluster.partition_of_group(request.group_id)
        if exchange.version >= _ADDS_SINCE:
            code = self._transactions.add(producer, {OFFSETS_TOPIC: [partition]}, exchange.cause()) or None
        else:
            code = self._transactions.refuse_write(producer, OFFSETS_TOPIC, partition)
        if code is ErrorCode.PRODUCER_FENCED:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if code is ErrorCode.INVALID_TXN_STATE and exchange.version >= _ABORTABLE_SINCE:
            return ErrorCode.TRANSACTION_ABORTABLE
        return code


def places(offsets: Iterable[c.OffsetToCommit]) -> list[tuple[str, int]]:
    return [(offset.topic, offset.partition) for offset in offsets]


def for_version(code: ErrorCode, version: int) -> ErrorCode:
    """Older producers know no group that is being loaded (behaviour
    `txn-offset.loading-mapped-for-old-clients`)."""
    is_new = code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < _KNOWS_LOADING_SINCE
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if is_new else code


def response_to(request: TxnOffsetCommitRequest, codes: dict[tuple[str, int], ErrorCode]) -> TxnOffsetCommitResponse:
    """These codes in the order of the request; a partition without one does not exist."""
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
