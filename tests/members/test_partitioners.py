"""Which partition a record goes to, with the random numbers handed in."""

import gzip
import json
from collections import Counter
from collections.abc import Iterable
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regroup.members.partitioners import (
    PARTITIONER_CLASSES,
    PartitionerSettings,
    PartitionLoad,
    ProducedRecord,
    adaptive_weights,
    create_partitioner,
    murmur2,
    partition_for_key,
)

HASHES = [
    json.loads(line)
    for line in gzip.decompress((Path(__file__).parent / "vectors" / "murmur2.jsonl.gz").read_bytes()).splitlines()
]
THREE_IDLE = PartitionLoad.idle(3)


def new(partitioner_class: str, *draws: int, **settings: Any) -> Any:
    """A partitioner with these random numbers, and 0 from then on."""
    full_settings = PartitionerSettings(partitioner_class=partitioner_class, **settings)
    return PARTITIONER_CLASSES[partitioner_class](full_settings, chain(draws, repeat(0)))


def choices(partitioner: Any, records: Iterable[ProducedRecord], load: PartitionLoad = THREE_IDLE) -> list[int]:
    return [partitioner.partition(record, load) for record in records]


def sized(*sizes: int) -> list[ProducedRecord]:
    return [ProducedRecord(size_bytes=size) for size in sizes]


@pytest.mark.parametrize("record", HASHES, ids=lambda record: record["id"])
def test_murmur2_is_that_of_java(record: dict[str, object]) -> None:
    key = bytes.fromhex(str(record["hex"]))
    assert murmur2(key) == record["hash"]
    assert partition_for_key(key, 2**31) == record["positive"]


@pytest.mark.parametrize(
    ("key", "hashed", "of_three", "of_ten"),
    [
        (b"21", -973932308, 0, 0),
        (b"foobar", -790332482, 0, 6),
        (b"a-little-bit-long-string", -985981536, 2, 2),
        (b"a-little-bit-longer-string", -1486304829, 2, 9),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971, 2, 7),
        (b"abc", 479470107, 0, 7),
    ],
)
def test_keys_of_kafkas_own_test(key: bytes, hashed: int, of_three: int, of_ten: int) -> None:
    assert (murmur2(key), partition_for_key(key, 3), partition_for_key(key, 10)) == (hashed, of_three, of_ten)


@pytest.mark.parametrize("name", PARTITIONER_CLASSES)
def test_a_record_goes_to_the_partition_that_it_names(name: str) -> None:
    partitioner = new(name)
    assert choices(partitioner, [ProducedRecord(b"21", partition=2), ProducedRecord(partition=1)]) == [2, 1]
    for missing in (3, -1):
        with pytest.raises(ValueError, match=f"invalid partition: {missing}; the topic has partitions 0 to 2"):
            partitioner.partition(ProducedRecord(partition=missing), THREE_IDLE)


@pytest.mark.parametrize("name", ["BuiltInPartitioner", "DefaultPartitioner", "DefaultPartitioner-before-2.4"])
def test_a_record_with_a_key_goes_to_the_partition_of_its_key(name: str) -> None:
    keys = [b"21", b"", b"a-little-bit-long-string"]
    assert choices(new(name), map(ProducedRecord, keys)) == [partition_for_key(key, 3) for key in keys]


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("RoundRobinPartitioner", {}),
        ("UniformStickyPartitioner", {}),
        ("BuiltInPartitioner", {"partitioner_ignore_keys": True}),
    ],
)
def test_other_partitioners_ignore_keys(name: str, settings: dict[str, Any]) -> None:
    settings = {"batch_size": 1, **settings}
    with_key, without = [ProducedRecord(b"21", 1)] * 6, sized(1) * 6
    assert choices(new(name, 1, 2, 1, **settings), with_key) == choices(new(name, 1, 2, 1, **settings), without)


def test_records_without_a_key_take_the_partitions_in_turn_from_a_random_one_before_kafka_2_4() -> None:
    partitioner = new("DefaultPartitioner-before-2.4", 7)
    assert choices(partitioner, sized(0) * 5) == [1, 2, 0, 1, 2]
    assert choices(new("DefaultPartitioner-before-2.4", 2**31), sized(0)) == [0]  # the sign bit is masked
    last = new("DefaultPartitioner-before-2.4", 2**32 - 1)
    choices(last, sized(0))
    assert last.position == 0


