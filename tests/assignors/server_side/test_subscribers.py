"""The subscribers of topics, in groups of many members with different subscriptions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regroup.assignors.interface import AssignorError
from regroup.assignors.server_side.interface import ServerGroup, ServerMember
from regroup.assignors.server_side.subscribers import Subscribers, without

TOPICS = "abcdefgh"

subscriptions = st.lists(st.sets(st.sampled_from(TOPICS)).map(lambda names: tuple(sorted(names))), max_size=40)


def group_of(topics_of_members: list[tuple[str, ...]], sizes: dict[str, int]) -> ServerGroup:
    return ServerGroup(sizes, {f"m{index}": ServerMember(topics) for index, topics in enumerate(topics_of_members)})


@given(topics_of_members=subscriptions)
def test_each_topic_has_the_members_that_name_it(topics_of_members: list[tuple[str, ...]]) -> None:
    group = group_of(topics_of_members, dict.fromkeys(TOPICS, 1))
    found = Subscribers(group, list(group.members))
    assert set(found.topics) == {topic for topics in topics_of_members for topic in topics}
    for topic in found.topics:
        expected = [index for index, topics in enumerate(topics_of_members) if topic in topics]
        assert found.of(topic) == expected
        assert found.count(topic) == len(expected)
        assert found.others(topic) == set(range(len(topics_of_members))) - set(expected)


def test_a_missing_topic_is_named_with_the_first_member_that_has_its_subscription() -> None:
    group = group_of([("a",), ("a", "b"), ("a", "b")], {"a": 1})
    with pytest.raises(AssignorError, match="member m1 is subscribed to topic b, which does not exist"):
        Subscribers(group, list(group.members))


@pytest.mark.parametrize("count", [1, 3, 50])
def test_indexes_are_left_out_whether_few_or_many(count: int) -> None:
    indexes = [*range(0, 200, 2)]
    left_out = indexes[10 : 10 + count]
    assert without(indexes, left_out) == [each for each in indexes if each not in left_out]
