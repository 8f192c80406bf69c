"""The command `regroup`: a tour of what it can do, and the parsers of all commands."""

import argparse
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, Final, NamedTuple, NoReturn

from regroup.cli.terminal.arguments import load
from regroup.cli.terminal.output import (
    EXIT_CANNOT_RUN,
    EXIT_INTERRUPTED,
    escape_unencodable_output,
    print_error,
    run_and_flush,
)
from regroup.cli.terminal.text import printable_lines

TOUR: Final = """\
A coordinator of Kafka consumer groups that you may break, replay and look at.

  regroup demo                                  a group, a crashed consumer, a crashed coordinator, in half a minute
  regroup serve --topic orders:7                a coordinator for real Kafka clients; the history goes to regroup.db
  regroup events regroup.db --follow            what happened, line by line, and why
  regroup why regroup.db --group payments       why it rebalanced last, in sentences
  regroup replay regroup.db --at 120            the state of the groups at any position
  regroup story regroup.db                      a group's life in plain sentences
  regroup step regroup.db                       the same key by key: state, members, clocks, owners, requests
  regroup export regroup.db --group g --svg     a picture of its rebalances, and of who owned what
  regroup view regroup.db                       the same in a browser, step by step
  regroup lesson                                learn how groups work: questions, replays and tasks
  regroup verify regroup.db                     fold the whole history and check every invariant
  regroup copy regroup.db monday.db             a sound copy, also of a store that is being written
  regroup members --bootstrap 127.0.0.1:9092 --group g --topic orders --count 5 --fault 2:pause:60s
                                                simulated consumers, the second of which stops for a minute
  regroup chaos run --seed 77                   ten minutes of faults from one seed, in a second
  regroup chaos hunt --seeds 1000               many seeds; those that break an invariant are made small
  regroup watch --mqtt mqtt://localhost         the groups of a remote coordinator, live
  regroup conformance --bootstrap HOST:PORT     where any coordinator differs from Apache Kafka
  regroup assign --records FILE                 which partition a producer chooses for each record
  regroup pipeline ingest 'runs/*.db' out       from the histories of many runs to tables, on Spark

The help of each command has examples: regroup chaos --help
"""


class CliCommand(NamedTuple):
    """A command after the word `regroup`: its name, a line of help, and as `module:function` what fills its parser."""

    help: str
    add_arguments: str


COMMANDS: Final[dict[str, CliCommand]] = {
    "demo": CliCommand(
        "a group, a crash, and a coordinator that recovers from its history",
        "regroup.cli.demo.arguments:add_arguments",
    ),
    "serve": CliCommand("coordinate the groups of real Kafka clients", "regroup.cli.serve.arguments:add_arguments"),
    "events": CliCommand("show a store's events", "regroup.cli.store.arguments:add_events_arguments"),
    "exchanges": CliCommand(
        "show the requests and responses that were recorded", "regroup.cli.store.arguments:add_exchanges_arguments"
    ),
    "why": CliCommand(
        "say why a group rebalanced, or a member was removed", "regroup.cli.store.arguments:add_why_arguments"
    ),
    "replay": CliCommand("show the state of a store's groups", "regroup.cli.store.arguments:add_replay_arguments"),
    "story": CliCommand(
        "write a group's life in plain sentences", "regroup.cli.classroom.arguments:add_story_arguments"
    ),
    "step": CliCommand(
        "walk a group's history key by key, full screen", "regroup.cli.classroom.arguments:add_step_arguments"
    ),
    "export": CliCommand(
        "draw a group's history: SVG, Mermaid or text", "regroup.cli.classroom.arguments:add_export_arguments"
    ),
    "view": CliCommand(
        "show a group's history in a browser, step by step", "regroup.cli.classroom.arguments:add_view_arguments"
    ),
    "lesson": CliCommand(
        "lessons about consumer groups, with questions and tasks",
        "regroup.cli.classroom.lesson_arguments:add_arguments",
    ),
    "verify": CliCommand("fold a store's history and check it", "regroup.cli.store.arguments:add_verify_arguments"),
    "trim": CliCommand("delete a store's oldest events", "regroup.cli.store.arguments:add_trim_arguments"),
    "copy": CliCommand(
        "copy a store, also while it is being written", "regroup.cli.store.arguments:add_copy_arguments"
    ),
    "members": CliCommand(
        "simulated consumers, with faults if asked for, against any Kafka",
        "regroup.cli.members.arguments:add_arguments",
    ),
    "watch": CliCommand("show groups live, over MQTT", "regroup.cli.watch.arguments:add_arguments"),
    "conformance": CliCommand(
        "test any Kafka address, and say where it differs", "regroup.cli.conformance.arguments:add_arguments"
    ),
    "chaos": CliCommand(
        "break groups on purpose, in virtual time, from one seed", "regroup.cli.chaos.arguments:add_arguments"
    ),
    "assign": CliCommand(
        "assign partitions as Kafka's assignors and partitioners do", "regroup.cli.assign.arguments:add_arguments"
    ),
    "pipeline": CliCommand(
        "from the stores of many runs to tables, on Spark", "regroup.cli.spark.arguments:add_pipeline_arguments"
    ),
    "campaign": CliCommand(
        "thousands of simulations as Spark tasks", "regroup.cli.spark.arguments:add_campaign_arguments"
    ),
    "report": CliCommand("one page about many runs", "regroup.cli.spark.arguments:add_report_arguments"),
}
RENAMED: Final = {"chaos zoo": "chaos bugs", "members --habit": "members --fault"}
"""Names from the first version, each with the name that has replaced it."""


