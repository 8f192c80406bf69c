"""Reads the recorded exchanges of a store: puts them together from blocks and finds the events to which they led."""

from msgspec.structs import replace

from regroup.server.net.request_recorder import ExchangeRow
from regroup.server.recording.blocks import REWRITE_INTERVAL_MS, decode_block
from regroup.server.recording.event_links import EventLinks
from regroup.server.recording.exchange import RecordedExchange
from regroup.server.recording.selection import ExchangeFilter
from regroup.storage.store import EventStore

EVERY_EXCHANGE = ExchangeFilter()


async def read_exchanges(store: EventStore, wanted: ExchangeFilter = EVERY_EXCHANGE) -> list[RecordedExchange]:
    """The recorded exchanges that pass the filter, in the order of their requests. Raises StoreDamaged."""
    exchanges, _ = await read_recording(store, wanted)
    return exchanges


async def read_recording(
    store: EventStore, wanted: ExchangeFilter = EVERY_EXCHANGE
) -> tuple[list[RecordedExchange], dict[int, int]]:
    """The exchanges that pass the filter; and since when, in epoch milliseconds, each process has recorded, by the
    coordinator epoch with which it began.

    The wanted ones are all in memory; of the others there is one block at a time. Raises StoreDamaged.
    """
    merger = RowMerger(wanted)
    recorded_since_ms: dict[int, int] = {}
    # A change of a row may be stored so much later than the row itself.
    from_ms = 0 if wanted.from_ms is None else max(0, wanted.from_ms - 2 * REWRITE_INTERVAL_MS)
    async for block in store.read_exchanges(from_ms=from_ms):
        for row in decode_block(block):
            epoch = row.connection.rpartition("@")[2]
            if row.request and epoch.isdecimal():
                recorded_since_ms.setdefault(int(epoch), row.at_ms)
            merger.add(row)
    exchanges = [each for each in merger.exchanges() if wanted.takes(each)]
    links = EventLinks()
    if exchanges:
        await links.read(store, from_ms=exchanges[0].at_ms)
    return links.link(exchanges), recorded_since_ms


class RowMerger:
    """Merges the rows of several blocks into exchanges. Rows must be added in the order of the blocks, since a later
    row replaces an earlier one with the same number."""

    def __init__(self, wanted: ExchangeFilter = EVERY_EXCHANGE) -> None:
        self._wanted = replace(wanted, from_ms=None)
        """The conditions that a later row with the same number cannot change: all but `from_ms`."""
        self._rows: dict[tuple[str, int], ExchangeRow] = {}

    def add(self, row: ExchangeRow) -> None:
        """Add a row of a block. A row without frames gets the frames of an earlier row with the same number. If there
        is no such row, because its block was deleted or the filter excludes it, the row is dropped."""
        key = (row.connection, row.number)
        earlier = self._rows.get(key)
        if not row.request and row.request_bytes:
            if earlier is None:
                return
            row.request = earlier.request
            row.response = row.response or earlier.response
        if not row.count:
            self._rows.pop(key, None)
        elif earlier is not None or self._may_be_wanted(row):
            self._rows[key] = row

    def _may_be_wanted(self, row: ExchangeRow) -> bool:
        """Whether the row may pass the filter. The member id of a JoinGroup may be only in its response, which a later
        row may add."""
        wanted = replace(self._wanted, member="") if row.ended_at_ms is None else self._wanted
        return wanted.takes(RecordedExchange(row))

    def exchanges(self) -> list[RecordedExchange]:
        """Return the exchanges that the added rows describe, in the order of their requests."""
        rows = sorted(self._rows.values(), key=lambda row: (row.at_ms, row.number))
        return [RecordedExchange(row) for row in rows]
