"""Records the exchanges of one connection: which row belongs to its current request, and which was the last."""

from regroup.server.net.exchange import Exchange
from regroup.server.net.request_recorder import ExchangeRow, RequestRecorder
from regroup.server.net.responses.cached_response import CachedResponse
from regroup.server.net.responses.pipeline import CachedResponses, Pipeline


class ConnectionRows:
    """The recorded exchanges of one connection, one row for each, which are passed to a recorder."""

    def __init__(self, recorder: RequestRecorder, connection: str, client_host: str) -> None:
        self._recorder, self._connection, self._client_host = recorder, connection, client_host
        self.current: ExchangeRow | None = None
        """The row of the request that is being handled; None if there is none."""
        self.last: ExchangeRow | None = None
        """The row of the request that was answered last."""

    def begin(self, frame: bytes) -> None:
        """Let the recorder begin a row for the request in `frame`, which becomes the current request."""
        self.current = self._recorder.begin(self._connection, self._client_host, frame)

    def answer(self, row: ExchangeRow | None, response: bytes | bytearray | None) -> None:
        """Let the recorder add `response` to the row of its request; None if the request expects no response. Without a
        row nothing is recorded."""
        if row is self.current:
            self.current = None
        if row is not None:
            self.last = self._recorder.answer(row, response, self.last)

    def begin_repeated(self, first: bytes) -> ExchangeRow:
        """Let the recorder begin a row for requests that are answered from the cache, behind those of the pipeline;
        `first` is the frame of the first of them."""
        return self._recorder.begin(self._connection, self._client_host, first)

    def answer_queued(self, exchange: Exchange | CachedResponses) -> None:
        """Let the recorder add the response of an exchange of the pipeline, whose turn it is, to its row."""
        if not isinstance(exchange, CachedResponses):
            self.answer(exchange.row, exchange.frame)
        elif exchange.row is not None:
            self.answer(exchange.row, exchange.frame[: len(exchange.frame) // exchange.count])
            if exchange.count > 1 and self.last is not None:
                self._recorder.repeat(self.last, exchange.count - 1)

    def repeat(self, cached: CachedResponse, count: int, first: bytes) -> CachedResponse:
        """Count `count` requests that equal the cached request and were answered from the cache; `first` is the frame
        of the first of them.

        They are counted in the row of the cached request, or in a new row if other requests came in between. Returns
        the cached response with the row in which they are counted.
        """
        row = cached.row
        if row is None or row is not self.last:
            begun = self._recorder.begin(self._connection, self._client_host, first)
            row = self.last = self._recorder.answer(begun, cached.response_to(first), None)
            cached = cached._replace(row=row)
            count -= 1
        if count:
            self._recorder.repeat(row, count)
        return cached

    def close(self, reason: str) -> None:
        """Record that the current request gets no response because the connection is closed; `reason` says why it is
        closed."""
        row, self.current = self.current, None
        if row is not None:
            self._recorder.close(row, reason)

    def close_all(self, exchanges: Pipeline, reason: str) -> None:
        """Record that the requests of these queued exchanges get no response because the connection is closed for this
        reason. The current request is not among them."""
        for exchange in exchanges:
            if exchange.row is not None:
                self._recorder.close(exchange.row, reason)
