"""Steps that hardly any scenario needs: what unsound clients and unknown brokers do, and what applications rarely do.

They are part of the unions in `steps`, and print and parse as the others do.
"""

from regroup.lab.plan.sentences import Sentence


class Unsubscribes(Sentence, frozen=True):
    """A classic consumer's application unsubscribes from all topics, and subscribes again after `duration_ms`."""

    templates = ("{member} unsubscribes for {duration_ms}",)
    member: str
    duration_ms: int


class SubscribesToOneTopic(Sentence, frozen=True):
    """A classic consumer's application subscribes to one topic in place of those of its plan, and to these again after
    `duration_ms`."""

    templates = ("{member} subscribes to {topic} alone for {duration_ms}",)
    member: str
    topic: str
    duration_ms: int


class CommitsWithoutGeneration(Sentence, frozen=True):
    """A producer beside a consumer commits the consumer's positions in a transaction, with its member id and without
    its generation."""

    templates = ("{member} commits in a transaction without its generation",)
    member: str


class CommitsByInstanceIdAlone(Sentence, frozen=True):
    """A producer commits the consumer's positions in a transaction, with an instance id and without member id and
    generation. It is that of the consumer, or one that no member has."""

    templates = ("{member} commits in a transaction by an instance id alone",)
    member: str


class InstanceIdIsTaken(Sentence, frozen=True):
    """A client joins the group of a static consumer with its instance id, and sends nothing after that: the consumer is
    fenced."""

    templates = ("a client takes the instance id of {member}",)
    member: str


class CommitsUnsubscribed(Sentence, frozen=True):
    """A consumer that has not subscribed commits offsets of a topic, which only a group without members allows."""

    templates = ("a consumer without a subscription commits {count} in {topic} for group {group}",)
    count: int
    topic: str
    group: str


class ProtocolIsChanged(Sentence, frozen=True):
    """A client sends a ConsumerGroupHeartbeat (KIP-848) with the member id of a classic consumer, which joins by it."""

    templates = ("a client sends a ConsumerGroupHeartbeat as {member}",)
    member: str


class OldMemberComesAndGoes(Sentence, frozen=True):
    """A new member whose subscription has version 0 joins a group of the consumer protocol, asks for its assignment,
    and leaves."""

    templates = ("a new member of group {group} joins with a subscription of version 0, and leaves",)
    group: str


class RackIsLeftOut(Sentence, frozen=True):
    """A new member with a rack joins a group of the consumer protocol, joins again without naming it, and leaves."""

    templates = ("a new member of group {group} joins with a rack and again without one, and leaves",)
    group: str


class NewMemberCommitsAndJoins(Sentence, frozen=True):
    """A new member joins a group of the consumer protocol, commits offset 0, joins again before it is answered, and
    leaves."""

    templates = ("a new member of group {group} commits, joins again at once, and leaves",)
    group: str


class OldEpochIsSent(Sentence, frozen=True):
    """A client sends a heartbeat with the member id and the partitions of a consumer of the consumer protocol, with
    epoch 1: as if it had been delayed for long. Nothing is sent while the consumer's epoch is below 3."""

    templates = ("a client sends a heartbeat of {member} with epoch 1",)
    member: str


class OldGenerationIsSent(Sentence, frozen=True):
    """A client sends a request with the member id of a consumer and the generation, or the epoch, before its present
    one: as if it had been delayed. In place of a Heartbeat or SyncGroup, one of the consumer protocol has a
    ConsumerGroupHeartbeat. Nothing is sent while the consumer has had only one."""

    templates = ("a client sends {named_request} of {member} with the generation before",)
    named_request: str
    member: str


class OtherBrokerIsAsked(Sentence, frozen=True):
    """A client fetches the offsets of a group, and deletes the group, on a broker that is not its coordinator."""

    templates = ("a client takes another broker for the coordinator of group {group}",)
    group: str


class ErrorIsUnknown(Sentence, frozen=True):
    """The response to the consumer's next request of this type has an error code that no client knows."""

    templates = ("the response to {member}'s next {api} has an unknown error code",)
    member: str
    api: str


class TopicIsUnknown(Sentence, frozen=True):
    """For `duration_ms` brokers tell the consumer that a topic does not exist, as brokers do that have yet to learn of
    it."""

    templates = ("brokers tell {member} for {duration_ms} that topic {topic} does not exist",)
    member: str
    topic: str
    duration_ms: int


class ResponseIsLate(Sentence, frozen=True):
    """The response to the consumer's next request of this type takes `latency_ms` longer, as over a slow connection of
    its own."""

    templates = ("the response to {member}'s next {api} takes {latency_ms} longer",)
    member: str
    api: str
    latency_ms: int


class StableOffsetsAreFetched(Sentence, frozen=True):
    """An administrator fetches the offsets of a group with `require_stable` (KIP-447): where some wait for Kafka's log,
    the response waits, too."""

    templates = ("an administrator fetches the stable offsets of group {group}",)
    group: str


RareTransactionStep = CommitsWithoutGeneration | CommitsByInstanceIdAlone
RareClientStep = (
    InstanceIdIsTaken
    | CommitsUnsubscribed
    | ProtocolIsChanged
    | OldMemberComesAndGoes
    | RackIsLeftOut
    | NewMemberCommitsAndJoins
    | OldEpochIsSent
    | OldGenerationIsSent
    | OtherBrokerIsAsked
    | StableOffsetsAreFetched
)