def test_round_robin_starts_with_the_first_partition() -> None:
    assert choices(new("RoundRobinPartitioner", 7), sized(0) * 4) == [0, 1, 2, 0]


def test_partitions_without_a_leader_are_left_out() -> None:
    load = PartitionLoad(4, (1, 3), (0, 0))
    assert choices(new("RoundRobinPartitioner"), sized(0) * 3, load) == [1, 3, 1]


def test_a_new_batch_of_the_default_partitioner_goes_to_another_partition_if_there_is_one() -> None:
    # The first record opens a batch, before which another partition is drawn (KIP-480).
    for draw in range(4):
        partitioner = new("DefaultPartitioner", 4, draw)
        assert partitioner.partition(ProducedRecord(), THREE_IDLE) == (0, 2)[draw % 2]
    assert choices(new("DefaultPartitioner", 5, 5), sized(1), PartitionLoad(3, (1,), (0,))) == [1]
    assert choices(new("DefaultPartitioner", 5, 5), sized(1), PartitionLoad(3, (), ())) == [2]


def test_records_without_a_key_stay_in_one_partition_until_its_batch_is_full() -> None:
    partitioner = new("DefaultPartitioner", 0, 0, 1, 0, batch_size=100)
    assert choices(partitioner, sized(60, 40, 1, 99, 1)) == [1, 1, 2, 2, 0]


def test_a_new_batch_begins_after_the_open_ones_were_sent() -> None:
    partitioner = new("UniformStickyPartitioner", 0, 0, 1)
    assert choices(partitioner, sized(1, 1)) == [1, 1]
    partitioner.close_batches()
    assert choices(partitioner, sized(1, 1)) == [2, 2]


def test_a_record_with_a_key_moves_the_sticky_partition_only_from_its_own() -> None:
    keyed = ProducedRecord(b"21", 10)  # partition 0
    partitioner = new("DefaultPartitioner", 0, 0, batch_size=10)
    assert choices(partitioner, [*sized(1), keyed, keyed, *sized(1)]) == [1, 0, 0, 1]
    partitioner = new("DefaultPartitioner", 1, 0, 1, 1, batch_size=10)
    assert choices(partitioner, [*sized(1), keyed]) == [0, 0]
    assert partitioner.sticky_partition == 2
    assert choices(partitioner, sized(1)) == [1]  # no batch is open for partition 2


def test_the_built_in_partitioner_leaves_a_partition_after_batch_size_bytes_and_a_full_batch() -> None:
    assert choices(new("BuiltInPartitioner", 1, 2, 0, batch_size=100), sized(99, 1, 100, 1)) == [1, 1, 2, 0]
    # 60 + 60 bytes are two batches, of which the last is not full; 200 bytes are enough in any case.
    assert choices(new("BuiltInPartitioner", 1, 2, batch_size=100), sized(60, 60, 60, 20, 1)) == [1, 1, 1, 1, 2]


def test_records_with_a_key_fill_batches_but_do_not_count_for_the_sticky_partition() -> None:
    keyed = ProducedRecord(b"21", 60)  # partition 0
    assert choices(new("BuiltInPartitioner", 0, 1, batch_size=100), [keyed, *sized(40, 60, 1)]) == [0, 0, 0, 0]


def test_the_draw_may_give_the_same_partition_again() -> None:
    assert choices(new("BuiltInPartitioner", 1, 1, batch_size=1), sized(1, 1)) == [1, 1]


def test_short_queues_are_drawn_more_often() -> None:
    load = PartitionLoad(3, (0, 1, 2), (0, 3, 1))
    assert adaptive_weights(load) == ((0, 1, 2), (4, 5, 8))
    assert [choices(new("BuiltInPartitioner", draw), sized(0), load) for draw in range(9)] == [
        [each] for each in (0, 0, 0, 0, 1, 2, 2, 2, 0)
    ]
    uniform = {"partitioner_adaptive_partitioning_enable": False}
    assert [choices(new("BuiltInPartitioner", draw, **uniform), sized(0), load) for draw in range(4)] == [
        [each] for each in (0, 1, 2, 0)
    ]


