"""The job of `regroup assign --records`: the partition of each record of a producer, by each of Kafka's
partitioners.
"""

from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Final

import msgspec

from regroup.cli.assign.arguments import PARTITIONERS
from regroup.cli.jobs import CannotRun
from regroup.cli.terminal.text import counted, printable, printable_json
from regroup.members.partitioners import PartitionerSettings, PartitionLoad, ProducedRecord, create_partitioner

DEFAULT_PARTITIONS: Final = 3
MAX_COUNT: Final = 1_000_000


class RecordLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of the file: `count` equal records, each of `size` bytes."""

    key: str | None = None
    size: Annotated[int, msgspec.Meta(ge=0)] = 100
    partition: Annotated[int, msgspec.Meta(ge=0)] | None = None
    count: Annotated[int, msgspec.Meta(ge=1, le=MAX_COUNT)] = 1

    def describe(self) -> str:
        """The record's explicit partition or else its key, as text; a dash if it has neither."""
        if self.partition is not None:
            return f"partition {self.partition}"
        return "–" if self.key is None else f"key {printable(self.key)}"

    def produced(self) -> ProducedRecord:
        return ProducedRecord(None if self.key is None else self.key.encode(), self.size, self.partition)


def choose_partitions(lines: Iterable[bytes], args: Namespace) -> None:
    """Read records, and print the partition that each partitioner chooses for each. Raises CannotRun.

    The message names the line of an invalid record.
    """
    records = [record for line in _read_lines(lines) for record in [line] * line.count]
    count = args.partitions or len(args.queues or ()) or DEFAULT_PARTITIONS
    load = PartitionLoad.idle(count)
    if args.queues is not None:
        if len(args.queues) != count:
            raise CannotRun(f"--queues has {len(args.queues)} numbers, and the topic has {counted(count, 'partition')}")
        load = PartitionLoad(count, tuple(range(count)), args.queues)
    chosen = {name: _partitions(name, records, load, args) for name in args.partitioners or PARTITIONERS}
    (_print_json if args.json else _print_tables)(records, chosen, count)


def _read_lines(lines: Iterable[bytes]) -> Iterator[RecordLine]:
    """Parse the records: lines of JSON, which begin with a brace, or of a table, whose first line is its heading."""
    heading: list[str] = []
    for number, line in enumerate(lines, 1):
        try:
            text = line.decode().strip()
            cells = text.split()
            if not cells or text.startswith("#"):
                continue
            if text.startswith("{"):
                yield msgspec.json.decode(text, type=RecordLine)
            elif heading:
                yield _convert_row(heading, cells)
            elif unknown := [cell for cell in cells if cell not in RecordLine.__struct_fields__]:
                raise ValueError(f"unknown column {unknown[0]!r}; columns: {', '.join(RecordLine.__struct_fields__)}")
            else:
                heading = cells
        except (ValueError, RecursionError, msgspec.MsgspecError) as error:
            raise CannotRun(f"line {number}: {error}") from error


def _convert_row(heading: Sequence[str], cells: Sequence[str]) -> RecordLine:
    if len(cells) != len(heading):
        raise ValueError(f"{counted(len(cells), 'cell')} for {counted(len(heading), 'column')}; write - for none")
    row = {name: cell for name, cell in zip(heading, cells, strict=True) if cell != "-"}
    return msgspec.convert(row, RecordLine, strict=False)


def _partitions(name: str, records: Sequence[RecordLine], load: PartitionLoad, args: Namespace) -> list[int]:
    """The partition that the partitioner with this name chooses for each record; `load` has the queue lengths."""
    try:
        settings = PartitionerSettings.from_properties({**dict(args.settings), "partitioner.class": name})
        partitioner = create_partitioner(settings, draw=args.seed)
        return [partitioner.partition(each.produced(), load) for each in records]
    except ValueError as error:
        raise CannotRun(str(error)) from error


def _print_json(records: Sequence[RecordLine], chosen: Mapping[str, Sequence[int]], count: int) -> None:
    for index, each in enumerate(records):
        partitions = {name: column[index] for name, column in chosen.items()}
        row = {"key": each.key, "size": each.size, "partition": each.partition, "partitions": partitions}
        print(printable_json(msgspec.json.encode(row).decode()))


def _print_tables(records: Sequence[RecordLine], chosen: Mapping[str, Sequence[int]], count: int) -> None:
    """Print each record with its chosen partitions, and then how many records and bytes each partition gets."""
    names = [name.replace("Partitioner", "").replace("-before-", "<") for name in chosen]
    rows = [
        [str(number), each.describe(), str(each.size), *map(str, partitions)]
        for number, (each, *partitions) in enumerate(zip(records, *chosen.values(), strict=True), 1)
    ]
    _print_table(["#", "record", "bytes", *names], rows)
    totals = [[[0, 0] for _ in chosen] for _ in range(count)]
    for each, *partitions in zip(records, *chosen.values(), strict=True):
        for column, partition in enumerate(partitions):
            totals[partition][column][0] += 1
            totals[partition][column][1] += each.size
    rows = [[str(number), *(f"{n:,} / {size:,}" for n, size in row)] for number, row in enumerate(totals)]
    print("\nrecords / bytes of each partition")
    _print_table(["partition", *names], rows)


def _print_table(heading: list[str], rows: list[list[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(heading, *rows, strict=True)]
    for row in [heading, *rows]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
