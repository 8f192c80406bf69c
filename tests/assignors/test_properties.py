"""Properties of any assignment: every partition has one owner, it is balanced, and few partitions move."""

from itertools import chain, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regroup.assignors.interface import (
    Assignments,
    Assignor,
    AssignorMember,
    ClusterMetadata,
    LastAssignment,
    RebalanceProtocol,
)
from regroup.assignors.registry import BUILT_IN, assign_checked, assignor_named
from regroup.protocol.consumer.subscription import Assignment, TopicPartition

TOPICS = ("orders", "payments", "clicks", "audit")
STICKY = ("sticky", "sticky-before-2.6", "cooperative-sticky")

Subscriptions = dict[str, tuple[str, ...]]

clusters = st.fixed_dictionaries(dict.fromkeys(TOPICS, st.integers(0, 9))).map(ClusterMetadata)
subscriptions = st.sets(st.sampled_from((*TOPICS, "unknown")), min_size=1).map(lambda topics: tuple(sorted(topics)))
groups = st.dictionaries(
    st.text("abcxyz-\uff5e\U0001f600", min_size=1, max_size=4), subscriptions, min_size=1, max_size=7
)
racks = st.lists(st.none() | st.sampled_from("rst"), min_size=1, max_size=3)


def wanted_partitions(cluster: ClusterMetadata, group: Subscriptions) -> list[TopicPartition]:
    wanted = {topic for topics in group.values() for topic in topics if topic in cluster.partitions_per_topic}
    return sorted(each for topic in wanted for each in cluster.partitions(topic))


def assigned_partitions(assignments: Assignments) -> list[TopicPartition]:
    return sorted(each for partitions in assignments.values() for each in partitions)


def members_with(assignor: Assignor, group: Subscriptions, previous: Assignments) -> dict[str, AssignorMember]:
    """The members of the next rebalance, with their previous assignment."""
    members = {}
    for name, topics in group.items():
        last = assignor.on_assignment(Assignment(3, tuple(previous[name])), 7) if name in previous else None
        cooperative = RebalanceProtocol.COOPERATIVE in assignor.supported_protocols
        owned = last.partitions if last and cooperative else ()
        members[name] = AssignorMember(topics, assignor.subscription_user_data(topics, last), owned, 7 if last else -1)
    return members


def assign_twice(
    assignor: Assignor, cluster: ClusterMetadata, group: Subscriptions, previous: Assignments
) -> Assignments:
    """The assignment after two rebalances, since the first may only revoke partitions."""
    assigned = assignor.assign(cluster, members_with(assignor, group, previous))
    return assignor.assign(cluster, members_with(assignor, group, assigned))


@pytest.mark.parametrize("name", BUILT_IN)
@given(cluster=clusters, group=groups)
def test_every_subscribed_partition_is_assigned_exactly_once(
    name: str, cluster: ClusterMetadata, group: Subscriptions
) -> None:
    members = {member: AssignorMember(topics) for member, topics in group.items()}
    assignments = assign_checked(assignor_named(name), cluster, members)
    assert assigned_partitions(assignments) == wanted_partitions(cluster, group)
    assert list(assignments) == list(members)


@pytest.mark.parametrize("name", ["range", "sticky", "cooperative-sticky"])
@given(sizes=st.lists(st.lists(racks, min_size=1, max_size=6), min_size=1, max_size=3), data=st.data())
def test_racks_change_neither_completeness_nor_balance(
    name: str, sizes: list[list[list[str | None]]], data: st.DataObject
) -> None:
    topics = dict(zip(TOPICS, sizes, strict=False))
    cluster = ClusterMetadata({topic: len(replicas) for topic, replicas in topics.items()}, topics)
    of_members = data.draw(st.lists(st.none() | st.sampled_from("rstu"), min_size=1, max_size=6))
    members = {f"m{index}": AssignorMember(tuple(topics), rack_id=rack) for index, rack in enumerate(of_members)}
    assignments = assign_checked(assignor_named(name), cluster, members)
    assert assigned_partitions(assignments) == wanted_partitions(cluster, dict.fromkeys(members, tuple(topics)))
    for topic in topics if name == "range" else [None]:
        counts = [sum(topic in (None, each.topic) for each in partitions) for partitions in assignments.values()]
        assert max(counts) - min(counts) <= 1


