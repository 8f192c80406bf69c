"""The sticky assignors where it gets particular: the textbook's example, oddities of Kafka's classes, claims."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from regroup.assignors.interface import Assignments, AssignorError, Cluster, LastAssignment, Member
from regroup.assignors.min_heap import LeastLoaded
from regroup.assignors.registry import assignor_named
from regroup.assignors.sticky.movements import Companions, Movements
from regroup.protocol.consumer.sticky_user_data import StickyUserData, StickyUserDataReader, encode_sticky_user_data
from regroup.protocol.consumer.subscription import TopicPartition

FOUR_OF_TWO = Cluster(dict.fromkeys(("t0", "t1", "t2", "t3"), 2))
TOPICS = tuple(FOUR_OF_TWO.partitions_per_topic)


def short(assignments: Assignments) -> dict[str, str]:
    return {name: " ".join(f"{topic}p{number}" for topic, number in had) for name, had in assignments.items()}


def claiming(topics: tuple[str, ...], generation: int, *owned: tuple[str, int]) -> Member:
    data = encode_sticky_user_data(StickyUserData(tuple(TopicPartition(*each) for each in owned), generation))
    return Member(topics, data, generation_id=generation)


@pytest.mark.parametrize(
    ("algorithm", "after"),
    [
        ("sticky-before-2.6", {"C0": "t3p0 t0p0 t1p1 t2p0", "C2": "t1p0 t2p1 t0p1 t3p1"}),
        ("sticky", {"C0": "t0p0 t3p0 t1p1 t0p1", "C2": "t1p0 t2p1 t2p0 t3p1"}),
    ],
)
def test_the_textbook_example_and_what_became_of_it(algorithm: str, after: dict[str, str]) -> None:
    """The lists are in the order in which the classes of Kafka 2.5.0 and of today return them."""
    assignor = assignor_named(algorithm)
    first = assignor.assign(FOUR_OF_TWO, {name: Member(TOPICS) for name in ("C0", "C1", "C2")})
    assert short(first) == {"C0": "t0p0 t1p1 t3p0", "C1": "t0p1 t2p0 t3p1", "C2": "t1p0 t2p1"}
    left = {
        name: Member(TOPICS, assignor.subscription_user_data(TOPICS, LastAssignment(tuple(first[name]), 1)), (), 1)
        for name in ("C0", "C2")
    }
    assert short(assignor.assign(FOUR_OF_TWO, left)) == after


@pytest.mark.parametrize("algorithm", ["sticky", "sticky-before-2.6"])
def test_the_claim_of_the_later_generation_holds(algorithm: str) -> None:
    members = {"old": claiming(("t",), 1, ("t", 0), ("t", 1)), "new": claiming(("t",), 2, ("t", 0))}
    dealt = assignor_named(algorithm).assign(Cluster({"t": 2}), members)
    assert short(dealt) == {"old": "tp1", "new": "tp0"}


def test_two_claims_of_one_generation_cancel_each_other() -> None:
    members = {"a": claiming(("t",), 1, ("t", 1)), "b": claiming(("t",), 1, ("t", 1))}
    assert short(assignor_named("sticky").assign(Cluster({"t": 2}), members)) == {"a": "tp0", "b": "tp1"}


def test_cooperative_withholds_a_partition_that_two_members_hold() -> None:
    held = (TopicPartition("t", 1),)
    members = {name: Member(("t",), owned_partitions=held, generation_id=1) for name in ("a", "b")}
    assert short(assignor_named("cooperative-sticky").assign(Cluster({"t": 2}), members)) == {"a": "tp0", "b": ""}


def test_a_topic_that_came_back_smaller_fails_as_in_kafka_and_names_who_holds_on_to_it() -> None:
    members = {"C0": claiming(("t",), 1, ("t", 0), ("t", 1)), "C1": claiming(("t",), 1, ("t", 2), ("t", 3))}
    with pytest.raises(
        AssignorError, match="member C1 still claims partition 2 of topic t, which has only 2"
    ) as raised:
        assignor_named("sticky").assign(Cluster({"t": 2}), members)
    assert (raised.value.member, raised.value.topic) == ("C1", "t")


def test_where_kafka_has_a_null_pointer_the_error_names_member_and_topic() -> None:
    six = [("shared", number) for number in range(6)]
    members = {
        "alone": claiming(("own",), 4, ("own", 0), ("shared", 0)),
        "full": claiming(("shared",), 5, *six),
        "idle": claiming(("shared",), 5),
    }
    with pytest.raises(AssignorError, match="NullPointerException") as raised:
        assignor_named("sticky").assign(Cluster({"own": 1, "shared": 6}), members)
    assert (raised.value.member, raised.value.topic) == ("alone", "shared")


def test_a_former_owner_gets_its_partition_back_even_if_it_is_not_subscribed_any_more() -> None:
    six = [("shared", number) for number in range(6)]
    members = {
        "former": claiming(("own",), 4, ("shared", 0)),
        "full": claiming(("shared",), 5, *six),
        "other": claiming(("own", "shared"), 5),
    }
    dealt = assignor_named("sticky").assign(Cluster({"own": 2, "shared": 6}), members)
    assert TopicPartition("shared", 0) in dealt["former"]  # as Kafka does; see the guide


def test_members_without_topics_at_the_front_count_as_equal_and_get_partitions() -> None:
    dealt = assignor_named("sticky").assign(Cluster({"t": 2}), {"a": Member(()), "b": Member(("t",))})
    assert short(dealt) == {"a": "tp0", "b": "tp1"}
    dealt = assignor_named("sticky").assign(Cluster({"t": 2}), {"b": Member(("t",)), "a": Member(())})
    assert short(dealt) == {"b": "tp0 tp1", "a": ""}


@pytest.mark.parametrize("name", ["range", "roundrobin", "sticky", "cooperative-sticky", "sticky-before-2.6"])
def test_a_group_without_members_or_topics_gets_nothing(name: str) -> None:
    assert assignor_named(name).assign(Cluster({"t": 2}), {}) == {}
    assert assignor_named(name).assign(Cluster({}), {"a": Member(("t",))}) == {"a": []}


def test_the_least_loaded_is_found_whatever_rises_and_falls() -> None:
    counts = [2, 1, 1, 0]
    queue = LeastLoaded([0, 1, 2], counts)
    assert queue.least() == 1
    counts[1] = 5
    assert queue.least() == 2
    counts[2], counts[0] = 4, 1
    queue.fell(0)
    counts[3] = 0
    queue.fell(3)  # takes no part in this queue
    assert queue.least() == 0


def test_a_partition_that_goes_back_to_where_it_came_from_has_not_moved() -> None:
    movements, moved = Movements(), TopicPartition("t", 1)
    movements.record(moved, 0, 1)
    movements.record(moved, 1, 2)
    assert movements.way_of == {moved: (0, 2)}
    assert movements.better_choice(TopicPartition("t", 9), 2, 0) == moved
    movements.record(moved, 2, 0)
    assert movements.way_of == {}
    assert movements.better_choice(TopicPartition("t", 9), 2, 0) == TopicPartition("t", 9)


def test_companions_stand_where_a_java_hash_set_shows_them() -> None:
    """The orders are what a `HashSet<TopicPartition>` printed; it grows to 32 buckets and stays that large."""
    companions = Companions()
    for number in (31, 16, 3, 15, 0, 47):
        companions.add(TopicPartition("orders", number))
    assert shown(companions) == [31, 15, 47, 16, 0, 3]
    for number in range(100, 110):
        companions.add(TopicPartition("orders", number))
    for number in range(100, 110):
        del companions.partitions[TopicPartition("orders", number)]
    assert shown(companions) == [15, 47, 16, 31, 0, 3]


def shown(companions: Companions) -> list[int]:
    left = Companions()
    left.partitions, left.buckets = dict(companions.partitions), companions.buckets
    order = []
    while left.partitions:
        order.append(left.first().partition)
        del left.partitions[left.first()]
    return order


def test_the_reader_of_many_reads_as_the_reader_of_one() -> None:
    reader = StickyUserDataReader()
    alike = [
        encode_sticky_user_data(StickyUserData((TopicPartition("t", n), TopicPartition("u", 2 * n)), n))
        for n in range(4)
    ]
    without_generation = encode_sticky_user_data(StickyUserData((TopicPartition("t", 1), TopicPartition("u", 1)), None))
    strange = [b"", b"\0", b"\0\0\0\1\0\1\xff\0\0\0\1\0\0\0\5", b"\0\0\0\0\0\0\0\7"]
    for data in [*alike, *strange * 3, without_generation, without_generation, *alike]:
        assert reader.read(data) == StickyUserDataReader().read(data)
    assert reader.read(alike[3]) == StickyUserData((TopicPartition("t", 3), TopicPartition("u", 6)), 3)


def test_another_hash_seed_changes_nothing() -> None:
    cases = Path(__file__).parent / "vectors" / "cooperative-sticky_multistep.jsonl.gz"
    program = (
        "import gzip, sys; from regroup.assignors.cases import *; "
        "lines = gzip.decompress(open(sys.argv[1], 'rb').read()).splitlines()[:60]; "
        "print([deal(name, step) for case in map(read_case, lines) for step in case.steps "
        "for name in (case.assignor, 'range', 'roundrobin', 'sticky-before-2.6')])"
    )
    printed = [
        subprocess.run(
            [sys.executable, "-c", program, str(cases)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert printed[0] == printed[1]
    assert len(printed[0]) > 100_000
