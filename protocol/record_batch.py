"""Record batches (format 2): reading the header, giving offsets, checking, and plain batches written and read.

A broker keeps batches as they came. `base_offset` and `partition_leader_epoch` lie outside the checksum, so that the
leader may write them in. Compressed records are never opened here.

    offset of the byte   0            8       12            16     17   21
                         base_offset  length  leader_epoch  magic  crc  attributes … records
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from crc32c import crc32c

from regroup.protocol.codec.encoder import put_uvarint
from regroup.protocol.exceptions import Malformed

NO_PRODUCER_ID: Final = -1
NO_SEQUENCE: Final = -1
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
COMPRESSION_MASK: Final = 0x07

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_PLACE: Final = struct.Struct(">qi")
_EPOCH: Final = struct.Struct(">i")
HEADER_BYTES: Final = _HEADER.size
_BEFORE_LENGTH_ENDS: Final = 12
_MAGIC_AT: Final = 16
_CHECKED_FROM: Final = 21
_OLD_MESSAGE_LEAST: Final = {0: 14, 1: 22}


class BatchHeader(NamedTuple):
    """The first 61 bytes of a batch, in their order. Times are milliseconds since 1970."""

    base_offset: int
    batch_length: int
    """Bytes behind this field; the whole batch is 12 bytes longer."""
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def size_bytes(self) -> int:
        return self.batch_length + _BEFORE_LENGTH_ENDS

    @property
    def compression(self) -> int:
        """0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & COMPRESSION_MASK

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)


class Entry(NamedTuple):
    """One batch, or one message of an old message set (magic 0 and 1), inside a Records blob."""

    base_offset: int
    magic: int
    data: bytes
    """All of it, from the base offset to the end."""


def split_records(records: bytes) -> Iterator[Entry]:
    """Cut a Records blob into its batches or old messages. Malformed if the last one is not whole.

    An old message that wraps others is one entry; its offset is that of the last one inside (magic 1, as stored).
    """
    position = 0
    while position < len(records):
        if len(records) - position < _MAGIC_AT + 1:
            raise Malformed(f"records, offset {position}: {len(records) - position} bytes are no batch")
        base_offset, length = _PLACE.unpack_from(records, position)
        magic = records[position + _MAGIC_AT]
        stop = position + _BEFORE_LENGTH_ENDS + length
        least = HEADER_BYTES - _BEFORE_LENGTH_ENDS if magic == 2 else _OLD_MESSAGE_LEAST.get(magic)
        if least is None:
            raise Malformed(f"records, offset {position}: magic {magic} is not known; 0, 1 and 2 are")
        if length < least or stop > len(records):
            raise Malformed(f"records, offset {position}: length {length} is impossible")
        yield Entry(base_offset, magic, records[position:stop])
        position = stop


def read_header(batch: bytes) -> BatchHeader:
    """The header of one batch of format 2. Malformed for any other format, or if its numbers disagree."""
    if len(batch) < HEADER_BYTES:
        raise Malformed(f"a record batch of {len(batch)} bytes has no room for its header of {HEADER_BYTES}")
    header = BatchHeader._make(_HEADER.unpack_from(batch))
    if header.magic != 2:
        raise Malformed(f"the record batch has magic {header.magic}, not 2")
    if header.size_bytes != len(batch):
        raise Malformed(f"the record batch says {header.size_bytes} bytes and has {len(batch)}")
    if header.record_count < 0 or header.last_offset_delta < 0:
        raise Malformed("the record batch counts its records below zero")
    return header


def rewrite(batch: bytes, base_offset: int, leader_epoch: int) -> bytes:
    """The same batch at its place in the log. The checksum covers neither number and stays right."""
    out = bytearray(batch)
    struct.pack_into(">q", out, 0, base_offset)
    _EPOCH.pack_into(out, _BEFORE_LENGTH_ENDS, leader_epoch)
    return bytes(out)


