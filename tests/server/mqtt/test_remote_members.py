"""Members over a real Mosquitto: they join as over TCP, and their lost connections are announced."""

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
from regroup.members.consumer.state import MemberState
from regroup.members.faults import parse_fault
from regroup.members.runtime.member import SimulatedMember
from regroup.members.transports.mqtt import MqttTransport
from regroup.mqtt.address import MqttAccess, MqttAddress
from regroup.mqtt.topics import MqttTopics
from regroup.server.broker_cluster import BrokerCluster
from regroup.server.mqtt.embedded import embedded_broker
from regroup.server.mqtt.messages import ConnectionLossMessage
from tests.server.mqtt.harness import (
    FeedListener,
    new_incarnation,
    running_cluster,
    running_service,
    timeout,
    wait_until,
)
from tests.server.mqtt.mosquitto import Mosquitto, free_port, needs_mosquitto

pytestmark = needs_mosquitto


@asynccontextmanager
async def running_member(
    address: MqttAddress, name: str, session_timeout_ms: int = 45_000
) -> AsyncIterator[SimulatedMember]:
    """A member of the group `payments`; `name` is also its client id."""
    transport = MqttTransport(address, MqttAccess(), name, new_incarnation=new_incarnation, client_id=name)
    settings = ConsumerSettings(
        group_id="payments",
        client_id=name,
        session_timeout_ms=session_timeout_ms,
        heartbeat_interval_ms=200,
        partition_assignment_strategy=("cooperative-sticky",),
    )
    member = SimulatedMember(
        name, settings, transport, Subscribe(("orders",)), on_process_exit=lambda name: transport.crash()
    )
    member.start()
    try:
        yield member
    finally:
        await member.close()
        await transport.close()


def assigned_partitions(member: SimulatedMember) -> list[int]:
    return sorted(partition.partition for partition in member.view.partitions)


def all_partitions_are_assigned(*members: SimulatedMember) -> Callable[[], bool]:
    """Each member is stable and has some of the four partitions, and together they have all."""
    return lambda: (
        all(member.view.state is MemberState.STABLE and assigned_partitions(member) for member in members)
        and sorted(number for member in members for number in assigned_partitions(member)) == [0, 1, 2, 3]
    )


@asynccontextmanager
async def cluster_on_mqtt(
    address: MqttAddress, *, remove_on_last_will: bool = False, brokers: int = 1
) -> AsyncIterator[BrokerCluster]:
    """A cluster with its MQTT service and the topic `orders`."""
    async with (
        running_cluster(brokers=brokers) as cluster,
        running_service(cluster, address, remove_on_last_will=remove_on_last_will),
    ):
        await cluster.ensure_topic("orders", 4)
        yield cluster


@pytest.mark.quick("[3]")
@pytest.mark.parametrize("brokers", [1, 3])
async def test_members_divide_a_topic_and_take_it_over(address: MqttAddress, brokers: int) -> None:
    async with cluster_on_mqtt(address, brokers=brokers), running_member(address, "anna") as anna:
        async with running_member(address, "ben") as ben:
            await wait_until(all_partitions_are_assigned(anna, ben))
        await wait_until(all_partitions_are_assigned(anna))


async def test_members_join_over_the_embedded_broker() -> None:
    pytest.importorskip("amqtt", reason="amqtt is not installed: pip install amqtt")
    address = MqttAddress("127.0.0.1", free_port())
    async with (
        embedded_broker("127.0.0.1", address.port, MqttAccess()),
        cluster_on_mqtt(address),
        running_member(address, "anna") as anna,
        running_member(address, "ben") as ben,
    ):
        await wait_until(all_partitions_are_assigned(anna, ben))


async def test_a_restart_of_the_mqtt_broker_removes_no_member(address: MqttAddress, mosquitto: Mosquitto) -> None:
    async with cluster_on_mqtt(address) as cluster, running_member(address, "anna") as anna:
        await wait_until(all_partitions_are_assigned(anna))
        before = anna.view.generation_id
        mosquitto.kill()
        mosquitto.start()
        coordinator = cluster.coordinator_of("payments")
        last_seen_ms = dict(coordinator._last_seen_ms["payments"])
        await wait_until(lambda: coordinator._last_seen_ms["payments"] != last_seen_ms)
        assert anna.view.generation_id == before, "there was no rebalance"


class RecordingProtocol(asyncio.Protocol):
    """The protocol of one connection over MQTT; it keeps the error with which the connection was lost."""

    def __init__(self) -> None:
        self.error: Exception | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.error = exc

    def send(self, frame: bytes) -> None:
        assert isinstance(self.transport, asyncio.Transport)
        self.transport.write(frame)


