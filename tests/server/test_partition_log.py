"""One partition's records in memory: offsets, limits, producers, transactions."""

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regroup.protocol.errors import ErrorCode
from regroup.protocol.record_batch import TRANSACTIONAL, Record, read_all, read_header, split_records, write_batch
from regroup.server.log.partition_log import Appended, PartitionLog
from regroup.server.log.record_validation import Incoming, Refusal, check_records

EVERYTHING = 2**31


def a_log(retention_bytes: int = -1, log_end_offset: int = 0, leader_epoch: int = 0) -> PartitionLog:
    log = PartitionLog(leader_epoch=leader_epoch, retention_bytes=retention_bytes, log_end_offset=log_end_offset)
    log.reserve(EVERYTHING)
    return log


def batch(*values: bytes, at_ms: int = 1000, **header: int) -> list[Incoming]:
    data = write_batch([Record(value=value) for value in values], base_timestamp_ms=at_ms, **header)
    checked = check_records(data, produce_version=9, max_bytes=10_000)
    assert not isinstance(checked, Refusal)
    return checked


def by(producer_id: int, sequence: int, *values: bytes, epoch: int = 0, attributes: int = 0) -> list[Incoming]:
    return batch(*values, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, attributes=attributes)


def read(log: PartitionLog, offset: int = 0, before: int | None = None) -> list[tuple[int, bytes | None]]:
    before = log.high_watermark if before is None else before
    data = b"".join(log.read(offset, before=before, max_bytes=EVERYTHING, at_least_one=True))
    return [(at, record.value) for at, record in read_all(data)]


@given(st.lists(st.lists(st.binary(max_size=5), min_size=1, max_size=4), max_size=8), st.integers(0, 40))
def test_what_was_written_is_read_in_order_from_any_offset(batches: list[list[bytes]], offset: int) -> None:
    log = a_log()
    for values in batches:
        log.append(batch(*values))
    written = list(enumerate(value for values in batches for value in values))
    found = read(log, offset)
    assert found[-len(written[offset:]) :] == written[offset:] if written[offset:] else not found
    assert log.high_watermark == log.log_end_offset == len(written)


@given(st.lists(st.integers(1, 300), min_size=1, max_size=30), st.integers(100, 1000))
def test_the_oldest_batches_go_and_the_newest_stays(sizes: list[int], limit: int) -> None:
    log = a_log(retention_bytes=limit)
    for size in sizes:
        log.append(batch(bytes(size)))
    kept = read(log, log.log_start_offset)
    assert [at for at, _ in kept] == list(range(log.log_start_offset, len(sizes)))
    held = sum(len(data) for data in log.read(0, before=EVERYTHING, max_bytes=EVERYTHING, at_least_one=True))
    assert held <= limit or len(kept) == 1


def test_a_reader_gets_whole_batches_up_to_its_limit_and_at_least_one() -> None:
    log = a_log()
    for _ in range(3):
        log.append(batch(b"hello"))
    size = len(log.read(0, before=1, max_bytes=0, at_least_one=True)[0])
    assert len(log.read(0, before=3, max_bytes=2 * size, at_least_one=True)) == 2
    assert len(log.read(0, before=3, max_bytes=1, at_least_one=True)) == 1
    assert log.read(0, before=3, max_bytes=1, at_least_one=False) == []


def test_batches_are_kept_as_they_came_but_for_offset_and_epoch() -> None:
    log = a_log(leader_epoch=3)
    log.append(batch(b"first"))
    (came,) = batch(b"second")
    log.append([came])
    (lies,) = log.read(1, before=2, max_bytes=EVERYTHING, at_least_one=True)
    assert lies[16:] == came.data[16:]
    assert (read_header(lies).base_offset, read_header(lies).partition_leader_epoch) == (1, 3)


def test_nobody_reads_an_offset_that_is_not_durably_reserved() -> None:
    log = PartitionLog(leader_epoch=0, retention_bytes=-1)
    woken: list[int] = []
    log.watch(lambda: woken.append(log.high_watermark))
    log.append(batch(b"hello"))
    assert (log.high_watermark, read(log)) == (0, [])
    log.reserve(1000)
    assert (log.high_watermark, read(log)) == (1, [(0, b"hello")])
    assert woken == [0, 1]


# After a restart


def test_a_restarted_log_shows_one_empty_batch_in_place_of_what_is_lost() -> None:
    log = a_log(log_end_offset=1000, leader_epoch=1)
    (gap,) = log.read(50, before=log.high_watermark, max_bytes=EVERYTHING, at_least_one=True)
    header = read_header(gap)
    assert (header.base_offset, header.last_offset, header.record_count) == (0, 999, 0)
    assert len(list(split_records(gap))) == 1
    assert log.append(batch(b"hello")) == Appended(1000)
    assert log.end_of_epoch(0) == (0, 1000)
    assert log.end_of_epoch(1) == (1, 1001)
    assert log.end_of_epoch(2) == (-1, -1)


def test_a_gap_longer_than_one_batch_can_span_takes_several() -> None:
    log = a_log(log_end_offset=2**33)
    headers = [read_header(data) for data in log.read(0, before=2**34, max_bytes=EVERYTHING, at_least_one=True)]
    assert [header.base_offset for header in headers[1:]] == [header.last_offset + 1 for header in headers[:-1]]
    assert (headers[0].base_offset, headers[-1].last_offset) == (0, 2**33 - 1)


def test_a_new_leader_takes_back_what_was_not_durably_reserved() -> None:
    log = PartitionLog(leader_epoch=0, retention_bytes=-1)
    log.reserve(2)
    for value in (b"one", b"two", b"three"):
        log.append(batch(value))
    log.begin_epoch(1, 2)
    assert read(log) == [(0, b"one"), (1, b"two")]
    assert log.append(batch(b"four")) == Appended(2)


