"""The commands `regroup pipeline`, `regroup campaign` and `regroup report`."""

import errno
import json
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from regroup.cli import jobs
from regroup.cli.main import COMMANDS, main
from regroup.pipeline.bronze import ingest
from regroup.pipeline.bronze.store_progress import store_name
from regroup.pipeline.gold.versions import TablesVersion, make_current
from regroup.pipeline.output_folder import prepare_folder
from regroup.pipeline.spark import java
from regroup.storage.errors import StoreError
from tests.pipeline.histories import crash_history, overwrite_pages, write_store

Printed = pytest.CaptureFixture[str]

PLAN = """\
question: Does it end?
scenario: crashes
seeds: 2
grid: {assignor: [range]}
fixed: {members: 2, partitions: 3, crashes: 1, session_timeout_ms: 6000}
"""


def regroup(*words: object) -> int:
    return main([str(word) for word in words])


@pytest.fixture
def mixed_stores(stores: Path, tmp_path: Path) -> Path:
    """A folder with two good stores, a damaged one, a file that is not a store, and a store of a newer release."""
    for name in ("range.db", "cooperative-sticky.db"):
        shutil.copy(stores / name, tmp_path)
    overwrite_pages(Path(shutil.copy(stores / "range.db", tmp_path / "damaged.db")))
    (tmp_path / "foreign.db").write_text("not a store, but long enough to have a header if it were one " * 3)
    with sqlite3.connect(shutil.copy(stores / "range.db", tmp_path / "newer.db")) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    return tmp_path


def test_bad_stores_among_good_ones_are_named_and_skipped(
    spark: SparkSession, mixed_stores: Path, capsys: Printed
) -> None:
    assert regroup("pipeline", "ingest", f"{mixed_stores}/*.db", mixed_stores / "out", "--on-error", "skip") == 1
    out, err = capsys.readouterr()
    assert out.startswith("2 stores, ")
    assert out.endswith("new events, 3 skipped\n")
    for name in ("damaged.db", "foreign.db", "newer.db"):
        assert f"skipped: {mixed_stores / name}" in err
    ingested = {path.parent.name.partition("=")[2] for path in (mixed_stores / "out" / "bronze").rglob("*.parquet")}
    assert ingested == {store_name(str(mixed_stores / name)) for name in ("range.db", "cooperative-sticky.db")}


@pytest.mark.parametrize(
    ("bad", "reason"),
    [("damaged", "is damaged"), ("foreign", "is not a store"), ("newer", "use a newer release of it")],
)
def test_a_bad_store_fails_the_ingest_and_no_store_counts_as_ingested(
    spark: SparkSession, mixed_stores: Path, capsys: Printed, bad: str, reason: str
) -> None:
    pattern = f"{mixed_stores}/range.db,{mixed_stores}/{bad}.db"
    assert regroup("pipeline", "ingest", pattern, mixed_stores / "out") == 2
    err = capsys.readouterr().err
    assert f"{mixed_stores}/{bad}.db" in err
    assert reason in err
    assert err.count("\n") == 1
    assert not list((mixed_stores / "out").rglob("*.json"))


def test_a_live_store_is_ingested_up_to_its_last_commit(spark: SparkSession, tmp_path: Path, capsys: Printed) -> None:
    path, records = tmp_path / "live.db", crash_history("range", 1)
    write_store(path, records[:20])
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("UPDATE events SET type = 'not-yet'")
    writer.execute("DELETE FROM events WHERE position > 15")
    assert regroup("pipeline", "ingest", path, tmp_path / "out") == 0
    assert capsys.readouterr().out == "1 store, 20 new events, 0 skipped\n"
    writer.execute("ROLLBACK")
    writer.close()
    assert ingest.read_bronze(spark, tmp_path / "out").where("type = 'not-yet'").count() == 0
    write_store(path, records[20:30])
    assert regroup("pipeline", "ingest", path, tmp_path / "out") == 0
    assert capsys.readouterr().out == "1 store, 10 new events, 0 skipped\n"


