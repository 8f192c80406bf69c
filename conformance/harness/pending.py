"""A request and what becomes of it: it is answered, or it waits."""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import Any, Generic

from regroup.conformance.harness.connection import Answer, ConnectionLost, answer_as, api_name
from regroup.conformance.harness.expect import Differs, that
from regroup.protocol.exceptions import ProtocolError
from regroup.protocol.message import Message

GRACE_SECONDS = 0.15
"""How long silence must last to count as silence. Too short can only let a fault pass, never invent one."""

PATIENCE_SECONDS = 20.0
"""How long a story waits for something that should come by itself."""


@dataclass
class Exchange:
    """One request and what became of it, for the transcript. Moments are seconds since the story began."""

    speaker: str
    request: Message
    version: int
    at: float
    answer: Message | None = None
    answered_at: float | None = None
    failure: str | None = None


class Waiting(Generic[Answer]):
    """A request on its way. To `look` at the group takes as long as any request that was sent before."""

    def __init__(
        self,
        kind: type[Answer],
        task: "asyncio.Task[Message]",
        exchange: Exchange,
        look: Callable[[], Awaitable[object]],
    ) -> None:
        self._kind = kind
        self._task = task
        self._exchange = exchange
        self._look = look

    def __await__(self) -> Generator[Any, None, Answer]:
        return self._answer(PATIENCE_SECONDS).__await__()

    def then(self, remember: Callable[[Answer], None]) -> "Waiting[Answer]":
        """Let the member take over what the answer tells, as soon as it is read."""
        self._task.add_done_callback(
            lambda task: remember(answer_as(self._kind, task.result())) if _well(task) else None
        )
        return self

    async def within(self, seconds: float) -> Answer:
        """The answer, which may take this long."""
        return await self._answer(seconds)

    async def _answer(self, seconds: float) -> Answer:
        done, _ = await asyncio.wait([self._task], timeout=seconds)
        if not done:
            raise Differs(f"{self} was not answered within {seconds:g} s")
        try:
            return answer_as(self._kind, self._task.result())
        except ConnectionLost as error:
            raise Differs(f"{self}: {error}") from error
        except ProtocolError as error:
            raise Differs(f"{self}: the answer cannot be read: {error}") from error

    async def or_lost(self) -> Answer | None:
        """The answer, or None where the connection was lost before it came."""
        await asyncio.wait([self._task], timeout=PATIENCE_SECONDS)
        that(self._task.done(), f"{self} was neither answered nor was its connection closed")
        return answer_as(self._kind, self._task.result()) if _well(self._task) else None

    async def is_parked(self) -> None:
        """The broker holds the answer back; and once this is said, it has taken the request in."""
        await asyncio.wait([self._task], timeout=GRACE_SECONDS)
        await self._look()
        that(not self._task.done(), f"{self} should wait, and was answered at once")

    def result_or_error(self) -> Answer | BaseException:
        """The answer that is there, or what became of it instead."""
        return self._task.exception() or answer_as(self._kind, self._task.result())

    @property
    def speaker(self) -> str:
        """Who asked."""
        return self._exchange.speaker

    @property
    def answered(self) -> bool:
        """Whether the answer is there."""
        return self._task.done()

    @property
    def took_seconds(self) -> float:
        """From the request to its answer."""
        assert self._exchange.answered_at is not None, "no answer yet"
        return self._exchange.answered_at - self._exchange.at

    def __str__(self) -> str:
        return f"{self._exchange.speaker}'s {api_name(self._exchange.request)} v{self._exchange.version}"


def _well(task: "asyncio.Task[Message]") -> bool:
    return not task.cancelled() and task.exception() is None
