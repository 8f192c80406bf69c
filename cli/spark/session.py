"""Runs a command with a Spark session: an error is reported as one line, and Ctrl-C ends the command without a Java
trace.
"""

import logging
import os
import signal
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Final, TypeAlias

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from regroup.cli.jobs import CannotRun
from regroup.cli.spark.errors import file_message, spark_message
from regroup.cli.terminal.output import EXIT_INTERRUPTED, WRITE_ERRNOS, print_error
from regroup.pipeline.locations.location import LocationLike, location_of
from regroup.pipeline.spark.java import JavaNotFound
from regroup.pipeline.spark.session import InvalidMaster, spark_session

STOPPED_RESUMABLE: Final = "stopped; the same command goes on where it stopped."
STOPPED_NOT_RESUMABLE: Final = "stopped; the same command starts from the beginning."

SparkWork: TypeAlias = Callable[[SparkSession, Namespace], int]


def run_on_spark(args: Namespace, work: SparkWork, *, when_stopped: str) -> int:
    """Run `work` with a Spark session, and return its exit code. `when_stopped` is printed after Ctrl-C."""
    try:
        with interruptible_session(args.master, dict(args.conf)) as spark:
            return work(spark, args)
    except KeyboardInterrupt:
        print_error(args.command, when_stopped)
        return EXIT_INTERRUPTED
    except (JavaNotFound, InvalidMaster) as error:
        raise CannotRun(str(error)) from error
    except OSError as error:
        if is_of_the_output(error):
            raise  # `run_and_flush` reports it
        raise CannotRun(file_message(error, args.folder)) from error
    except (PySparkException, Py4JError, pa.ArrowException) as error:
        raise CannotRun(spark_message(str(error), args.folder)) from error


def run_on_folder(
    args: Namespace, check: Callable[[LocationLike], object], work: SparkWork, *, when_stopped: str
) -> int:
    """Run `work` with a Spark session, once `check` has accepted the folder `args.folder`.

    A folder on a disk is checked before Spark starts. Others can be reached only with the settings of its session.
    """
    if location_of(args.folder).is_local:
        check(args.folder)
        return run_on_spark(args, work, when_stopped=when_stopped)

    def checked_work(spark: SparkSession, args: Namespace) -> int:
        check(location_of(args.folder, spark))
        return work(spark, args)

    return run_on_spark(args, checked_work, when_stopped=when_stopped)


@contextmanager
def interruptible_session(master: str | None, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """A Spark session. Ctrl-C raises KeyboardInterrupt, and Spark prints nothing on standard error.

    While Spark starts, the first Ctrl-C is held back, since Java would report a lost parent; a second one is not. Logs
    are off, because py4j logs interrupted calls; every other error is raised.
    """
    interrupts = _Interrupts()
    before = signal.signal(signal.SIGINT, interrupts.handle)
    logging.disable()
    try:
        with spark_session(master, settings=settings) as spark:
            interrupts.is_started = True
            signal.signal(signal.SIGINT, interrupts.handle)  # pyspark has set its own, which calls Java first
            if interrupts.is_interrupted:
                raise KeyboardInterrupt
            yield spark
    except Exception as error:
        # A terminal interrupts all processes of the command, and the error of a task or of a call to Java may be first.
        if interrupts.is_interrupted:
            raise KeyboardInterrupt from error
        raise
    finally:
        signal.signal(signal.SIGINT, before)
        logging.disable(logging.NOTSET)


class _Interrupts:
    """Handles Ctrl-C: raises KeyboardInterrupt if Spark has started, or at the second Ctrl-C."""

    def __init__(self) -> None:
        self.is_started = False
        self.is_interrupted = False

    def handle(self, number: int, frame: FrameType | None) -> None:
        raises, self.is_interrupted = self.is_started or self.is_interrupted, True
        if raises:
            raise KeyboardInterrupt


def is_of_the_output(error: OSError) -> bool:
    """Whether the error may be one of standard output: a closed pipe or a full disk, and no file is named."""
    if isinstance(error, BrokenPipeError):
        return True
    # Arrow has a longer text for a file that it writes.
    return error.filename is None and error.errno in WRITE_ERRNOS and error.strerror == os.strerror(error.errno)
