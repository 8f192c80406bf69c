"""The log of the server: a line an event on standard error, for people or for programs."""

import argparse
import logging
import os
import sys
from contextlib import suppress
from typing import Final, TextIO, cast

import structlog

from regroup.cli.terminal.text import printable, printable_lines

LEVELS: Final = ("debug", "info", "warning", "error")
OF_SEVERAL_LINES: Final = "exception"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--log-format",
        choices=("text", "json"),
        default="text",
        help="how the log on standard error looks (default: text)",
    )
    add("--log-level", choices=LEVELS, default="info", help="the least that is logged (default: info)")


class Unconcerned:
    """A log that cannot be written, since its disk is full or its reader has gone, is no reason to stop serving."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> None:
        with suppress(OSError):
            self._file.write(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._file.flush()


def set_up_log(level: str, form: str) -> None:
    """Standard output has nothing but what was asked for."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            *(for_people() if form == "text" else [structlog.processors.JSONRenderer()]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(file=cast("TextIO", Unconcerned(sys.stderr))),
    )


def for_people() -> list[structlog.typing.Processor]:
    """In colour on a terminal, unless https://no-color.org is heeded."""
    colours = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    return [legible, structlog.dev.ConsoleRenderer(colors=colours, pad_event_to=24)]


def legible(logger: object, method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Without a reason that is empty, and without what a terminal would obey: names come from any client."""
    shown: structlog.typing.EventDict = {}
    for key, value in event.items():
        if isinstance(value, str):
            value = printable_lines(value) if key == OF_SEVERAL_LINES else printable(value)
        if value != "" or key != "reason":
            shown[key] = value
    return shown
