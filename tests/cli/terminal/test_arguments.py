"""Types of command-line arguments: one place for numbers, ranges, durations and addresses."""

from argparse import ArgumentTypeError
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regroup.cli.serve.arguments import topic
from regroup.cli.terminal.arguments import (
    duration_ms,
    load,
    loaded_type,
    port,
    seed_range,
    setting,
    store_file,
    whole_number,
)


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (port, "0", 0),
        (port, "65535", 65535),
        (whole_number(1), "1000000", 1_000_000),
        (whole_number(0, 0), "0", 0),
        (seed_range(alone_is_count=True), "3", range(1, 4)),
        (seed_range(alone_is_count=False), "3", range(3, 4)),
        (seed_range(alone_is_count=True), "5-6", range(5, 7)),
        (duration_ms, "1.5m", 90_000),
        (setting, " group.max.size = 5 ", ("group.max.size", "5")),
        (setting, "a=b=c", ("a", "b=c")),
        (store_file, "runs/a:b.db", Path("runs/a:b.db")),
        (topic, "orders", ("orders", 1)),
        (topic, "orders:7", ("orders", 7)),
    ],
)
def test_a_valid_argument_is_parsed(parse: Callable[[str], Any], text: str, value: object) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(
    ("parse", "text", "error"),
    [
        (port, "x", "invalid port: 'x'; give a whole number from 0 to 65535"),
        (port, "65536", "invalid port: '65536'; give a whole number from 0 to 65535"),
        (port, "-1", "invalid port: '-1'"),
        (port, "٣", "invalid port: '٣'"),
        (whole_number(1, what="count"), "0", "invalid count: '0'; give a whole number of at least 1"),
        (whole_number(0, 0), "1", "from 0 to 0"),
        (seed_range(alone_is_count=True), "0", "invalid seeds: '0'; give a number, as in 1000, or a range"),
        (seed_range(alone_is_count=False), "9-1", "invalid seeds: '9-1'"),
        (seed_range(alone_is_count=False), "1-", "invalid seeds: '1-'"),
        (duration_ms, "soon", "invalid duration: 'soon'; write for example 500ms, 20s or 5m"),
        (store_file, "s3a://bucket/a.db", "s3a://bucket/a.db is not on a disk, and SQLite reads files on disks only"),
        (setting, "=5", "invalid setting: '=5'; write NAME=VALUE"),
        (topic, "orders:0", "invalid topic: 'orders:0'; write NAME:PARTITIONS, for example orders:7 (at most 10000)"),
    ],
)
def test_an_invalid_argument_is_explained_with_its_text(parse: Callable[[str], Any], text: str, error: str) -> None:
    with pytest.raises(ArgumentTypeError) as raised:
        parse(text)
    assert str(raised.value).startswith(error) or error in str(raised.value)


def test_a_loaded_type_shows_the_error_of_the_loaded_function() -> None:
    parse = loaded_type("regroup.notation.durations:parse_duration_ms")
    assert parse("2s") == 2_000
    with pytest.raises(ArgumentTypeError, match="invalid duration: 'x'"):
        parse("x")


def test_code_is_loaded_by_its_name() -> None:
    assert load("regroup.cli.terminal.arguments:port") is port
    with pytest.raises(ModuleNotFoundError):
        load("regroup.cli.nothing:run")
