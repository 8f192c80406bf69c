"""What `regroup replay` says beside the bytes that members exchanged."""

import json
from typing import Any

import pytest

from regroup.cli.store.group_json import readable
from regroup.coordinator.group import Group, Member, Protocol, State, StoredGroup
from regroup.coordinator.serialization import as_json
from regroup.protocol.consumer.subscription import (
    Assignment,
    Subscription,
    TopicPartition,
    encode_assignment,
    encode_subscription,
)

SUBSCRIPTION = encode_subscription(Subscription(1, ("orders", "clicks")))
SHARE = encode_assignment(Assignment(1, (TopicPartition("orders", 0), TopicPartition("orders", 2))))


def shown(protocol_type: str = "consumer", subscription: bytes = SUBSCRIPTION, share: bytes = SHARE) -> dict[str, Any]:
    anna = Member(
        member_id="anna", session_timeout_ms=1, rebalance_timeout_ms=1,
        protocols=(Protocol("range", subscription),), assignment=share,
    )  # fmt: skip
    group = Group(
        name="g", state=State.STABLE, protocol_type=protocol_type, members={"anna": anna},
        written_assignment={"anna": share, "ben": b""}, stored=StoredGroup(members=(anna,)),
    )  # fmt: skip
    plain, told = (json.loads(json.dumps(each)) for each in (as_json(group), readable(as_json(group))))
    assert without_words(told) == plain, "nothing is taken away"
    return dict(told)


def without_words(value: Any) -> Any:
    """The same without what `readable` adds."""
    added = ("topics", "partitions", "written_partitions")
    match value:
        case dict():
            return {key: without_words(each) for key, each in value.items() if key not in added}
        case list():
            return [without_words(each) for each in value]
    return value


def test_a_member_s_topics_and_partitions_stand_beside_its_bytes() -> None:
    told = shown()
    for member in (told["members"]["anna"], told["stored"]["members"][0]):
        assert member["topics"] == ["clicks", "orders"]
        assert member["partitions"] == ["orders-0", "orders-2"]
    assert told["written_partitions"] == {"anna": ["orders-0", "orders-2"], "ben": None}


@pytest.mark.parametrize(
    ("protocol_type", "subscription", "share"), [("connect", SUBSCRIPTION, SHARE), ("consumer", b"\x00", b"\xff\xff")]
)
def test_bytes_that_nobody_can_read_stand_alone(protocol_type: str, subscription: bytes, share: bytes) -> None:
    anna = shown(protocol_type, subscription, share)["members"]["anna"]
    assert anna.keys() & {"topics", "partitions"} == set()


def test_a_topic_named_like_a_field_is_left_as_it_is() -> None:
    offsets = {"assignment": {"0": {"offset": 1}}, "protocols": {"0": {"offset": 2}}, "written_assignment": {}}
    group = {"protocol_type": "consumer", "offsets": offsets}
    assert readable(group)["offsets"].items() >= offsets.items()
