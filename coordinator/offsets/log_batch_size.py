"""The size of what Kafka would write to `__consumer_offsets`: a batch beyond `max.message.bytes` is refused.

Kafka writes the records of one request as one batch. One that is too large is answered UNKNOWN_SERVER_ERROR, and
changes nothing else. Asked of Apache Kafka 4.4.0, whose limits are met to the byte by OffsetCommitValue version 4 (with
the topic's id) and GroupMetadataValue version 3; `OffsetCommitKey.json` and so on in Kafka's source have the formats.
"""

from collections.abc import Iterable
from typing import Final

from regroup.coordinator.commands import RequestedOffset
from regroup.coordinator.group import Group, Member

MAX_BATCH_BYTES: Final = 1_048_588
"""The default of `message.max.bytes`."""

_BATCH_HEADER_BYTES: Final = 61
_KEY_BYTES: Final = 2 + 2
"""The version, and the length of the group id."""
_OFFSET_KEY_BYTES: Final = 2 + 4
"""The length of the topic, and the partition."""
_OFFSET_VALUE_BYTES: Final = 2 + 8 + 4 + 8 + 1 + 2 + 16
"""Version, offset, leader epoch, commit time, number of tagged fields, tag and size, topic id."""
_GROUP_VALUE_BYTES: Final = 2 + 2 + 4 + 2 + 2 + 8 + 4
"""Version, protocol type, generation, protocol name, leader, time of the state, number of members."""
_MEMBER_BYTES: Final = 2 + 2 + 2 + 2 + 4 + 4 + 4 + 4
"""Member id, instance id, client id, host, two timeouts, subscription, assignment."""


def offsets_fit(group_id: str, offsets: Iterable[RequestedOffset], max_metadata_characters: int) -> bool:
    """Whether the offsets of one request fit into a batch. Few offsets do, whatever their metadata."""
    requested = tuple(offsets)
    group_bytes = _size_of(group_id)
    most_bytes = 3 * (max_metadata_characters + max((len(each.topic) for each in requested), default=0))
    if len(requested) * (100 + group_bytes + most_bytes) < MAX_BATCH_BYTES:
        return True
    total_bytes = _BATCH_HEADER_BYTES
    for number, each in enumerate(requested):
        metadata_bytes = _size_of(each.metadata)
        value_bytes = _OFFSET_VALUE_BYTES + _size_of_number(metadata_bytes + 1) + metadata_bytes
        key_bytes = _KEY_BYTES + group_bytes + _OFFSET_KEY_BYTES + _size_of(each.topic)
        total_bytes += _record_bytes(number, key_bytes, value_bytes)
    return total_bytes <= MAX_BATCH_BYTES


def group_fits(group: Group, members: Iterable[Member]) -> bool:
    """Whether the metadata of the group fits into a batch, with these members in place of its own."""
    value_bytes = _GROUP_VALUE_BYTES
    value_bytes += sum(_size_of(each or "") for each in (group.protocol_type, group.protocol_name, group.leader_id))
    for member in members:
        profile = member.profile
        texts = (member.member_id, profile.instance_id or "", profile.client_id, profile.client_host)
        subscription = next(
            (each.metadata for each in profile.supported_protocols if each.name == group.protocol_name), b""
        )
        value_bytes += _MEMBER_BYTES + sum(map(_size_of, texts)) + len(subscription) + len(member.assignment)
    key_bytes = _KEY_BYTES + _size_of(group.group_id)
    return _BATCH_HEADER_BYTES + _record_bytes(0, key_bytes, value_bytes) <= MAX_BATCH_BYTES


def _record_bytes(number: int, key_bytes: int, value_bytes: int) -> int:
    """A record without headers, `number` places behind the first of its batch."""
    body = 1 + 1 + _size_of_signed(number) + _size_of_signed(key_bytes) + key_bytes
    body += _size_of_signed(value_bytes) + value_bytes + 1
    return _size_of_signed(body) + body


def _size_of(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _size_of_number(number: int) -> int:
    """Bytes of an unsigned varint."""
    return max((number.bit_length() + 6) // 7, 1)


def _size_of_signed(number: int) -> int:
    """Bytes of a zigzag varint that is not negative."""
    return _size_of_number(2 * number)
