"""What asyncio itself allows: a Protocol that decodes heartbeats, checks the member, and answers; nothing else.

It keeps no history, has no rebalances and accepts whoever joins. `benchmarks/heartbeats.py` measures regroup beside it.
"""

import asyncio
import struct
import time
from itertools import count

HEARTBEAT, SYNC_GROUP = 12, 14
REQUEST_START = struct.Struct(">ihhih")  # length, api, version, correlation id, length of the client id
ANSWER = struct.Struct(">iiih")  # length, correlation id, throttle time, code
TEXT = struct.Struct(">h")
GENERATION = struct.Struct(">i")
UNKNOWN_MEMBER_ID = 25
SESSION_S = 30.0

deadlines: dict[tuple[str, str], float] = {}
names = count(1)


class Bare(asyncio.Protocol):
    """One connection; a frame that is cut in two waits for its other half."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.held = b""

    def data_received(self, data: bytes) -> None:
        data = self.held + data if self.held else data
        answers: list[bytes] = []
        position, end, now = 0, len(data), time.monotonic()
        while end - position >= REQUEST_START.size:
            length, api, _, correlation_id, client_length = REQUEST_START.unpack_from(data, position)
            if end - position < 4 + length:
                break
            body = position + REQUEST_START.size + max(client_length, 0)
            answers.append(
                heartbeat(data, body, correlation_id, now)
                if api == HEARTBEAT
                else joined(data, body, api, correlation_id)
            )
            position += 4 + length
        self.held = data[position:]
        self.transport.write(b"".join(answers))


def heartbeat(data: bytes, position: int, correlation_id: int, now: float) -> bytes:
    """Version 3: group, generation, member, instance."""
    (length,) = TEXT.unpack_from(data, position)
    position += 2 + length
    group = data[position - length : position].decode()
    (generation,) = GENERATION.unpack_from(data, position)
    (length,) = TEXT.unpack_from(data, position + 4)
    position += 6 + length
    member = data[position - length : position].decode()
    known = generation == 1 and (group, member) in deadlines
    if known:
        deadlines[group, member] = now + SESSION_S
    return ANSWER.pack(10, correlation_id, 0, 0 if known else UNKNOWN_MEMBER_ID)


def joined(data: bytes, position: int, api: int, correlation_id: int) -> bytes:
    """Enough of JoinGroup v3 and SyncGroup v2 for a member that is alone in its group."""
    if api == SYNC_GROUP:
        body = struct.pack(">iihi", correlation_id, 0, 0, 0)
    else:
        (length,) = TEXT.unpack_from(data, position)
        group, member = data[position + 2 : position + 2 + length].decode(), f"bench-{next(names)}"
        deadlines[group, member] = 0.0
        body = struct.pack(">iihi", correlation_id, 0, 0, 1)
        body += b"".join(TEXT.pack(len(text)) + text.encode() for text in ("range", member, member))
        body += GENERATION.pack(0)
    return GENERATION.pack(len(body)) + body


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Bare, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    print(f"listening on {host}:{port}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
