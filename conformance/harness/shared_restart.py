"""One restart of a broker for several stories or courses that need one: it happens once all of them wait for it."""

import asyncio
from collections.abc import Awaitable, Callable


class SharedRestart:
    """A restart that happens once: as soon as each of the `expected` users waits for it, or has ended."""

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
        """Note that a user has ended. If it did not reach the restart, the others do not wait for it any more."""
        if user not in self._waiting:
            self._expected -= 1
            await self._restart_if_all_wait()

    async def _restart_if_all_wait(self) -> None:
        if len(self._waiting) == self._expected > 0 and not self._done.is_set():
            await self._restart()
            self._done.set()
