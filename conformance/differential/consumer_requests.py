"""Sends the requests of random courses whose members speak the consumer protocol, and change to the classic one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from regroup.conformance.differential.consumer_member import AWAY_EPOCH, NOTHING, CourseConsumer
from regroup.conformance.differential.course_group import ClientPhase, CourseGroup
from regroup.conformance.differential.random_course import CourseMove, MoveKind
from regroup.conformance.differential.requests import CourseRequest, CourseScene
from regroup.conformance.harness.broker_under_test import BAR_TOPIC, FOO_TOPIC, SIX_TOPIC
from regroup.conformance.harness.consumer_group import HeartbeatFields, PartitionsByTopic
from regroup.conformance.harness.migration import classic_assignment, owning
from regroup.conformance.harness.sent_request import SentRequest
from regroup.protocol.messages.describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from regroup.protocol.messages.offsets import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse

CONSUMER_APIS: Final = ("ConsumerGroupHeartbeat", "ConsumerGroupDescribe")
CONSUMER_API_VERSION: Final = 1
"""The APIs that both brokers must offer in this version, so that these courses can be played."""

FETCH_VERSION_WITH_EPOCH: Final = 9
FIRST_COMMIT_WITH_EPOCH: Final = 9
OLD_COMMITS, OLD_HEARTBEATS = 0.15, 0.2
"""The shares of requests in versions without member epochs, and without regular expressions."""

SUBSCRIPTIONS: Final[tuple[tuple[str, ...], ...]] = (
    (SIX_TOPIC,),
    (SIX_TOPIC,),
    (SIX_TOPIC,),
    (SIX_TOPIC, BAR_TOPIC),
    (BAR_TOPIC,),
    (FOO_TOPIC, SIX_TOPIC, BAR_TOPIC),
    (),
    (SIX_TOPIC, "conformance-absent"),
)
ASSIGNORS: Final = (None, None, None, None, "range", "uniform")
EPOCH_MISTAKES: Final = (-1, 1, 97)


@dataclass(frozen=True, slots=True)
class ConsumerScene(CourseScene):
    """Two groups of the consumer protocol, or in migration, on one broker."""

    def send(self, number: int, move: CourseMove) -> CourseRequest | None:
        """Send the request of a move; None for a move without a request."""
        group = self.groups[move.group]
        member = self._consumer(group, move.actor)
        match move.kind:
            case MoveKind.NEXT_OF_CONSUMER:
                return self._send_next_of_consumer(number, move)
            case MoveKind.CONSUMER_HEARTBEAT:
                return self._send_mistake(move, group, member)
            case MoveKind.CONSUMER_SUBSCRIPTION:
                fields: HeartbeatFields = {
                    "names": SUBSCRIPTIONS[move.variant % len(SUBSCRIPTIONS)],
                    "assignor": ASSIGNORS[int(move.choice * len(ASSIGNORS))],
                }
                return (
                    self._beat(move, member, member.epoch, None, fields) if member.epoch else self._join(move, member)
                )
            case MoveKind.CONSUMER_LEAVE:
                is_away = member.client.instance_id is not None and move.variant % 2 == 0
                return self._beat(move, member, AWAY_EPOCH if is_away else -1, None)
            case MoveKind.CONSUMER_FETCH:
                return self._fetch(number, move, member)
            case MoveKind.CONSUMER_DESCRIBE:
                request = ConsumerGroupDescribeRequest(group_ids=self._group_ids(move))
                return CourseRequest(group.story.send(request, ConsumerGroupDescribeResponse), move.group)
            case MoveKind.CROSS_OVER:
                if not member.pending and not member.is_classic and group.is_of_consumers:
                    member.cross_over()
                elif not member.pending and member.is_classic:
                    return self._join(move, member)
                return self._send_next_of_consumer(number, move)
        # The default arguments of `super` do not work in a dataclass with slots.
        return CourseScene.send(self, number, move)

    def _consumer(self, group: CourseGroup, actor: int) -> CourseConsumer:
        member = group.members[actor]
        assert isinstance(member, CourseConsumer), "courses of the consumer protocol have such members"
        return member

    def _send_next_of_consumer(self, number: int, move: CourseMove) -> CourseRequest:
        """What the next client without a pending request would send; a description if every client waits."""
        group = self.groups[move.group]
        waiting = group.members[move.actor :] + group.members[: move.actor]
        idle = [each for each in waiting if not each.pending]
        if not idle:
            return self._send_read(number, move, MoveKind.LIST)
        member = self._consumer(group, idle[0].actor)
        if member.is_classic:
            return self._send_of_member(number, move, self._classic_kind(move, group, member), member)
        if not member.epoch:
            return self._join(move, member)
        if move.choice < 0.12:
            return self._send_of_member(number, move, MoveKind.COMMIT, member)
        if move.choice < 0.2:
            return self._fetch(number, move, member)
        return self._beat(move, member, member.epoch, member.owned if move.variant % 4 else None)

    def _classic_kind(self, move: CourseMove, group: CourseGroup, member: CourseConsumer) -> MoveKind:
        """What a classic client sends next."""
        if group.state == "PreparingRebalance" and not group.is_of_consumers:
            return MoveKind.JOIN
        match member.phase:
            case ClientPhase.OUTSIDE | ClientPhase.JOINS:
                return MoveKind.JOIN
            case ClientPhase.SYNCS:
                return MoveKind.SYNC
        return MoveKind.COMMIT if move.choice < 0.25 else MoveKind.HEARTBEAT

    def _join(self, move: CourseMove, member: CourseConsumer) -> CourseRequest:
        fields: HeartbeatFields = {
            "rebalance_timeout_ms": member.client.rebalance_timeout_ms,
            "names": SUBSCRIPTIONS[move.variant % len(SUBSCRIPTIONS)],
            "assignor": ASSIGNORS[int(move.choice * len(ASSIGNORS))],
        }
        return self._beat(move, member, 0, NOTHING, fields)

    def _send_mistake(self, move: CourseMove, group: CourseGroup, member: CourseConsumer) -> CourseRequest:
        """A heartbeat that a proper client would not send, or only after a lost response."""
        previous_epoch, previously_owned = member.previous
        other = self._consumer(group, move.borrowed_from or 0)
        full: HeartbeatFields = {
            "rebalance_timeout_ms": member.client.rebalance_timeout_ms,
            "names": SUBSCRIPTIONS[0],
        }
        match move.variant:
            case 0 | 1:
                return self._beat(move, member, previous_epoch, previously_owned)
            case 2:
                return self._beat(move, member, previous_epoch, member.owned)
            case 3 | 4 | 5:
                return self._beat(move, member, member.epoch + EPOCH_MISTAKES[move.variant - 3], member.owned)
            case 6:
                return self._beat(move, member, member.epoch, {SIX_TOPIC: [0, 1]}, {"instance_id": "i9"})
            case 7:
                return self._beat(move, member, other.epoch, None, member_id=other.own_id)
            case 8:
                return self._beat(move, member, member.epoch, None, {"regex": "(("})
            case 9:
                return self._beat(move, member, 0, NOTHING, full)
            case 10:
                return self._beat(move, member, member.epoch, None, {"assignor": "nope"})
        return self._beat(move, member, member.epoch, member.owned, full)

    def _beat(
        self,
        move: CourseMove,
        member: CourseConsumer,
        epoch: int,
        owned: PartitionsByTopic | None,
        fields: HeartbeatFields | None = None,
        *,
        member_id: str | None = None,
    ) -> CourseRequest:
        assert member.group is not None
        own: HeartbeatFields = {
            "instance_id": member.client.instance_id,
            "client_id": member.client.client_id,
            "sender": member.client.name,
            "version": 0 if move.version < OLD_HEARTBEATS and "regex" not in (fields or {}) else CONSUMER_API_VERSION,
        }
        complete: HeartbeatFields = {**own, **(fields or HeartbeatFields())}
        sent = member.group.send_beat(member_id or member.own_id, epoch, owned=owned, **complete)
        is_own = member_id is None and epoch < 90  # a response to a borrowed id says nothing about the member
        return CourseRequest(sent, move.group, member if is_own else None)

    def _fetch(self, number: int, move: CourseMove, member: CourseConsumer) -> CourseRequest:
        group = self.groups[move.group]
        mistake = 1 if move.variant == 0 else 0
        asked = OffsetFetchRequestGroup(
            group_id=group.story.group_id, member_id=member.own_id, member_epoch=member.epoch + mistake, topics=None
        )
        request = OffsetFetchRequest(groups=[asked], require_stable=number % 3 == 0)
        sent: SentRequest[Any] = group.story.send(
            request, OffsetFetchResponse, version=FETCH_VERSION_WITH_EPOCH, sender=member.client.name
        )
        return CourseRequest(sent, move.group)

    def _version(self, kind: MoveKind, drawn: float, member: Any = None) -> int:
        """As for classic members, but members of the consumer protocol mostly commit in versions that have epochs."""
        if kind is MoveKind.COMMIT and isinstance(member, CourseConsumer) and not member.is_classic:
            offered = self.versions["OffsetCommit"]
            newer = range(max(offered[0], FIRST_COMMIT_WITH_EPOCH), offered[-1] + 1)
            if newer and drawn > OLD_COMMITS:
                return newer[int(drawn * 100) % len(newer)]
        return CourseScene._version(self, kind, drawn, member)

    # Requests of the classic protocol

    def _protocols(self, move: CourseMove, member: Any) -> Mapping[str, bytes]:
        """A subscription to the topic with six partitions; every second client is cooperative, and names what it
        owns."""
        if move.kind is MoveKind.JOIN or not isinstance(member, CourseConsumer):
            return CourseScene._protocols(self, move, member)
        return owning(member.owned if member.actor % 2 else NOTHING)

    def _assignments(self, number: int, members: Sequence[Any]) -> dict[str, bytes]:
        """The six partitions, each given to one member."""
        ids = [each.client.id for each in members]
        shares = {member_id: [*range(index, 6, len(ids))] for index, member_id in enumerate(ids)}
        return {member_id: classic_assignment({SIX_TOPIC: numbers}) for member_id, numbers in shares.items()}
