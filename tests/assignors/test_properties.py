"""What must hold for any group: nothing is lost or given twice, nobody has much more, and little moves."""

from itertools import chain, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regroup.assignors.interface import Assignments, Assignor, Cluster, LastAssignment, Member, RebalanceProtocol
from regroup.assignors.registry import BUILT_IN, assign_checked, assignor_named
from regroup.protocol.consumer.subscription import Assignment, TopicPartition

TOPICS = ("orders", "payments", "clicks", "audit")
STICKY = ("sticky", "sticky-before-2.6", "cooperative-sticky")

Group = dict[str, tuple[str, ...]]

clusters = st.fixed_dictionaries(dict.fromkeys(TOPICS, st.integers(0, 9))).map(Cluster)
subscriptions = st.sets(st.sampled_from((*TOPICS, "unknown")), min_size=1).map(lambda topics: tuple(sorted(topics)))
groups = st.dictionaries(
    st.text("abcxyz-\uff5e\U0001f600", min_size=1, max_size=4), subscriptions, min_size=1, max_size=7
)
racks = st.lists(st.none() | st.sampled_from("rst"), min_size=1, max_size=3)


def everything(cluster: Cluster, group: Group) -> list[TopicPartition]:
    wanted = {topic for topics in group.values() for topic in topics if topic in cluster.partitions_per_topic}
    return sorted(each for topic in wanted for each in cluster.partitions(topic))


def given_out(assignments: Assignments) -> list[TopicPartition]:
    return sorted(each for partitions in assignments.values() for each in partitions)


def members_with(assignor: Assignor, group: Group, had: Assignments) -> dict[str, Member]:
    """The members of the next rebalance, as real ones would join it."""
    members = {}
    for name, topics in group.items():
        last = assignor.on_assignment(Assignment(3, tuple(had[name])), 7) if name in had else None
        cooperative = RebalanceProtocol.COOPERATIVE in assignor.supported_protocols
        owned = last.partitions if last and cooperative else ()
        members[name] = Member(topics, assignor.subscription_user_data(topics, last), owned, 7 if last else -1)
    return members


def settle(assignor: Assignor, cluster: Cluster, group: Group, had: Assignments) -> Assignments:
    """Rebalance once or, where partitions must first be given up, twice."""
    dealt = assignor.assign(cluster, members_with(assignor, group, had))
    return assignor.assign(cluster, members_with(assignor, group, dealt))


@pytest.mark.parametrize("name", BUILT_IN)
@given(cluster=clusters, group=groups)
def test_every_subscribed_partition_is_given_out_exactly_once(name: str, cluster: Cluster, group: Group) -> None:
    members = {member: Member(topics) for member, topics in group.items()}
    assignments = assign_checked(assignor_named(name), cluster, members)
    assert given_out(assignments) == everything(cluster, group)
    assert list(assignments) == list(members)


@pytest.mark.parametrize("name", ["range", "sticky", "cooperative-sticky"])
@given(sizes=st.lists(st.lists(racks, min_size=1, max_size=6), min_size=1, max_size=3), data=st.data())
def test_racks_cost_neither_a_partition_nor_balance(
    name: str, sizes: list[list[list[str | None]]], data: st.DataObject
) -> None:
    topics = dict(zip(TOPICS, sizes, strict=False))
    cluster = Cluster({topic: len(replicas) for topic, replicas in topics.items()}, topics)
    of_members = data.draw(st.lists(st.none() | st.sampled_from("rstu"), min_size=1, max_size=6))
    members = {f"m{index}": Member(tuple(topics), rack_id=rack) for index, rack in enumerate(of_members)}
    assignments = assign_checked(assignor_named(name), cluster, members)
    assert given_out(assignments) == everything(cluster, dict.fromkeys(members, tuple(topics)))
    for topic in topics if name == "range" else [None]:
        counts = [sum(topic in (None, each.topic) for each in partitions) for partitions in assignments.values()]
        assert max(counts) - min(counts) <= 1


@pytest.mark.parametrize("name", STICKY)
@given(cluster=clusters, group=groups)
def test_nobody_could_take_a_partition_from_someone_with_two_more(name: str, cluster: Cluster, group: Group) -> None:
    assignments = assignor_named(name).assign(cluster, {member: Member(topics) for member, topics in group.items()})
    for owner, partitions in assignments.items():
        for topic, _ in partitions:
            for other in (member for member in group if topic in group[member]):
                assert len(partitions) <= len(assignments[other]) + 1, (owner, other)


@pytest.mark.parametrize("name", STICKY)
@given(cluster=clusters, group=groups)
def test_a_rebalance_without_a_reason_moves_nothing(name: str, cluster: Cluster, group: Group) -> None:
    assignor = assignor_named(name)
    first = assignor.assign(cluster, members_with(assignor, group, {}))
    again = assignor.assign(cluster, members_with(assignor, group, first))
    assert {member: set(had) for member, had in again.items()} == {member: set(had) for member, had in first.items()}


@pytest.mark.parametrize("name", STICKY)
@given(cluster=clusters, size=st.integers(2, 7), leaves=st.integers(0, 6))
def test_when_a_member_leaves_the_others_keep_what_they_have(
    name: str, cluster: Cluster, size: int, leaves: int
) -> None:
    assignor = assignor_named(name)
    group: Group = {f"m{index}": TOPICS for index in range(size)}
    before = settle(assignor, cluster, group, {})
    left = {member: topics for member, topics in group.items() if member != f"m{leaves % size}"}
    after = assignor.assign(cluster, members_with(assignor, left, before))
    for member, partitions in after.items():
        assert set(before[member]) <= set(partitions)
    assert given_out(after) == everything(cluster, left)


@settings(max_examples=60)
@given(cluster=clusters, old=groups, new=groups)
def test_cooperative_gives_out_nothing_that_another_member_still_holds(
    cluster: Cluster, old: Group, new: Group
) -> None:
    assignor = assignor_named("cooperative-sticky")
    before = settle(assignor, cluster, old, {})
    members = members_with(assignor, new, before)
    holder = {each: name for name, member in members.items() for each in member.owned_partitions}
    dealt = assignor.assign(cluster, members)
    for name, partitions in dealt.items():
        assert all(holder.get(each, name) == name for each in partitions)
    assert given_out(settle(assignor, cluster, new, dealt)) == everything(cluster, new)


@given(cluster=clusters, size=st.integers(1, 7))
def test_range_gives_neighbours_and_the_remainder_to_the_first(cluster: Cluster, size: int) -> None:
    names = [f"m{index}" for index in range(size)]
    assignments = assignor_named("range").assign(cluster, dict.fromkeys(names, Member(TOPICS)))
    for topic in TOPICS:
        runs = [[number for each, number in assignments[name] if each == topic] for name in names]
        assert [*chain(*runs)] == [*range(cluster.partitions_per_topic[topic])]
        assert all(len(left) - len(right) in (0, 1) for left, right in pairwise(runs))


def test_a_member_remembers_its_last_assignment() -> None:
    orders = TopicPartition("orders", 0)
    for name in BUILT_IN:
        assert assignor_named(name).on_assignment(Assignment(3, (orders,)), 4) == LastAssignment((orders,), 4)