def is_intact(batch: bytes) -> bool:
    """Does the batch match its checksum (CRC-32C of everything from the attributes on)?"""
    return crc32c(memoryview(batch)[_CHECKED_FROM:]) == read_header(batch).crc


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record; offset and time count from those of its batch."""

    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = field(default=())
    offset_delta: int = 0
    timestamp_delta_ms: int = 0


def write_batch(
    records: Sequence[Record],
    *,
    base_timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    attributes: int = 0,
) -> bytes:
    """An uncompressed batch. Records that all have offset delta 0 are numbered in their order."""
    if not records:
        raise ValueError("a batch needs at least one record")
    if attributes & COMPRESSION_MASK:
        raise ValueError("only uncompressed batches are written here")
    numbered = _number(records)
    body = bytearray()
    for record in numbered:
        _write_record(record, body)
    latest_ms = base_timestamp_ms + max(record.timestamp_delta_ms for record in numbered)
    last_delta = numbered[-1].offset_delta
    length = HEADER_BYTES - _BEFORE_LENGTH_ENDS + len(body)
    producer = (producer_id, producer_epoch, base_sequence)
    checked = (attributes, last_delta, base_timestamp_ms, latest_ms, *producer, len(numbered))
    out = bytearray(_HEADER.pack(base_offset, length, leader_epoch, 2, 0, *checked)) + body
    struct.pack_into(">I", out, _CHECKED_FROM - 4, crc32c(memoryview(out)[_CHECKED_FROM:]))
    return bytes(out)


def _number(records: Sequence[Record]) -> list[Record]:
    if len(records) > 1 and all(record.offset_delta == 0 for record in records):
        return [
            Record(
                key=record.key,
                value=record.value,
                headers=record.headers,
                offset_delta=delta,
                timestamp_delta_ms=record.timestamp_delta_ms,
            )
            for delta, record in enumerate(records)
        ]
    return list(records)


def _write_record(record: Record, out: bytearray) -> None:
    body = bytearray(b"\0")  # attributes, unused so far
    _put_varint(body, record.timestamp_delta_ms)
    _put_varint(body, record.offset_delta)
    _put_sized(body, record.key)
    _put_sized(body, record.value)
    _put_varint(body, len(record.headers))
    for name, value in record.headers:
        _put_sized(body, name.encode())
        _put_sized(body, value)
    _put_varint(out, len(body))
    out += body


def _put_varint(out: bytearray, value: int) -> None:
    """Zigzag: small numbers of either sign take few bytes."""
    put_uvarint(out, value << 1 if value >= 0 else (-value << 1) - 1)


def _put_sized(out: bytearray, value: bytes | None) -> None:
    _put_varint(out, -1 if value is None else len(value))
    out += value or b""


def read_records(batch: bytes) -> list[Record]:
    """The records of an uncompressed batch. Malformed, also for a compressed one; the checksum is not looked at."""
    header = read_header(batch)
    if header.compression:
        raise Malformed(f"the record batch is compressed (type {header.compression}) and is not opened here")
    reader = _RecordReader(batch, HEADER_BYTES)
    if header.record_count > len(batch) - HEADER_BYTES:
        raise Malformed(f"{header.record_count} records are impossible in a batch of {len(batch)} bytes")
    records = [reader.record() for _ in range(header.record_count)]
    reader.must_be_at(len(batch), "the record batch")
    return records


def read_all(records: bytes) -> Iterable[tuple[int, Record]]:
    """Every record of a Records blob of uncompressed batches with its offset in the log."""
    for entry in split_records(records):
        for record in read_records(entry.data):
            yield entry.base_offset + record.offset_delta, record


class _RecordReader:
    def __init__(self, buffer: bytes, position: int) -> None:
        self._buffer = buffer
        self._position = position

    def record(self) -> Record:
        stop = self._varint() + self._position
        self._bytes(1)
        timestamp_delta_ms, offset_delta = self._varint(), self._varint()
        key, value = self._sized(), self._sized()
        count = self._varint()
        if not 0 <= count <= len(self._buffer) - self._position:
            raise Malformed(f"record, offset {self._position}: {count} headers are impossible")
        headers = tuple(self._header() for _ in range(count))
        self.must_be_at(stop, "the record")
        return Record(
            key=key, value=value, headers=headers, offset_delta=offset_delta, timestamp_delta_ms=timestamp_delta_ms
        )

    def must_be_at(self, stop: int, what: str) -> None:
        if self._position != stop:
            raise Malformed(f"{what} should end at offset {stop}, and ends at {self._position}")

    def _header(self) -> tuple[str, bytes | None]:
        name, value = self._sized(), self._sized()
        if name is None:
            raise Malformed(f"record, offset {self._position}: a header has no name")
        try:
            return name.decode(), value
        except UnicodeDecodeError as error:
            raise Malformed(f"record, offset {self._position}: the name of a header: {error}") from None

    def _varint(self) -> int:
        value = shift = 0
        for byte in self._buffer[self._position : self._position + 10]:
            self._position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            shift += 7
        raise Malformed(f"record, offset {self._position}: a number that does not end")

    def _sized(self) -> bytes | None:
        length = self._varint()
        return None if length == -1 else self._bytes(length)

    def _bytes(self, length: int) -> bytes:
        start, self._position = self._position, self._position + length
        if length < 0 or self._position > len(self._buffer):
            raise Malformed(f"record, offset {start}: length {length} is impossible")
        return self._buffer[start : self._position]
