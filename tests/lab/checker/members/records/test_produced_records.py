"""What producers write is judged by words of the lab's own: by the hash of keys, in turn, or by batches."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from regroup.lab.checker.members.member_invariants import MemberViolation
from regroup.lab.checker.members.records.built_in_partitions import BuiltInPartitions
from regroup.lab.checker.members.records.produced_records import (
    ASKS_AGAIN,
    ASKS_ONCE,
    BATCH_DECIDES,
    KEY_DECIDES,
    LOAD_DECIDES,
    PRODUCED_ONCE,
    TURN_DECIDES,
    ProducedRecords,
    partition_of_key,
)
from regroup.members.partitioners import PartitionerSettings
from regroup.members.runtime.workload import Workload
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.cluster import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from regroup.protocol.messages.records import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from regroup.protocol.record_batch import BatchRecord, write_batch
from tests.members.test_partitioners import HASHES

VALUE_BYTES = 64
DRAW = 7
"""The first random number of the producer."""


class Observed:
    """Producers with these settings as the lab sees them. Each call of `send` is a later instant."""

    def __init__(self, partitioner_class: str, *, keys: int = 0, batch_size: int = 100, **settings: Any) -> None:
        partitioner = PartitionerSettings(partitioner_class=partitioner_class, batch_size=batch_size, **settings)
        self.found: list[MemberViolation] = []
        clock: Iterator[int] = count(100, 100)
        workload = Workload(records_per_s=10, keys=keys, partitioner=partitioner)
        self.produced = ProducedRecords(workload, lambda: next(clock), self.found.extend)
        self.produced.add_producer("orders", DRAW)
        self.set_partition_count(3)
        self._keys, self._next_number = keys, 0

    def set_partition_count(self, partition_count: int) -> None:
        partitions = [
            MetadataResponsePartition(partition_index=number, leader_id=0, replica_nodes=[], isr_nodes=[])
            for number in range(partition_count)
        ]
        response = MetadataResponse(
            brokers=[], controller_id=0, topics=[MetadataResponseTopic(name="orders", partitions=partitions)]
        )
        self.produced.on_response(ProduceRequest(acks=1, timeout_ms=0, topic_data=[]), response)

    def send(self, *partitions: int) -> ProduceRequest:
        """Send the next records together, to these partitions, and return the request."""
        data: dict[int, list[BatchRecord]] = {}
        for partition in partitions:
            key = b"key-%d" % (self._next_number % self._keys) if self._keys else None
            value = (b"%d" % self._next_number).ljust(VALUE_BYTES, b".")
            data.setdefault(partition, []).append(BatchRecord(key=key, value=value))
            self._next_number += 1
        partition_data = [
            PartitionProduceData(index=index, records=write_batch(records, base_timestamp_ms=0))
            for index, records in data.items()
        ]
        request = ProduceRequest(
            acks=1, timeout_ms=0, topic_data=[TopicProduceData(name="orders", partition_data=partition_data)]
        )
        self.produced.on_request(request)
        return request

    def sentences(self) -> list[str]:
        """The sentences that are violated by what was sent."""
        self.produced.on_request(
            ProduceRequest(acks=1, timeout_ms=0, topic_data=[TopicProduceData(name="orders", partition_data=[])])
        )
        return [each.sentence for each in self.found]


def response_for(partition: int, code: int = 0) -> ProduceResponse:
    row = PartitionProduceResponse(index=partition, error_code=code, base_offset=0)
    return ProduceResponse(responses=[TopicProduceResponse(name="orders", partition_responses=[row])])


def sentences_of(observed: Observed, *sent: tuple[int, ...]) -> list[str]:
    for partitions in sent:
        observed.send(*partitions)
    return observed.sentences()


@pytest.mark.parametrize("each", HASHES[:40], ids=lambda each: each["id"])
def test_the_partition_of_a_key_is_kafkas(each: dict[str, Any]) -> None:
    key = bytes.fromhex(each["hex"])
    for partition_count in (1, 3, 12):
        assert partition_of_key(key, partition_count) == each["positive"] % partition_count


@pytest.mark.parametrize(
    "partitioner_class", ["BuiltInPartitioner", "DefaultPartitioner", "DefaultPartitioner-before-2.4"]
)
def test_a_record_in_another_partition_than_that_of_its_key_is_found(partitioner_class: str) -> None:
    right = partition_of_key(b"key-0", 3)
    assert sentences_of(Observed(partitioner_class, keys=1), (right,), (right, right)) == []
    assert sentences_of(Observed(partitioner_class, keys=1), (right,), ((right + 1) % 3,)) == [KEY_DECIDES]


def test_the_partition_of_a_key_follows_the_number_of_partitions_that_the_producer_knows() -> None:
    observed = Observed("DefaultPartitioner", keys=1)
    observed.set_partition_count(7)
    assert sentences_of(observed, (partition_of_key(b"key-0", 7),)) == []


def test_a_record_out_of_order_or_twice_or_with_another_key_is_found() -> None:
    observed = Observed("RoundRobinPartitioner")
    observed._next_number = 1
    assert sentences_of(observed, (1,)) == [PRODUCED_ONCE]
    observed = Observed("RoundRobinPartitioner", keys=2)
    observed._keys = 1
    assert sentences_of(observed, (0, 1)) == [PRODUCED_ONCE]


def test_round_robin_begins_with_the_first_partition_and_misses_none() -> None:
    assert sentences_of(Observed("RoundRobinPartitioner", keys=2), (0, 1), (2, 0), (1,)) == []
    assert sentences_of(Observed("RoundRobinPartitioner"), (1,)) == [TURN_DECIDES]
    assert sentences_of(Observed("RoundRobinPartitioner"), (0, 0)) == [TURN_DECIDES]


def test_the_turn_before_2_4_begins_anywhere_and_again_when_partitions_are_added() -> None:
    assert sentences_of(Observed("DefaultPartitioner-before-2.4"), (2, 0), (1,)) == []
    assert sentences_of(Observed("DefaultPartitioner-before-2.4"), (2,), (2,)) == [TURN_DECIDES]
    observed = Observed("DefaultPartitioner-before-2.4")
    observed.send(2)
    observed.set_partition_count(4)
    assert sentences_of(observed, (2, 3), (0,)) == []


@pytest.mark.parametrize("partitioner_class", ["DefaultPartitioner", "UniformStickyPartitioner"])
def test_a_sticky_partition_lasts_for_a_batch_and_no_longer(partitioner_class: str) -> None:
    assert sentences_of(Observed(partitioner_class, batch_size=128), (1, 1, 2), (0,), (1, 1)) == []
    assert sentences_of(Observed(partitioner_class, batch_size=128), (1, 2)) == [BATCH_DECIDES]
    assert sentences_of(Observed(partitioner_class, batch_size=128), (1, 1, 1)) == [BATCH_DECIDES]
    assert sentences_of(Observed(partitioner_class, batch_size=128), (1,), (1,)) == [BATCH_DECIDES]


def test_a_topic_with_one_partition_leaves_no_choice() -> None:
    for partitioner_class in ("BuiltInPartitioner", "UniformStickyPartitioner", "RoundRobinPartitioner"):
        observed = Observed(partitioner_class)
        observed.set_partition_count(1)
        assert sentences_of(observed, *[(0,)] * 150) == []


def test_a_producer_that_asks_again_before_it_has_a_response_is_found() -> None:
    seen = Observed("RoundRobinPartitioner")
    ask = MetadataRequest(topics=[MetadataRequestTopic(name="orders")])
    seen.produced.on_request(ask)
    seen.produced.on_response(ask, None)
    seen.produced.on_request(ask)
    seen.produced.on_request(MetadataRequest(topics=[MetadataRequestTopic(name="payments")]))
    assert seen.found == []
    seen.produced.on_request(ask)
    assert [each.sentence for each in seen.found] == [ASKS_ONCE]


@pytest.mark.parametrize("code", [0, ErrorCode.NOT_LEADER_OR_FOLLOWER, None])
def test_a_producer_that_does_not_ask_for_the_leaders_after_a_refusal_is_found(code: int | None) -> None:
    """None stands for a request that has failed."""
    seen = Observed("RoundRobinPartitioner")
    seen.produced.on_response(seen.send(0), None if code is None else response_for(0, code))
    seen.send(1)
    seen.send(0)
    found = 0 if code == 0 else 1
    assert [each.sentence for each in seen.found].count(ASKS_AGAIN) == found
    seen.set_partition_count(3)
    seen.send(0)
    assert [each.sentence for each in seen.found].count(ASKS_AGAIN) == found


def test_the_built_in_partitioner_goes_where_its_random_numbers_say() -> None:
    """The first number is 7, and 7 modulo 3 is 1. With 200 bytes the fourth record is enough for no full batch."""
    assert sentences_of(Observed("BuiltInPartitioner", batch_size=200), *[(1,)] * 7) == []
    assert sentences_of(Observed("BuiltInPartitioner"), (2,)) == [LOAD_DECIDES]
    assert sentences_of(Observed("BuiltInPartitioner", batch_size=200), *[(1,)] * 6, (2,)) == [LOAD_DECIDES]
    assert LOAD_DECIDES in sentences_of(Observed("BuiltInPartitioner"), *[(1,)] * 100)


def test_a_built_in_partitioner_may_ignore_keys() -> None:
    keys = {"keys": 1, "batch_size": 500}
    ignoring = Observed("BuiltInPartitioner", **keys, partitioner_ignore_keys=True)
    assert sentences_of(ignoring, (DRAW % 3,), (DRAW % 3,)) == []
    wrong = (partition_of_key(b"key-0", 3) + 1) % 3
    assert sentences_of(Observed("BuiltInPartitioner", **keys), (wrong,)) == [KEY_DECIDES]


def test_the_leaders_and_responses_of_a_producer_count_for_its_next_partition() -> None:
    observed = Observed("BuiltInPartitioner", batch_size=1)
    built_in = BuiltInPartitions(PartitionerSettings(batch_size=1), DRAW, lambda: 0)
    for number in range(20):
        built_in.begin(3)
        (partition,) = built_in.possible()
        built_in.add(partition, VALUE_BYTES)
        built_in.on_sent(partition)
        request = observed.send(partition)
        if number % 3 == 0:
            built_in.on_answered(partition)
            observed.produced.on_response(request, response_for(partition))
    assert observed.sentences() == []
