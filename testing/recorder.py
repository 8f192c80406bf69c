"""The exchanges of an emulator: every request with its response, the latest of them, in the order of their requests."""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from regroup.protocol.apis import APIS
from regroup.protocol.errors import ErrorCode
from regroup.protocol.header import RequestHeader
from regroup.protocol.message import Message, Structure
from regroup.protocol.messages.group import HeartbeatRequest
from regroup.protocol.messages.records import FetchResponse, ProduceRequest
from regroup.server.faults.facts import RequestFacts
from regroup.server.net.exchange import Exchange

MAX_EXCHANGES: Final = 10_000
"""Exchanges that are kept; a run of equal heartbeats counts as one."""
NO_ANSWER: Final = "no answer"


class RecordedExchange(msgspec.Struct, frozen=True, kw_only=True):
    """A request and its response, or a run of equal heartbeats."""

    at_ms: int
    """When the request came."""
    answered_at_ms: int | None
    """When the response was sent; None if none was."""
    api: str
    """Kafka's name: `JoinGroup`."""
    version: int
    client_id: str
    connection: str
    """The number of the broker, and of the connection."""
    correlation_id: int
    groups: frozenset[str]
    members: frozenset[str]
    request: Message | None
    """None for a ProduceRequest, whose records are not kept."""
    response: Message | None
    """None without a response, and for a FetchResponse."""
    answer: str
    """`NONE`, or the first error code in the response; `no answer` without a response."""
    fault: str
    """What a fault rule did to it: `answer`, `drop answer`, `hold` …"""
    count: int
    """How many heartbeats the run has."""
    last_at_ms: int
    """When the last of them came."""

    def __str__(self) -> str:
        run = f" x{self.count}" if self.count > 1 else ""
        fault = f" (fault: {self.fault})" if self.fault else ""
        return f"{self.api}{run} v{self.version} of {self.client_id}: {self.answer}{fault}"


@dataclass(slots=True, kw_only=True)
class _Row:
    """An exchange while it may change."""

    header: RequestHeader
    connection: str
    request: Message | None
    groups: frozenset[str]
    members: frozenset[str]
    at_ms: int
    last_at_ms: int
    answered_at_ms: int | None = None
    response: Message | None = None
    answer: str = NO_ANSWER
    fault: str = ""
    count: int = 1

    def continues(self, previous: "_Row") -> bool:
        """Whether both are heartbeats of the same member with the same answer, and no fault was involved."""
        return (
            isinstance(self.request, HeartbeatRequest)
            and (previous.request, previous.answer) == (self.request, self.answer)
            and not (previous.fault or self.fault)
        )


class Recorder:
    """Keeps the latest exchanges. `begin` is called for each request, and `finish` for each that is finished."""

    def __init__(self, now_ms: Callable[[], int], topic_name: Callable[[bytes], str]) -> None:
        self._now_ms = now_ms
        self._topic_name = topic_name
        self._rows: deque[_Row] = deque()
        self._open: dict[Exchange, _Row] = {}
        self._last: dict[str, _Row] = {}
        """The last finished row of each connection."""

    def begin(self, exchange: Exchange, broker: int) -> None:
        """A request has come."""
        facts = RequestFacts(exchange, broker, self._topic_name)
        at_ms = self._now_ms()
        row = self._open[exchange] = _Row(
            header=exchange.header,
            connection=exchange.connection_name,
            request=None if isinstance(exchange.request, ProduceRequest) else exchange.request,
            groups=frozenset(facts.groups),
            members=frozenset(facts.members),
            at_ms=at_ms,
            last_at_ms=at_ms,
        )
        self._rows.append(row)
        if len(self._rows) > MAX_EXCHANGES:
            self._forget(self._rows.popleft())

    def hit(self, exchange: Exchange, effect: str) -> None:
        """A fault rule does something to the request."""
        row = self._open.get(exchange)
        if row is not None:
            row.fault = effect

    def finish(self, exchange: Exchange, response: Message | None) -> None:
        """The response is sent; None if none is expected."""
        row = self._open.pop(exchange, None)
        if row is None:
            return
        row.answered_at_ms = self._now_ms()
        row.answer = "NONE" if response is None else ErrorCode.name_of(next(error_codes(response), ErrorCode.NONE))
        row.response = None if isinstance(response, FetchResponse) else response
        previous = self._last.get(row.connection)
        if previous is not None and row.continues(previous):
            previous.count, previous.last_at_ms = previous.count + 1, row.at_ms
            self._remove(row)
        else:
            self._last[row.connection] = row

    def _remove(self, row: _Row) -> None:
        """It is the newest row, or one of the newest."""
        position = next(index for index in range(len(self._rows) - 1, -1, -1) if self._rows[index] is row)
        del self._rows[position]

    def _forget(self, row: _Row) -> None:
        self._open = {exchange: each for exchange, each in self._open.items() if each is not row}
        if self._last.get(row.connection) is row:
            del self._last[row.connection]

    def exchanges(
        self, *, api: str | tuple[str, ...] = (), client_id: str = "", group: str = ""
    ) -> list[RecordedExchange]:
        """The exchanges of which all conditions hold, the oldest first."""
        apis = (api,) if isinstance(api, str) else api
        return [
            _recorded(row)
            for row in self._rows
            if (not apis or APIS[row.header.api_key].name in apis)
            and client_id in ("", row.header.client_id)
            and (not group or group in row.groups)
        ]


def _recorded(row: _Row) -> RecordedExchange:
    return RecordedExchange(
        at_ms=row.at_ms,
        answered_at_ms=row.answered_at_ms,
        api=APIS[row.header.api_key].name,
        version=row.header.api_version,
        client_id=row.header.client_id or "",
        connection=row.connection,
        correlation_id=row.header.correlation_id,
        groups=row.groups,
        members=row.members,
        request=row.request,
        response=row.response,
        answer=row.answer,
        fault=row.fault,
        count=row.count,
        last_at_ms=row.last_at_ms,
    )


def error_codes(response: Structure) -> Iterator[int]:
    """The error codes in a response that are not 0: its own, then those of its members, topics and partitions."""
    code = getattr(response, "error_code", getattr(response, "partition_error_code", ErrorCode.NONE))
    if code:
        yield code
    for name in response.__struct_fields__:
        entries = getattr(response, name)
        if isinstance(entries, list):
            for entry in entries:
                if isinstance(entry, Structure):
                    yield from error_codes(entry)


def check_exchanges(expected: list[str], actual: list[RecordedExchange]) -> None:
    """Raise AssertionError with both lists unless they name the same APIs, in the same order.

    An entry may name the answer too: `Heartbeat: UNKNOWN_MEMBER_ID`.
    """
    shown = [
        f"{each.api}: {each.answer}" if ":" in wanted else each.api
        for each, wanted in zip(actual, [*expected, *[""] * len(actual)], strict=False)
    ]
    if shown != expected:
        rows = "\n".join(f"  {each}" for each in actual) or "  none"
        raise AssertionError(f"expected {', '.join(expected) or 'no exchange'}; recorded:\n{rows}")
