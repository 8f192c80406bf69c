"""What the README and the documents show is what the commands print, and every command in them exists."""

import argparse
import re
import shlex
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from textwrap import indent

import pytest

from regroup.cli.main import COMMANDS, build_parser
from regroup.cli.terminal.arguments import load
from regroup.lab.plan.scenario_files import scenario_names
from tests.make_docs.blocks import DOCUMENTS, ROOT, BlockOptions, blocks_of, made_parts
from tests.make_docs.pictures import PICTURES
from tests.make_docs.tables import MAKERS
from tests.make_docs.transcripts import normalised, shell


def with_slow_ones(path: Path) -> bool:
    return any(block.options.is_slow for block in blocks_of(path.read_text(encoding="utf-8")))


def check(path: Path, *, slow: bool) -> None:
    """Run the blocks; those that are slow only if `slow`. They are in one shell: later ones build on earlier ones."""
    if "$ curl " in path.read_text(encoding="utf-8") and shutil.which("curl") is None:
        pytest.skip("needs curl")
    with shell() as typed:
        for block in blocks_of(path.read_text(encoding="utf-8")):
            if block.options.is_slow and not slow:
                continue
            now, as_shape = typed.transcript(block), block.options.is_shape
            assert normalised(block.content, as_shape=as_shape) == normalised(now, as_shape=as_shape), (
                f"{path.name} shows another output; `make docs` writes it anew"
            )


WITH_BLOCKS = [path for path in DOCUMENTS if list(blocks_of(path.read_text(encoding="utf-8")))]


@pytest.mark.quick("[README.md]", "[testing.md]")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("path", WITH_BLOCKS, ids=lambda path: path.name)
def test_commands_print_what_the_document_shows(path: Path) -> None:
    check(path, slow=False)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("path", [path for path in DOCUMENTS if with_slow_ones(path)], ids=lambda path: path.name)
def test_slow_commands_print_what_the_document_shows(path: Path) -> None:
    check(path, slow=True)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_tables_from_the_code_are_up_to_date(path: Path) -> None:
    for name, content, _ in made_parts(path.read_text(encoding="utf-8")):
        assert content == f"\n{MAKERS[name]()}\n", f"{path.name}: {name} has changed; `make docs` writes it anew"


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.name)
def test_pictures_from_simulations_are_up_to_date(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == PICTURES[path](), f"{path.name} has changed; `make docs` draws it again"


def test_an_unknown_option_of_a_block_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown option of a block: fast"):
        BlockOptions.parse("slow fast")


# -- commands that are shown without being run

EXAMPLES = {
    "HOST:PORT": "localhost:9092",
    "NAME|FILE": "first-join",
    "STORE": "regroup.db",
    "FILE": "file",
    "TO": "file",
    "N-M": "1-2",
    "POSITION": "7",
}
"""What stands for the words in capitals of an example."""


def typed_commands(text: str) -> Iterator[str]:
    """The lines of a text that call `regroup`, without comments and without what follows a pipe."""
    for line in text.replace("\\\n", " ").splitlines():
        match = re.match(r"(?:\s*\$ |  +)(?:\.venv/bin/)?(regroup (?!\.)[a-z-]+ .*|regroup --\w+)$", line)
        if match:
            command = re.split(r"  +\S|\s#|\s\||\s&&|\s&$|\s>|`", match[1])[0].strip()
            yield re.sub("|".join(map(re.escape, EXAMPLES)), lambda word: EXAMPLES[word[0]], command)


def help_texts() -> Iterator[tuple[str, str]]:
    """The help of every command and of what is below it."""
    yield "regroup", build_parser([]).format_help()
    for name, command in COMMANDS.items():
        parser = argparse.ArgumentParser(prog=name, formatter_class=argparse.RawDescriptionHelpFormatter)
        load(command.add_arguments)(parser)
        yield name, parser.format_help()
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                for what, subparser in action.choices.items():
                    yield f"{name} {what}", subparser.description or ""


COMMANDS_SHOWN = sorted(
    {
        (where, command)
        for where, text in (
            *((path.name, re.sub(r"<!-- made:.*?<!-- end of", "", path.read_text("utf-8"))) for path in DOCUMENTS),
            *((where, indent(text, "  ")) for where, text in help_texts()),
        )
        for command in typed_commands(text)
    }
)


@pytest.mark.parametrize(("where", "command"), COMMANDS_SHOWN)
def test_every_command_that_is_shown_can_be_typed(where: str, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(command)[1:]
    code: object = 0
    try:
        build_parser(words).parse_args(words)
    except SystemExit as ended:
        code = ended.code
    assert not code, f"{where} shows `{command}`: {capsys.readouterr().err}"
    for option, value in pairwise(words):
        if option == "--scenario" and "." not in value and "/" not in value:
            assert value in scenario_names(), f"{where} shows the scenario {value}"
    assert not any(word.startswith("pipeline/plans/") and not (ROOT / word).exists() for word in words)


def test_commands_are_found_in_documents_and_in_help_texts() -> None:
    assert len(COMMANDS_SHOWN) > 60
    assert {"README.md", "chaos.md", "chaos run"} <= {where for where, _ in COMMANDS_SHOWN}
