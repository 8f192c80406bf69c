"""Messages of remote clients, valid and invalid; without an MQTT broker."""

from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from regroup.coordinator.consumer.commands import ConsumerGroupHeartbeat
from regroup.coordinator.topics import NO_TOPICS
from regroup.mqtt.link import Outbox
from regroup.mqtt.topics import MqttTopics
from regroup.protocol.frames import FrameReader, decode_response, encode_request
from regroup.protocol.header import RequestHeader
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import ApiVersionsRequest, MetadataRequest, MetadataRequestTopic
from regroup.protocol.messages.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from regroup.server.mqtt.connection_losses import ConnectionLosses
from regroup.server.mqtt.gateway import MAX_ENDED_INCARNATIONS, MAX_REQUEST_MESSAGE_BYTES, Gateway
from tests.coordinator.consumer.migration.migration_harness import subscription
from tests.server.mqtt.harness import running_cluster, wait_until

TOPICS = MqttTopics("main")
JOIN = JoinGroupRequest(
    group_id="payments",
    session_timeout_ms=45_000,
    rebalance_timeout_ms=60_000,
    member_id="",
    protocol_type="consumer",
    protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
)


class RecordingOutbox(Outbox):
    """Keeps the messages for the MQTT broker."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[tuple[str, bytes]] = []

    def put(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        self.sent.append((topic.removeprefix("regroup/main/members/"), payload))


class GatewayHarness:
    """A gateway, its messages, and its refusals."""

    def __init__(
        self, gateway: Gateway, outbox: RecordingOutbox, refusals: list[str], losses: ConnectionLosses
    ) -> None:
        self.gateway, self.outbox, self.refusals, self.losses = gateway, outbox, refusals, losses
        self._number = 0

    def frame(self, request: Message, version: int) -> bytes:
        self._number += 1
        return encode_request(RequestHeader(request.api_key, version, self._number, "test"), request)

    def send(self, request: Message, version: int, *, name: str = "anna", incarnation: str = "1") -> None:
        self.gateway.receive_requests(name, incarnation, self.frame(request, version))

    async def call(self, request: Message, version: int) -> Message:
        """Send a request, and return its response."""
        before = len(self.outbox.sent)
        self.send(request, version)
        await wait_until(lambda: len(self.outbox.sent) > before)
        (frame,) = FrameReader().feed(self.outbox.sent[-1][1])
        return decode_response(request.api_key, version, frame)[1]

    def answered_incarnations(self) -> list[str]:
        """The incarnation of each response, in order."""
        return [topic.split("/")[1] for topic, payload in self.outbox.sent if payload]

    def presence(self, state: str, incarnation: str, name: str = "anna") -> None:
        self.gateway.receive_presence(
            name, b'{"state":"%s","incarnation":"%s"}' % (state.encode(), incarnation.encode())
        )


@pytest.fixture(params=[1, 3])
async def harness(request: pytest.FixtureRequest) -> AsyncIterator[GatewayHarness]:
    async with running_cluster(brokers=request.param) as cluster:
        outbox, refusals, losses = RecordingOutbox(), list[str](), ConnectionLosses()
        gateway = Gateway(cluster, TOPICS, outbox, losses, remove_on_last_will=False, log_refusal=refusals.append)
        yield GatewayHarness(gateway, outbox, refusals, losses)
        gateway.clear()


async def join(harness: GatewayHarness) -> str:
    """Join with a new member, and return its id."""
    first = await harness.call(JOIN, 5)
    assert isinstance(first, JoinGroupResponse)
    second = await harness.call(replace(JOIN, member_id=first.member_id), 5)
    assert isinstance(second, JoinGroupResponse)
    assert second.error_code == 0
    return first.member_id


async def test_a_request_is_handled_by_the_broker_in_charge(harness: GatewayHarness) -> None:
    assert await join(harness)
    assert {topic for topic, _ in harness.outbox.sent} == {"anna/1/responses"}


async def test_a_held_request_does_not_block_requests_of_other_apis(harness: GatewayHarness) -> None:
    await harness.call(JOIN, 3)
    harness.send(JOIN, 3, name="ben")  # held: anna has not joined again
    sent = len(harness.outbox.sent)
    await harness.call(MetadataRequest(topics=[]), 9)
    assert len(harness.outbox.sent) == sent + 1


@pytest.mark.parametrize(
    "payload",
    [b"\x00", b"hello, are you a coordinator?", b"\x7f\xff\xff\xff", b"\x00\x00\x00\x02\x00\x0b\x00", b"\xff" * 9],
)
async def test_an_invalid_frame_disconnects_the_client_with_one_line_in_the_log(
    harness: GatewayHarness, payload: bytes
) -> None:
    harness.gateway.receive_requests("anna", "1", payload)
    assert harness.outbox.sent == [("anna/1/responses", b"")]
    assert len(harness.refusals) == 1


@pytest.mark.parametrize("body", [b"", b"\x00", b"\x00\x0b\x00\x05" + b"\xff" * 20, b"\x03\xe7" + bytes(8)])
async def test_an_invalid_request_closes_the_connection_as_over_tcp(harness: GatewayHarness, body: bytes) -> None:
    harness.gateway.receive_requests("anna", "1", len(body).to_bytes(4, "big") + body)
    await wait_until(lambda: harness.outbox.sent == [("anna/1/responses", b"")])
    harness.send(MetadataRequest(topics=[]), 9, incarnation="2")
    await wait_until(lambda: harness.answered_incarnations() == ["2"])


async def test_a_message_that_is_too_long_is_refused_before_it_is_decoded(harness: GatewayHarness) -> None:
    harness.gateway.receive_requests("anna", "1", bytes(MAX_REQUEST_MESSAGE_BYTES + 1))
    assert "at most" in harness.refusals[0]
    harness.gateway.receive_presence("anna", b" " * 100_000)
    assert "at most" in harness.refusals[1]


async def test_a_request_that_is_delivered_twice_is_handled_once(harness: GatewayHarness) -> None:
    frame = harness.frame(ApiVersionsRequest(), 0)
    harness.gateway.receive_requests("anna", "1", frame)
    harness.gateway.receive_requests("anna", "1", frame)
    assert len(harness.outbox.sent) == 1
    assert "repeats" in harness.refusals[0]


async def test_an_ended_incarnation_is_refused(harness: GatewayHarness) -> None:
    harness.send(ApiVersionsRequest(), 0)
    harness.presence("online", "2")
    harness.send(ApiVersionsRequest(), 0, incarnation="1")
    assert harness.answered_incarnations() == ["1"]
    assert "an incarnation that has ended" in harness.refusals[0]
    harness.send(ApiVersionsRequest(), 0, incarnation="2")
    assert harness.answered_incarnations() == ["1", "2"]


async def test_an_ended_incarnation_is_refused_also_after_the_mqtt_connection_was_lost(harness: GatewayHarness) -> None:
    # Given a client that was known before the connection to the MQTT broker was lost, and has a new incarnation since
    harness.send(ApiVersionsRequest(), 0)
    harness.gateway.clear()
    harness.presence("online", "2")
    # When a request of its old incarnation is late
    harness.send(ApiVersionsRequest(), 0, incarnation="1")
    # Then it is refused, and the new incarnation is served
    harness.send(ApiVersionsRequest(), 0, incarnation="2")
    assert harness.answered_incarnations() == ["1", "2"]


async def test_an_incarnation_without_a_presence_does_not_end_the_connected_one(harness: GatewayHarness) -> None:
    # Given a coordinator that has just started, and knows neither incarnation
    harness.send(ApiVersionsRequest(), 0, incarnation="2")
    # When an old request is late
    harness.send(ApiVersionsRequest(), 0, incarnation="1")
    # Then the client is disconnected, so that it sends its request again, and is served
    assert ("anna/2/responses", b"") in harness.outbox.sent
    harness.send(ApiVersionsRequest(), 0, incarnation="2")
    assert harness.answered_incarnations() == ["2", "1", "2"]


async def test_a_last_will_adds_a_connection_loss_and_the_next_request_clears_it(harness: GatewayHarness) -> None:
    member_id = await join(harness)
    harness.presence("lost", "0")
    assert not harness.losses.of_group("payments"), "the last will of an old incarnation is ignored"
    harness.presence("lost", "1")
    assert list(harness.losses.of_group("payments")) == [member_id]
    assert b'"session_timeout_ms":45000' in harness.outbox.sent[-1][1]
    heartbeat = HeartbeatRequest(group_id="payments", generation_id=1, member_id=member_id)
    harness.send(heartbeat, 3, incarnation="2")
    assert not harness.losses.of_group("payments")


async def test_a_classic_member_of_a_group_of_the_consumer_protocol_is_lost_too(harness: GatewayHarness) -> None:
    cluster = harness.gateway._cluster
    heartbeat = ConsumerGroupHeartbeat(
        group_id="payments",
        at_ms=cluster.state.now_ms(),
        member_id="n1",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topics=("orders",),
        owned={},
        topics=NO_TOPICS,
    )
    cluster.coordinator_of("payments").submit(heartbeat)
    protocol = JoinGroupRequestProtocol(name="range", metadata=subscription("orders"))
    joined = await harness.call(replace(JOIN, member_id="classic", protocols=[protocol]), 5)
    assert isinstance(joined, JoinGroupResponse)
    assert (joined.error_code, joined.leader) == (0, "")
    harness.presence("lost", "1")
    assert list(harness.losses.of_group("payments")) == ["classic"]


async def test_a_closed_connection_is_not_a_lost_one(harness: GatewayHarness) -> None:
    await join(harness)
    harness.presence("offline", "1")
    harness.presence("lost", "1")
    assert not harness.losses.of_group("payments")


async def test_a_client_that_disconnects_gets_no_response(harness: GatewayHarness) -> None:
    await join(harness)
    harness.send(JOIN, 3)  # held until the member joins again
    sent = len(harness.outbox.sent)
    harness.gateway.receive_requests("anna", "1", b"")
    await harness.call(ApiVersionsRequest(), 0)
    assert len(harness.outbox.sent) == sent + 1


@pytest.mark.parametrize(
    "payload", [b"", b"{}", b"\xff", b"[1]", b'{"state":1,"incarnation":2}', b'{"x":' + b"[" * 5_000]
)
async def test_an_invalid_presence_is_dropped_with_one_line_in_the_log(harness: GatewayHarness, payload: bytes) -> None:
    harness.gateway.receive_presence("anna", payload)
    assert len(harness.refusals) == 1


async def test_a_thousand_incarnations_leave_one_client_and_a_few_ended_ones(harness: GatewayHarness) -> None:
    for number in range(1_000):
        harness.presence("online", str(number))
        harness.send(ApiVersionsRequest(), 0, incarnation=str(number))
    assert len(harness.gateway._clients) == 1
    assert len(harness.gateway._ended["anna"]) == MAX_ENDED_INCARNATIONS


@pytest.mark.parametrize(("name", "incarnation"), [("", "1"), ("anna", ""), ("a" * 250, "1"), ("anna", "1" * 250)])
async def test_a_name_that_is_empty_or_too_long_is_refused(
    harness: GatewayHarness, name: str, incarnation: str
) -> None:
    harness.send(ApiVersionsRequest(), 0, name=name, incarnation=incarnation)
    assert not harness.outbox.sent
    assert len(harness.refusals) == 1


async def test_an_idle_connection_is_removed_without_disconnecting_the_client(harness: GatewayHarness) -> None:
    await harness.call(ApiVersionsRequest(), 0)
    (transport,) = harness.gateway._clients["anna"].transports.values()
    transport.abort()
    await wait_until(lambda: not harness.gateway._clients["anna"].transports)
    await harness.call(ApiVersionsRequest(), 0)
    assert all(payload for _, payload in harness.outbox.sent), "no client was disconnected"


async def test_a_client_that_sends_too_much_behind_a_held_request_is_disconnected(harness: GatewayHarness) -> None:
    await harness.call(JOIN, 3)
    harness.send(JOIN, 3, name="ben")  # held: anna has not joined again
    large = HeartbeatRequest(group_id="payments", generation_id=1, member_id="x" * 30_000)
    for _ in range(50):
        harness.send(large, 3, name="ben")
    await wait_until(lambda: ("ben/1/responses", b"") in harness.outbox.sent)


async def test_an_idle_client_makes_room_for_a_new_one(
    harness: GatewayHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regroup.server.mqtt.gateway.MAX_REMOTE_CLIENTS", 2)
    harness.presence("online", "1", name="anna")
    harness.send(ApiVersionsRequest(), 0, name="ben")
    harness.send(ApiVersionsRequest(), 0, name="carla")
    assert [topic for topic, _ in harness.outbox.sent] == ["ben/1/responses", "carla/1/responses"]
    harness.send(ApiVersionsRequest(), 0, name="dora")
    assert len(harness.refusals) == 1
    harness.presence("offline", "1", name="ben")
    harness.send(ApiVersionsRequest(), 0, name="anna")
    assert harness.outbox.sent[-1][0] == "anna/1/responses", "an idle client can return"


# Messages that another client sends in a client's name


@pytest.mark.parametrize("leap", [1, 1_000, 2**31 - 10])
async def test_a_request_out_of_order_ends_the_incarnation_and_disconnects_the_client(
    harness: GatewayHarness, leap: int
) -> None:
    harness.send(ApiVersionsRequest(), 0)
    header = RequestHeader(ApiVersionsRequest.api_key, 0, harness._number + leap, "mallory")
    forged = encode_request(header, ApiVersionsRequest())
    harness.gateway.receive_requests("anna", "1", forged)
    for _ in range(2):
        harness.send(ApiVersionsRequest(), 0)
    assert harness.outbox.sent[-1] == ("anna/1/responses", b"")
    harness.presence("online", "2")
    harness.send(ApiVersionsRequest(), 0, incarnation="2")
    assert harness.answered_incarnations()[-1] == "2"


async def test_a_request_of_an_ended_incarnation_is_answered_by_a_disconnection(harness: GatewayHarness) -> None:
    harness.send(ApiVersionsRequest(), 0)
    harness.presence("lost", "1")
    harness.send(ApiVersionsRequest(), 0)
    assert harness.outbox.sent[-1] == ("anna/1/responses", b"")


async def test_a_disconnection_of_an_ended_incarnation_is_no_refusal(harness: GatewayHarness) -> None:
    """The end of a client and its last message may change places."""
    harness.send(ApiVersionsRequest(), 0)
    harness.presence("offline", "1")
    harness.gateway.receive_requests("anna", "1", b"")
    assert not harness.refusals


async def test_a_response_that_is_too_large_for_mqtt_disconnects_the_client(harness: GatewayHarness) -> None:
    cluster = harness.gateway._cluster
    await cluster.ensure_topic("wide", 10_000)
    topics = [MetadataRequestTopic(name=f"wide-{number}") for number in range(20)]
    for topic in topics:
        await cluster.ensure_topic(topic.name or "", 10_000)
    harness.send(MetadataRequest(topics=topics), 4)
    await wait_until(lambda: harness.outbox.sent)
    assert harness.outbox.sent == [("anna/1/responses", b"")]
    assert "too large" in harness.refusals[0]
