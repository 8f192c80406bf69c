"""Members that expire before they have a generation, as their clients see it.

Every timeout that must not end a wait is longer than the test may last.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec

from regroup.coordinator.group import Group
from regroup.coordinator.settings import CoordinatorSettings
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.describe import DescribedGroup, DescribeGroupsRequest
from regroup.protocol.messages.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    SyncGroupRequest,
)
from regroup.server.broker_cluster import BrokerCluster, ClusterOptions
from tests.coordinator.group_harness import behaviour
from tests.server.cluster_harness import join_request
from tests.server.wire_client import TIMEOUT_S, WireClient, wait_until

SHORT_MS, ENDING_MS, LONG_MS = 200, 1_500, 600_000


class Clients:
    """The clients of one group, each with a connection of its own."""

    def __init__(self, cluster: BrokerCluster, stack: AsyncExitStack) -> None:
        self._cluster, self._stack = cluster, stack
        self._connections: dict[str, WireClient] = {}

    async def _connection(self, name: str) -> WireClient:
        if name not in self._connections:
            self._connections[name] = client = await WireClient.connect(*self._cluster.address)
            self._stack.push_async_callback(client.close)
        return self._connections[name]

    async def call(self, name: str, request: Any, version: int | None = None) -> Any:
        return await asyncio.wait_for((await self._connection(name)).call(request, version), TIMEOUT_S)

    async def send(self, name: str, request: Any, version: int) -> None:
        (await self._connection(name)).send(request, version)

    async def joined(self, name: str, version: int) -> Any:
        receiving = (await self._connection(name)).receive(JoinGroupRequest.api_key, version)
        return await asyncio.wait_for(receiving, TIMEOUT_S)

    @property
    def group(self) -> Group:
        return self._cluster.coordinator_of("g").group("g")

    async def next_millisecond(self) -> None:
        """What follows happens later by the broker's clock, and not only in order."""
        present_ms = self._cluster.state.now_ms()
        await wait_until(lambda: self._cluster.state.now_ms() > present_ms)

    async def described(self, condition: Callable[[DescribedGroup], bool]) -> DescribedGroup:
        """The group, once the condition holds."""
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                response = await self.call("observer", DescribeGroupsRequest(groups=["g"]), 5)
                if condition(response.groups[0]):
                    return response.groups[0]
                await asyncio.sleep(SHORT_MS / 10_000)


@asynccontextmanager
async def running(initial_delay_ms: int) -> AsyncIterator[Clients]:
    settings = CoordinatorSettings(
        group_initial_rebalance_delay_ms=initial_delay_ms, group_min_session_timeout_ms=SHORT_MS
    )
    async with (
        await BrokerCluster.start(options=ClusterOptions(settings=settings)) as cluster,
        AsyncExitStack() as stack,
    ):
        yield Clients(cluster, stack)


async def join_and_beat(clients: Clients, name: str) -> None:
    """A newcomer with a short session timeout, which a heartbeat starts before its first generation."""
    first = join_request("g", session_timeout_ms=LONG_MS)  # so that no other timer of the group ends in time
    member_id = (await clients.call(name, first, 4)).member_id
    await clients.send(name, join_request("g", session_timeout_ms=SHORT_MS, member_id=member_id), 4)
    await clients.described(lambda group: bool(group.members))
    await clients.next_millisecond()
    beat = HeartbeatRequest(group_id="g", generation_id=0, member_id=member_id)
    assert (await clients.call(f"heartbeat of {name}", beat, 3)).error_code == ErrorCode.REBALANCE_IN_PROGRESS


