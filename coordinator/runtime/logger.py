"""Loggers of the coordinator and the server. Their lines go to structlog, or to a sink that replaces it.

structlog takes 150 ms to import, so it is imported with the first line that is written to it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

LogSink: TypeAlias = Callable[[str, str, str, dict[str, Any]], None]
"""A function that takes one line of the log: the logger's name, the method (`debug` to `error`, `exception`), the
event, its fields."""

_sinks: list[LogSink] = []


@contextmanager
def log_sink(sink: LogSink) -> Iterator[None]:
    """Send all log lines of this process to the sink inside the `with` block. Of several sinks the newest gets them."""
    _sinks.append(sink)
    try:
        yield
    finally:
        _sinks.remove(sink)


class NamedLogger:
    """A logger with a name: `get_logger("coordinator").info("member-removed", group="billing")`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def debug(self, event: str, **fields: Any) -> None:
        self._write("debug", event, fields)

    def info(self, event: str, **fields: Any) -> None:
        self._write("info", event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        self._write("warning", event, fields)

    def error(self, event: str, **fields: Any) -> None:
        self._write("error", event, fields)

    def exception(self, event: str, **fields: Any) -> None:
        """Write a line of the level error, with the traceback of the exception that is being handled."""
        self._write("exception", event, fields)

    def _write(self, method: str, event: str, fields: dict[str, Any]) -> None:
        (_sinks[-1] if _sinks else write_to_structlog)(self._name, method, event, fields)


def get_logger(name: str) -> NamedLogger:
    """The logger with this name."""
    return NamedLogger(name)


def write_to_structlog(name: str, method: str, event: str, fields: dict[str, Any]) -> None:
    """Write one line with structlog, as the process has configured it."""
    import structlog  # noqa: PLC0415  # 150 ms, which a program that logs elsewhere need not wait for

    getattr(structlog.get_logger(name), method)(event, **fields)
