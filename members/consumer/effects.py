"""What `ConsumerMachine.receive` returns: requests, changes of the member, a poll() error and a deadline."""

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple, TypeAlias

import msgspec

from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message

__all__ = [
    "NodeAddress",
    "RequestTarget",
    "OutgoingRequest",
    "ConsumerErrorKind",
    "ConsumerError",
    "PartitionsRevoked",
    "PartitionsAssigned",
    "PartitionsLost",
    "CommittedOffsetsFetched",
    "JoinedGroup",
    "CommitCompleted",
    "LeftGroup",
    "ConsumerClosed",
    "ConsumerChange",
    "ConsumerEffects",
]


class NodeAddress(NamedTuple):
    """A broker's node id and the address at which it listens. Addresses of the bootstrap list have node id -1."""

    node_id: int
    host: str
    port: int


class RequestTarget(Enum):
    """The connection on which a request is sent.

    Each target has its own, because a held response (a JoinGroup, a long Fetch) delays all requests behind it.
    """

    ANY_BROKER = "any broker"
    COORDINATOR = "coordinator"
    PARTITION_LEADER = "leader"
    """The leader of the partitions to fetch from or produce to."""

    __hash__ = object.__hash__  # that of Enum is a function in Python, and each request looks its connection up


class OutgoingRequest(msgspec.Struct, frozen=True):
    """A request in the form of its newest version. The transport chooses the version to send (ApiVersions).

    `request_id` comes back in `ResponseReceived` or `RequestFailed`; `address` is None for any broker.
    """

    request_id: int
    target: RequestTarget
    address: NodeAddress | None
    message: Message
    timeout_ms: int


class ConsumerErrorKind(Enum):
    """The kinds of errors that an application distinguishes."""

    GROUP = "the coordinator refused a request"
    FENCED = "another member has the same group instance id"
    ASSIGNOR = "the leader's assignor failed"
    ASSIGNMENT = "the assignment cannot be read"
    COMMIT_FAILED = "the commit was made without a valid generation"
    REBALANCE_IN_PROGRESS = "the commit was made during a rebalance"
    RETRIABLE_COMMIT_FAILED = "the commit may succeed later"
    SETTINGS = "the broker is too old for these settings"


class ConsumerError(msgspec.Struct, frozen=True):
    """What poll() or a commit throws in the Java client, as a value.

    `code` is Kafka's error code, None if the error did not come from a broker. One poll() throws an error, not those
    after it. After a fatal error the application has to close the consumer.
    """

    kind: ConsumerErrorKind
    text: str
    code: int | None = None
    is_fatal: bool = False

    def __str__(self) -> str:
        return self.text if self.code is None else f"{ErrorCode.name_of(self.code)}: {self.text}"


class PartitionsRevoked(msgspec.Struct, frozen=True):
    """Partitions that the member gives up in a rebalance. The application could commit offsets of their records
    before."""

    partitions: tuple[TopicPartition, ...]


class PartitionsAssigned(msgspec.Struct, frozen=True):
    """Partitions that the member owns from now on and did not own before. Empty if a rebalance brought no new ones."""

    partitions: tuple[TopicPartition, ...]


class PartitionsLost(msgspec.Struct, frozen=True):
    """Partitions that the member has lost: others may own them already, so no offsets can be committed for them."""

    partitions: tuple[TopicPartition, ...]


class CommittedOffsetsFetched(msgspec.Struct, frozen=True):
    """The committed offsets of newly owned partitions.

    It is None for a partition without one, where `auto_offset_reset` decides.
    """

    offsets: Mapping[TopicPartition, int | None]


class JoinedGroup(msgspec.Struct, frozen=True):
    """A JoinGroup has succeeded: the member is the leader or a follower of a new generation."""

    generation_id: int
    member_id: str
    is_leader: bool
    protocol_name: str | None


class CommitCompleted(msgspec.Struct, frozen=True):
    """A commit has succeeded, or has failed with an error.

    With `is_auto_commit` the consumer made it, not the application.
    """

    offsets: Mapping[TopicPartition, int]
    error: ConsumerError | None
    is_auto_commit: bool


class LeftGroup(msgspec.Struct, frozen=True):
    """The member has sent the request that leaves the group, for this reason. A static member of the classic protocol
    normally closes without that request."""

    reason: str


class ConsumerClosed(msgspec.Struct, frozen=True):
    """The consumer has closed. No further change follows."""


ConsumerChange: TypeAlias = (
    PartitionsRevoked
    | PartitionsAssigned
    | PartitionsLost
    | CommittedOffsetsFetched
    | JoinedGroup
    | CommitCompleted
    | LeftGroup
    | ConsumerClosed
)
"""Any change that a consumer reports in its effects."""


class ConsumerEffects(msgspec.Struct, frozen=True):
    """What follows from one input of a consumer.

    `poll_error` is what poll() throws now. With `disconnects_coordinator` the connection to the former coordinator has
    to be dropped; its responses are ignored. `deadline_ms` is when `TimePassed` is due, unless another input comes
    before.
    """

    requests: tuple[OutgoingRequest, ...] = ()
    changes: tuple[ConsumerChange, ...] = ()
    poll_error: ConsumerError | None = None
    disconnects_coordinator: bool = False
    deadline_ms: int | None = None
