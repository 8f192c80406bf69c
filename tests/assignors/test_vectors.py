"""All recorded results of Kafka's own assignors, lists in order, also where Java's order is that of a hash map."""

import gzip
from pathlib import Path

import msgspec
import pytest

from regroup.assignors.cases import CaseStep, assign_step, read_case
from regroup.assignors.interface import AssignorError

VECTORS = Path(__file__).parent / "vectors"
FILES = sorted(path for path in VECTORS.glob("*.jsonl.gz") if "protocol" not in path.name)


class Expected(msgspec.Struct):
    """What Java returned, or the exception that it threw."""

    expected: dict[str, list[tuple[str, int]]] | None = None
    error: str | None = None
    hash_order: str | None = msgspec.field(default=None, name="hashOrder")


class ExpectedCase(Expected):
    steps: list[Expected] | None = None


def recorded(path: Path) -> list[tuple[str, str, CaseStep, Expected]]:
    found = []
    for line in gzip.decompress(path.read_bytes()).splitlines():
        case, expected = read_case(line), msgspec.json.decode(line, type=ExpectedCase)
        for number, (step, result) in enumerate(zip(case.steps, expected.steps or [expected], strict=True), 1):
            found.append((f"{case.id} step {number}", case.assignor, step, result))
    return found


def differs(assignor: str, step: CaseStep, expected: Expected) -> bool:
    try:
        assignments = assign_step(assignor, step)
    except AssignorError as error:
        return expected.error is None or error.topic is None or error.topic not in str(error)
    return {name: [tuple(each) for each in partitions] for name, partitions in assignments.items()} != expected.expected


def test_there_is_a_file_for_every_assignor() -> None:
    assert len(FILES) == 8
    assert sum(len(recorded(path)) for path in FILES) > 4_500


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.split(".")[0])
def test_every_record_has_the_result_of_java(path: Path) -> None:
    wrong = [name for name, assignor, step, expected in recorded(path) if differs(assignor, step, expected)]
    assert wrong == []


@pytest.mark.parametrize("path", [path for path in FILES if "sticky" in path.name], ids=lambda path: path.name)
def test_where_java_does_not_depend_on_its_hash_order_the_order_of_members_does_not_matter(path: Path) -> None:
    wrong = []
    for name, assignor, step, expected in recorded(path):
        backwards = msgspec.structs.replace(step, members=step.members[::-1])
        if expected.hash_order == "none" and differs(assignor, backwards, expected):
            wrong.append(name)
    assert wrong == []
