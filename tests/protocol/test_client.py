"""The client's side of a connection, against a broker that answers what a test asks for."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from regroup.protocol.client import ClientConnection, ConnectionLost
from regroup.protocol.exceptions import Malformed, ProtocolError
from regroup.protocol.frames import decode_request, encode_response
from regroup.protocol.messages.group import HeartbeatRequest, HeartbeatResponse

BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
Answer = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def connection_to(answer: Answer) -> AsyncIterator[ClientConnection]:
    """A connection to a server that calls `answer` for each frame."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                length = int.from_bytes(await reader.readexactly(4), "big")
                await answer(await reader.readexactly(length), writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        connection = await ClientConnection.open(*server.sockets[0].getsockname(), "anna")
        try:
            yield connection
        finally:
            await connection.close()


async def accept(frame: bytes, writer: asyncio.StreamWriter) -> None:
    header, _ = decode_request(frame)
    writer.write(encode_response(header.api_key, header.api_version, header.correlation_id, HeartbeatResponse()))


async def test_requests_are_answered_in_their_order_and_versions() -> None:
    seen = []

    async def note(frame: bytes, writer: asyncio.StreamWriter) -> None:
        seen.append(decode_request(frame)[0])
        await accept(frame, writer)

    async with connection_to(note) as connection:
        responses = await asyncio.gather(connection.post(BEAT, 0), connection.post(BEAT, 3), connection.send(BEAT))
        await connection.send(BEAT, 3, None)
    assert responses == [HeartbeatResponse()] * 3
    assert [(each.api_version, each.client_id) for each in seen] == [
        (0, "anna"), (3, "anna"), (BEAT.versions.last, "anna"), (3, None),
    ]  # fmt: skip


async def test_a_closed_connection_fails_what_waits_and_what_comes_later() -> None:
    async def hang_up(frame: bytes, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with connection_to(hang_up) as connection:
        with pytest.raises(ConnectionLost, match="closed without a response"):
            await connection.send(BEAT, 3)
        assert connection.is_lost
        with pytest.raises(ConnectionLost):
            await connection.send(BEAT, 3)


async def test_a_response_to_another_request_is_an_error() -> None:
    async def mix_up(frame: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(encode_response(BEAT.api_key, 3, 77, HeartbeatResponse()))

    async with connection_to(mix_up) as connection:
        with pytest.raises(ConnectionLost, match="correlation id 77"):
            await connection.send(BEAT, 3)


async def test_a_response_that_cannot_be_decoded_fails_its_own_request() -> None:
    async def cut_short(frame: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(encode_response(BEAT.api_key, 3, 1, HeartbeatResponse())[:8].replace(b"\x0a", b"\x04", 1))

    async with connection_to(cut_short) as connection:
        with pytest.raises((Malformed, ConnectionLost)):
            await asyncio.wait_for(connection.send(BEAT, 3), 5)


async def test_a_request_that_cannot_be_encoded_is_not_sent() -> None:
    async with connection_to(accept) as connection:
        with pytest.raises(ProtocolError):
            connection.post(BEAT, 99)
        assert await connection.send(BEAT, 3) == HeartbeatResponse()


async def test_a_cancelled_caller_does_not_disturb_the_next() -> None:
    async with connection_to(accept) as connection:
        connection.post(BEAT, 3).cancel()
        assert await connection.send(BEAT, 3) == HeartbeatResponse()
