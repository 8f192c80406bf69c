"""One client's connection: bytes in, requests in their order, answers in the same order, nothing without bound."""

import asyncio
from collections import deque
from typing import Protocol, cast

import structlog

from regroup.protocol.errors import ErrorCode
from regroup.protocol.exceptions import Malformed, ProtocolError, UnsupportedVersion
from regroup.protocol.fields import Versions
from regroup.protocol.frames import FrameReader, decode_request, encode_response
from regroup.protocol.header import RequestHeader
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from regroup.server.net.cached_response import Repetition
from regroup.server.net.exchange import Exchange, Handler
from regroup.storage.errors import StoreError

READ_AHEAD_BYTES = 64 * 1024
"""What may wait behind a request that is not answered yet; then the client's bytes stay in its own socket."""
GATHERED_BYTES = 64 * 1024
"""Answers are sent together up to this size."""

log = structlog.get_logger()


class Desk(Protocol):
    """What a connection needs of its broker."""

    max_frame_bytes: int
    max_idle_s: float

    def handler_of(self, header: RequestHeader) -> Handler | None:
        """Who answers this API in this version; None if nobody does."""

    def versions_of(self, api_key: int) -> Versions:
        """The versions of an API that is served."""

    def opened(self, connection: "Connection") -> None: ...

    def closed(self, connection: "Connection") -> None: ...


