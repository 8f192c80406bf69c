"""The payloads of the server's MQTT messages, as JSON."""

from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from typing import Final

import msgspec

from regroup.coordinator.topics import TopicsImage
from regroup.server.refusals.notices import RefusalNotice
from regroup.storage.records import Record

TARGET_MESSAGE_BYTES: Final = 256 * 1024
"""Events are put together into one message up to this size in bytes."""
MAX_EVENT_PAYLOAD_BYTES: Final = 1024 * 1024
"""The payload of an event is left out of the feed if it is larger than this, in bytes."""
MAX_CONTROL_MESSAGE_BYTES: Final = 1024
"""The most bytes of a replay request, and of a client's presence."""

ONLINE: Final = "online"
OFFLINE: Final = "offline"
"""The presence of a client, or of the coordinator, that has closed its connection to the MQTT broker."""
LOST: Final = "lost"
"""The presence of a client, or of the coordinator, whose connection to the MQTT broker was lost: its last will."""


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
    """The size in bytes of a payload that was left out because it is too large for MQTT (it is in the store); 0 if it
    is in the message."""


class FeedMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Events of one group in order. `group` is null for events of the cluster: topics, producers."""

    group: str | None
    events: list[FeedEvent]
    is_replay: bool = False
    """Whether the events were published before and were requested again."""
    first_event_number: int = 1
    """In a replay: the earliest event number of the group that is still in the store."""


class ReplayRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request to publish a group's events again, from the event number `from` (inclusive) on."""

    from_event_number: int = msgspec.field(name="from", default=1)


class Presence(msgspec.Struct, frozen=True):
    """The message that says whether the coordinator or a remote client is connected: its state is ONLINE, OFFLINE or
    LOST."""

    state: str
    incarnation: str
    at_ms: int = 0


class TopicNames(msgspec.Struct, frozen=True):
    """The names of the cluster's topics by topic id. Events of consumer groups have only the ids."""

    names: dict[str, str]


class ConnectionLossMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The message that the MQTT connection of a member was lost."""

    group: str
    member_id: str
    client_name: str
    lost_at_ms: int
    session_timeout_ms: int | None
    """The member's session timeout in milliseconds, after which the coordinator removes the member."""
    is_removed: bool
    """Whether the coordinator removes the member at once."""


class RefusalMessage(msgspec.Struct, frozen=True, kw_only=True):
    """Requests of members were refused. A refusal is not an event: it is not stored, and this message may be lost."""

    group: str
    at_ms: int
    """When the last of these requests was refused, in epoch milliseconds. All other fields but `count` and `clients`
    are also about the last one."""
    api: str
    error: str
    member_id: str
    client_id: str
    group_instance_id: str | None = None
    generation_id: int | None = None
    published_at_ms: int = 0
    """When the message was made, which may be ten seconds after `at_ms`; 0 in messages of regroup 0.2."""
    count: int = 1
    clients: tuple[str, ...] = ()
    """Some of the clients whose requests were refused; empty if `count` is 1."""
    is_one_kind: bool = True
    """Whether all refusals have this group, API and error code. If not, the message counts refusals of different kinds
    together."""


MAX_NAMED_TOPICS: Final = 10_000
"""How many topics one message names; the newest ones, if there are more."""

_encode: Final = msgspec.json.Encoder().encode


def feed_event(record: Record) -> FeedEvent:
    """Convert a stored record to the form in which the feed publishes it. A payload that is too large is left out."""
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
    """The records of each group; the groups are in the order of their first record."""
    grouped: dict[str | None, list[Record]] = {}
    for record in records:
        grouped.setdefault(record.group, []).append(record)
    return grouped


def message_batches(records: Iterable[Record]) -> Iterator[list[FeedEvent]]:
    """The events of these records, split into lists that are each small enough for one message."""
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
    """The encoded messages that publish these records of one group, in order."""
    return [
        _encode(FeedMessage(group=group, events=events, is_replay=is_replay, first_event_number=first_event_number))
        for events in message_batches(records)
    ]


def topic_names_payload(topics: TopicsImage) -> bytes:
    """The encoded TopicNames of the topics that exist."""
    newest = islice(reversed(topics.by_name.values()), MAX_NAMED_TOPICS)
    return _encode(TopicNames({topic.topic_id: topic.name for topic in newest}))


def refusal_payload(notice: RefusalNotice) -> bytes:
    """The encoded RefusalMessage of a notice about refused requests."""
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
            published_at_ms=notice.told_at_ms,
            count=notice.count,
            clients=notice.senders,
            is_one_kind=notice.is_one_kind,
        )
    )
