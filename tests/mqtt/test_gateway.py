"""What members from afar may send, well-meant or not. No MQTT broker is needed for that."""

from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from regroup.mqtt.link import Outbox
from regroup.mqtt.topics import Topics
from regroup.protocol.frames import FrameReader, decode_response, encode_request
from regroup.protocol.header import RequestHeader
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import ApiVersionsRequest, MetadataRequest
from regroup.protocol.messages.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from regroup.server.mqtt.deaths import Deaths
from regroup.server.mqtt.gateway import ENDED_INCARNATIONS, MOST_FRAME_BYTES, Gateway
from tests.mqtt.playing import emulating, until

TOPICS = Topics("main")
JOIN = JoinGroupRequest(
    group_id="payments",
    session_timeout_ms=45_000,
    rebalance_timeout_ms=60_000,
    member_id="",
    protocol_type="consumer",
    protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
)


class Recorded(Outbox):
    """Keeps what would go to the MQTT broker."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[tuple[str, bytes]] = []

    def put(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        self.sent.append((topic.removeprefix("regroup/main/members/"), payload))


class Door:
    """A gateway, and what it says. `brokers` of the emulator behind it."""

    def __init__(self, gateway: Gateway, outbox: Recorded, refusals: list[str], deaths: Deaths) -> None:
        self.gateway, self.outbox, self.refusals, self.deaths = gateway, outbox, refusals, deaths
        self._number = 0

    def frame(self, request: Message, version: int) -> bytes:
        self._number += 1
        return encode_request(RequestHeader(request.api_key, version, self._number, "test"), request)

    def ask(self, request: Message, version: int, *, name: str = "anna", incarnation: str = "1") -> None:
        self.gateway.hear_requests(name, incarnation, self.frame(request, version))

    async def answer(self, request: Message, version: int) -> Message:
        """Ask, and wait for the answer."""
        before = len(self.outbox.sent)
        self.ask(request, version)
        await until(lambda: len(self.outbox.sent) > before)
        (frame,) = FrameReader().feed(self.outbox.sent[-1][1])
        return decode_response(request.api_key, version, frame)[1]

    def answered(self) -> list[str]:
        """Under which incarnations, in order."""
        return [topic.split("/")[1] for topic, payload in self.outbox.sent if payload]

    def presence(self, state: str, incarnation: str, name: str = "anna") -> None:
        self.gateway.hear_presence(name, b'{"state":"%s","incarnation":"%s"}' % (state.encode(), incarnation.encode()))


@pytest.fixture(params=[1, 3])
async def door(request: pytest.FixtureRequest) -> AsyncIterator[Door]:
    async with emulating(brokers=request.param) as emulator:
        outbox, refusals, deaths = Recorded(), list[str](), Deaths()
        gateway = Gateway(emulator, TOPICS, outbox, deaths, expels=False, refuse=refusals.append)
        yield Door(gateway, outbox, refusals, deaths)
        gateway.clear()


async def joined(door: Door) -> str:
    """A member that has an id, and whose JoinGroup was answered."""
    first = await door.answer(JOIN, 5)
    assert isinstance(first, JoinGroupResponse)
    answer = await door.answer(replace(JOIN, member_id=first.member_id), 5)
    assert isinstance(answer, JoinGroupResponse)
    assert answer.error_code == 0
    return first.member_id


async def test_a_frame_is_answered_by_the_broker_in_charge(door: Door) -> None:
    assert await joined(door)
    assert {topic for topic, _ in door.outbox.sent} == {"anna/1/responses"}


async def test_a_parked_request_holds_up_no_other_kind(door: Door) -> None:
    await door.answer(JOIN, 3)
    door.ask(JOIN, 3, name="ben")  # parked: anna has not joined again
    sent = len(door.outbox.sent)
    await door.answer(MetadataRequest(topics=[]), 9)
    assert len(door.outbox.sent) == sent + 1


@pytest.mark.parametrize(
    "payload",
    [b"\x00", b"hello, are you a coordinator?", b"\x7f\xff\xff\xff", b"\x00\x00\x00\x02\x00\x0b\x00", b"\xff" * 9],
)
async def test_what_is_no_frame_is_hung_up_on_in_one_line(door: Door, payload: bytes) -> None:
    door.gateway.hear_requests("anna", "1", payload)
    assert door.outbox.sent == [("anna/1/responses", b"")]
    assert len(door.refusals) == 1


@pytest.mark.parametrize("body", [b"", b"\x00", b"\x00\x0b\x00\x05" + b"\xff" * 20, b"\x03\xe7" + bytes(8)])
async def test_a_frame_that_is_no_request_ends_the_connection_as_over_tcp(door: Door, body: bytes) -> None:
    door.gateway.hear_requests("anna", "1", len(body).to_bytes(4, "big") + body)
    await until(lambda: door.outbox.sent == [("anna/1/responses", b"")])
    door.ask(MetadataRequest(topics=[]), 9, incarnation="2")
    await until(lambda: door.answered() == ["2"])


async def test_what_is_too_long_is_refused_before_it_is_read(door: Door) -> None:
    door.gateway.hear_requests("anna", "1", bytes(MOST_FRAME_BYTES + 1))
    assert "at most" in door.refusals[0]
    door.gateway.hear_presence("anna", b" " * 100_000)
    assert "too many" in door.refusals[1]


async def test_a_request_that_comes_twice_counts_once(door: Door) -> None:
    frame = door.frame(ApiVersionsRequest(), 0)
    door.gateway.hear_requests("anna", "1", frame)
    door.gateway.hear_requests("anna", "1", frame)
    assert len(door.outbox.sent) == 1
    assert "repeats" in door.refusals[0]


async def test_an_old_incarnation_is_not_heard_any_more(door: Door) -> None:
    door.ask(ApiVersionsRequest(), 0)
    door.presence("here", "2")
    door.ask(ApiVersionsRequest(), 0, incarnation="1")
    assert door.answered() == ["1"]
    assert "an incarnation that is over" in door.refusals[0]
    door.ask(ApiVersionsRequest(), 0, incarnation="2")
    assert door.answered() == ["1", "2"]


async def test_an_old_incarnation_is_known_after_the_mqtt_broker_was_away(door: Door) -> None:
    # Given a client that was heard before the connection to the MQTT broker was lost, and came back with a new one
    door.ask(ApiVersionsRequest(), 0)
    door.gateway.clear()
    door.presence("here", "2")
    # When what it had asked on its old connection comes late
    door.ask(ApiVersionsRequest(), 0, incarnation="1")
    # Then it is not heard, and the new one is
    door.ask(ApiVersionsRequest(), 0, incarnation="2")
    assert door.answered() == ["1", "2"]


async def test_an_incarnation_that_nobody_has_announced_does_not_silence_the_one_that_lives(door: Door) -> None:
    # Given a coordinator that was just started, and has heard of neither incarnation before
    door.ask(ApiVersionsRequest(), 0, incarnation="2")
    # When an old request comes late
    door.ask(ApiVersionsRequest(), 0, incarnation="1")
    # Then the client is hung up on, so that it asks again, and is served
    assert ("anna/2/responses", b"") in door.outbox.sent
    door.ask(ApiVersionsRequest(), 0, incarnation="2")
    assert door.answered() == ["2", "1", "2"]


async def test_a_last_will_says_who_died_and_a_sign_of_life_takes_it_back(door: Door) -> None:
    member_id = await joined(door)
    door.presence("died", "0")
    assert not door.deaths.of("payments"), "the will of an old incarnation means nothing"
    door.presence("died", "1")
    assert list(door.deaths.of("payments")) == [member_id]
    assert b'"session_timeout_ms":45000' in door.outbox.sent[-1][1]
    beat = HeartbeatRequest(group_id="payments", generation_id=1, member_id=member_id)
    door.ask(beat, 3, incarnation="2")
    assert not door.deaths.of("payments")


async def test_a_goodbye_is_no_death(door: Door) -> None:
    await joined(door)
    door.presence("left", "1")
    door.presence("died", "1")
    assert not door.deaths.of("payments")


async def test_whoever_hangs_up_is_not_answered(door: Door) -> None:
    await joined(door)
    door.ask(JOIN, 3)  # parked until the member joins again
    sent = len(door.outbox.sent)
    door.gateway.hear_requests("anna", "1", b"")
    await door.answer(ApiVersionsRequest(), 0)
    assert len(door.outbox.sent) == sent + 1


@pytest.mark.parametrize("payload", [b"", b"{}", b"\xff", b"[1]", b'{"state":1,"incarnation":2}'])
async def test_a_presence_that_cannot_be_read_is_dropped_in_one_line(door: Door, payload: bytes) -> None:
    door.gateway.hear_presence("anna", payload)
    assert len(door.refusals) == 1


async def test_a_storm_of_incarnations_leaves_little_behind(door: Door) -> None:
    for number in range(1_000):
        door.presence("here", str(number))
        door.ask(ApiVersionsRequest(), 0, incarnation=str(number))
    assert len(door.gateway._visitors) == 1
    assert len(door.gateway._ended["anna"]) == ENDED_INCARNATIONS


@pytest.mark.parametrize(("name", "incarnation"), [("", "1"), ("anna", ""), ("a" * 250, "1"), ("anna", "1" * 250)])
async def test_a_name_that_is_none_or_too_long_is_refused(door: Door, name: str, incarnation: str) -> None:
    door.ask(ApiVersionsRequest(), 0, name=name, incarnation=incarnation)
    assert not door.outbox.sent
    assert len(door.refusals) == 1


async def test_an_idle_connection_is_forgotten_without_a_word(door: Door) -> None:
    await door.answer(ApiVersionsRequest(), 0)
    (pipe,) = door.gateway._visitors["anna"].pipes.values()
    pipe.abort()
    await until(lambda: not door.gateway._visitors["anna"].pipes)
    await door.answer(ApiVersionsRequest(), 0)
    assert all(payload for _, payload in door.outbox.sent), "nobody was hung up on"


async def test_whoever_sends_on_and_on_behind_a_parked_request_is_hung_up_on(door: Door) -> None:
    await door.answer(JOIN, 3)
    door.ask(JOIN, 3, name="ben")  # parked: anna has not joined again
    long = HeartbeatRequest(group_id="payments", generation_id=1, member_id="x" * 30_000)
    for _ in range(50):
        door.ask(long, 3, name="ben")
    await until(lambda: ("ben/1/responses", b"") in door.outbox.sent)


async def test_there_is_room_for_somebody_new_if_somebody_is_idle(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regroup.server.mqtt.gateway.MOST_VISITORS", 2)
    door.presence("here", "1", name="anna")
    door.ask(ApiVersionsRequest(), 0, name="ben")
    door.ask(ApiVersionsRequest(), 0, name="carla")
    assert [topic for topic, _ in door.outbox.sent] == ["ben/1/responses", "carla/1/responses"]
    door.ask(ApiVersionsRequest(), 0, name="dora")
    assert len(door.refusals) == 1
    door.presence("left", "1", name="ben")
    door.ask(ApiVersionsRequest(), 0, name="anna")
    assert door.outbox.sent[-1][0] == "anna/1/responses", "whoever was idle may come back"
