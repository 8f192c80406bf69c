"""One line in the log for each kind of trouble, however often it comes."""

import asyncio
from collections.abc import Callable
from typing import Final

SAY_AGAIN_S: Final = 10.0
"""Trouble that goes on is told so often, with how much of it there was."""


class Refusals:
    """Tells of the first refusal, and then, each ten seconds, how many there were and what the last was."""

    def __init__(self, tell: Callable[[str], object]) -> None:
        self._tell = tell
        self._told_s = float("-inf")
        self._silent = 0

    def __call__(self, text: str) -> None:
        now_s = asyncio.get_running_loop().time()
        if now_s - self._told_s < SAY_AGAIN_S:
            self._silent += 1
            return
        self._tell(f"{text} (and {self._silent} more before)" if self._silent else text)
        self._told_s, self._silent = now_s, 0
