"""Members over a real Mosquitto: they join as over TCP, die, are noticed, and obey."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import aiomqtt
import msgspec
import pytest

from regroup.members.consumer.inputs import Subscribe
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.consumer.state import Phase
from regroup.members.faults import parse_habit
from regroup.members.runtime.member import Member
from regroup.members.runtime.remote_control import Command, Word, parse_command
from regroup.members.transports.mqtt import MqttTransport
from regroup.mqtt.address import MqttAccess, MqttAddress
from regroup.mqtt.topics import Topics
from regroup.server.broker_cluster import Emulator
from regroup.server.mqtt.embedded import embedded_broker
from regroup.server.mqtt.messages import DeathMessage
from tests.mqtt.brokers import Mosquitto, free_port, needs_mosquitto
from tests.mqtt.playing import Reader, emulating, new_incarnation, patience, served, until

pytestmark = needs_mosquitto


@asynccontextmanager
async def member(address: MqttAddress, name: str, session_timeout_ms: int = 45_000) -> AsyncIterator[Member]:
    """`name` is also its client id."""
    transport = MqttTransport(address, MqttAccess(), name, new_incarnation=new_incarnation, client_id=name)
    settings = ConsumerSettings(
        group_id="payments",
        client_id=name,
        session_timeout_ms=session_timeout_ms,
        heartbeat_interval_ms=200,
        partition_assignment_strategy=("cooperative-sticky",),
    )
    one = Member(name, settings, transport, Subscribe(("orders",)), dies=lambda name: transport.crash())
    one.start()
    try:
        yield one
    finally:
        await one.close()
        await transport.close()


def share(one: Member) -> list[int]:
    return sorted(partition.partition for partition in one.view.partitions)


def both_work(*members: Member) -> Callable[[], bool]:
    return lambda: (
        all(one.view.phase is Phase.STABLE and share(one) for one in members)
        and (sorted(number for one in members for number in share(one)) == [0, 1, 2, 3])
    )


@asynccontextmanager
async def classroom(address: MqttAddress, *, expels: bool = False, brokers: int = 1) -> AsyncIterator[Emulator]:
    async with emulating(brokers=brokers) as emulator, served(emulator, address, expels=expels):
        await emulator.ensure_topic("orders", 4)
        yield emulator


@pytest.mark.parametrize("brokers", [1, 3])
async def test_members_share_a_topic_and_hand_it_over(address: MqttAddress, brokers: int) -> None:
    async with classroom(address, brokers=brokers), member(address, "anna") as anna:
        async with member(address, "ben") as ben:
            await until(both_work(anna, ben))
        await until(both_work(anna))


async def test_members_join_over_the_embedded_broker_too() -> None:
    pytest.importorskip("amqtt", reason="amqtt is not installed: pip install 'kafka-regroup[mqtt-broker]'")
    address = MqttAddress("127.0.0.1", free_port())
    async with (
        embedded_broker("127.0.0.1", address.port, MqttAccess()),
        classroom(address),
        member(address, "anna") as anna,
        member(address, "ben") as ben,
    ):
        await until(both_work(anna, ben))


async def test_members_outlive_their_mqtt_broker_and_their_coordinator(
    address: MqttAddress, mosquitto: Mosquitto
) -> None:
    async with classroom(address) as emulator, member(address, "anna") as anna:
        await until(both_work(anna))
        before = anna.view.generation
        mosquitto.kill()
        mosquitto.start()
        beats = emulator.shares.coordinators[0]
        heard = dict(beats._heard["payments"])
        await until(lambda: beats._heard["payments"] != heard)
        assert anna.view.generation == before, "nobody was missed"


class Line(asyncio.Protocol):
    """One of a member's connections inside, and why it was lost."""

    def __init__(self) -> None:
        self.lost: Exception | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = exc

    def ask(self, frame: bytes) -> None:
        assert isinstance(self.transport, asyncio.Transport)
        self.transport.write(frame)


