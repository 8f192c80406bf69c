"""`--help` of every command loads little: its parser, and nothing that only running the command needs."""

import subprocess
import sys

import pytest

from regroup.cli.main import COMMANDS

MAX_MODULES = 90
"""Modules beside those of a bare interpreter, those of the standard library included."""
LIGHT_MODULES = {"regroup.cli.main", "regroup.cli.terminal.arguments", "regroup.cli.terminal.output"} | {
    "regroup.cli.terminal.text",
    "regroup.notation.addresses",
    "regroup.notation.durations",
}
"""Modules of regroup that every command loads."""
CHOICES = {"regroup.classroom.languages"}
"""Modules of names and nothing else, which a parser offers as choices."""
SUBCOMMANDS = {"chaos": ["run", "hunt", "list", "bugs"], "pipeline": ["ingest", "tables", "show", "replay"]}

PROGRAM = """
import sys
before = set(sys.modules)
from regroup.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    assert not end.code
print("MODULES", *sorted(set(sys.modules) - before))
"""


def modules_of(*words: str) -> list[str]:
    """The modules that `regroup WORDS` imports, in a new interpreter."""
    command = [sys.executable, "-c", PROGRAM, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1].split()[1:]


@pytest.mark.quick("[serve]", "[chaos]", "[members]")
@pytest.mark.parametrize(
    "words",
    [(), *((name,) for name in COMMANDS), *((name, sub) for name, subs in SUBCOMMANDS.items() for sub in subs)],
    ids=lambda words: " ".join(words) or "regroup",
)
def test_help_loads_no_more_than_its_parser(words: tuple[str, ...]) -> None:
    modules = modules_of(*words, "--help")
    ours = {name for name in modules if name.startswith("regroup.") and name.count(".") > 1}
    parser = {COMMANDS[words[0]].add_arguments.partition(":")[0]} if words else set()
    packages = {name.rpartition(".")[0] for name in LIGHT_MODULES | parser}
    assert ours <= LIGHT_MODULES | CHOICES | parser | packages
    others = {name.partition(".")[0] for name in modules if not name.startswith("regroup")}
    assert others <= sys.stdlib_module_names, "a library was loaded"
    assert not others & {"asyncio", "sqlite3", "ssl", "socket", "multiprocessing", "dataclasses", "inspect"}
    assert len(modules) <= MAX_MODULES


def test_the_version_loads_no_more_than_the_parser_and_the_metadata_of_the_package() -> None:
    modules = modules_of("--version")
    ours = {name for name in modules if name.startswith("regroup.") and name.count(".") > 1}
    assert ours <= LIGHT_MODULES | {name.rpartition(".")[0] for name in LIGHT_MODULES}
    others = {name.partition(".")[0] for name in modules if not name.startswith("regroup")}
    assert others <= sys.stdlib_module_names, "a library was loaded"
    assert not others & {"asyncio", "sqlite3", "ssl", "multiprocessing", "dataclasses", "inspect"}
