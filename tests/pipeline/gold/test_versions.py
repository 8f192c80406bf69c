"""Readers take the current version of the tables, and versions are removed when that is asked for."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from regroup.cli.main import main
from regroup.pipeline.gold.build import build_tables
from regroup.pipeline.gold.versions import (
    TablesMissing,
    TablesVersion,
    current_version,
    make_current,
    new_version,
    read_table,
    remove_old_versions,
    tables_folder,
)
from regroup.pipeline.output_folder import prepare_folder
from tests.pipeline.histories import crash_history, halves, write_store


def version(name: str) -> TablesVersion:
    return TablesVersion(name, "", ("gaps",))


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in tables_folder(folder).folders())


def test_each_version_has_a_folder_of_its_own_and_a_higher_number(tmp_path: Path) -> None:
    first = new_version(tmp_path)
    assert first.name.startswith("version-000001-")
    (first / "file").replace(b"")
    assert new_version(tmp_path).name.startswith("version-000002-")
    assert new_version(tmp_path).name != new_version(tmp_path).name


def test_older_versions_are_removed_and_later_ones_stay(tmp_path: Path) -> None:
    for name in ("gaps", "version-000001-a", "version-000002-b", "version-000002-c", "version-000003-d"):
        (tables_folder(tmp_path) / name / "file").replace(b"")
    assert [*remove_old_versions(tmp_path)] == []
    make_current(tmp_path, version("version-000002-c"))
    assert [*remove_old_versions(tmp_path)] == ["gaps", "version-000001-a"]
    assert names(tmp_path) == ["version-000002-b", "version-000002-c", "version-000003-d"]


def test_a_missing_or_damaged_version_is_named(tmp_path: Path, spark: SparkSession) -> None:
    prepare_folder(tmp_path)
    with pytest.raises(TablesMissing, match=f"no tables in {tmp_path}: regroup pipeline tables"):
        read_table(spark, tmp_path, "gaps")
    make_current(tmp_path, version("version-000001-a"))
    with pytest.raises(TablesMissing, match="unknown table 'commits'"):
        read_table(spark, tmp_path, "commits")
    (tables_folder(tmp_path) / "current.json").replace(b"{")
    with pytest.raises(TablesMissing, match=r"current\.json is damaged"):
        current_version(tmp_path)


@pytest.mark.slow
def test_a_reader_has_the_tables_of_one_build(spark: SparkSession, tmp_path: Path) -> None:
    (first_half, second_half), out = halves(crash_history("range", 1)), tmp_path / "out"
    write_store(tmp_path / "a.db", first_half)
    assert main(["pipeline", "ingest", str(tmp_path / "a.db"), str(out)]) == 0
    build_tables(spark, out)
    first = current_version(out)
    before = read_table(spark, out, "transitions")
    rows = before.count()
    write_store(tmp_path / "a.db", second_half)
    assert main(["pipeline", "ingest", str(tmp_path / "a.db"), str(out)]) == 0
    build_tables(spark, out)
    assert before.count() == rows
    assert read_table(spark, out, "transitions", first).count() == rows
    assert read_table(spark, out, "transitions").count() > rows
    assert main(["pipeline", "clean", str(out)]) == 0
    current = current_version(out)
    assert current is not None
    assert names(out) == [current.name]
