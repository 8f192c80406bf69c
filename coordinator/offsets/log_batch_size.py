"""Computes the size of what Kafka would write to `__consumer_offsets`. A batch larger than `max.message.bytes` is
refused.

Kafka writes the records of one request as one batch. One that is too large is answered UNKNOWN_SERVER_ERROR, and
changes nothing else. Asked of Apache Kafka 4.4.0, whose limits are met to the byte by OffsetCommitValue version 4 (with
the topic's id) and GroupMetadataValue version 3; `OffsetCommitKey.json` and so on in Kafka's source have the formats.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from regroup.coordinator.commands import RequestedOffset
from regroup.coordinator.group import Group, Member

MAX_BATCH_BYTES: Final = 1_048_588
"""The default of `message.max.bytes`, which limits a batch, in bytes."""

_BATCH_HEADER_BYTES: Final = 61
_KEY_BYTES: Final = 2 + 2
"""Bytes of a record key without the texts: the version, and the length of the group id."""
_OFFSET_KEY_BYTES: Final = 2 + 4
"""Further bytes of the key of an offset, without the text: the length of the topic name, and the partition."""
_OFFSET_VALUE_BYTES: Final = 2 + 8 + 4 + 8 + 1 + 2 + 16
"""Bytes of the value of an offset, without metadata: version, offset, leader epoch, commit time, number of tagged
fields, tag and size, topic id."""
_GROUP_VALUE_BYTES: Final = 2 + 2 + 4 + 2 + 2 + 8 + 4
"""Bytes of the value of a group without texts and members: version, protocol type, generation, protocol name, leader,
time of the state, number of members."""
_MEMBER_BYTES: Final = 2 + 2 + 2 + 2 + 4 + 4 + 4 + 4
"""Bytes of a member without texts, subscription and assignment: the lengths of member id, instance id, client id and
host, two timeouts, the lengths of subscription and assignment."""


def offsets_fit(group_id: str, offsets: Sequence[RequestedOffset]) -> bool:
    """Whether the offsets of one request fit into one batch of the log. To save time, their sizes are summed up only if
    a batch could be too small for as many offsets of the greatest length."""
    group_bytes = size_of_text(group_id)
    longest = max([len(each.topic) + len(each.metadata) for each in offsets], default=0)
    if len(offsets) * (100 + group_bytes + 3 * longest) < MAX_BATCH_BYTES:
        return True
    total_bytes = _BATCH_HEADER_BYTES
    for number, each in enumerate(offsets):
        metadata_bytes = size_of_text(each.metadata)
        value_bytes = _OFFSET_VALUE_BYTES + _size_of_number(metadata_bytes + 1) + metadata_bytes
        key_bytes = _KEY_BYTES + group_bytes + _OFFSET_KEY_BYTES + size_of_text(each.topic)
        total_bytes += _record_bytes(number, key_bytes, value_bytes)
    return total_bytes <= MAX_BATCH_BYTES


def group_fits(group: Group, members: Iterable[Member]) -> bool:
    """Whether the metadata record of the group fits into one batch, if the group had these members."""
    value_bytes = _GROUP_VALUE_BYTES
    value_bytes += sum(size_of_text(each or "") for each in (group.protocol_type, group.protocol_name, group.leader_id))
    for member in members:
        profile = member.profile
        texts = (member.member_id, profile.instance_id or "", profile.client_id, profile.client_host)
        subscription = next(
            (each.metadata for each in profile.supported_protocols if each.name == group.protocol_name), b""
        )
        value_bytes += _MEMBER_BYTES + sum(map(size_of_text, texts)) + len(subscription) + len(member.assignment)
    key_bytes = _KEY_BYTES + size_of_text(group.group_id)
    return _BATCH_HEADER_BYTES + _record_bytes(0, key_bytes, value_bytes) <= MAX_BATCH_BYTES


def _record_bytes(number: int, key_bytes: int, value_bytes: int) -> int:
    """The size of a record without headers that is the `number`-th of its batch, counted from 0."""
    body = 1 + 1 + _size_of_signed(number) + _size_of_signed(key_bytes) + key_bytes
    body += _size_of_signed(value_bytes) + value_bytes + 1
    return _size_of_signed(body) + body


def size_of_text(text: str) -> int:
    """The number of bytes of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode())


def _size_of_number(number: int) -> int:
    """The number of bytes that this number takes as an unsigned varint."""
    return max((number.bit_length() + 6) // 7, 1)


def _size_of_signed(number: int) -> int:
    """The number of bytes that this number, which must not be negative, takes as a zigzag varint."""
    return _size_of_number(2 * number)
