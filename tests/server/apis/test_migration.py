"""A group whose members speak different protocols, over the wire."""

from typing import Any

from regroup.coordinator.settings import CoordinatorSettings
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages import describe as d
from regroup.protocol.messages import group as g
from regroup.server.broker_cluster import BrokerCluster, ClusterOptions
from tests.coordinator.consumer.migration.migration_harness import (
    ALL,
    LOWER,
    UPPER,
    assigned_by,
    assignment,
    subscription,
)
from tests.coordinator.group_harness import behaviour
from tests.server.apis.test_consumer_groups import Harness, running
from tests.server.wire_client import WireClient, wait_until

E = ErrorCode


async def join(group: Harness, member_id: str = "", owned: dict[str, list[int]] | None = None) -> Any:
    """JoinGroup, and once more after MEMBER_ID_REQUIRED."""
    protocol = g.JoinGroupRequestProtocol(name="range", metadata=subscription("foo", owned=owned))
    request = g.JoinGroupRequest(
        group_id="g",
        session_timeout_ms=30_000,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[protocol],
    )
    response: Any = await group.call(request)
    return await join(group, response.member_id, owned) if response.error_code == E.MEMBER_ID_REQUIRED else response


async def sync(group: Harness, joined: Any) -> Any:
    share = g.SyncGroupRequestAssignment(member_id=joined.member_id, assignment=assignment(ALL))
    request = g.SyncGroupRequest(
        group_id="g",
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[share],
    )
    return await group.call(request)


async def heartbeat(group: Harness, joined: Any) -> int:
    request = g.HeartbeatRequest(group_id="g", generation_id=joined.generation_id, member_id=joined.member_id)
    response = await group.call(request)
    return int(response.error_code)


async def listed(group: Harness) -> tuple[str, str, str]:
    response = await group.call(d.ListGroupsRequest())
    [only] = response.groups
    return only.protocol_type, only.group_type, only.group_state


async def upgrade(group: Harness) -> Any:
    """c has foo 0-5 in a classic group, and n1 joins; returns the last JoinGroup response of c."""
    c = await join(group)
    assert assigned_by(await sync(group, c)) == ALL
    assert (await group.join("n1")).member_epoch == 2
    return c


@behaviour("cg.up.online", "cg.cm.heartbeat-behind", "cg.down.by-LeaveGroup")
async def test_a_group_is_upgraded_shared_and_downgraded() -> None:
    async with running() as group:
        c = await upgrade(group)
        assert await listed(group) == ("consumer", "consumer", "Reconciling")
        assert await heartbeat(group, c) == E.REBALANCE_IN_PROGRESS
        c = await join(group, c.member_id, ALL)
        assert assigned_by(await sync(group, c)) == LOWER
        c = await join(group, c.member_id, LOWER)
        assert (c.generation_id, c.leader, c.members) == (2, "", [])
        assert assigned_by(await sync(group, c)) == LOWER
        assert group.assigned(await group.beat("n1", 2)) == UPPER
        [described] = (await group.call(d.ConsumerGroupDescribeRequest(group_ids=["g"]))).groups
        assert {each.member_id: each.member_type for each in described.members} == {c.member_id: 0, "n1": 1}
        leaving = g.LeaveGroupRequest(group_id="g", members=[g.MemberIdentity(member_id="n1")])
        assert (await group.call(leaving)).members[0].error_code == E.NONE
        assert await listed(group) == ("consumer", "classic", "PreparingRebalance")
        [member] = group.cluster.coordinator_of("g").group("g").members.values()
        assert assigned_by(member) == LOWER, "the topic has its name"
        assert (await join(group, c.member_id, LOWER)).generation_id == 3


@behaviour("cg.cm.join-new")
async def test_a_new_member_of_a_consumer_group_gets_a_short_id() -> None:
    async with running() as group:
        await group.join("m1")
        joined = await join(group)
        assert (joined.error_code, len(joined.member_id), joined.generation_id) == (E.NONE, 22, 3)


@behaviour("cg.down.by-session-timeout")
async def test_a_group_that_a_timeout_makes_classic_knows_the_names_of_its_topics() -> None:
    texts = {
        "group.initial.rebalance.delay.ms": "0",
        "group.consumer.min.session.timeout.ms": "50",
        "group.consumer.session.timeout.ms": "50",
        "group.consumer.min.heartbeat.interval.ms": "10",
        "group.consumer.heartbeat.interval.ms": "10",
    }
    options = ClusterOptions(settings=CoordinatorSettings.from_texts(texts))
    async with await BrokerCluster.start(None, options) as cluster:
        await cluster.ensure_topic("foo", 6)
        group = Harness(cluster, await WireClient.connect(*cluster.address))
        await upgrade(group)
        await wait_until(lambda: cluster.coordinator_of("g").group("g").consumer is None)
        [member] = cluster.coordinator_of("g").group("g").members.values()
        assert assigned_by(member) == LOWER
        await group.client.close()