# Producers with a memory


def test_a_batch_that_comes_twice_is_written_once() -> None:
    log = a_log()
    assert log.append(by(7, 0, b"a", b"b")) == Appended(0)
    assert log.append(by(7, 2, b"c")) == Appended(2)
    assert log.append(by(7, 0, b"a", b"b")) == Appended(0, is_duplicate=True)
    assert log.log_end_offset == 3


def test_a_batch_out_of_order_is_refused() -> None:
    log = a_log()
    log.append(by(7, 0, b"a"))
    refused = log.append(by(7, 2, b"c"))
    assert isinstance(refused, Refusal)
    assert refused.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_of_a_producer_nothing_is_known_of_any_sequence_is_taken() -> None:
    assert a_log().append(by(7, 41, b"a")) == Appended(0)


def test_sequences_go_on_at_nought_after_the_largest() -> None:
    log = a_log()
    log.append(by(7, 2**31 - 1, b"a"))
    assert log.append(by(7, 0, b"b")) == Appended(1)


def test_a_newer_epoch_begins_at_nought_and_fences_the_older() -> None:
    log = a_log()
    log.append(by(7, 0, b"a"))
    assert isinstance(log.append(by(7, 1, b"b", epoch=1)), Refusal)
    assert log.append(by(7, 0, b"b", epoch=1)) == Appended(1)
    fenced = log.append(by(7, 1, b"c", epoch=0))
    assert isinstance(fenced, Refusal)
    assert fenced.code == ErrorCode.INVALID_PRODUCER_EPOCH


# Transactions


def test_readers_of_committed_records_stop_where_the_first_open_transaction_begins() -> None:
    log = a_log()
    log.append(batch(b"plain"))
    log.append(by(7, 0, b"a", attributes=TRANSACTIONAL))
    log.append(batch(b"plain"))
    assert (log.last_stable_offset, log.high_watermark) == (1, 3)
    assert log.append_marker(7, 0, committed=True, at_ms=1) == 3
    assert (log.last_stable_offset, log.aborted_within(0, 4)) == (4, [])


def test_an_aborted_transaction_is_named_to_whoever_reads_its_offsets() -> None:
    log = a_log()
    log.append(by(7, 0, b"a", attributes=TRANSACTIONAL))
    marker = log.append_marker(7, 0, committed=False, at_ms=1)
    log.append(batch(b"plain"))
    (span,) = log.aborted_within(0, 3)
    assert (span.producer_id, span.first_offset, span.last_offset) == (7, 0, marker)
    assert log.aborted_within(2, 3) == []
    header = read_header(log.read(1, before=2, max_bytes=EVERYTHING, at_least_one=True)[0])
    assert header.is_control
    assert header.is_transactional


# Old message sets


def old_message(value: bytes, attributes: int = 0, at_ms: int = 5) -> bytes:
    """A message of format 1 without a key."""
    body = bytes([1, attributes]) + at_ms.to_bytes(8, "big") + b"\xff" * 4 + len(value).to_bytes(4, "big") + value
    sized = zlib.crc32(body).to_bytes(4, "big") + body
    return bytes(8) + len(sized).to_bytes(4, "big") + sized


def test_a_little_gzip_with_very_many_old_messages_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regroup.server.log.record_validation.MOST_OLD_MESSAGES", 100)
    some, more = (old_message(gzip.compress(old_message(b"") * count), attributes=1) for count in (100, 101))
    taken = check_records(some, produce_version=2, max_bytes=1000)
    assert not isinstance(taken, Refusal)
    assert len(taken) == 100
    refused = check_records(more, produce_version=2, max_bytes=1000)
    assert isinstance(refused, Refusal)
    assert refused.code == ErrorCode.MESSAGE_TOO_LARGE


def test_a_gzipped_old_message_set_is_opened_so_that_each_message_has_its_offset() -> None:
    packed = old_message(gzip.compress(old_message(b"a") + old_message(b"b")), attributes=1)
    checked = check_records(old_message(b"first") + packed, produce_version=2, max_bytes=1000)
    assert not isinstance(checked, Refusal)
    log = a_log()
    log.append(checked)
    entries = list(split_records(b"".join(log.read(0, before=3, max_bytes=EVERYTHING, at_least_one=True))))
    assert [(entry.base_offset, entry.magic, entry.data[8:]) for entry in entries] == [
        (offset, 1, old_message(value)[8:]) for offset, value in enumerate((b"first", b"a", b"b"))
    ]


def test_an_old_message_set_in_another_codec_is_refused_by_name() -> None:
    refused = check_records(old_message(b"?", attributes=2), produce_version=2, max_bytes=1000)
    assert isinstance(refused, Refusal)
    assert refused.code == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


# What is refused at the door


def test_a_batch_whose_bytes_were_bent_is_refused() -> None:
    data = bytearray(write_batch([Record(value=b"hello")], base_timestamp_ms=0))
    data[-1] ^= 1
    refused = check_records(bytes(data), produce_version=9, max_bytes=1000)
    assert isinstance(refused, Refusal)
    assert refused.code == ErrorCode.CORRUPT_MESSAGE


@given(st.binary(max_size=200), st.integers(0, 13))
def test_any_bytes_are_taken_or_refused(data: bytes, version: int) -> None:
    checked = check_records(data, produce_version=version, max_bytes=100)
    assert isinstance(checked, Refusal) or all(len(each.data) <= 100 for each in checked)
