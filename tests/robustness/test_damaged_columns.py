"""A store with a value of another type or size in any column of any table: each command ends, with at most one line."""

import asyncio
import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from regroup.cli.main import build_parser, main
from regroup.storage.errors import StoreError
from tests.robustness.test_damaged_stores import CANNOT_RUN, start_cluster, write_history

LIMIT_S = 30
"""The longest time that a command may take with a damaged store of this size; an idle machine needs less than one."""
VALUES: tuple[object, ...] = (
    None,
    -1,
    0,
    2**30,
    2**62,
    2**63 - 1,
    -(2**63),
    2.5,
    1e300,
    "noon",
    "",
    b"\xff\x00",
    "[" * 100_000,
)
TABLES = {
    "events": (
        "position",
        "group",
        "event_number",
        "coordinator_epoch",
        "at_ms",
        "type",
        "version",
        "payload",
        "cause",
    ),
    "snapshots": ("group", "cut", "event_number", "position", "coordinator_epoch", "version", "payload"),
    "cuts": ("position",),
    "trimmed_heads": ("group", "event_number", "coordinator_epoch", "position"),
    "counters": ("name", "value"),
    "named_values": ("name", "value"),
}
COLUMNS = [(table, column) for table, columns in TABLES.items() for column in columns]
TRIMMED = re.compile(r"regroup events: the events up to position \d+ have been trimmed\n")
COMMANDS = (
    ["verify"], ["replay"], ["events"], ["events", "--format", "jsonl"], ["story"], ["trim", "--before"], ["copy"],
)  # fmt: skip


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that has a row in each of its tables."""
    path = tmp_path_factory.mktemp("intact") / "groups.db"
    asyncio.run(write_history(path))
    with closing(sqlite3.connect(path)) as connection:
        (half,) = connection.execute("SELECT max(position) / 2 FROM events").fetchone()
    assert main(["trim", str(path), "--before", str(half)]) == 0
    asyncio.run(add_an_epoch(path))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for table in TABLES:
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() > (0,), table
    return path


@pytest.fixture(autouse=True)
def parsers_are_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Build the parser of each command once: that takes as long as most of these commands."""
    parser_of = cache(lambda command: build_parser([command]))
    monkeypatch.setattr("regroup.cli.main.build_parser", lambda argv: parser_of(argv[0]))


async def add_an_epoch(path: Path) -> None:
    """Let a second coordinator load the groups, so that there are two cuts."""
    async with await start_cluster(path) as cluster:
        await cluster.ensure_topic("invoices", 3)


def without_constraints(path: Path) -> None:
    """Let every column hold NULL, as a changed byte can: constraints are checked when a row is written."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_schema SET sql = replace(sql, ' NOT NULL', '') WHERE type = 'table'")


def changed_stores(intact: Path, folder: Path, table: str, column: str, row: str) -> Iterator[tuple[str, Path]]:
    """Stores with one value of the first or the last row changed, to each value in turn. SQLite refuses some."""
    choose = {"first": "min", "last": "max"}[row]
    for number, value in enumerate(VALUES):
        path = folder / f"{number}.db"
        path.write_bytes(intact.read_bytes())
        if value is None:
            without_constraints(path)
        key = "rowid" if table not in ("counters", "named_values") else "name"
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            statement = f'UPDATE {table} SET "{column}" = ? WHERE {key} = (SELECT {choose}({key}) FROM {table})'
            try:
                connection.execute(statement, (value,))
            except sqlite3.Error:
                continue
        yield f"{table}.{column} of the {row} row is {repr(value)[:30]}", path


def check_command(what: str, words: list[str], path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A command ends with one of the three exit codes, and with at most one line on standard error."""
    arguments = {"trim": ["20"], "copy": [f"{path}.copy"]}.get(words[0], [])
    code = main([words[0], str(path), *words[1:], *arguments])
    said = TRIMMED.sub("", capsys.readouterr().err)
    assert code in (0, 1, 2), what
    assert (code == CANNOT_RUN) == (said.count("\n") == 1), f"{what}: {words[0]} ended with {code} and said {said}"


async def check_start(what: str, path: Path) -> None:
    """An emulator starts with the store, or raises a StoreError; both in time."""
    try:
        async with asyncio.timeout(LIMIT_S):
            cluster = await start_cluster(path)
            await cluster.close()
    except StoreError as error:
        if "\n" in str(error):
            raise AssertionError(f"{what}: {error}") from error
    except Exception as error:
        raise AssertionError(f"{what}: {error!r}") from error


@pytest.mark.slow
@pytest.mark.parametrize("row", ["last", "first"])
@pytest.mark.parametrize(("table", "column"), COLUMNS, ids=lambda each: each)
def test_a_value_of_another_type_or_size_is_reported_in_one_line(
    table: str, column: str, row: str, intact: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tried = 0
    for what, path in changed_stores(intact, tmp_path, table, column, row):
        for words in COMMANDS:
            if words[0] != "trim":
                check_command(what, words, path, capsys)
        asyncio.run(check_start(what, path))
        check_command(what, COMMANDS[4], path, capsys)
        tried += 1
    assert tried > 1


def numbers_of(payload: Any, place: str = "$") -> Iterator[str]:
    """The places of the numbers in a payload, as SQLite's JSON functions name them."""
    match payload:
        case bool():
            return
        case int():
            yield place
        case dict():
            for name, value in payload.items():
                yield from numbers_of(value, f'{place}."{name}"')
        case list():
            for index, value in enumerate(payload):
                yield from numbers_of(value, f"{place}[{index}]")


@pytest.mark.slow
def test_a_number_of_any_size_in_a_payload_is_reported_in_one_line(
    intact: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(sqlite3.connect(intact)) as connection:
        rows = connection.execute("SELECT min(position), type, payload FROM events GROUP BY type").fetchall()
    path = tmp_path / "groups.db"
    for position, kind, payload in rows:
        for place in numbers_of(json.loads(payload)):
            for number in (-1, 999_999_999, 2**63 - 1, 10**40):
                path.write_bytes(intact.read_bytes())
                with closing(sqlite3.connect(path, isolation_level=None)) as connection:
                    connection.execute(
                        "UPDATE events SET payload = json_set(payload, ?, json(?)) WHERE position = ?",
                        (place, str(number), position),
                    )
                what = f"{place} of {kind} is {number}"
                for words in COMMANDS[:4]:
                    check_command(what, words, path, capsys)
                asyncio.run(check_start(what, path))
