"""Where the logs of partitions ended, as recorded requests to their leaders say, while the rows of a store are read.

A Fetch response has the high watermark of each partition, a response to ListOffsets the end that was asked for, and a
Produce response the offset that its first record got. Between two such responses the end of a log is not known.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from regroup.classroom.recorded_values import LogEnd
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.topic_ids import topic_id_text
from regroup.server.net.request_recorder import ExchangeRow
from regroup.server.recording.log_ends import LOG_API_KEYS, ObservedEnd, TopicKey, log_ends_in

MAX_ENDS: Final = 2_000
"""Ends of one log; of more, every second one is dropped, and the last one stays."""


class LogEndsBuilder:
    """Collects where the logs of all partitions ended, from recorded Fetch, ListOffsets and Produce responses."""

    def __init__(self) -> None:
        self._ends: dict[tuple[TopicKey, int], list[LogEnd]] = {}
        self._open: dict[tuple[str, int], bytes] = {}
        """The requests whose responses have not come."""

    def on_row(self, row: ExchangeRow) -> None:
        """Take in a row of the recording. A row without a request has the response to that of an earlier row."""
        key = (row.connection, row.number)
        if row.request[:2] in LOG_API_KEYS:
            self._open[key] = row.request
        request = self._open.get(key)
        if request is None or row.ended_at_ms is None:
            return
        del self._open[key]
        for end in log_ends_in(replace(row, request=request)) if row.response else ():
            self._add(row.ended_at_ms, end)

    def of_topics(self, topic_names: Mapping[str, str]) -> dict[TopicPartition, tuple[LogEnd, ...]]:
        """The ends of each log in the order of their times; `topic_names` has the names of topics by their ids."""
        found: dict[TopicPartition, list[LogEnd]] = {}
        for (topic, partition), ends in self._ends.items():
            name = topic if isinstance(topic, str) else topic_names.get(topic_id_text(topic))
            if name is not None:
                found.setdefault(TopicPartition(name, partition), []).extend(ends)
        return {partition: tuple(_steps(sorted(ends))) for partition, ends in found.items()}

    def _add(self, at_ms: int, end: ObservedEnd) -> None:
        ends = self._ends.setdefault((end.topic, end.partition), [])
        if ends and ends[-1].offset == end.offset:
            return
        ends.append(LogEnd(at_ms, end.offset))
        if len(ends) > MAX_ENDS:
            del ends[:-1:2]


def _steps(ends: list[LogEnd]) -> Iterator[LogEnd]:
    """Each end that differs from the one before. Responses of one millisecond are in no certain order: the highest of
    them counts."""
    before: LogEnd | None = None
    for place, each in enumerate(ends):
        is_last_of_time = place + 1 == len(ends) or ends[place + 1].at_ms != each.at_ms
        if is_last_of_time and (before is None or each.offset != before.offset):
            before = each
            yield each
