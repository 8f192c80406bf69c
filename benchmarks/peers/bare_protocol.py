"""The fastest that asyncio allows: a Protocol that decodes heartbeats, looks the member up, and responds.

It keeps no history, never rebalances and lets every member join. `benchmarks/heartbeats.py` measures regroup beside it.
"""

import asyncio
import struct
import time
from itertools import count

HEARTBEAT, SYNC_GROUP = 12, 14
REQUEST_START = struct.Struct(">ihhih")  # length, API key, version, correlation id, length of the client id
HEARTBEAT_RESPONSE = struct.Struct(">iiih")  # length, correlation id, throttle time, error code
INT16 = struct.Struct(">h")
INT32 = struct.Struct(">i")
UNKNOWN_MEMBER_ID = 25
SESSION_TIMEOUT_S = 30.0

deadlines: dict[tuple[str, str], float] = {}
"""When the session of each member ends, by group id and member id, in seconds of the loop's clock."""
member_numbers = count(1)


class BareProtocol(asyncio.Protocol):
    """One connection to the server."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.incomplete_frame = b""

    def data_received(self, data: bytes) -> None:
        data = self.incomplete_frame + data if self.incomplete_frame else data
        responses: list[bytes] = []
        position, end, now = 0, len(data), time.monotonic()
        while end - position >= REQUEST_START.size:
            length, api_key, _, correlation_id, client_id_length = REQUEST_START.unpack_from(data, position)
            if end - position < 4 + length:
                break
            body = position + REQUEST_START.size + max(client_id_length, 0)
            responses.append(
                heartbeat_response(data, body, correlation_id, now)
                if api_key == HEARTBEAT
                else joining_response(data, body, api_key, correlation_id)
            )
            position += 4 + length
        self.incomplete_frame = data[position:]
        self.transport.write(b"".join(responses))


def heartbeat_response(data: bytes, position: int, correlation_id: int, now: float) -> bytes:
    """The response to a Heartbeat v3: the body has group id, generation id, member id and group instance id."""
    (length,) = INT16.unpack_from(data, position)
    position += 2 + length
    group_id = data[position - length : position].decode()
    (generation_id,) = INT32.unpack_from(data, position)
    (length,) = INT16.unpack_from(data, position + 4)
    position += 6 + length
    member_id = data[position - length : position].decode()
    is_known = generation_id == 1 and (group_id, member_id) in deadlines
    if is_known:
        deadlines[group_id, member_id] = now + SESSION_TIMEOUT_S
    return HEARTBEAT_RESPONSE.pack(10, correlation_id, 0, 0 if is_known else UNKNOWN_MEMBER_ID)


def joining_response(data: bytes, position: int, api_key: int, correlation_id: int) -> bytes:
    """A response to JoinGroup v3 or SyncGroup v2, with as much as the only member of a group needs."""
    if api_key == SYNC_GROUP:
        body = struct.pack(">iihi", correlation_id, 0, 0, 0)
    else:
        (length,) = INT16.unpack_from(data, position)
        group_id, member_id = data[position + 2 : position + 2 + length].decode(), f"bench-{next(member_numbers)}"
        deadlines[group_id, member_id] = 0.0
        body = struct.pack(">iihi", correlation_id, 0, 0, 1)
        body += b"".join(INT16.pack(len(text)) + text.encode() for text in ("range", member_id, member_id))
        body += INT32.pack(0)
    return INT32.pack(len(body)) + body


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(BareProtocol, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    print(f"listening on {host}:{port}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
