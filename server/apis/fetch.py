"""Handler of Fetch, with which consumers read records. The response is sent at once if there are enough bytes, or else
when enough bytes have arrived or the wait time has passed.
"""

import asyncio
from collections.abc import Callable
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
from regroup.server.net.turns import Turns
from regroup.server.settings import BrokerSettings

_RECORD_BATCHES_SINCE = 4
"""Fetch version since which a response can contain record batches of format 2."""
_BATCHES_PER_STEP = 100


class FetchApis:
    """Handles Fetch. There are no fetch sessions (KIP-227): session id 0 makes clients always name all partitions."""

    def __init__(self, finder: PartitionFinder, settings: BrokerSettings, max_response_bytes: int) -> None:
        self._finder = finder
        self._max_bytes = min(settings.fetch_max_bytes, max_response_bytes // 8 * 7)
        """The most bytes of records in a response. The other eighth of the response limit is for everything else in
        it."""

    def handlers(self) -> dict[int, RequestHandler]:
        return {FetchRequest.api_key: self.fetch}

    def fetch(self, request: FetchRequest, exchange: Exchange) -> Turns | None:
        if request.session_id != 0:
            exchange.respond(FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, responses=[]))
            return None
        return PendingFetch(_without_repetitions(request), exchange, self._finder, self._max_bytes).begin()


@dataclass(slots=True)
class _PartitionResult:
    """The response for one partition, with its record batches as a list: they are joined when the response is sent."""

    response: PartitionData
    batches: list[bytes] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class _AwaitedPartition:
    """A partition that a waiting fetch listens to, and how many bytes of its records have been counted towards
    `min_bytes`."""

    topic: FetchTopic
    wanted: FetchPartition
    log: PartitionLog
    counted_before: int
    """The offset of the next record to count: records below it are counted already."""
    counted_bytes: int
    on_growth: Callable[[], None]

    def count(self, *, read_committed: bool) -> int:
        """Count the batches that were appended since the last count, and return their bytes. In all at most
        `partition_max_bytes` of the partition are counted."""
        remaining = self.wanted.partition_max_bytes - self.counted_bytes
        if remaining <= 0:
            return 0
        before = self.log.readable_end(read_committed=read_committed)
        batches = self.log.read(self.counted_before, before=before, max_bytes=remaining, at_least_one=True)
        self.counted_before = self.log.end_of_read(self.counted_before, len(batches))
        new_bytes = min(sum(map(len, batches)), remaining)
        self.counted_bytes += new_bytes
        return new_bytes


