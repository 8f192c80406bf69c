"""What the operating system grants a process that serves, and what the log says when it grants no more."""

import asyncio
import errno
import resource
from typing import Any

import structlog

SAY_AGAIN_S = 10.0
"""asyncio tells of every single connection that it could not accept; one line in this time says it all."""


def allow_open_files() -> int:
    """As many as this process may have without asking anybody; returns how many. Every connection is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):  # some systems name a limit that they do not grant
        return soft
    return hard


class LoopLog:
    """What goes wrong in the event loop itself, as one line in our log instead of a traceback."""

    def __init__(self) -> None:
        self._log = structlog.get_logger("loop")
        self._said_s = float("-inf")

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            self._tell_of_too_many(loop.time())
        else:
            self._log.error("event-loop", message=context["message"], exc_info=error)

    def _tell_of_too_many(self, now_s: float) -> None:
        if now_s - self._said_s >= SAY_AGAIN_S:
            self._said_s = now_s
            limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            hint = f"this process may have {limit} files open: raise `ulimit -n`, or close some connections"
            self._log.error("connections-wait", reason=hint)
