"""Equal heartbeats: answered without being decoded, with the response that a decoded one would get."""

from collections.abc import AsyncIterator

import pytest

from regroup.coordinator.commands import DeadlineKind
from regroup.coordinator.runtime.group_coordinator import GroupCoordinator
from regroup.protocol.errors import ErrorCode
from regroup.protocol.frames import decode_response
from regroup.protocol.messages.cluster import ApiVersionsRequest
from regroup.protocol.messages.group import (
    HeartbeatRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
)
from regroup.server.broker_cluster import BrokerCluster, ClusterEnvironment, ClusterOptions
from regroup.server.clock import Clock
from regroup.server.net.request_recorder import ExchangeRow
from regroup.server.net.responses.cached_response import CachedResponse
from regroup.server.recording.exchange import RecordedExchange
from regroup.server.recording.recorder import Recorder
from tests.server.cluster_harness import NO_DELAY, join_request
from tests.server.wire_client import NOW_MS, WireClient


class HeartbeatHarness:
    """A member alone in a Stable group, and a second client. The test sets the time."""

    def __init__(self, cluster: BrokerCluster, client: WireClient, other: WireClient, member_id: str) -> None:
        self.cluster, self.client, self.other, self.member_id = cluster, client, other, member_id

    @property
    def coordinator(self) -> GroupCoordinator:
        return self.cluster.coordinator_of("g")

    async def heartbeat(self, times: int = 1) -> list[tuple[int, int]]:
        """The error code of each response, and its correlation id relative to the first."""
        request = HeartbeatRequest(group_id="g", generation_id=1, member_id=self.member_id)
        sent = [self.client.send(request, 4) for _ in range(times)]
        responses = [decode_response(12, 4, await self.client.frame()) for _ in sent]
        return [(response.error_code, correlation_id - sent[0]) for correlation_id, response in responses]

    def session_ends_at_ms(self) -> int:
        """Relative to the start of the clock."""
        deadline = self.coordinator._next_deadline("g")
        assert deadline is not None
        assert deadline.kind is DeadlineKind.SESSION
        return deadline.at_ms - NOW_MS


@pytest.fixture
def time_s() -> list[float]:
    """The time of the clock, to be set."""
    return [0.0]


@pytest.fixture
async def heartbeats(time_s: list[float]) -> AsyncIterator[HeartbeatHarness]:
    environment = ClusterEnvironment(clock=Clock(started_at_ms=NOW_MS, monotonic_s=lambda: time_s[0]))
    async with await BrokerCluster.start(None, ClusterOptions(settings=NO_DELAY), environment) as cluster:
        client, other = [await WireClient.connect(*cluster.address) for _ in range(2)]
        joined = await client.call(join_request("g"), 3)
        assert isinstance(joined, JoinGroupResponse)
        await client.call(SyncGroupRequest(group_id="g", generation_id=1, member_id=joined.member_id), 3)
        yield HeartbeatHarness(cluster, client, other, joined.member_id)
        await client.close()
        await other.close()


async def test_each_of_a_hundred_equal_heartbeats_has_its_own_response(heartbeats: HeartbeatHarness) -> None:
    assert await heartbeats.heartbeat(100) == [(0, index) for index in range(100)]


async def test_a_repeated_heartbeat_extends_the_session(heartbeats: HeartbeatHarness, time_s: list[float]) -> None:
    await heartbeats.heartbeat(2)
    time_s[0] = 7.0
    await heartbeats.heartbeat()
    assert heartbeats.session_ends_at_ms() == 17_000


async def test_a_repeated_heartbeat_is_refused_during_a_rebalance(heartbeats: HeartbeatHarness) -> None:
    await heartbeats.heartbeat(2)
    heartbeats.other.send(join_request("g"), 3)
    while heartbeats.coordinator.group("g").join_phase is None:
        await heartbeats.heartbeat()
    code = ErrorCode.REBALANCE_IN_PROGRESS
    assert await heartbeats.heartbeat(2) == [(code, 0), (code, 1)]


async def test_a_repeated_heartbeat_is_refused_after_its_member_was_removed(heartbeats: HeartbeatHarness) -> None:
    await heartbeats.heartbeat(2)
    leaving = [MemberIdentity(member_id=heartbeats.member_id)]
    await heartbeats.other.call(LeaveGroupRequest(group_id="g", members=leaving), 5)
    code = ErrorCode.UNKNOWN_MEMBER_ID
    assert await heartbeats.heartbeat(2) == [(code, 0), (code, 1)]


async def test_a_repeated_heartbeat_is_refused_by_a_stopped_coordinator(heartbeats: HeartbeatHarness) -> None:
    await heartbeats.heartbeat(2)
    heartbeats.coordinator.stop()
    assert await heartbeats.heartbeat() == [(ErrorCode.NOT_COORDINATOR, 0)]


@pytest.mark.parametrize("changed_at", [0, 3, 8, 11])
def test_only_the_correlation_id_may_differ(changed_at: int) -> None:
    frame = bytes(range(12))
    cached = CachedResponse.from_frames(frame, b"LLLLcccc answer", lambda: True)
    other = bytearray(frame)
    other[changed_at] ^= 1
    assert cached.responses_to([bytes(other)]) == (0, b"")
    equal = [frame[:4] + number + frame[8:] for number in (b"1234", b"1235")]
    assert cached.responses_to(equal) == (2, b"LLLL1234 answerLLLL1235 answer")
    assert cached.responses_to([*equal, bytes(other), *equal]) == (2, b"LLLL1234 answerLLLL1235 answer")


class CountingRecorder(Recorder):
    """A recorder that counts the requests that were not answered from the cache."""

    decoded = 0

    def begin(self, connection: str, client_host: str, frame: bytes) -> ExchangeRow:
        self.decoded += 1
        return super().begin(connection, client_host, frame)


@pytest.mark.parametrize("heartbeats_at_once", [1, 50])
async def test_repeated_heartbeats_stay_in_the_cache_while_they_are_recorded(heartbeats_at_once: int) -> None:
    recorder = CountingRecorder(Clock())
    options = ClusterOptions(settings=NO_DELAY)
    async with await BrokerCluster.start(None, options, ClusterEnvironment(recorder=recorder)) as cluster:
        client = await WireClient.connect(*cluster.address)
        joined = await client.call(join_request("g"), 3)
        assert isinstance(joined, JoinGroupResponse)
        await client.call(SyncGroupRequest(group_id="g", generation_id=1, member_id=joined.member_id), 3)
        harness = HeartbeatHarness(cluster, client, client, joined.member_id)
        before = recorder.decoded
        for _ in range(4):
            await harness.heartbeat(heartbeats_at_once)
        assert recorder.decoded == before + 1
        await client.call(ApiVersionsRequest(), 0)
        await harness.heartbeat(heartbeats_at_once)
        runs = [RecordedExchange(row) for row in recorder.rows()][2:]
        assert [(each.api, each.count, each.answer) for each in runs] == [
            ("Heartbeat", 4 * heartbeats_at_once, "NONE"),
            ("ApiVersions", 1, "NONE"),
            ("Heartbeat", heartbeats_at_once, "NONE"),
        ]
        assert runs[2].correlation_id == runs[1].correlation_id + 1
        await client.close()
