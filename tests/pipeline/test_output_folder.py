"""The format of a folder, and whether its tables are current."""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession

from regroup.cli.main import main
from regroup.pipeline.bronze.ingest import ingest, read_bronze
from regroup.pipeline.campaign.runner import read_events, read_runs
from regroup.pipeline.gold.build import build_tables
from regroup.pipeline.gold.tables import TABLES
from regroup.pipeline.gold.versions import TablesVersion, make_current, read_table, tables_are_current
from regroup.pipeline.output_folder import (
    DATA_FOLDERS,
    FORMAT_VERSION,
    HoldsOtherEvents,
    UnsupportedFolderVersion,
    check_format,
    events_fingerprint,
    exclusive_writer,
    prepare_folder,
)

NO_SPARK = cast(SparkSession, None)

PLAN = """\
question: Is the format checked?
scenario: crashes
seeds: 1
"""


def add_events(folder: Path, name: str, size: int = 4) -> None:
    (folder / "events").mkdir(parents=True, exist_ok=True)
    (folder / "events" / name).write_bytes(b"x" * size)


def build(folder: Path, tables: Collection[str] = tuple(TABLES)) -> None:
    """Note tables that were built from the present events."""
    for name in tables:
        (folder / "tables" / "version-000001-0000" / name).mkdir(parents=True, exist_ok=True)
        (folder / "tables" / "version-000001-0000" / name / "part-00000.parquet").touch()
    make_current(folder, TablesVersion("version-000001-0000", events_fingerprint(folder), tuple(tables)))


def test_tables_are_current_until_events_are_added(tmp_path: Path) -> None:
    add_events(tmp_path, "chunk-00000000.parquet")
    assert not tables_are_current(tmp_path)
    build(tmp_path)
    assert tables_are_current(tmp_path)
    add_events(tmp_path, ".chunk-00000020.parquet.17")
    assert tables_are_current(tmp_path), "an unfinished file does not count yet"
    add_events(tmp_path, "chunk-00000020.parquet")
    assert not tables_are_current(tmp_path)


def test_tables_of_an_older_release_that_built_fewer_are_not_current(tmp_path: Path) -> None:
    build(tmp_path, [each for each in TABLES if each != "reconciliations"])
    assert not tables_are_current(tmp_path)


def test_tables_are_not_current_when_a_block_has_grown(tmp_path: Path) -> None:
    add_events(tmp_path, "block-000000.parquet")
    build(tmp_path)
    add_events(tmp_path, "block-000000.parquet", size=5)
    assert not tables_are_current(tmp_path)
    build(tmp_path)
    assert tables_are_current(tmp_path)


def test_a_new_folder_gets_the_present_format(tmp_path: Path) -> None:
    check_format(tmp_path / "out")
    with exclusive_writer(tmp_path / "out"):
        pass
    (tmp_path / "out" / "bronze").mkdir()
    check_format(tmp_path / "out")
    assert (tmp_path / "out" / "format").read_text() == f"{FORMAT_VERSION}\n"


@pytest.mark.parametrize("version", [1, 99])
def test_data_of_another_format_is_refused(tmp_path: Path, version: int) -> None:
    (tmp_path / "format").write_text(f"{version}\n")
    with pytest.raises(UnsupportedFolderVersion, match=f"has format {version}"), exclusive_writer(tmp_path):
        pass


@pytest.mark.parametrize("kind", DATA_FOLDERS)
def test_data_without_a_format_has_format_1_and_is_refused(tmp_path: Path, kind: str) -> None:
    (tmp_path / kind).mkdir()
    with pytest.raises(UnsupportedFolderVersion, match=f"{tmp_path} has format 1, and this release of regroup reads"):
        check_format(tmp_path)
    with pytest.raises(UnsupportedFolderVersion):
        prepare_folder(tmp_path)
    assert not (tmp_path / "format").exists()


READERS: dict[str, Callable[[Path], object]] = {
    "bronze": lambda folder: read_bronze(NO_SPARK, folder),
    "events": lambda folder: read_events(NO_SPARK, folder),
    "runs": lambda folder: read_runs(NO_SPARK, folder),
    "tables": lambda folder: read_table(NO_SPARK, folder, "gaps"),
    "the tables' events": lambda folder: build_tables(NO_SPARK, folder),
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_no_data_of_another_format_is_read(tmp_path: Path, read: Callable[[Path], object]) -> None:
    (tmp_path / "tables").mkdir()
    with pytest.raises(UnsupportedFolderVersion):
        read(tmp_path)


@pytest.mark.parametrize(
    "words",
    [
        ["pipeline", "ingest", "none.db", "{}"],
        ["pipeline", "tables", "{}"],
        ["pipeline", "show", "{}", "gaps"],
        ["pipeline", "replay", "{}"],
        ["report", "{}"],
        ["campaign", "{}/plan.yaml", "{}"],
    ],
    ids=" ".join,
)
def test_commands_refuse_another_format_in_one_line_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    (tmp_path / "plan.yaml").write_text(PLAN)
    for folder in ("bronze", "tables/gaps"):
        (tmp_path / folder).mkdir(parents=True)
    assert main([*(word.format(tmp_path) for word in words), "--master", "no such master"]) == 2
    assert capsys.readouterr().err == (
        f"regroup {words[0]}: {tmp_path} has format 1, and this release of regroup reads and writes format 2: "
        "name another folder, and ingest the stores or simulate the campaign again.\n"
    )


@pytest.mark.parametrize(
    ("present", "words", "refusal"),
    [
        ("runs", "pipeline ingest none.db {}", "holds a campaign: name another folder for the stores"),
        ("bronze", "campaign {}/plan.yaml {}", "holds ingested stores: name another folder for the campaign"),
    ],
)
def test_stores_and_a_campaign_need_folders_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], present: str, words: str, refusal: str
) -> None:
    prepare_folder(tmp_path)
    (tmp_path / "plan.yaml").write_text(PLAN)
    (tmp_path / present).mkdir()
    command = [*words.format(tmp_path, tmp_path).split(), "--master", "no such master"]
    assert main(command) == 2
    assert capsys.readouterr().err == f"regroup {command[0]}: {tmp_path} {refusal}.\n"
    assert not (tmp_path / "campaign.json").exists()


def test_stores_are_not_ingested_into_the_folder_of_a_campaign_by_the_function_either(tmp_path: Path) -> None:
    prepare_folder(tmp_path)
    (tmp_path / "campaign.json").touch()
    with pytest.raises(HoldsOtherEvents):
        ingest(NO_SPARK, "none.db", tmp_path)


def test_a_report_of_stale_tables_is_refused_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare_folder(tmp_path)
    build(tmp_path)
    add_events(tmp_path, "chunk-00000000.parquet")
    assert main(["report", str(tmp_path), "--master", "no such master"]) == 2
    assert f"lack newer events or newer tables: regroup pipeline tables {tmp_path}" in capsys.readouterr().err
