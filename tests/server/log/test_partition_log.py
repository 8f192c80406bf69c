"""One partition's log: offsets, retention, producers, transactions, validation."""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regroup.protocol.errors import ErrorCode
from regroup.protocol.record_batch import TRANSACTIONAL, BatchRecord, read_batch_header, split_batches, write_batch
from regroup.server.errors import RequestError
from regroup.server.log.partition_log import PartitionLog
from regroup.server.log.record_validation import LegacyAllowance, ValidatedBatch
from tests.fetched_records import read_all_records
from tests.server.validated_records import validated

NO_LIMIT = 2**31


def new_log(retention_bytes: int = -1, log_end_offset: int = 0, leader_epoch: int = 0) -> PartitionLog:
    log = PartitionLog(leader_epoch=leader_epoch, retention_bytes=retention_bytes, log_end_offset=log_end_offset)
    log.reserve(NO_LIMIT)
    return log


def batch(*values: bytes, at_ms: int = 1000, **header: int) -> list[ValidatedBatch]:
    data = write_batch([BatchRecord(value=value) for value in values], base_timestamp_ms=at_ms, **header)
    return validated(data, produce_version=9, max_bytes=10_000)


def produced(
    producer_id: int, sequence: int, *values: bytes, epoch: int = 0, attributes: int = 0
) -> list[ValidatedBatch]:
    return batch(*values, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, attributes=attributes)


@contextmanager
def refused_with(code: ErrorCode) -> Iterator[None]:
    with pytest.raises(RequestError) as refused:
        yield
    assert refused.value.code == code


def read(log: PartitionLog, offset: int = 0, before: int | None = None) -> list[tuple[int, bytes | None]]:
    before = log.high_watermark if before is None else before
    data = b"".join(log.read(offset, before=before, max_bytes=NO_LIMIT, at_least_one=True))
    return [(at, record.value) for at, record in read_all_records(data)]


@given(st.lists(st.lists(st.binary(max_size=5), min_size=1, max_size=4), max_size=8), st.integers(0, 40))
def test_what_was_written_is_read_in_order_from_any_offset(batches: list[list[bytes]], offset: int) -> None:
    log = new_log()
    for values in batches:
        log.append(batch(*values))
    written = list(enumerate(value for values in batches for value in values))
    found = read(log, offset)
    assert found[-len(written[offset:]) :] == written[offset:] if written[offset:] else not found
    assert log.high_watermark == log.log_end_offset == len(written)


@given(st.lists(st.integers(1, 300), min_size=1, max_size=30), st.integers(100, 1000))
def test_retention_deletes_the_oldest_batches_and_never_the_newest(sizes: list[int], limit: int) -> None:
    log = new_log(retention_bytes=limit)
    for size in sizes:
        log.append(batch(bytes(size)))
    remaining = read(log, log.log_start_offset)
    assert [at for at, _ in remaining] == list(range(log.log_start_offset, len(sizes)))
    size_bytes = sum(len(data) for data in log.read(0, before=NO_LIMIT, max_bytes=NO_LIMIT, at_least_one=True))
    assert size_bytes <= limit or len(remaining) == 1


def test_markers_too_count_for_retention() -> None:
    log = new_log(retention_bytes=1_000)
    for _ in range(100):
        log.append_marker(1, 0, committed=True, at_ms=1000)
    assert 1 <= log.batch_count < 10
    assert (log.log_start_offset, log.log_end_offset) == (100 - log.batch_count, 100)


def test_a_read_returns_whole_batches_up_to_its_limit_and_at_least_one() -> None:
    log = new_log()
    for _ in range(3):
        log.append(batch(b"hello"))
    size = len(log.read(0, before=1, max_bytes=0, at_least_one=True)[0])
    assert len(log.read(0, before=3, max_bytes=2 * size, at_least_one=True)) == 2
    assert len(log.read(0, before=3, max_bytes=1, at_least_one=True)) == 1
    assert log.read(0, before=3, max_bytes=1, at_least_one=False) == []


def test_a_batch_is_stored_unchanged_but_for_offset_and_leader_epoch() -> None:
    log = new_log(leader_epoch=3)
    log.append(batch(b"first"))
    (produced_batch,) = batch(b"second")
    log.append([produced_batch])
    (stored,) = log.read(1, before=2, max_bytes=NO_LIMIT, at_least_one=True)
    assert stored[16:] == produced_batch.data[16:]
    assert (read_batch_header(stored).base_offset, read_batch_header(stored).partition_leader_epoch) == (1, 3)


