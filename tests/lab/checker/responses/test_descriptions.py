"""Descriptions of groups show what the stored events add up to."""

from typing import Any

import pytest
from msgspec.structs import replace

from regroup.coordinator import commands as c
from regroup.coordinator.consumer.commands import ConsumerGroupDescribe
from regroup.coordinator.consumer_group import ConsumerProfile, ReconciliationState
from regroup.coordinator.group import Group, GroupState, MemberProfile
from regroup.coordinator.settings import CoordinatorSettings
from regroup.coordinator.supported_protocol import SupportedProtocol
from regroup.coordinator.topics import TopicMetadata, TopicsImage
from regroup.lab.checker.classic.stored_members import StoredClassicMember
from regroup.lab.checker.consumer.groups import ConsumerGroups
from regroup.lab.checker.consumer.stored_group import StoredMember
from regroup.lab.checker.coordinator_state import CheckerState
from regroup.lab.checker.responses.descriptions import (
    CONSUMER_MEMBER,
    a_description_shows_the_stored_epochs,
    a_description_shows_the_stored_group,
)
from regroup.protocol.messages.describe import (
    DescribedAssignment,
    DescribedConsumer,
    DescribedConsumerGroup,
    DescribedGroup,
    DescribedGroupMember,
    DescribedTopicPartitions,
)
from regroup.protocol.topic_ids import topic_id_bytes, topic_id_text
from tests.lab.checker.made_exchanges import checker_state, made_exchange

NAMED: dict[str, Any] = {"group_id": "g", "at_ms": 0}
ORDERS = topic_id_text(bytes(15) + b"\x01")
ANNA = DescribedGroupMember(
    member_id="anna", client_id="a", client_host="/h", member_metadata=b"topics", member_assignment=b"share"
)
SHOWN = DescribedGroup(
    group_id="g", group_state="Stable", protocol_type="consumer", protocol_data="range", members=[ANNA]
)


def stable_group(**changes: Any) -> CheckerState:
    """A checker whose stored group has anna in Stable."""
    state = checker_state()
    stored = state.classic_groups.group("g")
    stored.state, stored.protocol_type, stored.protocol_name = GroupState.STABLE, "consumer", "range"
    profile = MemberProfile(
        instance_id=None,
        client_id="a",
        client_host="/h",
        session_timeout_ms=1,
        rebalance_timeout_ms=1,
        supported_protocols=(SupportedProtocol("range", b"topics"),),
    )
    stored.members["anna"] = StoredClassicMember(profile, assignment=b"share")
    for name, value in changes.items():
        setattr(stored, name, value)
    return state


def classic_violation(state: CheckerState, shown: DescribedGroup, event_number: int = 0) -> str | None:
    group = Group(group_id="g", event_number=event_number)
    return a_description_shows_the_stored_group(state, made_exchange(c.DescribeGroup(**NAMED), group, response=shown))


def test_a_description_that_shows_the_stored_group_is_in_order() -> None:
    assert classic_violation(stable_group(), SHOWN) is None


@pytest.mark.parametrize(
    "shown",
    [
        replace(SHOWN, group_state="Empty"),
        replace(SHOWN, protocol_type=""),
        replace(SHOWN, protocol_data=""),
        replace(SHOWN, members=[]),
        replace(SHOWN, members=[replace(ANNA, member_metadata=b"")]),
        replace(SHOWN, members=[replace(ANNA, member_assignment=b"")]),
        replace(SHOWN, members=[replace(ANNA, client_id="/h", client_host="a")]),
        replace(SHOWN, members=[replace(ANNA, group_instance_id="anna-1")]),
    ],
)
def test_a_description_with_anything_else_is_found(shown: DescribedGroup) -> None:
    assert "and stored is" in (classic_violation(stable_group(), shown) or "")


def test_protocol_and_subscriptions_are_shown_in_stable_only() -> None:
    state = stable_group(state=GroupState.COMPLETING_REBALANCE)
    syncing = replace(SHOWN, group_state="CompletingRebalance")
    assert classic_violation(state, syncing)
    hidden = replace(syncing, protocol_data="", members=[replace(ANNA, member_metadata=b"")])
    assert classic_violation(state, hidden) is None


