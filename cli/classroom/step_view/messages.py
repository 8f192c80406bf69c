"""The messages of one exchange after the other, read from the store when the view comes to them."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Final, TypeAlias

from regroup.classroom.recorded.messages import ExchangeMessages, read_messages
from regroup.classroom.recorded_values import TimelineExchange
from regroup.cli.store.opening import open_store_to_read
from regroup.storage.errors import StoreError

KEPT: Final = 256
"""Exchanges whose messages stay in memory."""

MessageReader: TypeAlias = Callable[[TimelineExchange], ExchangeMessages | None]
"""Returns None if the store could not be read."""


def message_reader(path: Path) -> MessageReader:
    """Make a function that reads the messages of an exchange from the store, and keeps the last KEPT ones.

    It reads in a thread of its own, because an event loop runs in the calling thread.
    """
    thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="messages")

    async def read(exchange: TimelineExchange) -> ExchangeMessages:
        async with await open_store_to_read(path) as store:
            return (await read_messages(store, [exchange]))[exchange.number]

    @lru_cache(KEPT)
    def messages_of(exchange: TimelineExchange) -> ExchangeMessages | None:
        try:
            return thread.submit(lambda: asyncio.run(read(exchange))).result()
        except (StoreError, OSError):
            return None

    return messages_of