async def test_requests_without_an_mqtt_broker_fail_at_once_and_are_not_sent_later(
    address: MqttAddress, mosquitto: Mosquitto
) -> None:
    async with cluster_on_mqtt(address), running_member(address, "anna") as anna:
        # Given two open connections over MQTT, of which one waits for a response when the broker is killed
        transport = anna._driver._transport
        assert isinstance(transport, MqttTransport)
        waiting, idle = RecordingProtocol(), RecordingProtocol()
        await transport._open_connection(lambda: waiting, "", 0)
        await transport._open_connection(lambda: idle, "", 0)
        waiting.send(b"\x00\x00\x00\x0e\x00\x12\x00\x00" + bytes(10))
        mosquitto.kill()
        await wait_until(lambda: waiting.error)
        # When the other one sends a request
        assert idle.error is None
        idle.send(b"\x00\x00\x00\x0e\x00\x12\x00\x00" + bytes(10))
        # Then that fails at once, and no request is kept for the next incarnation
        await wait_until(lambda: idle.error)
        assert "no coordinator is there" in str(idle.error)
        mosquitto.start()
        await wait_until(all_partitions_are_assigned(anna))


async def test_the_error_without_a_coordinator_names_the_missing_process(
    address: MqttAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regroup.members.transports.mqtt.COORDINATOR_TIMEOUT_S", 0.3)
    async with running_member(address, "anna") as anna:
        await wait_until(lambda: "is `regroup serve --mqtt` running there?" in anna.view.last_error)


def start_process(words: list[str]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


MEMBER = [sys.executable, "-m", "regroup.cli", "members", "--group", "payments", "--topic", "orders", "--count", "1"]


@pytest.mark.parametrize("remove_on_last_will", [pytest.param(False, marks=pytest.mark.slow), True])
async def test_a_member_that_is_killed_is_announced_by_its_last_will(
    remove_on_last_will: bool, address: MqttAddress, mosquitto: Mosquitto
) -> None:
    words = [*MEMBER, "--mqtt", str(address), "--mqtt-name", "victim", "--session-timeout", "6s"]
    async with (
        cluster_on_mqtt(address, remove_on_last_will=remove_on_last_will) as cluster,
        FeedListener(address).listening() as reader,
        aiomqtt.Client(address.host, address.port) as client,
    ):
        await client.subscribe("regroup/main/groups/+/connection-losses", qos=1)
        with start_process([*words, "--heartbeat-interval", "1s"]) as process:
            coordinator = cluster.coordinator_of("payments")
            await wait_until(lambda: coordinator.group("payments").state.value == "Stable")
            process.send_signal(signal.SIGKILL)
        async with timeout():
            loss = msgspec.json.decode((await anext(aiter(client.messages))).payload, type=ConnectionLossMessage)
        assert (loss.group, loss.client_name, loss.session_timeout_ms) == ("payments", "victim-1", 6_000)
        assert loss.is_removed is remove_on_last_will
        if not remove_on_last_will:
            topic = MqttTopics("main").group("payments", "state")
            await wait_until(
                lambda: (
                    (state := reader.states.get(topic)) and any(each.connection_lost_at_ms for each in state.members)
                )
            )
        last = "member-left" if remove_on_last_will else "member-removed"
        await wait_until(lambda: any(event.type == last for event in reader.events["payments"]))
        end = next(event for event in reader.events["payments"] if event.type == last)
        assert (end.at_ms - loss.lost_at_ms < 1_000) is remove_on_last_will, (
            "the last will is quicker than the session timeout"
        )
        if remove_on_last_will:
            assert "last will" in msgspec.json.decode(end.payload)["reason"]


@pytest.mark.slow
async def test_a_simulated_crash_is_announced_and_the_member_joins_again(address: MqttAddress) -> None:
    async with cluster_on_mqtt(address) as cluster, running_member(address, "anna", session_timeout_ms=6_000) as anna:
        await wait_until(all_partitions_are_assigned(anna))
        async with aiomqtt.Client(address.host, address.port) as client:
            await client.subscribe("regroup/main/groups/payments/connection-losses", qos=1)
            (crashed,) = cluster.coordinator_of("payments").group("payments").members
            anna.inject_fault(parse_fault("restart:200ms"))
            async with timeout():
                await anext(aiter(client.messages))
        coordinator = cluster.coordinator_of("payments")
        await wait_until(lambda: (members := coordinator.group("payments").members) and crashed not in members)
        await wait_until(all_partitions_are_assigned(anna))
