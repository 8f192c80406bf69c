"""Plays a random course to one broker, and records its responses and the state of its groups."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from regroup.conformance.differential.consumer_groups.consumer_member import CourseConsumer, group_of_consumers
from regroup.conformance.differential.consumer_groups.consumer_requests import ConsumerScene
from regroup.conformance.differential.consumer_groups.course_topics import CourseTopics, TopicSteering
from regroup.conformance.differential.course_group import CourseGroup
from regroup.conformance.differential.course_producer import CourseProducer
from regroup.conformance.differential.normalise import MOVE_SEPARATOR, CourseNames, NormalisedFields, error_codes
from regroup.conformance.differential.played_course import GROUP_NAMES, MoveObservation, PlayedCourse, next_leaders
from regroup.conformance.differential.random_course import (
    GROUPS,
    PRODUCERS,
    CourseMove,
    MoveKind,
    RandomCourse,
)
from regroup.conformance.differential.requests import CourseRequest, CourseScene
from regroup.conformance.differential.timing import MAX_LATENESS, OBSERVATION_POINT
from regroup.conformance.harness.broker_under_test import ConformanceTarget
from regroup.conformance.harness.expect import ExpectationFailed, NotObservable
from regroup.conformance.harness.member import leave_group
from regroup.conformance.harness.message_types import api_name
from regroup.conformance.harness.offsets import fetch_offsets
from regroup.conformance.harness.story import StoryContext
from regroup.protocol.client import ConnectionLost
from regroup.protocol.exceptions import ProtocolError
from regroup.protocol.message import Message
from regroup.protocol.messages.describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from regroup.protocol.messages.group import JoinGroupResponse, MemberIdentity

CLEANUP_TIMEOUT_S = 5.0
OBSERVED_FETCH_VERSION = 9
"""The version of OffsetFetch for observations: it names topics, and can fetch several groups."""

RestartMove = Callable[[], Awaitable[None]]
"""A function that restarts the broker, or waits until another course has restarted it."""


class BrokerSteering(TopicSteering, Protocol):
    """A broker whose choices of leaders and ids can be steered, where Kafka's are random."""

    def prefer_leader(self, group_id: str, member_id: str) -> None:
        """Let the group elect this member if it needs another leader."""

    def give_member_id(self, group_id: str, member_id: str) -> None:
        """Give this id to the next member of the group that joins without one."""


RequestCounts = Counter[tuple[str, int, bool]]
"""Numbers of requests by API, version, and whether they were answered without an error."""


