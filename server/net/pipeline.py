"""The exchanges of a connection whose requests are decided, and whose responses only wait until that is durable.

Kafka handles one request of a connection at a time. So does a `Connection`, but a client that sends its commits
without waiting would get one of them into each commit of the store. Of requests whose response is never held, the next
one may be decided first; responses still leave in the order of the requests, each once all it rests on is durable.
"""

from collections import deque
from collections.abc import Iterator
from typing import Final

from regroup.protocol.messages.group import HeartbeatRequest
from regroup.protocol.messages.offsets import OffsetCommitRequest
from regroup.server.net.exchange import Exchange

MAX_PIPELINED: Final = 64
"""Exchanges of one connection in its pipeline."""

PIPELINED_API_KEYS: Final = frozenset(
    key.to_bytes(2, "big") for key in (OffsetCommitRequest.api_key, HeartbeatRequest.api_key)
)
"""How the frames of these requests begin. All others are handled when each request before them has its response."""


class Pipeline:
    """Exchanges in the order of their requests. It is false when it is empty."""

    def __init__(self) -> None:
        self._exchanges: deque[Exchange] = deque()

    def __bool__(self) -> bool:
        return bool(self._exchanges)

    def may_take(self, frame: bytes) -> bool:
        """Whether this request may be handled now, although responses to earlier ones are missing."""
        return not self._exchanges or (frame[:2] in PIPELINED_API_KEYS and len(self._exchanges) < MAX_PIPELINED)

    def add(self, exchange: Exchange) -> None:
        """Put an exchange behind the others, with its response in `exchange.frame`, or before it has one."""
        exchange.is_queued = True
        self._exchanges.append(exchange)

    def take_ready(self) -> Iterator[Exchange]:
        """Remove and yield the exchanges at the front that have their responses."""
        while self._exchanges and self._exchanges[0].frame is not None:
            exchange = self._exchanges.popleft()
            exchange.is_queued = False
            yield exchange

    def clear(self) -> None:
        """Drop all exchanges; responses that are given later have no effect."""
        for exchange in self._exchanges:
            exchange.is_queued = False
        self._exchanges.clear()
