"""A member of the consumer protocol (KIP-848) as a state machine, without network and clock.

    machine.heartbeat()                 the request that is due: everything in the first one, later what has changed
    machine.on_response(response)       what follows: `HeartbeatResult`
    machine.reconcile()                 give up what the assignment does not have, and take what is new
    machine.revoke(machine.revocable)   the first half of it alone, where giving up takes time

The coordinator computes assignments and sends each member its own. A member gives partitions up first, and says so with
the heartbeat behind it; only then does the coordinator give them to others.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final

from msgspec.structs import replace

from regroup.members.consumer.effects import ConsumerChange, PartitionsAssigned, PartitionsLost, PartitionsRevoked
from regroup.members.consumer.state import MemberGeneration, MemberState
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.consumer_group import (
    ConsumerGroupAssignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupTopicPartitions,
)

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
AWAY_EPOCH: Final = -2
"""With it a static member leaves that will return."""
DEFAULT_INTERVAL_MS: Final = 5_000
"""Until the coordinator has said how often heartbeats are due."""
FENCED: Final = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)
ELSEWHERE: Final = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)


class HeartbeatResult(Enum):
    """What the response to a heartbeat means for the member, and so what the member does next."""

    UNCHANGED = "unchanged"
    """Nothing until the next heartbeat is due."""
    ASSIGNED = "assigned"
    """There is an assignment to reconcile with."""
    FENCED = "fenced"
    """It is no member any more: it has lost all partitions, and joins again at once."""
    UNRELEASED = "unreleased"
    """Another process still has its instance id, so it has to join later."""
    ELSEWHERE = "elsewhere"
    """The group has another coordinator, which has to be found."""
    REFUSED = "refused"
    """It cannot go on."""


class ConsumerProtocolMachine:
    """The state of one process of a member of the consumer protocol: its epoch, owned partitions and assignment, from
    which its heartbeats follow."""

    def __init__(
        self,
        group_id: str,
        member_id: str,
        topics: Iterable[str],
        rebalance_timeout_ms: int,
        instance_id: str | None = None,
        *,
        pattern: str = "",
        assignor: str | None = None,
    ) -> None:
        self._group_id, self._member_id, self._instance_id = group_id, member_id, instance_id
        self._topics, self._rebalance_timeout_ms = sorted(topics), rebalance_timeout_ms
        self._pattern, self._assignor = pattern, assignor
        self._epoch = JOIN_EPOCH
        self._owned: frozenset[TopicPartition] = frozenset()
        self._assigned: frozenset[TopicPartition] | None = None
        """The assignment that the member has not reconciled with; None if it has."""
        self._says_everything = self._says_owned = True
        self._names: dict[bytes, str] = {}
        self._owned_ids: dict[str, bytes] = {}
        """The ids of the topics of the owned partitions, by name. A topic that is created again gets a new one."""
        self._assigned_ids: dict[str, bytes] = {}
        """The ids of the topics of the last assignment, by name."""
        self.interval_ms = DEFAULT_INTERVAL_MS
        self.has_unknown_topics = False
        """Whether an assignment has had topics whose names the member did not know, and has learned no names since."""

    @property
    def assigned_partitions(self) -> tuple[TopicPartition, ...]:
        """The partitions that the member owns by its own state, sorted. The coordinator may have assigned others
        meanwhile."""
        return tuple(sorted(self._owned))

    @property
    def generation(self) -> MemberGeneration:
        """The member id, with the member epoch in place of a generation."""
        return MemberGeneration(self._epoch, self._member_id)

    @property
    def state(self) -> MemberState:
        """The state of the member in the terms of the classic protocol: UNJOINED, STABLE, or PREPARING_REBALANCE while
        it has an assignment to reconcile with."""
        if self._epoch <= JOIN_EPOCH:
            return MemberState.UNJOINED
        return MemberState.STABLE if self._assigned is None else MemberState.PREPARING_REBALANCE

    @property
    def has_joined(self) -> bool:
        """Whether the coordinator has accepted the first heartbeat, so that the member has an epoch above 0."""
        return self._epoch > JOIN_EPOCH

    def learn_topics(self, names: Mapping[bytes, str]) -> None:
        """Add these names of topics by topic id: assignments contain ids, partitions here have names."""
        self._names.update(names)
        self.has_unknown_topics = False

    def heartbeat(self) -> ConsumerGroupHeartbeatRequest:
        """Build the next heartbeat. After a join, a reconciliation or an error it contains the partitions that the
        member owns; the first one and the one after an error contain all fields."""
        request = self._request(self._epoch)
        if self._says_everything:
            request = replace(
                request,
                rebalance_timeout_ms=self._rebalance_timeout_ms,
                subscribed_topic_names=list(self._topics),
                subscribed_topic_regex=self._pattern or None,
                server_assignor=self._assignor,
            )
        if self._says_owned:
            request = replace(request, topic_partitions=self._owned_by_id())
        self._says_everything = self._says_owned = False
        return request

    def leave(self) -> tuple[ConsumerGroupHeartbeatRequest, ConsumerChange | None]:
        """Give up all partitions; returns the heartbeat that leaves the group, with epoch -1 (-2 for a static member),
        and the change of the member, None if it owns nothing.

        Kafka's consumer unsubscribes when it is closed, so this heartbeat has an empty subscription.
        """
        change = PartitionsRevoked(self.assigned_partitions) if self._owned else None
        self._owned, self._assigned = frozenset(), None
        if self._pattern:
            return replace(self.last_heartbeat(), subscribed_topic_regex=""), change
        return replace(self.last_heartbeat(), subscribed_topic_names=[]), change

    def last_heartbeat(self) -> ConsumerGroupHeartbeatRequest:
        """The heartbeat that leaves the group, with epoch -1, or -2 from a static member, which may return.

        It reports no owned partitions. It does not change the subscription, as Kafka's consumer leaves after a poll
        timeout.
        """
        request = self._request(LEAVE_EPOCH if self._instance_id is None else AWAY_EPOCH)
        return replace(request, topic_partitions=[])

    def _request(self, epoch: int) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            group_id=self._group_id, member_id=self._member_id, instance_id=self._instance_id, member_epoch=epoch
        )

    def on_response(self, response: ConsumerGroupHeartbeatResponse) -> HeartbeatResult:
        """Apply the response to a heartbeat, with its epoch, interval and assignment or its error; returns what the
        member does next."""
        if response.error_code in ELSEWHERE:
            self.repeat_everything()
            return HeartbeatResult.ELSEWHERE
        if response.error_code in FENCED:
            return HeartbeatResult.FENCED
        if response.error_code == ErrorCode.UNRELEASED_INSTANCE_ID:
            self.repeat_everything()
            return HeartbeatResult.UNRELEASED
        if response.error_code:
            return HeartbeatResult.REFUSED
        is_join = not self.has_joined
        self._epoch, self.interval_ms = response.member_epoch, response.heartbeat_interval_ms
        if response.assignment is None:
            return HeartbeatResult.UNCHANGED
        assigned = frozenset(self._partitions(response.assignment))
        self._assigned = None if assigned == self._owned else assigned
        if self._assigned is None:
            # The first assignment is acknowledged, also an empty one, and so is one of a topic that was created again.
            is_created_again = any(self._owned_ids[each.topic] != self._assigned_ids[each.topic] for each in assigned)
            self._says_owned |= is_join or is_created_again
            self._owned_ids = self._assigned_ids
        return HeartbeatResult.UNCHANGED if self._assigned is None else HeartbeatResult.ASSIGNED

    @property
    def has_changed(self) -> bool:
        """Whether the owned partitions must be reported, so that the next heartbeat is due at once."""
        return self._says_owned

    @property
    def metadata_topics(self) -> tuple[str, ...] | None:
        """The topics whose ids the member needs; None for all topics of the cluster, if it subscribes by a pattern,
        since it does not know which topics match."""
        return None if self._pattern else tuple(self._topics)

    @property
    def has_additions(self) -> bool:
        """Whether the member has an assignment that it has not reconciled with, and need not give up partitions
        first."""
        return self._assigned is not None and not self.revocable

    @property
    def revocable(self) -> tuple[TopicPartition, ...]:
        """The partitions that the member owns and its assignment does not contain, sorted."""
        return () if self._assigned is None else tuple(sorted(self._owned - self._assigned))

    def revoke(self, partitions: Iterable[TopicPartition]) -> ConsumerChange:
        """Give up those of these partitions that the member owns, also those that a newer assignment contains again;
        returns the change."""
        assigned = self._owned if self._assigned is None else self._assigned
        revoked = self._owned & frozenset(partitions)
        self._owned, self._says_owned = self._owned - revoked, True
        self._assigned = None if assigned == self._owned else assigned
        if self._assigned is None:
            self._owned_ids = self._assigned_ids
        return PartitionsRevoked(tuple(sorted(revoked)))

    def reconcile(self) -> list[ConsumerChange]:
        """Give up the partitions that the assignment does not contain, then take its new ones; returns these changes.
        The next heartbeat reports what the member owns."""
        assigned, owned = self._assigned, self._owned
        if assigned is None:
            return []
        revoked, added = tuple(sorted(owned - assigned)), tuple(sorted(assigned - owned))
        self._owned, self._assigned, self._says_owned = assigned, None, True
        self._owned_ids = self._assigned_ids
        changes: list[ConsumerChange] = [PartitionsRevoked(revoked)] if revoked else []
        return [*changes, PartitionsAssigned(added)] if added else changes

    def lose(self) -> ConsumerChange:
        """Drop all partitions without a heartbeat that reports it, and go back to epoch 0, so that the next heartbeat
        joins the group again; returns the change."""
        lost = PartitionsLost(self.assigned_partitions)
        self._owned, self._assigned, self._epoch = frozenset(), None, JOIN_EPOCH
        self.repeat_everything()
        return lost

    def repeat_everything(self) -> None:
        """Let the next heartbeat contain all fields, because the coordinator may not have received the last one."""
        self._says_everything = self._says_owned = True

    def _owned_by_id(self) -> list[ConsumerGroupTopicPartitions]:
        by_topic: dict[str, list[int]] = {}
        for each in self.assigned_partitions:
            by_topic.setdefault(each.topic, []).append(each.partition)
        ids = self._owned_ids
        return [ConsumerGroupTopicPartitions(topic_id=ids[name], partitions=found) for name, found in by_topic.items()]

    def _partitions(self, assignment: ConsumerGroupAssignment) -> Iterable[TopicPartition]:
        self._assigned_ids = {}
        for topic in assignment.topic_partitions:
            name = self._names.get(topic.topic_id)
            if name is None:
                self.has_unknown_topics = True
            else:
                self._assigned_ids[name] = topic.topic_id
                yield from (TopicPartition(name, number) for number in topic.partitions)
