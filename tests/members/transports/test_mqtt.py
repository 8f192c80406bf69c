"""The transport over MQTT: its topics, its correlation ids, and what makes a request fail. In virtual time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

import aiomqtt
import pytest

from regroup.members.consumer.effects import NodeAddress, OutgoingRequest, RequestTarget
from regroup.members.consumer.inputs import RequestFailed, ResponseReceived
from regroup.members.transports.mqtt import MqttTransport
from regroup.mqtt.address import MqttAccess, MqttAddress
from regroup.mqtt.link import Outbox
from regroup.protocol.messages.group import HeartbeatRequest, HeartbeatResponse
from tests.members.transports.fake_mqtt import TOPICS, FakeMqttBroker, run_ready

TIMEOUT_MS = 30_000
COORDINATOR = NodeAddress(0, "broker", 1)


class Member:
    """The transport of the member anna, with the requests that it has sent and what came of each."""

    def __init__(self, broker: FakeMqttBroker) -> None:
        self.broker = broker
        self.reports: list[str] = []
        incarnations = count(1)
        self.transport = MqttTransport(
            MqttAddress("broker", 1883),
            MqttAccess(),
            "anna",
            new_incarnation=lambda: f"i{next(incarnations)}",
            report=self.reports.append,
        )
        self.results: dict[str, ResponseReceived | RequestFailed] = {}

    def send(self, name: str, target: RequestTarget = RequestTarget.ANY_BROKER) -> None:
        """Send a heartbeat on the connection for this target; `name` is its group."""
        address = COORDINATOR if target is RequestTarget.COORDINATOR else None
        heartbeat = HeartbeatRequest(group_id=name, generation_id=1, member_id="anna")
        request = OutgoingRequest(7, target, address, heartbeat, TIMEOUT_MS)
        self.transport.send(request, lambda result: self.results.__setitem__(name, result))

    def failures(self) -> dict[str, str]:
        return {name: each.reason for name, each in self.results.items() if isinstance(each, RequestFailed)}

    def open_groups(self) -> list[str]:
        """The groups of the requests that have reached the coordinator and have no answer, in order."""
        return [each.group_id for _, _, each in self.broker.requests if isinstance(each, HeartbeatRequest)]


@asynccontextmanager
async def connected(monkeypatch: pytest.MonkeyPatch, state: str = "online") -> AsyncIterator[Member]:
    broker = FakeMqttBroker(state)
    monkeypatch.setattr(aiomqtt, "Client", broker.new_client)
    member = Member(broker)
    await run_ready()
    yield member
    await member.transport.close()


async def test_a_request_goes_to_the_topic_of_its_incarnation_and_gets_its_response(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with connected(monkeypatch) as anna:
        anna.send("payments")
        await run_ready()
        [(topic, _, _)] = anna.broker.requests
        assert topic == "regroup/main/members/anna/i1/requests"
        anna.broker.answer(HeartbeatResponse(error_code=27))
        await run_ready()
        assert anna.results == {"payments": ResponseReceived(7, HeartbeatResponse(error_code=27))}


async def test_each_of_several_connections_gets_its_own_response(monkeypatch: pytest.MonkeyPatch) -> None:
    async with connected(monkeypatch) as anna:
        anna.send("first", RequestTarget.ANY_BROKER)
        anna.send("second", RequestTarget.COORDINATOR)
        await run_ready()
        assert sorted(anna.open_groups()) == ["first", "second"]
        for code, group in ((1, "second"), (2, "first")):
            anna.broker.answer(HeartbeatResponse(error_code=code), anna.open_groups().index(group))
        await run_ready()
        assert anna.results == {
            "second": ResponseReceived(7, HeartbeatResponse(error_code=1)),
            "first": ResponseReceived(7, HeartbeatResponse(error_code=2)),
        }


@pytest.mark.parametrize(
    ("presence", "reason"),
    [
        (b'{"state": "online"}', "the coordinator has restarted"),
        (b'{"state": "offline"}', "the coordinator is offline"),
        (b'{"state": "lost"}', "the coordinator is offline"),
    ],
)
async def test_a_request_in_flight_fails_with_what_became_of_the_coordinator(
    presence: bytes, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connected(monkeypatch) as anna:
        anna.send("payments")
        await run_ready()
        anna.broker.announce(presence)
        await run_ready()
        assert anna.failures() == {"payments": reason}


@pytest.mark.parametrize("payload", [b"", b"{", b'"online"', b"[" * 9_999], ids=["empty", "cut", "text", "deep"])
async def test_a_presence_that_cannot_be_read_is_ignored(payload: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    async with connected(monkeypatch) as anna:
        anna.send("payments")
        await run_ready()
        anna.broker.announce(payload)
        await run_ready()
        assert (anna.results, anna.reports) == ({}, [])


async def test_a_response_that_cannot_be_read_fails_every_request_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    async with connected(monkeypatch) as anna:
        anna.send("first", RequestTarget.ANY_BROKER)
        anna.send("second", RequestTarget.COORDINATOR)
        await run_ready()
        anna.broker.connection.receive(TOPICS.connection("anna", "i1", "responses"), b"\xff\xff\xff\xff")
        await run_ready()
        assert anna.failures() == dict.fromkeys(("first", "second"), "a response cannot be read")


@pytest.mark.parametrize("other_topic", [True, False])
async def test_messages_for_others_and_retained_ones_answer_nothing(
    other_topic: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connected(monkeypatch) as anna:
        anna.send("payments")
        await run_ready()
        incarnation = "i0" if other_topic else "i1"
        topic = TOPICS.connection("anna", incarnation, "responses")
        anna.broker.connection.receive(topic, b"\xff\xff\xff\xff", retain=not other_topic)
        await run_ready()
        assert anna.results == {}


async def test_a_connection_that_closes_with_an_unanswered_request_ends_all_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The coordinator drops a held request only if all connections of its member are closed."""
    async with connected(monkeypatch) as anna:
        anna.send("other", RequestTarget.ANY_BROKER)
        anna.send("held", RequestTarget.COORDINATOR)
        await run_ready()
        anna.transport.disconnect_coordinator()
        await run_ready()
        assert anna.broker.published[-1] == ("regroup/main/members/anna/i1/requests", b"")
        assert anna.failures() == {"other": "another connection of this member was closed"}