@behaviour("timeout.initial-delay.cut-short-by-member-expiry")
async def test_the_generation_begins_when_the_newcomer_that_is_missing_expires() -> None:
    async with running(initial_delay_ms=LONG_MS) as clients:
        await join_and_beat(clients, "anna")
        await clients.send("ben", join_request("g"), 3)
        assert (await clients.joined("anna", 4)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        answer = await clients.joined("ben", 3)
    assert (answer.error_code, answer.generation_id, len(answer.members)) == (0, 1, 1)


@behaviour("timeout.initial-delay.cut-short-by-member-expiry")
async def test_the_group_is_empty_when_its_only_newcomer_expires() -> None:
    async with running(initial_delay_ms=LONG_MS) as clients:
        await join_and_beat(clients, "anna")
        group = await clients.described(lambda group: not group.members)
    assert group.group_state == "Empty"


@behaviour("static.replace.session-timer-uses-old-timeout")
async def test_a_restarted_static_member_has_its_new_session_timeout_once_it_is_seen() -> None:
    """The timeout of the former process is longer: the first heartbeat of the new one moves the deadline forward."""
    async with running(initial_delay_ms=0) as clients:
        static = {"group_instance_id": "till", "rebalance_timeout_ms": LONG_MS}
        joined = await clients.call("till", join_request("g", session_timeout_ms=LONG_MS, **static), 9)
        member = {"group_id": "g", "generation_id": 1, "group_instance_id": "till"}
        await clients.call("till", SyncGroupRequest(**member, member_id=joined.member_id), 3)
        restarted = await clients.call("till", join_request("g", session_timeout_ms=SHORT_MS, **static), 9)
        await clients.next_millisecond()
        beat = HeartbeatRequest(**member, member_id=restarted.member_id)
        assert (await clients.call("till", beat, 4)).error_code == 0
        group = await clients.described(lambda group: not group.members)
    assert group.group_state == "Empty"


async def two_members_in_the_sync_phase(clients: Clients, static_timeouts: dict[str, int]) -> tuple[Any, Any]:
    """Anna of JoinGroup v0, whose rebalance timeout is her session timeout, and a static member; neither has synced."""
    first = await clients.call("anna", join_request("g", session_timeout_ms=ENDING_MS), 0)
    await clients.send("ben", join_request("g", group_instance_id="till", **static_timeouts), 5)
    await clients.described(lambda group: len(group.members) == 2)
    rejoin = join_request("g", session_timeout_ms=ENDING_MS, member_id=first.member_id)
    anna = await clients.call("anna", rejoin, 0)
    return anna, await clients.joined("ben", 5)


@behaviour("timeout.session.ends-with-sync-phase")
async def test_a_session_that_ends_with_the_sync_phase_goes_first() -> None:
    """The session ends the sync phase before its timeout does, so the static member need not have synced."""
    async with running(initial_delay_ms=0) as clients:
        await two_members_in_the_sync_phase(clients, {"rebalance_timeout_ms": SHORT_MS, "session_timeout_ms": LONG_MS})
        group = await clients.described(lambda group: group.group_state != "CompletingRebalance")
    assert (group.group_state, len(group.members)) == ("PreparingRebalance", 1)
    assert group.members[0].group_instance_id == "till"


@behaviour("timeout.session.ends-with-join-phase")
async def test_a_static_session_that_ends_with_the_join_phase_goes_first() -> None:
    """A rebalance that refuses a held SyncGroup starts the session timeout and the join phase together."""
    timeouts = {"rebalance_timeout_ms": ENDING_MS, "session_timeout_ms": ENDING_MS}
    async with running(initial_delay_ms=0) as clients:
        anna, ben = await two_members_in_the_sync_phase(clients, timeouts)
        sync = SyncGroupRequest(group_id="g", generation_id=2, member_id=ben.member_id, group_instance_id="till")
        await clients.send("ben", sync, 3)
        changed = [JoinGroupRequestProtocol(name="range", metadata=b"changed")]
        rejoin = join_request("g", session_timeout_ms=ENDING_MS, member_id=anna.member_id)
        await wait_until(lambda: ben.member_id not in clients.group.pending_sync_members)
        answer = await clients.call("anna", msgspec.structs.replace(rejoin, protocols=changed), 0)
    assert (answer.error_code, len(answer.members)) == (0, 1), "the static member has expired"