def test_an_offset_that_is_not_durably_reserved_is_not_readable() -> None:
    log = PartitionLog(leader_epoch=0, retention_bytes=-1)
    watermarks: list[int] = []
    log.add_listener(lambda: watermarks.append(log.high_watermark))
    log.append(batch(b"hello"))
    assert (log.high_watermark, read(log)) == (0, [])
    log.reserve(1000)
    assert (log.high_watermark, read(log)) == (1, [(0, b"hello")])
    assert watermarks == [0, 1]


# After a restart


def test_a_restarted_log_has_one_empty_batch_in_place_of_lost_records() -> None:
    log = new_log(log_end_offset=1000, leader_epoch=1)
    (gap,) = log.read(50, before=log.high_watermark, max_bytes=NO_LIMIT, at_least_one=True)
    header = read_batch_header(gap)
    assert (header.base_offset, header.last_offset, header.record_count) == (0, 999, 0)
    assert len(list(split_batches(gap))) == 1
    assert log.append(batch(b"hello")) == 1000
    assert log.leader_epoch_end(0) == (0, 1000)
    assert log.leader_epoch_end(1) == (1, 1001)
    assert log.leader_epoch_end(2) == (-1, -1)


def test_a_gap_longer_than_one_batch_can_span_has_several_empty_batches() -> None:
    log = new_log(log_end_offset=2**33)
    headers = [read_batch_header(data) for data in log.read(0, before=2**34, max_bytes=NO_LIMIT, at_least_one=True)]
    assert [header.base_offset for header in headers[1:]] == [header.last_offset + 1 for header in headers[:-1]]
    assert (headers[0].base_offset, headers[-1].last_offset) == (0, 2**33 - 1)


def test_a_new_leader_epoch_drops_records_at_offsets_that_are_not_durably_reserved() -> None:
    log = PartitionLog(leader_epoch=0, retention_bytes=-1)
    log.reserve(2)
    for value in (b"one", b"two", b"three"):
        log.append(batch(value))
    log.start_leader_epoch(1, 2)
    assert read(log) == [(0, b"one"), (1, b"two")]
    assert log.append(batch(b"four")) == 2


# Idempotent producers


def test_a_duplicate_batch_is_appended_once_and_keeps_its_offset() -> None:
    log = new_log()
    assert log.append(produced(7, 0, b"a", b"b")) == 0
    assert log.append(produced(7, 2, b"c")) == 2
    assert log.append(produced(7, 0, b"a", b"b")) == 0
    assert log.log_end_offset == 3


