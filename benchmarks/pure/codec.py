"""Microseconds of regroup, kio and kafka-python for each message, one after the other in the same run.

python benchmarks/pure/codec.py
"""

import io
import timeit
import warnings
from collections.abc import Callable

from kio.index import load_entity_schema
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType
from rich.console import Console
from rich.table import Table

from regroup.protocol.codec.codec import codec, encode
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from regroup.protocol.messages.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.protocol import consumer, metadata

ANNA = "anna-2f0cbe1c-6a0f-4d1b-8f0a-0123456789ab"
SUBSCRIPTION = bytes(100)


def partition(index: int) -> MetadataResponsePartition:
    return MetadataResponsePartition(partition_index=index, leader_id=1, replica_nodes=[1, 2, 3], isr_nodes=[1, 2, 3])


MESSAGES: list[tuple[str, str, Message, int]] = [
    (
        "JoinGroupRequest, 2 protocols",
        "join_group",
        JoinGroupRequest(
            group_id="payments",
            session_timeout_ms=45_000,
            rebalance_timeout_ms=300_000,
            member_id=ANNA,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=name, metadata=SUBSCRIPTION) for name in ("range", "sticky")],
        ),
        9,
    ),
    (
        "JoinGroupResponse, 100 members",
        "join_group",
        JoinGroupResponse(
            generation_id=7,
            protocol_type="consumer",
            protocol_name="range",
            leader=ANNA,
            member_id=ANNA,
            members=[JoinGroupResponseMember(member_id=ANNA, metadata=SUBSCRIPTION)] * 100,
        ),
        9,
    ),
    ("HeartbeatRequest", "heartbeat", HeartbeatRequest(group_id="payments", generation_id=7, member_id=ANNA), 4),
    ("HeartbeatResponse", "heartbeat", HeartbeatResponse(), 4),
    (
        "MetadataResponse, 100 topics",
        "metadata",
        MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=9092)],
            topics=[
                MetadataResponseTopic(name=f"topic-{number}", partitions=[partition(index) for index in range(3)])
                for number in range(100)
            ],
        ),
        12,
    ),
]


def microseconds(action: Callable[[], object]) -> float:
    """Microseconds of the action in the shortest of several runs, which other load on the machine disturbed least."""
    timer = timeit.Timer(action)
    number = max(timer.autorange()[0] // 10, 1)
    return min(timer.repeat(15, number)) / number * 1e6


def measure(api: str, message: Message, version: int) -> list[float]:
    """Microseconds for decoding, then for encoding a message: each with regroup, kio and kafka-python."""
    regroup = codec(type(message), version)
    body = encode(message, version)
    name = type(message).__name__
    schema = load_entity_schema(api, version, EntityType.request if name.endswith("Request") else EntityType.response)
    read, write = entity_reader(schema), entity_writer(schema)
    in_kio = read(body, 0)[0]
    kafka_python = getattr(consumer, name, None) or getattr(metadata, name)
    in_kafka_python = kafka_python.decode(body, version=version)
    in_kafka_python._header = None
    actions: list[Callable[[], object]] = [
        lambda: regroup.decode(body, 0),
        lambda: read(body, 0),
        lambda: kafka_python.decode(body, version=version),
        lambda: regroup.encode(message, bytearray()),
        lambda: write(io.BytesIO(), in_kio),
        lambda: in_kafka_python.encode(version=version),
    ]
    return [microseconds(action) for action in actions]


def main() -> None:
    table = Table("message", "version", title="microseconds for one message")
    for action in ("decode", "encode"):
        for library in ("regroup", "kio", "kafka-python"):
            table.add_column(f"{action}\n{library}", justify="right")
    for title, api, message, version in MESSAGES:
        table.add_row(title, str(version), *(f"{each:.2f}" for each in measure(api, message, version)))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
