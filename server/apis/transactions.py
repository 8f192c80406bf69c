"""Transactional producers: InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn."""

from collections.abc import Callable
from typing import cast

from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from regroup.server.apis.durable import reply_when_durable
from regroup.server.cluster.state import Cluster
from regroup.server.cluster.topics import OFFSETS_TOPIC
from regroup.server.cluster.transaction_coordinator import Producer, TransactionCoordinator
from regroup.server.net.exchange import Exchange, Handler

_BROKERS_ASK_SINCE = 4
"""AddPartitionsToTxn up to v3 comes from producers; from v4 on one request may name several transactions."""
_BUMPS_SINCE = 5
"""Since EndTxn v5 each transaction has an epoch of its own (KIP-890)."""
_ABORTABLE_SINCE = 5
_PARTITION_CODES = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED)


class TransactionApis:
    """Every answer waits until what it tells of is on disk."""

    def __init__(self, cluster: Cluster, node_id: int, transactions: TransactionCoordinator) -> None:
        self._cluster = cluster
        self._node_id = node_id
        self._transactions = transactions

    def handlers(self) -> dict[int, Handler]:
        return {
            InitProducerIdRequest.api_key: self.init_producer_id,
            AddPartitionsToTxnRequest.api_key: self.add_partitions,
            AddOffsetsToTxnRequest.api_key: self.add_offsets,
            EndTxnRequest.api_key: self.end,
        }

    def _reply(self, exchange: Exchange, response: Message) -> None:
        reply_when_durable(exchange, response, self._cluster)

    def _refuse_id(self, transactional_id: str) -> ErrorCode | None:
        """A transactional id lives where the partition of `__transaction_state` is led that its hash names."""
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        is_here = self._cluster.node_of_transaction(transactional_id) == self._node_id
        return None if is_here else ErrorCode.NOT_COORDINATOR

    def init_producer_id(self, exchange: Exchange) -> None:
        """An id for an idempotent producer, or for a transactional one, whose earlier self is thereby fenced."""
        request = cast("InitProducerIdRequest", exchange.request)
        given = self._begin(request, exchange)
        if isinstance(given, ErrorCode):
            code = for_version(given, exchange.version, knows_fencing=4)
            self._reply(exchange, InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1))
        else:
            response = InitProducerIdResponse(producer_id=given.producer_id, producer_epoch=given.epoch)
            self._reply(exchange, response)

    def _begin(self, request: InitProducerIdRequest, exchange: Exchange) -> Producer | ErrorCode:
        if request.transactional_id is None:
            return Producer("", self._cluster.new_producer_id(exchange.cause()), 0)
        if refused := self._refuse_id(request.transactional_id):
            return refused
        if not 0 < request.transaction_timeout_ms <= self._cluster.settings.transaction_max_timeout_ms:
            return ErrorCode.INVALID_TRANSACTION_TIMEOUT
        claim = Producer(request.transactional_id, request.producer_id, request.producer_epoch)
        return self._transactions.begin(claim, request.transaction_timeout_ms, exchange.cause())

    def add_partitions(self, exchange: Exchange) -> None:
        request = cast("AddPartitionsToTxnRequest", exchange.request)
        if exchange.version < _BROKERS_ASK_SINCE:
            producer = Producer(
                request.v3_and_below_transactional_id,
                request.v3_and_below_producer_id,
                request.v3_and_below_producer_epoch,
            )
            results = self._add(producer, request.v3_and_below_topics, exchange)
            self._reply(exchange, AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results))
            return
        by_transaction = []
        for each in request.transactions:
            producer = Producer(each.transactional_id, each.producer_id, each.producer_epoch)
            results = (self._look if each.verify_only else self._add)(producer, each.topics, exchange)
            by_transaction.append(
                AddPartitionsToTxnResult(transactional_id=each.transactional_id, topic_results=results)
            )
        self._reply(exchange, AddPartitionsToTxnResponse(results_by_transaction=by_transaction))

    def _add(
        self, producer: Producer, topics: list[AddPartitionsToTxnTopic], exchange: Exchange
    ) -> list[AddPartitionsToTxnTopicResult]:
        """All of the partitions or none: if one does not exist, the others are not attempted."""
        missing, not_attempted = _PARTITION_CODES
        if refused := self._refuse_id(producer.transactional_id):
            return results_of(topics, lambda topic, index: refused)
        if not all(self._exists(each.name, index) for each in topics for index in each.partitions):
            return results_of(topics, lambda topic, index: not_attempted if self._exists(topic, index) else missing)
        partitions = {each.name: each.partitions for each in topics}
        code = for_version(
            self._transactions.add(producer, partitions, exchange.cause()), exchange.version, knows_fencing=2
        )
        return results_of(topics, lambda topic, index: code)

    def _look(
        self, producer: Producer, topics: list[AddPartitionsToTxnTopic], exchange: Exchange
    ) -> list[AddPartitionsToTxnTopicResult]:
        """Does the transaction hold these partitions?"""

        def code(topic: str, index: int) -> ErrorCode:
            refused = self._refuse_id(producer.transactional_id)
            refused = refused or self._transactions.refuse_write(producer, topic, index) or ErrorCode.NONE
            if refused is ErrorCode.INVALID_TXN_STATE and exchange.version >= _ABORTABLE_SINCE:
                return ErrorCode.TRANSACTION_ABORTABLE
            return refused

        return results_of(topics, code)

    def _exists(self, name: str, index: int) -> bool:
        topic = self._cluster.topics.by_name.get(name)
        return topic is not None and 0 <= index < topic.partitions

    def add_offsets(self, exchange: Exchange) -> None:
        """The group's offsets are a partition like any other: the one of `__consumer_offsets` in which it lives."""
        request = cast("AddOffsetsToTxnRequest", exchange.request)
        producer = Producer(request.transactional_id, request.producer_id, request.producer_epoch)
        partitions = {OFFSETS_TOPIC: [self._cluster.partition_of_group(request.group_id)]}
        code = self._refuse_id(request.transactional_id)
        if code is None:
            code = self._transactions.add(producer, partitions, exchange.cause())
        code = for_version(code, exchange.version, knows_fencing=2)
        self._reply(exchange, AddOffsetsToTxnResponse(error_code=code))

    def end(self, exchange: Exchange) -> None:
        request = cast("EndTxnRequest", exchange.request)
        producer = Producer(request.transactional_id, request.producer_id, request.producer_epoch)
        bumps = exchange.version >= _BUMPS_SINCE
        ended = self._refuse_id(request.transactional_id) or self._transactions.end(
            producer, committed=request.committed, bumps=bumps, cause=exchange.cause()
        )
        if isinstance(ended, ErrorCode):
            self._reply(exchange, EndTxnResponse(error_code=for_version(ended, exchange.version, knows_fencing=2)))
        elif bumps:
            self._reply(exchange, EndTxnResponse(producer_id=ended.producer_id, producer_epoch=ended.epoch))
        else:
            self._reply(exchange, EndTxnResponse())


def for_version(code: ErrorCode, version: int, *, knows_fencing: int) -> ErrorCode:
    """Older clients know one code for every epoch that is over (KIP-588)."""
    is_new = code is ErrorCode.PRODUCER_FENCED and version < knows_fencing
    return ErrorCode.INVALID_PRODUCER_EPOCH if is_new else code


def results_of(
    topics: list[AddPartitionsToTxnTopic], code: Callable[[str, int], ErrorCode]
) -> list[AddPartitionsToTxnTopicResult]:
    """A code for each partition, in the order of the request."""
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code(topic.name, index))
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]
