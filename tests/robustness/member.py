"""A consumer that retries after every failure, and keeps what each response has acknowledged."""

import asyncio
import time
from base64 import b64decode
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

from regroup.conformance.harness.message_types import response_as
from regroup.members.consumer import requests
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.consumer.state import MemberGeneration
from regroup.protocol.client import ClientConnection, ConnectionLost
from regroup.protocol.consumer.subscription import Subscription, TopicPartition, encode_subscription
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.messages.group import (
    HeartbeatResponse,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from regroup.protocol.messages.offsets import OffsetCommitResponse

GROUP = "payments"
TOPIC = "orders"
RETRY_DELAY_S = 0.02
RESPONSE_TIMEOUT_S = 40.0
"""A test that waits longer has failed, also on a busy machine."""
RANGE = JoinGroupRequestProtocol(name="range", metadata=encode_subscription(Subscription(1, (TOPIC,))))
RETRIABLE_CODES = (E.COORDINATOR_LOAD_IN_PROGRESS, E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR)


class Acknowledgement(NamedTuple):
    """An event that must be stored, because a response has acknowledged it."""

    event: str
    """The event's type."""
    facts: Mapping[str, Any]
    """Values that the stored event must contain, by the names that `facts_of` uses."""


class RejoinRequired(Exception):
    """The member must join again."""


class RetryingMember:
    """Joins, syncs, sends heartbeats and commits until it is cancelled; it connects and joins again when it must.

    After `leaves_after` heartbeats it leaves the group, and joins again as a new member.
    """

    def __init__(
        self,
        name: str,
        address: str,
        *,
        group: str = GROUP,
        partition: int = 0,
        session_timeout_ms: int = 3_000,
        leaves_after: int | None = None,
    ) -> None:
        self.name, self.group = name, group
        self.partition = TopicPartition(TOPIC, partition)
        self.settings = ConsumerSettings(
            group_id=group,
            session_timeout_ms=session_timeout_ms,
            heartbeat_interval_ms=1,
            max_poll_interval_ms=session_timeout_ms,
        )
        self.leaves_after = leaves_after
        self.host, _, port = address.rpartition(":")
        self.port = int(port)
        self.generation = MemberGeneration()
        self.assignment = b""
        self.committed = 0
        self.acknowledged: list[Acknowledgement] = []
        self.codes: list[E] = []
        self.heartbeats = 0
        self.slowest_heartbeat_s = 0.0

    @property
    def id(self) -> str:
        """The member id; empty while it has none."""
        return self.generation.member_id

    @property
    def generations(self) -> list[int]:
        """The generation ids of all successful joins."""
        return [each.facts["generation_id"] for each in self.acknowledged if each.event == "generation-started"]

    async def run(self) -> None:
        """Connect and take part in the group until cancelled."""
        while True:
            with suppress(OSError, ConnectionLost, TimeoutError):
                connection = await ClientConnection.open(self.host, self.port)
                try:
                    await self._take_part(connection)
                finally:
                    await connection.close()
            await asyncio.sleep(RETRY_DELAY_S)

    async def _take_part(self, connection: ClientConnection) -> None:
        while True:
            try:
                await self._join(connection)
                await self._sync(connection)
                await self._stay(connection)
            except RejoinRequired:
                await asyncio.sleep(0)

    async def _send(self, connection: ClientConnection, request: Any, version: int) -> Any:
        async with asyncio.timeout(RESPONSE_TIMEOUT_S):
            return await connection.send(request, version, self.name)

    def _check(self, code: int) -> None:
        """Note the error code. Raises RejoinRequired unless it is 0."""
        self.codes.append(E(code))
        if code in (E.UNKNOWN_MEMBER_ID, E.FENCED_INSTANCE_ID):
            self.generation = MemberGeneration()
        if code:
            raise RejoinRequired

    async def _join(self, connection: ClientConnection) -> None:
        request = requests.join_group(self.settings, self.generation, [RANGE], "")
        response = response_as(JoinGroupResponse, await self._send(connection, request, 9))
        if response.error_code == E.MEMBER_ID_REQUIRED:
            self.generation = MemberGeneration(member_id=response.member_id)
            self._note("pending-member-added", member_id=self.id)
        elif response.error_code in RETRIABLE_CODES:
            await asyncio.sleep(RETRY_DELAY_S)
        self._check(response.error_code)
        self.generation = MemberGeneration(response.generation_id, response.member_id, response.protocol_name)
        self.led = [each.member_id for each in response.members]
        self._note("generation-started", generation_id=response.generation_id, leader_id=response.leader)

    async def _sync(self, connection: ClientConnection) -> None:
        assignments = [
            SyncGroupRequestAssignment(member_id=each, assignment=f"{each} in {self.generation.generation_id}".encode())
            for each in self.led
        ]
        request = requests.sync_group(self.settings, self.generation, assignments)
        response = response_as(SyncGroupResponse, await self._send(connection, request, 5))
        self._check(response.error_code)
        self.assignment = response.assignment
        self._note("assignment-written", assignment=(self.id, self.assignment.decode()))

    async def _stay(self, connection: ClientConnection) -> None:
        heartbeats = 0
        while heartbeats != self.leaves_after:
            await self._heartbeat(connection)
            await self._commit(connection)
            heartbeats += 1
            await asyncio.sleep(RETRY_DELAY_S)
        await self._leave(connection)

    async def _heartbeat(self, connection: ClientConnection) -> None:
        request = requests.heartbeat(self.settings, self.generation)
        sent_s = time.monotonic()
        response = response_as(HeartbeatResponse, await self._send(connection, request, 4))
        self.slowest_heartbeat_s = max(self.slowest_heartbeat_s, time.monotonic() - sent_s)
        self._check(response.error_code)
        self.heartbeats += 1

    async def _commit(self, connection: ClientConnection) -> None:
        """Commit the next offset; each one is unique, since no other member commits for this partition."""
        offset = self.committed + 1
        request = requests.offset_commit(self.settings, self.generation, {self.partition: offset})
        response = response_as(OffsetCommitResponse, await self._send(connection, request, 9))
        code = E(response.topics[0].partitions[0].error_code)
        if code in RETRIABLE_CODES:
            self.codes.append(code)
            return
        self._check(code)
        self.committed = offset
        self._note("offsets-committed", offset=(self.partition.partition, offset))

    async def _leave(self, connection: ClientConnection) -> None:
        request = LeaveGroupRequest(group_id=self.group, members=[MemberIdentity(member_id=self.id)])
        response = response_as(LeaveGroupResponse, await self._send(connection, request, 5))
        self._check(response.error_code or response.members[0].error_code)
        self._note("member-left", member_id=self.id)
        self.generation = MemberGeneration()
        raise RejoinRequired

    def _note(self, event: str, **facts: Any) -> None:
        self.acknowledged.append(Acknowledgement(event, facts))


@asynccontextmanager
async def running(*members: RetryingMember) -> AsyncIterator[None]:
    """Run the members until the end of the block. An exception in one of them fails the test."""
    tasks = [asyncio.create_task(each.run(), name=each.name) for each in members]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, Exception):
                raise outcome


async def wait_until(condition: Callable[[], object], what: str, seconds: float = RESPONSE_TIMEOUT_S) -> None:
    """Let the members run until the condition holds; `what` is named if it never does."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds:g} s for {what}"
        await asyncio.sleep(RETRY_DELAY_S)


def missing(acknowledged: list[Acknowledgement], events: list[Mapping[str, Any]]) -> Iterator[Acknowledgement]:
    """The acknowledgements that no stored event confirms."""
    stored = {fact for event in events for fact in facts_of(event)}
    for each in acknowledged:
        if any((each.event, name, value) not in stored for name, value in each.facts.items()):
            yield each


def facts_of(event: Mapping[str, Any]) -> Iterator[tuple[str, str, object]]:
    """The values of an event that an acknowledgement can contain, with its type and their names."""
    kind = event["type"]
    for name in ("member_id", "generation_id", "leader_id"):
        if name in event:
            yield kind, name, event[name]
    for member_id, assignment in event.get("assignments", {}).items():
        yield kind, "assignment", (member_id, b64decode(assignment).decode())
    if kind == "offsets-committed":
        for rows in event["offsets"].values():
            for partition, row in rows.items():
                yield kind, "offset", (int(partition), row["offset"])
