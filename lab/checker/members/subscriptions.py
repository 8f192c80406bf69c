"""What classic members do with their subscriptions: when they join, and which topics a leader assigns.

subscriptions = Subscriptions(paused)                # the members that pause
subscriptions.expect_topics(["orders"])              # the topics that exist from the beginning of the run
subscriptions.add_member("anna", has_pattern=False, has_sound_assignor=True)
subscriptions.on_request("anna", message)            # the violation that this request is, or None
subscriptions.on_response("anna", response)
"""

from collections.abc import Collection, Container, Iterable
from typing import Any, Final

from regroup.lab.checker.members.member_invariants import MemberViolation
from regroup.members.consumer.effects import CommitCompleted, ConsumerError, ConsumerErrorKind
from regroup.protocol.consumer.subscription import (
    MalformedConsumerProtocol,
    Subscription,
    TopicPartition,
    decode_assignment,
    decode_subscription,
)
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import MetadataResponse
from regroup.protocol.messages.group import JoinGroupRequest, JoinGroupResponse, SyncGroupRequest
from regroup.protocol.messages.offsets import OffsetCommitRequest

UNSUBSCRIBED_STAYS_OUT: Final = "A member that has unsubscribed does not join before it subscribes again."
PATTERN_NEEDS_METADATA: Final = (
    "A classic member that has subscribed to a pattern joins only when it has seen the topics of the cluster since "
    "then."
)
LEADER_ASSIGNS_ALL_TOPICS: Final = (
    "A leader assigns partitions of each topic to which its members subscribe, if it has existed from the beginning, "
    "no member owns any yet, and neither the leader's last Metadata response before its JoinGroup response nor a later "
    "one has an error of it."
)
UNSUBSCRIBED_COMMITS: Final = "A consumer that has not subscribed commits without a membership."
LATE_ERROR_WAITS: Final = (
    "The error of a JoinGroup from before its application has unsubscribed ends poll() only when the application has "
    "subscribed again."
)
TAKES_ITS_TOPICS: Final = (
    "A classic member takes partitions only of topics to which its application subscribes when it takes them."
)
SUBSCRIPTION_SENTENCES: Final = (
    TAKES_ITS_TOPICS,
    UNSUBSCRIBED_STAYS_OUT,
    LATE_ERROR_WAITS,
    PATTERN_NEEDS_METADATA,
    LEADER_ASSIGNS_ALL_TOPICS,
    UNSUBSCRIBED_COMMITS,
)
_NEEDS_A_MEMBERSHIP: Final = (ConsumerErrorKind.COMMIT_FAILED, ConsumerErrorKind.REBALANCE_IN_PROGRESS)


