"""Members of the classic protocol in groups of the consumer protocol are stored as their JoinGroup describes them."""

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from regroup.coordinator.commands import JoinGroup
from regroup.coordinator.consumer_group import ClassicMetadata, ConsumerProfile
from regroup.coordinator.group import MemberProfile
from regroup.coordinator.settings import CoordinatorSettings
from regroup.coordinator.supported_protocol import SupportedProtocol
from regroup.lab.checker.consumer.groups import ConsumerGroups
from regroup.lab.checker.consumer.profiles import a_classic_member_is_stored_as_it_describes_itself
from regroup.lab.checker.consumer.stored_group import StoredMember
from regroup.protocol.consumer.subscription import Subscription, encode_subscription
from regroup.protocol.messages.group import JoinGroupResponse


def joined(rack_id: str | None = None) -> Any:
    """The exchange in which anna joins with a subscription that names this rack."""
    metadata = encode_subscription(Subscription(3, ("b", "a", "b"), rack_id=rack_id))
    profile = MemberProfile(
        client_id="anna",
        session_timeout_ms=9_000,
        rebalance_timeout_ms=7_000,
        supported_protocols=(SupportedProtocol("range", metadata),),
    )
    command = JoinGroup(
        group_id="g", at_ms=0, member_id="anna", new_member_id="new", protocol_type="consumer", profile=profile
    )
    return SimpleNamespace(group_id="g", command=command, response=JoinGroupResponse(member_id="anna"))


STORED = ConsumerProfile(
    client_id="anna",
    session_timeout_ms=9_000,
    rebalance_timeout_ms=7_000,
    subscribed_topics=("a", "b"),
    classic=ClassicMetadata(session_timeout_ms=9_000, supported_protocols=()),
)


def found(exchange: Any, before: ConsumerProfile | None, **fields: Any) -> str | None:
    """What is found if anna was stored as `before`, and now with these fields."""
    groups = ConsumerGroups()
    group = groups.group("g")
    group.stored.is_consumer = True
    group.before = StoredMember(before) if before else None
    group.stored.members["anna"] = StoredMember(replace(STORED, **fields))
    return a_classic_member_is_stored_as_it_describes_itself(groups, exchange, CoordinatorSettings())


def test_a_rack_that_is_named_is_stored_and_one_that_is_left_out_stays() -> None:
    in_rack = replace(STORED, rack_id="r")
    assert found(joined("r"), STORED, rack_id="r") is None
    assert found(joined(), in_rack, rack_id="r") is None
    assert found(joined(), in_rack) == "anna has rack_id None, and has said 'r'"
    assert found(joined("r"), STORED) == "anna has rack_id None, and has said 'r'"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("session_timeout_ms", 9_001),
        ("rebalance_timeout_ms", 9_000),
        ("subscribed_topics", ("a", "b", "c")),
        ("subscribed_regex", "a.*"),
        ("client_id", ""),
    ],
)
def test_a_field_that_is_stored_otherwise_is_found(name: str, value: Any) -> None:
    assert found(joined(), STORED) is None
    assert (found(joined(), STORED, **{name: value}) or "").startswith(f"anna has {name} {value!r}")


def test_a_process_that_replaces_a_static_member_has_what_that_one_has_said() -> None:
    assert found(joined(), None, rack_id="r") is None
