"""Malformed traffic to a running `regroup serve` costs its own connection, and disturbs no other client."""

import asyncio
import random
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from statistics import median

import pytest

from regroup.protocol.messages.cluster import ApiVersionsRequest
from regroup.protocol.messages.describe import DescribeGroupsRequest
from regroup.protocol.messages.group import HeartbeatRequest
from tests.clients.emulator import EmulatorProcess
from tests.clients.processes import Serve
from tests.robustness.attacks import (
    MANY,
    NULL,
    closed_connection_lines,
    flood,
    frame,
    memory_mb,
    process_id,
    raw,
    read_bytes,
    read_until_closed,
    sockets,
)
from tests.robustness.member import GROUP, RetryingMember, running, wait_until

VERSIONS = ApiVersionsRequest(client_software_name="stranger", client_software_version="1")
HEARTBEAT = HeartbeatRequest(group_id="unknown", generation_id=1, member_id="unknown")
HEARTBEAT_RESPONSE_BYTES = 4 + 4 + 1 + 4 + 2 + 1
"""Length, correlation id, tags, throttle time, code, tags."""
TOPIC = ("--topic", "orders:4")
JOIN, DESCRIBE, METADATA, COMMIT, FETCH = 11, 15, 3, 8, 1
BYSTANDER_SESSION_TIMEOUT_MS = 30_000
"""Enough for a busy machine, and short enough to detect a process that hangs."""

MALFORMED: dict[str, bytes] = {
    "a negative length": struct.pack(">i", -1),
    "the smallest length": struct.pack(">i", -(2**31)),
    "a length of two gigabytes": struct.pack(">i", 2**31 - 1),
    "a length just above the limit": struct.pack(">i", 104_857_601),
    "an empty frame": bytes(4),
    "a frame that ends within its header": b"\0\0\0\3\0\x12\0",
    "an unknown API": raw(999, 0, b""),
    "a negative API": raw(-1, 0, b""),
    "an unknown version": raw(METADATA, 99, b""),
    "a negative version": raw(METADATA, -1, b""),
    "an API for brokers only": raw(4, 0, bytes(20)),
    "a truncated JoinGroup": raw(JOIN, 0, b"\0\5group"[:-2]),
    "a billion topics": raw(METADATA, 1, struct.pack(">i", MANY)),
    "a billion groups, of which one is sent": raw(DESCRIBE, 0, struct.pack(">i", MANY) + b"\0\1a"),
    "a compact array of a billion topics": raw(METADATA, 9, b"\0\x81\x94\xeb\xdc\x03"),
    "a varint without an end": raw(METADATA, 9, b"\0" + b"\xff" * 20),
    "an array of length -2": raw(DESCRIBE, 0, struct.pack(">i", -2)),
    "a string of length -2": raw(DESCRIBE, 0, struct.pack(">ih", 1, -2)),
    "a null in a field that is not nullable": raw(DESCRIBE, 0, struct.pack(">ih", 1, NULL)),
    "a group id that is not UTF-8": raw(DESCRIBE, 0, struct.pack(">ih", 1, 2) + b"\xc3\x28"),
    "a group id with half a surrogate": raw(DESCRIBE, 0, struct.pack(">ih", 1, 3) + b"\xed\xa0\x80"),
    "protocols that claim a billion entries": raw(JOIN, 0, b"\0\1g" + bytes(4) + b"\0\0\0\0" + struct.pack(">i", MANY)),
    "offsets that claim a billion entries": raw(COMMIT, 0, b"\0\1g" + struct.pack(">i", MANY)),
    "a fetch of a billion topics": raw(FETCH, 4, bytes(17) + struct.pack(">i", MANY)),
    "a web browser": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a TLS client": bytes.fromhex("16030100f5010000f10303") + bytes(32),
}


async def turn_of_the_server(bystander: RetryingMember) -> None:
    """Wait until the server has accepted what was opened: a connection for which its queue is full takes a second."""
    before = bystander.heartbeats
    await wait_until(lambda: bystander.heartbeats > before + 1, "two heartbeats")


@asynccontextmanager
async def bystander_is_undisturbed(emulator: EmulatorProcess) -> AsyncIterator[RetryingMember]:
    """Run a member beside the block: it gets responses throughout, and never has to join again."""
    bystander = RetryingMember("bystander", emulator.address, session_timeout_ms=BYSTANDER_SESSION_TIMEOUT_MS)
    async with running(bystander):
        await wait_until(lambda: bystander.heartbeats, "the bystander")
        yield bystander
        await turn_of_the_server(bystander)
    assert bystander.generations == [1]


