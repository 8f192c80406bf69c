"""The feed through a real Mosquitto: every event, states that are retained, and what is asked for again."""

import asyncio

import aiomqtt
import msgspec

from regroup.coordinator import commands as c
from regroup.mqtt.address import MqttAddress
from regroup.mqtt.topics import Topics
from regroup.server.mqtt.feed import KEPT_AS
from regroup.server.mqtt.messages import FeedMessage, Presence
from regroup.storage.memory import MemoryStore
from tests.mqtt.brokers import Mosquitto, needs_mosquitto
from tests.mqtt.playing import Reader, commit, emulating, first_message, patience, served, until

pytestmark = needs_mosquitto
ODD_GROUPS = ["payments", "a+b/#", "", "%", "\x00\x1b[2J", "漢字 🐑", "$SYS", "x" * 32_767, "/" * 32_767]


async def test_every_event_comes_once_with_its_position_and_number(address: MqttAddress) -> None:
    store = MemoryStore()
    async with Reader(address).listening() as reader, emulating(store) as emulator, served(emulator, address):
        for offset in range(1, 301):
            for group in ("payments", "orders"):
                commit(emulator, group, offset)
            if offset % 50 == 0:
                await asyncio.sleep(0)
        await until(lambda: len(reader.events["payments"]) == len(reader.events["orders"]) == 301)
        stored = [record async for record in store.read(group="payments")]
        assert [(e.position, e.number, e.type) for e in reader.events["payments"]] == [
            (record.position, record.number, record.type) for record in stored
        ]
        assert [bytes(e.payload) for e in reader.events["payments"]] == [record.payload for record in stored]
        assert reader.asks == []
        assert len(reader.messages) < 200, "events of one moment go together"


async def test_any_group_id_has_its_topics(address: MqttAddress) -> None:
    async with Reader(address).listening() as reader, emulating() as emulator, served(emulator, address) as service:
        for group in ODD_GROUPS:
            commit(emulator, group)
        await until(lambda: all(len(reader.events[group]) == 2 for group in ODD_GROUPS))
        topics = [service.topics.group(group, "state") for group in ODD_GROUPS]
        await until(lambda: all(topic in reader.states for topic in topics))
        shown = [reader.states[topic] for topic in topics]
        assert [each.group for each in shown if each] == ODD_GROUPS


async def test_the_state_is_retained_and_cleared_when_the_group_is_deleted(address: MqttAddress) -> None:
    async with emulating() as emulator, served(emulator, address), Reader(address).listening() as reader:
        topic = Topics("main").group("payments", "state")
        commit(emulator, "payments")
        summary = msgspec.json.decode(await first_message(address, topic))
        assert (summary["state"], summary["number"]) == ("Empty", 2)
        await until(lambda: reader.states.get(topic))
        emulator.shares.coordinators[0].submit(c.DeleteGroup(group_id="payments", at_ms=1))
        await until(lambda: reader.states[topic] is None)


async def test_a_state_that_outlived_its_group_is_cleared(address: MqttAddress) -> None:
    """The group was deleted, or the store changed, while no coordinator was connected."""
    topic = Topics("main").group("long gone", "state")
    async with aiomqtt.Client(address.host, address.port) as client:
        await client.publish(topic, b'{"group":"long gone"}', qos=1, retain=True)
        await client.publish(Topics("main").group("rubbish", "state"), b"?", qos=1, retain=True)
        await client.subscribe("regroup/main/groups/+/state", qos=1)
        async with emulating() as emulator, served(emulator, address):
            cleared = set()
            async with patience():
                async for message in client.messages:
                    if message.payload == b"":
                        cleared.add(message.topic.value)
                    if len(cleared) == 2:
                        break
    assert topic in cleared


async def test_a_groups_events_are_sent_again_from_a_number(address: MqttAddress) -> None:
    async with emulating() as emulator, served(emulator, address) as service:
        for offset in range(1, 2_500):
            commit(emulator, "payments", offset)
        await service.feed.told(emulator.journal.last_position)
        async with patience(), aiomqtt.Client(address.host, address.port) as client:
            await client.subscribe(service.topics.group("payments", "events"), qos=1)
            for request, first in ((b'{"from": 2490}', 2_490), (b"", 1)):
                await client.publish(service.topics.group("payments", "again"), request, qos=1)
                numbers: list[int] = []
                while not numbers or numbers[-1] < 2_500:
                    told = msgspec.json.decode((await anext(client.messages)).payload, type=FeedMessage)
                    assert told.again
                    numbers += [event.number for event in told.events]
                assert numbers == list(range(first, 2_501))


async def test_a_request_that_means_nothing_is_dropped_and_one_for_nothing_is_answered(address: MqttAddress) -> None:
    async with emulating() as emulator, served(emulator, address) as service, Reader(address).listening() as reader:
        await service.connected.wait()
        async with aiomqtt.Client(address.host, address.port) as client:
            again = service.topics.group("nobody", "again")
            for payload in (b"{", b"[]", b'{"from": "x"}', b'{"from": 1e99}', b"\xff", b" " * 100_000, b'{"form": 3}'):
                await client.publish(again, payload, qos=1)
            await client.publish("regroup/main/groups/%zz/again", b"", qos=1)
            await client.publish(again, b'{"from": 5}', qos=1)
        await until(lambda: reader.messages)
        assert reader.messages == [FeedMessage(group="nobody", events=[], again=True, first=0)]


async def test_after_a_restart_the_feed_goes_on_where_it_was_acknowledged(address: MqttAddress) -> None:
    store = MemoryStore()
    async with emulating(store) as emulator, served(emulator, address) as service:
        commit(emulator, "payments")
        await until(service.connected.is_set)
    acknowledged = int(await store.kept(KEPT_AS) or 0)
    assert acknowledged
    async with (
        Reader(address).listening() as reader,
        emulating(store) as emulator,
        served(emulator, address) as service,
    ):
        await service.feed.told(emulator.journal.last_position)
        await until(lambda: any(message.group == "payments" for message in reader.messages))
        told = [event.position for message in reader.messages if not message.again for event in message.events]
        assert min(told) == acknowledged + 1


async def test_the_coordinator_says_that_it_is_there_and_the_broker_that_it_died(
    address: MqttAddress, mosquitto: Mosquitto
) -> None:
    topic = Topics("main").coordinator
    async with emulating() as emulator:
        async with served(emulator, address) as service:
            await until(service.connected.is_set)
            assert msgspec.json.decode(await first_message(address, topic), type=Presence).state == "here"
            # A will that comes late, of an earlier life, is answered.
            async with aiomqtt.Client(address.host, address.port) as client:
                await client.subscribe(topic, qos=1)
                late = msgspec.json.encode(Presence("died", "long ago"))
                await client.publish(topic, late, qos=1, retain=True)
                async with patience():
                    states = []
                    async for message in client.messages:
                        assert isinstance(message.payload, bytes)
                        states.append(msgspec.json.decode(message.payload, type=Presence).state)
                        if states[-2:] == ["died", "here"]:
                            break
        assert msgspec.json.decode(await first_message(address, topic), type=Presence).state == "left"
