"""The feed through a real Mosquitto: events, retained states, replays."""

import asyncio

import aiomqtt
import msgspec

from regroup.coordinator import commands as c
from regroup.coordinator.serialization import Cause
from regroup.mqtt.address import MqttAddress
from regroup.mqtt.link import cancel_and_wait
from regroup.mqtt.topics import MqttTopics
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.group import HeartbeatRequest
from regroup.server.mqtt.feed import POSITION_KEY
from regroup.server.mqtt.messages import FeedMessage, Presence, RefusalMessage, TopicNames
from regroup.storage.memory import MemoryStore
from tests.server.mqtt.harness import (
    TIMEOUT_S,
    FeedListener,
    commit,
    first_message,
    running_cluster,
    running_service,
    timeout,
    wait_until,
)
from tests.server.mqtt.mosquitto import Mosquitto, needs_mosquitto
from tests.server.wire_client import WireClient

pytestmark = needs_mosquitto
ODD_GROUPS = ["payments", "a+b/#", "", "%", "\x00\x1b[2J", "漢字 🐑", "$SYS", "x" * 32_767, "/" * 32_767]


async def test_every_event_is_received_once_with_its_position_and_number(address: MqttAddress) -> None:
    store = MemoryStore()
    async with (
        FeedListener(address).listening() as reader,
        running_cluster(store) as cluster,
        running_service(cluster, address),
    ):
        for offset in range(1, 301):
            for group in ("payments", "orders"):
                commit(cluster, group, offset)
            if offset % 50 == 0:
                await asyncio.sleep(0)
        await wait_until(lambda: len(reader.events["payments"]) == len(reader.events["orders"]) == 301)
        stored = [record async for record in store.read(group="payments")]
        assert [(e.position, e.event_number, e.type) for e in reader.events["payments"]] == [
            (record.position, record.event_number, record.type) for record in stored
        ]
        assert [bytes(e.payload) for e in reader.events["payments"]] == [record.payload for record in stored]
        assert reader.replay_requests == []
        assert len(reader.messages) < 200, "events that are durable together share a message"


async def test_any_group_id_has_topics(address: MqttAddress) -> None:
    async with (
        FeedListener(address).listening() as reader,
        running_cluster() as cluster,
        running_service(cluster, address) as service,
    ):
        for group in ODD_GROUPS:
            commit(cluster, group)
        await wait_until(lambda: all(len(reader.events[group]) == 2 for group in ODD_GROUPS))
        topics = [service.topics.group(group, "state") for group in ODD_GROUPS]
        await wait_until(lambda: all(topic in reader.states for topic in topics))
        shown = [reader.states[topic] for topic in topics]
        assert [each.group for each in shown if each] == ODD_GROUPS


async def test_the_state_is_retained_and_cleared_when_the_group_is_deleted(address: MqttAddress) -> None:
    async with (
        running_cluster() as cluster,
        running_service(cluster, address),
        FeedListener(address).listening() as reader,
    ):
        topic = MqttTopics("main").group("payments", "state")
        commit(cluster, "payments")
        summary = msgspec.json.decode(await first_message(address, topic))
        assert (summary["state"], summary["event_number"]) == ("Empty", 2)
        await wait_until(lambda: reader.states.get(topic))
        cluster.coordinator_of("payments").submit(c.DeleteGroup(group_id="payments", at_ms=1))
        await wait_until(lambda: reader.states[topic] is None)


async def test_the_names_of_topics_are_retained_and_follow_their_changes(address: MqttAddress) -> None:
    async with running_cluster() as cluster:
        orders = cluster.state.create_topic("orders", 1, cause=Cause(test="made"))
        async with running_service(cluster, address):

            async def names() -> dict[str, str]:
                return msgspec.json.decode(
                    await first_message(address, MqttTopics("main").topic_names), type=TopicNames
                ).names

            assert await names() == {orders.topic_id: "orders"}
            bills = cluster.state.create_topic("bills", 1, cause=Cause(test="made"))
            async with timeout():
                while await names() != {orders.topic_id: "orders", bills.topic_id: "bills"}:
                    pass


async def test_the_state_of_a_group_that_no_longer_exists_is_cleared(address: MqttAddress) -> None:
    """The group was deleted, or the store replaced, while no coordinator was connected."""
    topic = MqttTopics("main").group("deleted", "state")
    async with aiomqtt.Client(address.host, address.port) as client:
        await client.publish(topic, b'{"group":"deleted"}', qos=1, retain=True)
        await client.publish(MqttTopics("main").group("invalid", "state"), b"?", qos=1, retain=True)
        await client.subscribe("regroup/main/groups/+/state", qos=1)
        async with running_cluster() as cluster, running_service(cluster, address):
            cleared = set()
            async with timeout():
                async for message in client.messages:
                    if message.payload == b"":
                        cleared.add(message.topic.value)
                    if len(cleared) == 2:
                        break
    assert topic in cleared


