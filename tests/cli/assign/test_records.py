"""`regroup assign --records`: the partitions that Kafka's partitioners choose for a producer's records."""

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from regroup.cli.assign.arguments import PARTITIONERS
from regroup.members.partitioners import PARTITIONER_CLASSES, partition_for_key
from tests.cli.conftest import RunCommand

TABLE = """\
# orders of a shop
key    size  partition  count
anna   120   -          1
ben    120   -          1

anna   80    -          1
-      120   2          1
-      9000  -          6
"""
JSON_LINES = """\
{"key": "anna", "size": 120}
{"key": "ben", "size": 120}
{"key": "anna", "size": 80}
{"size": 120, "partition": 2}
{"size": 9000, "count": 6}
"""
NULL_KEYS = '{"size": 9000, "count": 300}'

Choose = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def choose(run_command: RunCommand, tmp_path: Path) -> Choose:
    """`choose(text, "--partitions", 4)` is the JSON output for a file with this text."""

    def run(text: str, *options: object) -> list[dict[str, Any]]:
        file = tmp_path / "records.txt"
        file.write_text(text)
        code, out, err = run_command("assign", "--records", file, "--json", *options)
        assert (code, err) == (0, "")
        return [json.loads(line) for line in out.splitlines()]

    return run


def column(rows: list[dict[str, Any]], partitioner: str) -> list[int]:
    return [row["partitions"][partitioner] for row in rows]


def test_the_names_in_the_help_are_those_of_the_partitioners() -> None:
    assert list(PARTITIONER_CLASSES) == list(PARTITIONERS)


def test_a_table_and_json_lines_mean_the_same(choose: Choose) -> None:
    rows = choose(TABLE, "--partitions", 4)
    assert rows == choose(JSON_LINES, "--partitions", 4)
    assert [(row["key"], row["size"], row["partition"]) for row in rows[:4]] == [
        ("anna", 120, None),
        ("ben", 120, None),
        ("anna", 80, None),
        (None, 120, 2),
    ]
    assert [list(row["partitions"]) for row in rows] == [list(PARTITIONERS)] * 10


def test_keys_are_hashed_where_the_partitioner_looks_at_keys(choose: Choose) -> None:
    rows = choose(TABLE, "--partitions", 4)
    hashed = [partition_for_key(key, 4) for key in (b"anna", b"ben", b"anna")]
    for name in ("BuiltInPartitioner", "DefaultPartitioner", "DefaultPartitioner-before-2.4"):
        assert column(rows, name)[:3] == hashed
    assert column(rows, "RoundRobinPartitioner")[:3] == [0, 1, 2]
    assert len(set(column(rows, "UniformStickyPartitioner")[:3])) == 1


def test_an_explicit_partition_precedes_every_partitioner(choose: Choose) -> None:
    row = choose(TABLE, "--partitions", 4)[3]
    assert set(row["partitions"].values()) == {2}


def test_keys_can_be_ignored(choose: Choose) -> None:
    rows = choose(JSON_LINES, "--partitions", 50, "--set", "partitioner.ignore.keys=true", "--seed", 3)
    assert len(set(column(rows, "BuiltInPartitioner")[:3])) == 1


def test_records_without_a_key_change_the_partition_with_each_full_batch(choose: Choose) -> None:
    for name in ("BuiltInPartitioner", "DefaultPartitioner"):
        chosen = column(choose(NULL_KEYS, "--partitions", 50, "--set", "batch.size=18000"), name)
        changes = sum(one != other for one, other in pairwise(chosen))
        assert 120 <= changes <= 150, "two records fill a batch"


def test_short_queues_are_chosen_more_often(choose: Choose) -> None:
    options = ("--queues", "8,0,0", "--set", "batch.size=9000")
    chosen = column(choose(NULL_KEYS, *options), "BuiltInPartitioner")
    assert chosen.count(0) < 40 < min(chosen.count(1), chosen.count(2))
    evenly = choose(NULL_KEYS, *options, "--set", "partitioner.adaptive.partitioning.enable=false")
    assert column(evenly, "BuiltInPartitioner").count(0) > 60


