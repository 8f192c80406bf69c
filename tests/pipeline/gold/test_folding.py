"""One task folds several groups into one file for each table. No test needs Spark."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from regroup.coordinator.invariants import event_numbers_have_no_gap, invariant_sentence
from regroup.pipeline.campaign.runner import events_table
from regroup.pipeline.gold.folding import FoldTarget, fold_partition, records_of_batch
from regroup.pipeline.gold.tables import TABLES
from regroup.pipeline.locations.location import location_of
from regroup.storage.records import Record
from tests.pipeline.histories import all_rows, crash_history, rows_of_table

RUNS = {"first": crash_history("range", 1), "second": crash_history("cooperative-sticky", 2)}


def batches_of(runs: dict[str, Sequence[Record]], rows: int = 7) -> list[pa.RecordBatch]:
    """The events of groups in small batches, sorted as Spark sorts them."""
    tables = [events_table(name, [each for each in records if each.group]) for name, records in sorted(runs.items())]
    batches: list[pa.RecordBatch] = pa.concat_tables(tables).combine_chunks().to_batches(max_chunksize=rows)
    return batches


def topics_of(runs: dict[str, Sequence[Record]]) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = {}
    for name, records in runs.items():
        topics = [each for each in records if each.type == "topic-created"]
        [batch] = events_table(name, topics).to_batches()
        found[name] = [record for _, record in records_of_batch(batch)]
    return found


def fold(folder: Path, runs: dict[str, Sequence[Record]]) -> dict[str, int]:
    [summary] = fold_partition(batches_of(runs), FoldTarget(location_of(folder)), topics_of(runs))
    return dict(zip(summary["table"].to_pylist(), summary["rows"].to_pylist(), strict=True))


def test_the_files_have_the_rows_of_every_group(tmp_path: Path) -> None:
    counts = fold(tmp_path, RUNS)
    for name, table in TABLES.items():
        expected = [
            {"store": store, "group": "lab", **{field.name: row.get(field.name) for field in table.fields}}
            for store, records in RUNS.items()
            for row in rows_of_table(all_rows(records), name)
        ]
        files = list((tmp_path / name).glob("*"))
        assert counts.get(name, 0) == len(expected), name
        assert [each.name for each in files] == (["part-00000.parquet"] if expected else [])
        for file in files:
            assert sorted(pq.ParquetFile(file).read().to_pylist(), key=str) == sorted(expected, key=str), name


def test_a_repeated_task_replaces_its_files(tmp_path: Path) -> None:
    first = fold(tmp_path, RUNS)
    contents = {file: file.read_bytes() for file in tmp_path.rglob("*.parquet")}
    assert fold(tmp_path, RUNS) == first
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == contents


def test_records_out_of_order_end_the_task_without_a_file(tmp_path: Path) -> None:
    records = list(RUNS["first"])
    records[20], records[21] = records[21], records[20]
    with pytest.raises(RuntimeError, match="another order than that of their positions"):
        fold(tmp_path, {"first": records})
    assert not [file for file in tmp_path.rglob("*") if file.is_file()]


def test_an_event_whose_number_does_not_follow_is_a_number_gap(tmp_path: Path) -> None:
    records = list(RUNS["first"])
    place = next(number for number, record in enumerate(records) if record.type == "member-removed")
    records[place:] = [
        replace(each, event_number=each.event_number + 1) if each.group else each for each in records[place:]
    ]
    assert fold(tmp_path, {"first": records})["violations"] == 1
    [row] = pq.ParquetFile(tmp_path / "violations" / "part-00000.parquet").read().to_pylist()
    assert row == {
        "store": "first",
        "group": "lab",
        "position": records[place].position,
        "sentence": invariant_sentence(event_numbers_have_no_gap),
    }
