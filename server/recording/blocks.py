"""Recorded exchanges as blocks of a store: rows encoded with msgpack. A later change of a row is stored as a shorter
row with the same number.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from msgspec.structs import replace

from regroup.protocol.messages.group import HeartbeatRequest
from regroup.server.net.request_recorder import ExchangeRow
from regroup.storage.errors import StoreDamaged
from regroup.storage.records import ExchangeBlock, NewExchangeBlock

MAX_ROWS: Final = 1_000
MAX_BLOCK_BYTES: Final = 256 * 1024
"""A block is complete when the frames of its rows together exceed this many bytes."""
REWRITE_INTERVAL_MS: Final = 60_000
"""After this time, in milliseconds, a changed row is stored whole again, because the block with its frames may have
been deleted."""

_HEARTBEAT: Final = HeartbeatRequest.api_key.to_bytes(2, "big")
_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(list[ExchangeRow])


class BlockEncoder:
    """Encodes changed rows as blocks. A change of a row that was stored before, such as its response or a longer run,
    is stored without the frames that are stored already."""

    def __init__(self) -> None:
        self._written: dict[ExchangeRow, tuple[int, bool]] = {}
        """Rows that may still change: when each was stored whole, in epoch milliseconds, and whether it had its
        response then. They are in the order of these times."""

    def encode(self, rows: Iterable[ExchangeRow], now_ms: int) -> Iterator[NewExchangeBlock]:
        """Yield the blocks that store the present contents of these rows. A row that was merged into another one before
        it was ever stored is left out."""
        self._forget(now_ms - REWRITE_INTERVAL_MS)
        batch: list[ExchangeRow] = []
        size = 0
        for row in rows:
            stored = self._written.get(row)
            if stored is None and not row.count:
                continue
            batch.append(self._stored_form(row, stored, now_ms))
            size += len(row.request) + len(row.response)
            if len(batch) >= MAX_ROWS or size >= MAX_BLOCK_BYTES:
                yield _block(batch)
                batch, size = [], 0
        if batch:
            yield _block(batch)

    def _stored_form(self, row: ExchangeRow, stored: tuple[int, bool] | None, now_ms: int) -> ExchangeRow:
        if stored is None:
            if row.ended_at_ms is None or row.count > 1 or row.request[:2] == _HEARTBEAT:
                self._written[row] = (now_ms, row.ended_at_ms is not None)
            return row
        at_ms, had_response = stored
        if not had_response:
            self._written[row] = (at_ms, row.ended_at_ms is not None)
        return replace(row, request=b"", response=b"" if had_response else row.response)

    def _forget(self, before_ms: int) -> None:
        while self._written:
            row = next(iter(self._written))
            if self._written[row][0] > before_ms:
                return
            del self._written[row]


def _block(rows: list[ExchangeRow]) -> NewExchangeBlock:
    last_ms = max(max(row.last_at_ms, row.ended_at_ms or 0) for row in rows)
    return NewExchangeBlock(min(row.at_ms for row in rows), last_ms, len(rows), _ENCODER.encode(rows))


def decode_block(block: ExchangeBlock) -> list[ExchangeRow]:
    """Decode the rows of recorded exchanges that a block contains. Raises StoreDamaged."""
    try:
        return _DECODER.decode(block.payload)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise StoreDamaged(
            f"Block {block.number} of the recorded exchanges is damaged ({error}). The events can still be read."
        ) from error
