"""A leader whose metadata are older than what its members own may assign partitions twice, as Kafka's does."""

import pytest

from regroup.assignors.interface import AssignorMember, ClusterMetadata
from regroup.assignors.registry import assignor_named
from regroup.lab.checker.members.outdated_leaders import OutdatedLeaders
from regroup.protocol.consumer.sticky_user_data import StickyUserData, encode_sticky_user_data
from regroup.protocol.consumer.subscription import Subscription, TopicPartition, encode_subscription
from regroup.protocol.messages.cluster import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from regroup.protocol.messages.group import (
    JoinGroupResponse,
    JoinGroupResponseMember,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)

SYNC = SyncGroupRequest(
    group_id="payments",
    generation_id=2,
    member_id="anna",
    assignments=[SyncGroupRequestAssignment(member_id="anna", assignment=b"")],
)
CLICKS = tuple(TopicPartition("clicks", each) for each in (1, 2))
ORDERS = (TopicPartition("orders", 0), TopicPartition("orders", 1))


def metadata(clicks: int) -> MetadataResponse:
    counts = {"orders": 3, "clicks": clicks}
    topics = [
        MetadataResponseTopic(
            name=name,
            partitions=[
                MetadataResponsePartition(partition_index=each, leader_id=0, replica_nodes=[], isr_nodes=[])
                for each in range(count)
            ],
        )
        for name, count in counts.items()
    ]
    return MetadataResponse(brokers=[], controller_id=0, topics=topics)


def joined(protocol_name: str, ben_subscribes_to: tuple[str, ...]) -> JoinGroupResponse:
    """Anna leads; she owns partitions of orders, and ben, who subscribes to these topics, partitions of clicks."""
    rows = {
        "anna": Subscription(3, ("orders",), owned_partitions=ORDERS),
        "ben": Subscription(3, ben_subscribes_to, owned_partitions=CLICKS),
    }
    members = [JoinGroupResponseMember(member_id=each, metadata=encode_subscription(rows[each])) for each in rows]
    return JoinGroupResponse(
        generation_id=2, protocol_name=protocol_name, leader="anna", member_id="anna", members=members
    )


@pytest.mark.parametrize(
    ("clicks", "protocol_name", "ben_subscribes_to", "found"),
    [
        (2, "cooperative-sticky", ("clicks", "orders"), True),
        (2, "sticky", ("clicks", "orders"), True),
        (3, "cooperative-sticky", ("clicks", "orders"), False),
        (2, "range", ("clicks", "orders"), False),
        (2, "cooperative-sticky", ("orders",), False),
    ],
)
def test_a_sticky_leader_that_does_not_know_what_its_members_own_may_assign_twice(
    clicks: int, protocol_name: str, ben_subscribes_to: tuple[str, ...], found: bool
) -> None:
    leaders = OutdatedLeaders()
    leaders.on_response("anna", metadata(clicks))
    leaders.on_response("anna", joined(protocol_name, ben_subscribes_to))
    assert leaders.assigns_twice("anna", SYNC) is found


@pytest.mark.parametrize(("clicks", "found"), [(2, True), (3, False)])
def test_members_of_sticky_own_what_their_user_data_have(clicks: int, found: bool) -> None:
    """They have given it up when they join."""
    leaders = OutdatedLeaders()
    leaders.on_response("anna", metadata(clicks))
    data = encode_sticky_user_data(StickyUserData(CLICKS, 1))
    rows = [Subscription(1, ("orders",)), Subscription(1, ("clicks", "orders"), user_data=data)]
    members = [JoinGroupResponseMember(member_id=str(each), metadata=encode_subscription(each)) for each in rows]
    response = JoinGroupResponse(
        generation_id=2, protocol_name="sticky", leader="anna", member_id="anna", members=members
    )
    leaders.on_response("anna", response)
    assert leaders.assigns_twice("anna", SYNC) is found


def test_the_sync_group_of_a_follower_assigns_nothing_twice() -> None:
    leaders = OutdatedLeaders()
    leaders.on_response("anna", joined("sticky", ("clicks", "orders")))
    assert not leaders.assigns_twice("anna", SyncGroupRequest(group_id="g", generation_id=2, member_id="anna"))


def test_the_assignor_does_assign_a_partition_twice_then() -> None:
    """Apache Kafka 4.4.0 has the same result for the same input (docs/chaos.md)."""
    members = {
        "anna": AssignorMember(("orders",), None, ORDERS, 1),
        "ben": AssignorMember(("clicks", "orders"), None, CLICKS, 1),
    }
    assigned = assignor_named("cooperative-sticky").assign(ClusterMetadata({"orders": 3, "clicks": 2}), members)
    given = [each for partitions in assigned.values() for each in partitions]
    assert len(given) > len(set(given))
