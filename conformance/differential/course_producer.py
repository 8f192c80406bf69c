"""A transactional producer of a random course: its ids, and the request that it would send next."""

from dataclasses import dataclass, field

from regroup.conformance.differential.random_course import MoveKind
from regroup.conformance.harness.offsets import TRANSACTION_TIMEOUT_MS, TransactionalProducer
from regroup.conformance.harness.sent_request import SentRequest
from regroup.conformance.harness.story import StoryContext
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.message import Message
from regroup.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitResponse,
)


@dataclass(eq=False)
class CourseProducer:
    """One transactional producer. It follows the steps of a transaction as long as its requests succeed."""

    producer: TransactionalProducer
    groups: set[str] = field(default_factory=set)
    """The ids of the groups that were added to the open transaction."""
    commits: int = 0
    """How many requests with offsets were sent in the open transaction."""

    @classmethod
    def named(cls, story: StoryContext, name: str) -> "CourseProducer":
        """Make a producer that has no producer id yet."""
        return cls(TransactionalProducer(story, name, TRANSACTION_TIMEOUT_MS))

    def next_kind(self, group_id: str, choice: float) -> MoveKind:
        """The next request of a producer that follows the protocol and commits offsets of this group.

        `choice`, from 0 to 1, decides where several are possible.
        """
        if self.producer.id < 0:
            return MoveKind.INIT_PRODUCER
        if self.commits and choice < 0.5:
            return MoveKind.END_TRANSACTION
        return MoveKind.COMMIT_IN_TRANSACTION if group_id in self.groups else MoveKind.ADD_OFFSETS

    def apply(self, response: Message | BaseException, group_id: str) -> None:
        """Change the producer's ids and its transaction as a response to one of its requests says."""
        match response:
            case InitProducerIdResponse(error_code=E.NONE):
                self.producer.id, self.producer.epoch = response.producer_id, response.producer_epoch
                self._begin()
            case AddOffsetsToTxnResponse(error_code=E.NONE):
                self.groups.add(group_id)
            case TxnOffsetCommitResponse():
                self.commits += 1
            case EndTxnResponse(error_code=E.NONE):
                if response.producer_epoch >= 0:
                    self.producer.id, self.producer.epoch = response.producer_id, response.producer_epoch
                self._begin()
            case EndTxnResponse(error_code=E.INVALID_PRODUCER_EPOCH | E.PRODUCER_FENCED):
                self.producer.id = -1

    def _begin(self) -> None:
        self.groups.clear()
        self.commits = 0

    def send_init(self, version: int) -> SentRequest[InitProducerIdResponse]:
        """Send InitProducerId, which aborts an open transaction of the same transactional id."""
        request = InitProducerIdRequest(
            transactional_id=self.producer.transactional_id, transaction_timeout_ms=self.producer.timeout_ms
        )
        return self.producer.story.send(request, InitProducerIdResponse, version=version)

    def send_add_offsets(self, group_id: str, version: int) -> SentRequest[AddOffsetsToTxnResponse]:
        """Send AddOffsetsToTxn for a group."""
        request = AddOffsetsToTxnRequest(
            transactional_id=self.producer.transactional_id,
            producer_id=self.producer.id,
            producer_epoch=max(0, self.producer.epoch),
            group_id=group_id,
        )
        return self.producer.story.send(request, AddOffsetsToTxnResponse, version=version)

    def send_end(self, version: int, *, committed: bool) -> SentRequest[EndTxnResponse]:
        """Send EndTxn, which commits or aborts the transaction."""
        request = EndTxnRequest(
            transactional_id=self.producer.transactional_id,
            producer_id=self.producer.id,
            producer_epoch=max(0, self.producer.epoch),
            committed=committed,
        )
        return self.producer.story.send(request, EndTxnResponse, version=version)