def test_a_seed_gives_the_same_partitions_again(choose: Choose) -> None:
    one, other = (choose(NULL_KEYS, "--partitions", 50, "--seed", seed) for seed in (1, 2))
    assert one == choose(NULL_KEYS, "--partitions", 50)
    assert one != other


def test_only_the_named_partitioners_are_shown(choose: Choose) -> None:
    rows = choose(NULL_KEYS, "--partitioner", "RoundRobinPartitioner")
    assert [row["partitions"] for row in rows[:4]] == [{"RoundRobinPartitioner": each} for each in (0, 1, 2, 0)]


def test_tables_show_each_record_and_the_sum_of_each_partition(run_command: RunCommand, tmp_path: Path) -> None:
    file = tmp_path / "orders.txt"
    file.write_text(TABLE.replace("120   2", "120   1"))
    options = ("--partitions", 2, "--partitioner", "RoundRobinPartitioner")
    code, out, _ = run_command("assign", "--records", file, *options)
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    assert lines[0] == ["#", "record", "bytes", "RoundRobin"]
    assert lines[1] == ["1", "key", "anna", "120", "0"]
    assert lines[4] == ["4", "partition", "1", "120", "1"]
    assert lines[-3] == ["partition", "RoundRobin"]
    assert lines[-2:] == [["0", "5", "/", "27,200"], ["1", "5", "/", "27,240"]]


@pytest.mark.parametrize(
    ("text", "options", "error"),
    [
        ("name\nanna", (), "line 1: unknown column 'name'; columns: key, size, partition, count"),
        ("key size\nanna", (), "line 2: 1 cell for 2 columns; write - for none"),
        ("key size\nanna x", (), "line 2: Expected `int`"),
        ('{"size": -1}', (), "line 1: Expected `int` >= 0"),
        ('{"count": 0}', (), "line 1: Expected `int` >= 1"),
        ('{"colour": "red"}', (), "unknown field `colour`"),
        ("{", (), "line 1: Input data was truncated"),
        ("\ud800", (), "line 1: "),
        ('{"partition": 3}', (), "invalid partition: 3; the topic has partitions 0 to 2"),
        ("{}", ("--queues", "1,2", "--partitions", "3"), "--queues has 2 numbers, and the topic has 3 partitions"),
        ("{}", ("--set", "batch.size=0"), "batch.size must be at least 1, not 0"),
        ("{}", ("--set", "linger.ms=5"), "linger.ms"),
    ],
)
def test_an_invalid_file_or_setting_is_explained(
    text: str, options: tuple[str, ...], error: str, run_command: RunCommand, tmp_path: Path
) -> None:
    file = tmp_path / "records.txt"
    file.write_bytes(text.encode(errors="surrogatepass"))
    code, out, err = run_command("assign", "--records", file, *options)
    assert (code, out) == (2, "")
    assert error in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ((), "one of the arguments FILE --records is required"),
        (("cases.jsonl", "--records", "records.txt"), "not allowed with argument FILE"),
        (("--records", "-", "--partitions", "0"), "invalid number: '0'; give a whole number from 1 to 10000"),
        (("--records", "-", "--queues", "1,x"), "invalid queues: '1,x'"),
        (("--records", "-", "--partitioner", "Cleverest"), "unknown --partitioner: 'Cleverest'"),
        (("--records", "/no/such/file"), "cannot read /no/such/file: No such file or directory"),
    ],
)
def test_a_mistake_ends_with_2_and_a_hint(words: tuple[str, ...], error: str, run_command: RunCommand) -> None:
    code, out, err = run_command("assign", *words)
    assert (code, out) == (2, "")
    assert error in err
