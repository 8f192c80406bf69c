"""What a producer sent for one partition: checked, and made ready for its place in the log."""

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from struct import Struct

from regroup.protocol.errors import ErrorCode
from regroup.protocol.exceptions import Malformed
from regroup.protocol.record_batch import BatchHeader, Entry, is_intact, read_header, rewrite, split_records

_OFFSET_AND_SIZE = Struct(">qi")
_CRC = Struct(">I")
_TIMESTAMP = Struct(">q")
_KEY_LENGTH = Struct(">i")
_OLD_HEADER_BYTES = {0: 18, 1: 26}
"""Of an old message up to its key length: offset, size, CRC, magic, attributes, and in format 1 a time."""
_GZIP = 1
_ZSTD = 4
_LARGEST_OPENED_BYTES = 64 * 1024 * 1024
MOST_OLD_MESSAGES = 100_000
"""In one set, opened. Each is looked at, and a few kilobytes of gzip can hold millions, while everybody else waits."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Kafka's code, and the reason in words."""

    code: ErrorCode
    text: str


@dataclass(frozen=True, slots=True)
class Incoming:
    """One batch, or one old message, that may be written. `header` is None for an old message."""

    data: bytes
    record_count: int
    max_timestamp_ms: int
    header: BatchHeader | None = None

    def placed_at(self, base_offset: int, leader_epoch: int) -> bytes:
        """The bytes as they lie in the log."""
        if self.header is not None:
            return rewrite(self.data, base_offset, leader_epoch)
        (_, size) = _OFFSET_AND_SIZE.unpack_from(self.data)
        return _OFFSET_AND_SIZE.pack(base_offset, size) + self.data[_OFFSET_AND_SIZE.size :]


def check_records(records: bytes | None, *, produce_version: int, max_bytes: int) -> list[Incoming] | Refusal:
    """What may be written, in order; or why none of it may. Compressed batches are never opened."""
    if not records:
        return Refusal(ErrorCode.INVALID_RECORD, "The partition's records are empty")
    try:
        if produce_version >= 3:
            first_two = list(islice(split_records(records), 2))  # a million of them are as wrong as two
            return _check_one_batch(first_two, produce_version, max_bytes)
        messages = list(islice(_check_old_messages(split_records(records), max_bytes), MOST_OLD_MESSAGES + 1))
    except Malformed as error:
        return Refusal(ErrorCode.CORRUPT_MESSAGE, str(error))
    except _Refused as refused:
        return refused.refusal
    if len(messages) > MOST_OLD_MESSAGES:
        return Refusal(ErrorCode.MESSAGE_TOO_LARGE, f"A set of old messages has at most {MOST_OLD_MESSAGES} of them")
    return messages


def _check_one_batch(entries: list[Entry], produce_version: int, max_bytes: int) -> list[Incoming] | Refusal:
    if len(entries) != 1:
        return Refusal(
            ErrorCode.INVALID_RECORD, "Since Produce v3 a partition has exactly one batch, and here are more"
        )
    data = entries[0].data
    if entries[0].magic != 2:
        return Refusal(ErrorCode.INVALID_RECORD, "Since Produce v3 records have format 2")
    if len(data) > max_bytes:
        return Refusal(
            ErrorCode.MESSAGE_TOO_LARGE, f"The batch has {len(data)} bytes; the topic takes at most {max_bytes}"
        )
    header = read_header(data)
    if not is_intact(data):
        return Refusal(ErrorCode.CORRUPT_MESSAGE, "The batch does not match its checksum")
    fault = _fault_of(header, produce_version)
    return fault or [Incoming(data, header.record_count, header.max_timestamp_ms, header)]


def _fault_of(header: BatchHeader, produce_version: int) -> Refusal | None:
    if header.record_count != header.last_offset_delta + 1 or header.record_count == 0:
        return Refusal(ErrorCode.INVALID_RECORD, "The batch's last offset and its number of records do not agree")
    if header.is_control:
        return Refusal(ErrorCode.INVALID_RECORD, "Clients may not write control batches")
    if header.compression > _ZSTD:
        return Refusal(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"There is no compression {header.compression}")
    if header.compression == _ZSTD and produce_version < 7:
        return Refusal(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "Zstandard needs Produce v7 or later")
    if header.producer_id >= 0 and (header.producer_epoch < 0 or header.base_sequence < 0):
        return Refusal(ErrorCode.INVALID_RECORD, "A producer with an id has an epoch and a sequence from 0 on")
    if header.is_transactional and header.producer_id < 0:
        return Refusal(ErrorCode.INVALID_RECORD, "A transactional batch needs a producer id")
    return None


class _Refused(Exception):
    def __init__(self, code: ErrorCode, text: str) -> None:
        self.refusal = Refusal(code, text)


def _check_old_messages(entries: Iterable[Entry], max_bytes: int) -> Iterator[Incoming]:
    """Formats 0 and 1 (Produce up to v2). A gzipped set is opened, since its messages need offsets of their own."""
    for entry in entries:
        if entry.magic == 2:
            raise _Refused(ErrorCode.INVALID_RECORD, "Records of format 2 need Produce v3 or later")
        if len(entry.data) > max_bytes:
            raise _Refused(ErrorCode.MESSAGE_TOO_LARGE, f"A message has {len(entry.data)} bytes; {max_bytes} may be")
        timestamp_ms, compression, value = _open_old_message(entry)
        if compression == 0:
            yield Incoming(entry.data, 1, timestamp_ms)
        elif compression == _GZIP:
            for inner in split_records(_gunzip(value)):
                if inner.magic != entry.magic or _open_old_message(inner)[1]:
                    raise Malformed("an old message set inside another must be plain and of the same format")
                yield Incoming(inner.data, 1, _open_old_message(inner)[0])
        else:
            raise _Refused(
                ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
                "Old message sets are taken plain or gzipped; use records of format 2 (Produce v3) for other codecs",
            )


def _open_old_message(entry: Entry) -> tuple[int, int, bytes]:
    """Time (-1 if the format has none), compression and value of one old message. Malformed."""
    data, header_bytes = entry.data, _OLD_HEADER_BYTES[entry.magic]
    (checksum,) = _CRC.unpack_from(data, 12)
    if zlib.crc32(memoryview(data)[16:]) != checksum:
        raise Malformed("an old message does not match its checksum")
    timestamp_ms = _TIMESTAMP.unpack_from(data, 18)[0] if entry.magic == 1 else -1
    (key_length,) = _KEY_LENGTH.unpack_from(data, header_bytes)
    position = header_bytes + 4 + max(key_length, 0)
    if key_length < -1 or position + 4 > len(data):
        raise Malformed("an old message has an impossible key")
    (value_length,) = _KEY_LENGTH.unpack_from(data, position)
    if value_length < -1 or position + 4 + max(value_length, 0) != len(data):
        raise Malformed("an old message has an impossible value")
    return timestamp_ms, data[17] & 0x07, data[position + 4 :]


def _gunzip(value: bytes) -> bytes:
    stream = zlib.decompressobj(wbits=31)
    try:
        opened = stream.decompress(value, _LARGEST_OPENED_BYTES)
    except zlib.error as error:
        raise Malformed(f"a gzipped message set: {error}") from None
    if stream.unconsumed_tail:
        raise Malformed(f"a gzipped message set is longer than {_LARGEST_OPENED_BYTES} bytes when opened")
    return opened
