"""Validates the records that a producer sends for one partition, by Kafka's checks."""

import zlib
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from itertools import islice
from struct import Struct
from typing import TypeAlias

import msgspec

from regroup.protocol.errors import ErrorCode
from regroup.protocol.exceptions import Malformed
from regroup.protocol.record_batch import (
    BatchHeader,
    RawBatch,
    assign_offset,
    has_valid_crc,
    read_batch_header,
    split_batches,
)
from regroup.server.errors import RequestError
from regroup.server.limits import MAX_DECOMPRESSED_BYTES, MAX_LEGACY_MESSAGES

_OFFSET_AND_SIZE = Struct(">qi")
_CRC = Struct(">I")
_TIMESTAMP = Struct(">q")
_LENGTH = Struct(">i")
_LEGACY_HEADER_BYTES = {0: 18, 1: 26}
"""Bytes of a legacy message before its key length, by format: offset, size, CRC, magic, attributes, and in format 1 a
timestamp."""
_GZIP = 1
_ZSTD = 4
_MESSAGES_PER_STEP = 10
_DECOMPRESSED_BYTES_PER_PORTION = 1024 * 1024
_STEPS_PER_PORTION = 100


class ValidatedBatch(msgspec.Struct, frozen=True, gc=False):
    """A record batch (format 2) or a legacy message that has passed validation. `header` is None for a legacy
    message."""

    data: bytes
    record_count: int
    max_timestamp_ms: int
    header: BatchHeader | None = None

    def encode_at(self, base_offset: int, leader_epoch: int) -> bytes:
        """The bytes of the batch with its offset and leader epoch in the log."""
        if self.header is not None:
            return assign_offset(self.data, base_offset, leader_epoch)
        (_, size) = _OFFSET_AND_SIZE.unpack_from(self.data)
        return _OFFSET_AND_SIZE.pack(base_offset, size) + self.data[_OFFSET_AND_SIZE.size :]


@dataclass(slots=True)
class LegacyAllowance:
    """Counts the legacy messages of one request, and their decompressed bytes, in all its partitions together, and
    refuses more than the allowed numbers."""

    messages: int = MAX_LEGACY_MESSAGES
    decompressed_bytes: int = MAX_DECOMPRESSED_BYTES

    def take_message(self) -> None:
        """Count one legacy message. Raises RequestError if the request contains more than are allowed."""
        self.messages -= 1
        if self.messages < 0:
            text = f"The legacy message sets of a request have at most {MAX_LEGACY_MESSAGES} messages"
            raise RequestError(ErrorCode.MESSAGE_TOO_LARGE, text)

    def take_bytes(self, count: int) -> None:
        """Count `count` decompressed bytes of legacy messages. Raises RequestError if the request contains more than
        are allowed."""
        self.decompressed_bytes -= count
        if self.decompressed_bytes < 0:
            text = f"The legacy message sets of a request have at most {MAX_DECOMPRESSED_BYTES} bytes when decompressed"
            raise RequestError(ErrorCode.MESSAGE_TOO_LARGE, text)


Validation: TypeAlias = Generator[int, None, list[ValidatedBatch]]
"""A validation in turns: yields the number of steps since the last pause, and returns the valid batches in order."""


def validate_records(
    records: bytes | None, allowance: LegacyAllowance, *, produce_version: int, max_bytes: int
) -> Validation:
    """Validate the records for one partition, in turns. Raises RequestError if a record is invalid.

    Compressed batches are not decompressed; gzipped legacy sets are.
    """
    if not records:
        raise RequestError(ErrorCode.INVALID_RECORD, "The partition has no records")
    try:
        if produce_version >= 3:
            batches = list(islice(split_batches(records), 2))  # two are as invalid as a million
            return [validate_batch(batches, produce_version, max_bytes)]
        return (yield from _validate_legacy(records, allowance, max_bytes))
    except Malformed as error:
        raise RequestError(ErrorCode.CORRUPT_MESSAGE, str(error)) from None


