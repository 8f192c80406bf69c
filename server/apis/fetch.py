"""Fetch: records go out, at once if there are enough, and otherwise when they come or when time is up."""

import asyncio
from dataclasses import dataclass, field
from typing import cast

from msgspec.structs import replace

from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.records import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from regroup.server.apis.partitions import PartitionFinder
from regroup.server.cluster.topics import Topic
from regroup.server.log.partition_log import PartitionLog
from regroup.server.net.exchange import Exchange, Handler
from regroup.server.settings import BrokerSettings

_READ_COMMITTED = 1
_NEW_RECORDS_SINCE = 4
"""Older fetches cannot carry record batches of format 2."""
_FORMAT_AT = 16


class FetchApis:
    """Fetch sessions (KIP-227) are never begun: session 0 tells clients to name all partitions each time."""

    def __init__(self, finder: PartitionFinder, settings: BrokerSettings) -> None:
        self._finder = finder
        self._settings = settings

    def handlers(self) -> dict[int, Handler]:
        return {FetchRequest.api_key: self.fetch}

    def fetch(self, exchange: Exchange) -> None:
        request = cast("FetchRequest", exchange.request)
        if request.session_id != 0:
            code = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
            exchange.reply(FetchResponse(error_code=code, responses=[]))
            return
        WaitingFetch(exchange, request, self._finder, self._settings.fetch_max_bytes).begin()


@dataclass(slots=True)
class _Found:
    """What one partition has to give now."""

    answer: PartitionData
    batches: list[bytes] = field(default_factory=list)


class WaitingFetch:
    """One fetch, looked at when it comes, whenever a partition of it grows, and when its time is up."""

    def __init__(self, exchange: Exchange, request: FetchRequest, finder: PartitionFinder, max_bytes: int) -> None:
        self._exchange = exchange
        self._request = request
        self._finder = finder
        self._max_bytes = min(request.max_bytes, max_bytes)
        self._watched: list[PartitionLog] = []
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        found = self._look()
        if self._is_enough(found) or self._request.max_wait_ms <= 0:
            self._answer(found)
            return
        delay_s = self._request.max_wait_ms / 1000
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._time_is_up)
        self._exchange.when_lost = self._stop_waiting
        for log in self._logs():
            log.watch(self._look_again)
            self._watched.append(log)

    def _logs(self) -> list[PartitionLog]:
        logs = []
        for asked in self._request.topics:
            topic = self._finder.topic(asked.topic, asked.topic_id)
            found = [self._finder.log(topic, each.partition) for each in asked.partitions]
            logs += [log for log in found if isinstance(log, PartitionLog)]
        return logs

    def _look_again(self) -> None:
        found = self._look()
        if self._is_enough(found):
            self._answer(found)

    def _time_is_up(self) -> None:
        self._answer(self._look())

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for log in self._watched:
            log.unwatch(self._look_again)

    def _is_enough(self, found: list[list[_Found]]) -> bool:
        """An error is worth an answer at once, as in Kafka; so is a request for nothing."""
        partitions = [each for topic in found for each in topic]
        size = sum(len(batch) for each in partitions for batch in each.batches)
        return not partitions or size >= self._request.min_bytes or any(each.answer.error_code for each in partitions)

    def _answer(self, found: list[list[_Found]]) -> None:
        self._stop_waiting()
        responses = [
            FetchableTopicResponse(
                topic=asked.topic,
                topic_id=asked.topic_id,
                partitions=[_with_records(each) for each in partitions],
            )
            for asked, partitions in zip(self._request.topics, found, strict=True)
        ]
        self._exchange.reply(FetchResponse(responses=responses))

    def _look(self) -> list[list[_Found]]:
        """By topic and partition, in the order of the request. The first that has records gives at least one batch."""
        left, is_first, found = self._max_bytes, True, []
        for asked in self._request.topics:
            topic = self._finder.topic(asked.topic, asked.topic_id)
            of_topic = []
            for wanted in asked.partitions:
                each = self._look_at(topic, wanted, left, is_first=is_first)
                left -= sum(len(batch) for batch in each.batches)
                is_first = is_first and not each.batches
                of_topic.append(each)
            found.append(of_topic)
        return found

    def _look_at(self, topic: Topic | ErrorCode, wanted: FetchPartition, left: int, *, is_first: bool) -> _Found:
        log = self._finder.log(topic, wanted.partition, wanted.current_leader_epoch)
        if isinstance(log, ErrorCode):
            return _Found(PartitionData(partition_index=wanted.partition, error_code=log, high_watermark=-1))
        answer = PartitionData(
            partition_index=wanted.partition,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.log_start_offset,
            aborted_transactions=None,
        )
        if not log.log_start_offset <= wanted.fetch_offset <= log.log_end_offset:
            return _Found(replace(answer, error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
        read_committed = self._request.isolation_level == _READ_COMMITTED
        before = log.last_stable_offset if read_committed else log.high_watermark
        limit = min(left, wanted.partition_max_bytes)
        batches = log.read(wanted.fetch_offset, before=before, max_bytes=limit, at_least_one=is_first)
        if self._exchange.version < _NEW_RECORDS_SINCE and any(batch[_FORMAT_AT] == 2 for batch in batches):
            return _Found(replace(answer, error_code=ErrorCode.UNSUPPORTED_VERSION))
        if read_committed:
            answer = replace(answer, aborted_transactions=_aborted(log, wanted.fetch_offset, before))
        return _Found(answer, batches)


def _aborted(log: PartitionLog, offset: int, before: int) -> list[AbortedTransaction]:
    spans = log.aborted_within(offset, before)
    return [AbortedTransaction(producer_id=span.producer_id, first_offset=span.first_offset) for span in spans]


def _with_records(found: _Found) -> PartitionData:
    return replace(found.answer, records=b"".join(found.batches)) if found.batches else found.answer