def test_the_frequencies_of_kafkas_own_test() -> None:
    load = PartitionLoad(5, (0, 1, 2, 3, 4), (5, 0, 3, 0, 1))
    drawn = Counter(new("BuiltInPartitioner", draw).partition(ProducedRecord(), load) for draw in range(21))
    assert [drawn[partition] for partition in range(5)] == [1, 6, 3, 6, 5]


def test_slow_partitions_are_left_out() -> None:
    assert adaptive_weights(PartitionLoad(3, (0, 1, 2), (2, 2, 2), frozenset({1}))) == ((0, 2), (1, 2))


@pytest.mark.parametrize(
    "load",
    [
        PartitionLoad(5, (), ()),
        PartitionLoad(5, (4,), (9,)),
        PartitionLoad(2, (0, 1), (3, 3)),
        PartitionLoad(2, (0, 1), (3, 4), frozenset({0, 1})),
    ],
)
def test_there_may_be_nothing_to_adapt_to(load: PartitionLoad) -> None:
    assert adaptive_weights(load) is None


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"partitioner_class": "BestPartitioner"}, "unknown partitioner.class 'BestPartitioner'; use one of: BuiltIn"),
        ({"batch_size": 0}, "batch.size must be at least 1, not 0"),
        ({"partitioner_availability_timeout_ms": -1}, "partitioner.availability.timeout.ms must be at least 0, not -1"),
    ],
)
def test_invalid_settings_are_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PartitionerSettings(**wrong)


def test_settings_are_read_from_kafkas_producer_properties() -> None:
    properties = {
        "partitioner.class": "org.apache.kafka.clients.producer.RoundRobinPartitioner",
        "partitioner.ignore.keys": "true",
        "batch.size": "100",
    }
    assert PartitionerSettings.from_properties(properties) == PartitionerSettings(
        partitioner_class="RoundRobinPartitioner", partitioner_ignore_keys=True, batch_size=100
    )
    for wrong, message in [
        ({"linger.ms": "5"}, "unknown producer property 'linger.ms'; use one of: partitioner.class, "),
        ({"batch.size": "big"}, "invalid value for batch.size: 'big'; write a whole number"),
        ({"partitioner.ignore.keys": "1"}, "invalid value for partitioner.ignore.keys: '1'; write true or false"),
    ]:
        with pytest.raises(ValueError, match=message):
            PartitionerSettings.from_properties(wrong)


def test_the_first_random_number_is_the_draw_and_decides_the_others() -> None:
    assert choices(create_partitioner(PartitionerSettings(), draw=5), sized(0) * 3) == [2, 0, 1]
    sticky = PartitionerSettings(partitioner_class="BuiltInPartitioner", batch_size=10)
    load = PartitionLoad.idle(9)
    once, again, other = (choices(create_partitioner(sticky, draw), sized(1) * 99, load) for draw in (7, 7, 8))
    assert once == again != other
    assert len(set(once)) > 3


def test_the_same_draw_gives_the_same_partitions_in_every_version_of_regroup() -> None:
    sticky = create_partitioner(PartitionerSettings(partitioner_class="DefaultPartitioner", batch_size=1), draw=7)
    assert choices(sticky, sized(1) * 6, PartitionLoad.idle(6)) == [5, 2, 5, 4, 5, 2]


@given(st.binary(max_size=40), st.integers(1, 1000))
def test_every_key_has_one_of_the_partitions(key: bytes, count: int) -> None:
    assert -(2**31) <= murmur2(key) < 2**31
    assert 0 <= partition_for_key(key, count) < count


@pytest.mark.parametrize("partitioner_class", ["BuiltInPartitioner", "DefaultPartitioner", "UniformStickyPartitioner"])
def test_a_sticky_partition_that_a_smaller_topic_does_not_have_is_drawn_again(partitioner_class: str) -> None:
    sticky = new(partitioner_class, 5, 4)
    assert sticky.partition(ProducedRecord(size_bytes=10), PartitionLoad.idle(6)) >= 2
    assert sticky.partition(ProducedRecord(size_bytes=10), PartitionLoad.idle(2)) < 2
