"""Large groups: what is computed for each member's share of a target, and how much work a request is."""

from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from regroup.assignors.interface import AssignorError
from regroup.assignors.server_side.uniform import UniformAssignor
from regroup.coordinator.consumer import targets
from regroup.coordinator.consumer.commands import ConsumerGroupHeartbeat
from regroup.coordinator.consumer.targets import (
    ExistingTopics,
    compute_targets,
    java_uuid_hash,
    names_in_order,
    target_work,
)
from regroup.coordinator.consumer_group import ConsumerGroup, ConsumerMember, ConsumerProfile, ResolvedRegex
from regroup.coordinator.decide import decide
from regroup.coordinator.group import Group
from regroup.coordinator.layered_mapping import LAYERED_FROM
from regroup.coordinator.settings import CoordinatorSettings
from regroup.coordinator.topics import TopicMetadata, TopicsImage
from regroup.protocol.errors import ErrorCode
from regroup.protocol.java_order import in_hash_map_order, java_hash_map_order
from regroup.protocol.topic_ids import topic_id_text
from tests.counted_calls import calls_of

SETTINGS = CoordinatorSettings()


def image(topics: int, partitions: int) -> TopicsImage:
    return TopicsImage(
        TopicMetadata(topic_id_text((number * 7919).to_bytes(16, "big")), f"topic{number}", partitions)
        for number in range(1, topics + 1)
    )


def group_of(subscriptions: list[tuple[str, ...]]) -> ConsumerGroup:
    names = Counter(name for each in subscriptions for name in each)
    return ConsumerGroup(
        members={
            f"m{index}": ConsumerMember(member_id=f"m{index}", profile=ConsumerProfile(subscribed_topics=each))
            for index, each in enumerate(subscriptions)
        },
        subscriptions=dict(names),
        subscribed_topics=tuple(sorted(names)),
    )


IMAGE = TopicsImage(
    TopicMetadata(topic_id_text(bytes(12) + bytes([number, 0, 0, number % 5])), f"topic{number}", 1)
    for number in range(40)
)
"""40 topics, eight of which share each bucket of a hash map of ids."""
NAMES = sorted(IMAGE.by_name)


@given(
    subscriptions=st.lists(
        st.sets(st.sampled_from([*NAMES, "missing"]))
        | st.sets(st.sampled_from(NAMES)).map(lambda left_out: {*NAMES, "missing"} - left_out),
        min_size=1,
        max_size=5,
    )
)
@example([{*NAMES[:24]}, {*NAMES[:24], "missing"}])
def test_each_member_has_its_existing_topics_in_the_order_of_a_java_map(subscriptions: list[set[str]]) -> None:
    """Kafka fills the map of ids from one of names, also of those that do not exist."""
    group = group_of([tuple(sorted(each)) for each in subscriptions])
    existing = ExistingTopics(group, IMAGE)
    for member in group.members.values():
        ids = IMAGE.ids_of(java_hash_map_order(member.profile.subscribed_topics))
        ordered = in_hash_map_order(ids, java_uuid_hash)
        assert existing.of(member.profile) == tuple(IMAGE.by_id[topic_id].name for topic_id in ordered)


@pytest.mark.parametrize(
    ("named", "matched", "order"),
    [
        (("a", "b"), ("c", "q"), ["q", "c", "a", "b"]),
        (("a", "b", "c"), ("c", "q"), ["a", "b", "c", "q"]),
        (("a",), (), ["a"]),
        ((), ("c", "q"), ["q", "c"]),
    ],
)
def test_of_names_and_a_patterns_topics_the_larger_set_comes_first(
    named: tuple[str, ...], matched: tuple[str, ...], order: list[str]
) -> None:
    """In a hash map q, the 17th bucket of 16, comes before c."""
    profile = ConsumerProfile(subscribed_topics=named, subscribed_regex=".*")
    consumer = ConsumerGroup(resolved_regexes={".*": ResolvedRegex(topics=matched, resolved_at_ms=0)})
    assert names_in_order(consumer, profile) == order


def test_the_hash_of_a_topic_id_is_that_of_its_two_halves() -> None:
    """As `Uuid.hashCode()`: both 64-bit halves XORed, and then both 32-bit halves of that."""
    first, second = 0x0000_0001_0000_0002, 0x0000_0010_0000_0020
    topic_id = topic_id_text(first.to_bytes(8, "big") + second.to_bytes(8, "big"))
    assert java_uuid_hash(topic_id) == 0x01 ^ 0x02 ^ 0x10 ^ 0x20


def test_topics_are_not_handled_one_by_one_for_each_member() -> None:
    """Otherwise a thousand members that leave out one of a thousand topics each occupied the event loop for half a
    second."""
    topics = image(120, 1)
    names = sorted(topics.by_name)
    group = group_of([tuple(names[:each] + names[each + 1 :]) for each in range(120)])
    calls = calls_of(lambda: compute_targets(group, topics, UniformAssignor(), homogeneous=False))
    assert calls < 1.25 * 120 * 120


