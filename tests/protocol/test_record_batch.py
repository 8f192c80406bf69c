"""Record batches: written and read by us and by aiokafka; malformed bytes."""

from contextlib import suppress

import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from hypothesis import given, settings
from hypothesis import strategies as st

from regroup.protocol.exceptions import Malformed
from regroup.protocol.record_batch import (
    BatchRecord,
    assign_offset,
    has_valid_crc,
    read_batch_header,
    read_records,
    split_batches,
    write_batch,
)
from tests.fetched_records import read_all_records

HEADERS = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=2).map(tuple)
RECORDS = st.lists(
    st.builds(
        BatchRecord,
        key=st.none() | st.binary(max_size=90),
        value=st.none() | st.binary(max_size=90),
        headers=HEADERS,
        timestamp_delta_ms=st.integers(-(2**40), 2**40),
    ),
    min_size=1,
    max_size=5,
)
PLAIN = write_batch([BatchRecord(key=b"k", value=b"v"), BatchRecord(value=b"w")], base_timestamp_ms=1_000)


@given(RECORDS)
def test_what_is_written_is_read_again(records: list[BatchRecord]) -> None:
    batch = write_batch(records, base_timestamp_ms=1_700_000_000_123)
    read = read_records(batch)
    assert [(r.key, r.value, r.headers, r.timestamp_delta_ms) for r in read] == [
        (r.key, r.value, r.headers, r.timestamp_delta_ms) for r in records
    ]
    assert [record.offset_delta for record in read] == list(range(len(records)))
    assert has_valid_crc(batch)


def test_aiokafka_reads_what_we_write() -> None:
    theirs = DefaultRecordBatch(bytearray(PLAIN))
    assert theirs.validate_crc()
    assert [(r.offset, r.timestamp, r.key, r.value) for r in theirs] == [(0, 1000, b"k", b"v"), (1, 1000, None, b"w")]


@pytest.mark.parametrize("compression", [0, 1])
def test_we_read_the_header_of_what_aiokafka_writes(compression: int) -> None:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=compression,
        is_transactional=True,
        producer_id=77,
        producer_epoch=3,
        base_sequence=5,
        batch_size=10_000,
    )
    for delta in range(3):
        builder.append(delta, 1_000 + delta, b"key", b"value", [("h", b"1")])
    batch = bytes(builder.build())
    header = read_batch_header(batch)
    assert has_valid_crc(batch)
    assert (header.record_count, header.last_offset, header.max_timestamp_ms) == (3, 2, 1_002)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 3, 5)
    assert (header.compression, header.is_transactional, header.is_control) == (compression, True, False)
    if compression:
        with pytest.raises(Malformed, match="compressed"):
            read_records(batch)
    else:
        assert read_records(batch)[2] == BatchRecord(
            key=b"key", value=b"value", headers=(("h", b"1"),), offset_delta=2, timestamp_delta_ms=2
        )


def test_assigning_an_offset_keeps_the_checksum_valid() -> None:
    moved = assign_offset(PLAIN, 4_000_000_000, 12)
    assert has_valid_crc(moved)
    header = read_batch_header(moved)
    assert (header.base_offset, header.partition_leader_epoch) == (4_000_000_000, 12)
    assert [offset for offset, _ in read_all_records(moved)] == [4_000_000_000, 4_000_000_001]


def test_a_flipped_bit_makes_the_checksum_invalid() -> None:
    assert not has_valid_crc(PLAIN[:-1] + bytes([PLAIN[-1] ^ 1]))


def test_consecutive_batches_are_split() -> None:
    moved = assign_offset(PLAIN, 2, 0)
    assert [(batch.base_offset, batch.data) for batch in split_batches(PLAIN + moved)] == [(0, PLAIN), (2, moved)]


@pytest.mark.parametrize("magic", [0, 1])
def test_old_messages_are_split_and_unchanged(magic: int) -> None:
    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=0, batch_size=10_000)
    for offset in range(3):
        builder.append(offset, timestamp=1_000, key=b"k", value=b"v" * offset)
    blob = bytes(builder.build())
    messages = list(split_batches(blob))
    assert [(message.base_offset, message.magic) for message in messages] == [(0, magic), (1, magic), (2, magic)]
    assert b"".join(message.data for message in messages) == blob


@pytest.mark.parametrize("length", range(1, len(PLAIN)))
def test_a_truncated_batch_is_malformed(length: int) -> None:
    with pytest.raises(Malformed):
        list(split_batches(PLAIN[:length]))


@settings(max_examples=300)
@given(st.integers(0, len(PLAIN) - 1), st.binary(min_size=1, max_size=6))
def test_any_bytes_are_records_or_malformed(position: int, noise: bytes) -> None:
    damaged = PLAIN[:position] + noise + PLAIN[position + len(noise) :]
    with suppress(Malformed):
        list(read_all_records(damaged))
