"""Random rebalances by the thousand: Apache Kafka's own classes deal as ours do, lists in order."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from regroup.assignors.cases import StepRecord, deal
from regroup.assignors.interface import Assignments, AssignorError
from tests.assignors.random_groups import RandomGroup
from tests.conformance.apache_kafka import NotAvailable, jars

STEPS = 1_000
JAVA = Path(__file__).parent / "JavaAssignors.java"


def told_to_java(assignor: str, step: StepRecord) -> bytes:
    """The step as a Java leader has decoded it."""
    members = []
    for record in step.members:
        member = record.as_member(assignor)
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


def rebalances(assignor: str) -> Iterator[tuple[StepRecord, Assignments | None]]:
    """Groups of up to eight rebalances each, and what ours makes of each; None where it fails."""
    chance = Random(assignor)
    while True:
        group = RandomGroup(chance, assignor)
        for _ in range(chance.choice((1, 4, 8))):
            step = group.step()
            try:
                dealt = deal(assignor, step)
            except AssignorError:
                yield step, None
            else:
                group.dealt(dealt)
                yield step, dealt


@pytest.fixture(scope="module")
def java() -> list[str]:
    """The command that starts Kafka's assignors."""
    try:
        return ["java", "-Xmx512m", "-cp", f"{jars()}/*", str(JAVA)]
    except NotAvailable as reason:
        pytest.skip(str(reason))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_random_rebalances_are_dealt_out_as_java_does(java: list[str], assignor: str) -> None:
    dealt = [each for _, each in zip(range(STEPS), rebalances(assignor), strict=False)]
    asked = b"".join(told_to_java(assignor, step) + b"\n" for step, _ in dealt)
    printed = subprocess.run(java, input=asked, stdout=subprocess.PIPE, check=True).stdout.splitlines()
    answers: list[dict[str, Any]] = [msgspec.json.decode(line) for line in printed]
    differing = [
        (step, answer, own)
        for (step, own), answer in zip(dealt, answers, strict=True)
        if ("error" in answer) != (own is None) or (own is not None and answer["dealt"] != as_json(own))
    ]
    assert differing[:1] == [], f"{len(differing)} of {len(dealt)} differ"


def as_json(assignments: Assignments) -> dict[str, list[list[object]]]:
    return {name: [list(each) for each in partitions] for name, partitions in assignments.items()}
