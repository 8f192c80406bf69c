"""What is taken in is there once, whatever was killed, trimmed or replaced in between. A loop copies the blocks."""

import shutil
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import cast

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from regroup.pipeline.bronze import blocks
from regroup.pipeline.bronze import ingest as bronze
from regroup.pipeline.bronze.blocks import Block, write_block
from tests.pipeline.histories import crashes_of, trim_store, write_store

RECORDS = crashes_of("range", 1)
LAST = len(RECORDS)
NO_SPARK = cast(SparkSession, None)


@pytest.fixture(autouse=True)
def _in_small_blocks_and_without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 50)
    monkeypatch.setattr(bronze, "copy", plainly)


def plainly(spark: SparkSession, plan: Iterable[Block], progress: object) -> None:
    for block in plan:
        write_block(block)


def ingest(folder: Path) -> int:
    return bronze.ingest(NO_SPARK, f"{folder}/*.db", folder / "out").events


def killed_before_it_was_noted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(bronze, "note", lambda store, folder: None)
        ingest(folder)


def positions(folder: Path) -> list[int]:
    return sorted(
        position
        for path in (folder / "out" / "bronze").rglob("block-*.parquet")
        for position in pq.read_table(path, partitioning=None).column("position").to_pylist()
    )


def snapshots(folder: Path) -> list[int]:
    paths = (folder / "out" / "snapshots").rglob("*.parquet")
    return [each for path in paths for each in pq.read_table(path, partitioning=None).column("position").to_pylist()]


@pytest.mark.parametrize("before", [30, 51, 55])
def test_a_store_that_is_trimmed_after_its_first_ingest_was_killed_is_there_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    write_store(tmp_path / "a.db", RECORDS)
    killed_before_it_was_noted(tmp_path, monkeypatch)
    trim_store(tmp_path / "a.db", before=before)
    ingest(tmp_path)
    assert positions(tmp_path) == list(range(before, LAST + 1))
    assert snapshots(tmp_path)


@pytest.mark.parametrize("before", [20, 40])
def test_what_a_killed_ingest_had_added_counts_when_its_beginning_has_been_trimmed_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    write_store(tmp_path / "a.db", RECORDS[:30])
    ingest(tmp_path)
    write_store(tmp_path / "a.db", RECORDS[30:])
    killed_before_it_was_noted(tmp_path, monkeypatch)
    trim_store(tmp_path / "a.db", before=before)
    ingest(tmp_path)
    assert positions(tmp_path) == list(range(1, LAST + 1))
    assert snapshots(tmp_path) == []
    assert ingest(tmp_path) == 0


def test_a_store_that_is_trimmed_once_it_has_been_taken_in_goes_on_behind_what_is_there(tmp_path: Path) -> None:
    write_store(tmp_path / "a.db", RECORDS[:30])
    ingest(tmp_path)
    write_store(tmp_path / "a.db", RECORDS[30:])
    trim_store(tmp_path / "a.db", before=20)
    assert ingest(tmp_path) == LAST - 30
    assert positions(tmp_path) == list(range(1, LAST + 1))


def test_a_shorter_store_in_the_place_of_one_whose_ingest_was_killed_is_there_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_store(tmp_path / "a.db", RECORDS)
    trim_store(tmp_path / "a.db", before=30)
    killed_before_it_was_noted(tmp_path, monkeypatch)
    (tmp_path / "a.db").unlink()
    write_store(tmp_path / "a.db", crashes_of("range", 2)[:20])
    assert ingest(tmp_path) == 20
    assert positions(tmp_path) == list(range(1, 21))
    assert snapshots(tmp_path) == []


def test_events_that_were_trimmed_before_they_were_taken_in_are_missed_by_name(tmp_path: Path) -> None:
    write_store(tmp_path / "a.db", RECORDS[:30])
    ingest(tmp_path)
    write_store(tmp_path / "a.db", RECORDS[30:])
    trim_store(tmp_path / "a.db", before=41)
    with pytest.raises(bronze.EventsMissed, match=r"a\.db has been trimmed up to position 40, and was taken in only"):
        ingest(tmp_path)
    shutil.rmtree(tmp_path / "out")
    ingest(tmp_path)
    assert positions(tmp_path) == list(range(41, LAST + 1))


def test_a_store_whose_snapshots_are_damaged_is_left_out(tmp_path: Path) -> None:
    for name in ("a.db", "b.db"):
        write_store(tmp_path / name, RECORDS)
    trim_store(tmp_path / "a.db", before=30)
    with sqlite3.connect(tmp_path / "a.db") as connection:
        connection.execute("UPDATE snapshots SET payload = X'ff00'")
    connection.close()
    taken = bronze.ingest(NO_SPARK, f"{tmp_path}/*.db", tmp_path / "out", on_error="skip")
    assert [each.why for each in taken.skipped if each.why.startswith(f"{tmp_path / 'a.db'} is damaged: a snapshot")]
    assert positions(tmp_path) == list(range(1, LAST + 1))
    assert snapshots(tmp_path) == []
