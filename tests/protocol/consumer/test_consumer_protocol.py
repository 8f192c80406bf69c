"""Bytes of Kafka's own ConsumerProtocol class; any other bytes are decoded or malformed."""

import gzip
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regroup.protocol.consumer.sticky_user_data import (
    StickyUserData,
    decode_cooperative_sticky_user_data,
    decode_sticky_user_data,
    encode_cooperative_sticky_user_data,
    encode_sticky_user_data,
    java_sticky_order,
)
from regroup.protocol.consumer.subscription import (
    Assignment,
    MalformedConsumerProtocol,
    Subscription,
    TopicPartition,
    decode_assignment,
    decode_subscribed_topics,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from regroup.protocol.java_order import java_hash_map_order, java_string_hash, utf16_order

VECTORS = Path(__file__).parents[2] / "assignors" / "vectors" / "consumer_protocol.jsonl.gz"
RECORDS: list[dict[str, Any]] = [json.loads(line) for line in gzip.decompress(VECTORS.read_bytes()).splitlines()]


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [record for record in RECORDS if record["kind"] == kind]


def named(record: dict[str, Any]) -> str:
    return str(record["id"])


def partitions(pairs: list[tuple[str, int]]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic, number) for topic, number in pairs)


def user_data(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


@pytest.mark.parametrize("record", of_kind("subscription"), ids=named)
def test_a_subscription_has_the_bytes_that_java_writes_and_means_what_java_reads(record: dict[str, Any]) -> None:
    subscription = Subscription(
        record["version"],
        tuple(record["topics"]),
        user_data(record["userData"]),
        partitions(record["owned"]),
        record["generation"],
        record["rack"],
    )
    assert encode_subscription(subscription).hex() == record["hex"]
    read = record["decoded"]
    assert decode_subscription(bytes.fromhex(record["hex"])) == Subscription(
        record["version"],
        tuple(read["topics"]),
        user_data(read["userData"]),
        partitions(read["owned"]),
        read["generation"],
        read["rack"],
    )


@pytest.mark.parametrize("record", of_kind("assignment"), ids=named)
def test_an_assignment_has_the_bytes_that_java_writes_and_means_what_java_reads(record: dict[str, Any]) -> None:
    assignment = Assignment(record["version"], partitions(record["partitions"]), user_data(record["userData"]))
    assert encode_assignment(assignment).hex() == record["hex"]
    read = record["decoded"]
    expected = Assignment(record["version"], partitions(read["partitions"]), user_data(read["userData"]))
    assert decode_assignment(bytes.fromhex(record["hex"])) == expected


@pytest.mark.parametrize("record", of_kind("userData"), ids=named)
def test_user_data_has_the_bytes_that_java_writes(record: dict[str, Any]) -> None:
    data = bytes.fromhex(record["hex"])
    if record["assignor"] == "sticky":
        given = StickyUserData(java_sticky_order(partitions(record["assignment"])), record["generation"])
        assert encode_sticky_user_data(given).hex() == record["hex"]
        expected = StickyUserData(partitions(record["decodedOwned"]), record["generation"])
        assert decode_sticky_user_data(data) == expected
    else:
        assert encode_cooperative_sticky_user_data(record["generation"]) == data
        assert decode_cooperative_sticky_user_data(data) == record["generation"]


def test_a_newer_version_is_read_as_version_3_and_the_rest_is_ignored() -> None:
    written = encode_subscription(Subscription(3, ("orders",), rack_id="r1", generation_id=4))
    newer = b"\x00\x09" + written[2:] + b"a later field"
    assert decode_subscription(newer) == decode_subscription(written)
    assert encode_subscription(Subscription(9, ("orders",), rack_id="r1", generation_id=4)) == written


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "2 bytes expected at byte 0, 0 are left"),
        (b"\xff\xff\x00\x00\x00\x00", "version -1 does not exist"),
        (bytes.fromhex("0000 7fffffff 0003 666f6f"), "an array of 2147483647"),
        (bytes.fromhex("0000 ffffffff ffffffff"), "an array of -1"),
        (bytes.fromhex("0000 00000001 ffff ffffffff"), "-1 bytes expected"),
        (bytes.fromhex("0000 00000001 0003 666f6f 000000ff"), "255 bytes expected at byte 15, 0 are left"),
        (bytes.fromhex("0001 00000000 ffffffff 00000001 0001 61 00000004 00000000"), "an array of 4|16 bytes expected"),
    ],
)
def test_a_malformed_subscription_is_refused_with_the_position(data: bytes, message: str) -> None:
    with pytest.raises(MalformedConsumerProtocol, match=message):
        decode_subscription(data)