def test_a_batch_out_of_order_is_refused() -> None:
    log = new_log()
    log.append(produced(7, 0, b"a"))
    with refused_with(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        log.append(produced(7, 2, b"c"))


def test_an_unknown_producer_may_begin_with_any_sequence_number() -> None:
    assert new_log().append(produced(7, 41, b"a")) == 0


def test_the_sequence_number_after_the_largest_is_0() -> None:
    log = new_log()
    log.append(produced(7, 2**31 - 1, b"a"))
    assert log.append(produced(7, 0, b"b")) == 1


def test_a_newer_epoch_begins_at_sequence_0_and_fences_the_older() -> None:
    log = new_log()
    log.append(produced(7, 0, b"a"))
    with refused_with(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        log.append(produced(7, 1, b"b", epoch=1))
    assert log.append(produced(7, 0, b"b", epoch=1)) == 1
    with refused_with(ErrorCode.INVALID_PRODUCER_EPOCH):
        log.append(produced(7, 1, b"c", epoch=0))


# Transactions


def test_the_last_stable_offset_is_where_the_first_open_transaction_begins() -> None:
    log = new_log()
    log.append(batch(b"plain"))
    log.append(produced(7, 0, b"a", attributes=TRANSACTIONAL))
    log.append(batch(b"plain"))
    assert (log.last_stable_offset, log.high_watermark) == (1, 3)
    assert log.append_marker(7, 0, committed=True, at_ms=1) == 3
    assert (log.last_stable_offset, log.producers.aborted_transactions(0, 4)) == (4, [])


def test_an_aborted_transaction_is_listed_for_its_offsets() -> None:
    log = new_log()
    log.append(produced(7, 0, b"a", attributes=TRANSACTIONAL))
    marker = log.append_marker(7, 0, committed=False, at_ms=1)
    log.append(batch(b"plain"))
    (span,) = log.producers.aborted_transactions(0, 3)
    assert (span.producer_id, span.first_offset, span.last_offset) == (7, 0, marker)
    assert log.producers.aborted_transactions(2, 3) == []
    header = read_batch_header(log.read(1, before=2, max_bytes=NO_LIMIT, at_least_one=True)[0])
    assert header.is_control
    assert header.is_transactional


# Legacy message sets


def legacy_message(value: bytes, attributes: int = 0, at_ms: int = 5) -> bytes:
    """A message of format 1 without a key."""
    body = bytes([1, attributes]) + at_ms.to_bytes(8, "big") + b"\xff" * 4 + len(value).to_bytes(4, "big") + value
    sized = zlib.crc32(body).to_bytes(4, "big") + body
    return bytes(8) + len(sized).to_bytes(4, "big") + sized


def test_a_gzipped_set_with_too_many_legacy_messages_is_refused() -> None:
    some, more = (legacy_message(gzip.compress(legacy_message(b"") * count), attributes=1) for count in (100, 101))
    allow = partial(LegacyAllowance, messages=100)
    assert len(validated(some, produce_version=2, max_bytes=1000, allowance=allow())) == 100
    with refused_with(ErrorCode.MESSAGE_TOO_LARGE):
        validated(more, produce_version=2, max_bytes=1000, allowance=allow())


def test_all_gzipped_sets_of_a_request_share_one_allowance() -> None:
    allowance = LegacyAllowance(messages=3, decompressed_bytes=1000)
    packed = legacy_message(gzip.compress(legacy_message(b"") * 2), attributes=1)
    validated(packed, produce_version=2, max_bytes=1000, allowance=allowance)
    with refused_with(ErrorCode.MESSAGE_TOO_LARGE):
        validated(packed, produce_version=2, max_bytes=1000, allowance=allowance)


def test_a_gzipped_set_that_is_too_long_when_decompressed_is_refused() -> None:
    packed = legacy_message(gzip.compress(legacy_message(bytes(2000))), attributes=1)
    with refused_with(ErrorCode.MESSAGE_TOO_LARGE):
        validated(packed, produce_version=2, max_bytes=1000, allowance=LegacyAllowance(decompressed_bytes=2000))


@pytest.mark.parametrize(
    "compressed",
    [gzip.compress(b""), gzip.compress(legacy_message(b"a"))[:-12], b""],
    ids=["no messages", "no end", "no bytes"],
)
def test_a_gzipped_set_without_messages_or_without_its_end_is_refused(compressed: bytes) -> None:
    with pytest.raises(RequestError) as refused:
        validated(legacy_message(compressed, attributes=1), produce_version=2, max_bytes=1000)
    assert refused.value.code in (ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE)


def test_a_gzipped_legacy_set_is_decompressed_so_that_each_message_has_its_offset() -> None:
    packed = legacy_message(gzip.compress(legacy_message(b"a") + legacy_message(b"b")), attributes=1)
    log = new_log()
    log.append(validated(legacy_message(b"first") + packed, produce_version=2, max_bytes=1000))
    entries = list(split_batches(b"".join(log.read(0, before=3, max_bytes=NO_LIMIT, at_least_one=True))))
    assert [(entry.base_offset, entry.magic, entry.data[8:]) for entry in entries] == [
        (offset, 1, legacy_message(value)[8:]) for offset, value in enumerate((b"first", b"a", b"b"))
    ]


def test_a_legacy_message_set_in_another_codec_is_refused() -> None:
    with refused_with(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT):
        validated(legacy_message(b"?", attributes=2), produce_version=2, max_bytes=1000)


# Invalid batches


def test_a_batch_with_a_changed_byte_is_refused() -> None:
    data = bytearray(write_batch([BatchRecord(value=b"hello")], base_timestamp_ms=0))
    data[-1] ^= 1
    with refused_with(ErrorCode.CORRUPT_MESSAGE):
        validated(bytes(data), produce_version=9, max_bytes=1000)


@given(st.binary(max_size=200), st.integers(0, 13))
def test_any_bytes_are_accepted_or_refused(data: bytes, version: int) -> None:
    with suppress(RequestError):
        assert all(len(each.data) <= 100 for each in validated(data, produce_version=version, max_bytes=100))
