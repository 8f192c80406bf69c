"""Records which requests and responses the simulated network lost or delayed, and why.

A message that took no longer than the plan's latency and jitter allow is not recorded.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Final, Protocol

from regroup.server.recording.observations import MessageObserved

_LENGTH: Final = Struct(">i")
_REQUEST: Final = Struct(">hhi")
"""API key, API version and correlation id of a request, which follow the length of its frame."""
_CORRELATION_ID: Final = Struct(">i")
_SMALLEST_DELAY_MS: Final = 0.001
"""A delay beyond the planned one counts only if it is longer than this; shorter ones come from rounding."""


class EndOfConnection(Protocol):
    """What the log of messages needs of one end of a connection."""

    host: str
    peer_host: str
    is_client: bool

    @property
    def connection_name(self) -> str:
        """The name that the broker gives the connection, which recorded exchanges have, too."""


@dataclass(slots=True, eq=False)
class Chunk:
    """Bytes that were sent together, with the requests and responses that begin in them."""

    endpoint: EndOfConnection
    sent_s: float
    at_ms: int
    position: int
    data: bytes
    messages: tuple[tuple[int, int, int], ...]
    """The messages that begin in the bytes: offset, correlation id and API key of each."""
    reason: str = ""
    """Why the bytes will be later than planned, if that is known when they are sent; otherwise empty."""
    was_held: bool = False
    """Whether the bytes waited because the link was cut."""


class MessageLog:
    """Records the requests and responses that the simulated network has lost or delayed, over all connections.

    `now_ms` is the brokers' clock, and `position` the position of the last stored event.
    """

    def __init__(
        self,
        loop_s: Callable[[], float],
        now_ms: Callable[[], int],
        position: Callable[[], int],
        *,
        longest_ms: float,
        take: Callable[[MessageObserved], object],
    ) -> None:
        self._loop_s, self._now_ms, self._position = loop_s, now_ms, position
        self._longest_ms = longest_ms + _SMALLEST_DELAY_MS
        self._take = take
        self._pending: dict[str, dict[int, int]] = {}
        """API keys of the requests that have no response yet, by connection and then by correlation id."""
        self._rest: dict[EndOfConnection, int] = {}
        """For each end of a connection, how many bytes of its last message have not been sent yet."""

    def sent(self, endpoint: EndOfConnection, data: bytes, delay_ms: float, reason: str) -> Chunk:
        """Record that bytes were sent, which arrive after `delay_ms` unless the link is cut.

        `reason` explains a delay that is longer than planned.
        """
        messages = tuple(self._begins(endpoint, data))
        late = reason if delay_ms > self._longest_ms else ""
        return Chunk(endpoint, self._loop_s(), self._now_ms(), self._position(), data, messages, late)

    def arrived(self, chunk: Chunk) -> None:
        """Note that a chunk has arrived; if it took longer than planned, its messages are recorded as delayed."""
        delay_ms = (self._loop_s() - chunk.sent_s) * 1000
        if delay_ms > self._longest_ms:
            here, there = chunk.endpoint.host, chunk.endpoint.peer_host
            reason = f"the link from {here} to {there} was cut" if chunk.was_held else chunk.reason
            self._note(chunk, self._now_ms(), round(delay_ms), reason or "it waited behind a message that was late")

    def lost(self, chunk: Chunk, reason: str) -> None:
        """Record the messages of a chunk as lost, since it never arrives; `reason` says why."""
        self._note(chunk, None, 0, reason)

    def _note(self, chunk: Chunk, arrived_at_ms: int | None, delay_ms: int, reason: str) -> None:
        endpoint = chunk.endpoint
        for offset, correlation_id, api_key in chunk.messages:
            is_lost_request = endpoint.is_client and arrived_at_ms is None
            (length,) = _LENGTH.unpack_from(chunk.data, offset - _LENGTH.size)
            self._take(
                MessageObserved(
                    at_ms=chunk.at_ms,
                    position=chunk.position,
                    client=endpoint.host if endpoint.is_client else endpoint.peer_host,
                    connection=endpoint.connection_name,
                    correlation_id=correlation_id,
                    api_key=api_key,
                    is_response=not endpoint.is_client,
                    arrived_at_ms=arrived_at_ms,
                    delay_ms=delay_ms,
                    reason=reason,
                    request=chunk.data[offset : offset + length] if is_lost_request else b"",
                )
            )

    def _begins(self, endpoint: EndOfConnection, data: bytes) -> Iterator[tuple[int, int, int]]:
        """Yield the messages that begin in these bytes. A long message may continue in the next bytes."""
        header = _REQUEST if endpoint.is_client else _CORRELATION_ID
        pending = self._pending.setdefault(endpoint.connection_name, {})
        offset = self._rest.get(endpoint, 0)
        while offset + _LENGTH.size + header.size <= len(data):
            begin = offset + _LENGTH.size
            if endpoint.is_client:
                api_key, _, correlation_id = _REQUEST.unpack_from(data, begin)
                pending[correlation_id] = api_key
            else:
                (correlation_id,) = _CORRELATION_ID.unpack_from(data, begin)
                api_key = pending.pop(correlation_id, -1)
            yield begin, correlation_id, api_key
            offset = begin + _LENGTH.unpack_from(data, offset)[0]
        self._rest[endpoint] = max(0, offset - len(data))

    def forget(self, endpoint: EndOfConnection) -> None:
        """Drop what the log keeps of a connection that has ended at this endpoint."""
        self._rest.pop(endpoint, None)
        if not endpoint.is_client:
            self._pending.pop(endpoint.connection_name, None)
