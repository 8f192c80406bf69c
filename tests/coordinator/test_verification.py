"""What a store must not hold: records, causes and snapshots that were damaged, or that no coordinator has written."""

import msgspec
import pytest

from regroup.coordinator.events import GroupMetadataWritten
from regroup.coordinator.evolve import evolve
from regroup.coordinator.group import CommittedOffset, Group, GroupState, Member, MemberProfile
from regroup.coordinator.serialization import (
    Cause,
    UnknownEvent,
    decode_cause,
    decode_event,
    decode_snapshot,
    encode_cause,
    encode_event,
    encode_snapshot,
    group_as_json,
)
from regroup.coordinator.supported_protocol import SupportedProtocol
from regroup.coordinator.verification import GroupsVerifier
from regroup.storage.errors import StoreDamaged
from regroup.storage.records import Record

POSITION = 7
EVENT = GroupMetadataWritten(at_ms=1_000)
RECORD = encode_event("payments", 1, 1, EVENT, encode_cause(Cause(api="SyncGroup"))).stored_at(POSITION)
GROUP = evolve(Group(group_id="payments"), EVENT)


def sentences(*records: Record) -> list[str]:
    verifier = GroupsVerifier()
    return [found.sentence for record in records for found in verifier.violations_of(record)]


def test_what_was_encoded_is_decoded() -> None:
    assert decode_event(RECORD) == EVENT
    assert decode_cause(RECORD) == Cause(api="SyncGroup")
    assert decode_snapshot(encode_snapshot(GROUP, POSITION, 1)) == GROUP
    assert sentences(RECORD) == []


@pytest.mark.parametrize("payload", [b"", b"{", b"[]", b'{"colour": "red"}', b'{"at_ms": "noon"}', b"\xff"])
def test_bytes_that_are_no_event_no_cause_and_no_group_are_damaged(payload: bytes) -> None:
    of_event = msgspec.structs.replace(RECORD, payload=payload)
    of_cause = msgspec.structs.replace(RECORD, cause=payload)
    of_snapshot = msgspec.structs.replace(encode_snapshot(GROUP, POSITION, 1), payload=payload)
    with pytest.raises(StoreDamaged, match=r"^Record 7 is damaged"):
        decode_event(of_event)
    with pytest.raises(StoreDamaged, match=r"^The cause of record 7 is damaged"):
        decode_cause(of_cause)
    with pytest.raises(StoreDamaged, match=r"^The snapshot of 'payments' at position 7 is damaged"):
        decode_snapshot(of_snapshot)
    assert [each.partition(" (")[0] for each in sentences(of_event)] == [
        "The event cannot be folded: Record 7 is damaged"
    ]
    assert [each.partition(" (")[0] for each in sentences(of_cause)] == ["The cause of record 7 is damaged"]


@pytest.mark.parametrize("other", [{"type": "member-danced"}, {"version": 99}], ids=["type", "version"])
def test_an_event_of_a_later_regroup_is_no_damage(other: dict[str, object]) -> None:
    with pytest.raises(UnknownEvent, match="Read this store with the version that wrote it"):
        decode_event(msgspec.structs.replace(RECORD, **other))


def test_a_snapshot_of_a_group_without_records_is_found() -> None:
    for event_number in (1, 2):
        group = msgspec.structs.replace(GROUP, event_number=event_number)
        [violation] = GroupsVerifier().violations_at_snapshot(POSITION, [encode_snapshot(group, POSITION, 1)])
        assert violation.group == "payments"
        assert violation.sentence.startswith(f"A snapshot is of event {event_number} at position 7;")


def test_a_group_is_shown_as_json_with_its_members_and_offsets() -> None:
    profile = MemberProfile(
        session_timeout_ms=10_000, rebalance_timeout_ms=60_000, supported_protocols=(SupportedProtocol("range"),)
    )
    group = Group(
        group_id="payments",
        state=GroupState.STABLE,
        members={"anna": Member(member_id="anna", profile=profile)},
        committed_offsets={"orders": {0: CommittedOffset(42)}},
    )
    shown = group_as_json(group)
    assert (shown["group_id"], shown["state"]) == ("payments", "Stable")
    assert list(shown["members"]) == ["anna"]
    assert shown["committed_offsets"]["orders"]["0"]["offset"] == 42
