"""A consumer on a raw connection that keeps going whatever happens, and remembers every answer that it was given."""

import asyncio
import time
from base64 import b64decode
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

from regroup.conformance.harness.connection import Connection, ConnectionLost, answer_as
from regroup.members.consumer import requests
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.consumer.state import Generation
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
PAUSE_S = 0.02
ANSWERED_WITHIN_S = 40.0
"""A test that waits longer has failed; a busy machine has not."""
RANGE = JoinGroupRequestProtocol(name="range", metadata=encode_subscription(Subscription(1, (TOPIC,))))
NOT_NOW = (E.COORDINATOR_LOAD_IN_PROGRESS, E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR)


class Acknowledged(NamedTuple):
    """Something that the coordinator promised: the event by its name, and what it must hold."""

    event: str
    facts: Mapping[str, Any]


class JoinAgain(Exception):
    """The group moved on without us."""


class Member:
    """Joins, syncs, beats and commits until it is cancelled; it connects and joins again as often as it must.

    `leaves_after` so many heartbeats it says goodbye and comes back as somebody new.
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
        self.generation = Generation()
        self.share = b""
        self.committed = 0
        self.acknowledged: list[Acknowledged] = []
        self.codes: list[E] = []
        self.heartbeats = 0
        self.slowest_heartbeat_s = 0.0

    @property
    def id(self) -> str:
        """Its member id; empty while it has none."""
        return self.generation.member_id

    @property
    def generations(self) -> list[int]:
        """Of every join that was answered."""
        return [each.facts["generation"] for each in self.acknowledged if each.event == "generation-started"]

    async def live(self) -> None:
        """Take part for ever."""
        while True:
            with suppress(OSError, ConnectionLost, TimeoutError):
                connection = await Connection.open(self.host, self.port)
                try:
                    await self._take_part(connection)
                finally:
                    await connection.close()
            await asyncio.sleep(PAUSE_S)

    async def _take_part(self, connection: Connection) -> None:
        while True:
            try:
                await self._join(connection)
                await self._sync(connection)
                await self._stay(connection)
            except JoinAgain:
                await asyncio.sleep(0)

    async def _ask(self, connection: Connection, request: Any, version: int) -> Any:
        async with asyncio.timeout(ANSWERED_WITHIN_S):
            return await connection.ask(request, version, self.name)

    def _go_on(self, code: int) -> None:
        """Code 0 goes on; every other one means to join again, some under a new name."""
        self.codes.append(E(code))
        if code in (E.UNKNOWN_MEMBER_ID, E.FENCED_INSTANCE_ID):
            self.generation = Generation()
        if code:
            raise JoinAgain

    async def _join(self, connection: Connection) -> None:
        request = requests.join_group(self.settings, self.generation, [RANGE], "")
        answer = answer_as(JoinGroupResponse, await self._ask(connection, request, 9))
        if answer.error_code == E.MEMBER_ID_REQUIRED:
            self.generation = Generation(member_id=answer.member_id)
            self._note("member-id-given", member=self.id)
        elif answer.error_code in NOT_NOW:
            await asyncio.sleep(PAUSE_S)
        self._go_on(answer.error_code)
        self.generation = Generation(answer.generation_id, answer.member_id, answer.protocol_name)
        self.led = [each.member_id for each in answer.members]
        self._note("generation-started", generation=answer.generation_id, leader=answer.leader)

    async def _sync(self, connection: Connection) -> None:
        shares = [
            SyncGroupRequestAssignment(member_id=each, assignment=f"{each} in {self.generation.number}".encode())
            for each in self.led
        ]
        request = requests.sync_group(self.settings, self.generation, shares)
        answer = answer_as(SyncGroupResponse, await self._ask(connection, request, 5))
        self._go_on(answer.error_code)
        self.share = answer.assignment
        self._note("assignment-written", share=(self.id, self.share.decode()))

    async def _stay(self, connection: Connection) -> None:
        beats = 0
        while beats != self.leaves_after:
            await self._beat(connection)
            await self._commit(connection)
            beats += 1
            await asyncio.sleep(PAUSE_S)
        await self._leave(connection)

    async def _beat(self, connection: Connection) -> None:
        request = requests.heartbeat(self.settings, self.generation)
        asked_s = time.monotonic()
        answer = answer_as(HeartbeatResponse, await self._ask(connection, request, 4))
        self.slowest_heartbeat_s = max(self.slowest_heartbeat_s, time.monotonic() - asked_s)
        self._go_on(answer.error_code)
        self.heartbeats += 1

    async def _commit(self, connection: Connection) -> None:
        """Each commit is told from every other by its offset: nobody else commits for this partition."""
        offset = self.committed + 1
        request = requests.offset_commit(self.settings, self.generation, {self.partition: offset})
        answer = answer_as(OffsetCommitResponse, await self._ask(connection, request, 9))
        code = E(answer.topics[0].partitions[0].error_code)
        if code in NOT_NOW:
            self.codes.append(code)
            return
        self._go_on(code)
        self.committed = offset
        self._note("offsets-committed", offset=(self.partition.partition, offset))

    async def _leave(self, connection: Connection) -> None:
        request = LeaveGroupRequest(group_id=self.group, members=[MemberIdentity(member_id=self.id)])
        answer = answer_as(LeaveGroupResponse, await self._ask(connection, request, 5))
        self._go_on(answer.error_code or answer.members[0].error_code)
        self._note("member-left", member=self.id)
        self.generation = Generation()
        raise JoinAgain

    def _note(self, event: str, **facts: Any) -> None:
        self.acknowledged.append(Acknowledged(event, facts))


@asynccontextmanager
async def living(*members: Member) -> AsyncIterator[None]:
    """They live as long as the block lasts. A member that fails, fails the test."""
    tasks = [asyncio.create_task(each.live(), name=each.name) for each in members]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, Exception):
                raise outcome


async def until(holds: Any, what: str, seconds: float = ANSWERED_WITHIN_S) -> None:
    """Let everybody go on until this is so."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"waited {seconds:g} s for {what}"
        await asyncio.sleep(PAUSE_S)


def missing(acknowledged: list[Acknowledged], events: list[Mapping[str, Any]]) -> Iterator[Acknowledged]:
    """What was promised and is in none of the stored events."""
    kept = {fact for event in events for fact in facts_of(event)}
    for each in acknowledged:
        if any((each.event, name, value) not in kept for name, value in each.facts.items()):
            yield each


def facts_of(event: Mapping[str, Any]) -> Iterator[tuple[str, str, object]]:
    """An event's part in every promise that could be made of it."""
    kind = event["type"]
    for name in ("member", "generation", "leader"):
        if name in event:
            yield kind, name, event[name]
    for member, share in event.get("assignment", {}).items():
        yield kind, "share", (member, decoded(share))
    if kind == "offsets-committed":
        for rows in event["offsets"].values():
            for partition, row in rows.items():
                yield kind, "offset", (int(partition), row["offset"])


def decoded(base64_text: str) -> str:
    return b64decode(base64_text).decode()
