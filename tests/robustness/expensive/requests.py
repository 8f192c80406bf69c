"""A request to one API that costs as much as 100 kB can."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from regroup.protocol.codec.codec import encode
from regroup.protocol.message import Message
from tests.robustness.expensive.world import Client

REQUEST_BYTES = 100_000
Make = Callable[[int], Message]
Row = tuple[str, int, Any]
"""Name, version, and the request: a message, a function of the number of its entries, or one of a client."""


@dataclass(frozen=True)
class Expensive:
    """A request, and what is prepared for it."""

    name: str
    version: int
    request: Message | Callable[[Client], Awaitable[Message]]

    def __str__(self) -> str:
        return self.name

    async def prepare(self, client: Client) -> Message:
        return self.request if isinstance(self.request, Message) else await self.request(client)


def filled(make: Make, version: int) -> Message:
    """The request with so many entries that it has REQUEST_BYTES."""
    one, some = (len(encode(make(count), version)) for count in (1, 101))
    return make(max(1, (REQUEST_BYTES - one) * 100 // (some - one)))


def is_coroutine(request: Any) -> bool:
    return bool(request.__code__.co_flags & 0x80)
