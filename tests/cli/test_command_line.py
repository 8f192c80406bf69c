"""What `regroup` says of itself."""

import re

import pytest

from regroup.cli.main import COMMANDS, main


def said_by(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error."""
    try:
        code = main(words)
    except SystemExit as end:
        code = int(end.code or 0)
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.mark.parametrize("words", [(), ("--help",)])
def test_help_names_every_command(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = said_by(capsys, *words)
    assert (code, err) == (0, "")
    for name, command in COMMANDS.items():
        assert re.search(rf"^    {name}\s+{re.escape(command.help[:30])}", out, re.MULTILINE), name


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_every_command_has_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = said_by(capsys, name, "--help")
    assert code == 0
    assert re.search(rf"^ *regroup {name}\b", out.partition("\n\n")[2], re.MULTILINE)


@pytest.mark.parametrize(
    ("name", "told"),
    [("serve", "the death of this process (default: disk)"), ("serve", "standard error looks (default: text)"),
     ("events", "for programs (default: text)"), ("members", "without offsets (default: latest)")],
)  # fmt: skip
def test_a_choice_says_what_is_taken_if_nothing_is_said(
    name: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = said_by(capsys, name, "--help")
    assert told in " ".join(out.split())


@pytest.mark.parametrize("words", [("nonsense",), ("verify",), ("replay", "groups.db", "--at", "noon")])
def test_a_mistake_ends_with_2_and_a_hint(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = said_by(capsys, *words)
    assert (code, out) == (2, "")
    assert re.search(r"^Try `regroup( \w+)? --help`\.$", err, re.MULTILINE)
    assert len(err.splitlines()) == 2
