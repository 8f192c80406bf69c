"""Records whose Produce request was acknowledged: no Fetch response leaves one out before its last record.

acknowledged = AcknowledgedRecords()
acknowledged.on_request(message)                       # a Produce or Fetch request is sent
acknowledged.on_produced(message, response)            # a producer gets its response; None if it has failed
acknowledged.on_fetched("anna", message, response)     # a member gets its response: the violation that it is, or None
acknowledged.on_crash()                                # the brokers have lost all records

What the log holds is taken from the responses to producers alone, and not from what brokers let anyone read.
"""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from regroup.lab.checker.members.member_invariants import MemberViolation
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.exceptions import Malformed
from regroup.protocol.message import Message
from regroup.protocol.messages.records import (
    FetchRequest,
    FetchResponse,
    PartitionData,
    ProduceRequest,
    ProduceResponse,
)
from regroup.protocol.record_batch import BatchHeader, read_batch_header, split_batches

FETCH_IS_COMPLETE: Final = (
    "A Fetch response has every acknowledged record from its fetch offset to its last record, unless a crash of the "
    "brokers has lost the records or their topic was deleted."
)


class AcknowledgedRecords:
    """The offsets of the records in each partition whose producer has got a response without an error."""

    def __init__(self) -> None:
        self._offsets: defaultdict[TopicPartition, set[int]] = defaultdict(set)
        self._deleted: set[str] = set()
        """Topics that were deleted, and may have been created again: they are not judged."""
        self._crash_count = 0
        self._open: dict[int, tuple[Message, int]] = {}
        """The requests without a response by their identity, each with the number of crashes before it was sent."""

    def on_request(self, message: Message) -> None:
        """Note that a Produce or Fetch request is sent; others are ignored."""
        if isinstance(message, ProduceRequest | FetchRequest):
            self._open[id(message)] = message, self._crash_count

    def on_produced(self, message: Message, response: Any) -> None:
        """Note the records that a broker has acknowledged. A response that a crash has overtaken acknowledges none."""
        if not self._is_answered_in_time(message) or not isinstance(message, ProduceRequest):
            return
        counts = {
            (topic.name, data.index): sum(header.record_count for header in _headers_in(data.records or b""))
            for topic in message.topic_data
            for data in topic.partition_data
        }
        for topic in response.responses if isinstance(response, ProduceResponse) else ():
            for each in topic.partition_responses:
                if each.error_code == 0 and each.base_offset >= 0 and topic.name not in self._deleted:
                    offsets = range(each.base_offset, each.base_offset + counts.get((topic.name, each.index), 0))
                    self._offsets[TopicPartition(topic.name, each.index)].update(offsets)

    def on_fetched(self, name: str, message: Message, response: Any) -> MemberViolation | None:
        """Check the response to a member's Fetch."""
        if not self._is_answered_in_time(message) or not isinstance(message, FetchRequest):
            return None
        first_offsets = {
            TopicPartition(topic.topic, each.partition): each.fetch_offset
            for topic in message.topics
            for each in topic.partitions
        }
        for topic in response.responses if isinstance(response, FetchResponse) else ():
            for data in topic.partitions:
                partition = TopicPartition(topic.topic, data.partition_index)
                acknowledged = self._offsets.get(partition)
                if not acknowledged or data.error_code or partition not in first_offsets:
                    continue
                missing = next(
                    (each for each in _left_out(first_offsets[partition], data) if each in acknowledged), None
                )
                if missing is not None:
                    detail = (
                        f"the response to {name}'s Fetch from {partition}@{first_offsets[partition]} has no {missing}"
                    )
                    return MemberViolation(FETCH_IS_COMPLETE, detail)
        return None

    def _is_answered_in_time(self, message: Message) -> bool:
        """Whether no crash has come between a request and its response, which is there now."""
        _, crash_count = self._open.pop(id(message), (message, -1))
        return crash_count == self._crash_count

    def on_crash(self) -> None:
        """Forget all records: brokers that crash lose them."""
        self._crash_count += 1
        self._offsets.clear()

    def on_topic_deleted(self, topic: str) -> None:
        """Judge a topic no more: offsets begin at 0 again if one of its name is created."""
        self._deleted.add(topic)
        for partition in [each for each in self._offsets if each.topic == topic]:
            del self._offsets[partition]


def _left_out(first_offset: int, data: PartitionData) -> Iterator[int]:
    """Yield the offsets from the fetch offset, or the start of the log, on that no batch of a response has, up to the
    last batch. Batches of lost records have none."""
    position = max(first_offset, data.log_start_offset)
    for header in _headers_in(data.records or b""):
        begin = header.base_offset if header.record_count else header.last_offset + 1
        yield from range(position, begin)
        position = max(position, header.last_offset + 1)


def _headers_in(data: bytes) -> Iterator[BatchHeader]:
    with suppress(Malformed):  # a batch that is cut off comes whole with the next Fetch
        for batch in split_batches(data):
            yield read_batch_header(batch.data)