class CommandParser(argparse.ArgumentParser):
    """A parser that prints help texts as they are written, and adds a hint to its error messages."""

    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, **options)

    def print_help(self, file: Any = None) -> None:
        """Print the help, and raise OSError if that fails; argparse would ignore it."""
        print(self.format_help(), end="", file=file)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Raise an error for a value that is not among the choices; it names a similar choice, or all."""
        if action.choices is None or value in action.choices:
            return
        known = list(map(str, action.choices))
        nearest = get_close_matches(str(value), known, n=1)
        hint = f"did you mean {nearest[0]}?" if nearest else f"known are {', '.join(known)}"
        name = "command" if isinstance(action, argparse._SubParsersAction) else "/".join(action.option_strings)
        raise argparse.ArgumentError(None, f"unknown {name or action.dest}: {value!r}; {hint}")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Refuse unknown arguments here: argparse would leave them to the parser of all commands, whose help does not
        have the arguments of a command."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_CANNOT_RUN, f"{self.prog}: {printable_lines(message)}\nTry `{self.prog} --help`.\n")


class ShowVersion(argparse.Action):
    """The action of `--version`. It looks up the installed version only when it is called, because that takes longer
    than any help."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print("regroup", load("importlib.metadata:version")("kafka-regroup"))
        parser.exit()


def build_parser(argv: Sequence[str]) -> CommandParser:
    """Build the parser of the whole command line. Only the command in `argv` gets its arguments, so that help is
    quick."""
    parser = CommandParser(prog="regroup", description=TOUR)
    parser.add_argument("--version", action=ShowVersion, nargs=0, help="show the version and exit")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    typed = next((word for word in argv if not word.startswith("-")), None)
    for name, command in COMMANDS.items():
        subparser = subparsers.add_parser(name, help=command.help)
        if name == typed:
            load(command.add_arguments)(subparser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 1 if something was found wrong, 2 if the command cannot be carried
    out."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        escape_unencodable_output()
        return run_and_flush(next(iter(words), "--help"), lambda: run_command(words))
    except KeyboardInterrupt:  # also while the modules of a command are imported
        return EXIT_INTERRUPTED


def run_command(argv: Sequence[str]) -> int:
    """Parse the arguments and run the job of their command. Without a command, print the tour."""
    words = [word.partition("=")[0] for word in argv[1:]]
    for word in [*words[:1], *(word for word in words[1:] if word.startswith("--"))]:
        if (old := f"{argv[0]} {word}") in RENAMED:
            print_error(argv[0], f"`regroup {old}` is now `regroup {RENAMED[old]}`")
            return EXIT_CANNOT_RUN
    parser = build_parser(argv)
    args = parser.parse_args(argv)
    if args.command is None:
        parser.print_help()
        return 0
    return int(load("regroup.cli.jobs:run_job")(args))
