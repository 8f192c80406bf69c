"""A client that sends many requests without waiting: the other connections have their turn in between."""

import asyncio

import pytest

from regroup.protocol.messages.cluster import ApiVersionsRequest, DescribeClusterRequest
from regroup.server.broker_cluster import BrokerCluster
from regroup.server.limits import REQUESTS_PER_TURN
from regroup.server.net.connection import Connection
from tests.robustness.expensive.world import Client


async def test_many_requests_of_one_client_are_handled_in_several_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    handled, handle_next = [], Connection._handle_next

    def count(connection: Connection) -> None:
        handled.append(connection._requests.frames[0])
        handle_next(connection)

    monkeypatch.setattr(Connection, "_handle_next", count)
    requests = [DescribeClusterRequest(), ApiVersionsRequest()] * (2 * REQUESTS_PER_TURN)
    async with await BrokerCluster.start() as cluster:
        client = Client(cluster)
        frames = [client.encode(each, 0) for each in requests]
        client.connection.data_received(b"".join(frames))
        counts = [len(handled)]
        while len(handled) < len(frames) and len(counts) < 10:
            await asyncio.sleep(0)
            counts.append(len(handled))
        await client.close()
    assert counts == [REQUESTS_PER_TURN, 2 * REQUESTS_PER_TURN, 3 * REQUESTS_PER_TURN, 4 * REQUESTS_PER_TURN]
    assert handled == [frame[4:] for frame in frames]
