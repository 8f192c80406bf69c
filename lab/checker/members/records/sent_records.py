"""Which records brokers have sent to members: a member processes these alone, and passes none of them over.

sent = SentRecords()
sent.add_member("anna", reads_committed=False)
sent.on_response("anna", request, response)      # before anna gets it
sent.on_record("anna", partition, 17)            # anna has processed a record: the violation that this is, or None
sent.on_skip("anna", partition, 18, 20)          # anna finds no records with 18 <= offset < 20
sent.on_new_life("anna")                         # its process has ended
"""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from regroup.lab.checker.members.member_invariants import MemberViolation
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.exceptions import Malformed
from regroup.protocol.message import Message
from regroup.protocol.messages.records import FetchRequest, FetchResponse, ListOffsetsRequest
from regroup.protocol.record_batch import read_batch_header, read_record_deltas, split_batches

PROCESSES_WHAT_WAS_SENT: Final = "A member processes only records that a broker has sent to it."
PASSES_NOTHING_OVER: Final = "A member that reads uncommitted records passes over none that a broker has sent to it."
PASSES_OVER_WHAT_IT_ASKED_FOR: Final = (
    "A member finds no records only at offsets for which its last Fetch request of the partition has asked."
)
SENT_SENTENCES: Final = (PROCESSES_WHAT_WAS_SENT, PASSES_NOTHING_OVER, PASSES_OVER_WHAT_IT_ASKED_FOR)


class SentRecords:
    """The records in the Fetch responses to the members of a run, by name, and by partition and offset."""

    def __init__(self) -> None:
        self._sent: defaultdict[str, set[tuple[TopicPartition, int]]] = defaultdict(set)
        """Those that were sent to a process."""
        self._in_last_response: dict[str, set[tuple[TopicPartition, int]]] = {}
        self._asked_from: defaultdict[str, dict[TopicPartition, int]] = defaultdict(dict)
        """From which offset on a process has asked for records in the Fetch that was answered last, by partition."""
        self._read_committed: set[str] = set()

    def add_member(self, name: str, *, reads_committed: bool) -> None:
        """Begin to check a member. One that reads committed records leaves those of aborted transactions out."""
        self.on_new_life(name)
        if reads_committed:
            self._read_committed.add(name)

    def reads_committed(self, name: str) -> bool:
        """Whether a member reads committed records alone."""
        return name in self._read_committed

    def on_new_life(self, name: str) -> None:
        """Forget what a member was sent: its process has ended."""
        self._sent.pop(name, None)
        self._in_last_response.pop(name, None)
        self._asked_from.pop(name, None)

    def on_response(self, name: str, message: Message, response: Any) -> None:
        """Note the records in a response to a member, and for which it had asked; None for a request that has
        failed."""
        if isinstance(message, ListOffsetsRequest):  # it may pass over all that is before the first offset of a log
            for listed in message.topics:
                for row in listed.partitions:
                    self._asked_from[name].pop(TopicPartition(listed.name, row.partition_index), None)
        if isinstance(message, FetchRequest) and isinstance(response, FetchResponse):
            for topic in message.topics:
                for each in topic.partitions:
                    self._asked_from[name][TopicPartition(topic.topic, each.partition)] = each.fetch_offset
            found = set(_records_in(response))
            self._in_last_response[name] = found
            self._sent[name] |= found

    def on_record(self, name: str, partition: TopicPartition, offset: int) -> MemberViolation | None:
        """Check a record that a member has processed."""
        if (partition, offset) in self._sent[name]:
            return None
        return MemberViolation(PROCESSES_WHAT_WAS_SENT, f"{name} processes {partition}@{offset}")

    def on_skip(self, name: str, partition: TopicPartition, first: int, stop: int) -> MemberViolation | None:
        """Check the offsets first <= offset < stop, where a member finds no records in its last response.

        Records below the start of a log, which it leaves out as well, may have been sent to it earlier.
        """
        if first < self._asked_from[name].get(partition, 0):
            return MemberViolation(PASSES_OVER_WHAT_IT_ASKED_FOR, f"{name} passes over {partition}@{first}")
        last = self._in_last_response.get(name, set())
        passed = next((each for each in range(first, stop) if (partition, each) in last), None)
        if passed is None or name in self._read_committed:
            return None
        return MemberViolation(PASSES_NOTHING_OVER, f"{name} passes over {partition}@{passed}")


def _records_in(response: FetchResponse) -> Iterator[tuple[TopicPartition, int]]:
    """Yield partition and offset of each record that an application may get."""
    for topic in response.responses:
        for each in topic.partitions:
            partition = TopicPartition(topic.topic, each.partition_index)
            with suppress(Malformed):  # a batch that is cut off comes whole with the next Fetch
                for batch in split_batches(each.records or b""):
                    header = read_batch_header(batch.data)
                    if not header.is_control:
                        for _, offset_delta in read_record_deltas(batch.data):
                            yield partition, header.base_offset + offset_delta
