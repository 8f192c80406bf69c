"""One client's connection: decodes requests and handles them in order, sends responses in the same order, and bounds
all buffers.
"""

import asyncio
from collections import deque
from functools import partial
from typing import Protocol, cast

from regroup.coordinator.runtime.logger import get_logger
from regroup.protocol.errors import ErrorCode
from regroup.protocol.exceptions import Malformed, ProtocolError, TooLong, Unencodable, Unsupported
from regroup.protocol.fields import Versions
from regroup.protocol.frames import FrameReader, ResponseEncoder, decode_request, encode_response, encode_short_response
from regroup.protocol.header import RequestHeader
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from regroup.server.limits import ENCODED_BYTES_PER_TURN, MAX_ENTRIES_BY_API, STEPS_PER_TURN
from regroup.server.net.cached_response import MAX_CACHED_BYTES, CachedResponse, StillValid
from regroup.server.net.exchange import Exchange, RequestHandler
from regroup.server.net.pipeline import Pipeline
from regroup.server.net.request_gate import RequestGate
from regroup.server.net.request_observer import RequestObservers
from regroup.server.net.request_recorder import ExchangeRow, RequestRecorder
from regroup.server.net.response_buffer import ResponseBuffer, UnreadBytes
from regroup.server.net.turns import LongWork, TurnQueue, Turns
from regroup.storage.errors import StoreError

MAX_READ_AHEAD_BYTES = 64 * 1024
"""The most bytes that are read behind a request that has no response yet; further ones stay in the client's socket."""
log = get_logger("connection")


class BrokerHandle(Protocol):
    """The broker as its connections use it."""

    max_frame_bytes: int
    max_response_bytes: int
    max_idle_s: float
    observers: RequestObservers
    """They are called with each exchange that has ended."""
    recorder: RequestRecorder | None
    """Keeps the bytes of requests and responses; None if exchanges are not recorded."""
    needs_whole_responses: bool
    """Whether each response must be written to the transport in one piece, as one MQTT message."""
    unread: UnreadBytes
    """Counts the bytes of responses that the clients of all brokers have not read."""
    turns: TurnQueue
    """The queue in which long requests of all connections get their turns."""

    @property
    def gate(self) -> RequestGate | None:
        """Decides over each request before its handler is called; None for no gate."""

    def handler_for(self, header: RequestHeader) -> RequestHandler | None:
        """The handler of this API in this version; None if the broker does not serve it."""

    def refusal_of(self, header: RequestHeader) -> str:
        """Why the broker does not serve this API in this version."""

    def served_versions(self, api_key: int) -> Versions:
        """The versions in which an API is served."""

    def log_closed(self, connection: "Connection", reason: str) -> None:
        """Log why a connection is closed."""

    def add_connection(self, connection: "Connection") -> None: ...

    def remove_connection(self, connection: "Connection") -> None: ...