def test_show_prints_a_table_and_replay_prints_the_groups_of_each_store(built_tables: Path, capsys: Printed) -> None:
    assert regroup("pipeline", "show", built_tables / "out", "gaps", "--limit", 3) == 0
    assert "only showing top 3 rows" in capsys.readouterr().out
    assert regroup("pipeline", "replay", built_tables / "out") == 0
    groups = json.loads(capsys.readouterr().out)
    for path in built_tables.glob("runs/*.db"):
        assert regroup("replay", path) == 0
        assert groups[str(path)] == json.loads(capsys.readouterr().out)["groups"]
    assert len(groups) == 2


@pytest.mark.slow
def test_a_report_of_stores_has_a_command_for_each_of_the_worst(built_tables: Path, capsys: Printed) -> None:
    assert regroup("report", built_tables / "out") == 0
    page = Path(capsys.readouterr().out.strip()).read_text()
    assert "2 runs" in page
    lines = [shlex.split(unescape(line)) for line in re.findall(r"<code>(.*?)</code>", page)]
    assert {words[-1] for words in lines} == {str(path) for path in built_tables.glob("runs/*.db")}
    assert [main(words[1:]) for words in lines] == [0, 0]


def test_a_missing_step_is_named(built_tables: Path, tmp_path: Path, capsys: Printed) -> None:
    assert regroup("pipeline", "tables", tmp_path) == 2
    assert f"regroup pipeline ingest STORES {tmp_path}" in capsys.readouterr().err
    for words in (["pipeline", "replay"], ["report"]):
        assert regroup(*words, tmp_path) == 2
        assert f"regroup pipeline tables {tmp_path}" in capsys.readouterr().err
    assert regroup("pipeline", "show", built_tables / "out", "gap") == 2
    assert (
        f"unknown table 'gap'; tables in {built_tables / 'out'}: commits, fold_errors, gaps" in capsys.readouterr().err
    )
    assert regroup("pipeline", "show", built_tables / "out", "../bronze") == 2
    assert f"unknown table '../bronze'; tables in {built_tables / 'out'}: commits" in capsys.readouterr().err
    assert regroup("pipeline", "ingest", f"{tmp_path}/*.sqlite", tmp_path) == 2
    assert "No file matches" in capsys.readouterr().err


def test_a_limit_below_one_row_is_refused(tmp_path: Path, capsys: Printed) -> None:
    with pytest.raises(SystemExit):
        regroup("pipeline", "show", tmp_path, "gaps", "--limit", "-1")
    assert "invalid number of rows: '-1'; give a whole number of at least 1" in capsys.readouterr().err


def test_an_invalid_master_is_one_line_before_java_starts(tmp_path: Path, capsys: Printed) -> None:
    assert regroup("pipeline", "ingest", "runs.db", tmp_path / "out", "--master", "local[two]") == 2
    assert capsys.readouterr().err == (
        "regroup pipeline: invalid Spark master: 'local[two]'; use local[2], local[*], spark://host:7077, yarn or "
        "k8s://….\n"
    )


@pytest.mark.parametrize("setting", ["spark.ui.enabled", "ui.enabled=true"])
def test_a_setting_that_is_none_of_spark_is_refused(tmp_path: Path, capsys: Printed, setting: str) -> None:
    with pytest.raises(SystemExit):
        regroup("pipeline", "tables", tmp_path, "--conf", setting)
    assert f"invalid setting: {setting!r}; write spark.NAME=VALUE" in capsys.readouterr().err


