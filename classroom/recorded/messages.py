"""The decoded messages of exchanges, read from the store again when they are asked for."""

from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec

from regroup.classroom.recorded_values import TimelineExchange
from regroup.protocol.message import Message
from regroup.server.net.request_recorder import ExchangeRow
from regroup.server.recording.blocks import REWRITE_INTERVAL_MS, decode_block
from regroup.server.recording.exchange import RecordedExchange
from regroup.server.recording.observations import MessageObserved, decode_observations
from regroup.storage.store import EventStore


class ExchangeMessages(msgspec.Struct, frozen=True, kw_only=True):
    """A request and its response as objects for JSON; bytes in them are base64.

    None where there is none, and where a frame was cut, cannot be decoded, or has been deleted from the store.
    """

    request: Any = None
    response: Any = None


NO_MESSAGES: Final = ExchangeMessages()


async def read_messages(store: EventStore, exchanges: Collection[TimelineExchange]) -> Mapping[int, ExchangeMessages]:
    """The messages of these exchanges, by their numbers. Only the blocks of their time are read, one after the other.

    Raises StoreError.
    """
    wanted = {(each.connection, each.recorded_number): each.number for each in exchanges if each.recorded_number}
    found = {each.number: NO_MESSAGES for each in exchanges}
    rows: dict[int, ExchangeRow] = {}
    if wanted:
        from_ms = min(each.at_ms for each in exchanges) - REWRITE_INTERVAL_MS
        # A later block has at most the end of a run, whose messages are those of its begin.
        to_ms = max(each.answered_at_ms or each.at_ms for each in exchanges) + REWRITE_INTERVAL_MS
        async for block in store.read_exchanges(from_ms=max(0, from_ms), to_ms=to_ms):
            for row in decode_block(block):
                number = wanted.get((row.connection, row.number))
                if number is not None:
                    rows[number] = _with_frames(row, rows.get(number))
    lost = {(each.connection, each.correlation_id): each.number for each in exchanges if not each.recorded_number}
    if lost:
        async for block in store.read_observations():
            for observed in decode_observations(block):
                if isinstance(observed, MessageObserved) and observed.request:
                    number = lost.get((observed.connection, observed.correlation_id))
                    if number is not None:
                        rows[number] = lost_request_row(observed)
    return found | {number: messages_of_row(row) for number, row in rows.items()}


def lost_request_row(message: MessageObserved) -> ExchangeRow:
    """A request that was lost on its way as a row like those of the recording, so that it can be decoded like them."""
    at_ms, frame = message.at_ms, message.request
    return ExchangeRow(0, message.connection, "", at_ms, at_ms, frame, len(frame))


def _with_frames(row: ExchangeRow, earlier: ExchangeRow | None) -> ExchangeRow:
    """The later row of an exchange with the request, and if it lacks one the response, of the earlier row."""
    if earlier is not None:
        row.request = row.request or earlier.request
        row.response = row.response or earlier.response
        row.response_bytes = row.response_bytes or earlier.response_bytes
    return row


def messages_of_row(row: ExchangeRow) -> ExchangeMessages:
    """Decode the messages of an exchange whose row is still in the recorder's memory."""
    exchange = RecordedExchange(row)
    return ExchangeMessages(request=_builtins(exchange.request), response=_builtins(exchange.response))


def _builtins(message: Message | None) -> Any:
    return None if message is None else msgspec.to_builtins(message)
