"""Record batches (format 2): splits them, reads headers, offsets and checksums, and reads and writes uncompressed
records.

A broker stores batches as they arrive. `base_offset` and `partition_leader_epoch` are not covered by the checksum, so
that the leader can set them. Compressed records are never decompressed here.

    offset of the byte   0            8       12            16     17   21
                         base_offset  length  leader_epoch  magic  crc  attributes … records
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from crc32c import crc32c

from regroup.protocol.codec.encoder import put_uvarint
from regroup.protocol.exceptions import Malformed

TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
_COMPRESSION_MASK: Final = 0x07

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_OFFSET_AND_LENGTH: Final = struct.Struct(">qi")
_EPOCH: Final = struct.Struct(">i")
HEADER_BYTES: Final = _HEADER.size
_LENGTH_END: Final = 12
_MAGIC_AT: Final = 16
_CRC_AT: Final = 17
_CHECKED_FROM: Final = 21
_MIN_LENGTH: Final = {0: 14, 1: 22, 2: HEADER_BYTES - _LENGTH_END}
"""The smallest valid value of the length field, by magic."""


class BatchHeader(NamedTuple):
    """The first 61 bytes of a batch, in their order. Times are milliseconds since 1970 (UTC)."""

    base_offset: int
    batch_length: int
    """Number of bytes after this field; the whole batch is 12 bytes longer."""
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
        return self.batch_length + _LENGTH_END

    @property
    def compression(self) -> int:
        """The number of the compression type: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & _COMPRESSION_MASK

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)


class RawBatch(NamedTuple):
    """One record batch, or one message of an old message set (magic 0 and 1), as bytes."""

    base_offset: int
    magic: int
    data: bytes
    """All bytes of the batch, the base offset included."""


def split_batches(records: bytes) -> Iterator[RawBatch]:
    """Split a Records field into its batches or old messages. Raises Malformed if the last one is truncated.

    An old message that contains compressed messages is one item; its offset is that of the last one inside (magic 1).
    """
    position = 0
    while position < len(records):
        if len(records) - position < _MAGIC_AT + 1:
            raise Malformed(f"records, offset {position}: {len(records) - position} bytes are too few for a batch")
        base_offset, length = _OFFSET_AND_LENGTH.unpack_from(records, position)
        magic = records[position + _MAGIC_AT]
        stop = position + _LENGTH_END + length
        min_length = _MIN_LENGTH.get(magic)
        if min_length is None:
            raise Malformed(f"records, offset {position}: unknown magic {magic}; 0, 1 and 2 are known")
        if length < min_length or stop > len(records):
            raise Malformed(f"records, offset {position}: length {length} is impossible")
        yield RawBatch(base_offset, magic, records[position:stop])
        position = stop


def read_batch_header(batch: bytes) -> BatchHeader:
    """The header of a batch of format 2. Raises Malformed for other formats, and for impossible numbers."""
    if len(batch) < HEADER_BYTES:
        raise Malformed(f"a record batch of {len(batch)} bytes is too short for its header of {HEADER_BYTES}")
    header = BatchHeader._make(_HEADER.unpack_from(batch))
    if header.magic != 2:
        raise Malformed(f"the record batch has magic {header.magic}, not 2")
    if header.size_bytes != len(batch):
        raise Malformed(f"the record batch says {header.size_bytes} bytes and has {len(batch)}")
    if header.record_count < 0 or header.last_offset_delta < 0:
        raise Malformed("the record batch has a negative number of records")
    return header


def assign_offset(batch: bytes, base_offset: int, leader_epoch: int) -> bytes:
    """The same batch with its offset in the log and the leader's epoch. Neither is covered by the checksum."""
    out = bytearray(batch)
    struct.pack_into(">q", out, 0, base_offset)
    _EPOCH.pack_into(out, _LENGTH_END, leader_epoch)
    return bytes(out)


def has_valid_crc(batch: bytes) -> bool:
    """Whether the batch matches its checksum: CRC-32C of everything from the attributes on. Raises Malformed."""
    return crc32c(memoryview(batch)[_CHECKED_FROM:]) == read_batch_header(batch).crc


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRecord:
    """One record of a batch; offset and timestamp are relative to those of the batch."""

    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    offset_delta: int = 0
    timestamp_delta_ms: int = 0


