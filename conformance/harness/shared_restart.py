"""One restart of a broker for several users of it, as soon as each of them waits for it or has ended."""

import asyncio
from collections.abc import Awaitable, Callable


class SharedRestart:
    """A restart that happens once, when all who are expected wait for it."""

    def __init__(self, expected: int, restart: Callable[[], Awaitable[None]]) -> None:
        self._expected = expected
        self._restart = restart
        self._waiting: set[object] = set()
        self._done = asyncio.Event()

    async def wait(self, user: object) -> None:
        """Wait until the broker has been restarted and its coordinator answers again."""
        self._waiting.add(user)
        await self._restart_if_all_wait()
        await self._done.wait()

    async def withdraw(self, user: object) -> None:
        """Take note that a user has ended; one that did not reach the restart is not waited for any more."""
        if user not in self._waiting:
            self._expected -= 1
            await self._restart_if_all_wait()

    async def _restart_if_all_wait(self) -> None:
        if len(self._waiting) == self._expected > 0 and not self._done.is_set():
            await self._restart()
            self._done.set()
