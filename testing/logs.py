"""Sends the server's log to Python's `logging`, below the logger `regroup`, so that pytest's caplog has it."""

import logging
from typing import Any, Final

LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "exception": logging.ERROR,
}


def write_to_logging(name: str, method: str, event: str, fields: dict[str, Any]) -> None:
    """Write one line to `logging`: the event, and its fields as `key=value`."""
    logger = logging.getLogger(f"regroup.{name}")
    level = LEVELS[method]
    if logger.isEnabledFor(level):
        error = fields.pop("exc_info", None) or method == "exception"
        shown = " ".join(f"{key}={value}" for key, value in fields.items())
        logger.log(level, "%s", f"{event} {shown}".rstrip(), exc_info=error)
