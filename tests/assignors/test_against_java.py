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
    try:
        jars = kafka_jars()
    except KafkaUnavailable as reason:
        pytest.skip(str(reason))
    program = JAVA.with_name("JavaServerAssignors.java")
    command = ["java", "-cp", f"{jars}/*", str(program)]
    computed = subprocess.run(command, input=recorded, capture_output=True, check=True).stdout
    for line, result in zip(recorded.splitlines(), computed.splitlines(), strict=True):
        assert msgspec.json.decode(result) == msgspec.json.decode(line)
