"""What strangers may do to a port: bytes and sockets, without any library in between."""

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
    """A frame that no encoder would write."""
    content = struct.pack(">hhih", api_key, version, 1, NULL) + body
    return struct.pack(">i", len(content)) + content


def memory_mb(emulator: EmulatorProcess, what: str = "VmRSS") -> int:
    """What the process holds now, or with `VmHWM` held at most."""
    status = f"/proc/{process_id(emulator)}/status"
    with open(status, encoding="ascii") as lines:
        return next(int(line.split()[1]) // 1024 for line in lines if line.startswith(what))


def process_id(emulator: EmulatorProcess) -> int:
    return int(emulator.store.with_name(emulator.store.name + ".lock").read_text())


def refusals(emulator: EmulatorProcess) -> list[str]:
    """The log's lines about connections that were closed."""
    return [line for line in emulator.log.splitlines() if "connection closed" in line]


@contextmanager
def sockets(emulator: EmulatorProcess, count: int) -> Iterator[list[socket.socket]]:
    """So many connections, without blocking, dropped without a goodbye at the end."""
    with ExitStack() as stack:
        opened = [stack.enter_context(socket.create_connection(("127.0.0.1", emulator.port))) for _ in range(count)]
        for each in opened:
            each.setblocking(False)
            each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        yield opened


async def hears_the_end(connection: socket.socket, seconds: float = 40.0) -> bytes:
    """What the emulator said before it closed the connection; fails if it does not close it."""
    loop, heard = asyncio.get_running_loop(), bytearray()
    with suppress(ConnectionError):
        async with asyncio.timeout(seconds):
            while data := await loop.sock_recv(connection, 65536):
                heard += data
    return bytes(heard)


async def hears(connection: socket.socket, count: int, seconds: float = 60.0) -> bytes:
    """So many bytes of an answer."""
    loop, heard = asyncio.get_running_loop(), bytearray()
    async with asyncio.timeout(seconds):
        while len(heard) < count:
            data = await loop.sock_recv(connection, min(count - len(heard), 1 << 20))
            assert data, f"the connection was closed after {len(heard)} of {count} bytes"
            heard += data
    return bytes(heard)


async def floods(connection: socket.socket, data: bytes, seconds: float = 1.0) -> int:
    """Send this again and again and read nothing, until nothing more is taken for a while; how many bytes went."""
    loop, sent = asyncio.get_running_loop(), 0
    with suppress(TimeoutError, ConnectionError):
        while True:
            async with asyncio.timeout(seconds):
                await loop.sock_sendall(connection, data)
            sent += len(data)
    return sent