class Subscriptions:
    """The subscriptions of the members of a run, by name."""

    def __init__(self, paused: Container[str]) -> None:
        self._paused = paused
        self._topics: set[str] = set()
        """The topics that have existed from the beginning of the run."""
        self._without_metadata: set[str] = set()
        """Members that have got no metadata since they subscribed to a pattern."""
        self._not_found: dict[str, set[str]] = {}
        """By the name of a member, the topics of which its last Metadata response has an error."""
        self._with_pattern: set[str] = set()
        self._sound: set[str] = set()
        """Members whose assignor, when they lead, is without a fault."""
        self._unsubscribed: set[str] = set()
        self._subscribed: dict[str, frozenset[str]] = {}
        """By the name of a member whose application has subscribed again, to which topics; none for those of its
        plan."""
        self._late_errors: dict[str, int] = {}
        """By the name of a member that has unsubscribed, the error code of a JoinGroup response that came later."""
        self._to_assign: dict[str, set[str]] = {}
        """By the name of a leader, the topics to which the members of its generation subscribe, and that it may
        know."""

    def expect_topics(self, topics: Iterable[str]) -> None:
        """Note that these topics exist from the beginning of the run."""
        self._topics.update(topics)

    def add_member(self, name: str, *, has_pattern: bool, has_sound_assignor: bool) -> None:
        """Begin to check the process of a member, which subscribes to a pattern if `has_pattern`."""
        for members, belongs in ((self._with_pattern, has_pattern), (self._sound, has_sound_assignor)):
            (members.add if belongs else members.discard)(name)
        self.on_new_life(name)

    def has_pattern(self, name: str) -> bool:
        """Whether a member subscribes to a pattern, and so to topics that it does not know by name."""
        return name in self._with_pattern

    def on_new_life(self, name: str) -> None:
        """Note that the process of a member has ended: the next one knows no topics, and subscribes."""
        self._unsubscribed.discard(name)
        self._late_errors.pop(name, None)
        self._subscribed.pop(name, None)
        self._not_found.pop(name, None)
        self._to_assign.pop(name, None)
        if name in self._with_pattern:
            self._without_metadata.add(name)

    def on_topic_deleted(self, topic: str) -> None:
        """Note that a topic has not existed all along."""
        self._topics.discard(topic)

    def on_unsubscribe(self, name: str) -> None:
        """Note that the application of a member has unsubscribed from all topics."""
        self._unsubscribed.add(name)

    def on_subscribe(self, name: str, topics: Collection[str] = ()) -> None:
        """Note that the application of a member has subscribed to these topics, or without any to those of its plan."""
        self._unsubscribed.discard(name)
        self._subscribed[name] = frozenset(topics)
        self._late_errors.pop(name, None)
        if name in self._with_pattern:
            self._without_metadata.add(name)

    def on_assigned(self, name: str, partitions: Collection[TopicPartition]) -> MemberViolation | None:
        """Check the partitions that a member has taken, if its application subscribes to other topics than its plan
        says."""
        subscribed = self._subscribed.get(name)
        other = next((each for each in partitions if each.topic not in subscribed), None) if subscribed else None
        if not subscribed or other is None:
            return None
        detail = f"{name} takes {other}, and subscribes to {', '.join(sorted(subscribed))}"
        return MemberViolation(TAKES_ITS_TOPICS, detail)

    def on_response(self, name: str, response: Any) -> None:
        """Keep what a member learns: the topics of the cluster, and as a leader the subscriptions of its group."""
        if isinstance(response, MetadataResponse):
            self._without_metadata.discard(name)
            self._not_found[name] = {each.name or "" for each in response.topics if each.error_code}
            if name in self._to_assign:
                self._to_assign[name] -= self._not_found[name]
        elif isinstance(response, JoinGroupResponse):
            if response.error_code and name in self._unsubscribed:
                self._late_errors[name] = response.error_code
            leads = not response.error_code and response.leader == response.member_id and not response.skip_assignment
            self._to_assign.pop(name, None)
            # After a pause a leader may handle this response before a Metadata response that came first.
            if leads and name in self._sound and name not in self._paused:
                subscriptions = [each for row in response.members if (each := _subscription(row.metadata)) is not None]
                owned = {each.topic for row in subscriptions for each in row.owned_partitions}
                subscribed = {topic for row in subscriptions for topic in row.topics}
                # The leader may assign now, and send its SyncGroup when its metadata say something else.
                self._to_assign[name] = subscribed - owned - self._not_found.get(name, set())

    def on_error(self, name: str, error: ConsumerError) -> MemberViolation | None:
        """Check an error that ends poll()."""
        if error.code is not None and self._late_errors.get(name) == error.code:
            return MemberViolation(LATE_ERROR_WAITS, f"{name} gets {error}")
        return None

    def on_request(self, name: str, message: Message) -> MemberViolation | None:
        """Check a JoinGroup, and what a leader assigns."""
        match message:
            case JoinGroupRequest() if name in self._unsubscribed:
                return MemberViolation(UNSUBSCRIBED_STAYS_OUT, f"{name} joins without a subscription")
            case JoinGroupRequest() if name in self._without_metadata:
                return MemberViolation(PATTERN_NEEDS_METADATA, f"{name} joins without metadata")
            case SyncGroupRequest() if message.assignments and name in self._to_assign:
                wanted = self._to_assign.pop(name) & self._topics
                assigned = {
                    partition.topic
                    for each in message.assignments
                    for partition in decode_assignment(each.assignment).partitions
                }
                if missing := sorted(wanted - assigned):
                    return MemberViolation(LEADER_ASSIGNS_ALL_TOPICS, f"{name} assigns nothing of {', '.join(missing)}")
        return None


def check_unsubscribed_commit(sent: Collection[OffsetCommitRequest], change: CommitCompleted) -> MemberViolation | None:
    """Check the commit of a consumer that has not subscribed: the requests that have carried it name no member, and the
    consumer did not refuse it by itself."""
    for each in sent:
        if each.member_id or each.generation_id_or_member_epoch >= 0:
            return MemberViolation(UNSUBSCRIBED_COMMITS, f"it commits as {each.member_id!r}")
    if not sent and change.error is not None and change.error.kind in _NEEDS_A_MEMBERSHIP:
        return MemberViolation(UNSUBSCRIBED_COMMITS, f"it sends nothing: {change.error}")
    return None


def _subscription(metadata: bytes) -> Subscription | None:
    try:
        return decode_subscription(metadata)
    except MalformedConsumerProtocol:
        return None
