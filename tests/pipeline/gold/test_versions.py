"""Readers take the current version of the tables, and versions are removed when that is asked for."""

import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from regroup.cli.main import main
from regroup.pipeline.gold import build
from regroup.pipeline.gold.build import build_tables
from regroup.pipeline.gold.folding import fold_groups
from regroup.pipeline.gold.versions import (
    NewerVersionIsCurrent,
    TablesDamaged,
    TablesMissing,
    TablesVersion,
    current_version,
    make_current,
    new_version,
    read_table,
    remove_old_versions,
    tables_folder,
)
from regroup.pipeline.locations.location import Location
from regroup.pipeline.output_folder import exclusive_tables_writer, prepare_folder
from regroup.storage.errors import StoreLocked
from tests.pipeline.histories import crash_history, halves, write_store


def version(name: str) -> TablesVersion:
    return TablesVersion(name, "", ("gaps",))


def write_gaps(folder: Path, name: str) -> TablesVersion:
    """Write a file of the table `gaps` into the folder of a version."""
    (tables_folder(folder) / name / "gaps" / "part-00000.parquet").replace(b"rows")
    return version(name)


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
        write_gaps(tmp_path, name)
    assert [*remove_old_versions(tmp_path)] == []
    make_current(tmp_path, version("version-000002-c"))
    assert [*remove_old_versions(tmp_path)] == ["gaps", "version-000001-a"]
    assert names(tmp_path) == ["version-000002-b", "version-000002-c", "version-000003-d"]


def test_a_missing_or_damaged_version_is_named(tmp_path: Path, spark: SparkSession) -> None:
    prepare_folder(tmp_path)
    with pytest.raises(TablesMissing, match=f"no tables in {tmp_path}: regroup pipeline tables"):
        read_table(spark, tmp_path, "gaps")
    make_current(tmp_path, write_gaps(tmp_path, "version-000001-a"))
    with pytest.raises(TablesMissing, match="unknown table 'commits'"):
        read_table(spark, tmp_path, "commits")
    (tables_folder(tmp_path) / "current.json").replace(b"{")
    with pytest.raises(TablesMissing, match=r"current\.json is damaged"):
        current_version(tmp_path)


@pytest.mark.parametrize("late", ["version-000002-b", "version-000003-d"])
def test_a_build_that_ends_after_a_later_one_does_not_become_current(tmp_path: Path, late: str) -> None:
    make_current(tmp_path, write_gaps(tmp_path, "version-000003-c"))
    slow = write_gaps(tmp_path, late)
    with pytest.raises(NewerVersionIsCurrent, match=rf"of another build now \(version-000003-c\).*\({late}\)"):
        make_current(tmp_path, slow)
    assert current_version(tmp_path) == version("version-000003-c")


@pytest.mark.parametrize("noted", [{}, {"fold_state": {"part-00000.parquet": 4}}], ids=["nothing", "states"])
def test_a_version_whose_tables_are_gone_does_not_become_current(
    tmp_path: Path, noted: dict[str, dict[str, int]]
) -> None:
    make_current(tmp_path, write_gaps(tmp_path, "version-000001-a"))
    for name in noted:
        (tables_folder(tmp_path) / "version-000002-b" / name / "part-00000.parquet").replace(b"rows")
    with pytest.raises(TablesDamaged, match=r"version-000002-b.* is missing: regroup pipeline tables"):
        make_current(tmp_path, replace(version("version-000002-b"), files=noted))
    assert current_version(tmp_path) == version("version-000001-a")


def test_a_damaged_current_json_is_written_again(tmp_path: Path) -> None:
    (tables_folder(tmp_path) / "current.json").replace(b"{")
    make_current(tmp_path, write_gaps(tmp_path, new_version(tmp_path).name))
    assert current_version(tmp_path) is not None


def test_the_next_version_has_a_higher_number_than_a_current_one_whose_folder_is_gone(tmp_path: Path) -> None:
    make_current(tmp_path, write_gaps(tmp_path, "version-000007-a"))
    (tables_folder(tmp_path) / "version-000007-a").remove_folder()
    assert new_version(tmp_path).name.startswith("version-000008-")


def test_old_versions_are_not_removed_while_tables_are_built(tmp_path: Path) -> None:
    write_gaps(tmp_path, "version-000001-a")
    make_current(tmp_path, write_gaps(tmp_path, "version-000002-b"))
    with exclusive_tables_writer(tmp_path), pytest.raises(StoreLocked, match="Wait until it has ended, or stop it"):
        [*remove_old_versions(tmp_path)]
    assert names(tmp_path) == ["version-000001-a", "version-000002-b"]
    assert [*remove_old_versions(tmp_path)] == ["version-000001-a"]


@pytest.mark.slow
def test_a_second_build_and_a_removal_are_refused_while_a_build_runs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_store(tmp_path / "a.db", crash_history("range", 1))
    out = tmp_path / "out"
    assert main(["pipeline", "ingest", str(tmp_path / "a.db"), str(out)]) == 0
    build_tables(spark, out)
    codes, counts = list[int](), [read_table(spark, out, "gaps").count()]

    def meanwhile(folder: Location, built: TablesVersion) -> None:
        monkeypatch.setattr(build, "make_current", make_current)
        codes.append(main(["pipeline", "tables", str(out)]))
        codes.append(main(["pipeline", "clean", str(out)]))
        counts.append(read_table(spark, out, "gaps").count())
        make_current(folder, built)

    monkeypatch.setattr(build, "make_current", meanwhile)
    capsys.readouterr()
    build_tables(spark, out)
    assert codes == [2, 2]
    refusal = f"regroup pipeline: {out}/tables is being written by another process (number {os.getpid()})"
    assert [line.startswith(refusal) for line in capsys.readouterr().err.splitlines()] == [True, True]
    assert [name[:14] for name in names(out)] == ["version-000001", "version-000002"]
    assert read_table(spark, out, "gaps").count() == counts[0] == counts[1] > 0


@pytest.mark.slow
def test_a_build_whose_earlier_version_was_removed_meanwhile_fails(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it can be where no lock excludes a removal."""
    first_half, second_half = halves(crash_history("range", 1))
    out = tmp_path / "out"
    write_store(tmp_path / "a.db", first_half)
    assert main(["pipeline", "ingest", str(tmp_path / "a.db"), str(out)]) == 0
    build_tables(spark, out)
    write_store(tmp_path / "a.db", second_half)
    assert main(["pipeline", "ingest", str(tmp_path / "a.db"), str(out)]) == 0
    first = current_version(out)
    assert first is not None

    def fold_and_remove(*parts: Any) -> dict[str, int]:
        rows = fold_groups(*parts)
        (tables_folder(out) / first.name).remove_folder()
        return rows

    monkeypatch.setattr(build, "fold_groups", fold_and_remove)
    with pytest.raises(TablesDamaged, match=rf"{first.name}/.*\.parquet was removed during the build"):
        build_tables(spark, out)
    assert current_version(out) == first


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
