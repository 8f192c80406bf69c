"""Which partition a record goes to, with chance handed in."""

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regroup.members.producer.partitioners import (
    Load,
    RoundRobin,
    StickyBatches,
    UniformSticky,
    adaptive_sums,
    murmur2,
    partition_for_key,
    partition_of_record,
)

HASHES = [
    json.loads(line)
    for line in gzip.decompress((Path(__file__).parent / "vectors" / "murmur2.jsonl.gz").read_bytes()).splitlines()
]
EVEN = Load((0, 1, 2), (0, 0, 0))


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


def test_a_record_that_names_a_partition_gets_it_before_its_key_is_looked_at() -> None:
    assert partition_of_record(2, b"21", 3) == 2
    assert partition_of_record(None, b"21", 3) == 0
    assert partition_of_record(None, b"", 3) == partition_for_key(b"", 3)
    assert partition_of_record(None, None, 3) is None
    with pytest.raises(ValueError, match="partition 3 does not exist, the topic has 0 to 2"):
        partition_of_record(3, None, 3)


def test_round_robin_starts_where_it_is_told_and_wraps_around() -> None:
    counter, seen = RoundRobin(7), []
    for _ in range(5):
        partition, counter = counter.next(3)
        seen.append(partition)
    assert seen == [1, 2, 0, 1, 2]
    assert RoundRobin(2**31).next(3)[0] == 0  # the sign bit is masked
    assert RoundRobin(2**32 - 1).next(3)[1] == RoundRobin(0)


def test_round_robin_passes_over_partitions_without_a_leader() -> None:
    assert [RoundRobin(position).next(4, (1, 3))[0] for position in range(3)] == [1, 3, 1]


def test_a_new_batch_goes_to_another_partition_if_there_is_one() -> None:
    batches = StickyBatches.start(3, (0, 1, 2), draw=4)
    assert batches == StickyBatches(1)
    assert {batches.new_batch(3, (0, 1, 2), draw).partition for draw in range(4)} == {0, 2}
    assert batches.new_batch(3, (1,), 5) == StickyBatches(1)
    assert batches.new_batch(3, (), 5) == StickyBatches(2)


def test_uniform_sticky_leaves_after_enough_bytes_and_a_ready_batch() -> None:
    sticky = UniformSticky.start(100, 3, draw=1, load=EVEN)
    assert sticky == UniformSticky(100, 1)
    sticky = sticky.sent(99, 3, 2, EVEN)
    assert sticky == UniformSticky(100, 1, 99)
    assert sticky.sent(1, 3, 2, EVEN) == UniformSticky(100, 2)
    waiting = sticky.sent(1, 3, 2, EVEN, batch_is_ready=False)
    assert waiting == UniformSticky(100, 1, 100)
    assert waiting.sent(100, 3, 2, EVEN, batch_is_ready=False) == UniformSticky(100, 2)


def test_the_draw_may_give_the_same_partition_again() -> None:
    assert UniformSticky(1, 1).sent(1, 3, 1, EVEN) == UniformSticky(1, 1)


def test_a_sticky_size_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="sticky_bytes is 0, it must be at least 1"):
        UniformSticky.start(0, 3, 0, EVEN)


def test_short_queues_are_drawn_more_often() -> None:
    load = Load((0, 1, 2), (0, 3, 1))
    assert adaptive_sums(load) == ((0, 1, 2), (4, 5, 8))
    drawn = [UniformSticky.start(1, 3, draw, load).partition for draw in range(9)]
    assert drawn == [0, 0, 0, 0, 1, 2, 2, 2, 0]
    uniform = [UniformSticky.start(1, 3, draw, load, adaptive=False).partition for draw in range(4)]
    assert uniform == [0, 1, 2, 0]


def test_the_frequencies_of_kafkas_own_test() -> None:
    load = Load((0, 1, 2, 3, 4), (5, 0, 3, 0, 1))
    drawn = Counter(UniformSticky.start(1, 5, draw, load).partition for draw in range(21))
    assert [drawn[partition] for partition in range(5)] == [1, 6, 3, 6, 5]


def test_slow_partitions_are_left_out() -> None:
    load = Load((0, 1, 2), (2, 2, 2), frozenset({1}))
    assert adaptive_sums(load) == ((0, 2), (1, 2))


@pytest.mark.parametrize(
    "load", [Load((), ()), Load((4,), (9,)), Load((0, 1), (3, 3)), Load((0, 1), (3, 4), frozenset({0, 1}))]
)
def test_there_may_be_nothing_to_adapt_to(load: Load) -> None:
    assert adaptive_sums(load) is None


@given(st.binary(max_size=40), st.integers(1, 1000))
def test_every_key_has_one_of_the_partitions(key: bytes, count: int) -> None:
    assert -(2**31) <= murmur2(key) < 2**31
    assert 0 <= partition_for_key(key, count) < count