async def test_malformed_requests_cost_their_connection_and_one_line_in_the_log(serve: Serve) -> None:
    emulator = serve(*TOPIC)
    async with bystander_is_undisturbed(emulator):
        for number, (what, data) in enumerate(MALFORMED.items(), 1):
            with sockets(emulator, 1) as (stranger,):
                await asyncio.get_running_loop().sock_sendall(stranger, data)
                assert await read_until_closed(stranger) == b"", what
            lines = closed_connection_lines(emulator)
            assert len(lines) == number, f"{what}: {lines[-2:]}"
            assert "reason=" in lines[-1], what
    assert "Traceback" not in emulator.log


@pytest.mark.slow
async def test_random_bytes_and_changed_requests_disturb_no_other_client(serve: Serve) -> None:
    """A thousand connections send random bytes, or a valid request of which some bytes were changed."""
    emulator = serve(*TOPIC)
    rng = random.Random(7)
    requests = [frame(HEARTBEAT, 4), frame(VERSIONS, 3), raw(METADATA, 1, struct.pack(">i", -1)), *MALFORMED.values()]

    def changed() -> bytes:
        data = bytearray(rng.choice(requests) * rng.randint(1, 3))
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        return bytes(data[: rng.randint(1, len(data))])

    async with bystander_is_undisturbed(emulator) as bystander:
        for _ in range(20):
            with sockets(emulator, 50) as strangers:
                for each in strangers:
                    await asyncio.get_running_loop().sock_sendall(
                        each, changed() if rng.random() < 0.7 else random_bytes(rng)
                    )
                    if rng.random() < 0.5:
                        each.shutdown(socket.SHUT_WR)
            await turn_of_the_server(bystander)
    assert "Traceback" not in emulator.log
    assert memory_mb(emulator, "VmHWM") < 150


def random_bytes(rng: random.Random) -> bytes:
    return rng.randbytes(rng.randint(1, 200))


async def test_a_half_closed_connection_still_gets_its_responses(serve: Serve) -> None:
    emulator = serve(*TOPIC)
    async with bystander_is_undisturbed(emulator):
        with sockets(emulator, 1) as (half_closed,):
            await asyncio.get_running_loop().sock_sendall(half_closed, frame(HEARTBEAT, 4) * 3)
            half_closed.shutdown(socket.SHUT_WR)
            assert len(await read_until_closed(half_closed)) == 3 * HEARTBEAT_RESPONSE_BYTES
    assert not closed_connection_lines(emulator)


@pytest.mark.slow
async def test_huge_frames_that_are_sent_byte_by_byte_cost_only_the_bytes_sent(serve: Serve) -> None:
    emulator = serve(*TOPIC, "--set", "connections.max.idle.ms=4000")
    async with bystander_is_undisturbed(emulator) as bystander:
        before_mb = memory_mb(emulator)
        with sockets(emulator, 300) as strangers:
            for data in [struct.pack(">i", 100_000_000), *[b"x"] * 5]:
                for each in strangers:
                    each.send(data)
                await asyncio.sleep(0.05)
            assert memory_mb(emulator) - before_mb < 30
            heartbeats = bystander.heartbeats
            for each in strangers:
                await read_until_closed(each)  # an idle connection is closed
            assert bystander.heartbeats > heartbeats
    assert len(closed_connection_lines(emulator)) == 300


@pytest.mark.slow
async def test_a_client_that_reads_no_responses_gets_no_further_ones(serve: Serve) -> None:
    """Each response is hundreds of times as long as its request."""
    emulator = serve(*TOPIC, *[word for n in range(20) for word in ("--topic", f"{'long' * 40}-{n}:100")])
    all_topics = raw(METADATA, 1, struct.pack(">i", -1))
    async with bystander_is_undisturbed(emulator):
        before_mb = memory_mb(emulator)
        with sockets(emulator, 20) as strangers:
            sent = await asyncio.gather(*[flood(each, all_topics * 200) for each in strangers])
            assert all(sent)
            assert memory_mb(emulator, "VmHWM") - before_mb < 100
    assert "socket.send() raised" not in emulator.log


@pytest.mark.slow
async def test_thirty_thousand_requests_at_once_get_their_responses(serve: Serve) -> None:
    emulator, count = serve(*TOPIC), 30_000
    async with bystander_is_undisturbed(emulator) as bystander:
        before_mb, heartbeats = memory_mb(emulator), bystander.heartbeats
        with sockets(emulator, 1) as (sender,):
            sending = asyncio.create_task(asyncio.get_running_loop().sock_sendall(sender, frame(HEARTBEAT, 4) * count))
            responses = await read_bytes(sender, count * HEARTBEAT_RESPONSE_BYTES)
            await sending
        assert len(responses) == count * HEARTBEAT_RESPONSE_BYTES
        assert bystander.heartbeats > heartbeats, "other connections are served in between"
        assert memory_mb(emulator, "VmHWM") - before_mb < 50