def test_a_value_that_does_not_fit_is_refused() -> None:
    with pytest.raises(MalformedConsumerProtocol, match="too long"):
        encode_subscription(Subscription(0, ("x" * 40_000,)))
    with pytest.raises(MalformedConsumerProtocol, match="does not fit"):
        encode_assignment(Assignment(0, (TopicPartition("orders", 2**31),)))
    with pytest.raises(MalformedConsumerProtocol, match="version -2"):
        encode_assignment(Assignment(-2, ()))


@pytest.mark.parametrize("version", [-32768, -5, -1, 0, 3, 99, 32767])
def test_the_coordinator_reads_the_topics_of_any_version(version: int) -> None:
    written = encode_subscription(Subscription(1, ("orders",)))
    assert decode_subscribed_topics(version.to_bytes(2, "big", signed=True) + written[2:]) == ("orders",)


def test_the_topics_are_readable_if_a_later_field_is_malformed() -> None:
    data = bytes.fromhex("0001 00000001 0003 666f6f ffffffff") + b"\x7f"
    assert decode_subscribed_topics(data) == ("foo",)
    with pytest.raises(MalformedConsumerProtocol):
        decode_subscription(data)


@pytest.mark.parametrize("data", [b"", b"\x00", b"\xff" * 8, bytes.fromhex("00000001 0001")])
def test_unreadable_user_data_means_a_member_without_a_previous_assignment(data: bytes) -> None:
    assert decode_sticky_user_data(data) == StickyUserData((), -1)


def test_strings_sort_by_utf16_code_unit() -> None:
    assert sorted(["\uff5e", "\U0001f600", "a"], key=utf16_order) == ["a", "\U0001f600", "\uff5e"]


def test_java_hashes_and_hash_map_order() -> None:
    assert java_string_hash("") == 0
    assert java_string_hash("hello") == 99162322
    assert java_string_hash("polygenelubricants") == 2**31  # Integer.MIN_VALUE
    assert java_hash_map_order(["t08", "t10", "t18", "t08"]) == ["t10", "t18", "t08"]
    assert java_hash_map_order(["Aa", "BB"]) == ["Aa", "BB"]  # equal hashes: the order of insertion
    assert java_hash_map_order(["BB", "Aa"]) == ["BB", "Aa"]


names = st.text(max_size=8)
numbers = st.integers(min_value=-(2**31), max_value=2**31 - 1)
some_partitions = st.lists(st.builds(TopicPartition, names, numbers), max_size=8).map(tuple)


@given(st.binary(max_size=80) | st.binary(max_size=80).map(lambda tail: b"\x00\x03\x00\x00\x00\x01" + tail))
def test_any_bytes_are_decoded_or_malformed(data: bytes) -> None:
    for decode in (decode_subscription, decode_assignment, decode_subscribed_topics):
        with suppress(MalformedConsumerProtocol):
            decode(data)
    decode_sticky_user_data(data)
    decode_cooperative_sticky_user_data(data)


@given(
    version=st.integers(0, 3),
    topics=st.lists(names, max_size=5),
    data=st.none() | st.binary(max_size=5),
    owned=some_partitions,
    generation=st.integers(-1, 2**31 - 1),
    rack=st.none() | names,
)
def test_what_was_written_is_read_again(
    version: int,
    topics: list[str],
    data: bytes | None,
    owned: tuple[TopicPartition, ...],
    generation: int,
    rack: str | None,
) -> None:
    read = decode_subscription(encode_subscription(Subscription(version, tuple(topics), data, owned, generation, rack)))
    assert read == Subscription(
        version,
        tuple(sorted(topics, key=utf16_order)),
        data,
        tuple(sorted(owned, key=lambda each: (utf16_order(each.topic), each.partition))) if version >= 1 else (),
        generation if version >= 2 else -1,
        rack or None if version >= 3 else None,
    )
    assert encode_subscription(read) == encode_subscription(decode_subscription(encode_subscription(read)))


@given(some_partitions, st.none() | st.binary(max_size=5), st.integers(0, 3))
def test_an_assignment_is_decoded_as_it_was_encoded(
    assigned: tuple[TopicPartition, ...], data: bytes | None, version: int
) -> None:
    read = decode_assignment(encode_assignment(Assignment(version, assigned, data)))
    assert sorted(read.partitions) == sorted(assigned)
    assert (read.version, read.user_data) == (version, data)
