"""Work with a Spark session, for the command line: what goes wrong is told in one sentence."""

import argparse
import logging
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from regroup.cli.terminal.output import CANNOT_BE_DONE, complain
from regroup.pipeline.spark.java import NoJava
from regroup.pipeline.spark.session import NoSpark, session
from regroup.storage.errors import StoreError

INTERRUPTED: Final = 130
"""As shells say of a command that Ctrl-C has ended."""
GOES_ON: Final = "stopped; the same command goes on where it stopped."
BEGINS_ANEW: Final = "stopped; the same command begins anew."

Work = Callable[[SparkSession, argparse.Namespace], int]


def on_spark(args: argparse.Namespace, work: Work, *, when_stopped: str = GOES_ON) -> int:
    """The exit code of the work; 2 if it cannot be done, 130 after Ctrl-C, which `when_stopped` has a word on."""
    try:
        with interruptible_session(args.master) as spark:
            return work(spark, args)
    except KeyboardInterrupt:
        complain(args.command, when_stopped)
        return INTERRUPTED
    except (NoJava, NoSpark, StoreError) as error:
        complain(args.command, str(error))
    except OSError as error:
        if error.filename is None:
            raise  # not about a file of ours: `regroup` itself knows what to say of a full disk
        complain(args.command, f"{error.filename} cannot be used: {error.strerror}.")
    except (PySparkException, Py4JError) as error:
        tell(args.command, str(error))
    return CANNOT_BE_DONE


@contextmanager
def interruptible_session(master: str | None) -> Iterator[SparkSession]:
    """A session that Ctrl-C ends without a trace.

    While Spark starts, the first Ctrl-C waits: Java would complain of being left alone; a second one does not. What
    the bridge to Java logs of an interrupted call is not for people, and all else that goes wrong is raised.
    """
    interrupts = Interrupts()
    before = signal.signal(signal.SIGINT, interrupts.come)
    logging.disable()
    try:
        with session(master) as spark:
            interrupts.started = True
            signal.signal(signal.SIGINT, interrupts.come)  # by now it is Spark's own, which makes a call to Java first
            if interrupts.came:
                raise KeyboardInterrupt
            yield spark
    except (PySparkException, Py4JError) as error:
        # A terminal interrupts all that belong to the command, and a task may say so first.
        if interrupts.came:
            raise KeyboardInterrupt from error
        raise
    finally:
        signal.signal(signal.SIGINT, before)
        logging.disable(logging.NOTSET)


class Interrupts:
    """Whether Ctrl-C has come; it ends the work once Spark has `started`, or if it comes again."""

    def __init__(self) -> None:
        self.started = False
        self.came = False

    def come(self, number: int, frame: FrameType | None) -> None:
        ends, self.came = self.started or self.came, True
        if ends:
            raise KeyboardInterrupt


def tell(command: str, text: str) -> None:
    """One sentence, if somebody wrote one for people; else nobody foresaw it, and all there is may help."""
    said = said_in_a_worker(text)
    if said:
        complain(command, said)
    else:
        print(f"regroup {command}: {text}", file=sys.stderr)


def said_in_a_worker(text: str) -> str:
    """Of a long trace through two languages the one sentence that an error of ours had for people; empty if none.

    It may go over several lines, up to an empty one or to Java's part of the trace.
    """
    found = re.search(r"^regroup\.\S+: (.*?)(?=\n\s*(?:\n|at )|\Z)", text, re.MULTILINE | re.DOTALL)
    return " ".join(found.group(1).split()) if found else ""
