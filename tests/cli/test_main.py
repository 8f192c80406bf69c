"""The command line as a whole: the tour, the help of each command, mistakes, and renamed commands."""

import re
import subprocess
import sys

import pytest

from regroup.cli.main import COMMANDS, main
from tests.cli.conftest import RunCommand


@pytest.mark.parametrize("words", [(), ("--help",)])
def test_help_names_every_command(words: tuple[str, ...], run_command: RunCommand) -> None:
    code, out, err = run_command(*words)
    assert (code, err) == (0, "")
    for name, command in COMMANDS.items():
        assert re.search(rf"^    {name}\s+{re.escape(command.help[:30])}", out, re.MULTILINE), name


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_every_command_has_an_example(name: str, run_command: RunCommand) -> None:
    code, out, _ = run_command(name, "--help")
    assert code == 0
    assert re.search(rf"^ *regroup {name}\b", out.partition("\n\n")[2], re.MULTILINE)


@pytest.mark.parametrize(
    ("name", "default"),
    [("serve", "a crash of this process (default: disk)"), ("serve", "standard error looks (default: text)"),
     ("events", "for programs (default: text)"), ("members", "without offsets (default: latest)")],
)  # fmt: skip
def test_a_choice_shows_its_default(name: str, default: str, run_command: RunCommand) -> None:
    assert default in " ".join(run_command(name, "--help").out.split())


@pytest.mark.parametrize("words", [("nonsense",), ("verify",), ("replay", "groups.db", "--at", "noon")])
def test_a_mistake_ends_with_2_and_a_hint(words: tuple[str, ...], run_command: RunCommand) -> None:
    code, out, err = run_command(*words)
    assert (code, out) == (2, "")
    assert re.search(r"^Try `regroup( \w+)? --help`\.$", err, re.MULTILINE)
    assert len(err.splitlines()) == 2


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("chaos zoo --bug two-leaders --seeds 50", "chaos: `regroup chaos zoo` is now `regroup chaos bugs`"),
        ("members --group g --habit 2:crash", "members: `regroup members --habit` is now `regroup members --fault`"),
        ("members --habit=2:crash", "members: `regroup members --habit` is now `regroup members --fault`"),
    ],
)
def test_an_old_command_or_option_is_answered_with_the_new_one(words: str, says: str, run_command: RunCommand) -> None:
    assert run_command(*words.split()) == (2, "", f"regroup {says}\n")


def test_a_missing_package_is_named_with_the_command_that_installs_it(
    run_command: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regroup.cli.jobs.find_spec", lambda name: None)
    code, out, err = run_command("demo")
    assert (code, out) == (2, "")
    assert err == "regroup demo: confluent_kafka not installed: pip install confluent-kafka\n"


@pytest.mark.parametrize("module", ["regroup", "regroup.cli"])
def test_the_package_can_be_run_as_a_module(module: str) -> None:
    done = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"regroup 0\.\d+\.\d+\S*\n", done.stdout)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["sevre"], "unknown command: 'sevre'; did you mean serve?"),
        (["chaos", "rnu"], "unknown command: 'rnu'; did you mean run?"),
        (["serve", "--log-level", "debgu"], "unknown --log-level: 'debgu'; did you mean debug?"),
        (["xyzzy"], "unknown command: 'xyzzy'; known are demo, serve, events"),
    ],
)
def test_a_misspelt_word_is_answered_with_the_one_that_was_meant(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert says in capsys.readouterr().err


def test_an_unknown_argument_names_the_help_of_its_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["pipeline", "show", "out", "lag", "--columns", "foo"])
    assert capsys.readouterr().err == (
        "regroup pipeline show: unrecognized arguments: --columns foo\nTry `regroup pipeline show --help`.\n"
    )
