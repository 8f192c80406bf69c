"""Every ingested event is in bronze once, also after kills, trims and replaced stores. A loop copies the blocks."""

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
from regroup.pipeline.bronze.blocks import BlockCopy, write_block
from regroup.pipeline.bronze.store_progress import EventsTrimmed
from regroup.pipeline.gold.new_events import sources_of
from regroup.pipeline.locations.location import location_of
from regroup.pipeline.output_folder import events_fingerprint
from tests.pipeline.histories import crash_history, trim_store, write_store

RECORDS = crash_history("range", 1)
LAST = len(RECORDS)
NO_SPARK = cast(SparkSession, None)


@pytest.fixture(autouse=True)
def _small_blocks_without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "POSITIONS_PER_BLOCK", 50)
    monkeypatch.setattr(bronze, "copy_blocks", copy_in_a_loop)


def copy_in_a_loop(spark: SparkSession, plan: Iterable[BlockCopy], progress: object) -> None:
    for block in plan:
        write_block(block)


def ingest(folder: Path) -> int:
    return bronze.ingest(NO_SPARK, f"{folder}/*.db", folder / "out").new_events


def ingest_killed_before_the_manifest(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(bronze, "write_manifest", lambda manifest, folder: None)
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
def test_a_store_trimmed_after_a_killed_first_ingest_is_ingested_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    write_store(tmp_path / "a.db", RECORDS)
    ingest_killed_before_the_manifest(tmp_path, monkeypatch)
    trim_store(tmp_path / "a.db", before=before)
    ingest(tmp_path)
    assert positions(tmp_path) == list(range(before, LAST + 1))
    assert snapshots(tmp_path)


@pytest.mark.parametrize("before", [20, 40])
def test_blocks_of_a_killed_ingest_count_if_their_first_events_have_been_trimmed_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    write_store(tmp_path / "a.db", RECORDS[:30])
    ingest(tmp_path)
    write_store(tmp_path / "a.db", RECORDS[30:])
    ingest_killed_before_the_manifest(tmp_path, monkeypatch)
    trim_store(tmp_path / "a.db", before=before)
    ingest(tmp_path)
    assert positions(tmp_path) == list(range(1, LAST + 1))
    assert snapshots(tmp_path) == []
    assert ingest(tmp_path) == 0


def test_a_store_trimmed_after_an_ingest_continues_after_the_ingested_events(tmp_path: Path) -> None:
    write_store(tmp_path / "a.db", RECORDS[:30])
    ingest(tmp_path)
    write_store(tmp_path / "a.db", RECORDS[30:])
    trim_store(tmp_path / "a.db", before=20)
    assert ingest(tmp_path) == LAST - 30
    assert positions(tmp_path) == list(range(1, LAST + 1))


def test_a_shorter_store_replaces_one_whose_first_ingest_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_store(tmp_path / "a.db", RECORDS)
    trim_store(tmp_path / "a.db", before=30)
    ingest_killed_before_the_manifest(tmp_path, monkeypatch)
    (tmp_path / "a.db").unlink()
    write_store(tmp_path / "a.db", crash_history("range", 2)[:20])
    assert ingest(tmp_path) == 20
    assert positions(tmp_path) == list(range(1, 21))
    assert snapshots(tmp_path) == []


def test_an_ingest_names_a_store_whose_events_were_trimmed_before_they_were_ingested(tmp_path: Path) -> None:
    write_store(tmp_path / "a.db", RECORDS[:30])
    ingest(tmp_path)
    write_store(tmp_path / "a.db", RECORDS[30:])
    trim_store(tmp_path / "a.db", before=41)
    with pytest.raises(EventsTrimmed, match=r"a\.db has been trimmed up to position 40, and was ingested only"):
        ingest(tmp_path)
    shutil.rmtree(tmp_path / "out")
    ingest(tmp_path)
    assert positions(tmp_path) == list(range(41, LAST + 1))


def folded(folder: Path) -> tuple[list[int], int]:
    """The last position of each store that tables are built from, and how many stores have an incomplete ingest."""
    sources, _, incomplete = sources_of(location_of(folder / "out"))
    return list(sources.through.values()), len(incomplete)


@pytest.mark.parametrize("events_before", [0, 30])
def test_what_a_killed_ingest_wrote_is_not_folded_until_the_next_one_has_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, events_before: int
) -> None:
    if events_before:
        write_store(tmp_path / "a.db", RECORDS[:events_before])
        ingest(tmp_path)
    write_store(tmp_path / "a.db", RECORDS[events_before:])
    ingest_killed_before_the_manifest(tmp_path, monkeypatch)
    fingerprint = events_fingerprint(tmp_path / "out")
    assert folded(tmp_path) == ([events_before], 1)
    ingest(tmp_path)
    assert folded(tmp_path) == ([LAST], 0)
    assert events_fingerprint(tmp_path / "out") != fingerprint


@pytest.mark.parametrize("before", [30, LAST + 1])
def test_a_trimmed_store_whose_first_ingest_was_killed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    write_store(tmp_path / "a.db", RECORDS)
    trim_store(tmp_path / "a.db", before=before)
    ingest_killed_before_the_manifest(tmp_path, monkeypatch)
    assert folded(tmp_path) == ([0], 1)


@pytest.mark.parametrize("before", [30, 51, 55, LAST + 1])
def test_a_trimmed_store_is_folded_through_its_last_position(tmp_path: Path, before: int) -> None:
    write_store(tmp_path / "a.db", RECORDS)
    trim_store(tmp_path / "a.db", before=before)
    ingest(tmp_path)
    assert folded(tmp_path) == ([LAST], 0)


def test_a_store_with_damaged_snapshots_is_skipped(tmp_path: Path) -> None:
    for name in ("a.db", "b.db"):
        write_store(tmp_path / name, RECORDS)
    trim_store(tmp_path / "a.db", before=30)
    with sqlite3.connect(tmp_path / "a.db") as connection:
        connection.execute("UPDATE snapshots SET payload = X'ff00'")
    connection.close()
    result = bronze.ingest(NO_SPARK, f"{tmp_path}/*.db", tmp_path / "out", on_error="skip")
    reasons = [each.reason for each in result.skipped]
    assert [each for each in reasons if each.startswith(f"{tmp_path / 'a.db'} is damaged: a snapshot")]
    assert positions(tmp_path) == list(range(1, LAST + 1))
    assert snapshots(tmp_path) == []
