"""The command `regroup`: a tour of what it can do, and the way to each of its commands."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from typing import Any, Final, NoReturn

from regroup.cli.terminal.output import CANNOT_BE_DONE, complain, escape_what_cannot_be_encoded, told_to_the_end
from regroup.coordinator.settings import InvalidSetting, UnknownSetting
from regroup.storage.errors import StoreError

TOUR: Final = """\
A coordinator of Kafka consumer groups that you may break, replay and look at.

  regroup demo                                  watch a group live through a crash, in half a minute
  regroup serve --topic orders:7                a coordinator for real Kafka clients; the history goes to regroup.db
  regroup events regroup.db --follow            what happened, line by line, and why
  regroup replay regroup.db --at 120            what the groups were at any moment
  regroup verify regroup.db                     fold the whole history and check every invariant
  regroup members --bootstrap 127.0.0.1:9092 --group g --topic orders --count 5 --habit 2:pause:20s
                                                simulated consumers, the second of which stops for 20 seconds
  regroup chaos run --seed 7                    ten minutes of crashes, pauses and cut networks, in a second
  regroup chaos hunt --seeds 1000               until an invariant breaks; what breaks it is made small
  regroup watch --mqtt mqtt://localhost         the groups of a coordinator elsewhere, live
  regroup conformance --bootstrap HOST:PORT     where any coordinator differs from Apache Kafka
  regroup pipeline ingest 'runs/*.db' out       from the histories of many runs to tables, on Spark

Each command says more, with examples: regroup chaos --help
"""


@dataclass(frozen=True, slots=True)
class Command:
    """A word after `regroup`: one line of help, and the module that has `add_arguments` and `run`."""

    help: str
    module: str


COMMANDS: Final[dict[str, Command]] = {
    "demo": Command("a group, a crash, and a coordinator that comes back from its history", "regroup.cli.demo.command"),
    "serve": Command("coordinate the groups of real Kafka clients", "regroup.cli.serve.command"),
    "events": Command("show a store's events", "regroup.cli.store.events"),
    "replay": Command("show what the groups were at a moment", "regroup.cli.store.replay"),
    "verify": Command("fold a store's whole history and check it", "regroup.cli.store.verify"),
    "trim": Command("forget a store's oldest events", "regroup.cli.store.trim"),
    "members": Command("simulated consumers, well-behaved or not, against any Kafka", "regroup.cli.members.command"),
    "watch": Command("show groups live, over MQTT", "regroup.cli.watch.command"),
    "conformance": Command(
        "tell stories to any Kafka address, and say where it differs", "regroup.cli.conformance.command"
    ),
    "chaos": Command("break groups on purpose, in virtual time, from one seed", "regroup.cli.chaos.command"),
    "assign": Command("deal out partitions as Kafka's assignors do", "regroup.cli.assign"),
    "pipeline": Command("from the stores of many runs to tables, on Spark", "regroup.cli.spark.pipeline"),
    "campaign": Command("thousands of simulations, spread over Spark's tasks", "regroup.cli.spark.campaign"),
    "report": Command("one page about many runs", "regroup.cli.spark.report"),
}


class Parser(argparse.ArgumentParser):
    """Keeps the help texts as they are written, and ends a mistake with a hint."""

    def print_help(self, file: Any = None) -> None:
        """argparse would keep it to itself that there was no room for the text."""
        print(self.format_help(), end="", file=file)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\nTry `{self.prog} --help`.\n")


def parser(argv: Sequence[str]) -> Parser:
    """The whole command line. Only the module of the command that was typed is loaded, so that help is quick."""
    whole = Parser(prog="regroup", description=TOUR, formatter_class=argparse.RawDescriptionHelpFormatter)
    whole.add_argument("--version", action="version", version=f"regroup {version('kafka-regroup')}")
    words = whole.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    typed = next((word for word in argv if not word.startswith("-")), None)
    for name, command in COMMANDS.items():
        one = words.add_parser(name, help=command.help, formatter_class=argparse.RawDescriptionHelpFormatter)
        if name == typed:
            module = import_module(command.module)
            one.description = module.__doc__
            module.add_arguments(one)
    return whole


def main(argv: Sequence[str] | None = None) -> int:
    """Do what was typed; the exit code is returned: 1 if something was found wrong, 2 if it cannot be done."""
    typed = sys.argv[1:] if argv is None else argv
    escape_what_cannot_be_encoded()
    return told_to_the_end(next(iter(typed), "--help"), lambda: parsed_and_run(typed))


def parsed_and_run(argv: Sequence[str]) -> int:
    whole = parser(argv)
    args = whole.parse_args(argv)
    if args.command is None:
        whole.print_help()
        return 0
    return run(args)


def run(args: argparse.Namespace) -> int:
    """Run the command; what a person can mend is told in one line, without a traceback."""
    try:
        return int(import_module(COMMANDS[args.command].module).run(args))
    except (StoreError, UnknownSetting, InvalidSetting) as error:
        complain(args.command, str(error))
    except KeyboardInterrupt:
        return 130
    return CANNOT_BE_DONE
