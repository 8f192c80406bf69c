"""The exchanges of one group as values of its timeline."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from msgspec.structs import replace

from regroup.classroom.points import Point
from regroup.classroom.recorded.drafts import ExchangeDraft, ExchangeDrafts
from regroup.classroom.recorded.fates import Fate, fate_of
from regroup.classroom.recorded_values import ExchangeFate, TimelineExchange
from regroup.classroom.timeline import TimelineMoment

SENT_AGAIN: Final = frozenset(
    {"JoinGroup", "SyncGroup", "LeaveGroup", "OffsetCommit", "TxnOffsetCommit", "OffsetFetch"}
)
"""Requests that a client repeats if it got no response."""
WITHOUT_RESPONSE: Final = frozenset({ExchangeFate.CLOSED, ExchangeFate.REQUEST_LOST, ExchangeFate.RESPONSE_LOST})
Request: TypeAlias = tuple[str, int]
"""The connection and the correlation id."""


def timeline_exchanges(
    drafts: ExchangeDrafts, group: str, moments: Iterable[TimelineMoment], from_ms: int = 0
) -> tuple[TimelineExchange, ...]:
    """The exchanges of one group that ended at this time or later, each with the positions of the moments that name it
    as their cause."""
    of_group = drafts.of_group(group, from_ms)
    events = _events_by_request(moments) if of_group else {}
    found: list[TimelineExchange] = []
    unanswered: dict[tuple[str, str], TimelineExchange] = {}
    for number, draft in enumerate(of_group, start=1):
        exchange = _exchange(draft, number, _fate(drafts, draft), events)
        if exchange.api in SENT_AGAIN:
            key = (exchange.client_id, exchange.api)
            earlier = unanswered.pop(key, None)
            if earlier is not None and earlier.generation == exchange.generation:
                exchange = replace(exchange, repeats=earlier.number)
            if exchange.fate in WITHOUT_RESPONSE:
                unanswered[key] = exchange
        found.append(exchange)
    return tuple(found)


def _fate(drafts: ExchangeDrafts, draft: ExchangeDraft) -> Fate:
    messages = drafts.messages_of(draft)
    if not draft.number:
        return Fate(ExchangeFate.REQUEST_LOST, messages[0].reason, messages[0].at_ms)
    return fate_of(draft.closed, draft.fault, is_answered=draft.ended_at_ms is not None, messages=messages)


def _exchange(draft: ExchangeDraft, number: int, fate: Fate, events: Mapping[Request, list[Point]]) -> TimelineExchange:
    ended_at_ms = draft.ended_at_ms
    return TimelineExchange(
        number=number,
        member_id=draft.member_id,
        client_id=draft.client_id,
        api=draft.api,
        version=draft.version,
        connection=draft.connection,
        correlation_id=draft.correlation_id,
        at_ms=draft.at_ms,
        arrived_at_ms=draft.at_ms if draft.number else None,
        last_at_ms=draft.last_at_ms,
        answered_at_ms=None if draft.closed else ended_at_ms,
        closed_at_ms=ended_at_ms if draft.closed else None,
        error=draft.error,
        error_message=draft.error_message,
        fate=fate.fate,
        reason=fate.reason,
        count=draft.count,
        seen_ms=tuple(draft.seen_ms),
        generation=draft.generation,
        events=tuple(
            point.position
            for point in events.get((draft.connection, draft.correlation_id), ())
            if draft.at_ms <= point.at_ms and (ended_at_ms is None or point.at_ms <= ended_at_ms)
        ),
        sent_at_ms=fate.sent_at_ms,
        received_at_ms=fate.received_at_ms,
        recorded_number=draft.number,
    )


def _events_by_request(moments: Iterable[TimelineMoment]) -> Mapping[Request, list[Point]]:
    found: dict[Request, list[Point]] = defaultdict(list)
    for moment in moments:
        cause = moment.cause
        if cause is not None and cause.correlation_id is not None:
            found[cause.connection, cause.correlation_id].append(moment.point)
    return found
