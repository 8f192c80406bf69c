"""Raises the limit of open files, which bounds the connections of a process, and logs errors of the event loop."""

import asyncio
import errno
import os
import resource
from typing import Any, Final

from regroup.coordinator.runtime.logger import get_logger
from regroup.server.rate_limited_log import RateLimitedLog

OPEN_FILE_CHECK_INTERVAL_S: Final = 1.0


def raise_open_file_limit() -> int:
    """Raise the soft limit of open files to the hard limit, and return it. Every connection is an open file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):  # some systems report a hard limit that they do not grant
        return soft
    return hard


class LoopExceptionHandler:
    """Writes errors of the event loop to the log of the server.

    asyncio reports every connection that cannot be accepted for want of open files; the log gets one line for all of
    them. uvloop closes such connections without a report, so `watch_open_files` looks for itself.
    """

    def __init__(self) -> None:
        self._log = get_logger("loop")
        self._log_open_file_limit = RateLimitedLog(
            lambda reason: self._log.error("open-file-limit-reached", reason=reason)
        )

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            self._report_open_file_limit()
        else:
            self._log.error("event-loop-error", message=context["message"], exc_info=error)

    async def watch_open_files(self) -> None:
        """Try once a second whether another file can be opened, for ever, and log that the limit is reached if not."""
        while True:
            try:
                os.close(os.dup(2))
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    self._report_open_file_limit()
            await asyncio.sleep(OPEN_FILE_CHECK_INTERVAL_S)

    def _report_open_file_limit(self) -> None:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._log_open_file_limit(f"this process may open {limit} files: raise `ulimit -n`, or close some connections")
