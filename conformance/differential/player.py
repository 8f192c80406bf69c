"""Plays a random course to one broker, and records its responses and the state of the group."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from regroup.conformance.differential.normalise import MOVE_SEPARATOR, MemberIdNames, NormalisedFields
from regroup.conformance.differential.random_course import (
    ASSIGNOR_LISTS,
    CourseMove,
    MoveKind,
    RandomCourse,
)
from regroup.conformance.harness.expect import ExpectationFailed
from regroup.conformance.harness.member import ConformanceMember, leave_group
from regroup.conformance.harness.offsets import delete_offsets, fetch_offsets
from regroup.conformance.harness.sent_request import SentRequest
from regroup.conformance.harness.story import StoryContext
from regroup.conformance.harness.target import FOO_TOPIC, PARTITIONS_PER_TOPIC, ConformanceTarget
from regroup.protocol.messages.describe import DeleteGroupsRequest, DeleteGroupsResponse, DescribedGroup
from regroup.protocol.messages.group import JoinGroupResponse, MemberIdentity

OBSERVATION_POINT = 0.45
"""The part of a slot after which its responses are there, and before which no timeout expires."""

MAX_LATENESS = 0.2
"""A move or an observation that is later than this part of a slot may be on the wrong side of a timeout."""


class LeaderSteering(Protocol):
    """A broker whose choice of leaders can be steered, where Kafka's is random."""

    def prefer_leader(self, group_id: str, member_id: str) -> None:
        """Choose this member if the group needs another leader."""


@dataclass
class MoveObservation:
    """The new responses in the slot of one move, by the number of their moves, and the group."""

    move: CourseMove
    responses: dict[int, NormalisedFields] = field(default_factory=dict)
    group: NormalisedFields = field(default_factory=dict)


