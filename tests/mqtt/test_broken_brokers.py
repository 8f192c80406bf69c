"""Brokers that die, hang, or were never there: the reader gets everything, and the coordinator notices nothing."""

import asyncio
import signal
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from regroup.mqtt.address import MqttAddress
from regroup.mqtt.link import TIMEOUT_S
from regroup.storage.memory import MemoryStore
from regroup.storage.sqlite.threaded import open_store
from tests.mqtt.brokers import Mosquitto, free_port, needs_mosquitto
from tests.mqtt.playing import Reader, commit, emulating, first_message, served, until

pytestmark = needs_mosquitto


async def test_a_broker_that_is_killed_in_mid_stream_costs_no_event(
    mosquitto: Mosquitto, address: MqttAddress, tmp_path: Path
) -> None:
    groups = [f"group-{n}" for n in range(5)]
    async with (
        await open_store(tmp_path / "groups.db", durability="process") as store,
        Reader(address).listening() as reader,
        emulating(store) as emulator,
        served(emulator, address),
    ):

        async def busy() -> None:
            for offset in range(1, 401):
                for group in groups:
                    commit(emulator, group, offset)
                await asyncio.sleep(0.004)

        working = asyncio.create_task(busy())
        for count in (100, 600):
            await reader.has(count)
            mosquitto.kill()
            await asyncio.sleep(0.2)
            mosquitto.start()
        await working
        await until(lambda: all(len(reader.events[group]) == 401 for group in groups))
        for group in groups:
            stored = [record.position async for record in store.read(group=group)]
            assert [event.position for event in reader.events[group]] == stored
            assert [event.number for event in reader.events[group]] == list(range(1, 402))


async def test_what_the_broker_lost_when_nothing_follows_is_noticed_by_the_state(
    mosquitto: Mosquitto, address: MqttAddress
) -> None:
    """Acknowledged to the coordinator, never delivered, and no later event would show the gap."""
    async with emulating() as emulator, served(emulator, address) as service:
        commit(emulator, "payments")
        await service.feed.told(emulator.journal.last_position)
        mosquitto.kill()
        mosquitto.start()
        async with Reader(address).listening() as reader:
            await until(lambda: len(reader.events["payments"]) == 2)
        assert reader.asks[0] == ("payments", 1)


@pytest.mark.parametrize("how", ["absent", "hanging"])
async def test_a_broker_that_is_no_use_slows_nobody(how: str, mosquitto: Mosquitto) -> None:
    port = free_port() if how == "absent" else mosquitto.port
    with capture_logs() as lines:
        async with emulating(MemoryStore()) as emulator, served(emulator, MqttAddress("127.0.0.1", port)) as service:
            if how == "hanging":
                await until(service.connected.is_set)
                assert mosquitto.process
                mosquitto.process.send_signal(signal.SIGSTOP)
            for offset in range(1, 2_001):
                commit(emulator, "payments", offset)
                await emulator.journal.durable(emulator.journal.last_position)
            assert service.feed.position < 2, "nothing of it was told, and everything is durable"
            ended_s = asyncio.get_running_loop().time()
        assert asyncio.get_running_loop().time() - ended_s < TIMEOUT_S, "nor does it hold up the end"
    if mosquitto.process:
        mosquitto.process.send_signal(signal.SIGCONT)
    assert len([line for line in lines if line["event"].startswith("mqtt")]) <= 1


async def test_states_come_back_to_a_broker_that_forgot_them(mosquitto: Mosquitto, address: MqttAddress) -> None:
    async with emulating() as emulator, served(emulator, address) as service:
        commit(emulator, "payments")
        topic = service.topics.group("payments", "state")
        before = await first_message(address, topic)
        mosquitto.kill()
        mosquitto.start()
        assert await first_message(address, topic) == before


async def test_two_coordinators_on_one_broker_are_kept_apart(mosquitto: Mosquitto) -> None:
    one, other = (MqttAddress("127.0.0.1", mosquitto.port, False, name) for name in ("one", "other"))
    async with (
        emulating() as first,
        emulating() as second,
        served(first, one),
        served(second, other),
        Reader(one).listening() as reader,
        Reader(other).listening() as other_reader,
    ):
        commit(first, "payments")
        commit(second, "payments")
        commit(second, "orders")
        await until(lambda: len(reader.events["payments"]) == 2 and len(other_reader.events["orders"]) == 2)
        assert "orders" not in reader.events
        assert not reader.asks


async def test_two_coordinators_of_one_name_are_told_so(address: MqttAddress) -> None:
    with capture_logs() as lines:
        async with emulating() as first, emulating() as second, served(first, address) as service:
            await until(service.connected.is_set)
            async with served(second, address):
                await until(lambda: [line for line in lines if "another coordinator" in str(line.get("reason"))])


@pytest.mark.slow
async def test_a_thousand_groups(address: MqttAddress) -> None:
    names = [f"group-{n}" for n in range(1_000)]
    async with Reader(address).listening() as reader, emulating() as emulator, served(emulator, address):
        for offset in range(1, 4):
            for name in names:
                commit(emulator, name, offset)
            await emulator.journal.durable(emulator.journal.last_position)
        await until(lambda: all(len(reader.events[name]) == 4 for name in names))
        await until(lambda: len(reader.states) == 1_000 and all(s and s.number == 4 for s in reader.states.values()))
        assert reader.asks == []