async def seconds_to_describe(emulator: EmulatorProcess, groups: int) -> float:
    """The time until the last byte of the response to one request."""
    now_s = asyncio.get_running_loop().time
    started_s = now_s()
    with sockets(emulator, 1) as (client,):
        request = raw(DESCRIBE, 0, struct.pack(">i", groups) + bytes(2 * groups))
        await asyncio.get_running_loop().sock_sendall(client, request)
        length = int.from_bytes(await read_bytes(client, 4), "big")
        await read_bytes(client, length)
    return now_s() - started_s


@pytest.mark.slow
async def test_a_request_with_very_many_groups_does_not_block_other_connections(serve: Serve) -> None:
    """Behind the request a heartbeat would wait nearly as long as it does; on a busy machine it may, now and then."""
    emulator, shares = serve(*TOPIC), []
    async with bystander_is_undisturbed(emulator) as bystander:
        for _ in range(5):
            bystander.slowest_heartbeat_s = 0.0
            duration_s, heartbeats = await seconds_to_describe(emulator, 100_000), bystander.heartbeats
            await wait_until(lambda before=heartbeats: bystander.heartbeats > before, "the heartbeat in flight")
            shares.append(bystander.slowest_heartbeat_s / duration_s)
    assert median(shares) < 0.7


@pytest.mark.slow
async def test_a_client_that_describes_a_large_group_and_reads_nothing_blocks_only_itself(serve: Serve) -> None:
    emulator = serve(*TOPIC)
    async with bystander_is_undisturbed(emulator):
        request = frame(DescribeGroupsRequest(groups=[GROUP] * 2_000), 5)
        before_mb = memory_mb(emulator)
        with sockets(emulator, 5) as strangers:
            await asyncio.gather(*[flood(each, request) for each in strangers])
            assert memory_mb(emulator, "VmHWM") - before_mb < 150


async def open_and_reset(emulator: EmulatorProcess, bystander: RetryingMember, count: int) -> None:
    """Open and reset connections; half of them have sent the beginning of a frame."""
    for start in range(0, count, 50):
        with sockets(emulator, 50) as strangers:
            if start % 100:
                for each in strangers:
                    each.send(b"\0\0")
        await turn_of_the_server(bystander)


@pytest.mark.slow
async def test_connections_that_are_opened_and_reset_leave_no_memory_behind(serve: Serve) -> None:
    emulator = serve(*TOPIC)
    async with bystander_is_undisturbed(emulator) as bystander:
        await open_and_reset(emulator, bystander, 200)
        before_mb = memory_mb(emulator)
        await open_and_reset(emulator, bystander, 10_000)
        await wait_until(lambda: memory_mb(emulator) - before_mb < 10, "the memory to be freed")
    assert not closed_connection_lines(emulator)


@pytest.mark.slow
async def test_six_frames_near_the_limit_cost_their_size_which_is_freed_again(serve: Serve) -> None:
    """Kafka, too, buffers what `socket.request.max.bytes` allows for each connection."""
    emulator, megabytes = serve(*TOPIC), 90
    async with bystander_is_undisturbed(emulator):
        before_mb = memory_mb(emulator)
        with sockets(emulator, 6) as strangers:
            loop = asyncio.get_running_loop()
            for each in strangers:
                await loop.sock_sendall(each, struct.pack(">i", 100_000_000))
            for _ in range(megabytes):
                await asyncio.gather(*[loop.sock_sendall(each, bytes(1_000_000)) for each in strangers])
            assert memory_mb(emulator) - before_mb < 6 * megabytes * 1.3
        await wait_until(lambda: memory_mb(emulator) - before_mb < 50, "the memory to be freed")


@pytest.mark.parametrize("loop", ["asyncio", pytest.param("uvloop", marks=pytest.mark.slow)])
async def test_connections_beyond_the_open_file_limit_are_logged_and_the_others_continue(
    serve: Serve, loop: str
) -> None:
    resource = pytest.importorskip("resource")
    emulator = serve(*TOPIC, "--loop", loop)
    resource.prlimit(process_id(emulator), resource.RLIMIT_NOFILE, (60, 60))
    async with bystander_is_undisturbed(emulator):
        with sockets(emulator, 100):
            await wait_until(lambda: "open-file-limit-reached" in emulator.log, "the line in the log")
            await asyncio.sleep(0.2)
        assert emulator.log.count("open-file-limit-reached") == 1
        assert "ulimit -n" in emulator.log
    assert "Traceback" not in emulator.log
