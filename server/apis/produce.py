"""Produce and InitProducerId: how records come in."""

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
from regroup.protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from regroup.server.apis.partitions import PartitionFinder
from regroup.server.cluster import Cluster
from regroup.server.exchange import Exchange, Handler
from regroup.server.incoming import Refusal, check_records
from regroup.server.topic_configs import topic_config
from regroup.server.topics import Topic

_LARGEST_EPOCH = 32767


class ProduceApis:
    """Records of one request go to each partition whole or not at all."""

    def __init__(self, cluster: Cluster, finder: PartitionFinder) -> None:
        self._cluster = cluster
        self._finder = finder
        self._transactional: dict[str, tuple[int, int]] = {}

    def handlers(self) -> dict[int, Handler]:
        return {ProduceRequest.api_key: self.produce, InitProducerIdRequest.api_key: self.init_producer_id}

    def produce(self, exchange: Exchange) -> None:
        request = cast("ProduceRequest", exchange.request)
        if request.acks not in (-1, 0, 1):
            responses = [self._refuse_topic(data, _BAD_ACKS) for data in request.topic_data]
        else:
            responses = [self._write_topic(data, exchange.version) for data in request.topic_data]
        if request.acks == 0:
            self._answer_nothing(exchange, responses)
            return
        response = ProduceResponse(responses=responses)
        self._cluster.when_durable(lambda: exchange.reply(response), lambda: exchange.hang_up("the store failed"))

    @staticmethod
    def _answer_nothing(exchange: Exchange, responses: list[TopicProduceResponse]) -> None:
        """Who wants no answer learns of a failure by losing the connection: then it asks for metadata again."""
        codes = [each.error_code for topic in responses for each in topic.partition_responses if each.error_code]
        if codes:
            exchange.hang_up(f"a produce request without acknowledgement failed: {ErrorCode.named(codes[0])}")
        else:
            exchange.leave_unanswered()

    def _write_topic(self, data: TopicProduceData, version: int) -> TopicProduceResponse:
        topic = self._finder.topic(data.name, data.topic_id)
        if isinstance(topic, Topic) and topic.is_internal:
            return self._refuse_topic(data, _INTERNAL)
        written = [self._write(topic, each, version) for each in data.partition_data]
        return TopicProduceResponse(name=data.name, topic_id=data.topic_id, partition_responses=written)

    def _write(self, topic: Topic | ErrorCode, data: PartitionProduceData, version: int) -> PartitionProduceResponse:
        log = self._finder.log(topic, data.index)
        if isinstance(log, ErrorCode) or isinstance(topic, ErrorCode):
            code = log if isinstance(log, ErrorCode) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return _refused(data.index, Refusal(code, code.meaning))
        largest = int(topic_config(topic.configs, "max.message.bytes", self._cluster.settings))
        batches = check_records(data.records, produce_version=version, max_bytes=largest)
        if isinstance(batches, Refusal):
            return _refused(data.index, batches)
        appended = self._cluster.append(topic, data.index, batches)
        if isinstance(appended, Refusal):
            return _refused(data.index, appended)
        return PartitionProduceResponse(
            index=data.index, base_offset=appended.base_offset, log_start_offset=log.log_start_offset
        )

    @staticmethod
    def _refuse_topic(data: TopicProduceData, refusal: Refusal) -> TopicProduceResponse:
        refused = [_refused(each.index, refusal) for each in data.partition_data]
        return TopicProduceResponse(name=data.name, topic_id=data.topic_id, partition_responses=refused)

    def init_producer_id(self, exchange: Exchange) -> None:
        """An id for an idempotent producer, or for a transactional one, whose earlier self is thereby fenced."""
        request = cast("InitProducerIdRequest", exchange.request)
        refusal = self._refuse_producer(request)
        if refusal is not None:
            exchange.reply(InitProducerIdResponse(error_code=refusal, producer_id=-1, producer_epoch=-1))
            return
        if request.transactional_id is None:
            producer_id, epoch = self._cluster.new_producer_id(exchange.cause()), 0
        else:
            producer_id, epoch = self._next_epoch(request.transactional_id, exchange)
        response = InitProducerIdResponse(producer_id=producer_id, producer_epoch=epoch)
        self._cluster.when_durable(lambda: exchange.reply(response), lambda: exchange.hang_up("the store failed"))

    def _refuse_producer(self, request: InitProducerIdRequest) -> ErrorCode | None:
        if request.transactional_id is None:
            return None
        if not request.transactional_id:
            return ErrorCode.INVALID_REQUEST
        if not 0 < request.transaction_timeout_ms <= self._cluster.settings.transaction_max_timeout_ms:
            return ErrorCode.INVALID_TRANSACTION_TIMEOUT
        known = self._transactional.get(request.transactional_id)
        if known is not None and request.producer_id >= 0 and (request.producer_id, request.producer_epoch) != known:
            return ErrorCode.PRODUCER_FENCED
        return None

    def _next_epoch(self, transactional_id: str, exchange: Exchange) -> tuple[int, int]:
        producer_id, epoch = self._transactional.get(transactional_id, (-1, _LARGEST_EPOCH))
        # The last epoch is never used by a producer, so that it can always be fenced.
        if epoch + 1 >= _LARGEST_EPOCH:
            producer_id, epoch = self._cluster.new_producer_id(exchange.cause()), -1
        self._transactional[transactional_id] = (producer_id, epoch + 1)
        return producer_id, epoch + 1


_BAD_ACKS = Refusal(ErrorCode.INVALID_REQUIRED_ACKS, ErrorCode.INVALID_REQUIRED_ACKS.meaning)
_INTERNAL = Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, "Clients may not write to an internal topic")


def _refused(index: int, refusal: Refusal) -> PartitionProduceResponse:
    return PartitionProduceResponse(index=index, error_code=refusal.code, base_offset=-1, error_message=refusal.text)
