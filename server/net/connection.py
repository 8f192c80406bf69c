"""One client's connection: bytes in, requests handled in order, responses in the same order, all buffers bounded."""

import asyncio
from collections import deque
from typing import Protocol, cast

import structlog

from regroup.protocol.errors import ErrorCode
from regroup.protocol.exceptions import Malformed, ProtocolError, Unsupported
from regroup.protocol.fields import Versions
from regroup.protocol.frames import FrameReader, decode_request, encode_response
from regroup.protocol.header import RequestHeader
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from regroup.server.net.cached_response import CachedResponse
from regroup.server.net.exchange import Exchange, RequestHandler
from regroup.server.net.request_observer import RequestObservers
from regroup.storage.errors import StoreError

MAX_READ_AHEAD_BYTES = 64 * 1024
"""Bytes that may wait behind a request without a response; further ones stay in the client's own socket."""
MAX_BATCHED_RESPONSE_BYTES = 64 * 1024
"""Responses are written together up to this size."""

log = structlog.get_logger()


class BrokerHandle(Protocol):
    """The broker as its connections use it."""

    max_frame_bytes: int
    max_idle_s: float
    observers: RequestObservers
    """They see each exchange that is finished."""

    def handler_for(self, header: RequestHeader) -> RequestHandler | None:
        """The handler of this API in this version; None if the broker does not serve it."""

    def refusal_of(self, header: RequestHeader) -> str:
        """Why the broker does not serve this API in this version."""

    def served_versions(self, api_key: int) -> Versions:
        """The versions of an API that is served."""

    def add_connection(self, connection: "Connection") -> None: ...

    def remove_connection(self, connection: "Connection") -> None: ...