def test_a_group_that_has_changed_since_is_not_compared() -> None:
    assert classic_violation(stable_group(), replace(SHOWN, group_state="Empty"), event_number=7) is None


# -- the consumer protocol


def shares(*partitions: int) -> DescribedAssignment:
    rows = [DescribedTopicPartitions(topic_id=topic_id_bytes(ORDERS), topic_name="orders", partitions=list(partitions))]
    return DescribedAssignment(topic_partitions=rows if partitions else [])


BEN = DescribedConsumer(
    member_id="ben",
    member_epoch=3,
    client_id="b",
    client_host="/h",
    subscribed_topic_names=["orders"],
    subscribed_topic_regex="",
    assignment=shares(0, 1),
    target_assignment=shares(0),
    member_type=CONSUMER_MEMBER,
)
SHOWN_EPOCHS = DescribedConsumerGroup(
    group_id="g", group_state="Reconciling", group_epoch=4, assignment_epoch=4, members=[BEN]
)


def consumer_violation(shown: DescribedConsumerGroup, *, topics: TopicsImage | None = None) -> str | None:
    """Ben has orders-0 at epoch 3 of 4, and has yet to give up orders-1."""
    groups = ConsumerGroups()
    stored = groups.group("g").stored
    stored.is_consumer, stored.group_epoch, stored.target_epoch = True, 4, 4
    stored.targets["ben"] = frozenset({(ORDERS, 0)})
    profile = ConsumerProfile(client_id="b", client_host="/h", subscribed_topics=("orders",))
    stored.members["ben"] = StoredMember(
        profile,
        epoch=3,
        state=ReconciliationState.UNREVOKED_PARTITIONS,
        assigned={(ORDERS, 0): 3},
        pending={(ORDERS, 1): 3},
    )
    image = TopicsImage([TopicMetadata(ORDERS, "orders", 2)]) if topics is None else topics
    command = ConsumerGroupDescribe(**NAMED, topics=image)
    exchange = made_exchange(command, Group(group_id="g"), response=shown)
    return a_description_shows_the_stored_epochs(groups, exchange, CoordinatorSettings())


def test_a_description_of_stored_epochs_and_partitions_is_in_order() -> None:
    assert consumer_violation(SHOWN_EPOCHS) is None


@pytest.mark.parametrize(
    "shown",
    [
        replace(SHOWN_EPOCHS, group_state="Stable"),
        replace(SHOWN_EPOCHS, group_epoch=5),
        replace(SHOWN_EPOCHS, assignment_epoch=3),
        replace(SHOWN_EPOCHS, members=[]),
        replace(SHOWN_EPOCHS, members=[replace(BEN, member_epoch=4)]),
        replace(SHOWN_EPOCHS, members=[replace(BEN, assignment=shares(0))]),
        replace(SHOWN_EPOCHS, members=[replace(BEN, target_assignment=shares(0, 1))]),
        replace(SHOWN_EPOCHS, members=[replace(BEN, subscribed_topic_names=[])]),
    ],
)
def test_a_description_of_other_epochs_or_partitions_is_found(shown: DescribedConsumerGroup) -> None:
    assert "and stored is" in (consumer_violation(shown) or "")


def test_partitions_that_differ_are_listed_in_their_order() -> None:
    found = consumer_violation(replace(SHOWN_EPOCHS, members=[replace(BEN, assignment=shares(*reversed(range(40))))]))
    listed = [(ORDERS, index) for index in range(40)]
    assert found == f"assignment of ben: it shows {listed}, and stored is {listed[:2]}"


def test_topics_that_do_not_exist_any_more_are_left_out() -> None:
    none = replace(BEN, assignment=shares(), target_assignment=shares())
    assert consumer_violation(SHOWN_EPOCHS, topics=TopicsImage())
    assert consumer_violation(replace(SHOWN_EPOCHS, members=[none]), topics=TopicsImage()) is None
