"""What the commands that run on Spark have in common, before anything of Spark is loaded."""

import argparse
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Final

NEEDED: Final = ("pyspark", "pyarrow", "pandas")
INSTALL: Final = "pip install 'kafka-regroup[spark]'   (and [spark-java] where there is no Java)"


def add_spark(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--master", metavar="M", help="Spark's address: local[2], spark://host:7077 (default: this machine, all cores)"
    )


def add_on_error(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--on-error",
        choices=("fail", "skip"),
        default="fail",
        help="what to do about a damaged or foreign store: end, or name it and leave it out",
    )


def run_in(module: str, args: argparse.Namespace) -> int:
    """Go on in a module that needs Spark's packages; where they are missing, say which to install."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        print(f"regroup {args.command}: {', '.join(missing)} not installed: {INSTALL}", file=sys.stderr)
        return 2
    return int(import_module(module).run(args))
