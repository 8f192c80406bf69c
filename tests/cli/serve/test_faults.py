"""Fault rules of plain brokers: no gate before the first rule, and then one before every connection."""

import pytest

from regroup.cli.serve.brokers import PlainBrokers
from regroup.protocol.client import ClientConnection, ConnectionLost
from regroup.protocol.messages.cluster import ApiVersionsRequest
from regroup.server.broker_cluster import BrokerCluster
from regroup.server.faults.rule import FaultRule


async def test_the_first_rule_hits_connections_that_are_open() -> None:
    async with await BrokerCluster.start() as cluster:
        brokers = PlainBrokers(cluster)
        connection = await ClientConnection.open(*cluster.address, "anna")
        assert (await connection.send(ApiVersionsRequest(), 0)).error_code == 0
        assert [broker.gate for broker in cluster.brokers] == [None]
        rule = brokers.faults.add(FaultRule(on="ApiVersions", client_id="anna", close="before"))
        with pytest.raises(ConnectionLost):
            await connection.send(ApiVersionsRequest(), 0)
        assert rule.hits == 1
        await connection.close()


async def test_brokers_without_rules_have_no_gate() -> None:
    async with await BrokerCluster.start() as cluster:
        assert PlainBrokers(cluster).faults.active() == ()
        assert cluster.broker.gate is None