class Connection(asyncio.Protocol):
    """Kafka looks at one request of a connection at a time: while it waits for its answer, the others wait too."""

    def __init__(self, desk: Desk, name: str) -> None:
        self.name = name
        self.client_host = ""
        self._desk = desk
        self._loop = asyncio.get_running_loop()
        self._reader = FrameReader(desk.max_frame_bytes)
        self._frames: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._current: Exchange | None = None
        self._frame = b""
        self._repetition: Repetition | None = None
        self._answers: list[bytes] = []
        self._gathered_bytes = 0
        self._is_serving = False
        self._can_write = True
        self._is_reading = True
        self._end_of_sense: str | None = None
        self._is_closing = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        self.client_host = f"/{peer[0]}" if peer else "/unknown"
        self._heard_s = self._loop.time()
        self._idle_timer = self._loop.call_at(self._heard_s + self._desk.max_idle_s, self._look_for_life)
        self._desk.opened(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._is_closing = True
        self._idle_timer.cancel()
        self._frames.clear()
        current, self._current = self._current, None
        if current is not None and current.when_lost is not None:
            current.when_lost()
        self._desk.closed(self)

    def data_received(self, data: bytes) -> None:
        self._heard_s = self._loop.time()
        try:
            for frame in self._reader.feed(data):
                self._frames.append(frame)
                self._waiting_bytes += len(frame)
        except Malformed as error:
            self._end_of_sense = str(error)  # the requests before it are still answered
        if not self._is_serving:
            self._serve()

    def pause_writing(self) -> None:
        """The client does not read its answers: none are made until it does."""
        self._can_write = False

    def resume_writing(self) -> None:
        self._can_write = True
        self._heard_s = self._loop.time()
        if not self._is_serving:
            self._serve()

    def finish(self, exchange: Exchange, message: Message | None) -> None:
        """The answer to the request that is being looked at, or None if it wanted none."""
        if exchange is not self._current:
            return
        self._current = None
        if message is not None:
            self._gather(exchange.header, message)
        if exchange.again is not None and self._answers:
            self._repetition = Repetition.of(self._frame, self._answers[-1], exchange.again)
        if not self._is_serving:
            self._serve()

    def abandon(self, exchange: Exchange, reason: str) -> None:
        """Close: to this request there is no answer."""
        if exchange is self._current:
            self._current = None
            self._close(reason)

    def stop(self) -> None:
        """Close without a word in the log: the broker stops. Answers that were made are still sent."""
        if not self._is_closing:
            self._is_closing = True
            self._send()
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()

    def _serve(self) -> None:
        """Look at one request after the other until one waits, none is left, or the client must read first."""
        self._is_serving = True
        # The transport knows first that the client is gone; whatever else is answered would be shouted after it.
        while self._frames and self._current is None and self._can_write and not self._transport.is_closing():
            if self._repetition is None or not self._repeat(self._repetition):
                frame = self._frames.popleft()
                self._waiting_bytes -= len(frame)
                self._look_at(frame)
            if self._gathered_bytes >= GATHERED_BYTES:
                self._send()
        self._is_serving = False
        self._send()
        if self._end_of_sense is not None and not self._frames and self._current is None:
            self._close(self._end_of_sense)
        self._read_or_pause()

    def _repeat(self, repetition: Repetition) -> bool:
        """Answer the same request as before, as often as it stands at the head of the row."""
        count, answers = repetition.answers_to(self._frames)
        for _ in range(count):
            self._waiting_bytes -= len(self._frames.popleft())
        if count:
            self._keep(answers)
        return count > 0

    def _look_at(self, frame: bytes) -> None:
        try:
            header, request = decode_request(frame)
        except UnsupportedVersion as error:
            if error.header.api_key == ApiVersionsRequest.api_key:
                self._answer_unknown_api_versions(error.header)
            else:
                self._close(str(error))
            return
        except ProtocolError as error:
            self._close(str(error))
            return
        handler = self._desk.handler_of(header)
        if handler is None and header.api_key == ApiVersionsRequest.api_key:
            self._answer_unknown_api_versions(header)
            return
        if handler is None:
            self._close(f"API {header.api_key} v{header.api_version} is not served here")
            return
        self._frame = frame
        self._hand_over(handler, Exchange(self, header, request))

    def _hand_over(self, handler: Handler, exchange: Exchange) -> None:
        """One request must not take the process with it, whatever was wrong with it or with us."""
        self._current = exchange
        try:
            handler(exchange)
        except StoreError as error:
            self.abandon(exchange, f"the store takes nothing: {error}")
        except Exception:
            api = exchange.header.api_key
            log.exception("request failed", connection=self.name, client=self.client_host, api=api)
            self.abandon(exchange, "the request could not be handled")

    def _answer_unknown_api_versions(self, header: RequestHeader) -> None:
        """The oldest body says which versions there are, so that the client can step down (KIP-511)."""
        versions = self._desk.versions_of(ApiVersionsRequest.api_key)
        entry = ApiVersion(api_key=ApiVersionsRequest.api_key, min_version=versions.first, max_version=versions.last)
        body = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[entry])
        self._gather(header._replace(api_version=0), body)

    def _gather(self, header: RequestHeader, message: Message) -> None:
        try:
            answer = encode_response(header.api_key, header.api_version, header.correlation_id, message)
        except ProtocolError as error:
            self._close(f"the answer cannot be sent: {error}")
            return
        self._keep(answer)

    def _keep(self, answer: bytes) -> None:
        self._answers.append(answer)
        self._gathered_bytes += len(answer)

    def _send(self) -> None:
        answers, self._answers, self._gathered_bytes = self._answers, [], 0
        if answers and not self._transport.is_closing():
            self._transport.write(b"".join(answers) if len(answers) > 1 else answers[0])

    def _read_or_pause(self) -> None:
        """Take no more bytes while there is enough to do, or none of it can be done."""
        waiting = self._waiting_bytes + self._reader.held_bytes
        is_held_up = self._current is not None or not self._can_write
        should_read = not (self._end_of_sense or (is_held_up and waiting >= READ_AHEAD_BYTES))
        if should_read != self._is_reading and not self._is_closing:
            self._is_reading = should_read
            (self._transport.resume_reading if should_read else self._transport.pause_reading)()

    def _close(self, reason: str) -> None:
        """One line in the log; the answers that were made are still sent, nothing more is looked at."""
        if self._is_closing:
            return
        self._is_closing = True
        log.warning("connection closed", connection=self.name, client=self.client_host, reason=reason)
        self._frames.clear()
        self._send()
        self._transport.close()

    def _look_for_life(self) -> None:
        """Kafka's `connections.max.idle.ms`. Whoever waits for an answer is not idle; one who never reads it is."""
        idle_s = self._loop.time() - self._heard_s
        if self._current is not None and self._can_write:
            idle_s = 0
        if idle_s < self._desk.max_idle_s:
            delay_s = self._desk.max_idle_s - idle_s
            self._idle_timer = self._loop.call_later(delay_s, self._look_for_life)
            return
        if not self._is_closing:
            log.info("connection closed", connection=self.name, client=self.client_host, reason="idle for too long")
        self._is_closing = True
        self._transport.abort()
