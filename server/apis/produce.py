"""Handler of Produce, with which clients append records to partitions."""

from collections.abc import Generator

from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.records import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from regroup.protocol.record_batch import BatchHeader
from regroup.server.apis.partitions import PartitionFinder
from regroup.server.cluster.state import ClusterState
from regroup.server.cluster.topic_configs import effective_topic_config
from regroup.server.cluster.transaction_coordinator import ProducerIdentity, TransactionCoordinator
from regroup.server.cluster.transactions import check_unverified_write
from regroup.server.errors import RequestError
from regroup.server.log.partition_log import PartitionLog
from regroup.server.log.record_validation import LegacyAllowance, validate_records
from regroup.server.net.exchange import Exchange, RequestHandler
from regroup.server.net.turns import Turns

_ABORTABLE_SINCE = 11
_ADDS_PARTITIONS_SINCE = 12
"""Produce version since which a transactional write itself adds its partition to the transaction (KIP-890)."""


class ProduceApis:
    """Handles Produce. The records for one partition are appended as a whole or not at all."""

    def __init__(self, state: ClusterState, finder: PartitionFinder, transactions: TransactionCoordinator) -> None:
        self._state = state
        self._finder = finder
        self._transactions = transactions

    def handlers(self) -> dict[int, RequestHandler]:
        return {ProduceRequest.api_key: self.produce}

    def produce(self, request: ProduceRequest, exchange: Exchange) -> Turns:
        responses, allowance = [], LegacyAllowance()
        for topic in request.topic_data:
            of_topic = []
            for each in topic.partition_data:
                of_topic.append((yield from self._write(request, topic, each, allowance, exchange)))
                copied = self._transactions.partition_count(request.transactional_id) if request.transactional_id else 0
                yield self._state.steps_of_event + copied // 20
            responses.append(
                TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=of_topic)
            )
        if request.acks != 0:
            exchange.respond_when_durable(ProduceResponse(responses=responses), self._state.when_durable)
            return
        codes = [each.error_code for topic in responses for each in topic.partition_responses if each.error_code]
        if codes:
            # A client that expects no response learns of an error by the lost connection, and fetches metadata again.
            name = ErrorCode.name_of(codes[0])
            exchange.close_connection(f"a produce request without acknowledgement failed: {name}")
        else:
            exchange.finish_without_response()

    def _write(
        self,
        request: ProduceRequest,
        topic: TopicProduceData,
        data: PartitionProduceData,
        allowance: LegacyAllowance,
        exchange: Exchange,
    ) -> Generator[int, None, PartitionProduceResponse]:
        try:
            return (yield from self._append(request, topic, data, allowance, exchange))
        except RequestError as error:
            return PartitionProduceResponse(
                index=data.index, error_code=error.code, base_offset=-1, error_message=error.text
            )

    def _append(
        self,
        request: ProduceRequest,
        topic_data: TopicProduceData,
        data: PartitionProduceData,
        allowance: LegacyAllowance,
        exchange: Exchange,
    ) -> Generator[int, None, PartitionProduceResponse]:
        if request.acks not in (-1, 0, 1):
            raise RequestError(ErrorCode.INVALID_REQUIRED_ACKS)
        topic = self._finder.find_topic(topic_data.name, topic_data.topic_id)
        if topic.is_internal:
            raise RequestError(ErrorCode.INVALID_TOPIC_EXCEPTION, "Clients may not write to an internal topic")
        self._finder.find_log(topic, data.index)
        max_bytes = int(effective_topic_config(topic.configs, "max.message.bytes", self._state.settings))
        batches = yield from validate_records(
            data.records, allowance, produce_version=exchange.version, max_bytes=max_bytes
        )
        # The validation may have paused, and the topic may have changed meanwhile.
        topic = self._finder.find_topic(topic_data.name, topic_data.topic_id)
        log = self._finder.find_log(topic, data.index)
        header = batches[0].header
        if header is not None and header.is_transactional:
            self._check_transaction(request.transactional_id, header, topic.name, data.index, log, exchange)
        base_offset = self._state.append_batches(topic, data.index, batches)
        return PartitionProduceResponse(
            index=data.index, base_offset=base_offset, log_start_offset=log.log_start_offset
        )

    def _check_transaction(
        self,
        transactional_id: str | None,
        header: BatchHeader,
        topic: str,
        index: int,
        log: PartitionLog,
        exchange: Exchange,
    ) -> None:
        """Check that a write belongs to the producer's open transaction; since v12, add its partition to the
        transaction first. Raises RequestError with an error code that a producer of this request version can handle."""
        if transactional_id is None:
            raise RequestError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        producer = ProducerIdentity(transactional_id, header.producer_id, header.producer_epoch)
        if exchange.version >= _ADDS_PARTITIONS_SINCE:
            code = self._transactions.add_partitions(producer, {topic: [index]}, exchange.cause)
        else:
            code = self._transactions.check_write(producer, topic, index) or ErrorCode.NONE
        if code is ErrorCode.INVALID_PRODUCER_ID_MAPPING:
            code = check_unverified_write(log.producers.open_epoch(header.producer_id), header.producer_epoch)
        elif code is ErrorCode.PRODUCER_FENCED:
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        elif code is ErrorCode.INVALID_TXN_STATE and exchange.version >= _ABORTABLE_SINCE:
            code = ErrorCode.TRANSACTION_ABORTABLE
        elif code is ErrorCode.CONCURRENT_TRANSACTIONS and exchange.version < _ADDS_PARTITIONS_SINCE:
            code = ErrorCode.NOT_ENOUGH_REPLICAS
        if code:
            raise RequestError(code)
