"""The log of `regroup serve`: one line for each event on standard error, as text for people or as JSON for programs."""

import logging
import os
import sys
from contextlib import suppress
from typing import TextIO, cast

import structlog

from regroup.cli.terminal.text import printable, printable_lines


class BestEffortStream:
    """A stream that ignores write errors: a full disk or a closed pipe must not stop the server."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> None:
        with suppress(OSError):
            self._file.write(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._file.flush()


def configure_log(level: str, form: str) -> None:
    """Write log lines of this level and above to standard error, in the form `text` or `json`."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            *(_text_processors() if form == "text" else [structlog.processors.JSONRenderer()]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(file=cast("TextIO", BestEffortStream(sys.stderr))),
    )


def _text_processors() -> list[structlog.typing.Processor]:
    """The structlog processors for text. Colours are used on a terminal, unless NO_COLOR is set
    (https://no-color.org)."""
    colors = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    return [_make_printable, structlog.dev.ConsoleRenderer(colors=colors, pad_event_to=24)]


def _make_printable(logger: object, method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Remove an empty reason from a log line, and escape control characters, since names come from any client."""
    shown: structlog.typing.EventDict = {}
    for key, value in event.items():
        if isinstance(value, str):
            value = printable_lines(value) if key == "exception" else printable(value)
        if value != "" or key != "reason":
            shown[key] = value
    return shown
