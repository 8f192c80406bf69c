"""What the feed says, as JSON: a few events of one group, a group's summary, a death, and who is there."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

import msgspec

from regroup.storage.records import Record

MOST_MESSAGE_BYTES: Final = 256 * 1024
"""Events are put together up to this size."""
MOST_EVENT_BYTES: Final = 1024 * 1024
"""An event with a larger payload goes without it."""
MOST_REQUEST_BYTES: Final = 1024
"""Of a request for events, and of a member's presence."""


class FeedEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event as the store has it. `number` counts within the group, `position` over the whole store."""

    position: int
    number: int
    reign: int
    at_ms: int
    type: str
    version: int
    payload: msgspec.Raw = msgspec.Raw(b"null")
    cause: msgspec.Raw = msgspec.Raw(b"null")
    left_out_bytes: int = 0
    """The payload was too large for MQTT; the store has it."""


class FeedMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Events of one group in order. `group` is null for what concerns the cluster: topics, producers."""

    group: str | None
    events: list[FeedEvent]
    again: bool = False
    """Somebody asked for these once more."""
    first: int = 1
    """With `again`: earlier events than this number are not there any more."""


class AgainRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Asks for a group's events from this number on."""

    number: int = msgspec.field(name="from", default=1)


class Presence(msgspec.Struct, frozen=True):
    """Who is there, or no longer. `here`, `left` (a goodbye), or `died` (the broker says it, by the last will)."""

    state: str
    incarnation: str
    at_ms: int = 0


class DeathMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A member's connection broke without a goodbye, beside what the coordinator alone would need to notice."""

    group: str
    member: str
    name: str
    died_at_ms: int
    session_timeout_ms: int | None
    expelled: bool
    """The coordinator acted on it at once."""


_encode: Final = msgspec.json.Encoder().encode


def event_of(record: Record) -> FeedEvent:
    """A record as the feed tells it."""
    left_out = len(record.payload) if len(record.payload) > MOST_EVENT_BYTES else 0
    return FeedEvent(
        position=record.position,
        number=record.number,
        reign=record.reign,
        at_ms=record.at_ms,
        type=record.type,
        version=record.version,
        payload=msgspec.Raw(b"null" if left_out else record.payload),
        cause=msgspec.Raw(record.cause or b"null"),
        left_out_bytes=left_out,
    )


def by_group(records: Iterable[Record]) -> dict[str | None, list[Record]]:
    """Groups in the order in which they come up, each with its own records in order."""
    grouped: dict[str | None, list[Record]] = {}
    for record in records:
        grouped.setdefault(record.group, []).append(record)
    return grouped


def portions(records: Iterable[Record]) -> Iterator[list[FeedEvent]]:
    """One after the other, as many as go into one message."""
    filled = 0

    def number_of_message(record: Record) -> int:
        nonlocal filled
        filled += min(len(record.payload), MOST_EVENT_BYTES) + len(record.cause or b"")
        return filled // MOST_MESSAGE_BYTES

    for _, some in groupby(records, key=number_of_message):
        yield [event_of(record) for record in some]


def feed_payloads(group: str | None, records: Iterable[Record], *, again: bool = False, first: int = 1) -> list[bytes]:
    """The messages that tell of these records, in order."""
    return [_encode(FeedMessage(group=group, events=events, again=again, first=first)) for events in portions(records)]
