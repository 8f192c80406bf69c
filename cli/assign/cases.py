"""The job of `regroup assign FILE`: prints the assignment of every case as JSON, or explains one case."""

import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import BinaryIO, Final

import msgspec
from rich.table import Table
from rich.text import Text

from regroup.assignors.cases import AssignorCase, assign_step, read_case
from regroup.assignors.explain import AssignmentExplanation, explain_assignment
from regroup.assignors.interface import AssignorError
from regroup.cli.jobs import CannotRun
from regroup.cli.terminal.arguments import load
from regroup.cli.terminal.consoles import PlainConsole
from regroup.cli.terminal.text import printable, printable_json
from regroup.protocol.consumer.subscription import TopicPartition

CASE_ERRORS: Final = (AssignorError, ValueError, msgspec.MsgspecError, RecursionError)
"""Errors that make one case fail; the cases after it are still computed."""


class _CaseId(msgspec.Struct):
    id: str | int | None = None


def run(args: Namespace) -> int:
    """Read the file and, as the arguments say, print the assignments of its cases or explain them. Returns the exit
    code."""
    file = args.records or args.file
    with ExitStack() as stack:
        try:
            lines: BinaryIO = sys.stdin.buffer if file == "-" else stack.enter_context(open(file, "rb"))
        except OSError as error:
            raise CannotRun(f"cannot read {file}: {error.strerror}") from error
        if args.records:
            load("regroup.cli.assign.records:choose_partitions")(lines, args)
        elif args.explain:
            _explain_case(filter(bytes.strip, lines), args)
        else:
            for line in filter(bytes.strip, lines):
                print(printable_json(msgspec.json.encode(_outcome(line, args.algorithm)).decode()), flush=True)
    return 0


def _outcome(line: bytes, algorithm: str) -> dict[str, object]:
    try:
        case = read_case(line)
        assignments = [assignment for _, assignment in _assign_steps(case, algorithm)]
    except CASE_ERRORS as error:
        return {"id": _id_of(line), "error": str(error)}
    return {"id": case.id, "steps": assignments} if case.is_sequence else {"id": case.id, "assignment": assignments[0]}


def _assign_steps(case: AssignorCase, algorithm: str) -> Iterator[tuple[int, dict[str, list[TopicPartition]]]]:
    """The number and the assignment of each rebalance of a case."""
    for number, step in enumerate(case.steps, 1):
        try:
            yield number, assign_step(_assignor_name(case, algorithm), step)
        except AssignorError as error:
            where = f"step {number}: " if case.is_sequence else ""
            raise AssignorError(f"{where}{error}", member=error.member, topic=error.topic) from error


def _assignor_name(case: AssignorCase, algorithm: str) -> str:
    return "sticky-before-2.6" if case.assignor == "sticky" and algorithm == "before-2.6" else case.assignor


def _id_of(line: bytes) -> str | int | None:
    try:
        return msgspec.json.decode(line, type=_CaseId).id
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def _explain_case(lines: Iterable[bytes], args: Namespace) -> None:
    line = next((line for line in lines if args.id is None or _id_of(line) == args.id), None)
    if line is None:
        wanted = "it holds no case" if args.id is None else f"it holds no case with the id {args.id}"
        raise CannotRun(f"nothing to explain in {args.file}: {wanted}")
    try:
        case = read_case(line)
        previous: dict[str, list[TopicPartition]] = {}
        for number, assignment in _assign_steps(case, args.algorithm):
            step = case.steps[number - 1]
            title = f"{case.id}, step {number}: {step.event or 'rebalance'}" if case.is_sequence else case.id
            _print_explanation(
                title, explain_assignment(_assignor_name(case, args.algorithm), step, assignment, previous)
            )
            previous = assignment
    except CASE_ERRORS as error:
        raise CannotRun(f"{_id_of(line)}: {error}") from error


def _print_explanation(title: str, explanation: AssignmentExplanation) -> None:
    console = PlainConsole(soft_wrap=False)
    for sentence in explanation.reasons:
        console.print(Text(printable(sentence)))
    table = Table(title=Text(printable(title)))
    for heading in ("member", "partitions", "kept", "new", "revoked"):
        table.add_column(heading, justify="right" if heading == "partitions" else "left")
    for row in explanation.rows:
        count = str(len(row.kept) + len(row.gained))
        table.add_row(Text(printable(row.member)), count, _names(row.kept), _names(row.gained), _names(row.lost))
    console.print(table)
    for sentence in explanation.movements:
        console.print(Text(sentence))


def _names(partitions: Sequence[TopicPartition]) -> Text:
    return Text(" ".join(f"{each.topic}-{each.partition}" for each in partitions))
