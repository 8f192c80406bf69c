"""An error of Spark becomes one line that says what to do. No test needs Spark."""

import errno
import signal
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from regroup.cli.jobs import CannotRun
from regroup.cli.spark import session
from regroup.cli.spark.errors import spark_message

TRACE = """An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "worker.py", line 1, in main
regroup.storage.errors.StoreDamaged: /runs/a.db is damaged (*** in database main ***
Tree 13 page 13). Restore it from a copy.

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:581)
"""
READING = (
    "An error occurred while calling o5.parquet.\n: org.apache.spark.SparkException: [{kind}] Encountered error while "
)
READING += "reading file {file}.{more} SQLSTATE: KD001\n\tat org.apache.spark.sql.errors.QueryExecutionErrors$"
NO_SPACE = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "pyarrow/error.pxi", line 92, in pyarrow.lib.check_status
OSError: [Errno 28] Error writing bytes to file. Detail: [errno 28] No space left on device
"""


def test_the_message_of_our_own_error_stands_without_the_traces_around_it() -> None:
    assert spark_message(TRACE) == (
        "/runs/a.db is damaged (*** in database main *** Tree 13 page 13). Restore it from a copy."
    )


@pytest.mark.parametrize(
    ("place", "remedy"),
    [
        ("tables/version-000001-a/lag/part-0.parquet", "regroup pipeline tables {out} --full"),
        ("bronze/store=a/block-000000.parquet", "regroup pipeline ingest STORES into a new folder."),
        ("exchanges/store=a/blocks-000000.parquet", "regroup pipeline ingest STORES into a new folder."),
        ("runs/chunk-00000000.parquet", "regroup campaign PLAN into a new folder."),
    ],
)
@pytest.mark.parametrize("slashes", ["/", "///"])
@pytest.mark.parametrize(
    ("kind", "more"),
    [("FAILED_READ_FILE.NO_HINT", " "), ("FAILED_READ_FILE.CANNOT_READ_FILE_FOOTER", " Could not read footer.")],
)
def test_a_damaged_file_is_named_with_the_command_that_makes_it_again(
    tmp_path: Path, place: str, remedy: str, slashes: str, kind: str, more: str
) -> None:
    out = tmp_path / "out put"
    file = f"file:{slashes}{str(out / place)[1:]}"
    found = spark_message(READING.format(kind=kind, file=file, more=more), out)
    assert found == f"{out / place} is damaged: {remedy.format(out=out)}"


def test_a_missing_folder_of_the_tables_is_named_with_the_command_that_builds_them(tmp_path: Path) -> None:
    text = f"[PATH_NOT_FOUND] Path does not exist: file:{tmp_path}/tables/version-000001-a/gaps. SQLSTATE: 42K03"
    assert spark_message(text, tmp_path) == (
        f"{tmp_path}/tables/version-000001-a/gaps is missing: regroup pipeline tables {tmp_path}"
    )


def test_a_full_disk_is_one_line() -> None:
    assert spark_message(NO_SPACE, "out") == (
        "no space left on the disk of out or of Spark's temporary files: free some space, and run the command again."
    )
    assert spark_message("java.io.IOException: No space left on device\n\tat java.base").startswith("no space left on")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("KeyError: 'unexpected'\n\tat org.apache.spark.Task", "KeyError: 'unexpected'"),
        (
            "An error occurred while calling o5.count.\n: org.apache.spark.SparkException: Job aborted.\n\tat java",
            "Job aborted.",
        ),
        (
            "Thrown:\nTraceback (most recent call last):\n  File 'a', line 1, in b\n    c()\nValueError: d\n"
            "\n\tat org.apache.spark.Task",
            "ValueError: d",
        ),
        ("", "Spark ended with an error without a message."),
    ],
)
def test_any_other_error_is_its_first_line_that_says_something(text: str, line: str) -> None:
    assert spark_message(text) == line


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(errno.ENOSPC, "Error writing bytes to file. Detail: No space left on device"), "no space left on the"),
        (OSError(errno.EIO, "Error reading bytes"), "Error reading bytes"),
        (
            PermissionError(errno.EACCES, "Permission denied", "out/format"),
            "out/format cannot be used: Permission denied.",
        ),
    ],
)
def test_an_error_of_a_file_in_this_process_is_one_line(
    monkeypatch: pytest.MonkeyPatch, error: OSError, message: str
) -> None:
    def fails(*_: object) -> object:
        raise error

    monkeypatch.setattr(session, "interruptible_session", fails)
    args = Namespace(command="pipeline", folder="out", master=None, conf=[])
    with pytest.raises(CannotRun, match=f"^{message}"):
        session.run_on_spark(args, lambda *_: 0, when_stopped="")


@pytest.mark.parametrize(
    "error", [BrokenPipeError(errno.EPIPE, "Broken pipe"), OSError(errno.ENOSPC, "No space left on device")]
)
def test_an_error_of_the_output_is_left_to_the_command_line(monkeypatch: pytest.MonkeyPatch, error: OSError) -> None:
    def fails(*_: object) -> object:
        raise error

    monkeypatch.setattr(session, "interruptible_session", fails)
    with pytest.raises(type(error)):
        session.run_on_spark(Namespace(folder="out", master=None, conf=[]), lambda *_: 0, when_stopped="")


@contextmanager
def started_session(*_: object, **__: object) -> Iterator[None]:
    """What stands for the session of Spark."""
    yield


def test_after_ctrl_c_an_error_of_java_or_of_a_task_is_the_interrupt(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> int:
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        raise OSError("the Java process of Hadoop's connector does not answer")

    monkeypatch.setattr(session, "spark_session", started_session)
    args = Namespace(command="pipeline", folder="out", master=None, conf=[])
    assert session.run_on_spark(args, interrupted, when_stopped="stopped") == 130
    assert capsys.readouterr().err == "regroup pipeline: stopped\n"


def test_without_ctrl_c_an_error_stays_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "spark_session", started_session)
    with pytest.raises(OSError, match="no such folder"), session.interruptible_session(None, {}):
        raise OSError("no such folder")
