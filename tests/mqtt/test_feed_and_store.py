"""The feed beside a store that fails or has been trimmed, and what no message has room for."""

import msgspec
from structlog.testing import capture_logs

from regroup.mqtt.address import MqttAddress
from regroup.server.mqtt.messages import MOST_EVENT_BYTES, MOST_MESSAGE_BYTES, FeedMessage, feed_payloads
from regroup.storage.errors import StoreFailed
from regroup.storage.memory import MemoryStore
from regroup.storage.records import Record
from tests.mqtt.brokers import needs_mosquitto
from tests.mqtt.playing import Reader, commit, emulating, served, until


def record(number: int, payload_bytes: int) -> Record:
    payload = b'"' + b"x" * (payload_bytes - 2) + b'"'
    return Record("payments", number, 1, 0, "offsets-committed", 1, payload, b'{"api":"OffsetCommit"}', number)


def test_many_events_are_shared_out_over_messages_of_bounded_size() -> None:
    payloads = feed_payloads("payments", [record(number, 10_000) for number in range(1, 101)])
    assert len(payloads) > 3
    assert max(map(len, payloads)) < MOST_MESSAGE_BYTES + 20_000
    told = [msgspec.json.decode(payload, type=FeedMessage) for payload in payloads]
    assert [event.number for message in told for event in message.events] == list(range(1, 101))


def test_an_event_that_is_too_large_goes_without_its_payload_and_says_so() -> None:
    (payload,) = feed_payloads("payments", [record(1, MOST_EVENT_BYTES + 1)])
    (event,) = msgspec.json.decode(payload, type=FeedMessage).events
    assert len(payload) < 1_000
    assert event.left_out_bytes == MOST_EVENT_BYTES + 1
    assert bytes(event.cause) == b'{"api":"OffsetCommit"}'


@needs_mosquitto
async def test_a_store_that_failed_and_is_back_costs_no_event(address: MqttAddress) -> None:
    with capture_logs():
        async with emulating() as emulator, served(emulator, address), Reader(address).listening() as reader:
            commit(emulator, "payments", 1)
            await until(lambda: len(reader.events["payments"]) == 2)
            emulator.journal.give_up(StoreFailed("the disk is gone"))
            coordinator = emulator.shares.coordinators[0]
            await until(lambda: coordinator.is_ready)
            commit(emulator, "payments", 2)
            await until(lambda: len(reader.events["payments"]) >= 4)
    stored = [each.position async for each in emulator.store.read(group="payments")]
    assert [event.position for event in reader.events["payments"]] == stored


@needs_mosquitto
async def test_what_was_trimmed_before_it_was_told_is_skipped_with_a_line(address: MqttAddress) -> None:
    store = MemoryStore()
    async with emulating(store) as emulator:
        for offset in range(1, 11):
            commit(emulator, "payments", offset)
        await emulator.journal.durable(emulator.journal.last_position)
        await emulator.take_snapshot()
        await store.trim(6)
        with capture_logs() as lines:
            async with Reader(address).listening() as reader, served(emulator, address):
                commit(emulator, "payments", 11)
                await until(lambda: reader.events["payments"] and reader.events["payments"][-1].number == 12)
        assert [event.number for event in reader.events["payments"]] == list(range(6, 13))
        assert [line["reason"] for line in lines if line["event"] == "mqtt-refused"] == [
            "events up to position 5 were trimmed before they were published"
        ]
