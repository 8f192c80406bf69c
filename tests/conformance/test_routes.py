"""Against a cluster every request goes to the broker that coordinates its group."""

import time
from collections.abc import AsyncIterator
from dataclasses import replace
from uuid import uuid4

import pytest

from regroup.conformance.harness.expect import NotObservable
from regroup.conformance.harness.routes import Routes
from regroup.conformance.harness.target import Target
from regroup.conformance.run.runner import Outcome, Plan, run
from regroup.conformance.stories import CASES
from regroup.coordinator.settings import Settings
from regroup.protocol.messages.cluster import ApiVersionsRequest
from regroup.protocol.messages.describe import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from regroup.protocol.messages.group import HeartbeatRequest
from regroup.protocol.messages.transactions import InitProducerIdRequest
from regroup.server.broker_cluster import Emulator
from regroup.server.clock import Clock
from regroup.server.releases import release_named
from regroup.storage.memory import MemoryStore


@pytest.fixture
async def cluster() -> AsyncIterator[Target]:
    """Three brokers; the one that is asked first knows the others."""
    store = MemoryStore()

    async def open_store() -> MemoryStore:
        return store

    emulator = Emulator(
        open_store,
        clock=Clock(started_at_ms=1_000_000, monotonic_s=time.monotonic),
        new_uuid=uuid4,
        settings=Settings(group_initial_rebalance_delay_ms=0, group_min_session_timeout_ms=100),
        brokers=3,
        release=release_named("4.4"),
    )
    await emulator.start()
    host, port = emulator.address
    yield await Target.learn(f"{host}:{port}")
    await emulator.close()


async def test_a_cluster_does_as_its_brokers_do(cluster: Target) -> None:
    areas = ("join", "heartbeat", "list", "delete", "offset-fetch", "txn-offset", "validation")
    verdicts = await run(cluster, [each for each in CASES.values() if each.area in areas], Plan("test"))
    assert {each.behaviour: each.reason for each in verdicts if each.outcome is Outcome.FAILED} == {}
    assert sum(each.outcome is Outcome.PASSED for each in verdicts) > 80


def beat(group: str) -> HeartbeatRequest:
    return HeartbeatRequest(group_id=group, generation_id=1, member_id="m")


async def test_groups_are_spread_over_the_brokers_and_each_is_found_by_its_name(cluster: Target) -> None:
    routes = Routes(cluster)
    found = {name: await routes.find(name) for name in map(str, range(20))}
    assert set(found.values()) == set(cluster.brokers)
    assert await routes.find("elsewhere", beat("7")) == found["7"]
    assert await routes.find("elsewhere", DescribeGroupsRequest(groups=["8", "7"])) == found["8"]
    assert await routes.find("elsewhere", DeleteGroupsRequest(groups_names=["9"])) == found["9"]
    assert await routes.find("7", ListGroupsRequest()) == found["7"]


async def test_what_belongs_to_no_group_goes_to_the_first_broker(cluster: Target) -> None:
    first = (cluster.host, cluster.port)
    assert await Routes(cluster).find("7", ApiVersionsRequest()) == first
    assert await Routes(cluster).find("7", beat("")) == first
    assert (
        await Routes(cluster).find("7", InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000))
        == first
    )


OF_TWO_BROKERS = [
    CASES[name] for name in ("validation.not-coordinator", "offset-fetch.not-coordinator", "list.scope-is-one-broker")
]


async def test_a_request_to_the_wrong_broker_is_refused(cluster: Target) -> None:
    verdicts = await run(cluster, OF_TWO_BROKERS, Plan("test"))
    assert [each.reason for each in verdicts if each.outcome is not Outcome.PASSED] == []


async def test_from_a_broker_that_is_alone_nobody_can_go_astray(cluster: Target) -> None:
    alone = replace(cluster, brokers=cluster.brokers[:1])
    with pytest.raises(NotObservable, match="a cluster of two shows it"):
        await Routes(alone).go_astray("7")
    routes = Routes(cluster)
    home = await routes.find("7")
    await routes.go_astray("7")
    assert await routes.find("7") in {*cluster.brokers} - {home}
