"""What the commands that run on Spark have in common. Nothing of Spark is loaded before one of them runs."""

import argparse
import re
import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, Final

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


def on_spark(args: argparse.Namespace, work: Callable[[Any, argparse.Namespace], int]) -> int:
    """Run with a Spark session; without the packages for it, say which to install."""
    if not is_installed(args):
        return 2
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # noqa: PLC0415 - it ships no types
    from pyspark.errors import PySparkException  # noqa: PLC0415

    from regroup.pipeline.java import NoJava  # noqa: PLC0415
    from regroup.pipeline.session import session  # noqa: PLC0415

    try:
        with session(args.master) as spark:
            return work(spark, args)
    except (NoJava, ValueError) as error:
        print(f"regroup {args.command}: {error}", file=sys.stderr)
    except (PySparkException, Py4JJavaError) as error:
        print(f"regroup {args.command}: {said_in_a_worker(str(error))}", file=sys.stderr)
    return 2


def is_installed(args: argparse.Namespace) -> bool:
    """Whether the packages for Spark are there; if not, it is said which to install."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        print(f"regroup {args.command}: {', '.join(missing)} not installed: {INSTALL}", file=sys.stderr)
    return not missing


def said_in_a_worker(text: str) -> str:
    """Of a long trace through two languages the one sentence that a store's error had for people."""
    found = re.search(r"^regroup\.\S+: (.*)$", text, re.MULTILINE)
    return found.group(1) if found else text
