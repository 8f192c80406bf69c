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
from regroup.server.net.request_recorder import ExchangeRow

MAX_PIPELINED: Final = 64
"""Exchanges of one connection in its pipeline."""

PIPELINED_API_KEYS: Final = frozenset(
    key.to_bytes(2, "big") for key in (OffsetCommitRequest.api_key, HeartbeatRequest.api_key)
)
"""How the frames of these requests begin. All others are handled when each request before them has its response."""


class CachedResponses:
    """Joined encoded responses from the cache that wait in a Pipeline until the responses to earlier requests are
    sent. There are `count` of them, equal but for their correlation ids."""

    __slots__ = ("count", "frame", "is_queued", "row")

    close_behind = ""

    def __init__(self, frame: bytes, count: int, row: ExchangeRow | None) -> None:
        self.frame = frame
        self.count = count
        self.row = row
        """The recorded row of the requests; None if exchanges are not recorded."""
        self.is_queued = False


class Pipeline(deque[Exchange | CachedResponses]):
    """A queue of exchanges in the order of their requests, whose responses are sent in this order. It is a deque
    because it is tested for emptiness with every request, which is fast for a deque."""

    @property
    def room(self) -> int:
        """How many more exchanges can be added to the pipeline."""
        return MAX_PIPELINED - len(self)

    def may_take(self, frame: bytes) -> bool:
        """Whether the request in `frame` may be handled now, although responses to earlier requests of the connection
        are missing."""
        return frame[:2] in PIPELINED_API_KEYS and self.room > 0

    def add(self, exchange: Exchange | CachedResponses) -> None:
        """Add an exchange at the end of the queue. Its encoded response is in `exchange.frame`, which is None until
        there is one."""
        exchange.is_queued = True
        self.append(exchange)

    def take_ready(self) -> Iterator[Exchange | CachedResponses]:
        """Remove and yield the exchanges from the front of the queue, up to the first one that has no response yet."""
        while self and self[0].frame is not None:
            exchange = self.popleft()
            exchange.is_queued = False
            yield exchange

    def drop_all(self) -> None:
        """Remove all exchanges from the queue; responses that their handlers give later are not sent."""
        for exchange in self:
            exchange.is_queued = False
        self.clear()
