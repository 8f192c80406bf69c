"""A request of a story that has been sent: its response arrives, or stays pending."""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import Any, Generic, Self

from regroup.conformance.harness.expect import ExpectationFailed, expect_true
from regroup.conformance.harness.message_types import AnyResponse, api_name, response_as
from regroup.protocol.client import ConnectionLost
from regroup.protocol.exceptions import ProtocolError
from regroup.protocol.message import Message

PENDING_CHECK_S = 0.15
"""Seconds after which a request without a response counts as pending.

With a shorter time a fault might be missed, but none would be reported that is not there.
"""

RESPONSE_TIMEOUT_S = 20.0
"""Seconds that a response may take, or a group to reach a state, without the initial rebalance delay."""


@dataclass
class StoryExchange:
    """One request and its response, for the transcript. Times are seconds since the story began."""

    sender: str
    request: Message
    version: int
    sent_at_s: float
    response: Message | None = None
    responded_at_s: float | None = None
    failure: str | None = None


class SentRequest(Generic[AnyResponse]):
    """A request in flight; `await` it for its response.

    `observe` sends another request and awaits the response: the broker has then received this request, too.
    """

    def __init__(
        self,
        response_type: type[AnyResponse],
        task: "asyncio.Task[Message]",
        exchange: StoryExchange,
        observe: Callable[[], Awaitable[object]],
        timeout_s: float,
    ) -> None:
        self._response_type = response_type
        self._task = task
        self.exchange = exchange
        self._observe = observe
        self._timeout_s = timeout_s

    def __await__(self) -> Generator[Any, None, AnyResponse]:
        return self.response_within().__await__()

    async def response_within(self, timeout_s: float | None = None) -> AnyResponse:
        """Wait for the response. Raises ExpectationFailed if it does not arrive in time, or cannot be decoded."""
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        done, _ = await asyncio.wait([self._task], timeout=timeout_s)
        expect_true(bool(done), f"{self} was not answered within {timeout_s:g} s")
        try:
            return response_as(self._response_type, self._task.result())
        except ConnectionLost as error:
            raise ExpectationFailed(f"{self}: {error}") from error
        except ProtocolError as error:
            raise ExpectationFailed(f"{self}: the response cannot be decoded: {error}") from error

    async def response_or_none(self) -> AnyResponse | None:
        """Wait for the response; None if the connection is lost first."""
        await asyncio.wait([self._task], timeout=self._timeout_s)
        expect_true(self._task.done(), f"{self} was not answered, and its connection was not closed")
        return None if self._task.exception() else response_as(self._response_type, self._task.result())

    async def expect_pending(self) -> Self:
        """Expect that the broker has received the request and has not responded yet; raises ExpectationFailed
        otherwise.

        Returns this request.
        """
        await asyncio.wait([self._task], timeout=PENDING_CHECK_S)
        await self._observe()
        expect_true(not self._task.done(), f"{self} should be pending, but was answered at once")
        return self

    def response_or_error(self) -> AnyResponse | BaseException:
        """The response of a request that is done, or the reason why there is none."""
        return self._task.exception() or response_as(self._response_type, self._task.result())

    @property
    def is_done(self) -> bool:
        """Whether the response has arrived, or the request has failed without one."""
        return self._task.done()

    @property
    def duration_s(self) -> float:
        """Seconds from the request to its response."""
        assert self.exchange.responded_at_s is not None, f"{self} has no response yet"
        return self.exchange.responded_at_s - self.exchange.sent_at_s

    def __str__(self) -> str:
        return f"{self.exchange.sender}'s {api_name(self.exchange.request)} v{self.exchange.version}"
