"""Every reason for which a broker refuses the records of a producer, with Kafka's error code."""

import struct
import zlib
from collections.abc import Callable

import pytest
from crc32c import crc32c

from regroup.protocol.errors import ErrorCode
from regroup.protocol.record_batch import CONTROL, TRANSACTIONAL, BatchRecord, write_batch
from regroup.server.errors import RequestError
from tests.server.validated_records import validated

ATTRIBUTES_AT, LAST_OFFSET_DELTA_AT, COUNT_AT = 21, 23, 57
GZIP, ZSTD = 1, 4


def batch(**header: int) -> bytes:
    return write_batch([BatchRecord(value=b"a"), BatchRecord(value=b"b")], base_timestamp_ms=5, **header)


def changed(layout: str, at: int, value: int) -> bytes:
    """A batch with another value in its header, and the checksum of that."""
    data = bytearray(batch())
    struct.pack_into(layout, data, at, value)
    struct.pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))
    return bytes(data)


def legacy_message(value: bytes = b"a", attributes: int = 0, key_length: int = -1, value_length: int = 1) -> bytes:
    """A message of format 1 without a key."""
    lengths = struct.pack(">i", key_length), struct.pack(">i", value_length)
    body = bytes([1, attributes]) + bytes(8) + lengths[0] + lengths[1] + value
    sized = struct.pack(">I", zlib.crc32(body)) + body
    return bytes(8) + struct.pack(">i", len(sized)) + sized


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (None, ErrorCode.INVALID_RECORD),
        (b"", ErrorCode.INVALID_RECORD),
        (batch() + batch(), ErrorCode.INVALID_RECORD),
        (legacy_message(), ErrorCode.INVALID_RECORD),
        (batch() * 1_000, ErrorCode.INVALID_RECORD),
        (write_batch([BatchRecord(value=bytes(1_000))], base_timestamp_ms=5), ErrorCode.MESSAGE_TOO_LARGE),
        (batch()[:-1] + b"?", ErrorCode.CORRUPT_MESSAGE),
        (batch()[:30], ErrorCode.CORRUPT_MESSAGE),
        (changed(">i", LAST_OFFSET_DELTA_AT, 2), ErrorCode.INVALID_RECORD),
        (changed(">i", COUNT_AT, 3), ErrorCode.INVALID_RECORD),
        (batch(attributes=CONTROL), ErrorCode.INVALID_RECORD),
        (changed(">h", ATTRIBUTES_AT, 5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (batch(producer_id=7, producer_epoch=-1, base_sequence=0), ErrorCode.INVALID_RECORD),
        (batch(producer_id=7, producer_epoch=0, base_sequence=-1), ErrorCode.INVALID_RECORD),
        (batch(attributes=TRANSACTIONAL), ErrorCode.INVALID_RECORD),
    ],
)
def test_an_invalid_batch_is_refused(records: bytes | None, code: ErrorCode) -> None:
    with pytest.raises(RequestError) as refused:
        validated(records, produce_version=9, max_bytes=500)
    assert refused.value.code == code


@pytest.mark.parametrize("compression", range(5))
def test_every_compression_type_is_accepted_and_zstandard_since_produce_v7(compression: int) -> None:
    compressed = changed(">h", ATTRIBUTES_AT, compression)
    assert [each.data for each in validated(compressed, produce_version=7, max_bytes=500)] == [compressed]
    if compression == ZSTD:
        with pytest.raises(RequestError) as refused:
            validated(compressed, produce_version=6, max_bytes=500)
        assert refused.value.code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    else:
        assert len(validated(compressed, produce_version=3, max_bytes=500)) == 1


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (batch(), ErrorCode.INVALID_RECORD),
        (legacy_message(bytes(600), value_length=600), ErrorCode.MESSAGE_TOO_LARGE),
        (legacy_message()[:-1] + b"?", ErrorCode.CORRUPT_MESSAGE),
        (legacy_message(key_length=-2), ErrorCode.CORRUPT_MESSAGE),
        (legacy_message(key_length=100), ErrorCode.CORRUPT_MESSAGE),
        (legacy_message(value_length=2), ErrorCode.CORRUPT_MESSAGE),
        (legacy_message(value_length=-2), ErrorCode.CORRUPT_MESSAGE),
        (legacy_message(b"no gzip", attributes=GZIP, value_length=7), ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_an_invalid_legacy_message_is_refused(records: bytes, code: ErrorCode) -> None:
    with pytest.raises(RequestError) as refused:
        validated(records, produce_version=2, max_bytes=500)
    assert refused.value.code == code


@pytest.mark.parametrize("nest", [lambda inner: inner[:16] + b"\0" + inner[17:], lambda inner: inner])
def test_a_gzipped_set_in_a_gzipped_set_or_of_another_format_is_refused(nest: Callable[[bytes], bytes]) -> None:
    def gzipped(inner: bytes) -> bytes:
        packer = zlib.compressobj(wbits=31)
        packed = packer.compress(inner) + packer.flush()
        return legacy_message(packed, attributes=GZIP, value_length=len(packed))

    with pytest.raises(RequestError) as refused:
        validated(gzipped(nest(gzipped(legacy_message()))), produce_version=2, max_bytes=500)
    assert refused.value.code == ErrorCode.CORRUPT_MESSAGE
