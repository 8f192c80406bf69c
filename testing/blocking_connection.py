"""A connection for tests that block: sends any request of Kafka's protocol and returns its response."""

from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Self

from regroup.protocol.client import ClientConnection
from regroup.protocol.message import Message
from regroup.testing.clock.loop_thread import LoopThread
from regroup.testing.errors import EmulatorDown


class BlockingConnection:
    """A connection from `Emulator.connect`; it sends requests in their order, and a broker handles them one by one.

    A JoinGroup and a SyncGroup by hand:

    >>> from regroup.protocol.messages.group import *
    >>> with kafka.connect("anna", group="shipping") as anna:
    ...     join = JoinGroupRequest(
    ...         group_id="shipping", session_timeout_ms=9_000, rebalance_timeout_ms=9_000, protocol_type="consumer",
    ...         protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    ...     )
    ...     joined = anna.send(join, version=3)
    ...     mine = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all")
    ...     sync = SyncGroupRequest(
    ...         group_id="shipping", generation_id=1, member_id=joined.member_id, assignments=[mine]
    ...     )
    ...     anna.send(sync, version=3).assignment
    b'all'
    """

    def __init__(self, thread: LoopThread, connection: ClientConnection, timeout_s: float) -> None:
        self._thread = thread
        self._connection = connection
        self._timeout_s = timeout_s

    def send(self, request: Message, version: int | None = None, *, timeout_s: float | None = None) -> Any:
        """Send a request in this version, or in its newest, and return the response: a `JoinGroupResponse` for a
        `JoinGroupRequest`, and so on.

        Raises TimeoutError if no response comes in time, and ConnectionLost if the broker closes the connection.

        >>> from regroup.protocol.messages.cluster import ApiVersionsRequest
        >>> with kafka.connect() as connection:
        ...     connection.send(ApiVersionsRequest(), version=0).error_code
        0
        """
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        response = self.post(request, version)
        try:
            return response.result(timeout_s)
        except TimeoutError:
            response.cancel()
            raise TimeoutError(f"no response to {type(request).__name__} within {timeout_s:g} s") from None

    def post(self, request: Message, version: int | None = None) -> Future[Any]:
        """Send a request and do not wait: the future gets the response.

        >>> from regroup.protocol.messages.cluster import ApiVersionsRequest
        >>> with kafka.connect() as connection:
        ...     connection.post(ApiVersionsRequest(), version=0).result(timeout=5).error_code
        0
        """
        return self._thread.start(self._connection.send(request, version))

    def close(self) -> None:
        """Close the connection at once. It ends with the emulator in any case.

        >>> connection = kafka.connect()
        >>> connection.close()
        """
        with suppress(EmulatorDown):
            self._thread.run(self._connection.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
