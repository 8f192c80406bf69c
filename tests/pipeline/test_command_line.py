"""`regroup pipeline`, `regroup campaign` and `regroup report`, as they are typed."""

import json
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

from regroup.cli.main import COMMANDS, main
from regroup.cli.spark import arguments
from regroup.cli.spark.session import tell
from regroup.pipeline.bronze import ingest
from regroup.pipeline.spark import java
from tests.pipeline.histories import crashes_of, spoil, write_store

Printed = pytest.CaptureFixture[str]

PLAN = """\
question: Does it end?
scenario: crashes
seeds: 2
grid: {assignor: [range]}
fixed: {members: 2, partitions: 3, crashes: 1, session_timeout_ms: 6000}
"""

TRACE = """An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "worker.py", line 1, in main
regroup.storage.errors.StoreIsDamaged: /runs/a.db is damaged (*** in database main ***
Tree 13 page 13). Restore it from a copy.

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:581)
"""


def regroup(*words: object) -> int:
    return main([str(word) for word in words])


@pytest.fixture
def among_many(stores: Path, tmp_path: Path) -> Path:
    """Two good stores, a damaged one, a file that is no store, and one of a newer regroup."""
    for name in ("range.db", "cooperative-sticky.db"):
        shutil.copy(stores / name, tmp_path)
    spoil(Path(shutil.copy(stores / "range.db", tmp_path / "damaged.db")))
    (tmp_path / "foreign.db").write_text("not a store, but long enough to have a header if it were one " * 3)
    with sqlite3.connect(shutil.copy(stores / "range.db", tmp_path / "newer.db")) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    return tmp_path


def test_bad_stores_among_many_are_named_and_left_out(spark: SparkSession, among_many: Path, capsys: Printed) -> None:
    assert regroup("pipeline", "ingest", f"{among_many}/*.db", among_many / "out", "--on-error", "skip") == 1
    out, err = capsys.readouterr()
    assert out.startswith("2 stores, ")
    assert out.endswith("new events, 3 skipped\n")
    for name in ("damaged.db", "foreign.db", "newer.db"):
        assert f"skipped: {among_many / name}" in err
    taken = {path.parent.name.partition("=")[2] for path in (among_many / "out" / "bronze").rglob("*.parquet")}
    assert taken == {ingest.name_of(str(among_many / name)) for name in ("range.db", "cooperative-sticky.db")}


@pytest.mark.parametrize(
    ("bad", "why"), [("damaged", "is damaged"), ("foreign", "is not a store"), ("newer", "use a newer release of it")]
)
def test_a_bad_store_fails_the_whole_ingest_and_nothing_counts_as_taken_in(
    spark: SparkSession, among_many: Path, capsys: Printed, bad: str, why: str
) -> None:
    pattern = f"{among_many}/range.db,{among_many}/{bad}.db"
    assert regroup("pipeline", "ingest", pattern, among_many / "out") == 2
    err = capsys.readouterr().err
    assert f"{among_many}/{bad}.db" in err
    assert why in err
    assert err.count("\n") == 1
    assert not list((among_many / "out").rglob("*.json"))


def test_a_live_store_is_taken_in_up_to_its_last_commit(spark: SparkSession, tmp_path: Path, capsys: Printed) -> None:
    path, records = tmp_path / "live.db", crashes_of("range", 1)
    write_store(path, records[:20])
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("UPDATE events SET type = 'not-yet'")
    writer.execute("DELETE FROM events WHERE position > 15")
    assert regroup("pipeline", "ingest", path, tmp_path / "out") == 0
    assert capsys.readouterr().out == "1 store, 20 new events, 0 skipped\n"
    writer.execute("ROLLBACK")
    writer.close()
    assert ingest.events(spark, tmp_path / "out").where("type = 'not-yet'").count() == 0
    write_store(path, records[20:30])
    assert regroup("pipeline", "ingest", path, tmp_path / "out") == 0
    assert capsys.readouterr().out == "1 store, 10 new events, 0 skipped\n"


