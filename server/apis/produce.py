"""Produce: how records come in."""

from typing import cast

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
from regroup.server.apis.durable import reply_when_durable
from regroup.server.apis.partitions import PartitionFinder
from regroup.server.cluster.state import Cluster
from regroup.server.cluster.topic_configs import topic_config
from regroup.server.cluster.topics import Topic
from regroup.server.cluster.transaction_coordinator import Producer, TransactionCoordinator
from regroup.server.log.record_validation import Refusal, check_records
from regroup.server.net.exchange import Exchange, Handler

_ABORTABLE_SINCE = 11
_ADDS_SINCE = 12
"""Since Produce v12 a transactional write adds its partition to the transaction by itself (KIP-890)."""


class ProduceApis:
    """Records of one request go to each partition whole or not at all."""

    def __init__(self, cluster: Cluster, finder: PartitionFinder, transactions: TransactionCoordinator) -> None:
        self._cluster = cluster
        self._finder = finder
        self._transactions = transactions

    def handlers(self) -> dict[int, Handler]:
        return {ProduceRequest.api_key: self.produce}

    def produce(self, exchange: Exchange) -> None:
        request = cast("ProduceRequest", exchange.request)
        if request.acks not in (-1, 0, 1):
            responses = [self._refuse_topic(data, _BAD_ACKS) for data in request.topic_data]
        else:
            responses = [self._write_topic(data, exchange) for data in request.topic_data]
        if request.acks == 0:
            self._answer_nothing(exchange, responses)
            return
        response = ProduceResponse(responses=responses)
        reply_when_durable(exchange, response, self._cluster)

    @staticmethod
    def _answer_nothing(exchange: Exchange, responses: list[TopicProduceResponse]) -> None:
        """Who wants no answer learns of a failure by losing the connection: then it asks for metadata again."""
        codes = [each.error_code for topic in responses for each in topic.partition_responses if each.error_code]
        if codes:
            exchange.hang_up(f"a produce request without acknowledgement failed: {ErrorCode.named(codes[0])}")
        else:
            exchange.leave_unanswered()

    def _write_topic(self, data: TopicProduceData, exchange: Exchange) -> TopicProduceResponse:
        topic = self._finder.topic(data.name, data.topic_id)
        if isinstance(topic, Topic) and topic.is_internal:
            return self._refuse_topic(data, _INTERNAL)
        written = [self._write(topic, each, exchange) for each in data.partition_data]
        return TopicProduceResponse(name=data.name, topic_id=data.topic_id, partition_responses=written)

    def _write(
        self, topic: Topic | ErrorCode, data: PartitionProduceData, exchange: Exchange
    ) -> PartitionProduceResponse:
        log = self._finder.log(topic, data.index)
        if isinstance(log, ErrorCode) or isinstance(topic, ErrorCode):
            code = log if isinstance(log, ErrorCode) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return _refused(data.index, Refusal(code, code.meaning))
        largest = int(topic_config(topic.configs, "max.message.bytes", self._cluster.settings))
        batches = check_records(data.records, produce_version=exchange.version, max_bytes=largest)
        if isinstance(batches, Refusal):
            return _refused(data.index, batches)
        header = batches[0].header
        if header is not None and header.is_transactional:
            code = self._refuse_transaction(exchange, header, topic.name, data.index)
            if code:
                return _refused(data.index, Refusal(code, code.meaning))
        appended = self._cluster.append(topic, data.index, batches)
        if isinstance(appended, Refusal):
            return _refused(data.index, appended)
        return PartitionProduceResponse(
            index=data.index, base_offset=appended.base_offset, log_start_offset=log.log_start_offset
        )

    def _refuse_transaction(self, exchange: Exchange, header: BatchHeader, topic: str, index: int) -> ErrorCode:
        """A transaction writes only where it has said so before; the codes are those that a producer understands."""
        transactional_id = cast("ProduceRequest", exchange.request).transactional_id
        producer = Producer(transactional_id or "", header.producer_id, header.producer_epoch)
        if exchange.version >= _ADDS_SINCE:
            code = self._transactions.add(producer, {topic: [index]}, exchange.cause())
        else:
            code = self._transactions.refuse_write(producer, topic, index) or ErrorCode.NONE
        if code is ErrorCode.PRODUCER_FENCED:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if code is ErrorCode.INVALID_TXN_STATE and exchange.version >= _ABORTABLE_SINCE:
            return ErrorCode.TRANSACTION_ABORTABLE
        if code is ErrorCode.CONCURRENT_TRANSACTIONS and exchange.version < _ADDS_SINCE:
            return ErrorCode.NOT_ENOUGH_REPLICAS
        return code

    @staticmethod
    def _refuse_topic(data: TopicProduceData, refusal: Refusal) -> TopicProduceResponse:
        refused = [_refused(each.index, refusal) for each in data.partition_data]
        return TopicProduceResponse(name=data.name, topic_id=data.topic_id, partition_responses=refused)


_BAD_ACKS = Refusal(ErrorCode.INVALID_REQUIRED_ACKS, ErrorCode.INVALID_REQUIRED_ACKS.meaning)
_INTERNAL = Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, "Clients may not write to an internal topic")


def _refused(index: int, refusal: Refusal) -> PartitionProduceResponse:
    return PartitionProduceResponse(index=index, error_code=refusal.code, base_offset=-1, error_message=refusal.text)
