"""Requests that went wrong, as far as recorded: refused, lost, late, handled twice, or sent again.

Equal ones of a member that follow one another are one incident.
"""

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Final

import msgspec
from msgspec.structs import replace

from regroup.classroom.languages import Language
from regroup.classroom.phrases.known_texts import REASON, known_text
from regroup.classroom.phrases.phrase import PhraseValue, in_language, phrase
from regroup.classroom.recorded_values import ExchangeFate, TimelineExchange
from regroup.classroom.timeline import GroupTimeline
from regroup.classroom.wording import MemberNames, length, times
from regroup.coordinator.group import MemberId
from regroup.server.explanation.sentences import time_text

MEMBER_APIS: Final = frozenset(
    {
        "JoinGroup",
        "SyncGroup",
        "Heartbeat",
        "ConsumerGroupHeartbeat",
        "LeaveGroup",
        "OffsetCommit",
        "AddOffsetsToTxn",
        "TxnOffsetCommit",
        "OffsetFetch",
    }
)
"""The requests of members; those of administrators, and the search for a coordinator, are no incidents."""


class IncidentKind(Enum):
    """What went wrong with a request: refused, lost, late, handled twice and so on."""

    REFUSED = "refused"
    REQUEST_LOST = "request lost"
    RESPONSE_LOST = "response lost"
    CLOSED = "no response"
    LATE = "late"
    TWICE = "handled twice"
    AGAIN = "sent again"


_KINDS: Final = {
    ExchangeFate.REQUEST_LOST: IncidentKind.REQUEST_LOST,
    ExchangeFate.RESPONSE_LOST: IncidentKind.RESPONSE_LOST,
    ExchangeFate.CLOSED: IncidentKind.CLOSED,
    ExchangeFate.LATE: IncidentKind.LATE,
    ExchangeFate.REPEATED: IncidentKind.TWICE,
}


class Incident(msgspec.Struct, frozen=True, kw_only=True):
    """One or more equal requests of a member that went wrong in the same way. Times are epoch milliseconds."""

    kind: IncidentKind
    at_ms: int
    """When the first was sent, if that is known; otherwise when it came."""
    last_ms: int
    """When the last was sent or came."""
    ended_ms: int
    """When the first of them, or its response, arrived; `at_ms` if it never did."""
    member_id: MemberId
    name: str
    """The name of the member's lane, or the client id; empty for a client without one."""
    api: str
    error: str
    """The error code of a refused request; empty for others."""
    reason: str
    """Why it went wrong, as far as that is known; of a refused request, the message in the response."""
    count: int

    @property
    def text(self) -> str:
        """The incident as a sentence in English, without the time at which it happened."""
        return self.text_in(Language.ENGLISH)

    def text_in(self, language: Language) -> str:
        """The incident as a sentence in this language, without the time at which it happened."""
        request = phrase("request of", member=self._who, api=self.api)
        said = phrase(
            f"incident {self.kind.value}",
            request=request,
            member=self._who,
            api=self.api,
            error=self.error,
            because=phrase("because", reason=known_text(self.reason, REASON)) if self.reason else "",
            length=length(self.ended_ms - self.at_ms),
            repeated=self._repeated,
        )
        return in_language(said, language)

    @property
    def _who(self) -> PhraseValue:
        return self.name or phrase("client without a name")

    @property
    def _repeated(self) -> PhraseValue:
        if self.count <= 1:
            return ""
        return phrase("repeated", count=times(self.count), time=time_text(self.last_ms))


def incidents_of(timeline: GroupTimeline) -> tuple[Incident, ...]:
    """The incidents of a group's history, in the order in which they began.

    Equal ones of one client and API become one incident, unless a request of that API went well in between.
    """
    found: list[Incident] = []
    latest: dict[tuple[str, str], int] = {}
    """The index of the last incident of a client and an API, until another one of its requests goes well."""
    for exchange in timeline.exchanges:
        if exchange.api not in MEMBER_APIS:
            continue
        key = (exchange.client_id, exchange.api)
        incidents = list(_incidents_in(timeline, exchange))
        for incident in incidents:
            index = latest.get(key)
            if index is not None and _are_alike(found[index], incident):
                before = found[index]
                found[index] = replace(before, last_ms=incident.last_ms, count=before.count + incident.count)
            else:
                latest[key] = len(found)
                found.append(incident)
        if not incidents:
            latest.pop(key, None)
    return tuple(sorted(found, key=lambda each: each.at_ms))


def _incidents_in(timeline: GroupTimeline, exchange: TimelineExchange) -> Iterator[Incident]:
    """Yield the incident of an exchange, or nothing.

    If several kinds fit, a lost, late or repeated message counts before a refusal, and a refusal before a request sent
    again.
    """
    kind = _KINDS.get(exchange.fate)
    if kind is None and exchange.is_refused:
        kind = IncidentKind.REFUSED
    elif kind is None and exchange.repeats is not None:
        kind = IncidentKind.AGAIN
    if kind is not None:
        began_ms = exchange.at_ms if exchange.sent_at_ms is None else exchange.sent_at_ms
        yield Incident(
            kind=kind,
            at_ms=began_ms,
            last_ms=max(began_ms, exchange.last_at_ms) if exchange.sent_at_ms is None else began_ms,
            ended_ms=exchange.ended_at_ms,
            member_id=exchange.member_id,
            name=timeline.names.get(exchange.member_id) or exchange.client_id,
            api=exchange.api,
            error=exchange.error if kind is IncidentKind.REFUSED else "",
            reason=_message_in(timeline, exchange) if kind is IncidentKind.REFUSED else exchange.reason,
            count=exchange.count,
        )


def _message_in(timeline: GroupTimeline, exchange: TimelineExchange) -> str:
    """What the response says about its error, without its full stop and with names in place of member ids."""
    return MemberNames(timeline.names_of_ids).within(exchange.error_message.rstrip("."))


def _are_alike(one: Incident, other: Incident) -> bool:
    return (one.kind, one.name, one.error, one.reason) == (other.kind, other.name, other.error, other.reason) and (
        one.kind is not IncidentKind.AGAIN
    )


def incidents_between(incidents: Iterable[Incident], from_ms: float, to_ms: float) -> list[Incident]:
    """The incidents that began between two times, both included."""
    return [each for each in incidents if from_ms <= each.at_ms <= to_ms]