def test_the_tables_are_shown_and_the_last_states_are_those_of_replay(built: Path, capsys: Printed) -> None:
    assert regroup("pipeline", "show", built / "out", "gaps", "--limit", 3) == 0
    assert "only showing top 3 rows" in capsys.readouterr().out
    assert regroup("pipeline", "replay", built / "out") == 0
    told = json.loads(capsys.readouterr().out)
    for path in built.glob("runs/*.db"):
        assert regroup("replay", path) == 0
        assert told[ingest.name_of(str(path))] == json.loads(capsys.readouterr().out)["groups"]
    assert len(told) == 2


@pytest.mark.slow
def test_a_report_of_stores_says_how_each_of_the_worst_is_looked_at(built: Path, capsys: Printed) -> None:
    assert regroup("report", built / "out") == 0
    page = Path(capsys.readouterr().out.strip()).read_text()
    assert "2 runs" in page
    lines = [shlex.split(unescape(line)) for line in re.findall(r"<code>(.*?)</code>", page)]
    assert {words[-1] for words in lines} == {str(path) for path in built.glob("runs/*.db")}
    assert [main(words[1:]) for words in lines] == [0, 0]


def test_what_has_to_be_done_first_is_said(built: Path, tmp_path: Path, capsys: Printed) -> None:
    assert regroup("pipeline", "tables", tmp_path) == 2
    assert f"regroup pipeline ingest STORES {tmp_path}" in capsys.readouterr().err
    for words in (["pipeline", "replay"], ["report"]):
        assert regroup(*words, tmp_path) == 2
        assert f"regroup pipeline tables {tmp_path}" in capsys.readouterr().err
    assert regroup("pipeline", "show", built / "out", "gap") == 2
    assert "there is no table 'gap'; there are commits, faults, gaps" in capsys.readouterr().err
    assert regroup("pipeline", "show", built / "out", "../bronze") == 2
    assert "there is no table '../bronze'; there are commits" in capsys.readouterr().err
    assert regroup("pipeline", "ingest", f"{tmp_path}/*.sqlite", tmp_path) == 2
    assert "No file matches" in capsys.readouterr().err


def test_no_rows_cannot_be_shown(tmp_path: Path, capsys: Printed) -> None:
    with pytest.raises(SystemExit):
        regroup("pipeline", "show", tmp_path, "gaps", "--limit", "-1")
    assert "it is a number of rows, at least 1, not -1" in capsys.readouterr().err


def test_a_master_that_cannot_be_is_told_in_one_sentence_before_java_starts(tmp_path: Path, capsys: Printed) -> None:
    assert regroup("pipeline", "ingest", "runs.db", tmp_path / "out", "--master", "local[two]") == 2
    assert capsys.readouterr().err == (
        "regroup pipeline: There is no Spark at 'local[two]': give local[2], local[*], spark://host:7077, yarn or "
        "k8s://….\n"
    )


def test_of_a_trace_through_two_languages_the_one_sentence_for_people_is_told(capsys: Printed) -> None:
    tell("pipeline", TRACE)
    assert capsys.readouterr().err == (
        "regroup pipeline: /runs/a.db is damaged (*** in database main *** Tree 13 page 13). Restore it from a copy.\n"
    )
    tell("pipeline", "KeyError: 'nobody foresaw it'\n\tat org.apache.spark.Task")
    assert capsys.readouterr().err == "regroup pipeline: KeyError: 'nobody foresaw it'\n\tat org.apache.spark.Task\n"


def test_without_sparks_packages_it_is_said_what_to_install(
    tmp_path: Path, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arguments, "find_spec", lambda name: None)
    assert regroup("pipeline", "ingest", "runs.db", tmp_path) == 2
    assert "pyspark, pyarrow, pandas not installed: pip install 'kafka-regroup[spark]'" in capsys.readouterr().err


