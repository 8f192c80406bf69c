"""What a consumer answers to a happening: a `Step`, made of requests, changes, an error and a deadline."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeAlias

from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message


class Address(NamedTuple):
    """Where a broker listens."""

    node_id: int
    host: str
    port: int


class Lane(Enum):
    """Which connection a request takes. A parked JoinGroup holds up what is behind it, so lanes are kept apart."""

    ANY_BROKER = "any broker"
    COORDINATOR = "coordinator"
    LEADER = "leader"
    """Of a partition, to fetch from or produce to."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request to send, in the form of its newest version; the transport chooses the version (ApiVersions).

    `number` comes back in `Answered` or `Unanswered`; `address` is None on the lane to any broker.
    """

    number: int
    lane: Lane
    address: Address | None
    message: Message
    timeout_ms: int


class ErrorKind(Enum):
    """What an application would catch."""

    GROUP = "the group refused"
    FENCED = "another member has the same instance id"
    ASSIGNOR = "the leader could not deal out the partitions"
    ASSIGNMENT = "the assignment cannot be used"
    COMMIT_FAILED = "the commit came too late"
    REBALANCE_IN_PROGRESS = "the commit came during a rebalance"
    RETRIABLE_COMMIT_FAILED = "the commit may succeed later"
    SETTINGS = "the broker is too old for these settings"


@dataclass(frozen=True, slots=True)
class ConsumerError:
    """What poll() or a commit throws in the Java client, as a value.

    `code` is Kafka's, if a broker said it. `fatal`: polling again cannot help.
    """

    kind: ErrorKind
    text: str
    code: int | None = None
    fatal: bool = False

    def __str__(self) -> str:
        return self.text if self.code is None else f"{ErrorCode.named(self.code)}: {self.text}"


@dataclass(frozen=True, slots=True)
class PartitionsRevoked:
    """Given up in good order: what was read of them may still be committed."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class PartitionsAssigned:
    """Newly got; those that were kept are not among them. May be empty."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class PartitionsLost:
    """Gone without notice: others may have them already, and nothing can be committed any more."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class PositionsFound:
    """Where to read on; None where nothing was committed, so that `auto_offset_reset` decides."""

    offsets: Mapping[TopicPartition, int | None]


@dataclass(frozen=True, slots=True)
class JoinedGroup:
    """JoinGroup was answered: a generation begins, and this member leads it or follows."""

    generation: int
    member_id: str
    is_leader: bool
    protocol_name: str | None


@dataclass(frozen=True, slots=True)
class CommitEnded:
    """A commit has succeeded or, with an error, failed. `automatic` ones nobody asked for."""

    offsets: Mapping[TopicPartition, int]
    error: ConsumerError | None
    automatic: bool


@dataclass(frozen=True, slots=True)
class LeftGroup:
    """The member has told the coordinator that it leaves. A static one goes without a word."""

    reason: str


@dataclass(frozen=True, slots=True)
class Closed:
    """The last change there is."""


Change: TypeAlias = (
    PartitionsRevoked
    | PartitionsAssigned
    | PartitionsLost
    | PositionsFound
    | JoinedGroup
    | CommitEnded
    | LeftGroup
    | Closed
)


@dataclass(frozen=True, slots=True)
class Step:
    """What follows from one happening.

    `raised` is what poll() throws now. `hang_up`: drop the connection to the former coordinator, nothing that is on
    its way there will be listened to. `deadline_ms`: hand in `TimePassed` then, if nothing else happens first.
    """

    requests: tuple[Outgoing, ...] = ()
    changes: tuple[Change, ...] = ()
    raised: ConsumerError | None = None
    hang_up: bool = False
    deadline_ms: int | None = None
