"""Guarantees of the simulated network, and its faults."""

import asyncio
from random import Random

import pytest

from regroup.lab.plan.plan import NetworkPlan
from regroup.lab.plan.steps import ALL_HOSTS
from regroup.lab.simulation.network.simulated_network import SimulatedNetwork


class RecordingProtocol(asyncio.Protocol):
    """Records the received chunks, and when they arrived."""

    def __init__(self) -> None:
        self.chunks: list[bytes] = []
        self.arrived_s: list[float] = []
        self.lost: list[Exception | None] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.chunks.append(data)
        self.arrived_s.append(asyncio.get_running_loop().time())

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)


@pytest.fixture
async def network() -> SimulatedNetwork:
    return SimulatedNetwork(asyncio.get_running_loop(), Random("a test"), NetworkPlan(latency_ms=10, jitter_ms=5))


async def connected(network: SimulatedNetwork) -> tuple[RecordingProtocol, RecordingProtocol]:
    """The protocols of the client anna and of the broker."""
    server, client = RecordingProtocol(), RecordingProtocol()
    await network.listen("broker 0", lambda: server, "brokers", 9092)
    await network.connect("anna", lambda: client, "brokers", 9092)
    return client, server


async def test_bytes_arrive_in_order_and_with_latency(network: SimulatedNetwork) -> None:
    client, server = await connected(network)
    for number in range(100):
        client.transport.write(b"%d " % number)
    await asyncio.sleep(1)
    assert b"".join(server.chunks) == b"".join(b"%d " % number for number in range(100))
    assert 0.020 <= server.arrived_s[0] <= 0.030


async def test_bytes_sent_on_a_cut_link_arrive_in_order_when_it_is_restored(network: SimulatedNetwork) -> None:
    client, server = await connected(network)
    client.transport.write(b"1")
    network.cut("anna", "broker 0")
    client.transport.write(b"2")
    await asyncio.sleep(60)
    assert server.chunks == []
    network.restore("anna", "broker 0")
    client.transport.write(b"3")
    await asyncio.sleep(1)
    assert server.chunks == [b"1", b"2", b"3"]


async def test_a_cut_leaves_the_other_direction_open(network: SimulatedNetwork) -> None:
    client, server = await connected(network)
    network.cut("broker 0", "anna")
    client.transport.write(b"request")
    server.transport.write(b"response")
    await asyncio.sleep(60)
    assert (server.chunks, client.chunks) == ([b"request"], [])


async def test_each_cut_of_a_link_needs_its_own_restore(network: SimulatedNetwork) -> None:
    client, server = await connected(network)
    network.cut("anna", "broker 0")
    network.cut("anna", ALL_HOSTS)
    network.restore("anna", "broker 0")
    client.transport.write(b"1")
    await asyncio.sleep(1)
    assert server.chunks == []
    network.restore("anna", ALL_HOSTS)
    await asyncio.sleep(1)
    assert server.chunks == [b"1"]


async def test_a_connection_to_a_closed_port_is_refused(network: SimulatedNetwork) -> None:
    with pytest.raises(ConnectionRefusedError, match="nothing listens on brokers:9092"):
        await network.connect("anna", RecordingProtocol, "brokers", 9092)


async def test_a_port_has_one_listener(network: SimulatedNetwork) -> None:
    listening = await network.listen("broker 0", RecordingProtocol, "brokers", 9092)
    with pytest.raises(OSError, match="address already in use"):
        await network.listen("broker 0", RecordingProtocol, "brokers", 9092)
    listening.close()
    await network.listen("broker 0", RecordingProtocol, "brokers", 9092)


async def test_a_reset_reaches_both_ends_and_loses_bytes_in_flight(network: SimulatedNetwork) -> None:
    client, server = await connected(network)
    client.transport.write(b"request")
    network.reset_connections("anna")
    await asyncio.sleep(1)
    assert server.chunks == []
    assert [type(lost) for lost in (*client.lost, *server.lost)] == [ConnectionResetError, ConnectionResetError]


async def test_bytes_written_before_a_close_arrive(network: SimulatedNetwork) -> None:
    client, server = await connected(network)
    client.transport.write(b"last")
    client.transport.close()
    client.transport.write(b"too late")
    await asyncio.sleep(1)
    assert (server.chunks, server.lost, client.lost) == ([b"last"], [None], [None])


async def test_a_host_that_stops_silently_is_not_noticed(network: SimulatedNetwork) -> None:
    client, server = await connected(network)
    network.stop_host("broker 0", silently=True)
    client.transport.write(b"request")
    await asyncio.sleep(60)
    assert (client.lost, server.chunks) == ([], [])
    with pytest.raises(ConnectionRefusedError):
        await network.connect("anna", RecordingProtocol, "brokers", 9092)


async def test_a_restarted_host_resets_unknown_connections(network: SimulatedNetwork) -> None:
    client, _ = await connected(network)
    network.stop_host("broker 0", silently=True)
    client.transport.write(b"request")
    await asyncio.sleep(60)
    assert client.lost == []
    await network.listen("broker 0", RecordingProtocol, "brokers", 9092)
    await asyncio.sleep(1)
    assert [type(lost) for lost in client.lost] == [ConnectionResetError]


async def test_chunks_stall_and_stay_in_order() -> None:
    planned = NetworkPlan(latency_ms=1, jitter_ms=0, stall_share=0.05, stall_ms=1_000)
    client, server = await connected(SimulatedNetwork(asyncio.get_running_loop(), Random("stalls"), planned))
    for number in range(100):
        client.transport.write(b"%d " % number)
        await asyncio.sleep(0.01)
    await asyncio.sleep(5)
    assert b"".join(server.chunks) == b"".join(b"%d " % number for number in range(100))
    gaps = [later - sooner for sooner, later in zip(server.arrived_s, server.arrived_s[1:], strict=False)]
    assert max(gaps) > 0.1


async def test_bytes_wait_while_reading_is_paused(network: SimulatedNetwork) -> None:
    client, server = await connected(network)
    server.transport.pause_reading()
    client.transport.write(b"1")
    client.transport.write(b"2")
    await asyncio.sleep(1)
    assert server.chunks == []
    server.transport.resume_reading()
    assert server.chunks == [b"1", b"2"]
