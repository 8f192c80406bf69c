"""Requests to a cluster go to the broker that coordinates their group."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from regroup.conformance.harness.broker_under_test import ConformanceTarget
from regroup.conformance.harness.expect import NotObservable
from regroup.conformance.harness.routes import CoordinatorRoutes
from regroup.conformance.run.runner import StoryOutcome, StoryRunOptions, run_stories
from regroup.conformance.stories import CASES
from regroup.coordinator.settings import CoordinatorSettings
from regroup.protocol.messages.cluster import ApiVersionsRequest
from regroup.protocol.messages.describe import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from regroup.protocol.messages.group import HeartbeatRequest
from regroup.protocol.messages.transactions import InitProducerIdRequest
from regroup.server.broker_cluster import BrokerCluster, ClusterOptions
from regroup.server.releases import release_named
from tests.conformance.peers import TWO_BROKER_CASES


@pytest.fixture
async def cluster() -> AsyncIterator[ConformanceTarget]:
    """Three brokers; the one that is asked first knows the others."""
    options = ClusterOptions(
        settings=CoordinatorSettings(group_initial_rebalance_delay_ms=0, group_min_session_timeout_ms=100),
        brokers=3,
        release=release_named("4.4"),
    )
    async with await BrokerCluster.start(options=options) as emulator:
        host, port = emulator.address
        yield await ConformanceTarget.discover(f"{host}:{port}")


@pytest.mark.slow
async def test_stories_pass_on_a_cluster(cluster: ConformanceTarget) -> None:
    areas = ("join", "heartbeat", "list", "delete", "offset-fetch", "txn-offset", "validation")
    cases = [case for case in CASES.values() if case.area in areas]
    verdicts = await run_stories(cluster, cases, StoryRunOptions("test"))
    assert {each.behaviour: each.reason for each in verdicts if each.outcome is StoryOutcome.FAILED} == {}
    assert sum(each.outcome is StoryOutcome.PASSED for each in verdicts) > 80


def heartbeat(group_id: str) -> HeartbeatRequest:
    return HeartbeatRequest(group_id=group_id, generation_id=1, member_id="m")


async def test_groups_are_spread_over_the_brokers_and_requests_go_to_their_coordinators(
    cluster: ConformanceTarget,
) -> None:
    routes = CoordinatorRoutes(cluster)
    coordinators = {name: await routes.broker_for(name) for name in map(str, range(20))}
    assert set(coordinators.values()) == set(cluster.brokers)
    assert await routes.broker_for("another", heartbeat("7")) == coordinators["7"]
    assert await routes.broker_for("another", DescribeGroupsRequest(groups=["8", "7"])) == coordinators["8"]
    assert await routes.broker_for("another", DeleteGroupsRequest(groups_names=["9"])) == coordinators["9"]
    assert await routes.broker_for("7", ListGroupsRequest()) == coordinators["7"]


async def test_requests_without_a_group_go_to_the_first_broker(cluster: ConformanceTarget) -> None:
    first = (cluster.host, cluster.port)
    assert await CoordinatorRoutes(cluster).broker_for("7", ApiVersionsRequest()) == first
    assert await CoordinatorRoutes(cluster).broker_for("7", heartbeat("")) == first
    init = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    assert await CoordinatorRoutes(cluster).broker_for("7", init) == first


async def test_a_request_to_the_wrong_broker_is_refused(cluster: ConformanceTarget) -> None:
    verdicts = await run_stories(cluster, TWO_BROKER_CASES, StoryRunOptions("test"))
    assert [each.reason for each in verdicts if each.outcome is not StoryOutcome.PASSED] == []


async def test_the_wrong_broker_is_another_one_of_the_cluster(cluster: ConformanceTarget) -> None:
    routes = CoordinatorRoutes(cluster)
    coordinator = await routes.broker_for("7")
    await routes.use_wrong_broker("7")
    assert await routes.broker_for("7") in {*cluster.brokers} - {coordinator}


async def test_a_single_broker_is_never_the_wrong_one(cluster: ConformanceTarget) -> None:
    single = replace(cluster, brokers=cluster.brokers[:1])
    with pytest.raises(NotObservable, match="a cluster of two brokers is needed"):
        await CoordinatorRoutes(single).use_wrong_broker("7")