class CoursePlayer:
    """Plays one course to one broker, in two groups.

    With `steering`, the broker chooses the leaders and ids of `followed`, and the course ends at the first observation
    that differs. `topic_prefix` begins the names of the course's own topics, and `restart` is awaited at its restart.
    """

    def __init__(
        self,
        target: ConformanceTarget,
        label: str,
        versions: Mapping[str, range],
        *,
        steering: BrokerSteering | None = None,
        followed: PlayedCourse | None = None,
        topic_prefix: str = "",
        restart: RestartMove | None = None,
    ) -> None:
        self._target = target
        self._label = label
        self._versions = versions
        self._steering = steering
        self._followed = followed or PlayedCourse()
        self._topic_prefix = topic_prefix or label
        self._topics: CourseTopics | None = None
        self._restart = restart
        self._stories = [StoryContext(target, label) for _ in range(GROUPS)]
        self._pending: dict[int, CourseRequest] = {}
        self._sender = ""
        self.counts: RequestCounts = Counter()
        self._move = 0
        self._is_deleting = False
        self.late_since: int | None = None
        """The number of the first move that was sent late, or whose responses were observed late; None if none was."""

    async def play(self, course: RandomCourse) -> list[MoveObservation]:
        """Play the course and return an observation for each move, up to the first one that is not as it was before."""
        try:
            await self._set_scene(course)
            return await self._play_moves(course, self._followed.observations)
        finally:
            self._count_unanswered()
            await self._clean_up()
            for story in self._stories:
                await story.close()

    async def _set_scene(self, course: RandomCourse) -> None:
        first, second = self._stories
        await second.use_group_of_same_coordinator("B")
        self._names = CourseNames(
            {story.group_id: name for story, name in zip(self._stories, GROUP_NAMES, strict=True)},
            self._target.topic_ids,
        )
        producers = [CourseProducer.named(first, f"producer {number}") for number in range(PRODUCERS)]
        self._observes_consumers = course.is_of_consumers
        if course.is_of_consumers:
            self._scene: CourseScene = await self._scene_of_consumers(course, producers)
        else:
            groups = [
                CourseGroup.with_actors(story, name, course.actors)
                for story, name in zip(self._stories, GROUP_NAMES, strict=True)
            ]
            self._scene = CourseScene(groups, producers, self._versions)

    async def _scene_of_consumers(self, course: RandomCourse, producers: list[CourseProducer]) -> ConsumerScene:
        topics = CourseTopics(self._stories[0], self._topic_prefix, self._steering, self._followed.topic_ids)
        self._topics = topics
        await topics.create_first()
        groups = [
            await group_of_consumers(story, name, course, topics.ids)
            for story, name in zip(self._stories, GROUP_NAMES, strict=True)
        ]
        for member in (member for group in groups for member in group.members):
            if isinstance(member, CourseConsumer):
                for life, each in enumerate(member.own_ids):
                    self._names.add(each, f"{member.client.name}{MOVE_SEPARATOR}none, process {life}")
        return ConsumerScene(groups, producers, self._versions, topics)

    async def _play_moves(self, course: RandomCourse, expected: Sequence[MoveObservation]) -> list[MoveObservation]:
        observations: list[MoveObservation] = []
        slot_s = course.slot_ms / 1000
        start_s = asyncio.get_running_loop().time()
        for number, move in enumerate(course.moves):
            self._move = number
            self._is_deleting = move.kind is MoveKind.DELETE_TOPIC  # when the groups know of it, is a matter of chance
            await self._sleep_until(start_s, slot_s)
            if move.kind is MoveKind.RESTART:
                await self._restart_broker()
                start_s = asyncio.get_running_loop().time()
            elif (request := self._send(number, move)) is not None:
                self._pending[number], self._sender = request, request.sent.exchange.sender
                if request.member is not None:
                    request.member.pending += 1
            await self._sleep_until(start_s + OBSERVATION_POINT * slot_s, slot_s)
            observations.append(await self._observe(number, move))
            self._note_lateness(start_s + OBSERVATION_POINT * slot_s, slot_s)
            if expected and observations[number] != expected[number]:
                break
            self._steer(number + 1)
            start_s += slot_s
        return observations

    def _send(self, number: int, move: CourseMove) -> CourseRequest | None:
        request = self._scene.send(number, move)
        if request is not None and self._steering is not None:
            name = f"{request.sent.exchange.sender}{MOVE_SEPARATOR}{number}"
            member_id = self._followed.member_ids.get(name, "")
            self._steering.give_member_id(self._stories[move.group].group_id, member_id)
        return request

    async def _restart_broker(self) -> None:
        """Restart the broker, or wait until it has been restarted.

        Pending requests are dropped first, since how a stopping broker answers them is a matter of chance.
        """
        assert self._restart is not None, "a course with a restart needs a broker that can be restarted"
        self._count_unanswered()
        for story in self._stories:
            await story.close()
        for group in self._scene.groups:
            for member in group.members:
                member.pending = 0
        await self._restart()

    async def _sleep_until(self, time_s: float, slot_s: float) -> None:
        await asyncio.sleep(time_s - asyncio.get_running_loop().time())
        self._note_lateness(time_s, slot_s)

    def _note_lateness(self, time_s: float, slot_s: float) -> None:
        if self.late_since is None and asyncio.get_running_loop().time() - time_s > MAX_LATENESS * slot_s:
            self.late_since = self._move

    def _steer(self, slot: int) -> None:
        """Let the broker elect the leader that the first broker has elected in the slot after the present one, in each
        group.

        The member ids of these leaders are known, since they joined in an earlier slot.
        """
        if self._steering is None:
            return
        for story, leaders in zip(self._stories, self._followed.leaders, strict=True):
            if slot < len(leaders) and (leader := self._names.id_of(leaders[slot])):
                self._steering.prefer_leader(story.group_id, leader)

    async def _observe(self, number: int, move: CourseMove) -> MoveObservation:
        if self._topics is not None:
            self._names.add_topics(self._topics.ids)
        # These requests take as long as any request that was sent before: their responses are there afterwards.
        groups, offsets, stable_offsets, consumers = await asyncio.gather(
            self._describe(),
            self._fetch(require_stable=False),
            self._fetch(require_stable=True),
            self._describe_consumers(),
        )
        responses = {}
        for earlier in [earlier for earlier, request in sorted(self._pending.items()) if request.sent.is_done]:
            responses[earlier] = self._take(earlier, self._pending.pop(earlier))
        new_member = f"{self._sender}{MOVE_SEPARATOR}{number}"
        return MoveObservation(
            move,
            {earlier: self._names.normalise_response(each, str(earlier)) for earlier, each in responses.items()},
            {**self._take_groups(groups, new_member), **consumers},
            {"offsets": offsets, "stable offsets": stable_offsets},
        )

    def _take(self, number: int, request: CourseRequest) -> Message | BaseException:
        """Pass a response to the member or producer that sent the request, which changes its state, and count it by
        version.

        Returns the response, or the exception if there is none.
        """
        response: Message | BaseException = request.sent.response_or_error()
        exchange = request.sent.exchange
        is_answered = isinstance(response, Message) and not any(error_codes(response))
        self.counts[api_name(exchange.request), exchange.version, is_answered] += 1
        if isinstance(response, JoinGroupResponse):
            self._names.add(response.member_id, f"{exchange.sender}{MOVE_SEPARATOR}{number}")
        if request.member is not None:
            request.member.pending -= 1
            request.member.apply(response)
        if request.producer is not None:
            request.producer.apply(response, self._stories[request.group].group_id)
        return response

    def played(self, observations: list[MoveObservation]) -> PlayedCourse:
        """What a second player has to follow: these observations, with the leaders, topic ids and member ids of this
        broker."""
        topic_ids = {} if self._topics is None else dict(self._topics.ids)
        return PlayedCourse(observations, next_leaders(observations), topic_ids, dict(self._names.member_ids))

    def _count_unanswered(self) -> None:
        for request in self._pending.values():
            self.counts[api_name(request.sent.exchange.request), request.sent.exchange.version, False] += 1
        self._pending.clear()

    async def _describe(self) -> DescribeGroupsResponse | ExpectationFailed:
        request = DescribeGroupsRequest(groups=[story.group_id for story in self._stories])
        try:
            return await self._stories[0].send(request, DescribeGroupsResponse, sender="observer")
        except ExpectationFailed as failure:
            return failure

    async def _describe_consumers(self) -> NormalisedFields:
        """The groups as ConsumerGroupDescribe returns them, if the members of the course speak its protocol."""
        if not self._observes_consumers or self._is_deleting:
            return {}
        request = ConsumerGroupDescribeRequest(group_ids=[story.group_id for story in self._stories])
        try:
            response = await self._stories[0].send(request, ConsumerGroupDescribeResponse, sender="observer")
        except ExpectationFailed as failure:
            return {"failure of ConsumerGroupDescribe": str(failure)}
        for group in self._scene.groups:
            found = [each for each in response.groups if each.group_id == group.story.group_id]
            group.is_of_consumers = any(each.members for each in found)
        return {"consumers": self._names.normalise_response(response)}

    async def _fetch(self, *, require_stable: bool) -> NormalisedFields:
        group_ids = [story.group_id for story in self._stories]
        request = fetch_offsets(
            self._stories[0],
            None,
            version=OBSERVED_FETCH_VERSION,
            require_stable=require_stable,
            group_ids=group_ids,
            sender="observer",
        )
        try:
            return self._names.normalise_offsets(await request)
        except ExpectationFailed as failure:
            return {"failure": str(failure)}

    def _take_groups(self, response: DescribeGroupsResponse | ExpectationFailed, new_member: str) -> NormalisedFields:
        """The state and members of each group in a DescribeGroups response, with names in place of ids.

        A member whose id has no name yet has joined with the move of this slot, and is named after it.
        """
        if isinstance(response, ExpectationFailed):
            return {"failure": str(response)}
        described = {group.group_id: group for group in response.groups}
        observed: NormalisedFields = {}
        for group in self._scene.groups:
            found = described[group.story.group_id]
            group.state = found.group_state
            for member in found.members:
                self._names.add(member.member_id, new_member)
            observed[group.name] = self._names.normalise_group(found)
        return observed

    async def _clean_up(self) -> None:
        """Remove the course's groups, as far as they can be removed: thousands of groups would make ListGroups slow."""
        with suppress(ExpectationFailed, NotObservable, ConnectionLost, ProtocolError, OSError, TimeoutError):
            async with asyncio.timeout(CLEANUP_TIMEOUT_S):
                for group in self._scene.groups:
                    story = group.story
                    ids = [member.member_id for member in (await story.describe()).members]
                    if self._observes_consumers:
                        ids = [member.client.id for member in group.members]
                    if ids:
                        await leave_group(story, *(MemberIdentity(member_id=each) for each in ids))
                    await story.send(DeleteGroupsRequest(groups_names=[story.group_id]), DeleteGroupsResponse)
                if self._topics is not None:
                    await self._topics.delete_all()
