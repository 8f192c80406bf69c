"""The codec: bytes of both encodings, values that a version cannot carry, malformed bytes."""

import tracemalloc

import pytest
from msgspec.structs import replace

from regroup.protocol.codec.codec import decode, encode
from regroup.protocol.exceptions import Malformed, Unencodable
from regroup.protocol.messages.group import HeartbeatRequest, JoinGroupRequest, JoinGroupResponse

HEARTBEAT = HeartbeatRequest(group_id="payments", generation_id=7, member_id="anna-1")
JOIN = JoinGroupRequest(group_id="payments", session_timeout_ms=45_000, protocol_type="consumer", protocols=[])


def test_an_old_heartbeat_has_lengths_of_fixed_width() -> None:
    assert encode(HEARTBEAT, 0) == b"\0\x08payments\0\0\0\x07\0\x06anna-1"


def test_a_flexible_heartbeat_has_compact_lengths_a_null_and_no_tagged_fields() -> None:
    assert encode(HEARTBEAT, 4) == b"\x09payments\0\0\0\x07\x07anna-1\0\0"


def test_a_value_that_the_version_cannot_carry_is_refused_with_the_field_name() -> None:
    with pytest.raises(Unencodable, match=r"JoinGroupRequest v4 cannot carry group_instance_id.*versions 5\+"):
        encode(replace(JOIN, group_instance_id="till-3"), 4)


def test_an_ignorable_value_is_dropped_where_the_version_lacks_it() -> None:
    assert encode(replace(JOIN, reason="restart"), 7) == encode(JOIN, 7)


def test_a_null_is_refused_in_a_version_that_cannot_carry_it() -> None:
    response = JoinGroupResponse(member_id="anna-1", protocol_name=None)
    assert decode(JoinGroupResponse, 7, encode(response, 7)) == response
    with pytest.raises(Unencodable, match="protocol_name: it may not be null"):
        encode(response, 6)


def test_a_number_too_large_for_its_field_is_refused() -> None:
    with pytest.raises(Unencodable, match="generation_id"):
        encode(HeartbeatRequest(group_id="", generation_id=2**31, member_id=""), 0)


def test_bytes_after_the_end_are_malformed() -> None:
    with pytest.raises(Malformed, match="1 more bytes follow"):
        decode(HeartbeatRequest, 4, encode(HEARTBEAT, 4) + b"\0")


@pytest.mark.parametrize("version", range(5))
def test_bytes_cut_off_anywhere_are_malformed(version: int) -> None:
    whole = encode(HEARTBEAT, version)
    for length in range(len(whole)):
        with pytest.raises(Malformed, match=f"HeartbeatRequest v{version}, field"):
            decode(HeartbeatRequest, version, whole[:length])


@pytest.mark.parametrize("count", [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xfe", b"\x80\0\0\0"])
def test_a_list_with_an_impossible_count_allocates_nothing(count: bytes) -> None:
    with_no_protocols = encode(JOIN, 0)
    tracemalloc.start()
    with pytest.raises(Malformed, match=r"protocols, near offset .* elements are impossible"):
        decode(JoinGroupRequest, 0, with_no_protocols[:-4] + count)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 1_000_000


def test_text_that_is_not_utf8_is_malformed() -> None:
    with pytest.raises(Malformed, match=r"field group_id.*utf-8"):
        decode(HeartbeatRequest, 0, b"\0\x01\xff\0\0\0\x07\0\0")


def test_unknown_tagged_fields_are_skipped() -> None:
    known = encode(HEARTBEAT, 4)
    assert decode(HeartbeatRequest, 4, known[:-1] + b"\x02\x05\x03abc\xe8\x07\0") == HEARTBEAT


@pytest.mark.parametrize("section", [b"\x01", b"\x01\x05", b"\x01\x05\x04abc", b"\xff\xff\xff\xff\x0f", b"\xff" * 6])
def test_tagged_fields_with_a_wrong_size_are_malformed(section: bytes) -> None:
    with pytest.raises(Malformed):
        decode(HeartbeatRequest, 4, encode(HEARTBEAT, 4)[:-1] + section)