async def test_what_is_asked_while_the_mqtt_broker_is_away_is_lost_at_once_and_not_sent_later(
    address: MqttAddress, mosquitto: Mosquitto
) -> None:
    async with classroom(address), member(address, "anna") as anna:
        # Given two open connections over MQTT, of which one waits for an answer when the broker dies
        transport = anna._transport
        assert isinstance(transport, MqttTransport)
        waiting, idle = Line(), Line()
        await transport._open_pipe(lambda: waiting, "", 0)
        await transport._open_pipe(lambda: idle, "", 0)
        waiting.ask(b"\x00\x00\x00\x0e\x00\x12\x00\x00" + bytes(10))
        mosquitto.kill()
        await until(lambda: waiting.lost)
        # When the other one asks
        assert idle.lost is None
        idle.ask(b"\x00\x00\x00\x0e\x00\x12\x00\x00" + bytes(10))
        # Then it learns at once that nobody hears it, and nothing is kept for the next incarnation
        await until(lambda: idle.lost)
        assert "no coordinator is there" in str(idle.lost)
        mosquitto.start()
        await until(both_work(anna))


async def test_without_a_coordinator_it_is_said_what_is_missing(
    address: MqttAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regroup.members.transports.mqtt.COORDINATOR_PATIENCE_S", 0.3)
    async with member(address, "anna") as anna:
        await until(lambda: "is `regroup serve --mqtt` running there?" in anna.view.last_error)


def started(words: list[str]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


MEMBER = [sys.executable, "-m", "regroup.cli", "members", "--group", "payments", "--topic", "orders", "--count", "1"]


@pytest.mark.parametrize("expels", [pytest.param(False, marks=pytest.mark.slow), True])
async def test_a_member_that_is_killed_is_announced_by_its_last_will(
    expels: bool, address: MqttAddress, mosquitto: Mosquitto
) -> None:
    words = [*MEMBER, "--mqtt", str(address), "--mqtt-name", "victim", "--session-timeout", "6s"]
    async with (
        classroom(address, expels=expels) as emulator,
        Reader(address).listening() as reader,
        aiomqtt.Client(address.host, address.port) as client,
    ):
        await client.subscribe("regroup/main/groups/+/deaths", qos=1)
        with started([*words, "--heartbeat-interval", "1s"]) as process:
            coordinator = emulator.shares.coordinators[0]
            await until(lambda: coordinator.group("payments").state.value == "Stable")
            process.send_signal(signal.SIGKILL)
        async with patience():
            death = msgspec.json.decode((await anext(aiter(client.messages))).payload, type=DeathMessage)
        assert (death.group, death.name, death.session_timeout_ms) == ("payments", "victim-1", 6_000)
        assert death.expelled is expels
        if not expels:
            topic = Topics("main").group("payments", "state")
            await until(lambda: (state := reader.states.get(topic)) and any(each.died_at_ms for each in state.members))
        last = "member-left" if expels else "member-expelled"
        await until(lambda: any(event.type == last for event in reader.events["payments"]))
        end = next(event for event in reader.events["payments"] if event.type == last)
        assert (end.at_ms - death.died_at_ms < 1_000) is expels, "the will is quicker than the session timeout"
        if expels:
            assert "last will" in msgspec.json.decode(end.payload)["reason"]


@pytest.mark.slow
async def test_a_simulated_crash_is_announced_too_and_the_member_may_come_back(address: MqttAddress) -> None:
    async with classroom(address) as emulator, member(address, "anna", session_timeout_ms=6_000) as anna:
        await until(both_work(anna))
        async with aiomqtt.Client(address.host, address.port) as client:
            await client.subscribe("regroup/main/groups/payments/deaths", qos=1)
            before = list(emulator.shares.coordinators[0].group("payments").members)
            anna.misbehave(parse_habit("restart:200ms"))
            async with patience():
                await anext(aiter(client.messages))
        coordinator, (dead,) = emulator.shares.coordinators[0], before
        await until(lambda: (members := coordinator.group("payments").members) and dead not in members)
        await until(both_work(anna))


@pytest.mark.parametrize(
    ("text", "command"),
    [
        (b"crash", Command(Word.CRASH)),
        (b" Pause 20 s\n", Command(Word.PAUSE, 20_000)),
        (b"pause:500ms", Command(Word.PAUSE, 500)),
        (b"pause", Command(Word.PAUSE, 20_000)),
        (b"slow", Command(Word.SLOW, 5_000)),
        (b"leave", Command(Word.LEAVE)),
        (b"rejoin", Command(Word.REJOIN)),
    ],
)
def test_a_command_is_read(text: bytes, command: Command) -> None:
    assert parse_command(text) == command


@pytest.mark.parametrize(
    "text", [b"", b"dance", b"crash 20s", b"pause soon", b"pause 0s", b"slow 0s", b"\xff\x00", b"pause 9" + b"9" * 300]
)
def test_a_command_that_means_nothing_is_explained(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"known are|write for example|for example"):
        parse_command(text)
