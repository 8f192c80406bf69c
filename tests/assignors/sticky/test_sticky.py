"""Details of the sticky assignors: the textbook example, unexpected behaviour of Kafka's classes, claims."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from regroup.assignors.interface import Assignments, AssignorError, AssignorMember, ClusterMetadata, LastAssignment
from regroup.assignors.registry import assignor_named
from regroup.assignors.sticky.balancing import JavaPartitionSet, PartitionMovements
from regroup.assignors.sticky.working_state import LeastLoadedHeap
from regroup.protocol.consumer.sticky_user_data import StickyUserData, StickyUserDataReader, encode_sticky_user_data
from regroup.protocol.consumer.subscription import TopicPartition

FOUR_TOPICS = ClusterMetadata(dict.fromkeys(("t0", "t1", "t2", "t3"), 2))
TOPICS = tuple(FOUR_TOPICS.partitions_per_topic)


def short(assignments: Assignments) -> dict[str, str]:
    return {name: " ".join(f"{topic}p{number}" for topic, number in owned) for name, owned in assignments.items()}


def claiming(topics: tuple[str, ...], generation: int, *owned: tuple[str, int]) -> AssignorMember:
    data = encode_sticky_user_data(StickyUserData(tuple(TopicPartition(*each) for each in owned), generation))
    return AssignorMember(topics, data, generation_id=generation)


@pytest.mark.parametrize(
    ("algorithm", "after"),
    [
        ("sticky-before-2.6", {"C0": "t3p0 t0p0 t1p1 t2p0", "C2": "t1p0 t2p1 t0p1 t3p1"}),
        ("sticky", {"C0": "t0p0 t3p0 t1p1 t0p1", "C2": "t1p0 t2p1 t2p0 t3p1"}),
    ],
)
def test_the_textbook_example_in_both_versions(algorithm: str, after: dict[str, str]) -> None:
    """The lists are in the order of the classes of Kafka 2.5.0 and of today."""
    assignor = assignor_named(algorithm)
    first = assignor.assign(FOUR_TOPICS, {name: AssignorMember(TOPICS) for name in ("C0", "C1", "C2")})
    assert short(first) == {"C0": "t0p0 t1p1 t3p0", "C1": "t0p1 t2p0 t3p1", "C2": "t1p0 t2p1"}
    left = {
        name: AssignorMember(TOPICS, assignor.subscription_user_data(TOPICS, last), (), 1)
        for name in ("C0", "C2")
        for last in [LastAssignment(tuple(first[name]), 1)]
    }
    assert short(assignor.assign(FOUR_TOPICS, left)) == after


@pytest.mark.parametrize("algorithm", ["sticky", "sticky-before-2.6"])
def test_the_claim_of_the_later_generation_holds(algorithm: str) -> None:
    members = {"old": claiming(("t",), 1, ("t", 0), ("t", 1)), "new": claiming(("t",), 2, ("t", 0))}
    assignments = assignor_named(algorithm).assign(ClusterMetadata({"t": 2}), members)
    assert short(assignments) == {"old": "tp1", "new": "tp0"}


def test_two_claims_in_one_generation_are_void() -> None:
    members = {"a": claiming(("t",), 1, ("t", 1)), "b": claiming(("t",), 1, ("t", 1))}
    assert short(assignor_named("sticky").assign(ClusterMetadata({"t": 2}), members)) == {"a": "tp0", "b": "tp1"}


def test_cooperative_withholds_a_partition_that_two_members_own() -> None:
    owned = (TopicPartition("t", 1),)
    members = {name: AssignorMember(("t",), owned_partitions=owned, generation_id=1) for name in ("a", "b")}
    assignments = assignor_named("cooperative-sticky").assign(ClusterMetadata({"t": 2}), members)
    assert short(assignments) == {"a": "tp0", "b": ""}


def test_a_topic_created_again_with_fewer_partitions_fails_as_in_kafka_and_names_the_claim() -> None:
    members = {"C0": claiming(("t",), 1, ("t", 0), ("t", 1)), "C1": claiming(("t",), 1, ("t", 2), ("t", 3))}
    with pytest.raises(
        AssignorError, match="member C1 still claims partition 2 of topic t, which has only 2"
    ) as raised:
        assignor_named("sticky").assign(ClusterMetadata({"t": 2}), members)
    assert (raised.value.member, raised.value.topic) == ("C1", "t")


def test_where_kafka_throws_a_null_pointer_exception_the_error_names_member_and_topic() -> None:
    six = [("shared", number) for number in range(6)]
    members = {
        "alone": claiming(("own",), 4, ("own", 0), ("shared", 0)),
        "full": claiming(("shared",), 5, *six),
        "idle": claiming(("shared",), 5),
    }
    with pytest.raises(AssignorError, match="NullPointerException") as raised:
        assignor_named("sticky").assign(ClusterMetadata({"own": 1, "shared": 6}), members)
    assert (raised.value.member, raised.value.topic) == ("alone", "shared")


def test_a_previous_owner_gets_its_partition_back_even_if_it_is_no_longer_subscribed() -> None:
    six = [("shared", number) for number in range(6)]
    members = {
        "former": claiming(("own",), 4, ("shared", 0)),
        "full": claiming(("shared",), 5, *six),
        "other": claiming(("own", "shared"), 5),
    }
    assignments = assignor_named("sticky").assign(ClusterMetadata({"own": 2, "shared": 6}), members)
    assert TopicPartition("shared", 0) in assignments["former"]  # as in Kafka; see docs/assignors.md


def test_members_without_topics_that_come_first_count_as_equal_and_get_partitions() -> None:
    sticky, cluster = assignor_named("sticky"), ClusterMetadata({"t": 2})
    without, with_topic = AssignorMember(()), AssignorMember(("t",))
    assert short(sticky.assign(cluster, {"a": without, "b": with_topic})) == {"a": "tp0", "b": "tp1"}
    assert short(sticky.assign(cluster, {"b": with_topic, "a": without})) == {"b": "tp0 tp1", "a": ""}


@pytest.mark.parametrize("name", ["range", "roundrobin", "sticky", "cooperative-sticky", "sticky-before-2.6"])
def test_a_group_without_members_or_topics_has_no_assignment(name: str) -> None:
    assert assignor_named(name).assign(ClusterMetadata({"t": 2}), {}) == {}
    assert assignor_named(name).assign(ClusterMetadata({}), {"a": AssignorMember(("t",))}) == {"a": []}


def test_the_least_loaded_member_is_found_after_increases_and_decreases() -> None:
    counts = [2, 1, 1, 0]
    heap = LeastLoadedHeap([0, 1, 2], counts)
    assert heap.least_loaded() == 1
    counts[1] = 5
    assert heap.least_loaded() == 2
    counts[2], counts[0] = 4, 1
    heap.decreased(0)
    counts[3] = 0
    heap.decreased(3)  # not in this heap
    assert heap.least_loaded() == 0


def test_a_partition_that_moves_back_to_its_first_owner_has_not_moved() -> None:
    movements, moved = PartitionMovements(), TopicPartition("t", 1)
    movements.record(moved, 0, 1)
    movements.record(moved, 1, 2)
    assert movements.pair_of == {moved: (0, 2)}
    assert movements.actual_partition_to_move(TopicPartition("t", 9), 2, 0) == moved
    movements.record(moved, 2, 0)
    assert movements.pair_of == {}
    assert movements.actual_partition_to_move(TopicPartition("t", 9), 2, 0) == TopicPartition("t", 9)


def test_a_java_partition_set_has_the_iteration_order_of_a_java_hash_set() -> None:
    """The orders were printed by a `HashSet<TopicPartition>`, which grows to 32 buckets and keeps them."""
    partitions = JavaPartitionSet()
    for number in (31, 16, 3, 15, 0, 47):
        partitions.add(TopicPartition("orders", number))
    assert iterated(partitions) == [31, 15, 47, 16, 0, 3]
    for number in range(100, 110):
        partitions.add(TopicPartition("orders", number))
    for number in range(100, 110):
        del partitions.hashes[TopicPartition("orders", number)]
    assert iterated(partitions) == [15, 47, 16, 31, 0, 3]


def iterated(partitions: JavaPartitionSet) -> list[int]:
    left = JavaPartitionSet()
    left.hashes, left.buckets = dict(partitions.hashes), partitions.buckets
    order = []
    while left.hashes:
        order.append(left.first().partition)
        del left.hashes[left.first()]
    return order


def test_user_data_is_read_the_same_with_and_without_a_layout() -> None:
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


def test_the_hash_seed_does_not_influence_the_result() -> None:
    cases = Path(__file__).parents[1] / "vectors" / "cooperative-sticky_multistep.jsonl.gz"
    program = (
        "import gzip, sys; from regroup.assignors.cases import *; "
        "lines = gzip.decompress(open(sys.argv[1], 'rb').read()).splitlines()[:60]; "
        "print([assign_step(name, step) for case in map(read_case, lines) for step in case.steps "
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
