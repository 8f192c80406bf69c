"""The feed with a failed or trimmed store, and with events that are too large for a message."""

import msgspec
from structlog.testing import capture_logs

from regroup.mqtt.address import MqttAddress
from regroup.server.mqtt.messages import MAX_EVENT_PAYLOAD_BYTES, TARGET_MESSAGE_BYTES, FeedMessage, feed_payloads
from regroup.storage.errors import StoreFailed
from regroup.storage.memory import MemoryStore
from regroup.storage.records import Record
from tests.server.mqtt.harness import FeedListener, commit, running_cluster, running_service, wait_until
from tests.server.mqtt.mosquitto import needs_mosquitto


def record(number: int, payload_bytes: int) -> Record:
    payload = b'"' + b"x" * (payload_bytes - 2) + b'"'
    return Record("payments", number, 1, 0, "offsets-committed", 1, payload, b'{"api":"OffsetCommit"}', number)


def test_many_events_are_published_in_messages_of_bounded_size() -> None:
    payloads = feed_payloads("payments", [record(number, 10_000) for number in range(1, 101)])
    assert len(payloads) > 3
    assert max(map(len, payloads)) < TARGET_MESSAGE_BYTES + 20_000
    messages = [msgspec.json.decode(payload, type=FeedMessage) for payload in payloads]
    assert [event.event_number for message in messages for event in message.events] == list(range(1, 101))


def test_an_event_that_is_too_large_is_published_without_its_payload() -> None:
    (payload,) = feed_payloads("payments", [record(1, MAX_EVENT_PAYLOAD_BYTES + 1)])
    (event,) = msgspec.json.decode(payload, type=FeedMessage).events
    assert len(payload) < 1_000
    assert event.omitted_payload_bytes == MAX_EVENT_PAYLOAD_BYTES + 1
    assert bytes(event.cause) == b'{"api":"OffsetCommit"}'


@needs_mosquitto
async def test_no_event_is_lost_when_the_store_fails_and_is_reopened(address: MqttAddress) -> None:
    with capture_logs():
        async with (
            running_cluster() as cluster,
            running_service(cluster, address),
            FeedListener(address).listening() as reader,
        ):
            commit(cluster, "payments", 1)
            await wait_until(lambda: len(reader.events["payments"]) == 2)
            cluster.journal.fail(StoreFailed("the disk is gone"))
            coordinator = cluster.coordinator_of("payments")
            await wait_until(lambda: coordinator.is_ready)
            commit(cluster, "payments", 2)
            await wait_until(lambda: len(reader.events["payments"]) >= 4)
    stored = [each.position async for each in cluster.store.read(group="payments")]
    assert [event.position for event in reader.events["payments"]] == stored


@needs_mosquitto
async def test_events_trimmed_before_they_were_published_are_skipped_with_a_line_in_the_log(
    address: MqttAddress,
) -> None:
    store = MemoryStore()
    async with running_cluster(store) as cluster:
        for offset in range(1, 11):
            commit(cluster, "payments", offset)
        await cluster.journal.wait_until_durable(cluster.journal.last_position)
        await cluster.take_snapshot()
        await store.trim(6)
        with capture_logs() as lines:
            async with FeedListener(address).listening() as reader, running_service(cluster, address):
                commit(cluster, "payments", 11)
                await wait_until(lambda: reader.events["payments"] and reader.events["payments"][-1].event_number == 12)
        assert [event.event_number for event in reader.events["payments"]] == list(range(6, 13))
        assert [line["reason"] for line in lines if line["event"] == "mqtt-message-refused"] == [
            "events up to position 5 were trimmed before they were published"
        ]