def test_clean_removes_older_versions_without_spark(tmp_path: Path, capsys: Printed) -> None:
    assert regroup("pipeline", "clean", tmp_path) == 2
    assert f"no tables in {tmp_path}: regroup pipeline tables {tmp_path}" in capsys.readouterr().err
    prepare_folder(tmp_path)
    for name in ("version-000001-a", "version-000002-b"):
        (tmp_path / "tables" / name / "gaps").mkdir(parents=True)
        (tmp_path / "tables" / name / "gaps" / "part-00000.parquet").touch()
    make_current(tmp_path, TablesVersion("version-000002-b", "", ("gaps",)))
    assert regroup("pipeline", "clean", tmp_path, "--master", "no such master") == 0
    assert capsys.readouterr().out == "removed version-000001-a\n1 older version removed\n"


def test_clean_removes_nothing_if_the_current_version_is_gone(tmp_path: Path, capsys: Printed) -> None:
    prepare_folder(tmp_path)
    old, current = (tmp_path / "tables" / name for name in ("version-000001-a", "version-000002-b"))
    old.mkdir(parents=True)
    (current / "gaps").mkdir(parents=True)
    (current / "gaps" / "part-00000.parquet").touch()
    make_current(tmp_path, TablesVersion(current.name, "", ("gaps",)))
    shutil.rmtree(current)
    assert regroup("pipeline", "clean", tmp_path) == 2
    assert capsys.readouterr().err == f"regroup pipeline: {current} is missing: regroup pipeline tables {tmp_path}\n"
    assert old.is_dir()