class Connection(asyncio.Protocol):
    """The server's side of one connection. It handles one request at a time, as Kafka does: the others wait until that
    one has its response. Only behind commits of offsets may the next ones be decided before it (`Pipeline`)."""

    def __init__(self, broker: BrokerHandle, name: str) -> None:
        self.name = name
        self.client_host = ""
        self._broker = broker
        self._recorder = broker.recorder
        self._row: ExchangeRow | None = None
        """The recorded row of the current request."""
        self._last_row: ExchangeRow | None = None
        """The recorded row of the request before the current one."""
        self._loop = asyncio.get_running_loop()
        self._frame_reader = FrameReader(broker.max_frame_bytes)
        self._frames: deque[bytes] = deque()
        self._queued_bytes = 0
        self._current: Exchange | None = None
        self._current_frame = b""
        self._pipeline = Pipeline()
        self._end_reason: str | None = None
        """Why the connection is closed once its pipeline is empty; None to keep it open."""
        self._flush_is_scheduled = False
        self._last_header: RequestHeader | None = None
        self._work: LongWork | None = None
        self._cached: CachedResponse | None = None
        self._responses = ResponseBuffer(broker.unread)
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
        self._responses.clear()
        self._drop_current()
        self._broker.remove_connection(self)

    def _drop_current(self) -> None:
        if self._work is not None:
            self._work.cancel()
        current, self._current = self._current, None
        self._drop_pipeline("the connection was lost")
        self._record_close("the connection was lost")
        if current is not None and current.on_connection_lost is not None:
            current.on_connection_lost()

    def data_received(self, data: bytes) -> None:
        if self._is_closing or self._end_reason is not None:
            return
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
        """Called by the transport while the client does not read its responses: no request is handled until it does."""
        self._can_write = False

    def resume_writing(self) -> None:
        self._can_write = True
        self._last_activity_s = self._loop.time()
        self._flush()
        if not self._is_processing:
            self._process()

    @property
    def client_id(self) -> str:
        """The client id in the last decoded request; empty before the first."""
        return self._last_header.client_id or "" if self._last_header else ""

    def stop(self) -> None:
        """Close because the broker stops, without a warning in the log. Responses that are ready are still sent."""
        if not self._is_closing:
            self._is_closing = True
            self._flush()

    def abort(self) -> None:
        """Close the connection at once; the current request gets no response."""
        self._drop_current()
        self._transport.abort()

    def forget_cached_response(self) -> None:
        """Discard the cached response, so that the next request is decoded even if it repeats the last one."""
        self._cached = None

    def _process(self) -> None:
        """Handle the queued requests in order, until one of them is held, the queue is empty, or the client must first
        read its responses."""
        self._is_processing = True
        # The transport is the first to know that the client has disconnected; further responses would be in vain.
        while self._frames and self._current is None and self._can_write and not self._is_ending:
            if self._pipeline:
                if not self._pipeline.may_take(self._frames[0]):
                    break
                self._handle_next()
            elif self._cached is None or not self._respond_from_cache(self._cached):
                self._handle_next()
            if self._responses.is_full:
                self._flush()
        self._is_processing = False
        self._flush()
        if self._parse_error is not None and not self._frames and self._current is None:
            self._close(self._parse_error)
        self._pause_or_resume_reading()

    def _handle_next(self) -> None:
        frame = self._frames.popleft()
        self._queued_bytes -= len(frame)
        self._handle(frame)

    @property
    def _is_ending(self) -> bool:
        return self._is_closing or self._end_reason is not None or self._transport.is_closing()

    def _respond_from_cache(self, cached: CachedResponse) -> bool:
        """Answer all requests at the head of the queue that repeat the cached request. Returns False if there are none
        or the cached response is not valid any more."""
        count, responses = cached.responses_to(self._frames)
        if count and self._recorder is not None:
            self._record_repeats(self._recorder, cached, count)
        for _ in range(count):
            self._queued_bytes -= len(self._frames.popleft())
        if count:
            self._responses.add(responses)
        return count > 0

    def _record_repeats(self, recorder: RequestRecorder, cached: CachedResponse, count: int) -> None:
        """Count repeated requests in the recorded row of the first one, or in a new row if other requests came in
        between."""
        row = cached.row
        if row is None or row is not self._last_row:
            first = self._frames[0]
            begun = recorder.begin(self.name, self.client_host, first)
            row = self._last_row = recorder.answer(begun, cached.response_to(first), None)
            self._cached = cached._replace(row=row)
            count -= 1
        if count:
            recorder.repeat(row, count)

    def _record_answer(self, row: ExchangeRow | None, response: bytes | bytearray | None) -> None:
        if row is self._row:
            self._row = None
        if row is not None and self._recorder is not None:
            self._last_row = self._recorder.answer(row, response, self._last_row)

    def _record_close(self, reason: str) -> None:
        row, self._row = self._row, None
        if row is not None and self._recorder is not None:
            self._recorder.close(row, reason)

    def _handle(self, frame: bytes) -> None:
        if self._recorder is not None:
            self._row = self._recorder.begin(self.name, self.client_host, frame)
        try:
            header, request = decode_request(frame, MAX_ENTRIES_BY_API)
        except Unsupported as error:
            self._refuse(error.header)
            return
        except ProtocolError as error:
            self._close(str(error))
            return
        handler = self._broker.handler_for(header)
        if handler is not None:
            self._current_frame, self._last_header = frame, header
            self._call(handler, request, header)
        else:
            self._refuse(header)

    def _refuse(self, header: RequestHeader) -> None:
        """Refuse a request whose API or version is not served: close the connection, as Kafka does. Only ApiVersions
        gets a response."""
        if header.api_key == ApiVersionsRequest.api_key:
            self._respond_with_supported_versions(header)
        else:
            self._close(self._broker.refusal_of(header))

    def _call(self, handler: RequestHandler, request: Message, header: RequestHeader) -> None:
        """Call the handler of a request, or the gate before it. An exception in them closes this connection and does
        not end the process."""
        exchange = self._current = Exchange(
            header,
            request,
            connection_name=self.name,
            client_host=self.client_host,
            on_decided=self._continue_before_response,
            on_response=self._finish,
            on_close=self._close_unanswered,
            on_work=self._run,
        )
        exchange.row = self._row
        gate = self._broker.gate
        if gate is None:
            self._proceed(handler, exchange)
            return
        try:
            gate.admit(exchange, partial(self._proceed, handler, exchange))
        except Exception as error:  # noqa: BLE001  # logged there
            self._fail(exchange, error)

    def _proceed(self, handler: RequestHandler, exchange: Exchange) -> None:
        """Call the handler, unless the gate has answered the request. If the connection was lost in the meantime, the
        request is dropped, or handled without a response (`Exchange.is_handled_if_lost`)."""
        is_lost = not self._is_open(exchange)
        if exchange.is_answered or (is_lost and not exchange.is_handled_if_lost):
            return
        try:
            turns = handler(exchange.request, exchange)
        except Exception as error:  # noqa: BLE001  # as above
            self._fail(exchange, error)
            return
        if turns is not None and is_lost:
            self._broker.turns.run(turns, lambda error: self._fail(exchange, error))
        elif turns is not None:
            self._run(exchange, turns)

    def _is_open(self, exchange: Exchange) -> bool:
        """Whether the exchange still needs its response."""
        return exchange is self._current or exchange.is_queued

    def _continue_before_response(self, exchange: Exchange) -> None:
        """Let the next request be handled before this one is answered, unless a gate decides about single requests."""
        if exchange is self._current and not exchange.is_answered and self._broker.gate is None:
            self._pipeline.add(exchange)
            self._row = None
            self._end(exchange)

    def _drop_pipeline(self, reason: str) -> None:
        if self._recorder is not None:
            for exchange in self._pipeline:
                if exchange.row is not None:
                    self._recorder.close(exchange.row, reason)
        self._pipeline.drop_all()

    def _run(self, exchange: Exchange, turns: Turns) -> None:
        """Run work for the current request in turns; it is cancelled when the connection ends."""
        if not self._is_open(exchange):
            return
        work = self._broker.turns.run(turns, lambda error: self._fail(exchange, error))
        if not work.is_done:
            self._work = work

    def _fail(self, exchange: Exchange, error: Exception) -> None:
        if isinstance(error, TooLong):
            text = f"the response to API {exchange.header.api_key} is too large: {error}"
            self._close_unanswered(exchange, f"{text}; ask for less, or raise --max-response-bytes")
        elif isinstance(error, Unencodable):
            self._close_unanswered(exchange, f"the response cannot be sent: {error}")
        elif isinstance(error, StoreError):
            self._close_unanswered(exchange, f"the store has failed: {error}")
        else:
            api_key = exchange.header.api_key
            log.error("request failed", connection=self.name, client=self.client_host, api=api_key, exc_info=error)
            self._close_unanswered(exchange, "the request could not be handled")

    def _finish(self, exchange: Exchange, response: Message | None) -> None:
        """Take the response to the current request, or None if it expects none. Further responses to it are dropped."""
        if not self._is_open(exchange) or exchange.is_answered:
            return
        exchange.is_answered = True
        for observe in self._broker.observers:
            observe(exchange, response)
        if response is None:
            self._record_answer(exchange.row, None)
            self._end(exchange)
        else:
            self._encode(exchange, response)

    def _encode(self, exchange: Exchange, response: Message) -> None:
        """Encode a response, a long one in turns, and add it to the responses that wait to be sent."""
        max_bytes = self._broker.max_response_bytes
        try:
            if exchange.is_queued:
                self._add_response(exchange, encode_short_response(exchange.header, response, max_bytes))
                return
            encoder = ResponseEncoder(
                exchange.header, response, bytes_per_portion=ENCODED_BYTES_PER_TURN, max_bytes=max_bytes
            )
            if encoder.encode_portion():
                self._add_response(exchange, encoder.out)
            else:
                self._run(exchange, self._encode_rest(exchange, encoder))
        except Exception as error:  # noqa: BLE001  # logged there
            self._fail(exchange, error)

    def _encode_rest(self, exchange: Exchange, encoder: ResponseEncoder) -> Turns:
        is_encoded = False
        while not is_encoded:
            self._responses.count_encoded(len(encoder.out))
            if self._broker.unread.are_too_many:
                mib = self._broker.unread.total_bytes // 2**20
                self._responses.count_encoded(0)
                self._close_unanswered(exchange, f"clients have not read {mib} MiB of responses; this one is not sent")
                return
            yield STEPS_PER_TURN
            is_encoded = encoder.encode_portion()
        self._add_response(exchange, encoder.out)

    def _add_response(self, exchange: Exchange, frame: bytearray) -> None:
        sent = frame if exchange.edit_frame is None else exchange.edit_frame(frame)
        if self._pipeline:
            self._add_in_order(exchange, sent)
            return
        self._responses.add(sent)
        self._record_answer(exchange.row, sent)
        if exchange.still_valid is not None:
            self._cache(exchange, exchange.still_valid, frame)
        if exchange.close_behind:
            self._close(exchange.close_behind)
        self._end(exchange)

    def _add_in_order(self, exchange: Exchange, frame: bytearray) -> None:
        """Add a response behind those to earlier requests, and whatever has waited for it."""
        exchange.frame = frame
        if not exchange.is_queued:
            self._pipeline.add(exchange)
            self._row = None
        for ready in self._pipeline.take_ready():
            assert ready.frame is not None
            self._responses.add(ready.frame)
            self._record_answer(ready.row, ready.frame)
            if ready.close_behind:
                self._drop_pipeline(ready.close_behind)
                self._close(ready.close_behind)
        if self._end_reason is not None and not self._pipeline:
            self._close(self._end_reason)
        if exchange is self._current:
            self._end(exchange)
        elif self._frames and not self._is_processing:
            self._process()
        elif not self._pipeline:
            self._flush()
        elif not self._flush_is_scheduled:
            # Mostly the others of this commit follow in this turn of the loop, and leave in one write.
            self._flush_is_scheduled = True
            self._loop.call_soon(self._flush)

    def _cache(self, exchange: Exchange, still_valid: StillValid, response: bytearray) -> None:
        """Cache a short response for repetitions of the request, unless the gate might stop them."""
        is_short = len(self._current_frame) + len(response) <= MAX_CACHED_BYTES
        gate = self._broker.gate
        if is_short and (gate is None or not gate.may_stop(exchange)):
            self._cached = CachedResponse.from_frames(self._current_frame, response, still_valid, self._last_row)

    def _end(self, exchange: Exchange) -> None:
        """End the current exchange and continue with the next request."""
        if exchange is self._current:
            self._current, self._current_frame = None, b""
            if not self._is_processing:
                self._process()

    def _close_unanswered(self, exchange: Exchange, reason: str) -> None:
        if self._is_open(exchange):
            self._current = None
            self._drop_pipeline(reason)
            self._close(reason)

    def _respond_with_supported_versions(self, header: RequestHeader) -> None:
        """Send the versions of ApiVersions in its oldest version, so that the client can use one of them (KIP-511)."""
        versions = self._broker.served_versions(ApiVersionsRequest.api_key)
        entry = ApiVersion(api_key=ApiVersionsRequest.api_key, min_version=versions.first, max_version=versions.last)
        body = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[entry])
        response = encode_response(header.api_key, 0, header.correlation_id, body)
        self._responses.add(response)
        self._record_answer(self._row, response)

    def _flush(self) -> None:
        """Write as many responses as the transport takes. If the connection is to be closed behind the last response,
        close it then."""
        self._flush_is_scheduled = False
        while self._responses and self._can_write and not self._transport.is_closing():
            self._transport.write(self._responses.next_piece(whole=self._broker.needs_whole_responses))
        if self._is_closing and not self._responses:
            self._transport.close()

    def _pause_or_resume_reading(self) -> None:
        """Stop reading bytes while enough requests are queued and none of them can be handled; resume otherwise."""
        waiting = self._queued_bytes + self._frame_reader.buffered_bytes
        is_blocked = self._current is not None or len(self._pipeline) > 0 or not self._can_write
        should_read = not (self._parse_error or (is_blocked and waiting >= MAX_READ_AHEAD_BYTES))
        if should_read != self._is_reading and not self._is_closing:
            self._is_reading = should_read
            (self._transport.resume_reading if should_read else self._transport.pause_reading)()

    def _close(self, reason: str) -> None:
        """Close with a warning in the log. Responses that are ready are still sent; queued requests are dropped."""
        if self._is_closing:
            return
        self._frames.clear()
        if self._pipeline:
            self._end_reason = self._end_reason or reason
            return
        self._is_closing = True
        self._record_close(reason)
        self._broker.log_closed(self, reason)
        self._flush()

    def _check_idle(self) -> None:
        """Close the connection if it has been idle for `connections.max.idle.ms`. A client with a held request is not
        idle; one that never reads is."""
        idle_s = self._loop.time() - self._last_activity_s
        if (self._current is not None or self._pipeline) and self._can_write:
            idle_s = 0
        if idle_s < self._broker.max_idle_s:
            delay_s = self._broker.max_idle_s - idle_s
            self._idle_timer = self._loop.call_later(delay_s, self._check_idle)
            return
        if not self._is_closing:
            log.info("connection closed", connection=self.name, client=self.client_host, reason="idle for too long")
        self._is_closing = True
        self._transport.abort()
