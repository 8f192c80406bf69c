"""Malformed frames and unusual sockets, sent to an emulator without a client library."""

import asyncio
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from regroup.protocol.frames import encode_request
from regroup.protocol.header import RequestHeader
from regroup.protocol.message import Message
from tests.clients.emulator import EmulatorProcess

NULL = -1
MANY = 1_000_000_000


def frame(request: Message, version: int, correlation_id: int = 1) -> bytes:
    return encode_request(RequestHeader(request.api_key, version, correlation_id, "stranger"), request)


def raw(api_key: int, version: int, body: bytes) -> bytes:
    """A frame with any API key, version and body, which need not be valid."""
    content = struct.pack(">hhih", api_key, version, 1, NULL) + body
    return struct.pack(">i", len(content)) + content


def memory_mb(emulator: EmulatorProcess, field: str = "VmRSS") -> int:
    """The resident memory of the process; with `VmHWM`, its highest value so far."""
    status = f"/proc/{process_id(emulator)}/status"
    with open(status, encoding="ascii") as lines:
        return next(int(line.split()[1]) // 1024 for line in lines if line.startswith(field))


def process_id(emulator: EmulatorProcess) -> int:
    return int(emulator.store.with_name(emulator.store.name + ".lock").read_text())


def closed_connection_lines(emulator: EmulatorProcess) -> list[str]:
    """The log's lines about connections that were closed."""
    return [line for line in emulator.log.splitlines() if "connection closed" in line]


@contextmanager
def sockets(emulator: EmulatorProcess, count: int) -> Iterator[list[socket.socket]]:
    """Open non-blocking connections, and reset them at the end."""
    with ExitStack() as stack:
        opened = [stack.enter_context(socket.create_connection(("127.0.0.1", emulator.port))) for _ in range(count)]
        for each in opened:
            each.setblocking(False)
            each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        yield opened


async def read_until_closed(connection: socket.socket, seconds: float = 40.0) -> bytes:
    """The bytes that the emulator sent before it closed the connection. Raises TimeoutError if it stays open."""
    loop, received = asyncio.get_running_loop(), bytearray()
    with suppress(ConnectionError):
        async with asyncio.timeout(seconds):
            while data := await loop.sock_recv(connection, 65536):
                received += data
    return bytes(received)


async def read_bytes(connection: socket.socket, count: int, seconds: float = 60.0) -> bytes:
    """Exactly this many bytes of responses."""
    loop, received = asyncio.get_running_loop(), bytearray()
    async with asyncio.timeout(seconds):
        while len(received) < count:
            data = await loop.sock_recv(connection, min(count - len(received), 1 << 20))
            assert data, f"the connection was closed after {len(received)} of {count} bytes"
            received += data
    return bytes(received)


async def flood(connection: socket.socket, data: bytes, seconds: float = 1.0) -> int:
    """Send the data repeatedly and read no response, until the socket blocks for `seconds`; return the bytes sent."""
    loop, sent = asyncio.get_running_loop(), 0
    with suppress(TimeoutError, ConnectionError):
        while True:
            async with asyncio.timeout(seconds):
                await loop.sock_sendall(connection, data)
            sent += len(data)
    return sent