class CoursePlayer:
    """Plays one course to one broker, in one group.

    With `steering`, the broker prefers the next leader from `leaders`, which has a member's name for each slot.
    """

    def __init__(
        self,
        target: ConformanceTarget,
        group_id: str,
        steering: LeaderSteering | None = None,
        leaders: Sequence[str] = (),
    ) -> None:
        self._story = StoryContext(target, group_id)
        self._steering = steering
        self._leaders = leaders
        self._names = MemberIdNames(group_id)
        self._pending: dict[int, SentRequest[Any]] = {}
        self._members: list[ConformanceMember] = []
        self.is_late = False
        """Whether a request was sent late, or its response was observed late."""

    async def play(self, course: RandomCourse, expected: Sequence[MoveObservation] = ()) -> list[MoveObservation]:
        """An observation for each move, up to the first one that differs from the `expected` one."""
        self._members = [
            ConformanceMember(
                self._story,
                actor.name,
                instance_id=actor.instance_id,
                session_timeout_ms=actor.session_timeout_ms,
                rebalance_timeout_ms=actor.rebalance_timeout_ms,
            )
            for actor in course.actors
        ]
        observations: list[MoveObservation] = []
        slot_s = course.slot_ms / 1000
        start_s = asyncio.get_running_loop().time()
        try:
            for number, move in enumerate(course.moves):
                await self._sleep_until(start_s, slot_s)
                if (request := self._send(number, move)) is not None:
                    self._pending[number] = request
                await self._sleep_until(start_s + OBSERVATION_POINT * slot_s, slot_s)
                observations.append(await self._observe(number, move))
                self._note_lateness(start_s + OBSERVATION_POINT * slot_s, slot_s)
                if expected and observations[number] != expected[number]:
                    break
                self._steer(number + 1)
                start_s += slot_s
        finally:
            await self._story.close()
        return observations

    async def _sleep_until(self, time_s: float, slot_s: float) -> None:
        await asyncio.sleep(time_s - asyncio.get_running_loop().time())
        self._note_lateness(time_s, slot_s)

    def _note_lateness(self, time_s: float, slot_s: float) -> None:
        self.is_late |= asyncio.get_running_loop().time() - time_s > MAX_LATENESS * slot_s

    def _steer(self, slot: int) -> None:
        """Steer the leader one slot ahead: its member id is known, since it has joined in an earlier slot."""
        if self._steering and slot < len(self._leaders) and (leader := self._names.id_of(self._leaders[slot])):
            self._steering.prefer_leader(self._story.group_id, leader)

    def _send(self, number: int, move: CourseMove) -> SentRequest[Any] | None:
        actor, version = self._members[move.actor], move.version
        member_id = None
        if move.borrowed_from is not None:
            member_id = self._members[move.borrowed_from].id if move.borrowed_from >= 0 else ""
        generation_id = actor.generation_id + move.generation_offset
        partition = (FOO_TOPIC, number % PARTITIONS_PER_TOPIC)
        match move.kind:
            case MoveKind.JOIN:
                actor.protocol_type, protocols = move.protocol_type, dict(ASSIGNOR_LISTS[move.assignor_list])
                return actor.join_group(version=version, member_id=member_id, protocols=protocols)
            case MoveKind.SYNC:
                assignments = {each.id: f"{number} for {each.name}".encode() for each in self._members if each.id}
                return actor.sync_group(assignments, version=version, member_id=member_id, generation_id=generation_id)
            case MoveKind.HEARTBEAT:
                return actor.heartbeat(version=version, member_id=member_id, generation_id=generation_id)
            case MoveKind.LEAVE:
                return leave_group(self._story, *self._leaving(move, member_id), version=version, sender=actor.name)
            case MoveKind.COMMIT:
                return actor.commit_offsets(
                    {partition: number}, version=version, member_id=member_id, generation_id=generation_id
                )
            case MoveKind.FETCH:
                return fetch_offsets(self._story, None, version=version)
            case MoveKind.DELETE_OFFSET:
                return delete_offsets(self._story, partition)
            case MoveKind.DELETE_GROUP:
                request = DeleteGroupsRequest(groups_names=[self._story.group_id])
                return self._story.send(request, DeleteGroupsResponse, version=version)
        return None

    def _leaving(self, move: CourseMove, borrowed_id: str | None) -> list[MemberIdentity]:
        leaving = []
        for number in (move.actor, *move.also_leaving):
            member = self._members[number]
            member_id = member.id if number != move.actor or borrowed_id is None else borrowed_id
            if move.by_instance_id and member.instance_id is not None:
                member_id = ""
            leaving.append(MemberIdentity(member_id=member_id, group_instance_id=member.instance_id))
        return leaving

    async def _observe(self, number: int, move: CourseMove) -> MoveObservation:
        # DescribeGroups takes as long as any request that was sent before: their responses are there afterwards.
        group = await self._describe()
        responses = {}
        for earlier in [earlier for earlier, request in sorted(self._pending.items()) if request.is_done]:
            request = self._pending.pop(earlier)
            responses[earlier] = response = request.response_or_error()
            if isinstance(response, JoinGroupResponse):
                self._names.add(response.member_id, f"{request.exchange.sender}{MOVE_SEPARATOR}{earlier}")
                # Two responses to one actor may arrive in either order; the one to the later move counts.
                self._members[int(request.exchange.sender.removeprefix("actor "))].apply_join_response(response)
        return MoveObservation(
            move,
            {earlier: self._names.normalise_response(response) for earlier, response in responses.items()},
            self._normalise_group(group, f"{self._members[move.actor].name}{MOVE_SEPARATOR}{number}"),
        )

    async def _describe(self) -> DescribedGroup | ExpectationFailed:
        try:
            return await self._story.describe()
        except ExpectationFailed as failure:
            return failure

    def _normalise_group(self, group: DescribedGroup | ExpectationFailed, new_member: str) -> NormalisedFields:
        """The group as observed; a member whose id has no name yet has joined with the move of this slot."""
        if isinstance(group, ExpectationFailed):
            return {"failure": str(group)}
        for member in group.members:
            self._names.add(member.member_id, new_member)
        return self._names.normalise_group(group)
