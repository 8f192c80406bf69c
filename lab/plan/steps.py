"""The steps of a plan: what can happen to members, brokers, network, disk and topics. Each is a value that prints as a
sentence.

    str(Pauses(member="ben", duration_ms=20_000))         "ben pauses for 20s"

Sentences are parsed in `step_sentences`; expectations are in `expectations`.
"""

from typing import Final

from regroup.lab.plan.expectations import Expectation
from regroup.lab.plan.rare_steps import (
    ErrorIsUnknown,
    RareClientStep,
    RareTransactionStep,
    ResponseIsLate,
    SubscribesToOneTopic,
    TopicIsUnknown,
    Unsubscribes,
)
from regroup.lab.plan.sentences import Sentence

ALL_HOSTS: Final = "all hosts"
ALL_BROKERS: Final = "the brokers"
BROKER_PREFIX: Final = "broker "
"""A broker's host is called by this prefix and its node id: `broker 0`."""

# -- members


class Joins(Sentence, frozen=True):
    """A consumer starts, subscribes and joins its group."""

    templates = ("{member} joins",)
    member: str


class Leaves(Sentence, frozen=True):
    """A consumer is closed. A dynamic member sends LeaveGroup; a static one does not (KIP-345)."""

    templates = ("{member} leaves",)
    member: str


class Crashes(Sentence, frozen=True):
    """A consumer's process ends without LeaveGroup: its connections break, and its session expires."""

    templates = ("{member} crashes",)
    member: str


class Pauses(Sentence, frozen=True):
    """A consumer's process stops for `duration_ms`, as in a garbage collection, and then goes on."""

    templates = ("{member} pauses for {duration_ms}",)
    member: str
    duration_ms: int


class Restarts(Sentence, frozen=True):
    """A consumer crashes and starts again after `delay_ms`; a static member keeps its instance id."""

    templates = ("{member} restarts after {delay_ms}",)
    member: str
    delay_ms: int


class RestartsWithoutInstanceId(Sentence, frozen=True):
    """A consumer crashes and starts again after `delay_ms`; a static member becomes a dynamic one."""

    templates = ("{member} restarts without its instance id after {delay_ms}",)
    member: str
    delay_ms: int


class RequestsRebalance(Sentence, frozen=True):
    """A consumer's application calls `enforceRebalance()` (KIP-568)."""

    templates = ("{member} requests a rebalance",)
    member: str


class BecomesZombie(Sentence, frozen=True):
    """A consumer pauses for twice its session timeout, then reads and commits with its old generation."""

    templates = ("{member} becomes a zombie",)
    member: str


class StaysOutsidePoll(Sentence, frozen=True):
    """A consumer's application does not call poll() for `duration_ms`; heartbeats go on until max.poll.interval.ms."""

    templates = ("{member} does not poll for {duration_ms}",)
    member: str
    duration_ms: int


# -- transactions


class CommitsInTransaction(Sentence, frozen=True):
    """A producer beside a consumer commits the consumer's positions in a transaction, for exactly-once processing."""

    templates = ("{member} commits in a transaction",)
    member: str


class AbortsTransaction(Sentence, frozen=True):
    """The same, and the transaction is aborted."""

    templates = ("{member} aborts a transaction",)
    member: str


class AbandonsTransaction(Sentence, frozen=True):
    """The same, and the producer never ends the transaction, which times out."""

    templates = ("{member} abandons a transaction",)
    member: str


class IsFencedInTransaction(Sentence, frozen=True):
    """The same, and another producer with the same transactional id begins a transaction before the first one commits.
    The first one then sends all its requests, and each is refused."""

    templates = ("{member} is fenced in a transaction",)
    member: str


# -- other clients


class MemberIsExpelled(Sentence, frozen=True):
    """An administrator removes a member with LeaveGroup; a static one is named by its instance id alone (KIP-345)."""

    templates = ("an administrator removes {member}",)
    member: str


class OffsetsAreDeleted(Sentence, frozen=True):
    """An administrator deletes the committed offsets of a topic (KIP-496), which subscribed topics do not allow."""

    templates = ("an administrator deletes the offsets of {topic} in group {group}",)
    topic: str
    group: str


class OffsetsAreAltered(Sentence, frozen=True):
    """An administrator sets the committed offsets of a topic, which only a group without members allows."""

    templates = ("an administrator sets the offsets of {topic} in group {group} to {count}",)
    topic: str
    group: str
    count: int


class GroupIsDeleted(Sentence, frozen=True):
    """An administrator deletes a group (KIP-229), which only a group without members allows."""

    templates = ("an administrator deletes group {group}",)
    group: str


class NewMemberDoesNotReturn(Sentence, frozen=True):
    """A new member asks to join, gets a member id (KIP-394), and never returns with it."""

    templates = ("a new member of group {group} does not return with its id",)
    group: str


class NewMemberFallsSilent(Sentence, frozen=True):
    """A new member with an old client, which needs no member id, sends one JoinGroup and nothing after it."""

    templates = ("a new member of group {group} sends one JoinGroup and nothing else",)
    group: str


class GroupIsDescribed(Sentence, frozen=True):
    """An administrator asks for the state and the members of a group, with DescribeGroups and ConsumerGroupDescribe."""

    templates = ("an administrator describes group {group}",)
    group: str


class InvalidRequestIsSent(Sentence, frozen=True):
    """A client that is no member sends a request that the coordinator has to refuse."""

    templates = ("a client sends group {group} {flaw}",)
    group: str
    flaw: str


# -- network


class CutOff(Sentence, frozen=True):
    """Nothing passes between two hosts, or one and all others, in either direction, for `duration_ms`."""

    templates = ("{host} is cut off from {other} for {duration_ms}",)
    host: str
    other: str
    duration_ms: int


