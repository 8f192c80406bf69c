"""Members of one group of the consumer protocol, thousands of them on a few shared connections, for `to_stable.py`.

Each member has one request in flight, sends a heartbeat once an interval, and says at once what it owns when its
assignment has changed, as a client does that revokes and takes over without delay.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Final, cast

from regroup.protocol.errors import ErrorCode
from regroup.protocol.frames import FrameReader, decode_response, encode_request
from regroup.protocol.header import RequestHeader
from regroup.protocol.messages.consumer_group import (
    ConsumerGroupAssignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupTopicPartitions,
)

VERSION: Final = 1
TOPICS: Final = ("large-0", "large-1")
"""Two, because one request creates fewer than 10,000 partitions."""
LEAVE_EPOCH: Final = -1
REBALANCE_TIMEOUT_MS: Final = 60_000
RETRIED: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


class SharedConnection(asyncio.Protocol):
    """A connection on which many members have requests in flight. The broker answers them in order."""

    def __init__(self) -> None:
        self._reader = FrameReader()
        self._waiting: deque[Callable[[ConsumerGroupHeartbeatResponse], None]] = deque()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def send(
        self, request: ConsumerGroupHeartbeatRequest, on_response: Callable[[ConsumerGroupHeartbeatResponse], None]
    ) -> None:
        self._waiting.append(on_response)
        self._transport.write(encode_request(RequestHeader(request.api_key, VERSION, 1, "bench"), request))

    def data_received(self, data: bytes) -> None:
        for frame in self._reader.feed(data):
            response = decode_response(ConsumerGroupHeartbeatRequest.api_key, VERSION, frame)[1]
            assert isinstance(response, ConsumerGroupHeartbeatResponse)
            self._waiting.popleft()(response)

    def close(self) -> None:
        self._transport.abort()


class ConsumerMember:
    """A member: what it knows of itself, and its next heartbeat."""

    def __init__(self, group: "ConsumerGroup", number: int, connection: SharedConnection) -> None:
        self.group, self.connection = group, connection
        self.member_id = f"{group.group_id}-{number:012}"
        self.epoch = 0
        self.assigned: list[ConsumerGroupTopicPartitions] = []
        self.has_left = False

    def request(self, *, is_report: bool = False) -> ConsumerGroupHeartbeatRequest:
        """The next request: a join, a report of what it owns, or a heartbeat that says nothing new."""
        if not self.epoch:
            return ConsumerGroupHeartbeatRequest(
                group_id=self.group.group_id,
                member_id=self.member_id,
                member_epoch=0,
                rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
                subscribed_topic_names=[*TOPICS],
                topic_partitions=[],
            )
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            topic_partitions=self.assigned if is_report else None,
        )

    def send(self, *, is_report: bool = False) -> None:
        if not self.has_left:
            self.group.exchanges += 1
            self.connection.send(self.request(is_report=is_report), self.on_response)

    def on_response(self, response: ConsumerGroupHeartbeatResponse) -> None:
        code = ErrorCode(response.error_code)
        if code is ErrorCode.NONE:
            before, self.epoch = self.epoch, response.member_epoch
            changed = response.assignment is not None and response.assignment.topic_partitions != self.assigned
            self.group.note(self, before, response.assignment)
            if changed:
                self.send(is_report=True)
                return
        elif code not in RETRIED:
            self.group.fail(f"{code.name}: {response.error_message}")
            return
        self.group.later(self)

    def leave(self) -> None:
        self.epoch, before = LEAVE_EPOCH, self.epoch
        self.group.exchanges += 1
        self.connection.send(self.request(), lambda _: None)
        self.has_left = True
        self.group.forget(self, before)


class ConsumerGroup:
    """All members of one group. It has converged when they are at one epoch and own every partition once."""

    def __init__(self, group_id: str, partitions: int, interval_s: float) -> None:
        self.group_id, self.partitions, self.interval_s = group_id, partitions, interval_s
        self.exchanges = 0
        self.members: list[ConsumerMember] = []
        self._epochs: Counter[int] = Counter()
        self._owned = 0
        self._converged: asyncio.Future[None] | None = None
        self._is_paused = False

    async def converge(self, begin: Callable[[], object]) -> None:
        """Begin something that makes the target out of date, and wait until the group has converged again."""
        self._converged = asyncio.get_running_loop().create_future()
        begin()
        await self._converged

    def note(self, member: ConsumerMember, before: int, assignment: ConsumerGroupAssignment | None) -> None:
        """Count a member's epoch and partitions."""
        if before:
            self._epochs[before] -= 1
        self._epochs[member.epoch] += 1
        if assignment is not None:
            self._owned += count(assignment.topic_partitions) - count(member.assigned)
            member.assigned = assignment.topic_partitions
        is_even = self._epochs[member.epoch] == len(self.members) and self._owned == self.partitions
        if is_even and self._converged and not self._converged.done() and self._is_balanced():
            self._converged.set_result(None)

    def forget(self, member: ConsumerMember, epoch: int) -> None:
        self.members.remove(member)
        self._epochs[epoch] -= 1
        self._owned -= count(member.assigned)

    def _is_balanced(self) -> bool:
        """Whether every partition has one owner, and every member its share."""
        owned = [
            (topic.topic_id, index) for each in self.members for topic in each.assigned for index in topic.partitions
        ]
        least = self.partitions // len(self.members)
        return len(owned) == len(set(owned)) and all(count(each.assigned) >= least for each in self.members)

    def close(self) -> None:
        self._is_paused = True
        for connection in {each.connection for each in self.members}:
            connection.close()

    def later(self, member: ConsumerMember) -> None:
        if not self._is_paused:
            asyncio.get_running_loop().call_later(self.interval_s, self._send_unless_paused, member)

    def _send_unless_paused(self, member: ConsumerMember) -> None:
        if not self._is_paused:
            member.send()

    def fail(self, why: str) -> None:
        if self._converged and not self._converged.done():
            self._converged.set_exception(RuntimeError(why))

    def begin(self) -> None:
        for member in self.members:
            member.send()

    def one_leaves(self) -> None:
        self.members[-1].leave()

    def stop(self) -> None:
        """Send no more heartbeats. Those that are on their way are still answered."""
        self._is_paused = True

    async def unchanged_heartbeats(self, seconds: float) -> int:
        """Send heartbeats that change nothing for some time, one in flight on each connection; returns how many."""
        loop = asyncio.get_running_loop()
        end_s, sent = loop.time() + seconds, 0

        async def on_one(connection: SharedConnection, turns: Iterator[ConsumerMember]) -> None:
            nonlocal sent
            for member in turns:
                answered: asyncio.Future[ConsumerGroupHeartbeatResponse] = loop.create_future()
                connection.send(member.request(), answered.set_result)
                response = await answered
                assert not response.error_code, response.error_message
                assert response.assignment is None, "the group has not converged"
                sent += 1
                if loop.time() > end_s:
                    return

        connections = {each.connection for each in self.members}
        await asyncio.gather(
            *(on_one(each, in_turn([it for it in self.members if it.connection is each])) for each in connections)
        )
        return sent


def in_turn(members: list[ConsumerMember]) -> Iterator[ConsumerMember]:
    while True:
        yield from members


def count(partitions: list[ConsumerGroupTopicPartitions]) -> int:
    return sum(len(each.partitions) for each in partitions)
