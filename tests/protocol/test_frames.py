"""Frames of a stream that is split anywhere; requests and responses with their headers, in both directions."""

from contextlib import suppress
from itertools import pairwise
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regroup.protocol.exceptions import Malformed, MalformedFrame, Unencodable, UnsupportedApi, UnsupportedVersion
from regroup.protocol.frames import (
    MAX_ARRAY_ENTRIES,
    FrameReader,
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from regroup.protocol.header import RequestHeader
from regroup.protocol.messages.cluster import ApiVersion, ApiVersionsResponse, MetadataRequest
from regroup.protocol.messages.describe import DescribeGroupsRequest
from regroup.protocol.messages.group import HeartbeatRequest, HeartbeatResponse
from regroup.protocol.messages.offsets import OffsetFetchRequest, OffsetFetchRequestTopic

HEARTBEAT = HeartbeatRequest(group_id="payments", generation_id=7, member_id="anna-1")


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


@given(st.lists(st.binary(max_size=40), max_size=6), st.lists(st.integers(0, 300), max_size=12))
def test_frames_are_complete_however_the_stream_is_split(bodies: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(map(framed, bodies))
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    reader = FrameReader()
    frames = [frame for start, stop in pairwise(edges) for frame in reader.feed(stream[start:stop])]
    assert frames == bodies
    assert reader.buffered_bytes == 0


@given(st.lists(st.binary()))
def test_any_bytes_are_frames_or_malformed(chunks: list[bytes]) -> None:
    reader = FrameReader(max_frame_bytes=1000)
    with suppress(MalformedFrame):
        for chunk in chunks:
            list(reader.feed(chunk))
            assert reader.buffered_bytes <= 1004


@pytest.mark.parametrize("length", [b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\0\0\x03\xe9", b"\x7f\xff\xff\xff"])
def test_a_negative_or_too_long_frame_is_refused_before_its_body_arrives(length: bytes) -> None:
    with pytest.raises(MalformedFrame, match="1000 are allowed"):
        list(FrameReader(max_frame_bytes=1000).feed(length))


def test_frames_that_were_not_iterated_yet_are_not_lost() -> None:
    reader = FrameReader()
    assert next(reader.feed(framed(b"one") + framed(b"two"))) == b"one"
    assert list(reader.feed(framed(b"three"))) == [b"two", b"three"]


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("client_id", [None, "", "anna's laptop"])
def test_a_request_is_decoded_as_it_was_encoded(version: int, client_id: str | None) -> None:
    header = RequestHeader(12, version, 99, client_id)
    (frame,) = FrameReader().feed(encode_request(header, HEARTBEAT))
    assert decode_request(frame) == (header, HEARTBEAT)


def test_a_client_id_that_is_not_utf_8_is_replaced_as_in_kafka() -> None:
    frame = encode_request(RequestHeader(12, 4, 1, "ab"), HEARTBEAT)[4:].replace(b"ab", b"a\xff")
    assert decode_request(frame)[0].client_id == "a\ufffd"


def test_the_bytes_of_a_flexible_request_are_those_of_the_protocol_guide() -> None:
    written = encode_request(RequestHeader(12, 4, 1, "ab"), HEARTBEAT)
    assert written == framed(b"\0\x0c\0\x04\0\0\0\x01\0\x02ab\0" + b"\x09payments\0\0\0\x07\x07anna-1\0\0")


def test_bytes_after_a_request_are_ignored() -> None:
    """librdkafka asks for all topics with four bytes for the length of the list, where one is correct."""
    frame = b"\0\x03\0\x0d\0\0\0\x01\xff\xff\0" + b"\0\0\0\0" + b"\x01\0\0"
    assert decode_request(frame)[1] == MetadataRequest(topics=None, allow_auto_topic_creation=False)


@pytest.mark.parametrize("version", range(5))
def test_a_response_is_decoded_as_it_was_encoded(version: int) -> None:
    response = HeartbeatResponse(error_code=27)
    (frame,) = FrameReader().feed(encode_response(12, version, 99, response))
    assert decode_response(12, version, frame) == (99, response)


def test_an_api_versions_response_always_has_the_oldest_header() -> None:
    response = ApiVersionsResponse(api_keys=[ApiVersion(api_key=12, min_version=0, max_version=4)])
    assert encode_response(18, 3, 5, response)[4:].startswith(b"\0\0\0\x05" + b"\0\0" + b"\x02")


def test_an_error_for_an_unknown_api_or_version_has_the_header() -> None:
    with pytest.raises(UnsupportedApi) as unknown:
        decode_request(b"\x03\xe7\0\0\0\0\0\x05\0\x01x")
    assert unknown.value.header == RequestHeader(999, 0, 5, "x")
    with pytest.raises(UnsupportedVersion, match="Heartbeat has versions 0-4, not 9") as newer:
        decode_request_header(b"\0\x0c\0\x09\0\0\0\x05\xff\xff")
    assert newer.value.header == RequestHeader(12, 9, 5, None)


@given(st.binary(max_size=60), st.sampled_from([0, 3, 4]))
def test_any_frame_with_a_known_header_is_a_request_or_malformed(body: bytes, version: int) -> None:
    with suppress(Malformed):
        decode_request(b"\0\x0c\0" + bytes([version]) + body)


def describe_request(groups: int) -> bytes:
    header = RequestHeader(15, 5, 1, None)
    return encode_request(header, DescribeGroupsRequest(groups=[""] * groups))[4:]


def test_a_request_with_too_many_entries_is_refused() -> None:
    _, request = decode_request(describe_request(MAX_ARRAY_ENTRIES))
    assert len(cast("DescribeGroupsRequest", request).groups) == MAX_ARRAY_ENTRIES
    with pytest.raises(Malformed, match=r"field groups.*too many entries"):
        decode_request(describe_request(MAX_ARRAY_ENTRIES + 1))


def test_the_entries_of_all_arrays_of_a_request_are_counted_together() -> None:
    half = MAX_ARRAY_ENTRIES // 2
    topics = [OffsetFetchRequestTopic(name=name, partition_indexes=[0] * half) for name in ("orders", "invoices")]
    frame = encode_request(RequestHeader(9, 7, 1, None), OffsetFetchRequest(group_id="g", topics=topics))[4:]
    with pytest.raises(Malformed, match=r"partition_indexes.*too many entries"):
        decode_request(frame)


@pytest.mark.parametrize("where", ["header", "body"])
def test_too_many_tagged_fields_are_refused(where: str) -> None:
    fields = bytes([33]) + b"".join(bytes([tag, 0]) for tag in range(60, 93))
    groups = b"\1\0"
    content = b"\0\x0f\0\5\0\0\0\1\xff\xff" + (
        fields + groups + b"\0" if where == "header" else b"\0" + groups + fields
    )
    with pytest.raises(Malformed, match="33 tagged fields are too many"):
        decode_request(content)
    few = bytes([32]) + fields[1:-2]
    decode_request(content.replace(fields, few))


def test_the_wrong_class_for_an_api_is_refused() -> None:
    with pytest.raises(Unencodable, match="API 12 has the request HeartbeatRequest"):
        encode_request(RequestHeader(12, 0, 1, None), HeartbeatResponse())
