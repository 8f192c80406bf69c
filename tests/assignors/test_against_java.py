"""A thousand random rebalances of each assignor: the same results as Apache Kafka's own classes, lists in order."""

import gzip
import subprocess
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from regroup.assignors.cases import CaseStep, assign_step
from regroup.assignors.interface import Assignments, AssignorError
from regroup.assignors.server_side.interface import ServerAssignor, ServerGroup, ServerMember
from regroup.assignors.server_side.range import ServerRangeAssignor
from regroup.assignors.server_side.uniform import UniformAssignor
from regroup.coordinator.consumer.targets import java_uuid_hash
from regroup.protocol.java_order import in_hash_map_order
from regroup.protocol.topic_ids import topic_id_text
from tests.assignors.random_groups import RandomGroup
from tests.conformance.apache_kafka import KafkaUnavailable, kafka_jars

STEPS = 1_000
JAVA = Path(__file__).parent / "JavaAssignors.java"


def input_for_java(assignor: str, step: CaseStep) -> bytes:
    """The step as JSON, with the members' subscriptions as a Java leader has decoded them."""
    members = []
    for record in step.members:
        member = record.assignor_member(assignor)
        members.append(
            {
                "id": record.id,
                "topics": member.topics,
                "owned": member.owned_partitions,
                "generation": member.generation_id,
                "rack": member.rack_id,
                "instanceId": member.group_instance_id,
                "userData": None if member.user_data is None else member.user_data.hex(),
            }
        )
    return msgspec.json.encode(
        {
            "assignor": assignor,
            "partitionsPerTopic": step.partitions_per_topic,
            "racks": step.racks,
            "members": members,
        }
    )


def rebalances(assignor: str) -> Iterator[tuple[CaseStep, Assignments | None]]:
    """Groups of up to eight rebalances each, and our result of each; None where ours fails."""
    random = Random(assignor)
    while True:
        group = RandomGroup(random, assignor)
        for _ in range(random.choice((1, 4, 8))):
            step = group.next_step()
            try:
                assignments = assign_step(assignor, step)
            except AssignorError:
                yield step, None
            else:
                group.assigned(assignments)
                yield step, assignments


@pytest.fixture(scope="module")
def java() -> list[str]:
    """The command that runs Kafka's assignors."""
    try:
        return ["java", "-Xmx512m", "-cp", f"{kafka_jars()}/*", str(JAVA)]
    except KafkaUnavailable as reason:
        pytest.skip(str(reason))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_random_rebalances_have_the_results_of_java(java: list[str], assignor: str) -> None:
    ours = [each for _, each in zip(range(STEPS), rebalances(assignor), strict=False)]
    lines = b"".join(input_for_java(assignor, step) + b"\n" for step, _ in ours)
    printed = subprocess.run(java, input=lines, stdout=subprocess.PIPE, check=True).stdout.splitlines()
    results: list[dict[str, Any]] = [msgspec.json.decode(line) for line in printed]
    differing = [
        (step, result, own)
        for (step, own), result in zip(ours, results, strict=True)
        if ("error" in result) != (own is None) or (own is not None and result["assignments"] != as_json(own))
    ]
    assert differing[:1] == [], f"{len(differing)} of {len(ours)} differ"


def as_json(assignments: Assignments) -> dict[str, list[list[object]]]:
    return {name: [list(each) for each in partitions] for name, partitions in assignments.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["server_range", "server_uniform"])
def test_the_recorded_results_of_server_side_assignors_are_those_of_the_newest_kafka(name: str) -> None:
    recorded = gzip.decompress((JAVA.parent / "vectors" / f"{name}.jsonl.gz").read_bytes())
    for line, result in zip(recorded.splitlines(), results_of_server_side_assignors(recorded), strict=True):
        assert result == msgspec.json.decode(line)


@pytest.mark.slow
@pytest.mark.parametrize("assignor", [UniformAssignor(), ServerRangeAssignor()], ids=lambda assignor: assignor.name)
def test_topics_of_one_bucket_have_the_order_of_kafkas_hash_map(assignor: ServerAssignor) -> None:
    steps = [each for _, each in zip(range(STEPS), steps_with_few_buckets(assignor), strict=False)]
    results = results_of_server_side_assignors(b"".join(msgspec.json.encode(record) + b"\n" for record, _ in steps))
    own = [order for _, order in steps]
    assert [result["orders"] for result in results] == own
    assert any(len(topics) > 2 for order in own for topics in order.values())


def steps_with_few_buckets(assignor: ServerAssignor) -> Iterator[tuple[dict[str, Any], dict[str, list[str]]]]:
    """Groups of up to six rebalances each, whose topics share three buckets: each rebalance as a record for Java, and
    our order of each member's topics."""
    random = Random(f"buckets {assignor.name}")
    while True:
        ids = {f"t{number}": bytes(15) + bytes([16 * number + random.choice((3, 5, 12))]) for number in range(10)}
        hashes = {name: java_uuid_hash(topic_id_text(topic_id)) for name, topic_id in ids.items()}
        sizes = {name: random.choice((1, 1, 2, 5)) for name in ids}
        targets: dict[str, dict[str, set[int]]] = {name: {} for name in "abcd"[: random.choice((1, 2, 4))]}
        is_homogeneous = random.random() < 0.5
        for _ in range(random.choice((2, 6))):
            drawn = {name: random.sample([*ids], random.choice((2, 5, 9))) for name in targets}
            if is_homogeneous:
                drawn = dict.fromkeys(targets, drawn["a"])
            members = {
                name: ServerMember(
                    topics=tuple(in_hash_map_order(drawn[name], hashes.__getitem__)),
                    current={
                        topic: sorted(targets[name][topic])
                        for topic in in_hash_map_order(targets[name], hashes.__getitem__)
                    },
                )
                for name in targets
            }
            targets = assignor.assign(ServerGroup(sizes, members, ids, is_homogeneous))
            yield (
                {
                    "assignor": f"server-{assignor.name}",
                    "subscriptionType": "homogeneous" if is_homogeneous else "heterogeneous",
                    "topicIds": {name: topic_id_text(topic_id) for name, topic_id in ids.items()},
                    "partitionsPerTopic": sizes,
                    "members": [
                        {
                            "id": name,
                            "topics": member.topics,
                            "current": [[topic, index] for topic, each in member.current.items() for index in each],
                        }
                        for name, member in members.items()
                    ],
                    "expected": {},
                    "orders": {},
                },
                {name: in_hash_map_order(target, hashes.__getitem__) for name, target in targets.items()},
            )


def results_of_server_side_assignors(records: bytes) -> list[dict[str, Any]]:
    """The records, a line each, as `JavaServerAssignors` completes them."""
    try:
        jars = kafka_jars()
    except KafkaUnavailable as reason:
        pytest.skip(str(reason))
    command = ["java", "-cp", f"{jars}/*", str(JAVA.with_name("JavaServerAssignors.java"))]
    computed = subprocess.run(command, input=records, capture_output=True, check=True).stdout
    return [msgspec.json.decode(line) for line in computed.splitlines()]
