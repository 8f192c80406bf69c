"""Random requests about one group with members of both protocols, which migrates back and forth.

A classic member has a connection of its own to each broker, because its JoinGroup or SyncGroup may be held. Member ids
are the same on all brokers: those that the first one gives. Which member leads a classic group is not compared: Kafka
takes any. So members of a classic group fetch their assignments together, and each of them sends the same ones; and a
subscription has other user data in each JoinGroup, so that every JoinGroup starts a rebalance, whoever sends it.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from regroup.protocol.client import ClientConnection
from regroup.protocol.consumer.subscription import (
    Assignment,
    Subscription,
    TopicPartition,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from regroup.protocol.errors import ErrorCode
from regroup.protocol.java_order import java_string_hash
from regroup.protocol.message import Message
from regroup.protocol.messages import describe as d
from regroup.protocol.messages import group as g
from regroup.protocol.messages import offsets as o
from regroup.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest
from tests.conformance.consumer_groups.random_requests import Course, Difference, Named

E = ErrorCode
CLASSIC_MEMBERS = ("c1", "c2", "c3")
CONSUMERS = ("m1", "m2", "m3")
SETTLE_S, GIVE_UP_S = 0.03, 20.0
TIMEOUT_MS = 60_000
ANY_OF_BOTH = ["describe", "list", "leave-group"]
ACTIONS_OF_CONSUMERS = ["heartbeat"] * 10 + ["join"] * 3 + ["subscribe", "leave", "leave", "away", "commit", "fetch"]


class UnlikeOrder(Exception):
    """From here on the brokers need not assign alike: they have given a member different ids, or two ids share a
    bucket of a hash map, where the order of insertion decides."""


def bucket_of(member_id: str) -> int:
    """The bucket of an id in a Java hash map of at most 12 keys."""
    code = java_string_hash(member_id) & 0xFFFFFFFF
    return (code ^ code >> 16) & 15


@dataclass
class ClassicMember:
    """What a member of the classic protocol has learnt."""

    instance_id: str | None
    member_id: str = ""
    generation: int = -1
    protocol: str | None = None
    leader: str = ""
    owned: Named = field(default_factory=dict)
    needs: str = "join"
    """Its next request: join, sync or heartbeat."""
    pending: list["asyncio.Future[Message]"] = field(default_factory=list)


class MixedCourse(Course):
    """As `Course`, with classic members. `connections` has, for each of them, one to each broker."""

    def __init__(
        self,
        seed: int,
        name: str,
        topic_ids: dict[str, bytes],
        clients: Sequence[ClientConnection],
        connections: dict[str, Sequence[ClientConnection]],
        draw_next: Any,
    ) -> None:
        super().__init__(seed, name, topic_ids)
        self._clients, self._connections, self._draw_next = clients, connections, draw_next
        instances = (None, None, None, "i1", "i2")
        self._classic = {each: ClassicMember(self._random.choice(instances)) for each in CLASSIC_MEMBERS}
        self._joins = 0
        self._ids_given = set(CONSUMERS)
        self.log: list[str] = []

    async def play_to_end(self, steps: int) -> Difference | None:
        """The first difference, if there is one that the order of a hash map cannot explain. Raises UnlikeOrder."""
        difference = await self.play_mixed(steps)
        if difference and len(set(map(bucket_of, self._ids_given))) < len(self._ids_given):
            raise UnlikeOrder
        return difference

    async def play_mixed(self, steps: int) -> Difference | None:
        """The first difference, if there is one. Raises UnlikeOrder."""
        for step in range(steps):
            answers: list[Any]
            if self._random.random() < 0.5:
                request, version = self._consumer_request()
                responses = [await client.send(request, version) for client in self._clients]
                answers = [self._comparable(each) for each in responses]
                if isinstance(request, ConsumerGroupHeartbeatRequest):
                    self._learn(self._members[request.member_id], request.member_epoch, answers[0])
                self.log.append(f"{request!r} -> {answers[0]}")
            else:
                name = self._random.choice(CLASSIC_MEMBERS)
                request, answers = await self._classic_step(name)
            if any(each != answers[0] for each in answers):
                return Difference(step, f"{request!r}", answers)
            if difference := await self._settle(step):
                return difference
        return None

    def _consumer_request(self) -> tuple[Any, int]:
        member_id = self._random.choice(CONSUMERS)
        action = self._random.choice([*ACTIONS_OF_CONSUMERS, *ANY_OF_BOTH])
        if action == "leave-group":
            ids = [each.member_id or "zz" for each in self._classic.values()] + [member_id]
            leaving = [g.MemberIdentity(member_id=self._random.choice(ids)) for _ in range(2)]
            return g.LeaveGroupRequest(group_id=self._group, members=leaving), 5
        return self._request(action, member_id)

    # Classic members

    async def _classic_step(self, name: str) -> tuple[Any, list[Any]]:
        member, random = self._classic[name], self._random
        if member.pending:
            return await self._ask(self._heartbeat_of(member, member.generation))
        if random.random() < 0.12:
            return await self._mistake(member)
        if random.random() < 0.05 and member.member_id:
            leaving = g.MemberIdentity(member_id=member.member_id, group_instance_id=member.instance_id)
            self._classic[name] = ClassicMember(member.instance_id)
            return await self._ask(g.LeaveGroupRequest(group_id=self._group, members=[leaving]), 5)
        if random.random() < 0.08 and member.instance_id is not None:
            member = self._classic[name] = ClassicMember(member.instance_id)
        if member.needs == "heartbeat" and random.random() < 0.2:
            return await self._ask(*self._commit_of(member))
        if member.needs == "heartbeat" and random.random() < 0.15:
            member.needs = "join"
        if member.needs == "join":
            return await self._join(name, member)
        if member.needs == "sync":
            return await self._sync(name)
        request, codes = await self._ask(self._heartbeat_of(member, member.generation))
        self._learn_code(member, codes[0])
        return request, codes

    async def _ask(self, request: Any, version: int = 4) -> tuple[Any, list[Any]]:
        answers = [self._answer(await client.send(request, version)) for client in self._clients]
        self.log.append(f"{request!r} -> {answers[0]}")
        return request, answers

    def _heartbeat_of(self, member: ClassicMember, generation: int) -> g.HeartbeatRequest:
        return g.HeartbeatRequest(
            group_id=self._group,
            generation_id=generation,
            member_id=member.member_id,
            group_instance_id=member.instance_id,
        )

    async def _mistake(self, member: ClassicMember) -> tuple[Any, list[Any]]:
        random = self._random
        generation = random.choice([member.generation - 1, member.generation + 1, 0, member.generation])
        if random.random() < 0.5:
            strange = ClassicMember(random.choice([None, "i1", "i9"]), random.choice([member.member_id, "zz", "m1"]))
            return await self._ask(self._heartbeat_of(strange, generation))
        wrong = {"generation_id": member.generation + 7, "protocol_name": random.choice(["other", "range"])}
        return await self._ask(replace(self._sync_request(member), **wrong), 5)

    async def _join(self, name: str, member: ClassicMember) -> tuple[Any, list[Any]]:
        """The first broker gives the member id, and regroup is made to draw it too."""
        random, self._joins = self._random, self._joins + 1
        subscription = Subscription(
            3,
            tuple(each for each in self._subscription() if each != "missing"),
            user_data=str(self._joins).encode(),
            owned_partitions=tuple(named(member.owned)),
        )
        metadata = encode_subscription(subscription)
        assignors = random.choice([["range"], ["range"], ["range", "roundrobin"], ["roundrobin", "range"], ["sticky"]])
        request = g.JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=TIMEOUT_MS,
            rebalance_timeout_ms=TIMEOUT_MS,
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            protocol_type="consumer",
            protocols=[g.JoinGroupRequestProtocol(name=each, metadata=metadata) for each in assignors],
        )
        theirs, ours = self._connections[name]
        first = theirs.post(request, 9)
        await asyncio.wait([first], timeout=SETTLE_S)
        if not member.member_id:
            if not first.done():
                raise UnlikeOrder
            self._draw_next(first.result().member_id)  # type: ignore[attr-defined]
        member.pending = [first, ours.post(request, 9)]
        self.log.append(f"{name} joins: {request!r}")
        return request, [None]

    async def _sync(self, name: str) -> tuple[Any, list[Any]]:
        """All members of a classic generation together, since any of them may lead."""
        together = [name]
        if self._classic[name].leader:
            together = [
                each for each, it in self._classic.items() if it.needs == "sync" and it.leader and not it.pending
            ]
        for each in together:
            request = self._sync_request(self._classic[each])
            self._classic[each].pending = [it.post(request, 5) for it in self._connections[each]]
            self.log.append(f"{each} syncs: {request!r}")
        return "SyncGroup", [None]

    def _sync_request(self, member: ClassicMember) -> g.SyncGroupRequest:
        known = [each for each in self._classic.values() if each.member_id]
        user_data = b"custom" if self._joins % 11 == 10 else None
        assignments = []
        for index, each in enumerate(known):
            share = [TopicPartition(topic, it) for topic in self._topics for it in range(index, 7, len(known))]
            share = [it for it in share if it.partition < 3]
            data = encode_assignment(Assignment(3, tuple(share), user_data))
            assignments.append(g.SyncGroupRequestAssignment(member_id=each.member_id, assignment=data))
        return g.SyncGroupRequest(
            group_id=self._group,
            generation_id=member.generation,
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            protocol_type="consumer",
            protocol_name=member.protocol or "range",
            assignments=assignments,
        )

    def _commit_of(self, member: ClassicMember) -> tuple[Any, int]:
        topic = o.OffsetCommitRequestTopic(
            name=self._random.choice(self._topics),
            partitions=[o.OffsetCommitRequestPartition(partition_index=self._random.randrange(3), committed_offset=1)],
        )
        generation = member.generation + self._random.choice([0, 0, -1, 1])
        request = o.OffsetCommitRequest(
            group_id=self._group,
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            generation_id_or_member_epoch=generation,
            topics=[topic],
        )
        return request, self._random.choice([8, 9])

    # Responses that were held

    async def _settle(self, step: int) -> Difference | None:
        """Wait until all brokers have answered the same requests, and compare the answers."""
        waited = 0.0
        while any(each.pending for each in self._classic.values()):
            await asyncio.sleep(SETTLE_S)
            waited += SETTLE_S
            states = [[it.done() for it in each.pending] for each in self._classic.values() if each.pending]
            if all(len(set(each)) == 1 for each in states):
                break
            if waited > GIVE_UP_S:
                return Difference(step, "held on one broker only", states)
        for name, member in self._classic.items():
            if not member.pending or not member.pending[0].done():
                continue
            responses = [each.result() for each in member.pending]
            member.pending = []
            answers = [self._answer(each) for each in responses]
            self.log.append(f"{name} <- {answers[0]}")
            if any(each != answers[0] for each in answers):
                return Difference(step, f"the request of {name}", answers)
            self._learn_response(member, responses)
        return None

    def _learn_response(self, member: ClassicMember, responses: Sequence[Any]) -> None:
        response = responses[0]
        if isinstance(response, g.JoinGroupResponse):
            if response.error_code in (E.NONE, E.MEMBER_ID_REQUIRED):
                member.member_id = response.member_id
                self._ids_given.add(response.member_id)
                if len({each.member_id for each in responses}) > 1:
                    raise UnlikeOrder
            if response.error_code == E.NONE:
                member.generation, member.needs = response.generation_id, "sync"
                member.protocol, member.leader = response.protocol_name, response.leader
                return
        elif response.error_code == E.NONE:
            member.needs, member.owned = "heartbeat", owned_by(response.assignment)
            return
        member.needs = "join"
        self._learn_code(member, response.error_code)

    def _learn_code(self, member: ClassicMember, code: int) -> None:
        if code in (E.REBALANCE_IN_PROGRESS, E.ILLEGAL_GENERATION):
            member.needs = "join"
            if self._random.random() < 0.5:
                member.owned = {each: indexes[::2] for each, indexes in member.owned.items() if indexes[::2]}
        elif code in (E.UNKNOWN_MEMBER_ID, E.FENCED_INSTANCE_ID):
            member.member_id, member.generation, member.owned, member.needs = "", -1, {}, "join"

    def _answer(self, response: Any) -> Any:
        if isinstance(response, g.JoinGroupResponse):
            is_led = bool(response.leader)
            return response.error_code, response.generation_id, response.protocol_type, response.protocol_name, is_led
        if isinstance(response, g.SyncGroupResponse):
            return response.error_code, response.protocol_name, owned_by(response.assignment)
        if isinstance(response, g.HeartbeatResponse):
            return response.error_code
        return self._comparable(response)

    def _comparable(self, response: Any) -> Any:
        if isinstance(response, d.ListGroupsResponse):
            own = [each for each in response.groups if each.group_id == self._group]
            return [(each.protocol_type, each.group_state, each.group_type) for each in own]
        return super()._comparable(response)


def named(owned: Named) -> list[TopicPartition]:
    return [TopicPartition(topic, index) for topic, indexes in owned.items() for index in indexes]


def owned_by(assignment: bytes) -> Named:
    owned: Named = {}
    for topic, index in decode_assignment(assignment).partitions if assignment else ():
        owned.setdefault(topic, []).append(index)
    return {topic: sorted(owned[topic]) for topic in sorted(owned)}