def write_batch(
    records: Sequence[BatchRecord],
    *,
    base_timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    attributes: int = 0,
) -> bytes:
    """Encode records as one uncompressed batch. If the offset deltas of all records are 0, the records are numbered in
    their order.

    Raises ValueError for an empty batch or attributes with a compression type.
    """
    if not records:
        raise ValueError("a batch needs at least one record")
    if attributes & _COMPRESSION_MASK:
        raise ValueError("only uncompressed batches can be written")
    deltas = [record.offset_delta for record in records]
    if not any(deltas):
        deltas = [*range(len(records))]
    body = bytearray()
    for delta, record in zip(deltas, records, strict=True):
        _write_record(record, delta, body)
    max_timestamp_ms = base_timestamp_ms + max(record.timestamp_delta_ms for record in records)
    producer = (producer_id, producer_epoch, base_sequence)
    checked = (attributes, deltas[-1], base_timestamp_ms, max_timestamp_ms, *producer, len(records))
    length = HEADER_BYTES - _LENGTH_END + len(body)
    out = bytearray(_HEADER.pack(base_offset, length, leader_epoch, 2, 0, *checked)) + body
    struct.pack_into(">I", out, _CRC_AT, crc32c(memoryview(out)[_CHECKED_FROM:]))
    return bytes(out)


def _write_record(record: BatchRecord, offset_delta: int, out: bytearray) -> None:
    body = bytearray(b"\0")  # attributes, unused so far
    _put_varint(body, record.timestamp_delta_ms)
    _put_varint(body, offset_delta)
    _put_bytes(body, record.key)
    _put_bytes(body, record.value)
    _put_varint(body, len(record.headers))
    for name, value in record.headers:
        _put_bytes(body, name.encode())
        _put_bytes(body, value)
    _put_varint(out, len(body))
    out += body


def _put_varint(out: bytearray, value: int) -> None:
    """Append a signed varint in zigzag encoding."""
    put_uvarint(out, value << 1 if value >= 0 else (-value << 1) - 1)


def _put_bytes(out: bytearray, value: bytes | None) -> None:
    _put_varint(out, -1 if value is None else len(value))
    out += value or b""


def read_records(batch: bytes) -> list[BatchRecord]:
    """The records of an uncompressed batch; its checksum is not checked. Raises Malformed, also for a compressed
    batch."""
    header = read_batch_header(batch)
    if header.compression:
        raise Malformed(f"the record batch is compressed (type {header.compression}), which is not supported here")
    if header.record_count > len(batch) - HEADER_BYTES:
        raise Malformed(f"{header.record_count} records are impossible in a batch of {len(batch)} bytes")
    reader = _RecordReader(batch, HEADER_BYTES)
    records = [reader.record() for _ in range(header.record_count)]
    reader.must_be_at(len(batch), "the record batch")
    return records


def read_record_deltas(batch: bytes) -> Iterator[tuple[int, int]]:
    """The timestamp delta (milliseconds) and the offset delta of each record of an uncompressed batch; the rest of a
    record is skipped.

    Raises Malformed, also if the batch is compressed; what was yielded before is right.
    """
    header = read_batch_header(batch)
    if header.compression:
        raise Malformed(f"the record batch is compressed (type {header.compression}), which is not supported here")
    reader = _RecordReader(batch, HEADER_BYTES)
    for _ in range(header.record_count):
        yield reader.deltas()
    reader.must_be_at(len(batch), "the record batch")


class _RecordReader:
    """Reads the records of one uncompressed batch, one after the other."""

    def __init__(self, buffer: bytes, position: int) -> None:
        self._buffer = buffer
        self._position = position

    def record(self) -> BatchRecord:
        stop = self._varint() + self._position
        self._bytes(1)
        timestamp_delta_ms, offset_delta = self._varint(), self._varint()
        key, value = self._nullable_bytes(), self._nullable_bytes()
        count = self._varint()
        if not 0 <= count <= len(self._buffer) - self._position:
            raise Malformed(f"record, offset {self._position}: {count} headers are impossible")
        headers = tuple(self._header() for _ in range(count))
        self.must_be_at(stop, "the record")
        return BatchRecord(
            key=key, value=value, headers=headers, offset_delta=offset_delta, timestamp_delta_ms=timestamp_delta_ms
        )

    def deltas(self) -> tuple[int, int]:
        """Read the timestamp delta and the offset delta of the next record, and skip the rest of it."""
        stop = self._varint() + self._position
        self._bytes(1)
        timestamp_delta_ms, offset_delta = self._varint(), self._varint()
        self._bytes(stop - self._position)
        return timestamp_delta_ms, offset_delta

    def must_be_at(self, stop: int, what: str) -> None:
        if self._position != stop:
            raise Malformed(f"{what} should end at offset {stop}, and ends at {self._position}")

    def _header(self) -> tuple[str, bytes | None]:
        name, value = self._nullable_bytes(), self._nullable_bytes()
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
        raise Malformed(f"record, offset {self._position}: a variable-length number does not end")

    def _nullable_bytes(self) -> bytes | None:
        length = self._varint()
        return None if length == -1 else self._bytes(length)

    def _bytes(self, length: int) -> bytes:
        start, self._position = self._position, self._position + length
        if length < 0 or self._position > len(self._buffer):
            raise Malformed(f"record, offset {start}: length {length} is impossible")
        return self._buffer[start : self._position]
