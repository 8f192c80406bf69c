"""Work with a Spark session, for the command line: what goes wrong is told in one sentence."""

import argparse
import re
import sys
from collections.abc import Callable

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from regroup.pipeline.java import NoJava
from regroup.pipeline.session import session


def on_spark(args: argparse.Namespace, work: Callable[[SparkSession, argparse.Namespace], int]) -> int:
    """The exit code of the work, or 2."""
    try:
        with session(args.master) as spark:
            return work(spark, args)
    except NoJava as error:
        fault = str(error)
    except (PySparkException, Py4JJavaError) as error:
        fault = said_in_a_worker(str(error))
    print(f"regroup {args.command}: {fault}", file=sys.stderr)
    return 2


def said_in_a_worker(text: str) -> str:
    """Of a long trace through two languages the one sentence that a store's error had for people."""
    found = re.search(r"^regroup\.\S+: (.*)$", text, re.MULTILINE)
    return found.group(1) if found else text
