"""A recorded exchange as its readers get it: its frames are decoded when a property needs them."""

from collections.abc import Iterator
from functools import cached_property
from typing import Final, NamedTuple

from msgspec.structs import replace

from regroup.protocol.apis import APIS
from regroup.protocol.errors import ErrorCode
from regroup.protocol.exceptions import ProtocolError, Unsupported
from regroup.protocol.frames import decode_request, decode_request_header, decode_response
from regroup.protocol.header import RequestHeader
from regroup.protocol.message import Message, Structure
from regroup.protocol.messages.cluster import Coordinator
from regroup.protocol.messages.group import JoinGroupResponse
from regroup.server.net.request_recorder import ExchangeRow
from regroup.server.request_facts import RequestFacts

NO_ANSWER: Final = "no answer"
NOT_KEPT: Final = "not kept"


class LinkedEvent(NamedTuple):
    """An event to which an exchange has led: group, event number, position."""

    group: str | None
    """The group id; None for an event of the cluster."""
    event_number: int
    """The number of the event within its group."""
    position: int
    """The position of the event in the store."""


class _Sent(NamedTuple):
    """The decoded header and body of a request, as RequestFacts reads them."""

    header: RequestHeader
    request: Message


class RecordedExchange:
    """A request and its response, or a run of equal heartbeats. Times are epoch milliseconds.

    `request` and `response` are None where there is none, and where the frame was cut or cannot be decoded.
    """

    def __init__(self, row: ExchangeRow, events: tuple[LinkedEvent, ...] = ()) -> None:
        self.row = replace(row)
        """The recorded row, as a copy, because the recorder changes its own."""
        self.events = events
        """The events to which the exchange has led."""

    @property
    def at_ms(self) -> int:
        """When the request came, in epoch milliseconds; for a run, its first request."""
        return self.row.at_ms

    @property
    def last_at_ms(self) -> int:
        """When the last request of the run came, in epoch milliseconds."""
        return self.row.last_at_ms

    @property
    def answered_at_ms(self) -> int | None:
        """When the response was sent, in epoch milliseconds; None if none was sent."""
        return None if self.row.closed else self.row.ended_at_ms

    @property
    def connection(self) -> str:
        """The numbers of the broker and of the connection, and the epoch with which the process began: `0-3@7`."""
        return self.row.connection

    @property
    def client_host(self) -> str:
        return self.row.client_host

    @property
    def count(self) -> int:
        """How many equal heartbeats the run has; 1 for any other exchange."""
        return self.row.count

    @property
    def fault(self) -> str:
        """What a fault rule did to the request or its response, such as `answer`, `drop answer` or `hold`; empty if no
        rule hit the request."""
        return self.row.fault

    @property
    def closed(self) -> str:
        """Why the connection was closed before the request got a response; empty if it was not."""
        return self.row.closed

    @cached_property
    def header(self) -> RequestHeader:
        """The request header; zeros and no client id if it cannot be decoded."""
        try:
            return decode_request_header(self.row.request)[0]
        except Unsupported as error:
            return error.header
        except ProtocolError:
            return RequestHeader(-1, -1, 0, None)

    @property
    def api(self) -> str:
        """Kafka's name of the API: `JoinGroup`."""
        api = APIS.get(self.header.api_key)
        return api.name if api else f"API {self.header.api_key}" if self.header.api_key >= 0 else "undecodable"

    @property
    def version(self) -> int:
        return self.header.api_version

    @property
    def client_id(self) -> str:
        return self.header.client_id or ""

    @property
    def correlation_id(self) -> int:
        """The correlation id; for a run, that of its first request."""
        return self.header.correlation_id

    @cached_property
    def request(self) -> Message | None:
        if len(self.row.request) < self.row.request_bytes:
            return None
        try:
            return decode_request(self.row.request)[1]
        except ProtocolError:
            return None

    @cached_property
    def response(self) -> Message | None:
        row = self.row
        if not row.response_bytes or len(row.response) < row.response_bytes:
            return None
        # The answer to an ApiVersions whose version is not served has version 0 (KIP-511).
        for version in (self.version, 0):
            try:
                return decode_response(self.header.api_key, version, row.response)[1]
            except ProtocolError:
                continue
        return None

    @cached_property
    def answer(self) -> str:
        """The first error code in the response by Kafka's name, `NONE` without an error; `no answer` if there is no
        response, `not kept` if the recorded response was cut."""
        if self.response is not None:
            first = next(error_entries(self.response), None)
            return ErrorCode.name_of(first.code if first else ErrorCode.NONE)
        if self.row.response_bytes:
            return NOT_KEPT
        return NO_ANSWER if self.answered_at_ms is None else ErrorCode.NONE.name

    @property
    def error_message(self) -> str:
        """What the response says about its first error beside the code, at its top or in the entry that has the code;
        empty without an error, and for APIs whose responses have no such text."""
        first = next(error_entries(self.response), None) if self.response is not None else None
        return first.message if first else ""

    @cached_property
    def _facts(self) -> RequestFacts | None:
        if self.request is None:
            return None
        return RequestFacts(_Sent(self.header, self.request), 0, lambda topic_id: "")  # names are not asked for

    @cached_property
    def groups(self) -> frozenset[str]:
        """The groups that the request names."""
        return frozenset(self._facts.groups) if self._facts else frozenset()

    @cached_property
    def members(self) -> frozenset[str]:
        """The member ids and instance ids in the request; for a JoinGroup also the member id in the response."""
        if self._facts is None:
            return frozenset()
        joined = {self.response.member_id} - {""} if isinstance(self.response, JoinGroupResponse) else set()
        return frozenset(self._facts.members | self._facts.instances | joined)

    @property
    def generation(self) -> int | None:
        """The generation that the request names; None if it names none."""
        generation = self._facts.generation if self._facts else None
        return None if generation is None or generation < 0 else generation

    def __str__(self) -> str:
        run = f" x{self.count}" if self.count > 1 else ""
        fault = f" (fault: {self.fault})" if self.fault else ""
        return f"{self.api}{run} v{self.version} of {self.client_id}: {self.answer}{fault}"

    def __repr__(self) -> str:
        return f"<{self}>"


class ErrorEntry(NamedTuple):
    """An error code other than 0 in a response, and what stands beside it."""

    code: int
    message: str
    """The text beside the code; empty if there is none."""
    group: str | None
    """The group id of the entry that has the code, or of the one around it; None if it has none."""


def error_entries(response: Structure, group: str | None = None) -> Iterator[ErrorEntry]:
    """The errors in a response: its own first, then those of its groups, members, topics and partitions.

    An entry without a group id belongs to `group`.
    """
    group = getattr(response, "key" if isinstance(response, Coordinator) else "group_id", group)
    code = getattr(response, "error_code", getattr(response, "partition_error_code", ErrorCode.NONE))
    if code:
        yield ErrorEntry(code, getattr(response, "error_message", None) or "", group)
    for name in response.__struct_fields__:
        entries = getattr(response, name)
        if isinstance(entries, list):
            for entry in entries:
                if isinstance(entry, Structure):
                    yield from error_entries(entry, group)
