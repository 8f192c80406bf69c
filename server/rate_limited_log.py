"""A log that writes repeated lines at most every ten seconds."""

import asyncio
from collections.abc import Callable
from typing import Final

LOG_INTERVAL_S: Final = 10.0


class RateLimitedLog:
    """Writes its first line, and after that at most one line every LOG_INTERVAL_S seconds. Lines in between are
    dropped; the next written line contains their number."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._written_s = float("-inf")
        self._omitted = 0

    def __call__(self, line: str) -> None:
        now_s = asyncio.get_running_loop().time()
        if now_s - self._written_s < LOG_INTERVAL_S:
            self._omitted += 1
            return
        self._write(f"{line} (and {self._omitted} more before)" if self._omitted else line)
        self._written_s, self._omitted = now_s, 0
