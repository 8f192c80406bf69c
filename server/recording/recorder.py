"""Keeps the latest exchanges of a cluster in memory as bytes, up to a limit, and notes which of them a store does not
have yet.
"""

from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Final

from regroup.protocol.messages.group import HeartbeatRequest
from regroup.protocol.messages.records import FetchRequest, ProduceRequest
from regroup.server.net.request_recorder import ExchangeRow

MAX_EXCHANGES: Final = 10_000
"""The most exchanges in memory; a run of equal heartbeats counts as one."""
MAX_BYTES: Final = 32 * 1024 * 1024
"""The most memory for exchanges, in bytes, as an estimate."""
ROW_BYTES: Final = 400
"""The estimated bytes in memory of an exchange besides its frames."""
MAX_FRAME_BYTES: Final = 64 * 1024
"""Longer frames are cut to this many bytes. The header remains readable; the rest of a cut frame is not decoded."""
MAX_RECORDS_FRAME_BYTES: Final = 1024
"""Requests of Produce and responses to Fetch, which contain records, are cut to this many bytes."""
MAX_CHANGES: Final = 50_000
"""The most changed rows that wait to be stored. Further changes are counted in `skipped_changes` and not stored."""

_HEARTBEAT: Final = HeartbeatRequest.api_key.to_bytes(2, "big")
_PRODUCE: Final = ProduceRequest.api_key.to_bytes(2, "big")
_FETCH: Final = FetchRequest.api_key.to_bytes(2, "big")


class Recorder:
    """Keeps the latest exchanges of all brokers in memory, as their RequestRecorder. In the emulator it is kept when
    the brokers are killed."""

    def __init__(
        self, now_ms: Callable[[], int], *, max_exchanges: int = MAX_EXCHANGES, max_bytes: int = MAX_BYTES
    ) -> None:
        self._now_ms = now_ms
        self._max_exchanges = max_exchanges
        self._max_bytes = max_bytes
        self._next_number = count(1).__next__
        self._rows: deque[ExchangeRow] = deque()
        self._kept_bytes = 0
        self._changes: dict[ExchangeRow, None] | None = None
        self.skipped_changes = 0
        """How many changes were not noted because too many waited; the writer resets it to 0."""

    # The interface of RequestRecorder

    def begin(self, connection: str, client_host: str, frame: bytes) -> ExchangeRow:
        length = len(frame)
        kept = frame if length <= MAX_RECORDS_FRAME_BYTES else _cut(frame, frame[:2] == _PRODUCE)
        at_ms = self._now_ms()
        row = ExchangeRow(self._next_number(), connection, client_host, at_ms, at_ms, kept, length)
        self._rows.append(row)
        self._kept_bytes += len(kept) + ROW_BYTES
        if len(self._rows) > self._max_exchanges or self._kept_bytes > self._max_bytes:
            self._forget_oldest()
        if self._changes is not None:
            self._note_change(row)
        return row

    def answer(self, row: ExchangeRow, response: bytes | bytearray | None, previous: ExchangeRow | None) -> ExchangeRow:
        row.ended_at_ms = self._now_ms()
        if response is not None:
            row.response_bytes = len(response) - 4
            frame = memoryview(response)[4:]
            row.response = _cut(frame, row.request[:2] == _FETCH)
            if self._rows and row.number >= self._rows[0].number:  # it may have been forgotten in the meantime
                self._kept_bytes += len(row.response)
        if previous is not None and row.request[:2] == _HEARTBEAT and _continues(row, previous):
            self._merge(row, previous)
            return previous
        if self._changes is not None:
            self._note_change(row)
        return row

    def repeat(self, row: ExchangeRow, count: int) -> None:
        row.count += count
        row.last_at_ms = self._now_ms()
        if self._changes is not None:
            self._note_change(row)

    def close(self, row: ExchangeRow, reason: str) -> None:
        row.ended_at_ms, row.closed = self._now_ms(), reason
        if self._changes is not None:
            self._note_change(row)

    def note_fault(self, row: ExchangeRow, effect: str) -> None:
        row.fault = effect
        if self._changes is not None:
            self._note_change(row)

    # Bounds

    def _forget_oldest(self) -> None:
        """Remove the oldest rows beyond the limits, also a row whose request has no response yet or whose run
        continues. Later changes of a removed row do not appear in `rows`."""
        while len(self._rows) > self._max_exchanges or (self._kept_bytes > self._max_bytes and len(self._rows) > 1):
            self._kept_bytes -= _memory_bytes(self._rows.popleft())

    def _merge(self, row: ExchangeRow, previous: ExchangeRow) -> None:
        """Add a row to the run of the previous row. The row itself is removed, if it is still the newest."""
        previous.count += row.count
        previous.last_at_ms = row.last_at_ms
        row.count = 0
        if self._rows and self._rows[-1] is row:
            self._kept_bytes -= _memory_bytes(self._rows.pop())
        if self._changes is not None:
            self._note_change(row)
            self._note_change(previous)

    def rows(self) -> list[ExchangeRow]:
        """Return the recorded exchanges that are in memory, as rows in the order of their requests."""
        return [row for row in self._rows if row.count]

    # What a store does not have yet

    def _note_change(self, row: ExchangeRow) -> None:
        changes = self._changes
        if changes is not None:
            if len(changes) < MAX_CHANGES:
                changes[row] = None
            else:
                self.skipped_changes += 1

    def note_changes(self, *, wanted: bool) -> None:
        """With `wanted`, begin to note which rows change, so that `take_changes` can return them; otherwise stop that.
        Rows that are in memory already are noted only when they change."""
        self._changes = {} if wanted else None

    def take_changes(self) -> list[ExchangeRow]:
        """The rows that have changed since the last call, in the order of their first change."""
        if not self._changes:
            return []
        changes, self._changes = self._changes, {}
        return list(changes)


def _cut(frame: bytes | memoryview, holds_records: bool) -> bytes:
    limit = MAX_RECORDS_FRAME_BYTES if holds_records else MAX_FRAME_BYTES
    return bytes(frame) if len(frame) <= limit else bytes(frame[:limit])


def _continues(row: ExchangeRow, previous: ExchangeRow) -> bool:
    """Whether a heartbeat continues the run of the previous one: both are equal but for their correlation ids, and no
    fault rule hit them."""
    return (
        previous.request[8:] == row.request[8:]
        and previous.request[:4] == row.request[:4]
        and previous.response[4:] == row.response[4:]
        and not (previous.fault or row.fault or previous.closed)
    )


def _memory_bytes(row: ExchangeRow) -> int:
    return ROW_BYTES + len(row.request) + len(row.response)