class PendingFetch:
    """A Fetch that has no response yet. It reads its partitions at the start, and once more when its partitions have
    grown enough, when one of them is in error, or when its wait time has passed.

    While it waits, it looks only at the partition that grows: a fetch may name thousands, and many fetches may wait.
    """

    def __init__(self, request: FetchRequest, exchange: Exchange, finder: PartitionFinder, max_bytes: int) -> None:
        self._request = request
        self._exchange = exchange
        self._finder = finder
        self._max_bytes = min(request.max_bytes, max_bytes)
        self._read_committed = request.isolation_level == READ_COMMITTED
        self._awaited: list[_AwaitedPartition] = []
        self._counted_bytes = 0
        self._is_waiting = True
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> Turns:
        """Read all partitions. Respond if there are enough bytes, an error or no wait time; otherwise start the timer
        of `max_wait_ms` and listen to the partitions."""
        results: list[list[_PartitionResult]] = []
        yield from self._read(results)
        if self._is_enough(results) or self._request.max_wait_ms <= 0:
            self._respond(results)
            return
        self._timer = asyncio.get_running_loop().call_later(self._request.max_wait_ms / 1000, self._end_wait)
        self._exchange.on_connection_lost = self._stop
        for topic, of_topic in zip(self._request.topics, results, strict=True):
            for wanted, result in zip(topic.partitions, of_topic, strict=True):
                if not self._is_waiting:
                    return
                self._await(topic, wanted, result)
                yield 1

    def _await(self, topic: FetchTopic, wanted: FetchPartition, result: _PartitionResult) -> None:
        """Count the partition's bytes, also those by which its log has grown since it was read, and call `_on_growth`
        from now on whenever the log changes. End the wait if the partition has an error by now."""
        log = self._log_if_readable(topic, wanted)
        if log is None:
            self._end_wait()
            return
        awaited = _AwaitedPartition(
            topic=topic,
            wanted=wanted,
            log=log,
            counted_before=log.end_of_read(wanted.fetch_offset, len(result.batches)),
            counted_bytes=sum(map(len, result.batches)),
            on_growth=lambda: self._on_growth(awaited),
        )
        self._counted_bytes += awaited.counted_bytes
        self._awaited.append(awaited)
        log.add_listener(awaited.on_growth)
        self._count(awaited)

    def _on_growth(self, awaited: _AwaitedPartition) -> None:
        """Called when a partition's log has changed. End the wait if the fetch has enough bytes now, or if the
        partition has an error, such as another leader epoch or a deleted topic."""
        if self._log_if_readable(awaited.topic, awaited.wanted) is None:
            self._end_wait()
        else:
            self._count(awaited)

    def _count(self, awaited: _AwaitedPartition) -> None:
        self._counted_bytes += awaited.count(read_committed=self._read_committed)
        if self._counted_bytes >= self._request.min_bytes:
            self._end_wait()

    def _log_if_readable(self, topic: FetchTopic, wanted: FetchPartition) -> PartitionLog | None:
        """The log of a partition; None if a read of the partition would be answered with an error."""
        try:
            log = self._find_log(topic, wanted)
        except RequestError:
            return None
        return log if log.log_start_offset <= wanted.fetch_offset <= log.log_end_offset else None

    def _end_wait(self) -> None:
        """Stop waiting, read all partitions once more, and respond with what there is, even if it is less than
        `min_bytes`."""
        if self._is_waiting:
            self._stop()
            self._exchange.work(self._read_and_respond())

    def _stop(self) -> None:
        self._is_waiting = False
        if self._timer is not None:
            self._timer.cancel()
        for awaited in self._awaited:
            awaited.log.remove_listener(awaited.on_growth)
        self._awaited.clear()

    def _find_log(self, topic: FetchTopic, wanted: FetchPartition) -> PartitionLog:
        found = self._finder.find_topic(topic.topic, topic.topic_id)
        return self._finder.find_log(found, wanted.partition, wanted.current_leader_epoch)

    def _is_enough(self, results: list[list[_PartitionResult]]) -> bool:
        """Whether the fetch can be answered now: it has `min_bytes`, a partition in error, or no partitions. Kafka does
        the same."""
        partitions = [each for topic in results for each in topic]
        size_bytes = sum(len(batch) for each in partitions for batch in each.batches)
        has_error = any(each.response.error_code for each in partitions)
        return not partitions or size_bytes >= self._request.min_bytes or has_error

    def _read_and_respond(self) -> Turns:
        results: list[list[_PartitionResult]] = []
        yield from self._read(results)
        self._respond(results)

    def _respond(self, results: list[list[_PartitionResult]]) -> None:
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

    def _read(self, results: list[list[_PartitionResult]]) -> Turns:
        """Read all partitions and add their results to `results`, a list of partition results for each topic, in the
        order of the request. The first partition with records gets at least one batch, however large."""
        remaining_bytes, is_first = self._max_bytes, True
        for topic in self._request.topics:
            of_topic: list[_PartitionResult] = []
            results.append(of_topic)
            for wanted in topic.partitions:
                try:
                    result = self._read_partition(topic, wanted, remaining_bytes, is_first=is_first)
                except RequestError as error:
                    response = PartitionData(partition_index=wanted.partition, error_code=error.code, high_watermark=-1)
                    result = _PartitionResult(response)
                remaining_bytes -= sum(map(len, result.batches))
                is_first = is_first and not result.batches
                of_topic.append(result)
                yield 1 + len(result.batches) // _BATCHES_PER_STEP

    def _read_partition(
        self, topic: FetchTopic, wanted: FetchPartition, remaining_bytes: int, *, is_first: bool
    ) -> _PartitionResult:
        log = self._find_log(topic, wanted)
        response = PartitionData(
            partition_index=wanted.partition,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.log_start_offset,
            aborted_transactions=None,
        )
        if not log.log_start_offset <= wanted.fetch_offset <= log.log_end_offset:
            return _PartitionResult(replace(response, error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
        before = log.readable_end(read_committed=self._read_committed)
        max_bytes = min(remaining_bytes, wanted.partition_max_bytes)
        batches = log.read(wanted.fetch_offset, before=before, max_bytes=max_bytes, at_least_one=is_first)
        if self._exchange.version < _RECORD_BATCHES_SINCE and any(map(is_record_batch, batches)):
            return _PartitionResult(replace(response, error_code=ErrorCode.UNSUPPORTED_VERSION))
        if self._read_committed:
            end = log.end_of_read(wanted.fetch_offset, len(batches))
            aborted = [
                AbortedTransaction(producer_id=span.producer_id, first_offset=span.first_offset)
                for span in log.producers.aborted_transactions(wanted.fetch_offset, end)
            ]
            response = replace(response, aborted_transactions=aborted)
        return _PartitionResult(response, batches)


def _without_repetitions(request: FetchRequest) -> FetchRequest:
    """Return the request with each partition only once, as Kafka reads it: of repeated entries the last one counts, at
    the place of the first."""
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
