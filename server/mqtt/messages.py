"""The payloads of the server's MQTT messages, as JSON."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

import msgspec

from regroup.server.refusals.notices import RefusalNotice
from regroup.storage.records import Record

TARGET_MESSAGE_BYTES: Final = 256 * 1024
"""Events are put into one message up to this size."""
MAX_EVENT_PAYLOAD_BYTES: Final = 1024 * 1024
"""An event with a larger payload is published without it."""
MAX_CONTROL_MESSAGE_BYTES: Final = 1024
"""Size limit of a replay request, and of a client's presence."""

ONLINE: Final = "online"
OFFLINE: Final = "offline"
"""The connection to the MQTT broker was closed."""
LOST: Final = "lost"
"""The connection to the MQTT broker was lost; the broker publishes this as the last will."""


class FeedEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One stored event. `event_number` counts within the group, `position` in the whole store."""

    position: int
    event_number: int
    coordinator_epoch: int
    at_ms: int
    type: str
    version: int
    payload: msgspec.Raw = msgspec.Raw(b"null")
    cause: msgspec.Raw = msgspec.Raw(b"null")
    omitted_payload_bytes: int = 0
    """Size of a payload that is too large for MQTT; it is in the store."""


class FeedMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Events of one group in order. `group` is null for events of the cluster: topics, producers."""

    group: str | None
    events: list[FeedEvent]
    is_replay: bool = False
    """The events were requested again."""
    first_event_number: int = 1
    """In a replay: the earliest event number that is still in the store."""


class ReplayRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Requests a group's events from this number on."""

    from_event_number: int = msgspec.field(name="from", default=1)


class Presence(msgspec.Struct, frozen=True):
    """Whether the coordinator, or a remote client, is connected: ONLINE, OFFLINE or LOST."""

    state: str
    incarnation: str
    at_ms: int = 0


class ConnectionLossMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The connection of a member was lost."""

    group: str
    member_id: str
    client_name: str
    lost_at_ms: int
    session_timeout_ms: int | None
    """How long the coordinator needs to remove the member by itself."""
    is_removed: bool
    """The coordinator removes the member at once."""


class RefusalMessage(msgspec.Struct, frozen=True, kw_only=True):
    """Requests of members were refused. This is not an event: it is not stored, and may be lost."""

    group: str
    at_ms: int
    """The time of the last of them, as is everything below but `count` and `clients`."""
    api: str
    error: str
    member_id: str
    client_id: str
    group_instance_id: str | None = None
    generation_id: int | None = None
    count: int = 1
    clients: tuple[str, ...] = ()
    """Some of those that were refused, if there were several refusals."""
    is_one_kind: bool = True
    """All have this group, API and error code; otherwise they are the rest of a storm in many groups."""


_encode: Final = msgspec.json.Encoder().encode


def feed_event(record: Record) -> FeedEvent:
    """The record as the feed publishes it."""
    omitted_bytes = len(record.payload) if len(record.payload) > MAX_EVENT_PAYLOAD_BYTES else 0
    return FeedEvent(
        position=record.position,
        event_number=record.event_number,
        coordinator_epoch=record.coordinator_epoch,
        at_ms=record.at_ms,
        type=record.type,
        version=record.version,
        payload=msgspec.Raw(b"null" if omitted_bytes else record.payload),
        cause=msgspec.Raw(record.cause or b"null"),
        omitted_payload_bytes=omitted_bytes,
    )


def group_records(records: Iterable[Record]) -> dict[str | None, list[Record]]:
    """Records by group, groups in the order of their first record."""
    grouped: dict[str | None, list[Record]] = {}
    for record in records:
        grouped.setdefault(record.group, []).append(record)
    return grouped


def message_batches(records: Iterable[Record]) -> Iterator[list[FeedEvent]]:
    """The events in portions, each as large as one message may be."""
    total_bytes = 0

    def message_number(record: Record) -> int:
        nonlocal total_bytes
        total_bytes += min(len(record.payload), MAX_EVENT_PAYLOAD_BYTES) + len(record.cause or b"")
        return total_bytes // TARGET_MESSAGE_BYTES

    for _, batch in groupby(records, key=message_number):
        yield [feed_event(record) for record in batch]


def feed_payloads(
    group: str | None, records: Iterable[Record], *, is_replay: bool = False, first_event_number: int = 1
) -> list[bytes]:
    """The messages with these records, in order."""
    return [
        _encode(FeedMessage(group=group, events=events, is_replay=is_replay, first_event_number=first_event_number))
        for events in message_batches(records)
    ]


def refusal_payload(notice: RefusalNotice) -> bytes:
    """The message about refused requests."""
    last = notice.last
    return _encode(
        RefusalMessage(
            group=last.group_id,
            at_ms=last.at_ms,
            api=last.api,
            error=last.error,
            member_id=last.member_id,
            client_id=last.client_id,
            group_instance_id=last.group_instance_id,
            generation_id=last.generation_id,
            count=notice.count,
            clients=notice.senders,
            is_one_kind=notice.is_one_kind,
        )
    )
