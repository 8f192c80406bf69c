"""What a program may rely on, and what it may not, on the simulated network."""

import asyncio
from random import Random

import pytest

from regroup.lab.plan.plan import NetworkPlan
from regroup.lab.simulation.network import Network
from regroup.lab.simulation.virtual_clock import EverybodyWaits, TimeStandsStill, VirtualLoop, run_virtually


class Heard(asyncio.Protocol):
    """Keeps what it hears, and when."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.at_s: list[float] = []
        self.lost: list[Exception | None] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.pieces.append(data)
        self.at_s.append(asyncio.get_running_loop().time())

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)


@pytest.fixture
async def network() -> Network:
    return Network(asyncio.get_running_loop(), Random("a test"), NetworkPlan(latency_ms=10, jitter_ms=5))


async def connected(network: Network) -> tuple[Heard, Heard]:
    """Anna's end, and the broker's."""
    server, client = Heard(), Heard()
    await network.listen("broker 0", lambda: server, "brokers", 9092)
    await network.connect("anna", lambda: client, "brokers", 9092)
    return client, server


async def test_bytes_arrive_in_order_and_take_their_time(network: Network) -> None:
    client, server = await connected(network)
    for number in range(100):
        client.transport.write(b"%d " % number)
    await asyncio.sleep(1)
    assert b"".join(server.pieces) == b"".join(b"%d " % number for number in range(100))
    assert 0.020 <= server.at_s[0] <= 0.030


async def test_what_is_sent_while_the_way_is_cut_arrives_in_order_when_it_is_mended(network: Network) -> None:
    client, server = await connected(network)
    client.transport.write(b"1")
    network.cut("anna", "broker 0")
    client.transport.write(b"2")
    await asyncio.sleep(60)
    assert server.pieces == []
    network.mend("anna", "broker 0")
    client.transport.write(b"3")
    await asyncio.sleep(1)
    assert server.pieces == [b"1", b"2", b"3"]


async def test_a_way_that_is_cut_leaves_the_other_direction_open(network: Network) -> None:
    client, server = await connected(network)
    network.cut("broker 0", "anna")
    client.transport.write(b"a question")
    server.transport.write(b"an answer")
    await asyncio.sleep(60)
    assert (server.pieces, client.pieces) == ([b"a question"], [])


async def test_cuts_of_the_same_way_add_up(network: Network) -> None:
    client, server = await connected(network)
    network.cut("anna", "broker 0")
    network.cut("anna", "everybody")
    network.mend("anna", "broker 0")
    client.transport.write(b"1")
    await asyncio.sleep(1)
    assert server.pieces == []
    network.mend("anna", "everybody")
    await asyncio.sleep(1)
    assert server.pieces == [b"1"]


async def test_nobody_listens(network: Network) -> None:
    with pytest.raises(ConnectionRefusedError, match="nobody listens on brokers:9092"):
        await network.connect("anna", Heard, "brokers", 9092)


async def test_a_port_is_taken_once(network: Network) -> None:
    listening = await network.listen("broker 0", Heard, "brokers", 9092)
    with pytest.raises(OSError, match="taken"):
        await network.listen("broker 0", Heard, "brokers", 9092)
    listening.close()
    await network.listen("broker 0", Heard, "brokers", 9092)


async def test_a_reset_is_heard_at_both_ends_and_loses_what_was_on_its_way(network: Network) -> None:
    client, server = await connected(network)
    client.transport.write(b"a question")
    network.reset("anna")
    await asyncio.sleep(1)
    assert server.pieces == []
    assert [type(lost) for lost in (*client.lost, *server.lost)] == [ConnectionResetError, ConnectionResetError]


async def test_closing_lets_what_was_written_arrive_first(network: Network) -> None:
    client, server = await connected(network)
    client.transport.write(b"farewell")
    client.transport.close()
    client.transport.write(b"too late")
    await asyncio.sleep(1)
    assert (server.pieces, server.lost, client.lost) == ([b"farewell"], [None], [None])


async def test_who_dies_silently_is_not_missed_until_somebody_asks(network: Network) -> None:
    client, server = await connected(network)
    network.kill("broker 0", silently=True)
    client.transport.write(b"hello?")
    await asyncio.sleep(60)
    assert (client.lost, server.pieces) == ([], [])
    with pytest.raises(ConnectionRefusedError):
        await network.connect("anna", Heard, "brokers", 9092)


async def test_a_host_that_is_there_again_resets_connections_it_knows_nothing_of(network: Network) -> None:
    client, _ = await connected(network)
    network.kill("broker 0", silently=True)
    client.transport.write(b"hello?")
    await asyncio.sleep(60)
    assert client.lost == []
    await network.listen("broker 0", Heard, "brokers", 9092)
    await asyncio.sleep(1)
    assert [type(lost) for lost in client.lost] == [ConnectionResetError]


async def test_now_and_then_a_piece_stalls_and_order_holds_nevertheless() -> None:
    planned = NetworkPlan(latency_ms=1, jitter_ms=0, stall_share=0.05, stall_ms=1_000)
    client, server = await connected(Network(asyncio.get_running_loop(), Random("stalls"), planned))
    for number in range(100):
        client.transport.write(b"%d " % number)
        await asyncio.sleep(0.01)
    await asyncio.sleep(5)
    assert b"".join(server.pieces) == b"".join(b"%d " % number for number in range(100))
    gaps = [later - sooner for sooner, later in zip(server.at_s, server.at_s[1:], strict=False)]
    assert max(gaps) > 0.1


async def test_who_does_not_read_gets_it_later(network: Network) -> None:
    client, server = await connected(network)
    server.transport.pause_reading()
    client.transport.write(b"1")
    client.transport.write(b"2")
    await asyncio.sleep(1)
    assert server.pieces == []
    server.transport.resume_reading()
    assert server.pieces == [b"1", b"2"]


def test_a_loop_in_which_everybody_waits_says_so() -> None:
    loop = VirtualLoop()
    with pytest.raises(EverybodyWaits):
        loop.run_until_complete(loop.create_future())
    loop.close()


def test_a_loop_that_is_busy_for_ever_in_one_moment_says_so_and_can_still_be_closed() -> None:
    loop = VirtualLoop()

    def again() -> None:
        loop.call_at(loop.time(), again)

    async def hour() -> None:
        await asyncio.sleep(1)
        again()
        await asyncio.sleep(3_600)

    with pytest.raises(TimeStandsStill, match=r"at 1\.0 s of the run"):
        run_virtually(hour(), loop)
    assert loop.is_closed()


def test_an_hour_is_over_at_once_and_timers_of_a_moment_ring_in_order() -> None:
    loop = VirtualLoop()
    rung: list[int] = []
    for number in range(50):
        loop.call_at(3600, rung.append, number)
    loop.call_at(1800, rung.append, -1).cancel()
    loop.run_until_complete(asyncio.sleep(3601))
    assert (rung, loop.time()) == (list(range(50)), 3601)
    loop.close()


def test_no_thread_may_race_the_clock() -> None:
    loop = VirtualLoop()
    with pytest.raises(RuntimeError, match="inline"):
        loop.call_soon_threadsafe(print)
    loop.close()
