"""Fetch: consumers read records, at once if there are enough, or else when more arrive or the wait time has passed."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field

from msgspec.structs import replace

from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.records import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from regroup.server.apis.partitions import READ_COMMITTED, PartitionFinder
from regroup.server.errors import RequestError
from regroup.server.log.partition_log import PartitionLog, is_record_batch
from regroup.server.net.exchange import Exchange, RequestHandler
from regroup.server.settings import BrokerSettings

_RECORD_BATCHES_SINCE = 4
"""Older fetches cannot return record batches of format 2."""
_MANY_PARTITIONS = 100


class FetchApis:
    """Handles Fetch. There are no fetch sessions (KIP-227): session id 0 makes clients always name all partitions."""

    def __init__(self, finder: PartitionFinder, settings: BrokerSettings, max_response_bytes: int) -> None:
        self._finder = finder
        self._max_bytes = min(settings.fetch_max_bytes, max_response_bytes // 8 * 7)
        """Of records; the rest of the response is for all else."""

    def handlers(self) -> dict[int, RequestHandler]:
        return {FetchRequest.api_key: self.fetch}

    def fetch(self, request: FetchRequest, exchange: Exchange) -> None:
        if request.session_id != 0:
            exchange.respond(FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, responses=[]))
        else:
            PendingFetch(_without_repetitions(request), exchange, self._finder, self._max_bytes).start()


@dataclass(slots=True)
class _PartitionResult:
    """The response for one partition, its records still apart."""

    response: PartitionData
    batches: list[bytes] = field(default_factory=list)


class PendingFetch:
    """A fetch without a response. It reads at its start, when a partition grows, and when its wait time has passed."""

    def __init__(self, request: FetchRequest, exchange: Exchange, finder: PartitionFinder, max_bytes: int) -> None:
        self._request = request
        self._exchange = exchange
        self._finder = finder
        self._max_bytes = min(request.max_bytes, max_bytes)
        self._logs: list[PartitionLog] = []
        self._timer: asyncio.TimerHandle | None = None
        self._next_read: asyncio.Handle | None = None

    def start(self) -> None:
        results = self._read()
        if self._is_enough(results) or self._request.max_wait_ms <= 0:
            self._respond(results)
            return
        delay_s = self._request.max_wait_ms / 1000
        self._timer = asyncio.get_running_loop().call_later(delay_s, lambda: self._respond(self._read()))
        self._exchange.on_connection_lost = self._stop
        self._logs = list(self._find_logs())
        for log in self._logs:
            log.add_listener(self._on_append)

    def _find_logs(self) -> Iterator[PartitionLog]:
        for topic in self._request.topics:
            for partition in topic.partitions:
                try:
                    yield self._find_log(topic, partition.partition)
                except RequestError:
                    continue

    def _find_log(self, topic: FetchTopic, index: int, known_epoch: int = -1) -> PartitionLog:
        return self._finder.find_log(self._finder.find_topic(topic.topic, topic.topic_id), index, known_epoch)

    def _on_append(self) -> None:
        """Read again; if there are many partitions, once for all that grow in the same turn of the event loop."""
        if len(self._logs) <= _MANY_PARTITIONS:
            self._read_again()
        elif self._next_read is None:
            self._next_read = asyncio.get_running_loop().call_soon(self._read_again)

    def _read_again(self) -> None:
        self._next_read = None
        results = self._read()
        if self._is_enough(results):
            self._respond(results)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for log in self._logs:
            log.remove_listener(self._on_append)
        if self._next_read is not None:
            self._next_read.cancel()

    def _is_enough(self, results: list[list[_PartitionResult]]) -> bool:
        """Kafka also responds at once to an error, and to a request without partitions."""
        partitions = [each for topic in results for each in topic]
        size_bytes = sum(len(batch) for each in partitions for batch in each.batches)
        has_error = any(each.response.error_code for each in partitions)
        return not partitions or size_bytes >= self._request.min_bytes or has_error

    def _respond(self, results: list[list[_PartitionResult]]) -> None:
        self._stop()
        responses = [
            FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[
                    replace(each.response, records=b"".join(each.batches)) if each.batches else each.response
                    for each in partitions
                ],
            )
            for topic, partitions in zip(self._request.topics, results, strict=True)
        ]
        self._exchange.respond(FetchResponse(responses=responses))

    def _read(self) -> list[list[_PartitionResult]]:
        """Results by topic and partition, in the order of the request. The first partition with records returns at
        least one batch, however large."""
        remaining_bytes, is_first, results = self._max_bytes, True, []
        for topic in self._request.topics:
            of_topic = []
            for wanted in topic.partitions:
                try:
                    result = self._read_partition(topic, wanted, remaining_bytes, is_first=is_first)
                except RequestError as error:
                    response = PartitionData(partition_index=wanted.partition, error_code=error.code, high_watermark=-1)
                    result = _PartitionResult(response)
                remaining_bytes -= sum(len(batch) for batch in result.batches)
                is_first = is_first and not result.batches
                of_topic.append(result)
            results.append(of_topic)
        return results

    def _read_partition(
        self, topic: FetchTopic, wanted: FetchPartition, remaining_bytes: int, *, is_first: bool
    ) -> _PartitionResult:
        log = self._find_log(topic, wanted.partition, wanted.current_leader_epoch)
        response = PartitionData(
            partition_index=wanted.partition,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.log_start_offset,
            aborted_transactions=None,
        )
        if not log.log_start_offset <= wanted.fetch_offset <= log.log_end_offset:
            return _PartitionResult(replace(response, error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
        read_committed = self._request.isolation_level == READ_COMMITTED
        before = log.readable_end(read_committed=read_committed)
        max_bytes = min(remaining_bytes, wanted.partition_max_bytes)
        batches = log.read(wanted.fetch_offset, before=before, max_bytes=max_bytes, at_least_one=is_first)
        if self._exchange.version < _RECORD_BATCHES_SINCE and any(map(is_record_batch, batches)):
            return _PartitionResult(replace(response, error_code=ErrorCode.UNSUPPORTED_VERSION))
        if read_committed:
            end = log.end_of_read(wanted.fetch_offset, len(batches))
            aborted = [
                AbortedTransaction(producer_id=span.producer_id, first_offset=span.first_offset)
                for span in log.producers.aborted_transactions(wanted.fetch_offset, end)
            ]
            response = replace(response, aborted_transactions=aborted)
        return _PartitionResult(response, batches)


def _without_repetitions(request: FetchRequest) -> FetchRequest:
    """The request with each partition once, as Kafka reads it: the last entry counts, at the place of the first."""
    if len(request.topics) <= 1 and sum(len(topic.partitions) for topic in request.topics) <= 1:
        return request
    topics: dict[tuple[str, bytes], tuple[FetchTopic, dict[int, FetchPartition]]] = {}
    for topic in request.topics:
        _, partitions = topics.setdefault((topic.topic, topic.topic_id), (topic, {}))
        partitions.update({each.partition: each for each in topic.partitions})
    return replace(
        request,
        topics=[replace(topic, partitions=list(partitions.values())) for topic, partitions in topics.values()],
    )