def test_clean_names_a_version_that_it_cannot_remove(
    tmp_path: Path, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare_folder(tmp_path)
    names = ("version-000001-a", "version-000002-b", "version-000003-c")
    for name in names:
        (tmp_path / "tables" / name / "gaps").mkdir(parents=True)
        (tmp_path / "tables" / name / "gaps" / f"{name}.parquet").touch()
    make_current(tmp_path, TablesVersion(names[2], "", ("gaps",)))
    unlink = os.unlink

    def unlink_all_but_one(path: str, *, dir_fd: int | None = None) -> None:
        if f"{names[0]}.parquet" in os.fspath(path):
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), path)
        unlink(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", unlink_all_but_one)
    assert regroup("pipeline", "clean", tmp_path) == 2
    printed = capsys.readouterr()
    assert printed.out == f"removed {names[1]}\n"
    assert f"{tmp_path}/tables/{names[0]} cannot be removed: Operation not permitted" in printed.err
    assert (tmp_path / "tables" / names[0]).is_dir()


def test_stores_that_were_ingested_without_events_are_said_to_have_none(
    spark: SparkSession, tmp_path: Path, capsys: Printed
) -> None:
    write_store(tmp_path / "empty.db", ())
    assert regroup("pipeline", "ingest", tmp_path / "empty.db", tmp_path / "out") == 0
    assert capsys.readouterr().out == "1 store, 0 new events, 0 skipped\n"
    assert regroup("pipeline", "tables", tmp_path / "out", "--master", "no such master") == 2
    assert "the ingested stores have no events" in capsys.readouterr().err


def test_without_the_packages_for_spark_the_error_says_what_to_install(
    tmp_path: Path, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "find_spec", lambda name: None)
    assert regroup("pipeline", "ingest", "runs.db", tmp_path) == 2
    assert "pyspark, pyarrow, pandas not installed: pip install pyspark pyarrow 'pandas<3' " in capsys.readouterr().err


def test_no_command_imports_spark_before_it_runs() -> None:
    program = f"""
import importlib, sys
for name in {[command.add_arguments.partition(":")[0] for command in COMMANDS.values()]}:
    importlib.import_module(name)
print([name for name in ("pyspark", "py4j", "pyarrow", "pandas", "regroup.pipeline") if name in sys.modules])
"""
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert output == "[]\n"


def test_without_java_the_error_says_what_to_install(
    tmp_path: Path, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "pip_java", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert regroup("pipeline", "ingest", "runs.db", tmp_path) == 2
    err = capsys.readouterr().err
    assert err.startswith("regroup pipeline: There is no Java, and Spark needs one: install Java 17 or newer, or `pip")
    assert err.count("\n") == 1


@pytest.mark.slow
def test_a_campaign_simulates_only_what_is_missing(spark: SparkSession, tmp_path: Path, capsys: Printed) -> None:
    plan, out = tmp_path / "plan.yaml", tmp_path / "out"
    plan.write_text(PLAN)
    assert regroup("campaign", plan, out) == 0
    assert capsys.readouterr().out.startswith("2 runs of 1 cells; 2 simulated now, ")
    assert regroup("campaign", plan, out) == 0
    assert capsys.readouterr().out == "2 runs of 1 cells; 0 simulated now\n"
    assert regroup("pipeline", "show", out, "runs") == 0
    assert capsys.readouterr().out.count("assignor=range,seed=") == 2
    plan.write_text(PLAN.replace("seeds: 2", "seeds: 3"))
    assert regroup("campaign", plan, out) == 0
    assert capsys.readouterr().out.startswith("3 runs of 1 cells; 1 simulated now, ")
    plan.write_text(PLAN.replace("range", "cooperative-sticky"))
    assert regroup("campaign", plan, out, "--master", "no such master") == 2
    assert "holds another campaign (Does it end?): choose another folder" in capsys.readouterr().err


def test_a_file_in_place_of_a_campaigns_folder_is_refused(tmp_path: Path, capsys: Printed) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN)
    for folder in (plan, plan / "below"):
        assert regroup("campaign", plan, folder, "--master", "no such master") == 2
        assert f"{folder} cannot be a folder, since a file is in the way" in capsys.readouterr().err


def test_one_run_of_a_campaign_is_replayed_into_a_store(tmp_path: Path, capsys: Printed) -> None:
    plan, store = tmp_path / "plan.yaml", tmp_path / "run.db"
    plan.write_text(PLAN)
    again = ("campaign", plan, "--only", "assignor=range,seed=1", "--store", store)
    assert regroup(*again) == 0
    assert "removals 1" in capsys.readouterr().out
    assert regroup("verify", store) == 0
    capsys.readouterr()
    assert regroup("exchanges", store, "--api", "Heartbeat") == 0
    assert "Heartbeat" in capsys.readouterr().out
    assert regroup(*again) == 2
    assert f"{store}: the file exists; name a new file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("scenario: crashes", "scenario: crash", "unknown scenario 'crash'; scenarios: rolling-restart, crashes"),
        ("members: 2", "member: 2", "unknown option 'member'; options: members"),
        ("members: 2", "members: two", "members takes a whole number, not 'two'"),
        ("seeds: 2", "seeds: 0", "seeds must be at least 1"),
        ("question: Does it end?", "", "missing required field `question`"),
        ("grid: {assignor: [range]}", "grid: {assignor: [range", "expected ',' or ']'"),
    ],
)
def test_an_invalid_campaign_is_refused_before_spark_starts(
    tmp_path: Path, capsys: Printed, right: str, wrong: str, message: str
) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN.replace(right, wrong))
    assert regroup("campaign", plan, tmp_path / "out", "--master", "no such master") == 2
    assert message in capsys.readouterr().err


def test_a_missing_campaign_file_is_named(tmp_path: Path, capsys: Printed) -> None:
    assert regroup("campaign", tmp_path / "none.yaml", tmp_path) == 2
    assert "none.yaml cannot be read: No such file or directory" in capsys.readouterr().err


def test_a_campaign_does_not_run_without_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Printed
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.yaml").write_text(PLAN)
    assert regroup("campaign", "plan.yaml") == 2
    assert "2 runs would be simulated: name the folder" in capsys.readouterr().err
    assert [each.name for each in tmp_path.iterdir()] == ["plan.yaml"]


def test_a_failed_ingest_leaves_no_folder_behind(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        ingest.ingest(spark, str(tmp_path / "nofile*.db"), tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_a_failed_ingest_keeps_a_folder_that_was_there(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(StoreError):
        ingest.ingest(spark, str(tmp_path / "nofile*.db"), tmp_path / "out")
    assert (tmp_path / "out").is_dir()
