"""Reading on while somebody writes."""

from collections.abc import AsyncIterator, Awaitable, Callable

from regroup.storage.records import Record
from regroup.storage.store import EventStore


async def follow(store: EventStore, *, after: int = 0, pause: Callable[[], Awaitable[object]]) -> AsyncIterator[Record]:
    """Every record behind `after`, and then each new one as it is committed, also by another process. Never ends.

    `pause` is awaited whenever there is nothing new: `lambda: asyncio.sleep(0.1)`, or a wait for a call.
    Meanwhile no transaction is open. Raises PositionTrimmed if the writer forgets what was not read yet.
    """
    while True:
        async for record in store.read(after=after):
            after = record.position
            yield record
        await pause()
