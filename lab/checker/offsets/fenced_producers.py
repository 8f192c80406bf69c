"""Producers that a newer one with the same transactional id has fenced: each request of them has to be refused.

    fenced = FencedProducers()
    fenced.on_request(message)                                       # a producer sends it
    fenced.on_response(message, response)                            # what is wrong with the response

Clients report what they send and receive. A producer is fenced once a client has received a newer epoch for its
transactional id. A request that was sent before may still be accepted, since the order of arrival is not known.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.records import ProduceRequest, ProduceResponse
from regroup.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from regroup.protocol.record_batch import read_batch_header

FENCED_IS_REFUSED: Final = (
    "Each request of a producer that a newer one with its transactional id has fenced is refused, with PRODUCER_FENCED "
    "or INVALID_PRODUCER_EPOCH, as its API and version require."
)
KNOWS_FENCED_SINCE: Final = 2
"""Version of AddPartitionsToTxn, AddOffsetsToTxn and EndTxn since which they have PRODUCER_FENCED (KIP-588)."""
_SAYS_NOTHING: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Error codes of a broker that does not know the transactional id, the group or the partition: it looks at no epoch."""


class ProducerEpoch(NamedTuple):
    """A producer as its requests name it. The ids that one transactional id gets grow, as the epochs of each id do."""

    producer_id: int
    epoch: int


class FencedProducers:
    """The newest producer of each transactional id of a run, and the requests of those that it has fenced.

    `offered` has the first and last version of each API that brokers of an older release offer, by API key.
    """

    def __init__(self, offered: Mapping[int, tuple[int, int]] | None = None) -> None:
        self._offered = offered or {}
        self._newest: dict[str, ProducerEpoch] = {}
        self._to_refuse: dict[int, Message] = {}
        """The requests that were sent by fenced producers, by their `id`; a repeated one is the same object."""

    def on_request(self, message: Message) -> None:
        """Note a request that a client of a producer sends."""
        named = named_producer(message)
        if named is not None and named[1] < self._newest.get(named[0], named[1]):
            self._to_refuse[id(message)] = message

    def on_response(self, message: Message, response: Any) -> Iterator[tuple[str, str]]:
        """Yield what is wrong with the response to a request of a fenced producer; None is a request without one."""
        if response is None:
            return
        if isinstance(message, InitProducerIdRequest):
            if not response.error_code and message.transactional_id:
                given = ProducerEpoch(response.producer_id, response.producer_epoch)
                self._newest[message.transactional_id] = max(given, self._newest.get(message.transactional_id, given))
        elif id(message) in self._to_refuse and (named := named_producer(message)):
            expected = self._expected_code(message)
            codes = [ErrorCode(each) for each in _codes(response)]
            wrong = [each for each in codes if each is not expected and each not in _SAYS_NOTHING]
            if wrong:
                detail = (
                    f"{type(message).__name__.removesuffix('Request')} of {named[0]} with epoch {named[1].epoch} "
                    f"got {wrong[0].name}, not {expected.name}; its newest epoch is {self._newest[named[0]].epoch}"
                )
                yield FENCED_IS_REFUSED, detail

    def _expected_code(self, message: Message) -> ErrorCode:
        """The error code of Kafka for a request of a fenced producer: writes have INVALID_PRODUCER_EPOCH, those to the
        coordinator of transactions PRODUCER_FENCED, unless their version is older than that."""
        if isinstance(message, ProduceRequest | TxnOffsetCommitRequest):
            return ErrorCode.INVALID_PRODUCER_EPOCH
        _, last = self._offered.get(message.api_key, (0, KNOWS_FENCED_SINCE))
        return ErrorCode.PRODUCER_FENCED if last >= KNOWS_FENCED_SINCE else ErrorCode.INVALID_PRODUCER_EPOCH


def named_producer(message: Message) -> tuple[str, ProducerEpoch] | None:
    """The transactional id and the producer that a request names; None for one that names no producer."""
    match message:
        case AddPartitionsToTxnRequest():
            producer = ProducerEpoch(message.v3_and_below_producer_id, message.v3_and_below_producer_epoch)
            return message.v3_and_below_transactional_id, producer
        case AddOffsetsToTxnRequest() | TxnOffsetCommitRequest() | EndTxnRequest():
            return message.transactional_id, ProducerEpoch(message.producer_id, message.producer_epoch)
        case ProduceRequest(transactional_id=str() as transactional_id):
            written = [each.records for topic in message.topic_data for each in topic.partition_data if each.records]
            header = read_batch_header(written[0])
            return transactional_id, ProducerEpoch(header.producer_id, header.producer_epoch)
    return None


def _codes(response: Any) -> list[int]:
    """The error codes in a response to one of these requests, as it has them: one, or one for each partition."""
    match response:
        case AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics):
            return [each.partition_error_code for topic in topics for each in topic.results_by_partition]
        case ProduceResponse(responses=topics):
            return [each.error_code for topic in topics for each in topic.partition_responses]
        case TxnOffsetCommitResponse(topics=topics):
            return [each.error_code for topic in topics for each in topic.partitions]
    return [response.error_code]