async def test_a_connection_that_closes_without_a_request_disturbs_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    async with connected(monkeypatch) as anna:
        anna.send("idle", RequestTarget.COORDINATOR)
        await run_ready()
        anna.broker.answer(HeartbeatResponse())
        anna.send("other", RequestTarget.ANY_BROKER)
        await run_ready()
        anna.transport.disconnect_coordinator()
        await run_ready()
        assert all(payload for _, payload in anna.broker.published)
        anna.broker.answer(HeartbeatResponse())
        await run_ready()
        assert anna.results == dict.fromkeys(("idle", "other"), ResponseReceived(7, HeartbeatResponse()))


async def test_without_a_coordinator_a_request_fails_after_five_seconds_and_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with connected(monkeypatch, state="") as anna:
        anna.send("payments")
        await asyncio.sleep(4.9)
        assert anna.results == {}
        await asyncio.sleep(0.2)
        text = "no coordinator on regroup/main/coordinator; is `regroup serve --mqtt` running there?"
        assert text in anna.failures()["payments"]


async def test_after_the_coordinator_has_gone_nothing_is_sent_until_it_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async with connected(monkeypatch) as anna:
        anna.send("before", RequestTarget.COORDINATOR)
        await run_ready()
        anna.broker.answer(HeartbeatResponse())
        anna.broker.announce(b'{"state": "offline"}')
        await run_ready()
        sent = len(anna.broker.published)
        anna.send("on an open connection", RequestTarget.COORDINATOR)
        anna.send("on a new connection", RequestTarget.ANY_BROKER)
        await run_ready()
        assert anna.failures() == {"on an open connection": "no coordinator is there to receive it"}
        await asyncio.sleep(6)
        assert "the coordinator is not there; is `regroup" in anna.failures()["on a new connection"]
        assert len(anna.broker.published) == sent
        anna.broker.announce(b'{"state": "online"}')
        await asyncio.sleep(6)
        assert len(anna.broker.published) == sent, "what has failed is not sent later"
        anna.send("after")
        await asyncio.sleep(1)
        assert anna.open_groups() == ["after"]


