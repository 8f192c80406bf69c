"""Decoded values that `regroup replay` adds beside the bytes that members exchanged."""

import json
from typing import Any

import pytest

from regroup.cli.store.group_json import with_decoded_bytes
from regroup.coordinator.group import Group, GroupMetadata, GroupState, Member, MemberProfile
from regroup.coordinator.serialization import group_as_json
from regroup.coordinator.supported_protocol import SupportedProtocol
from regroup.protocol.consumer.subscription import (
    Assignment,
    Subscription,
    TopicPartition,
    encode_assignment,
    encode_subscription,
)

SUBSCRIPTION = encode_subscription(Subscription(1, ("orders", "clicks")))
ASSIGNMENT = encode_assignment(Assignment(1, (TopicPartition("orders", 0), TopicPartition("orders", 2))))


def shown(
    protocol_type: str = "consumer", subscription: bytes = SUBSCRIPTION, assignment: bytes = ASSIGNMENT
) -> dict[str, Any]:
    """A group with one member, as `regroup replay` shows it."""
    profile = MemberProfile(
        session_timeout_ms=1, rebalance_timeout_ms=1, supported_protocols=(SupportedProtocol("range", subscription),)
    )
    anna = Member(member_id="anna", profile=profile, assignment=assignment)
    group = Group(
        group_id="g", state=GroupState.STABLE, protocol_type=protocol_type, members={"anna": anna},
        uncommitted_assignments={"anna": assignment, "ben": b""}, group_metadata=GroupMetadata(members=(anna,)),
    )  # fmt: skip
    plain, decoded = (
        json.loads(json.dumps(each)) for each in (group_as_json(group), with_decoded_bytes(group_as_json(group)))
    )
    assert without_decoded_fields(decoded) == plain, "nothing is taken away"
    return dict(decoded)


def without_decoded_fields(value: Any) -> Any:
    added = ("topics", "partitions", "uncommitted_partitions")
    match value:
        case dict():
            return {key: without_decoded_fields(each) for key, each in value.items() if key not in added}
        case list():
            return [without_decoded_fields(each) for each in value]
    return value


def test_a_member_s_topics_and_partitions_stand_beside_its_bytes() -> None:
    group = shown()
    for member in (group["members"]["anna"], group["group_metadata"]["members"][0]):
        assert member["profile"]["topics"] == ["clicks", "orders"]
        assert member["partitions"] == ["orders-0", "orders-2"]
    assert group["uncommitted_partitions"] == {"anna": ["orders-0", "orders-2"], "ben": None}


@pytest.mark.parametrize(
    ("protocol_type", "subscription", "assignment"),
    [("connect", SUBSCRIPTION, ASSIGNMENT), ("consumer", b"\x00", b"\xff\xff")],
)
def test_bytes_that_cannot_be_decoded_stand_alone(protocol_type: str, subscription: bytes, assignment: bytes) -> None:
    anna = shown(protocol_type, subscription, assignment)["members"]["anna"]
    assert {*anna, *anna["profile"]} & {"topics", "partitions"} == set()


def test_a_topic_named_like_a_field_is_left_as_it_is() -> None:
    offsets = {
        "assignment": {"0": {"offset": 1}},
        "supported_protocols": {"0": {"offset": 2}},
        "uncommitted_assignments": {},
    }
    group = {"protocol_type": "consumer", "committed_offsets": offsets}
    assert with_decoded_bytes(group)["committed_offsets"].items() >= offsets.items()
