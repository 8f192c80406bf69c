"""No log while the laboratory plays: a run has its history, and thousands of runs would bury the terminal.

What nobody foresaw is not buried: an exception in a handler, a timer or a task fails the run.
"""

import asyncio
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn

import structlog

FORESEEN: Final = "No request and no timer ends in an exception that nobody foresaw."
_ERRORS_ONLY = structlog.make_filtering_bound_logger(logging.ERROR)


@contextmanager
def quiet(loop: asyncio.AbstractEventLoop, unforeseen: Callable[[str], None]) -> Iterator[None]:
    """Until the block ends nothing is logged; `unforeseen` is told of exceptions. Afterwards all is as it was."""

    def swallow(logger: object, method: str, event: Any) -> NoReturn:
        if event.get("exc_info"):
            unforeseen(repr(sys.exc_info()[1]))
        raise structlog.DropEvent

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        unforeseen(f"{context['message']}: {context.get('exception')!r}")

    before = structlog.get_config()
    structlog.configure(wrapper_class=_ERRORS_ONLY, processors=[swallow], cache_logger_on_first_use=False)
    loop.set_exception_handler(handle)
    try:
        yield
    finally:
        structlog.configure(**before)
