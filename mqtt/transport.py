"""An asyncio transport that carries the bytes of a connection in MQTT messages: its protocol uses it like a socket."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

DISCONNECT: Final = b""
"""The empty payload, with which either side closes a connection that runs over MQTT."""


class MqttByteTransport(asyncio.Transport):
    """An asyncio transport for one connection whose bytes are carried in MQTT messages.

    `send(data)` is called with the bytes that the protocol writes; `on_close()` is called once, when the protocol
    closes the connection.
    """

    def __init__(
        self,
        send: Callable[[bytes], object],
        on_close: Callable[[], object],
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(extra)
        self._send = send
        self._on_close = on_close
        self._protocol: asyncio.Protocol | None = None
        self._is_closing = False

    def attach(self, protocol: asyncio.Protocol) -> None:
        """Set the protocol that uses this transport, and call its `connection_made`."""
        self._protocol = protocol
        protocol.connection_made(self)

    def receive(self, data: bytes) -> None:
        """Pass bytes that arrived in an MQTT message to the protocol."""
        if self._protocol is not None and not self._is_closing:
            self._protocol.data_received(data)

    def lose(self, error: Exception | None) -> None:
        """End the connection because it was lost. The protocol's `connection_lost` is called with `error`, which is
        None for a normal end."""
        if self._protocol is not None and not self._is_closing:
            self._is_closing = True
            self._protocol.connection_lost(error)

    # -- what a protocol calls

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._send(bytes(data))

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._on_close()

    def abort(self) -> None:
        self.close()