async def test_a_broker_that_cannot_be_reached_is_reported_once_and_with_each_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = FakeMqttBroker()
    broker.is_reachable = False
    monkeypatch.setattr(aiomqtt, "Client", broker.new_client)
    anna = Member(broker)
    anna.send("payments")
    await asyncio.sleep(6)
    assert anna.reports == ["mqtt://broker:1883/main: Connection refused; connecting again"]
    assert "Connection refused; is `regroup serve --mqtt` running there?" in anna.failures()["payments"]
    await anna.transport.close()


async def test_a_crash_breaks_the_connection_so_that_the_broker_publishes_the_last_will(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with connected(monkeypatch) as anna:
        connection = anna.broker.connection
        assert connection.will is not None
        assert connection.will.topic == "regroup/main/members/anna/presence"
        assert (connection.will.payload, connection.will.qos) == (b'{"state": "lost", "incarnation": "i1"}', 1)
        with pytest.raises(BlockingIOError):
            connection.socket_of_broker.recv(1)
        anna.transport.crash()
        assert connection.socket_of_broker.recv(1) == b"", "the connection has ended"


async def test_a_crash_is_no_error_and_later_losses_are(monkeypatch: pytest.MonkeyPatch) -> None:
    async with connected(monkeypatch) as anna:
        anna.transport.crash()
        anna.broker.connection.lose()
        await asyncio.sleep(1)
        assert [each["incarnation"] for each in anna.broker.presences()] == ["i1", "i2"]
        assert anna.reports == []
        anna.broker.connection.lose()
        await asyncio.sleep(1)
        lost, found = anna.reports
        assert "the connection was lost; connecting again" in lost
        assert "is connected again" in found


async def test_after_the_coordinator_has_closed_the_connection_a_new_incarnation_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with connected(monkeypatch) as anna:
        anna.send("before")
        await run_ready()
        anna.broker.connection.receive(TOPICS.connection("anna", "i1", "responses"), b"")
        await asyncio.sleep(1)
        assert anna.failures() == {"before": "the connection to the MQTT broker is lost"}
        assert [each["incarnation"] for each in anna.broker.presences()] == ["i1", "i2"]
        anna.send("after")
        await run_ready()
        assert anna.broker.requests[-1][0] == "regroup/main/members/anna/i2/requests"


async def test_a_connection_that_the_coordinator_closes_as_it_breaks_is_reported_as_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    is_broken = asyncio.Event()

    async def break_with_the_connection(outbox: Outbox, client: aiomqtt.Client) -> None:
        await is_broken.wait()
        raise aiomqtt.MqttError("Disconnected")

    monkeypatch.setattr(Outbox, "run", break_with_the_connection)
    async with connected(monkeypatch) as anna:
        is_broken.set()
        anna.broker.connection.receive(TOPICS.connection("anna", "i1", "responses"), b"")
        await run_ready()
        assert anna.reports == ["mqtt://broker:1883/main: the coordinator has closed the connection; connecting again"]


async def test_a_member_that_closes_says_that_it_has_left_and_does_not_come_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with connected(monkeypatch) as anna:
        anna.send("payments")
        await run_ready()
        await anna.transport.close()
        assert anna.broker.client is None
        assert ("regroup/main/members/anna/i1/requests", b"") in anna.broker.published, "its requests are dropped"
        await asyncio.sleep(60)
        assert [each["state"] for each in anna.broker.presences()] == ["online", "offline"]
        assert anna.results == {}


async def test_a_member_closes_although_the_mqtt_broker_answers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with connected(monkeypatch) as anna:

        async def hang(*message: object, **options: object) -> None:
            await asyncio.Event().wait()

        monkeypatch.setattr(anna.broker.connection, "publish", hang)
        began_s = asyncio.get_running_loop().time()
        await anna.transport.close()
        assert asyncio.get_running_loop().time() - began_s <= 1.0
