"""Files of the pipeline's folder that are damaged or missing: the commands name them, and say what to do."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from regroup.cli.main import main
from regroup.pipeline.gold.versions import TablesDamaged, current_version, read_table

Printed = pytest.CaptureFixture[str]
Damage = Callable[[Path], object]


@pytest.fixture
def out(built_tables: Path, tmp_path: Path) -> Path:
    return shutil.copytree(built_tables / "out", tmp_path / "out")


def version(out: Path) -> Path:
    current = current_version(out)
    assert current is not None
    return out / "tables" / current.name


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.parquet"), key=lambda file: -file.stat().st_size)


def shorten(file: Path, size: int = 100) -> None:
    content = file.read_bytes()[:size]
    file.unlink()  # it may be linked to another version
    file.write_bytes(content)


def only_line(capsys: Printed) -> str:
    err = capsys.readouterr().err
    assert err.count("\n") == 1, err
    return err


DAMAGES: dict[str, Damage] = {
    "short": shorten,
    "empty": lambda file: shorten(file, 0),
    "missing": Path.unlink,
    "added": lambda file: shutil.copy(file, file.with_name("part-99999.parquet")),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_table_whose_files_are_not_those_of_its_build_is_refused_and_built_again(
    spark: SparkSession, out: Path, capsys: Printed, damage: str
) -> None:
    before = read_table(spark, out, "transitions").count()
    file = files(version(out) / "transitions")[0]
    DAMAGES[damage](file)
    assert main(["pipeline", "show", str(out), "transitions"]) == 2
    line = only_line(capsys)
    assert f"regroup pipeline tables {out}" in line
    if damage == "short":
        assert f"{file} is damaged, with 100 of its " in line
    assert main(["pipeline", "clean", str(out)]) == 2
    capsys.readouterr()
    assert main(["pipeline", "tables", str(out)]) == 0
    assert read_table(spark, out, "transitions").count() == before


@pytest.mark.parametrize("missing", [".", "gaps"])
def test_a_missing_version_or_table_is_named_with_the_command_that_builds_it(
    spark: SparkSession, out: Path, capsys: Printed, missing: str
) -> None:
    shutil.rmtree(version(out) / missing)
    for words in (["pipeline", "show", str(out), "gaps"], ["report", str(out)]):
        assert main(words) == 2
        assert only_line(capsys).endswith(f" is missing: regroup pipeline tables {out}\n")


def test_a_table_without_one_of_its_columns_is_refused(spark: SparkSession, out: Path) -> None:
    for file in files(version(out) / "lag"):
        size = file.stat().st_size
        rows = pq.read_table(file).drop_columns(["lag"])
        file.unlink()
        pq.write_table(rows, file)
        current = out / "tables" / "current.json"
        current.write_text(current.read_text().replace(f'"{file.name}":{size}', f'"{file.name}":{file.stat().st_size}'))
    with pytest.raises(TablesDamaged, match=f"the table lag in {out} lacks lag: regroup pipeline tables {out} --full"):
        read_table(spark, out, "lag")


@pytest.mark.parametrize("words", [["tables", "{out}", "--full"], ["ingest", "{runs}", "{out}"]])
def test_a_damaged_block_of_events_is_named(
    spark: SparkSession, built_tables: Path, out: Path, capsys: Printed, words: list[str]
) -> None:
    block = files(out / "bronze")[0]
    os.truncate(block, 100)
    runs = f"{built_tables}/runs/*.db"
    assert main(["pipeline", *(each.format(out=out, runs=runs) for each in words)]) == 2
    line = only_line(capsys)
    assert f"{block} is damaged" in line
    assert "regroup pipeline ingest STORES into a new folder" in line


def test_a_table_whose_content_is_damaged_is_named(spark: SparkSession, out: Path, capsys: Printed) -> None:
    file = files(version(out) / "transitions")[0]
    content = bytes(file.stat().st_size)
    file.unlink()
    file.write_bytes(content)
    assert main(["pipeline", "show", str(out), "transitions"]) == 2
    assert f"{file} is damaged: regroup pipeline tables {out} --full\n" in only_line(capsys)


def test_a_damaged_manifest_is_named(spark: SparkSession, built_tables: Path, out: Path, capsys: Printed) -> None:
    manifest = next((out / "ingested").iterdir())
    os.truncate(manifest, 10)
    assert main(["pipeline", "ingest", f"{built_tables}/runs/*.db", str(out)]) == 2
    assert f"{manifest} is damaged: regroup pipeline ingest STORES into a new folder" in only_line(capsys)
