"""One client's connection: decodes requests and handles them in order, sends responses in the same order, and bounds
all buffers.
"""

import asyncio
from functools import partial
from itertools import islice
from typing import cast

from regroup.coordinator.runtime.logger import get_logger
from regroup.protocol.exceptions import ProtocolError, Unsupported
from regroup.protocol.frames import ResponseEncoder, decode_request, encode_short_response
from regroup.protocol.header import RequestHeader
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import ApiVersionsRequest
from regroup.server import limits
from regroup.server.net.broker_handle import BrokerHandle
from regroup.server.net.exchange import Exchange, RequestHandler
from regroup.server.net.idle_timer import IdleTimer
from regroup.server.net.recorded_rows import ConnectionRows
from regroup.server.net.refused_requests import encode_supported_versions, reason_of_failure
from regroup.server.net.request_queue import RequestQueue
from regroup.server.net.responses.cached_response import MAX_CACHED_BYTES, CachedResponse, StillValid
from regroup.server.net.responses.pipeline import CachedResponses, Pipeline
from regroup.server.net.responses.response_buffer import ResponseBuffer, encode_within
from regroup.server.net.turns import LongWork, NextTurn, Turns

log = get_logger("connection")


class Connection(asyncio.Protocol):
    """The server's side of one connection. It handles one request at a time, as Kafka does: the others wait until that
    one has its response. Only behind commits of offsets may the next ones be decided before it (`Pipeline`)."""

    def __init__(self, broker: BrokerHandle, name: str) -> None:
        self.name = name
        self.client_host = ""
        self._broker = broker
        self._rows: ConnectionRows | None = None
        """Records the exchanges of this connection; None if exchanges are not recorded."""
        self._loop = asyncio.get_running_loop()
        self._next_flush = NextTurn(self._loop, self._flush)
        self._next_processing = NextTurn(self._loop, self._process)
        self._requests = RequestQueue(broker.max_frame_bytes)
        self._current: Exchange | None = None
        self._current_frame = b""
        self._pipeline = Pipeline()
        self._end_reason: str | None = None
        """Why the connection is closed once its pipeline is empty; None to keep it open."""
        self.client_id = ""
        self._work: LongWork | None = None
        self._cached: CachedResponse | None = None
        self._responses = ResponseBuffer(broker.unread)
        self._is_processing = self._is_closing = False
        self._can_write = self._is_reading = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        self.client_host = f"/{peer[0]}" if peer else "/unknown"
        if self._broker.recorder is not None:
            self._rows = ConnectionRows(self._broker.recorder, self.name, self.client_host)
        self._idle_timer = IdleTimer(self._loop, self._broker.max_idle_s, self._is_waited_for, self._close_idle)
        self._broker.add_connection(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._is_closing = True
        self._idle_timer.cancel()
        self._requests.clear()
        self._responses.clear()
        self._drop_current()
        self._broker.remove_connection(self)

    def _drop_current(self) -> None:
        if self._work is not None:
            self._work.cancel()
        current, self._current, self._current_frame = self._current, None, b""
        self._drop_pipeline("the connection was lost")
        if self._rows is not None:
            self._rows.close("the connection was lost")
        if current is not None and current.on_connection_lost is not None:
            current.on_connection_lost()

    def data_received(self, data: bytes) -> None:
        if self._is_closing or self._end_reason is not None:
            return
        self._idle_timer.note_activity()
        self._requests.feed(data)
        self._process()

    def pause_writing(self) -> None:
        """Stop handling requests until `resume_writing` is called. The transport calls this method when the client does
        not read its responses fast enough."""
        self._can_write = False

    def resume_writing(self) -> None:
        self._can_write = True
        self._idle_timer.note_activity()
        self._flush()
        self._process()

    def stop(self) -> None:
        """Close the connection because the broker stops, without a warning in the log. Responses that are ready are
        sent before."""
        if not self._is_closing:
            self._is_closing = True
            self._flush()

    def abort(self) -> None:
        self._drop_current()
        self._transport.abort()

    def forget_cached_response(self) -> None:
        self._cached = None

    def _process(self) -> None:
        """Handle the queued requests in order, until one of them is held, the queue is empty, or the client must first
        read its responses. Of many requests the others are handled in the next turns."""
        if self._is_processing:
            return
        self._is_processing, handled = True, 0
        frames = self._requests.frames
        # The transport is the first to know that the client has disconnected; further responses would be in vain.
        while frames and self._current is None and self._can_write and not self._is_ending:
            if handled == limits.REQUESTS_PER_TURN:
                self._next_processing.schedule()
                break
            handled += 1
            if self._pipeline and not self._pipeline.may_take(frames[0]):
                break
            if self._cached is None or not self._respond_from_cache(self._cached):
                self._handle_next()
            if self._responses.is_full:
                self._flush()
        self._is_processing = False
        self._flush()
        if self._requests.parse_error is not None and not frames and self._current is None:
            self._close(self._requests.parse_error)
        self._pause_or_resume_reading()

    @property
    def _is_ending(self) -> bool:
        return self._is_closing or self._end_reason is not None or self._transport.is_closing()

    def _respond_from_cache(self, cached: CachedResponse) -> bool:
        """Answer all requests at the head of the queue that repeat the cached request. Returns False if there are none
        or the cached response is not valid any more."""
        queued = self._requests.frames
        frames = islice(queued, self._pipeline.room) if self._pipeline else queued
        count, responses = cached.responses_to(frames)
        if not count:
            return False
        if self._pipeline:
            row = None if self._rows is None else self._rows.begin_repeated(queued[0])
            self._pipeline.add(CachedResponses(responses, count, row))
        else:
            if self._rows is not None:
                self._cached = self._rows.repeat(cached, count, queued[0])
            self._responses.add(responses)
        self._requests.skip(count)
        return True

    def _handle_next(self) -> None:
        frame = self._requests.take()
        if self._rows is not None:
            self._rows.begin(frame)
        try:
            header, request = decode_request(frame, limits.MAX_ENTRIES_BY_API)
        except Unsupported as error:
            self._refuse(error.header)
            return
        except ProtocolError as error:
            self._close(str(error))
            return
        handler = self._broker.handler_for(header)
        if handler is not None:
            self._current_frame, self.client_id = frame, header.client_id or ""
            self._call(handler, request, header)
        else:
            self._refuse(header)

    def _refuse(self, header: RequestHeader) -> None:
        """Refuse a request whose API or version is not served: close the connection, as Kafka does. Only ApiVersions
        gets a response."""
        if header.api_key == ApiVersionsRequest.api_key:
            versions = self._broker.served_versions(ApiVersionsRequest.api_key)
            response = encode_supported_versions(header.correlation_id, versions)
            self._responses.add(response)
            if self._rows is not None:
                self._rows.answer(self._rows.current, response)
        else:
            self._close(self._broker.refusal_of(header))

    def _call(self, handler: RequestHandler, request: Message, header: RequestHeader) -> None:
        """Call the handler of a request, or the gate before it. An exception in them closes this connection and does
        not end the process."""
        exchange = self._current = Exchange(header, request, self)
        if self._rows is not None:
            exchange.row = self._rows.current
        if self._broker.gate is None:
            self._proceed(handler, exchange)
            return
        try:
            self._broker.gate.admit(exchange, partial(self._proceed, handler, exchange))
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
            self.run_work(exchange, turns)

    def _is_open(self, exchange: Exchange) -> bool:
        """Whether the connection still waits for the response of this exchange."""
        return exchange is self._current or exchange.is_queued

    def continue_before_response(self, exchange: Exchange) -> None:
        """Let the next request be handled before that of `exchange` is answered. It has no effect if the broker has a
        gate, because a gate decides about each request by itself."""
        if exchange is self._current and not exchange.is_answered and self._broker.gate is None:
            self._add_to_pipeline(exchange)
            self._end(exchange)

    def _add_to_pipeline(self, exchange: Exchange) -> None:
        self._pipeline.add(exchange)
        if self._rows is not None:
            self._rows.current = None

    def _drop_pipeline(self, reason: str) -> None:
        if self._rows is not None:
            self._rows.close_all(self._pipeline, reason)
        self._pipeline.drop_all()

    def run_work(self, exchange: Exchange, turns: Turns) -> None:
        """Run `turns`, the work for the request of `exchange`, in portions between those of other connections. The work
        is cancelled when the connection ends."""
        if not self._is_open(exchange):
            return
        work = self._broker.turns.run(turns, lambda error: self._fail(exchange, error))
        if not work.is_done:
            self._work = work

    def _fail(self, exchange: Exchange, error: Exception) -> None:
        api_key = exchange.header.api_key
        reason = reason_of_failure(error, api_key)
        if reason is None:
            log.error("request failed", connection=self.name, client=self.client_host, api=api_key, exc_info=error)
        self.close_unanswered(exchange, reason or "the request could not be handled")

    def finish(self, exchange: Exchange, response: Message | None) -> None:
        """Take the handler's response to the request of `exchange`, and send it in its turn; None if the request
        expects no response. Further responses to the same request are dropped."""
        if not self._is_open(exchange) or exchange.is_answered:
            return
        exchange.is_answered = True
        for observe in self._broker.observers:
            observe(exchange, response)
        if response is None:
            if self._rows is not None:
                self._rows.answer(exchange.row, None)
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
            encoder = ResponseEncoder(exchange.header, response, limits.ENCODED_BYTES_PER_TURN, max_bytes)
            if encoder.encode_portion():
                self._add_response(exchange, encoder.out)
            else:
                self.run_work(exchange, self._encode_rest(exchange, encoder))
        except Exception as error:  # noqa: BLE001  # logged there
            self._fail(exchange, error)

    def _encode_rest(self, exchange: Exchange, encoder: ResponseEncoder) -> Turns:
        if refused := (yield from encode_within(self._broker.unread, encoder, self._responses)):
            self.close_unanswered(exchange, refused)
        else:
            self._add_response(exchange, encoder.out)

    def _add_response(self, exchange: Exchange, frame: bytearray) -> None:
        sent = frame if exchange.edit_frame is None else exchange.edit_frame(frame)
        if self._pipeline:
            self._add_in_order(exchange, sent)
            return
        self._responses.add(sent)
        if self._rows is not None:
            self._rows.answer(exchange.row, sent)
        if exchange.still_valid is not None:
            self._cache(exchange, exchange.still_valid, frame)
        if exchange.close_behind:
            self._close(exchange.close_behind)
        self._end(exchange)

    def _add_in_order(self, exchange: Exchange, frame: bytearray) -> None:
        """Add a response behind those to earlier requests, and whatever has waited for it."""
        exchange.frame = frame
        if not exchange.is_queued:
            self._add_to_pipeline(exchange)
        for ready in self._pipeline.take_ready():
            assert ready.frame is not None
            self._responses.add(ready.frame)
            if self._rows is not None:
                self._rows.answer_queued(ready)
            if ready.close_behind:
                self._drop_pipeline(ready.close_behind)
                self._close(ready.close_behind)
        if self._end_reason is not None and not self._pipeline:
            self._close(self._end_reason)
        if exchange is self._current:
            if exchange.still_valid is not None:
                self._cache(exchange, exchange.still_valid, frame)
            self._end(exchange)
        elif self._requests.frames and not self._is_processing:
            self._process()
        elif not self._pipeline:
            self._flush()
        else:  # mostly the others of this commit follow in this turn of the loop, and leave in one write
            self._next_flush.schedule()

    def _cache(self, exchange: Exchange, still_valid: StillValid, response: bytearray) -> None:
        """Cache a short response for repetitions of the request, unless the gate might stop them."""
        is_short = len(self._current_frame) + len(response) <= MAX_CACHED_BYTES
        if is_short and (self._broker.gate is None or not self._broker.gate.may_stop(exchange)):
            row = exchange.row if self._pipeline or self._rows is None else self._rows.last
            self._cached = CachedResponse.from_frames(self._current_frame, response, still_valid, row)

    def _end(self, exchange: Exchange) -> None:
        """Mark the current exchange as complete and continue with the next request."""
        if exchange is self._current:
            self._current, self._current_frame = None, b""
            self._process()

    def close_unanswered(self, exchange: Exchange, reason: str) -> None:
        if self._is_open(exchange):
            self._current = None
            self._drop_pipeline(reason)
            self._close(reason)

    def _flush(self) -> None:
        """Write as many responses as the transport takes. If the connection is to be closed after the last response and
        all have been written, close the transport."""
        while self._responses and self._can_write and not self._transport.is_closing():
            self._transport.write(self._responses.next_piece(whole=self._broker.needs_whole_responses))
        if self._is_closing and not self._responses:
            self._transport.close()

    def _pause_or_resume_reading(self) -> None:
        """Stop reading bytes while enough requests are queued and none of them can be handled; resume otherwise."""
        is_blocked = self._current is not None or len(self._pipeline) > 0 or not self._can_write
        waiting = self._requests.waiting_bytes if is_blocked else 0
        should_read = not (self._requests.parse_error or waiting >= limits.MAX_READ_AHEAD_BYTES)
        if should_read != self._is_reading and not self._is_closing:
            self._is_reading = should_read
            (self._transport.resume_reading if should_read else self._transport.pause_reading)()

    def _close(self, reason: str) -> None:
        """Close the connection and log `reason` as a warning. Responses that are ready are sent before; queued requests
        are dropped."""
        if self._is_closing:
            return
        self._requests.drop()
        if self._pipeline:
            self._end_reason = self._end_reason or reason
            return
        self._is_closing = True
        if self._rows is not None:
            self._rows.close(reason)
        self._broker.log_closed(self, reason)
        self._flush()

    def _is_waited_for(self) -> bool:
        """Whether the client waits for a response, so that the connection counts as active. A connection whose client
        does not read its responses counts as idle."""
        return (self._current is not None or len(self._pipeline) > 0) and self._can_write

    def _close_idle(self) -> None:
        """Close the connection, which has been idle for `connections.max.idle.ms`."""
        if not self._is_closing:
            log.info("connection closed", connection=self.name, client=self.client_host, reason="idle for too long")
        self._is_closing = True
        self._transport.abort()