class ReceivesNothing(Sentence, frozen=True):
    """Nothing passes from `other` to `host` for `duration_ms`; the other direction works."""

    templates = ("{host} receives nothing from {other} for {duration_ms}",)
    host: str
    other: str
    duration_ms: int


class SlowNetwork(Sentence, frozen=True):
    """Each chunk of bytes takes `latency_ms`, and by chance up to `jitter_ms` more, for `duration_ms`."""

    templates = (
        "the network takes {latency_ms}, up to {jitter_ms} more, for {duration_ms}",
        "the network takes {latency_ms} for {duration_ms}",
    )
    latency_ms: int
    duration_ms: int
    jitter_ms: int = 0


class ConnectionsReset(Sentence, frozen=True):
    """All connections of a host are reset; bytes in flight are lost."""

    templates = ("{host}'s connections are reset", "the connections of {host} are reset")
    host: str


class RequestLost(Sentence, frozen=True):
    """The member's connection breaks before its next request of this type arrives: it is not handled."""

    templates = ("{member}'s next {api} is lost",)
    member: str
    api: str


class ResponseLost(Sentence, frozen=True):
    """The member's connection breaks after its next request of this type: it is handled, and the response is lost."""

    templates = ("the response to {member}'s next {api} is lost",)
    member: str
    api: str


# -- brokers


class BrokerStops(Sentence, frozen=True):
    """A broker is shut down, not killed, for `duration_ms`. The next broker loads its groups meanwhile; when the broker
    is back, it loads them again. The last running broker does not stop.
    """

    templates = ("broker {broker} stops for {duration_ms}",)
    broker: int
    duration_ms: int


class BrokersCrash(Sentence, frozen=True):
    """The brokers' process is killed, and starts again from its store after `duration_ms`."""

    templates = ("the brokers crash for {duration_ms}",)
    duration_ms: int


class PowerFails(Sentence, frozen=True):
    """The brokers' process ends for `duration_ms` as in a power failure: no connection is closed, unsynced writes are
    lost.
    """

    templates = ("the power fails for {duration_ms}",)
    duration_ms: int


class ClockJumps(Sentence, frozen=True):
    """The brokers' wall clock jumps by `offset_ms`, forwards or back."""

    templates = ("the clock jumps {offset_ms}",)
    offset_ms: int


# -- disk and Kafka's log


class DiskFull(Sentence, frozen=True):
    """Every write to the store fails for `duration_ms`."""

    templates = ("the disk is full for {duration_ms}",)
    duration_ms: int


class DiskFails(Sentence, frozen=True):
    """The next write to the store fails."""

    templates = ("the disk fails once",)


class SlowDisk(Sentence, frozen=True):
    """Each write to the store takes `latency_ms`, for `duration_ms`."""

    templates = ("the disk takes {latency_ms} for {duration_ms}",)
    latency_ms: int
    duration_ms: int


class SlowKafkaLog(Sentence, frozen=True):
    """Kafka's own log, in which a coordinator stores assignments and offsets, takes `latency_ms` to commit a record."""

    templates = ("Kafka's log takes {latency_ms} for {duration_ms}",)
    latency_ms: int
    duration_ms: int


class KafkaLogFails(Sentence, frozen=True):
    """Kafka's own log fails every append with this error, after `latency_ms`."""

    templates = (
        "Kafka's log takes {latency_ms} to refuse writes with {code} for {duration_ms}",
        "Kafka's log refuses writes with {code} for {duration_ms}",
    )
    code: str
    duration_ms: int
    latency_ms: int = 10


# -- topics


class TopicIsCreated(Sentence, frozen=True):
    """A topic is created. Members that subscribe to it see it with their next metadata update."""

    templates = ("topic {topic} is created with {partitions} partition(s)",)
    topic: str
    partitions: int


class TopicGrows(Sentence, frozen=True):
    """A topic gets more partitions; `partitions` is the new number."""

    templates = ("topic {topic} grows to {partitions} partition(s)",)
    topic: str
    partitions: int


class TopicIsDeleted(Sentence, frozen=True):
    """A topic is deleted."""

    templates = ("topic {topic} is deleted",)
    topic: str


MemberStep = (
    Joins
    | Leaves
    | RequestsRebalance
    | Crashes
    | Pauses
    | Restarts
    | RestartsWithoutInstanceId
    | BecomesZombie
    | StaysOutsidePoll
    | Unsubscribes
    | SubscribesToOneTopic
)
TransactionStep = (
    CommitsInTransaction | AbortsTransaction | AbandonsTransaction | IsFencedInTransaction | RareTransactionStep
)
ClientStep = (
    MemberIsExpelled
    | OffsetsAreDeleted
    | OffsetsAreAltered
    | GroupIsDeleted
    | NewMemberDoesNotReturn
    | NewMemberFallsSilent
    | GroupIsDescribed
    | InvalidRequestIsSent
    | RareClientStep
)
NetworkStep = (
    CutOff
    | ReceivesNothing
    | SlowNetwork
    | ConnectionsReset
    | RequestLost
    | ResponseLost
    | ErrorIsUnknown
    | ResponseIsLate
    | TopicIsUnknown
)
BrokerStep = BrokerStops | BrokersCrash | PowerFails | ClockJumps
StorageStep = DiskFull | DiskFails | SlowDisk | SlowKafkaLog | KafkaLogFails
TopicStep = TopicIsCreated | TopicGrows | TopicIsDeleted
SimulationStep = (
    MemberStep | TransactionStep | ClientStep | NetworkStep | BrokerStep | StorageStep | TopicStep | Expectation
)
