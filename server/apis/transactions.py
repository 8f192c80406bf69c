"""Handlers of requests of transactional producers: InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn."""

from collections.abc import Callable
from functools import partial

from regroup.protocol.errors import ErrorCode
from regroup.protocol.internal_topics import INTERNAL_TOPICS, OFFSETS_TOPIC
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
from regroup.server.cluster.state import ClusterState
from regroup.server.cluster.transaction_coordinator import ProducerIdentity, TransactionCoordinator
from regroup.server.net.exchange import Exchange, RequestHandler
from regroup.server.net.turns import Turns

_BROKERS_ADD_SINCE = 4
"""AddPartitionsToTxn version since which brokers send it, and a request may name several transactions. Up to v3
producers send it."""
_BUMPS_EPOCH_SINCE = 5
"""EndTxn version since which each transaction has its own producer epoch (KIP-890)."""
_ABORTABLE_SINCE = 5


class TransactionApis:
    """Handles the requests of transactional producers. A response is sent once its events are durable."""

    def __init__(self, state: ClusterState, node_id: int, transactions: TransactionCoordinator) -> None:
        self._state = state
        self._node_id = node_id
        self._transactions = transactions

    def handlers(self) -> dict[int, RequestHandler]:
        return {
            InitProducerIdRequest.api_key: self.init_producer_id,
            AddPartitionsToTxnRequest.api_key: self.add_partitions,
            AddOffsetsToTxnRequest.api_key: self.add_offsets,
            EndTxnRequest.api_key: self.end,
        }

    def _check_id(self, transactional_id: str) -> ErrorCode | None:
        """The error code of a transactional id that is empty or that another broker coordinates; None if this broker
        coordinates it."""
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        is_here = self._state.transaction_coordinator_id(transactional_id) == self._node_id
        return None if is_here else ErrorCode.NOT_COORDINATOR

    def init_producer_id(self, request: InitProducerIdRequest, exchange: Exchange) -> None:
        """Answer an InitProducerId: a new producer id for an idempotent producer, a producer id and a new epoch for a
        transactional one."""
        producer = self._init_producer(request, exchange)
        if isinstance(producer, ErrorCode):
            code = _code_for_version(producer, exchange.version, fenced_since=4)
            response = InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
        else:
            response = InitProducerIdResponse(producer_id=producer.producer_id, producer_epoch=producer.epoch)
        exchange.respond_when_durable(response, self._state.when_durable)

    def _init_producer(self, request: InitProducerIdRequest, exchange: Exchange) -> ProducerIdentity | ErrorCode:
        if request.transactional_id is None:
            return ProducerIdentity("", self._state.new_producer_id(exchange.cause), 0)
        if error := self._check_id(request.transactional_id):
            return error
        if not 0 < request.transaction_timeout_ms <= self._state.settings.transaction_max_timeout_ms:
            return ErrorCode.INVALID_TRANSACTION_TIMEOUT
        claim = ProducerIdentity(request.transactional_id, request.producer_id, request.producer_epoch)
        return self._transactions.init_producer(claim, request.transaction_timeout_ms, exchange.cause)

    def add_partitions(self, request: AddPartitionsToTxnRequest, exchange: Exchange) -> Turns:
        if exchange.version < _BROKERS_ADD_SINCE:
            producer = ProducerIdentity(
                request.v3_and_below_transactional_id,
                request.v3_and_below_producer_id,
                request.v3_and_below_producer_epoch,
            )
            results = self._add(producer, request.v3_and_below_topics, exchange)
            yield _partition_count(request.v3_and_below_topics)
            response = AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)
        else:
            by_transaction = []
            for each in request.transactions:
                producer = ProducerIdentity(each.transactional_id, each.producer_id, each.producer_epoch)
                results = (self._verify if each.verify_only else self._add)(producer, each.topics, exchange)
                by_transaction.append(
                    AddPartitionsToTxnResult(transactional_id=each.transactional_id, topic_results=results)
                )
                yield self._state.steps_of_event + _partition_count(each.topics)
            response = AddPartitionsToTxnResponse(results_by_transaction=by_transaction)
        exchange.respond_when_durable(response, self._state.when_durable)

    def _add(
        self, producer: ProducerIdentity, topics: list[AddPartitionsToTxnTopic], exchange: Exchange
    ) -> list[AddPartitionsToTxnTopicResult]:
        """Add the partitions to the transaction and return their error codes. If one of them does not exist, or is one
        of an internal topic and a producer asks, none is added."""
        not_attempted = ErrorCode.OPERATION_NOT_ATTEMPTED
        if error := self._check_id(producer.transactional_id):
            return _results(topics, lambda topic, index: error)
        refusal = partial(self._refusal, is_broker=exchange.version >= _BROKERS_ADD_SINCE)
        if any(refusal(each.name, index) for each in topics for index in each.partitions):
            return _results(topics, lambda topic, index: refusal(topic, index) or not_attempted)
        partitions: dict[str, list[int]] = {}
        for each in topics:
            partitions.setdefault(each.name, []).extend(each.partitions)
        code = self._transactions.add_partitions(producer, partitions, exchange.cause)
        code = _code_for_version(code, exchange.version, fenced_since=2)
        return _results(topics, lambda topic, index: code)

    def _refusal(self, topic: str, index: int, *, is_broker: bool) -> ErrorCode | None:
        """The error code of a partition that cannot be added to a transaction; None if it can. In Kafka only brokers
        may add partitions of internal topics, which they do for a group with offsets."""
        if topic in INTERNAL_TOPICS and not is_broker:
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return None if self._exists(topic, index) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _verify(
        self, producer: ProducerIdentity, topics: list[AddPartitionsToTxnTopic], exchange: Exchange
    ) -> list[AddPartitionsToTxnTopicResult]:
        """Check that the partitions are part of the producer's open transaction, without adding them; returns their
        error codes."""
        id_error = self._check_id(producer.transactional_id)
        check_write = self._transactions.write_checker(producer)

        def code(topic: str, index: int) -> ErrorCode:
            error = id_error or check_write(topic, index) or ErrorCode.NONE
            if error is ErrorCode.INVALID_TXN_STATE and exchange.version >= _ABORTABLE_SINCE:
                return ErrorCode.TRANSACTION_ABORTABLE
            return error

        return _results(topics, code)

    def _exists(self, name: str, index: int) -> bool:
        topic = self._state.topics.get(name)
        return topic is not None and 0 <= index < topic.partitions

    def add_offsets(self, request: AddOffsetsToTxnRequest, exchange: Exchange) -> None:
        """Answer an AddOffsetsToTxn: add the partition of `__consumer_offsets` that holds the group to the producer's
        transaction."""
        producer = ProducerIdentity(request.transactional_id, request.producer_id, request.producer_epoch)
        partitions = {OFFSETS_TOPIC: [self._state.partition_of_group(request.group_id)]}
        code = self._check_id(request.transactional_id)
        if code is None:
            code = self._transactions.add_partitions(producer, partitions, exchange.cause)
        code = _code_for_version(code, exchange.version, fenced_since=2)
        exchange.respond_when_durable(AddOffsetsToTxnResponse(error_code=code), self._state.when_durable)

    def end(self, request: EndTxnRequest, exchange: Exchange) -> None:
        producer = ProducerIdentity(request.transactional_id, request.producer_id, request.producer_epoch)
        bumps_epoch = exchange.version >= _BUMPS_EPOCH_SINCE
        result = self._check_id(request.transactional_id) or self._transactions.end_transaction(
            producer, committed=request.committed, bumps_epoch=bumps_epoch, cause=exchange.cause
        )
        if isinstance(result, ErrorCode):
            response = EndTxnResponse(error_code=_code_for_version(result, exchange.version, fenced_since=2))
        elif bumps_epoch:
            response = EndTxnResponse(producer_id=result.producer_id, producer_epoch=result.epoch)
        else:
            response = EndTxnResponse()
        exchange.respond_when_durable(response, self._state.when_durable)


def _partition_count(topics: list[AddPartitionsToTxnTopic]) -> int:
    return sum(1 + len(topic.partitions) for topic in topics)


def _code_for_version(code: ErrorCode, version: int, *, fenced_since: int) -> ErrorCode:
    """The error code as this request version may contain it: before version `fenced_since` there is only
    INVALID_PRODUCER_EPOCH for a fenced producer (KIP-588)."""
    is_unknown = code is ErrorCode.PRODUCER_FENCED and version < fenced_since
    return ErrorCode.INVALID_PRODUCER_EPOCH if is_unknown else code


def _results(
    topics: list[AddPartitionsToTxnTopic], code: Callable[[str, int], ErrorCode]
) -> list[AddPartitionsToTxnTopicResult]:
    """Make the topics of the response, in the order of the request. `code(topic, index)` returns the error code of a
    partition."""
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
