"""The coordinator's assignors, beyond the recorded results."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regroup.assignors.interface import AssignorError
from regroup.assignors.server_side import uniform_heterogeneous
from regroup.assignors.server_side.interface import ServerAssignor, ServerGroup, ServerMember, sorted_targets
from regroup.assignors.server_side.range import ServerRangeAssignor
from regroup.assignors.server_side.uniform import UniformAssignor
from regroup.protocol.consumer.primitives import by_topic
from regroup.protocol.consumer.subscription import TopicPartition

BOTH = [ServerRangeAssignor(), UniformAssignor()]
SIZES = {"orders": 5, "payments": 4, "clicks": 1, "empty": 0}

subscriptions = st.sets(st.sampled_from(sorted(SIZES)), min_size=1).map(lambda topics: tuple(sorted(topics)))
groups = st.dictionaries(st.sampled_from("abcdefg"), subscriptions, min_size=1)


def assign(
    assignor: ServerAssignor, group: dict[str, tuple[str, ...]], before: dict[str, list[TopicPartition]]
) -> dict[str, list[TopicPartition]]:
    members = {name: ServerMember(topics, by_topic(before.get(name, ()))) for name, topics in group.items()}
    return sorted_targets(assignor.assign(ServerGroup(SIZES, members)))


@pytest.mark.parametrize("assignor", BOTH, ids=lambda assignor: assignor.name)
@given(group=groups)
def test_every_partition_has_one_owner_that_is_subscribed_to_it(
    assignor: ServerAssignor, group: dict[str, tuple[str, ...]]
) -> None:
    targets = assign(assignor, group, {})
    wanted = {topic for topics in group.values() for topic in topics}
    assert sorted(each for target in targets.values() for each in target) == sorted(
        TopicPartition(topic, number) for topic in wanted for number in range(SIZES[topic])
    )
    assert all(each.topic in group[name] for name, target in targets.items() for each in target)


@given(first=groups, then=groups)
def test_uniform_is_balanced_and_moves_nothing_then(
    first: dict[str, tuple[str, ...]], then: dict[str, tuple[str, ...]]
) -> None:
    uniform = UniformAssignor()
    before = {name: target for name, target in assign(uniform, first, {}).items() if name in then}
    targets = assign(uniform, then, before)
    assert assign(uniform, then, targets) == targets
    for topic in SIZES:
        counts = [len(targets[name]) for name in targets if set(then[name]) == set(then[next(iter(then))])]
        if len({frozenset(topics) for topics in then.values()}) == 1 and topic in then[next(iter(then))]:
            assert max(counts) - min(counts) <= 1


@pytest.mark.parametrize("assignor", BOTH, ids=lambda assignor: assignor.name)
@pytest.mark.parametrize("others", [("orders", "missing"), ("orders",)])
def test_a_topic_that_does_not_exist_is_named_with_its_subscriber(
    assignor: ServerAssignor, others: tuple[str, ...]
) -> None:
    group = ServerGroup({"orders": 2}, {"a": ServerMember(("orders", "missing")), "b": ServerMember(others)})
    with pytest.raises(AssignorError, match="member a is subscribed to topic missing, which does not exist") as raised:
        assignor.assign(group)
    assert (raised.value.member, raised.value.topic) == ("a", "missing")


def test_a_target_beyond_the_end_of_its_topic_is_named() -> None:
    members = {"a": ServerMember(("orders",), {"orders": [9]}), "b": ServerMember(("orders", "clicks"))}
    with pytest.raises(AssignorError, match="member a has partition 9 of topic orders, which does not exist"):
        UniformAssignor().assign(ServerGroup(SIZES, members))


@pytest.mark.parametrize("assignor", BOTH, ids=lambda assignor: assignor.name)
def test_a_group_without_members_or_subscriptions_has_empty_targets(assignor: ServerAssignor) -> None:
    assert assignor.assign(ServerGroup(SIZES, {})) == {}
    assert assignor.assign(ServerGroup(SIZES, {"a": ServerMember(())})) == {"a": {}}


@pytest.mark.parametrize(
    ("other", "orders"),
    [
        (("orders", "payments", "clicks"), [["orders", "clicks"], ["payments", "orders"]]),
        (("empty",), [["payments", "orders", "clicks"], []]),
    ],
    ids=["equal subscriptions", "different subscriptions"],
)
def test_topics_that_uniform_adds_come_before_kept_ones_the_last_one_first(
    other: tuple[str, ...], orders: list[list[str]]
) -> None:
    members = {"a": ServerMember(("orders", "payments", "clicks"), {"clicks": [0]}), "b": ServerMember(other)}
    targets = UniformAssignor().assign(ServerGroup(SIZES, members))
    assert [[*targets[name]] for name in "ab"] == orders


@given(first=groups, then=groups)
def test_topics_of_few_partitions_are_assigned_as_those_of_many(
    first: dict[str, tuple[str, ...]], then: dict[str, tuple[str, ...]]
) -> None:
    """The members are found in another way where a topic has far fewer partitions than subscribers."""

    def targets(few: int) -> dict[str, list[TopicPartition]]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(uniform_heterogeneous, "FEW", few)
            before = {name: target for name, target in assign(UniformAssignor(), first, {}).items() if name in then}
            return assign(UniformAssignor(), then, before)

    assert targets(0) == targets(1_000)