async def test_a_replay_publishes_a_groups_events_from_a_number_on(address: MqttAddress) -> None:
    async with running_cluster() as cluster, running_service(cluster, address) as service:
        for offset in range(1, 2_500):
            commit(cluster, "payments", offset)
        await service.feed.wait_until_published(cluster.journal.last_position)
        async with timeout(), aiomqtt.Client(address.host, address.port) as client:
            await client.subscribe(service.topics.group("payments", "events"), qos=1)
            for request, first in ((b'{"from": 2490}', 2_490), (b"", 1)):
                await client.publish(service.topics.group("payments", "replay"), request, qos=1)
                numbers: list[int] = []
                while not numbers or numbers[-1] < 2_500:
                    message = msgspec.json.decode((await anext(client.messages)).payload, type=FeedMessage)
                    assert message.is_replay
                    numbers += [event.event_number for event in message.events]
                assert numbers == list(range(first, 2_501))


async def test_an_invalid_replay_request_is_dropped_and_one_for_no_events_gets_an_empty_message(
    address: MqttAddress,
) -> None:
    async with (
        running_cluster() as cluster,
        running_service(cluster, address) as service,
        FeedListener(address).listening() as reader,
    ):
        await service.connected.wait()
        async with aiomqtt.Client(address.host, address.port) as client:
            replay = service.topics.group("unknown", "replay")
            for payload in (b"{", b"[]", b'{"from": "x"}', b'{"from": 1e99}', b"\xff", b" " * 100_000, b'{"form": 3}'):
                await client.publish(replay, payload, qos=1)
            await client.publish("regroup/main/groups/%zz/replay", b"", qos=1)
            await client.publish(replay, b'{"from": 5}', qos=1)
        await wait_until(lambda: reader.messages)
        assert reader.messages == [FeedMessage(group="unknown", events=[], is_replay=True, first_event_number=0)]


async def test_after_a_restart_the_feed_continues_behind_the_acknowledged_position(address: MqttAddress) -> None:
    store = MemoryStore()
    async with running_cluster(store) as cluster, running_service(cluster, address) as service:
        commit(cluster, "payments")
        await wait_until(service.connected.is_set)
    acknowledged = int(await store.get_value(POSITION_KEY) or 0)
    assert acknowledged
    async with (
        FeedListener(address).listening() as reader,
        running_cluster(store) as cluster,
        running_service(cluster, address) as service,
    ):
        await service.feed.wait_until_published(cluster.journal.last_position)
        await wait_until(lambda: any(message.group == "payments" for message in reader.messages))
        published = [event.position for message in reader.messages if not message.is_replay for event in message.events]
        assert min(published) == acknowledged + 1


async def test_the_presence_of_the_coordinator_is_retained(address: MqttAddress, mosquitto: Mosquitto) -> None:
    topic = MqttTopics("main").coordinator
    async with running_cluster() as cluster:
        async with running_service(cluster, address) as service:
            await wait_until(service.connected.is_set)
            assert msgspec.json.decode(await first_message(address, topic), type=Presence).state == "online"
            # The late last will of an earlier connection is corrected.
            async with aiomqtt.Client(address.host, address.port) as client:
                await client.subscribe(topic, qos=1)
                late = msgspec.json.encode(Presence("lost", "earlier"))
                await client.publish(topic, late, qos=1, retain=True)
                async with timeout():
                    states = []
                    async for message in client.messages:
                        assert isinstance(message.payload, bytes)
                        states.append(msgspec.json.decode(message.payload, type=Presence).state)
                        if states[-2:] == ["lost", "online"]:
                            break
        assert msgspec.json.decode(await first_message(address, topic), type=Presence).state == "offline"


async def test_refused_requests_are_published_beside_the_events_and_are_not_stored(address: MqttAddress) -> None:
    store = MemoryStore()
    async with running_cluster(store) as cluster, running_service(cluster, address) as service:
        topic = service.topics.group("payments", "refusals")
        received: list[RefusalMessage] = []
        is_subscribed = asyncio.Event()

        async def listen() -> None:
            async with aiomqtt.Client(address.host, address.port) as client:
                await client.subscribe(topic, qos=1)
                is_subscribed.set()
                async for message in client.messages:
                    assert isinstance(message.payload, bytes)
                    received.append(msgspec.json.decode(message.payload, type=RefusalMessage))

        listening = asyncio.create_task(listen())
        await asyncio.wait_for(is_subscribed.wait(), TIMEOUT_S)
        await asyncio.wait_for(service.connected.wait(), TIMEOUT_S)
        client = await WireClient.connect(*cluster.address)
        for _ in range(50):
            response = await client.call(HeartbeatRequest(group_id="payments", generation_id=3, member_id="anna-1"))
            assert response.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        await wait_until(lambda: received)
        await client.close()
        await cancel_and_wait(listening)
        assert [(each.api, each.error, each.member_id, each.generation_id, each.count) for each in received] == [
            ("Heartbeat", "UNKNOWN_MEMBER_ID", "anna-1", 3, 1)
        ]
        assert [record async for record in store.read(group="payments")] == []
