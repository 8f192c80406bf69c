"""The gate between connections and handlers."""

from collections.abc import Callable

from regroup.protocol.messages.group import HeartbeatRequest, HeartbeatResponse
from regroup.server.net.exchange import Exchange
from tests.server.wire_client import wait_until

BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


class RecordingGate:
    """Keeps every request, and lets it through when the test says so."""

    def __init__(self) -> None:
        self.admitted: list[tuple[Exchange, Callable[[], None]]] = []
        self.stops_later = True

    def admit(self, exchange: Exchange, proceed: Callable[[], None]) -> None:
        self.admitted.append((exchange, proceed))

    def may_stop(self, exchange: Exchange) -> bool:
        return self.stops_later


def answer(request: HeartbeatRequest, exchange: Exchange) -> None:
    """Accept the heartbeat, now and for ever."""
    exchange.still_valid = lambda: True
    exchange.respond(HeartbeatResponse())


async def test_a_request_waits_at_the_gate_and_those_behind_it_too(harness) -> None:
    gate = harness.broker.gate = RecordingGate()
    harness.broker.add_handlers({BEAT.api_key: answer})
    client = await harness.connect()
    for _ in range(2):
        client.send(BEAT, 3)
    await wait_until(lambda: gate.admitted)
    assert [exchange.request for exchange, _ in gate.admitted] == [BEAT]
    gate.admitted[0][1]()
    assert (await client.receive(BEAT.api_key, 3)).error_code == 0
    await wait_until(lambda: len(gate.admitted) == 2)


async def test_a_gate_may_answer_in_place_of_the_handler(harness) -> None:
    gate = harness.broker.gate = RecordingGate()
    harness.broker.add_handlers({BEAT.api_key: answer})
    client = await harness.connect()
    client.send(BEAT, 3)
    await wait_until(lambda: gate.admitted)
    exchange, proceed = gate.admitted[0]
    exchange.respond(HeartbeatResponse(error_code=16))
    proceed()
    assert (await client.receive(BEAT.api_key, 3)).error_code == 16


async def test_a_request_of_a_lost_connection_reaches_no_handler(harness) -> None:
    gate = harness.broker.gate = RecordingGate()
    handled = []
    harness.broker.add_handlers({BEAT.api_key: lambda request, exchange: handled.append(request)})
    client = await harness.connect()
    client.send(BEAT, 3)
    await wait_until(lambda: gate.admitted)
    await client.close()
    await wait_until(lambda: not harness.broker.connections())
    gate.admitted[0][1]()
    assert handled == []


async def test_repeated_requests_pass_an_idle_gate_once(harness) -> None:
    gate = harness.broker.gate = RecordingGate()
    gate.stops_later = False
    harness.broker.add_handlers({BEAT.api_key: answer})
    client = await harness.connect()
    client.send(BEAT, 3)
    await wait_until(lambda: gate.admitted)
    gate.admitted[0][1]()
    await client.receive(BEAT.api_key, 3)
    for _ in range(5):
        assert (await client.call(BEAT, 3)).error_code == 0
    assert len(gate.admitted) == 1
    (connection,) = harness.broker.connections()
    connection.forget_cached_response()
    client.send(BEAT, 3)
    await wait_until(lambda: len(gate.admitted) == 2)


async def test_an_error_in_a_gate_closes_one_connection(harness) -> None:
    def fail(exchange: Exchange, proceed: Callable[[], None]) -> None:
        raise RuntimeError("a bug")

    gate = harness.broker.gate = RecordingGate()
    gate.admit = fail
    harness.broker.add_handlers({BEAT.api_key: answer})
    client = await harness.connect()
    client.send(BEAT, 3)
    assert await client.is_closed_by_the_broker()
