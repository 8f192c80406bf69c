"""`regroup assign`: what Kafka's assignors make of the cases in a file, one line of JSON for each.

regroup assign cases.jsonl
regroup assign cases.jsonl --explain --id two-topics     who got what and why, in words
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import BinaryIO

import msgspec
from rich.table import Table
from rich.text import Text

from regroup.assignors.cases import Case, deal, read_case
from regroup.assignors.explain import Explanation, explain
from regroup.assignors.interface import AssignorError
from regroup.cli.terminal.consoles import Plain
from regroup.cli.terminal.output import CANNOT_BE_DONE, complain
from regroup.protocol.consumer.subscription import TopicPartition

REFUSALS = (AssignorError, ValueError, msgspec.MsgspecError, RecursionError)
"""What makes one record fail and lets the others go on."""


class _Named(msgspec.Struct):
    id: str | int | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `regroup assign`."""
    parser.add_argument("file", metavar="FILE", help="cases as JSON Lines; - is standard input")
    parser.add_argument(
        "--algorithm",
        choices=("today", "before-2.6"),
        default="today",
        help="which `sticky`: today's, or that of Kafka before 2.5.1 and 2.6, as textbooks have it (default: today)",
    )
    parser.add_argument(
        "--explain", action="store_true", help="tell of one case who got what and why, and what moved since last time"
    )
    parser.add_argument("--id", help="the case to explain (default: the first)")


def run(args: argparse.Namespace) -> int:
    """Print the outcome of every case, or the explanation of one. 0, or 2 if the file or the case cannot be had."""
    with ExitStack() as stack:
        try:
            lines = stack.enter_context(_opened(args.file))
        except OSError as error:
            complain("assign", f"cannot read {args.file}: {error.strerror}")
            return CANNOT_BE_DONE
        return _explain_one(lines, args) if args.explain else _print_all(lines, args.algorithm)


def _opened(file: str) -> BinaryIO:
    return sys.stdin.buffer if file == "-" else open(file, "rb")


def _print_all(lines: BinaryIO, algorithm: str) -> int:
    for line in _records(lines):
        sys.stdout.buffer.write(msgspec.json.encode(_outcome(line, algorithm)) + b"\n")
        sys.stdout.buffer.flush()
    return 0


def _records(lines: BinaryIO) -> Iterator[bytes]:
    return (line for line in lines if line.strip())


def _outcome(line: bytes, algorithm: str) -> dict[str, object]:
    try:
        case = read_case(line)
        dealt = [assignments for _, assignments in _dealt(case, algorithm)]
    except REFUSALS as error:
        return {"id": _id_of(line), "error": str(error)}
    return {"id": case.id, "steps": dealt} if case.sequence else {"id": case.id, "assignment": dealt[0]}


def _dealt(case: Case, algorithm: str) -> Iterator[tuple[int, dict[str, list[TopicPartition]]]]:
    for number, step in enumerate(case.steps, 1):
        try:
            yield number, deal(_chosen(case, algorithm), step)
        except AssignorError as error:
            where = f"step {number}: " if case.sequence else ""
            raise AssignorError(f"{where}{error}", member=error.member, topic=error.topic) from error


def _chosen(case: Case, algorithm: str) -> str:
    return "sticky-before-2.6" if case.assignor == "sticky" and algorithm == "before-2.6" else case.assignor


def _id_of(line: bytes) -> str | int | None:
    try:
        return msgspec.json.decode(line, type=_Named).id
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def _explain_one(lines: BinaryIO, args: argparse.Namespace) -> int:
    line = next((line for line in _records(lines) if args.id is None or _id_of(line) == args.id), None)
    if line is None:
        wanted = "it holds no case" if args.id is None else f"it holds no case with the id {args.id}"
        complain("assign", f"nothing to explain in {args.file}: {wanted}")
        return CANNOT_BE_DONE
    try:
        case = read_case(line)
        previous: dict[str, list[TopicPartition]] = {}
        for number, assignments in _dealt(case, args.algorithm):
            step = case.steps[number - 1]
            title = f"{case.id}, step {number}: {step.event or 'rebalance'}" if case.sequence else case.id
            _draw(title, explain(_chosen(case, args.algorithm), step, assignments, previous))
            previous = assignments
    except REFUSALS as error:
        complain("assign", f"{_id_of(line)}: {error}")
        return CANNOT_BE_DONE
    return 0


def _draw(title: str, explanation: Explanation) -> None:
    console = Plain(soft_wrap=False)
    for sentence in explanation.why:
        console.print(Text(sentence))
    table = Table(title=Text(title))
    for heading in ("member", "partitions", "kept", "new", "given up"):
        table.add_column(heading, justify="right" if heading == "partitions" else "left")
    for row in explanation.rows:
        count = str(len(row.kept) + len(row.gained))
        table.add_row(Text(row.member), count, _listed(row.kept), _listed(row.gained), _listed(row.lost))
    console.print(table)
    for sentence in explanation.moved:
        console.print(Text(sentence))


def _listed(partitions: Sequence[TopicPartition]) -> Text:
    return Text(" ".join(f"{each.topic}-{each.partition}" for each in partitions))
