"""Messages that any client may publish: one forged message mutes no member, and junk does not fill the log."""

import aiomqtt
import pytest
from structlog.testing import capture_logs

from regroup.mqtt.address import MqttAddress
from regroup.mqtt.payloads import decode_payload
from regroup.mqtt.topics import MqttTopics
from regroup.protocol.frames import encode_request
from regroup.protocol.header import RequestHeader
from regroup.protocol.messages.cluster import ApiVersionsRequest
from regroup.server.broker_cluster import BrokerCluster
from tests.server.mqtt.harness import wait_until
from tests.server.mqtt.mosquitto import Mosquitto, needs_mosquitto
from tests.server.mqtt.test_remote_members import all_partitions_are_assigned, cluster_on_mqtt, running_member

pytestmark = needs_mosquitto

TOPICS = MqttTopics("main")
FORGED = encode_request(RequestHeader(ApiVersionsRequest.api_key, 0, 2**31 - 1, "mallory"), ApiVersionsRequest())


def heartbeats(cluster: BrokerCluster) -> int:
    """When a member of the group was seen last."""
    return max(cluster.coordinator_of("payments")._last_seen_ms.get("payments", {"": 0}).values())


async def incarnation_of(address: MqttAddress, name: str) -> str:
    """The incarnation that a member uses at present, from its next request."""
    async with aiomqtt.Client(address.host, address.port) as client:
        await client.subscribe(f"{TOPICS.root}/members/{name}/+/requests", qos=1)
        return str((await anext(client.messages)).topic).split("/")[-2]


@pytest.mark.quick("[requests-junk]", "lost")
@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("requests", FORGED),
        ("requests", b"junk"),
        ("requests", b""),
        ("responses", b""),
        ("responses", b"junk"),
        ("presence", b'{"state":"lost","incarnation":"%s"}'),
        ("presence", b'{"state":"offline","incarnation":"%s"}'),
        ("presence", b'{"state":"online","incarnation":"another"}'),
        ("coordinator", b'{"state":"offline","incarnation":"another"}'),
        ("coordinator", b'{"x":' + b"[" * 5_000),
    ],
)
async def test_a_member_goes_on_after_one_forged_message(address: MqttAddress, kind: str, payload: bytes) -> None:
    async with cluster_on_mqtt(address) as cluster, running_member(address, "anna") as anna:
        await wait_until(all_partitions_are_assigned(anna))
        incarnation = await incarnation_of(address, "anna")
        topics = {"presence": TOPICS.member("anna", "presence"), "coordinator": TOPICS.coordinator}
        topic = topics.get(kind) or TOPICS.connection("anna", incarnation, kind)
        async with aiomqtt.Client(address.host, address.port) as mallory:
            await mallory.publish(topic, payload.replace(b"%s", incarnation.encode()), qos=1)
            await mallory.publish(topic, payload.replace(b"%s", incarnation.encode()), qos=1)
        member_ids = list(cluster.coordinator_of("payments").group("payments").members)
        for _ in range(3):
            seen = heartbeats(cluster)
            await wait_until(lambda seen=seen: heartbeats(cluster) > seen)
        await wait_until(all_partitions_are_assigned(anna))
        assert list(cluster.coordinator_of("payments").group("payments").members) == member_ids


async def test_deeply_nested_json_is_refused_with_few_lines_in_the_log(
    address: MqttAddress, mosquitto: Mosquitto
) -> None:
    nested = b'{"x":' + b"[" * 5_000
    root = TOPICS.root
    topics = (
        "coordinator",
        "replay",
        "groups/g/replay",
        "groups/g/state",
        "members/anna/presence",
        "members/a/1/requests",
    )
    with capture_logs() as lines:
        async with cluster_on_mqtt(address), aiomqtt.Client(address.host, address.port) as mallory:
            for _ in range(50):
                for topic in topics:
                    await mallory.publish(f"{root}/{topic}", nested, qos=1)
            async with running_member(address, "ben") as ben:
                await wait_until(all_partitions_are_assigned(ben))
    assert not [line for line in lines if line["log_level"] == "error"]
    assert len([line for line in lines if line["event"] == "mqtt-message-refused"]) <= 3


def test_json_that_is_nested_too_deeply_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        decode_payload(b'{"a":' * 5_000, dict)
