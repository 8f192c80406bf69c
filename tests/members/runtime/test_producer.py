"""The partitions that a simulated producer writes to, with each partitioner, in virtual time."""

import asyncio
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from regroup.lab.plan.yaml_format import InvalidScenario, read_plan, write_plan
from regroup.members.consumer.effects import OutgoingRequest
from regroup.members.consumer.inputs import ResponseReceived
from regroup.members.partitioners import PartitionerSettings, partition_for_key
from regroup.members.runtime.producer import SimulatedProducer
from regroup.members.runtime.workload import Workload
from regroup.members.transports.base import TransportCallback
from regroup.protocol.messages.cluster import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from regroup.protocol.messages.records import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from regroup.protocol.record_batch import read_records, split_batches

PARTITIONS = 3
METADATA = MetadataResponse(
    brokers=[MetadataResponseBroker(node_id=each, host="here", port=9092 + each) for each in range(PARTITIONS)],
    topics=[
        MetadataResponseTopic(
            name="orders",
            partitions=[
                MetadataResponsePartition(partition_index=each, leader_id=each, replica_nodes=[each], isr_nodes=[each])
                for each in range(PARTITIONS)
            ],
        )
    ],
)


def keys_of_records(records: bytes) -> list[bytes | None]:
    return [record.key for batch in split_batches(records) for record in read_records(batch.data)]


class FakeTransport:
    """A transport whose brokers, one for each partition, accept every record; those that hang never answer."""

    def __init__(self, *hanging: int) -> None:
        self._hanging = hanging
        self.ticks: list[dict[int, list[bytes | None]]] = []
        """The keys of the records of each Produce request, by partition."""

    def send(self, request: OutgoingRequest, callback: TransportCallback) -> None:
        message = request.message
        if isinstance(message, MetadataRequest):
            callback(ResponseReceived(request.request_id, METADATA))
        elif isinstance(message, ProduceRequest):
            (topic,) = message.topic_data
            keys = {each.index: keys_of_records(each.records or b"") for each in topic.partition_data}
            self.ticks.append(keys)
            responses = [PartitionProduceResponse(index=each, error_code=0, base_offset=0) for each in keys]
            if not any(each in self._hanging for each in keys):
                topics = [TopicProduceResponse(name="orders", partition_responses=responses)]
                callback(ResponseReceived(request.request_id, ProduceResponse(responses=topics)))

    def disconnect_coordinator(self) -> None: ...

    async def close(self) -> None: ...


async def produce(transport: FakeTransport, *, keys: int = 0, seconds: float = 30, **settings: Any) -> list[int]:
    """The partitions of all records, in the order in which they were sent."""
    partitioner = PartitionerSettings(**settings)
    workload = Workload(records_per_s=10, keys=keys, partitioner=partitioner)
    producer = SimulatedProducer(transport, "orders", workload, draw=1, now_ms=lambda: 0)
    producer.start()
    await asyncio.sleep(seconds)
    producer.close()
    return [number for tick in transport.ticks for number, sent in tick.items() for _ in sent]


async def test_partitions_take_turns_by_default() -> None:
    assert (await produce(FakeTransport()))[:6] == [1, 2, 0, 1, 2, 0]


async def test_a_key_decides_by_default() -> None:
    transport = FakeTransport()
    partitions = await produce(transport, keys=7)
    assert len(partitions) > 200
    for tick in transport.ticks:
        assert all(partition_for_key(key or b"", PARTITIONS) == number for number, keys in tick.items() for key in keys)


async def test_keys_take_turns() -> None:
    transport = FakeTransport()
    await produce(transport, keys=3)
    sent = [key for tick in transport.ticks for keys in tick.values() for key in keys]
    assert sent[:7] == [b"key-0", b"key-1", b"key-2", b"key-0", b"key-1", b"key-2", b"key-0"]


async def test_the_round_robin_partitioner_ignores_keys() -> None:
    partitions = await produce(FakeTransport(), keys=1, partitioner_class="RoundRobinPartitioner")
    assert partitions[:6] == [0, 1, 2, 0, 1, 2]


async def test_the_sticky_partition_changes_with_each_batch_that_is_sent() -> None:
    partitions = await produce(FakeTransport(), partitioner_class="DefaultPartitioner")
    assert all(before != after for before, after in pairwise(partitions))
    assert set(partitions) == {0, 1, 2}


async def test_the_built_in_partitioner_stays_for_batch_size_bytes_although_batches_are_sent() -> None:
    partitions = await produce(FakeTransport(), partitioner_class="BuiltInPartitioner", batch_size=64 * 5)
    assert [len(set(partitions[start : start + 10])) for start in (0, 10, 20)] == [1, 1, 1]
    assert set(partitions) == {0, 1, 2}


@pytest.mark.parametrize("adapts", [True, False])
async def test_the_built_in_partitioner_draws_a_partition_with_unacknowledged_batches_less_often(adapts: bool) -> None:
    settings: dict[str, Any] = {"partitioner_class": "BuiltInPartitioner", "batch_size": 64}
    partitions = await produce(
        FakeTransport(2), partitioner_adaptive_partitioning_enable=adapts, seconds=29, **settings
    )
    assert (Counter(partitions)[2] < 30) is adapts


async def test_the_built_in_partitioner_leaves_out_the_partitions_of_a_slow_leader() -> None:
    settings = {"partitioner_class": "BuiltInPartitioner", "batch_size": 64}
    transport = FakeTransport(2)
    partitions = await produce(transport, partitioner_availability_timeout_ms=1_000, seconds=29, **settings)
    first = partitions.index(2)
    assert 2 not in partitions[first + 15 :]


def test_a_scenario_chooses_the_partitioner_by_kafkas_names() -> None:
    options = "partitioner class: BuiltInPartitioner, partitioner adaptive partitioning enable: false, batch size: 100"
    plan = read_plan(f"members: [anna]\nworkload: {{records per s: 5, partitioner: {{{options}}}}}\n")
    assert plan.workload.partitioner == PartitionerSettings(
        partitioner_class="BuiltInPartitioner", partitioner_adaptive_partitioning_enable=False, batch_size=100
    )
    assert read_plan(write_plan(plan)) == plan
    with pytest.raises(InvalidScenario, match=r"unknown partitioner\.class 'BestPartitioner'"):
        read_plan("members: [anna]\nworkload: {partitioner: {partitioner class: BestPartitioner}}\n")
