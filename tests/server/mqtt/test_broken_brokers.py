"""MQTT brokers that are killed, hang, or cannot be reached: no event is lost, and the coordinator is not slowed."""

import asyncio
import signal
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from regroup.mqtt.address import MqttAddress
from regroup.mqtt.link import MQTT_TIMEOUT_S
from regroup.storage.memory import MemoryStore
from regroup.storage.sqlite.threaded import open_store
from tests.server.mqtt.harness import FeedListener, commit, first_message, running_cluster, running_service, wait_until
from tests.server.mqtt.mosquitto import Mosquitto, free_port, needs_mosquitto

pytestmark = needs_mosquitto


async def test_no_event_is_lost_when_the_broker_is_killed_during_the_feed(
    mosquitto: Mosquitto, address: MqttAddress, tmp_path: Path
) -> None:
    groups = [f"group-{n}" for n in range(5)]
    async with (
        await open_store(tmp_path / "groups.db", durability="process") as store,
        FeedListener(address).listening() as reader,
        running_cluster(store) as cluster,
        running_service(cluster, address),
    ):

        async def commit_offsets() -> None:
            for offset in range(1, 401):
                for group in groups:
                    commit(cluster, group, offset)
                await asyncio.sleep(0.004)

        working = asyncio.create_task(commit_offsets())
        for count in (100, 600):
            await reader.wait_for_events(count)
            mosquitto.kill()
            await asyncio.sleep(0.2)
            mosquitto.start()
        await working
        await wait_until(lambda: all(len(reader.events[group]) == 401 for group in groups))
        for group in groups:
            stored = [record.position async for record in store.read(group=group)]
            assert [event.position for event in reader.events[group]] == stored
            assert [event.event_number for event in reader.events[group]] == list(range(1, 402))


async def test_lost_events_without_a_later_one_are_detected_by_the_state(
    mosquitto: Mosquitto, address: MqttAddress
) -> None:
    """The broker has acknowledged them and never delivered them, and no later event shows the gap."""
    async with running_cluster() as cluster, running_service(cluster, address) as service:
        commit(cluster, "payments")
        await service.feed.wait_until_published(cluster.journal.last_position)
        mosquitto.kill()
        mosquitto.start()
        async with FeedListener(address).listening() as reader:
            await wait_until(lambda: len(reader.events["payments"]) == 2)
        assert reader.replay_requests[0] == ("payments", 1)


@pytest.mark.parametrize("how", ["absent", "hanging"])
async def test_an_unusable_broker_does_not_slow_the_coordinator(how: str, mosquitto: Mosquitto) -> None:
    port = free_port() if how == "absent" else mosquitto.port
    with capture_logs() as lines:
        async with (
            running_cluster(MemoryStore()) as cluster,
            running_service(cluster, MqttAddress("127.0.0.1", port)) as service,
        ):
            if how == "hanging":
                await wait_until(service.connected.is_set)
                assert mosquitto.process
                mosquitto.process.send_signal(signal.SIGSTOP)
            for offset in range(1, 2_001):
                commit(cluster, "payments", offset)
                await cluster.journal.wait_until_durable(cluster.journal.last_position)
            assert service.feed.position < 2, "the events are durable, and were not published"
            ended_s = asyncio.get_running_loop().time()
        assert asyncio.get_running_loop().time() - ended_s < MQTT_TIMEOUT_S, "it does not delay the end either"
    if mosquitto.process:
        mosquitto.process.send_signal(signal.SIGCONT)
    assert len([line for line in lines if line["event"].startswith("mqtt")]) <= 1


async def test_states_are_published_again_to_a_restarted_broker(mosquitto: Mosquitto, address: MqttAddress) -> None:
    async with running_cluster() as cluster, running_service(cluster, address) as service:
        commit(cluster, "payments")
        topic = service.topics.group("payments", "state")
        before = await first_message(address, topic)
        mosquitto.kill()
        mosquitto.start()
        assert await first_message(address, topic) == before


async def test_two_clusters_on_one_broker_are_separate(mosquitto: Mosquitto) -> None:
    one, other = (MqttAddress("127.0.0.1", mosquitto.port, False, name) for name in ("one", "other"))
    async with (
        running_cluster() as first,
        running_cluster() as second,
        running_service(first, one),
        running_service(second, other),
        FeedListener(one).listening() as reader,
        FeedListener(other).listening() as other_reader,
    ):
        commit(first, "payments")
        commit(second, "payments")
        commit(second, "orders")
        await wait_until(lambda: len(reader.events["payments"]) == 2 and len(other_reader.events["orders"]) == 2)
        assert "orders" not in reader.events
        assert not reader.replay_requests


async def test_two_coordinators_with_one_cluster_name_are_logged(address: MqttAddress) -> None:
    with capture_logs() as lines:
        async with running_cluster() as first, running_cluster() as second, running_service(first, address) as service:
            await wait_until(service.connected.is_set)
            async with running_service(second, address):
                await wait_until(lambda: [line for line in lines if "another coordinator" in str(line.get("reason"))])


@pytest.mark.slow
async def test_a_thousand_groups(address: MqttAddress) -> None:
    names = [f"group-{n}" for n in range(1_000)]
    async with (
        FeedListener(address).listening() as reader,
        running_cluster() as cluster,
        running_service(cluster, address),
    ):
        for offset in range(1, 4):
            for name in names:
                commit(cluster, name, offset)
            await cluster.journal.wait_until_durable(cluster.journal.last_position)
        await wait_until(lambda: all(len(reader.events[name]) == 4 for name in names))
        await wait_until(
            lambda: len(reader.states) == 1_000 and all(s and s.event_number == 4 for s in reader.states.values())
        )
        assert reader.replay_requests == []
