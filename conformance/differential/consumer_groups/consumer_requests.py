"""Sends the requests of random courses whose members speak the consumer protocol, and change to the classic one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from regroup.conformance.differential.consumer_groups.consumer_member import AWAY_EPOCH, NOTHING, CourseConsumer
from regroup.conformance.differential.consumer_groups.consumer_offsets import commit_of_member, fetch_of_member
from regroup.conformance.differential.consumer_groups.consumer_subscriptions import (
    changing_fields,
    classic_protocols,
    classic_shares,
    joining_fields,
)
from regroup.conformance.differential.consumer_groups.course_topics import FIRST, SECOND, CourseTopics
from regroup.conformance.differential.course_group import ClientPhase, CourseGroup
from regroup.conformance.differential.random_course import CourseMove, MoveKind
from regroup.conformance.differential.requests import CourseRequest, CourseScene
from regroup.conformance.harness.broker_under_test import SIX_TOPIC
from regroup.conformance.harness.consumer_group import HeartbeatFields, PartitionsByTopic
from regroup.conformance.harness.member import leave_group
from regroup.protocol.messages.describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse

CONSUMER_APIS: Final = ("ConsumerGroupHeartbeat", "ConsumerGroupDescribe")
CONSUMER_API_VERSION: Final = 1
"""The APIs that both brokers must offer in this version, so that these courses can be played."""

OLD_HEARTBEATS: Final = 0.2
"""The share of requests in versions without regular expressions."""
EPOCH_MISTAKES: Final = (-1, 1, 97)
COMMITS, FETCHES = 0.14, 0.24
"""Of what proper members of the consumer protocol send: up to which draw it is a commit, or a fetch."""


@dataclass(frozen=True, slots=True)
class ConsumerScene(CourseScene):
    """Two groups of a course on one broker, whose members use the consumer protocol or change between it and the
    classic one."""

    topics: CourseTopics
    goals: dict[int, bool] = field(default_factory=dict)
    """By the number of a group, whether its members are being moved to the classic protocol."""

    def send(self, number: int, move: CourseMove) -> CourseRequest | None:
        """Send the request of a move, and return it; None for a move that changes a topic, since no response is
        compared.

        `number` is the number of the move.
        """
        group = self.groups[move.group]
        member = self._consumer(group, move.actor)
        match move.kind:
            case MoveKind.NEXT_OF_CONSUMER:
                return self._send_next_of_consumer(number, move)
            case MoveKind.CONSUMER_HEARTBEAT:
                return self._send_mistake(move, group, member)
            case MoveKind.CONSUMER_SUBSCRIPTION if member.is_classic:
                return self._send_next_of_consumer(number, move)
            case MoveKind.CONSUMER_SUBSCRIPTION if member.epoch:
                return self._beat(move, member, member.epoch, None, changing_fields(move, self.topics))
            case MoveKind.CONSUMER_SUBSCRIPTION:
                return self._join(move, member)
            case MoveKind.CONSUMER_LEAVE:
                return self._leave(move, member)
            case MoveKind.COMMIT | MoveKind.CONSUMER_FETCH:
                return self._send_of_offsets(number, move, member)
            case MoveKind.CONSUMER_DESCRIBE:
                request = ConsumerGroupDescribeRequest(group_ids=self._group_ids(move))
                return CourseRequest(group.story.send(request, ConsumerGroupDescribeResponse), move.group)
            case MoveKind.CROSS_OVER:
                return self._send_crossing(number, move)
            case MoveKind.GROW_TOPIC:
                self.topics.grow(FIRST if move.variant % 3 else SECOND, 1 + move.variant % 2)
                return None
            case MoveKind.CREATE_TOPIC:
                self.topics.create_late()
                return None
            case MoveKind.DELETE_TOPIC:
                self.topics.delete(SECOND)
                return None
        # The default arguments of `super` do not work in a dataclass with slots.
        return CourseScene.send(self, number, move)

    def _consumer(self, group: CourseGroup, actor: int) -> CourseConsumer:
        member = group.members[actor]
        assert isinstance(member, CourseConsumer), "courses of the consumer protocol have such members"
        return member

    def _taking_part(self, move: CourseMove) -> list[CourseConsumer]:
        return [self._consumer(self.groups[move.group], actor) for actor in range(move.members)]

    def _idle(self, move: CourseMove) -> list[CourseConsumer]:
        """The clients that take part and have no pending request, beginning with the actor of the move."""
        taking_part = self._taking_part(move)
        return [each for each in taking_part[move.actor :] + taking_part[: move.actor] if not each.pending]

    def _send_next_of_consumer(self, number: int, move: CourseMove) -> CourseRequest:
        """Send the request that a proper client would send next, for the first client without a pending one.

        If every client waits for a response, ListGroups is sent.
        """
        group, idle = self.groups[move.group], self._idle(move)
        return (
            self._send_next_of(number, move, group, idle[0]) if idle else self._send_read(number, move, MoveKind.LIST)
        )

    def _send_next_of(self, number: int, move: CourseMove, group: CourseGroup, member: CourseConsumer) -> CourseRequest:
        if member.is_classic:
            kind = self._classic_kind(move, group, member)
            if kind is MoveKind.COMMIT:
                return self._send_of_offsets(number, move, member)
            return self._send_of_member(number, move, kind, member)
        if not member.epoch:
            return self._join(move, member)
        if move.choice < FETCHES:
            return self._send_of_offsets(number, move, member)
        return self._beat(move, member, member.epoch, member.owned if move.variant % 4 else None)

    def _classic_kind(self, move: CourseMove, group: CourseGroup, member: CourseConsumer) -> MoveKind:
        """The kind of request that a member of the classic protocol sends next: JoinGroup, SyncGroup, a commit or a
        Heartbeat."""
        if group.state == "PreparingRebalance" and not group.is_of_consumers:
            return MoveKind.JOIN
        match member.phase:
            case ClientPhase.OUTSIDE | ClientPhase.JOINS:
                return MoveKind.JOIN
            case ClientPhase.SYNCS:
                return MoveKind.SYNC
        return MoveKind.COMMIT if move.choice < FETCHES else MoveKind.HEARTBEAT

    # Change of the protocol

    def _send_crossing(self, number: int, move: CourseMove) -> CourseRequest:
        """Send the request with which one more member of a group changes its protocol.

        All members are moved to the one protocol, one by one, and when all have changed, back to the other.
        """
        group, idle = self.groups[move.group], self._idle(move)
        goal = self.goals.get(move.group, True)
        crossing = [each for each in idle if each.has_joined and each.is_classic != goal]
        if not crossing and not any(each.has_joined and each.is_classic != goal for each in self._taking_part(move)):
            self.goals[move.group] = goal = not goal
            crossing = [each for each in idle if each.has_joined and each.is_classic != goal]
        if not crossing:
            return self._send_next_of_consumer(number, move)
        member = crossing[0]
        if move.variant % 2:
            member.cross_over()
        elif member.client.instance_id is not None and move.variant % 4:
            member.start_again(is_classic=goal)
        else:
            member.crosses_to = goal
            return self._leave(move, member)
        return self._send_next_of(number, move, group, member)

    def _leave(self, move: CourseMove, member: CourseConsumer) -> CourseRequest:
        """Send the request with which a member leaves: LeaveGroup for a classic one, otherwise a heartbeat with epoch
        -1 or -2.

        A static member sends -2 in most moves: it leaves for a while.
        """
        if member.is_classic:
            group = self.groups[move.group]
            return CourseRequest(leave_group(group.story, member.client, sender=member.client.name), move.group, member)
        is_away = member.client.instance_id is not None and move.variant % 3 > 0
        return self._beat(move, member, AWAY_EPOCH if is_away else -1, None)

    # Heartbeats of the consumer protocol

    def _join(self, move: CourseMove, member: CourseConsumer) -> CourseRequest:
        return self._beat(move, member, 0, NOTHING, joining_fields(move, self.topics, member))

    def _send_mistake(self, move: CourseMove, group: CourseGroup, member: CourseConsumer) -> CourseRequest:
        """Send a heartbeat that a proper client would not send, or only after a lost response, such as one with a wrong
        epoch."""
        previous_epoch, previously_owned = member.previous
        other = self._consumer(group, max(0, move.borrowed_from or 0))
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
                return self._beat(move, member, 0, NOTHING, joining_fields(move, self.topics, member))
            case 10:
                return self._beat(move, member, member.epoch, None, {"assignor": "nope"})
        return self._beat(move, member, member.epoch, member.owned, joining_fields(move, self.topics, member))

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
        has_regex = bool((fields or {}).get("regex"))
        own: HeartbeatFields = {
            "instance_id": member.client.instance_id,
            "client_id": member.client.client_id,
            "sender": member.client.name,
            "version": 0 if move.version < OLD_HEARTBEATS and not has_regex else CONSUMER_API_VERSION,
        }
        complete: HeartbeatFields = {**own, **(fields or HeartbeatFields())}
        if complete["version"] == 0:
            complete["regex"] = None
        sent = member.group.send_beat(member_id or member.own_id, epoch, owned=owned, **complete)
        is_own = member_id is None and epoch < 90  # a response to a borrowed id says nothing about the member
        return CourseRequest(sent, move.group, member if is_own else None)

    # Offsets

    def _send_of_offsets(self, number: int, move: CourseMove, member: CourseConsumer) -> CourseRequest:
        """Send an OffsetCommit or OffsetFetch of a member, mostly for partitions that it owns or has owned."""
        is_commit = move.kind is MoveKind.COMMIT or (move.kind is not MoveKind.CONSUMER_FETCH and move.choice < COMMITS)
        if member.is_classic or is_commit:
            sent = commit_of_member(number, move, member, self.topics, self.versions["OffsetCommit"])
            return CourseRequest(sent, move.group, member)
        return CourseRequest(fetch_of_member(number, move, member, self.topics), move.group)

    # Requests of the classic protocol

    def _protocols(self, move: CourseMove, member: Any) -> Mapping[str, bytes]:
        """The assignors with metadata in a JoinGroup of this member.

        For a join drawn at random they are as in courses of the classic protocol, otherwise such that the group can
        migrate.
        """
        if move.kind is MoveKind.JOIN or not isinstance(member, CourseConsumer):
            return CourseScene._protocols(self, move, member)
        return classic_protocols(move, self.topics, member)

    def _assignments(self, number: int, members: Sequence[Any]) -> dict[str, bytes]:
        classic = [each for each in members if each.is_classic]
        return classic_shares(number, classic or [*members], self.topics, has_user_data=number % 13 == 12)
