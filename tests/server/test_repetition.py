"""Heartbeats that come again byte for byte: answered without being read, and never differently for it."""

import asyncio
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from regroup.coordinator.commands import DeadlineKind
from regroup.coordinator.runtime.group_coordinator import GroupCoordinator
from regroup.coordinator.settings import Settings
from regroup.protocol.errors import ErrorCode
from regroup.protocol.frames import decode_response
from regroup.protocol.messages.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
)
from regroup.server.broker_cluster import Emulator
from regroup.server.clock import Clock
from regroup.server.net.cached_response import Repetition
from regroup.storage.memory import MemoryStore
from tests.server.client import Client


class Beating:
    """Anna is alone in a Stable group of a running emulator; the time is what the test says."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.emulator = Emulator(
            MemoryStore().open,
            clock=Clock(started_at_ms=1_700_000_000_000, monotonic_s=lambda: self.seconds),
            new_uuid=uuid4,
            settings=Settings(group_initial_rebalance_delay_ms=0),
        )

    async def begin(self) -> None:
        await self.emulator.start()
        self.client, self.other = await self.connect(), await self.connect()
        self.anna = (await self.client.call(join_request(), 3)).member_id
        await self.client.call(SyncGroupRequest(group_id="g", generation_id=1, member_id=self.anna), 3)

    @property
    def coordinator(self) -> GroupCoordinator:
        return self.emulator.shares.coordinators[0]

    async def connect(self) -> Client:
        return Client(*await asyncio.open_connection(*self.emulator.address))

    async def beats(self, times: int = 1) -> list[tuple[int, int]]:
        """The code of each answer, and how far its correlation id lies behind the first."""
        request = HeartbeatRequest(group_id="g", generation_id=1, member_id=self.anna)
        sent = [self.client.send(request, 4) for _ in range(times)]
        answers = [decode_response(12, 4, await self.client.frame()) for _ in sent]
        return [(answer.error_code, id_ - sent[0]) for id_, answer in answers]

    def session_ends_at_ms(self) -> int:
        deadline = self.coordinator._next_deadline("g")
        assert deadline is not None
        assert deadline.kind is DeadlineKind.SESSION
        return deadline.at_ms - 1_700_000_000_000


def join_request() -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=protocols,
    )


@pytest.fixture
async def beating() -> AsyncIterator[Beating]:
    group = Beating()
    await group.begin()
    yield group
    await group.client.close()
    await group.other.close()
    await group.emulator.close()


async def test_each_of_a_hundred_equal_heartbeats_has_an_answer_of_its_own(beating: Beating) -> None:
    assert await beating.beats(100) == [(0, place) for place in range(100)]


async def test_a_repeated_heartbeat_is_a_sign_of_life(beating: Beating) -> None:
    await beating.beats(2)
    beating.seconds = 7.0
    await beating.beats()
    assert beating.session_ends_at_ms() == 17_000


async def test_the_same_heartbeat_hears_of_a_rebalance(beating: Beating) -> None:
    await beating.beats(2)
    beating.other.send(join_request(), 3)
    while beating.coordinator.group("g").join_phase is None:
        await beating.beats()
    assert await beating.beats(2) == [(ErrorCode.REBALANCE_IN_PROGRESS, 0), (ErrorCode.REBALANCE_IN_PROGRESS, 1)]


async def test_the_same_heartbeat_hears_that_its_member_was_removed(beating: Beating) -> None:
    await beating.beats(2)
    await beating.other.call(LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=beating.anna)]), 5)
    assert await beating.beats(2) == [(ErrorCode.UNKNOWN_MEMBER_ID, 0), (ErrorCode.UNKNOWN_MEMBER_ID, 1)]


async def test_a_coordinator_that_has_stopped_repeats_nothing(beating: Beating) -> None:
    await beating.beats(2)
    beating.coordinator.stop()
    assert await beating.beats() == [(ErrorCode.NOT_COORDINATOR, 0)]


@pytest.mark.parametrize("changed_at", [0, 3, 8, 11])
def test_only_the_correlation_id_may_differ(changed_at: int) -> None:
    frame = bytes(range(12))
    repetition = Repetition.of(frame, b"LLLLcccc answer", lambda: True)
    other = bytearray(frame)
    other[changed_at] ^= 1
    assert repetition.answers_to([bytes(other)]) == (0, b"")
    again = [frame[:4] + number + frame[8:] for number in (b"1234", b"1235")]
    assert repetition.answers_to(again) == (2, b"LLLL1234 answerLLLL1235 answer")
    assert repetition.answers_to([*again, bytes(other), *again]) == (2, b"LLLL1234 answerLLLL1235 answer")
