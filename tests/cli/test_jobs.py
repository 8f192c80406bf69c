"""Jobs: every command names one that exists, and the errors that a person can correct become one line."""

import inspect
from argparse import Namespace
from pathlib import Path

import pytest

from regroup.cli.jobs import FILE_ERRORS, CannotRun, cannot_run_after, run_job
from regroup.cli.main import COMMANDS, build_parser, main
from regroup.cli.terminal.arguments import load
from regroup.coordinator.settings import InvalidSetting
from regroup.storage.errors import NotAStore, StoreDamaged

ARGUMENTS = {
    "events": [["g.db"]],
    "replay": [["g.db"]],
    "verify": [["g.db"]],
    "trim": [["g.db", "--before", "2"]],
    "exchanges": [["g.db"], ["g.db", "--from", "12:00", "--json"]],
    "why": [["g.db", "--group", "g"]],
    "story": [["g.db"], ["g.db", "--group", "g"]],
    "export": [["g.db", "--group", "g", "--svg"]],
    "view": [["g.db"], ["g.db", "other.db", "--group", "g"]],
    "step": [["g.db"], ["g.db", "--at", "120"]],
    "copy": [["g.db", "copy.db"]],
    "members": [["--bootstrap", "127.0.0.1:9092", "--group", "g", "--topic", "t"]],
    "watch": [["--mqtt", "mqtt://localhost"]],
    "chaos": [["run"], ["hunt"], ["list"], ["bugs"]],
    "assign": [["cases.jsonl"], ["--records", "records.txt"]],
    "pipeline": [["ingest", "*.db", "out"], ["tables", "out"], ["show", "out", "gaps"], ["replay", "out"]],
    "campaign": [["plan.yaml"]],
    "report": [["out"]],
}


@pytest.mark.parametrize(
    "words", [(name, *words) for name in COMMANDS for words in ARGUMENTS.get(name, [[]])], ids=" ".join
)
def test_every_command_names_a_job_that_exists(words: tuple[str, ...]) -> None:
    job = load(build_parser(words).parse_args(words).job)
    assert list(inspect.signature(job).parameters) == ["args"]


def fail(args: Namespace) -> int:
    raise args.error


@pytest.mark.parametrize(
    "error", [CannotRun("it is broken"), InvalidSetting("it is broken"), NotAStore("it is broken")]
)
def test_an_expected_error_is_one_line_and_ends_with_2(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_job(Namespace(command="verify", job=f"{__name__}:fail", error=error)) == 2
    assert capsys.readouterr() == ("", "regroup verify: it is broken\n")


@pytest.mark.parametrize("during", ["regroup.cli.main.build_parser", "regroup.cli.jobs.run_job"])
def test_an_interrupt_ends_with_130(
    during: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that comes while the modules of the command are imported."""

    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(during, interrupted)
    assert main(["verify", "g.db"]) == 130
    assert capsys.readouterr() == ("", "")


def test_damage_is_reported_with_the_name_of_the_store(capsys: pytest.CaptureFixture[str]) -> None:
    error = StoreDamaged("Record 100 is damaged.")
    assert run_job(Namespace(command="events", job=f"{__name__}:fail", error=error, store=Path("g.db"))) == 2
    assert capsys.readouterr().err == "regroup events: g.db: Record 100 is damaged.\n"


def test_any_other_error_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        run_job(Namespace(command="verify", job=f"{__name__}:fail", error=ZeroDivisionError()))


def test_the_errors_that_a_job_expects_say_why_it_cannot_run() -> None:
    job = cannot_run_after(ValueError, *FILE_ERRORS)(fail)
    with pytest.raises(CannotRun, match=r"^no such plan$"):
        job(Namespace(error=ValueError("no such plan")))
    with pytest.raises(CannotRun, match=r"^plan\.yaml: No such file or directory$"):
        job(Namespace(error=FileNotFoundError(2, "No such file or directory", "plan.yaml")))
    with pytest.raises(LookupError):
        job(Namespace(error=LookupError()))