def test_members_with_one_topic_each_do_not_go_through_all_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the work would grow with the square of their number."""
    topics = image(120, 1)
    group = group_of([(name,) for name in topics.by_name])
    existing, gone_through = ExistingTopics(group, topics), list[str]()
    order = existing._order

    def note_order(size: int, subscribed: int) -> list[str]:
        names = order(size, subscribed)
        gone_through.extend(names)
        return names

    monkeypatch.setattr(existing, "_order", note_order)
    assert [existing.of(each.profile) for each in group.members.values()] == [(name,) for name in topics.by_name]
    assert gone_through == []


def test_partitions_are_not_handled_one_by_one() -> None:
    """Otherwise a target of 200,000 partitions occupied the event loop for half a second."""

    def work(partitions: int) -> int:
        topics = image(1, partitions)
        group = group_of([("topic1",)] * 10)
        targets = compute_targets(group, topics, UniformAssignor(), homogeneous=True)
        again = ConsumerGroup(members=group.members, targets=targets, subscribed_topics=("topic1",))
        return calls_of(lambda: compute_targets(again, topics, UniformAssignor(), homogeneous=True))

    work(10)
    assert work(10_000) < 1.2 * work(100)


def converged(size: int, topics: TopicsImage) -> Group:
    """A group whose members have reached the target, each with one partition."""
    names, topic_id = ("topic1",), topics.by_name["topic1"].topic_id
    epoch = size + 1
    members = {
        f"m{index}": ConsumerMember(
            member_id=f"m{index}",
            profile=ConsumerProfile(
                subscribed_topics=names, session_timeout_ms=SETTINGS.group_consumer_session_timeout_ms
            ),
            epoch=epoch,
            previous_epoch=epoch,
            assigned={topic_id: {index: epoch}},
        )
        for index in range(size)
    }
    consumer = ConsumerGroup(
        group_epoch=epoch,
        assignment_epoch=epoch,
        assigned_at_ms=1,
        metadata_hash=topics.metadata_hash(names),
        hashed_topics=names,
        targets={member_id: {topic_id: (index,)} for index, member_id in enumerate(members)},
        members=members,
        holders={topic_id: dict(enumerate(members))},
        subscriptions={"topic1": size},
        subscribed_topics=names,
    )
    return Group(group_id="g", consumer=consumer)


def calls_of_heartbeat(size: int, *, joins: bool) -> int:
    """A heartbeat that changes nothing, or one by which a member joins before the next target is due."""
    topics = image(1, size)
    group = converged(size, topics)
    command = ConsumerGroupHeartbeat(
        group_id="g",
        at_ms=2,
        member_id="new" if joins else "m3",
        member_epoch=0 if joins else size + 1,
        rebalance_timeout_ms=60_000 if joins else -1,
        subscribed_topics=("topic1",) if joins else None,
        owned={} if joins else None,
        topics=topics,
    )
    decision = decide(SETTINGS, group, command)
    assert bool(decision.events) == joins
    assert decision.response is not None
    return calls_of(lambda: decide(SETTINGS, group, command))


@pytest.mark.parametrize("joins", [False, True])
def test_a_heartbeat_costs_the_same_in_a_group_of_any_size(joins: bool) -> None:
    calls_of_heartbeat(LAYERED_FROM, joins=joins)
    assert calls_of_heartbeat(2_000, joins=joins) == calls_of_heartbeat(LAYERED_FROM, joins=joins)


@pytest.mark.parametrize(
    ("members", "partitions", "subscriptions", "homogeneous"),
    [(18_750, 0, 0, True), (1, 1_499_920, 1, True), (1, 149_992, 0, False), (1, 0, 2_999_840, False)],
)
def test_the_work_of_a_target_grows_with_members_partitions_and_unequal_subscriptions(
    members: int, partitions: int, subscriptions: int, homogeneous: bool
) -> None:
    work = target_work(members, partitions, subscriptions, homogeneous=homogeneous)
    assert work == targets.MAX_TARGET_WORK


def test_a_target_that_is_too_much_work_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    topics = image(4, 1)
    one, two, three, _ = sorted(topics.by_name)
    unequal, equal = group_of([(one, two), (one,), (two, three)]), group_of([(one, two)] * 3)
    monkeypatch.setattr(targets, "MAX_TARGET_WORK", 3 * 80 + 2)
    compute_targets(equal, topics, UniformAssignor(), homogeneous=True)
    text = "3 members, 3 partitions and 5 unequal subscriptions are too many"
    with pytest.raises(AssignorError, match=text):
        compute_targets(unequal, topics, UniformAssignor(), homogeneous=False)
    monkeypatch.setattr(targets, "MAX_TARGET_WORK", 3 * 80)
    with pytest.raises(AssignorError, match="3 members, 2 partitions and 6 equal subscriptions are too many"):
        compute_targets(equal, topics, UniformAssignor(), homogeneous=True)


def test_a_heartbeat_that_needs_a_target_beyond_the_limits_is_refused_and_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(targets, "MAX_TARGET_WORK", 100)
    topics, group = image(1, 4), Group(group_id="g")
    responses = []
    for member_id in ("anna", "ben"):
        command = ConsumerGroupHeartbeat(
            group_id="g",
            at_ms=0,
            member_id=member_id,
            member_epoch=0,
            rebalance_timeout_ms=1_000,
            subscribed_topics=tuple(topics.by_name),
            owned={},
            topics=topics,
        )
        decision = decide(CoordinatorSettings(group_consumer_assignment_interval_ms=0), group, command)
        responses.append((decision.response.error_code, len(decision.events)))
        group = decision.group
    assert responses[0][0] == ErrorCode.NONE
    assert responses[1] == (ErrorCode.UNKNOWN_SERVER_ERROR, 0)
    assert set(group.consumer.members) == {"anna"}