def test_no_command_loads_anything_of_spark_before_it_runs() -> None:
    program = f"""
import importlib, sys
for name in {[command.module for command in COMMANDS.values()]}:
    importlib.import_module(name)
print([name for name in ("pyspark", "py4j", "pyarrow", "pandas", "regroup.pipeline") if name in sys.modules])
"""
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said == "[]\n"


def test_without_java_it_is_said_what_to_install(
    tmp_path: Path, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "java_by_pip", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert regroup("pipeline", "ingest", "runs.db", tmp_path) == 2
    err = capsys.readouterr().err
    assert err.startswith("regroup pipeline: There is no Java, and Spark needs one: install Java 17 or newer, or `pip")
    assert err.count("\n") == 1


def test_a_campaign_is_simulated_once_and_then_only_what_is_missing(
    spark: SparkSession, tmp_path: Path, capsys: Printed
) -> None:
    plan, out = tmp_path / "plan.yaml", tmp_path / "out"
    plan.write_text(PLAN)
    assert regroup("campaign", plan, out) == 0
    assert capsys.readouterr().out.startswith("2 runs of 1 cells; 2 played now, ")
    assert regroup("campaign", plan, out) == 0
    assert capsys.readouterr().out == "2 runs of 1 cells; 0 played now\n"
    assert regroup("pipeline", "show", out, "runs") == 0
    assert capsys.readouterr().out.count("assignor=range,seed=") == 2
    plan.write_text(PLAN.replace("seeds: 2", "seeds: 3"))
    assert regroup("campaign", plan, out) == 0
    assert capsys.readouterr().out.startswith("3 runs of 1 cells; 1 played now, ")
    plan.write_text(PLAN.replace("range", "cooperative-sticky"))
    assert regroup("campaign", plan, out, "--master", "no such master") == 2
    assert "holds another campaign (Does it end?): choose another folder" in capsys.readouterr().err


def test_a_campaign_cannot_be_kept_in_a_file(tmp_path: Path, capsys: Printed) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN)
    for folder in (plan, plan / "below"):
        assert regroup("campaign", plan, folder, "--master", "no such master") == 2
        assert f"{folder} cannot be a folder, since a file is in the way" in capsys.readouterr().err


def test_one_run_of_a_campaign_is_played_into_a_store_of_its_own(tmp_path: Path, capsys: Printed) -> None:
    plan, store = tmp_path / "plan.yaml", tmp_path / "run.db"
    plan.write_text(PLAN)
    again = ("campaign", plan, "--only", "assignor=range,seed=1", "--store", store)
    assert regroup(*again) == 0
    assert "expulsions 1" in capsys.readouterr().out
    assert regroup("verify", store) == 0
    assert regroup(*again) == 2
    assert f"{store} is there already: name a new file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("wrong", "right", "said"),
    [
        ("scenario: crashes", "scenario: crash", "there is no scenario 'crash'; there are rolling-restart, crashes"),
        ("members: 2", "member: 2", "no scenario has an option 'member'; there are members"),
        ("members: 2", "members: two", "members takes a whole number, not 'two'"),
        ("seeds: 2", "seeds: 0", "seeds must be at least 1"),
        ("question: Does it end?", "", "missing required field `question`"),
        ("grid: {assignor: [range]}", "grid: {assignor: [range", "expected ',' or ']'"),
    ],
)
def test_a_plan_that_cannot_be_meant_is_told_before_spark_starts(
    tmp_path: Path, capsys: Printed, wrong: str, right: str, said: str
) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN.replace(wrong, right))
    assert regroup("campaign", plan, tmp_path / "out", "--master", "no such master") == 2
    assert said in capsys.readouterr().err


def test_a_plan_that_is_not_there_is_told(tmp_path: Path, capsys: Printed) -> None:
    assert regroup("campaign", tmp_path / "none.yaml", tmp_path) == 2
    assert "none.yaml cannot be read: No such file or directory" in capsys.readouterr().err
