"""Every recorded answer of Kafka's own assignors, lists in order, also where Java's order comes from a hash."""

import gzip
from pathlib import Path

import msgspec
import pytest

from regroup.assignors.cases import StepRecord, deal, read_case
from regroup.assignors.interface import AssignorError

VECTORS = Path(__file__).parent / "vectors"
FILES = sorted(
    path for path in VECTORS.glob("*.jsonl.gz") if "protocol" not in path.name and "murmur2" not in path.name
)


class Answer(msgspec.Struct):
    """What Java returned, or the exception that it threw."""

    expected: dict[str, list[tuple[str, int]]] | None = None
    error: str | None = None
    hash_order: str | None = msgspec.field(default=None, name="hashOrder")


class Answers(Answer):
    steps: list[Answer] | None = None


def recorded(path: Path) -> list[tuple[str, str, StepRecord, Answer]]:
    found = []
    for line in gzip.decompress(path.read_bytes()).splitlines():
        case, answers = read_case(line), msgspec.json.decode(line, type=Answers)
        for number, (step, answer) in enumerate(zip(case.steps, answers.steps or [answers], strict=True), 1):
            found.append((f"{case.id} step {number}", case.assignor, step, answer))
    return found


def differs(assignor: str, step: StepRecord, answer: Answer) -> bool:
    try:
        dealt = deal(assignor, step)
    except AssignorError as error:
        return answer.error is None or error.topic is None or error.topic not in str(error)
    return {name: [tuple(each) for each in partitions] for name, partitions in dealt.items()} != answer.expected


def test_there_is_a_file_for_every_assignor() -> None:
    assert len(FILES) == 8
    assert sum(len(recorded(path)) for path in FILES) > 4_500


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.split(".")[0])
def test_every_record_has_the_answer_of_java(path: Path) -> None:
    wrong = [name for name, assignor, step, answer in recorded(path) if differs(assignor, step, answer)]
    assert wrong == []


@pytest.mark.parametrize("path", [path for path in FILES if "sticky" in path.name], ids=lambda path: path.name)
def test_where_java_does_not_depend_on_its_hash_order_the_order_of_members_does_not_matter(path: Path) -> None:
    wrong = []
    for name, assignor, step, answer in recorded(path):
        backwards = msgspec.structs.replace(step, members=step.members[::-1])
        if answer.hash_order == "none" and differs(assignor, backwards, answer):
            wrong.append(name)
    assert wrong == []
