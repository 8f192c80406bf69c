"""What a simulation has observed beside events and exchanges, as blocks of a store: what its network did to messages,
what its members believed they owned, and which records they read twice.

Only a simulation can write them: in a real network neither side learns what became of a lost message.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Final, TypeAlias

import msgspec

from regroup.storage.errors import StoreDamaged
from regroup.storage.numbers import StoredNumber, StoredTime
from regroup.storage.records import ExchangeBlock, NewExchangeBlock
from regroup.storage.store import EventStore


class ObservationsBegan(msgspec.Struct, frozen=True, array_like=True, tag="began"):
    """From this time on the network and the members' views are observed, until the end of the store."""

    at_ms: StoredTime
    position: StoredNumber
    latency_ms: float
    """The time that each message takes in a network without faults. One that takes longer has a row."""
    jitter_ms: float
    """By chance up to so much more."""
    has_reads: bool = False
    """Whether it is observed which records members read again; stores of before that was say that it is not."""


class MessageObserved(msgspec.Struct, frozen=True, array_like=True, tag="message"):
    """A request or a response that was lost, or took longer than the network without faults takes.

    Times are epoch milliseconds, by the clock of the brokers.
    """

    at_ms: StoredTime
    """When the message was sent."""
    position: StoredNumber
    """Position of the last event in the store at that time."""
    client: str
    """The name of the client's host."""
    connection: str
    """As recorded exchanges name it: `0-3@7`."""
    correlation_id: int
    api_key: int
    is_response: bool
    arrived_at_ms: StoredTime | None
    """When the message arrived; None if it was lost."""
    delay_ms: StoredNumber
    """How long it took, by a clock that is never set; 0 if it was lost."""
    reason: str
    """`anna and broker 0 were cut off from each other`."""
    request: bytes = b""
    """The frame of a lost request, without its length: no broker has seen it, so it is in no recorded exchange."""


class ViewObserved(msgspec.Struct, frozen=True, array_like=True, tag="view"):
    """From this time on a member believed that it owned these partitions and no others."""

    at_ms: StoredTime
    position: StoredNumber
    client: str
    """The name of the member's host, which is its client id."""
    group: str
    member_id: str
    """The id under which it has last joined; empty before it got one."""
    partitions: tuple[tuple[str, int], ...]


class ReadAgainObserved(msgspec.Struct, frozen=True, array_like=True, tag="read again"):
    """A member has processed records of a partition that a member of its group had processed before."""

    at_ms: StoredTime
    position: StoredNumber
    client: str
    """The name of the member's host, which is its client id."""
    group: str
    topic: str
    partition: StoredNumber
    first: StoredNumber
    """The offset of the first of them."""
    count: StoredNumber
    """How many there are, one after the other."""


Observation: TypeAlias = ObservationsBegan | MessageObserved | ViewObserved | ReadAgainObserved

MAX_ROWS: Final = 1_000
_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(list[Observation])


def encode_observations(rows: Sequence[Observation]) -> list[NewExchangeBlock]:
    """The blocks that store these observations."""
    parts = [rows[first : first + MAX_ROWS] for first in range(0, len(rows), MAX_ROWS)]
    return [
        NewExchangeBlock(
            min(row.at_ms for row in part), max(row.at_ms for row in part), len(part), _ENCODER.encode(part)
        )
        for part in parts
    ]


def decode_observations(block: ExchangeBlock) -> list[Observation]:
    """The observations in a block. Raises StoreDamaged."""
    try:
        return _DECODER.decode(block.payload)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise StoreDamaged(
            f"Block {block.number} of the observations is damaged ({error}). The events can still be read."
        ) from error


async def read_observations(store: EventStore) -> AsyncIterator[Observation]:
    """Every observation of a store, in the order in which they were stored. Raises StoreDamaged."""
    async for block in store.read_observations():
        for row in decode_observations(block):
            yield row
