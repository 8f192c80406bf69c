"""A table of blocks of exchanges or observations, beside the events of a store.

It is bounded, made when the first block is stored, and never synchronized by itself.
"""

import zlib
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from regroup.storage.errors import StoreDamaged
from regroup.storage.records import ExchangeBlock, NewExchangeBlock
from regroup.storage.sqlite import statements as sql
from regroup.storage.sqlite.connection import SqliteConnection
from regroup.storage.sqlite.rows import Number, Size, read_rows

_BLOCKS_PER_DELETION: Final = 64
_MAX_PAYLOAD_BYTES: Final = 64 * 1024 * 1024
"""The most bytes of an uncompressed payload that are read.

Blocks are far smaller; a damaged one must not fill memory.
"""
_LAST_TIME: Final = 2**63 - 1


class BlockTable:
    """One table of a store with blocks of exchanges or observations. The caller holds the store's lock. `what` names
    the blocks in error messages."""

    def __init__(self, path: Path, connection: SqliteConnection, table: str, what: str) -> None:
        self._path = path
        self._sql = sql.block_statements(table)
        self._what = what
        self._connection = connection
        self._total_bytes: int | None = None
        """Bytes of all compressed payloads together. None until the first block is stored, and after an error."""
        self._synchronous = 0

    async def append(self, block: NewExchangeBlock, compressed: bytes, max_bytes: int) -> None:
        """Store a block; delete the oldest ones while all together exceed `max_bytes`.

        It does not wait for the disk: the next commit of events synchronizes the block, too.
        """
        if self._total_bytes is None:
            self._synchronous = (await self._numbers("PRAGMA synchronous"))[0]
            await self._connection.execute(self._sql.create)
            total_bytes = (await self._numbers(self._sql.total_bytes))[0]
        else:
            total_bytes, self._total_bytes = self._total_bytes, None
        total_bytes += len(compressed)
        row = (block.first_ms, block.last_ms, block.count, compressed)
        await self._connection.execute("PRAGMA synchronous = NORMAL")
        try:
            await self._connection.execute("BEGIN IMMEDIATE")
            await self._connection.execute(self._sql.insert, row)
            while total_bytes > max_bytes and (oldest := await self._oldest()):
                through = 0
                for number, size in oldest:
                    if total_bytes <= max_bytes:
                        break
                    through, total_bytes = number, total_bytes - size
                await self._connection.execute(self._sql.delete, (through,))
            await self._connection.execute("COMMIT")
        except BaseException:
            with suppress(Exception):  # the caller gets the first error
                await self._connection.execute("ROLLBACK")
            raise
        finally:  # SQLite refuses this inside a transaction
            await self._connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        self._total_bytes = total_bytes

    async def _oldest(self) -> list[tuple[int, int]]:
        """The number and the size in bytes of each of the oldest blocks. The newest block of the table is never among
        them."""
        rows = await self._connection.execute(self._sql.oldest, (_BLOCKS_PER_DELETION,))
        return [(each.number, each.size) for each in read_rows(self._path, rows, Size)]

    async def _numbers(self, statement: str) -> list[int]:
        rows = await self._connection.execute(statement)
        return [each.value for each in read_rows(self._path, rows, Number)]

    async def next_block(self, after: int, from_ms: int, to_ms: int | None) -> ExchangeBlock | None:
        """The first block whose number is greater than `after`, with exchanges or observations between the times
        `from_ms` and `to_ms`, both included; uncompressed. None if there is none. Raises StoreDamaged."""
        if not await self._connection.execute(self._sql.exists):
            return None
        parameters = (after, from_ms, _LAST_TIME if to_ms is None else to_ms)
        rows = await self._connection.execute(self._sql.next, parameters)
        for block in read_rows(self._path, rows, ExchangeBlock):
            return replace(block, payload=self._decompressed(block))
        return None

    def _decompressed(self, block: ExchangeBlock) -> bytes:
        try:
            return decompress_payload(block.payload)
        except ValueError as error:
            raise damaged_block(self._path, block.number, self._what, str(error)) from error


def decompress_payload(payload: bytes) -> bytes:
    """The payload of a block as it was before `compress_payload`. Raises ValueError for damaged bytes."""
    decompressor = zlib.decompressobj()
    try:
        decompressed = decompressor.decompress(payload, _MAX_PAYLOAD_BYTES)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if not decompressor.eof:
        raise ValueError("it is incomplete, or too long")
    return decompressed


def damaged_block(path: Path, number: int, kind: str, what: str) -> StoreDamaged:
    """The error for a block that cannot be read; `kind` names what it holds, `what` says what is wrong with it."""
    return StoreDamaged(
        f"{path} is damaged: block {number} of its {kind} ({what}). The events beside them can still be read."
    )