class Connection(asyncio.Protocol):
    """Handles one request at a time, as Kafka does: the others wait until it has its response."""

    def __init__(self, broker: BrokerHandle, name: str) -> None:
        self.name = name
        self.client_host = ""
        self._broker = broker
        self._loop = asyncio.get_running_loop()
        self._frame_reader = FrameReader(broker.max_frame_bytes)
        self._frames: deque[bytes] = deque()
        self._queued_bytes = 0
        self._current: Exchange | None = None
        self._current_frame = b""
        self._cached: CachedResponse | None = None
        self._responses: list[bytes] = []
        self._batched_bytes = 0
        self._is_processing = False
        self._can_write = True
        self._is_reading = True
        self._parse_error: str | None = None
        self._is_closing = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        self.client_host = f"/{peer[0]}" if peer else "/unknown"
        self._last_activity_s = self._loop.time()
        self._idle_timer = self._loop.call_at(self._last_activity_s + self._broker.max_idle_s, self._check_idle)
        self._broker.add_connection(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._is_closing = True
        self._idle_timer.cancel()
        self._frames.clear()
        current, self._current = self._current, None
        if current is not None and current.on_connection_lost is not None:
            current.on_connection_lost()
        self._broker.remove_connection(self)

    def data_received(self, data: bytes) -> None:
        self._last_activity_s = self._loop.time()
        try:
            for frame in self._frame_reader.feed(data):
                self._frames.append(frame)
                self._queued_bytes += len(frame)
        except Malformed as error:
            self._parse_error = str(error)  # the requests before it still get their responses
        if not self._is_processing:
            self._process()

    def pause_writing(self) -> None:
        """The client does not read its responses: no request is handled until it does."""
        self._can_write = False

    def resume_writing(self) -> None:
        self._can_write = True
        self._last_activity_s = self._loop.time()
        if not self._is_processing:
            self._process()

    def stop(self) -> None:
        """Close without a line in the log, because the broker stops. Responses that are ready are still sent."""
        if not self._is_closing:
            self._is_closing = True
            self._flush()
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()

    def _process(self) -> None:
        """Handle requests until one is held, none is left, or the client has to read its responses first."""
        self._is_processing = True
        # The transport is the first to know that the client has disconnected; further responses would be in vain.
        while self._frames and self._current is None and self._can_write and not self._transport.is_closing():
            if self._cached is None or not self._respond_from_cache(self._cached):
                frame = self._frames.popleft()
                self._queued_bytes -= len(frame)
                self._handle(frame)
            if self._batched_bytes >= MAX_BATCHED_RESPONSE_BYTES:
                self._flush()
        self._is_processing = False
        self._flush()
        if self._parse_error is not None and not self._frames and self._current is None:
            self._close(self._parse_error)
        self._pause_or_resume_reading()

    def _respond_from_cache(self, cached: CachedResponse) -> bool:
        """Respond to the cached request as often as the queue begins with it; False if it does not."""
        count, responses = cached.responses_to(self._frames)
        for _ in range(count):
            self._queued_bytes -= len(self._frames.popleft())
        if count:
            self._add_response(responses)
        return count > 0

    def _handle(self, frame: bytes) -> None:
        try:
            header, request = decode_request(frame)
        except Unsupported as error:
            self._refuse(error.header)
            return
        except ProtocolError as error:
            self._close(str(error))
            return
        handler = self._broker.handler_for(header)
        if handler is not None:
            self._current_frame = frame
            self._call(handler, request, header)
        else:
            self._refuse(header)

    def _refuse(self, header: RequestHeader) -> None:
        """Close, as Kafka does where a version is not served; ApiVersions alone gets a response."""
        if header.api_key == ApiVersionsRequest.api_key:
            self._respond_with_supported_versions(header)
        else:
            self._close(self._broker.refusal_of(header))

    def _call(self, handler: RequestHandler, request: Message, header: RequestHeader) -> None:
        """Call the handler. An error in it costs this connection, never the process."""
        exchange = self._current = Exchange(
            header,
            request,
            connection_name=self.name,
            client_host=self.client_host,
            on_response=self._finish,
            on_close=self._close_unanswered,
        )
        try:
            handler(request, exchange)
        except StoreError as error:
            self._close_unanswered(exchange, f"the store has failed: {error}")
        except Exception:
            log.exception("request failed", connection=self.name, client=self.client_host, api=header.api_key)
            self._close_unanswered(exchange, "the request could not be handled")

    def _finish(self, exchange: Exchange, response: Message | None) -> None:
        """Take the response to the current request, None if it expects none; later responses are dropped."""
        if exchange is not self._current:
            return
        self._current = None
        for observe in self._broker.observers:
            observe(exchange, response)
        if response is not None:
            self._encode(exchange.header, response)
        if exchange.still_valid is not None and self._responses:
            self._cached = CachedResponse.from_frames(self._current_frame, self._responses[-1], exchange.still_valid)
        if not self._is_processing:
            self._process()

    def _close_unanswered(self, exchange: Exchange, reason: str) -> None:
        if exchange is self._current:
            self._current = None
            self._close(reason)

    def _respond_with_supported_versions(self, header: RequestHeader) -> None:
        """Send the versions of ApiVersions in its oldest version, so that the client can use one of them (KIP-511)."""
        versions = self._broker.served_versions(ApiVersionsRequest.api_key)
        entry = ApiVersion(api_key=ApiVersionsRequest.api_key, min_version=versions.first, max_version=versions.last)
        body = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[entry])
        self._encode(header._replace(api_version=0), body)

    def _encode(self, header: RequestHeader, response: Message) -> None:
        try:
            data = encode_response(header.api_key, header.api_version, header.correlation_id, response)
        except ProtocolError as error:
            self._close(f"the response cannot be sent: {error}")
        else:
            self._add_response(data)

    def _add_response(self, data: bytes) -> None:
        self._responses.append(data)
        self._batched_bytes += len(data)

    def _flush(self) -> None:
        responses, self._responses, self._batched_bytes = self._responses, [], 0
        if responses and not self._transport.is_closing():
            self._transport.write(b"".join(responses) if len(responses) > 1 else responses[0])

    def _pause_or_resume_reading(self) -> None:
        """Read no more bytes while enough requests are queued and none of them can be handled."""
        waiting = self._queued_bytes + self._frame_reader.buffered_bytes
        is_blocked = self._current is not None or not self._can_write
        should_read = not (self._parse_error or (is_blocked and waiting >= MAX_READ_AHEAD_BYTES))
        if should_read != self._is_reading and not self._is_closing:
            self._is_reading = should_read
            (self._transport.resume_reading if should_read else self._transport.pause_reading)()

    def _close(self, reason: str) -> None:
        """Close with one line in the log. Responses that are ready are still sent; queued requests are dropped."""
        if self._is_closing:
            return
        self._is_closing = True
        log.warning("connection closed", connection=self.name, client=self.client_host, reason=reason)
        self._frames.clear()
        self._flush()
        self._transport.close()

    def _check_idle(self) -> None:
        """Apply `connections.max.idle.ms`. A client with a held request is not idle; one that never reads is."""
        idle_s = self._loop.time() - self._last_activity_s
        if self._current is not None and self._can_write:
            idle_s = 0
        if idle_s < self._broker.max_idle_s:
            delay_s = self._broker.max_idle_s - idle_s
            self._idle_timer = self._loop.call_later(delay_s, self._check_idle)
            return
        if not self._is_closing:
            log.info("connection closed", connection=self.name, client=self.client_host, reason="idle for too long")
        self._is_closing = True
        self._transport.abort()