@pytest.mark.parametrize("name", STICKY)
@given(cluster=clusters, group=groups)
def test_no_member_could_get_a_partition_from_one_with_two_more(
    name: str, cluster: ClusterMetadata, group: Subscriptions
) -> None:
    members = {member: AssignorMember(topics) for member, topics in group.items()}
    assignments = assignor_named(name).assign(cluster, members)
    for owner, partitions in assignments.items():
        for topic, _ in partitions:
            for other in (member for member in group if topic in group[member]):
                assert len(partitions) <= len(assignments[other]) + 1, (owner, other)


@pytest.mark.parametrize("name", STICKY)
@given(cluster=clusters, group=groups)
def test_a_rebalance_without_a_change_moves_no_partition(
    name: str, cluster: ClusterMetadata, group: Subscriptions
) -> None:
    assignor = assignor_named(name)
    first = assignor.assign(cluster, members_with(assignor, group, {}))
    again = assignor.assign(cluster, members_with(assignor, group, first))
    for member, partitions in first.items():
        assert set(again[member]) == set(partitions)


@pytest.mark.parametrize("name", STICKY)
@given(cluster=clusters, size=st.integers(2, 7), leaves=st.integers(0, 6))
def test_when_a_member_leaves_the_others_keep_their_partitions(
    name: str, cluster: ClusterMetadata, size: int, leaves: int
) -> None:
    assignor = assignor_named(name)
    group: Subscriptions = {f"m{index}": TOPICS for index in range(size)}
    before = assign_twice(assignor, cluster, group, {})
    left = {member: topics for member, topics in group.items() if member != f"m{leaves % size}"}
    after = assignor.assign(cluster, members_with(assignor, left, before))
    for member, partitions in after.items():
        assert set(before[member]) <= set(partitions)
    assert assigned_partitions(after) == wanted_partitions(cluster, left)


@given(cluster=clusters, old=groups, new=groups)
def test_cooperative_assigns_no_partition_that_another_member_still_owns(
    cluster: ClusterMetadata, old: Subscriptions, new: Subscriptions
) -> None:
    assignor = assignor_named("cooperative-sticky")
    before = assign_twice(assignor, cluster, old, {})
    members = members_with(assignor, new, before)
    owner_before = {each: name for name, member in members.items() for each in member.owned_partitions}
    assigned = assignor.assign(cluster, members)
    for name, partitions in assigned.items():
        assert all(owner_before.get(each, name) == name for each in partitions)
    assert assigned_partitions(assign_twice(assignor, cluster, new, assigned)) == wanted_partitions(cluster, new)


@given(cluster=clusters, size=st.integers(1, 7))
def test_range_assigns_consecutive_partitions_and_the_remainder_to_the_first(
    cluster: ClusterMetadata, size: int
) -> None:
    names = [f"m{index}" for index in range(size)]
    assignments = assignor_named("range").assign(cluster, dict.fromkeys(names, AssignorMember(TOPICS)))
    for topic in TOPICS:
        ranges = [[number for each, number in assignments[name] if each == topic] for name in names]
        assert [*chain(*ranges)] == [*range(cluster.partitions_per_topic[topic])]
        assert all(len(left) - len(right) in (0, 1) for left, right in pairwise(ranges))


def test_a_member_keeps_its_last_assignment() -> None:
    orders = TopicPartition("orders", 0)
    for name in BUILT_IN:
        assert assignor_named(name).on_assignment(Assignment(3, (orders,)), 4) == LastAssignment((orders,), 4)