def validate_batch(batches: list[RawBatch], produce_version: int, max_bytes: int) -> ValidatedBatch:
    """Validate the one batch of a partition (Produce v3 and later) by Kafka's checks. Raises RequestError."""
    if len(batches) != 1:
        raise RequestError(ErrorCode.INVALID_RECORD, "Since Produce v3 a partition has exactly one batch; got more")
    data = batches[0].data
    if batches[0].magic != 2:
        raise RequestError(ErrorCode.INVALID_RECORD, "Since Produce v3 records have format 2")
    if len(data) > max_bytes:
        text = f"The batch has {len(data)} bytes; the topic allows at most {max_bytes}"
        raise RequestError(ErrorCode.MESSAGE_TOO_LARGE, text)
    header = read_batch_header(data)
    if not has_valid_crc(data):
        raise RequestError(ErrorCode.CORRUPT_MESSAGE, "The batch does not match its checksum")
    if header.record_count != header.last_offset_delta + 1 or header.record_count == 0:
        raise RequestError(ErrorCode.INVALID_RECORD, "The batch's last offset and its number of records do not agree")
    if header.is_control:
        raise RequestError(ErrorCode.INVALID_RECORD, "Clients may not write control batches")
    if header.compression > _ZSTD:
        raise RequestError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Unknown compression type: {header.compression}")
    if header.compression == _ZSTD and produce_version < 7:
        raise RequestError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "Zstandard needs Produce v7 or later")
    if header.producer_id >= 0 and (header.producer_epoch < 0 or header.base_sequence < 0):
        raise RequestError(ErrorCode.INVALID_RECORD, "A producer with an id has an epoch and a sequence from 0 on")
    if header.is_transactional and header.producer_id < 0:
        raise RequestError(ErrorCode.INVALID_RECORD, "A transactional batch needs a producer id")
    return ValidatedBatch(data, header.record_count, header.max_timestamp_ms, header)


def _validate_legacy(records: bytes, allowance: LegacyAllowance, max_bytes: int) -> Validation:
    """Validate legacy messages of formats 0 and 1 (Produce up to v2). A gzipped set is decompressed, since each of its
    messages needs its own offset."""
    messages: list[ValidatedBatch] = []
    for message in split_batches(records):
        if message.magic == 2:
            raise RequestError(ErrorCode.INVALID_RECORD, "Records of format 2 need Produce v3 or later")
        if len(message.data) > max_bytes:
            text = f"A message has {len(message.data)} bytes; the topic allows at most {max_bytes}"
            raise RequestError(ErrorCode.MESSAGE_TOO_LARGE, text)
        timestamp_ms, compression, value = _read_legacy(message)
        if compression == 0:
            yield from _take(messages, ValidatedBatch(message.data, 1, timestamp_ms), allowance)
        elif compression == _GZIP:
            count_before = len(messages)
            decompressed = yield from _gunzip(value, allowance)
            for inner in split_batches(decompressed):
                timestamp_ms, inner_compression, _ = _read_legacy(inner)
                if inner.magic != message.magic or inner_compression:
                    raise Malformed("a legacy message set inside another must be uncompressed and of the same format")
                yield from _take(messages, ValidatedBatch(inner.data, 1, timestamp_ms), allowance)
            if len(messages) == count_before:
                raise RequestError(ErrorCode.INVALID_RECORD, "A compressed message set has no messages")
        else:
            raise RequestError(
                ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
                "A legacy message set must be uncompressed or gzipped; other codecs need record batches (Produce v3)",
            )
    return messages


def _take(messages: list[ValidatedBatch], message: ValidatedBatch, allowance: LegacyAllowance) -> Iterator[int]:
    allowance.take_message()
    messages.append(message)
    if len(messages) % _MESSAGES_PER_STEP == 0:
        yield 1


def _read_legacy(message: RawBatch) -> tuple[int, int, bytes]:
    """The timestamp in milliseconds (-1 in format 0, which has none), compression type and value of a legacy message.
    Raises Malformed."""
    data, header_bytes = message.data, _LEGACY_HEADER_BYTES[message.magic]
    (checksum,) = _CRC.unpack_from(data, 12)
    if zlib.crc32(memoryview(data)[16:]) != checksum:
        raise Malformed("a legacy message does not match its checksum")
    timestamp_ms = _TIMESTAMP.unpack_from(data, 18)[0] if message.magic == 1 else -1
    (key_length,) = _LENGTH.unpack_from(data, header_bytes)
    position = header_bytes + 4 + max(key_length, 0)
    if key_length < -1 or position + 4 > len(data):
        raise Malformed(f"a legacy message has an invalid key length: {key_length}")
    (value_length,) = _LENGTH.unpack_from(data, position)
    if value_length < -1 or position + 4 + max(value_length, 0) != len(data):
        raise Malformed(f"a legacy message has an invalid value length: {value_length}")
    return timestamp_ms, data[17] & 0x07, data[position + 4 :]


def _gunzip(value: bytes, allowance: LegacyAllowance) -> Generator[int, None, bytes]:
    """Decompress a gzipped message set, in turns. Raises Malformed, or RequestError if `allowance` is exceeded."""
    stream, decompressed = zlib.decompressobj(wbits=31), bytearray()
    while not stream.eof:
        try:
            portion = stream.decompress(value, _DECOMPRESSED_BYTES_PER_PORTION)
        except zlib.error as error:
            raise Malformed(f"a gzipped message set: {error}") from None
        value = stream.unconsumed_tail
        allowance.take_bytes(len(portion))
        decompressed += portion
        if not portion and not value and not stream.eof:
            raise Malformed("a gzipped message set ends too early")
        yield _STEPS_PER_PORTION
    return bytes(decompressed)
