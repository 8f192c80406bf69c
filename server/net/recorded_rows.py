"""Records the exchanges of one connection: which row belongs to its current request, and which was the last."""

from collections.abc import Iterable

from regroup.server.net.cached_response import CachedResponse
from regroup.server.net.exchange import Exchange
from regroup.server.net.request_recorder import ExchangeRow, RequestRecorder


class ConnectionRows:
    """The rows of a connection, which a recorder keeps."""

    def __init__(self, recorder: RequestRecorder, connection: str, client_host: str) -> None:
        self._recorder, self._connection, self._client_host = recorder, connection, client_host
        self.current: ExchangeRow | None = None
        """The row of the request that is being handled; None if there is none."""
        self.last: ExchangeRow | None = None
        """The row of the request that was answered last."""

    def begin(self, frame: bytes) -> None:
        """Begin the row of the next request."""
        self.current = self._recorder.begin(self._connection, self._client_host, frame)

    def answer(self, row: ExchangeRow | None, response: bytes | bytearray | None) -> None:
        """Note the response to the request of this row, None if it expects none. Without a row nothing is noted."""
        if row is self.current:
            self.current = None
        if row is not None:
            self.last = self._recorder.answer(row, response, self.last)

    def repeat(self, cached: CachedResponse, count: int, first: bytes) -> CachedResponse:
        """Count requests that repeat the cached one, the frame `first` and those behind it.

        They are counted in the row of the cached request, or in a new row if other requests came in between. Returned
        is the cached response with the row that counts them.
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
        """Note that the current request gets no answer, because the connection is closed."""
        row, self.current = self.current, None
        if row is not None:
            self._recorder.close(row, reason)

    def close_all(self, exchanges: Iterable[Exchange], reason: str) -> None:
        """Note that these exchanges, which are not the current one, get no answer."""
        for exchange in exchanges:
            if exchange.row is not None:
                self._recorder.close(exchange.row, reason)
