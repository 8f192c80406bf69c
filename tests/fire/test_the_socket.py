"""Any bytes on the port of a running `regroup serve`: whoever sends nonsense is cut off, and nobody else notices."""

import asyncio
import random
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from regroup.protocol.messages.cluster import ApiVersionsRequest
from regroup.protocol.messages.describe import DescribeGroupsRequest
from regroup.protocol.messages.group import HeartbeatRequest
from tests.clients.emulator import EmulatorProcess
from tests.clients.processes import Serve
from tests.fire.attacks import (
    MANY,
    NULL,
    floods,
    frame,
    hears,
    hears_the_end,
    memory_mb,
    process_id,
    raw,
    refusals,
    sockets,
)
from tests.fire.member import GROUP, Member, living, until

VERSIONS = ApiVersionsRequest(client_software_name="stranger", client_software_version="1")
BEAT = HeartbeatRequest(group_id="nobody", generation_id=1, member_id="nobody")
BEAT_ANSWER_BYTES = 4 + 4 + 1 + 4 + 2 + 1
"""Length, correlation id, tags, throttle time, code, tags."""
TOPIC = ("--topic", "orders:4")
JOIN, DESCRIBE, METADATA, COMMIT, FETCH = 11, 15, 3, 8, 1
PATIENCE_MS = 30_000
"""The bystander's session timeout: a machine may be busy, but a process that hangs is noticed."""

NONSENSE: dict[str, bytes] = {
    "a negative length": struct.pack(">i", -1),
    "the smallest length of all": struct.pack(">i", -(2**31)),
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
    "a billion groups, one of which is there": raw(DESCRIBE, 0, struct.pack(">i", MANY) + b"\0\1a"),
    "a billion topics, compactly": raw(METADATA, 9, b"\0\x81\x94\xeb\xdc\x03"),
    "a varint that never ends": raw(METADATA, 9, b"\0" + b"\xff" * 20),
    "an array of minus two": raw(DESCRIBE, 0, struct.pack(">i", -2)),
    "a string of minus two": raw(DESCRIBE, 0, struct.pack(">ih", 1, -2)),
    "a null where none may be": raw(DESCRIBE, 0, struct.pack(">ih", 1, NULL)),
    "a group that is no UTF-8": raw(DESCRIBE, 0, struct.pack(">ih", 1, 2) + b"\xc3\x28"),
    "a group with half a surrogate": raw(DESCRIBE, 0, struct.pack(">ih", 1, 3) + b"\xed\xa0\x80"),
    "protocols that claim a billion entries": raw(JOIN, 0, b"\0\1g" + bytes(4) + b"\0\0\0\0" + struct.pack(">i", MANY)),
    "offsets that claim a billion entries": raw(COMMIT, 0, b"\0\1g" + struct.pack(">i", MANY)),
    "a fetch of a billion topics": raw(FETCH, 4, bytes(17) + struct.pack(">i", MANY)),
    "a web browser": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a TLS client": bytes.fromhex("16030100f5010000f10303") + bytes(32),
}


@asynccontextmanager
async def undisturbed(emulator: EmulatorProcess) -> AsyncIterator[Member]:
    """A member that lives beside all this: it is answered throughout, and never has to join again."""
    bystander = Member("bystander", emulator.address, session_timeout_ms=PATIENCE_MS)
    async with living(bystander):
        await until(lambda: bystander.heartbeats, "the bystander")
        yield bystander
        beats = bystander.heartbeats
        await until(lambda: bystander.heartbeats > beats + 1, "a heartbeat after all this")
    assert bystander.generations == [1]


async def test_nonsense_costs_its_connection_and_one_line_in_the_log(serve: Serve) -> None:
    emulator = serve(*TOPIC)
    async with undisturbed(emulator):
        for number, (what, data) in enumerate(NONSENSE.items(), 1):
            with sockets(emulator, 1) as (stranger,):
                await asyncio.get_running_loop().sock_sendall(stranger, data)
                assert await hears_the_end(stranger) == b"", what
            lines = refusals(emulator)
            assert len(lines) == number, f"{what}: {lines[-2:]}"
            assert "reason=" in lines[-1], what
    assert "Traceback" not in emulator.log


async def test_noise_and_bent_requests_harm_nobody(serve: Serve) -> None:
    """A thousand connections with random bytes, or with a good request of which some bytes were changed."""
    emulator = serve(*TOPIC)
    chance = random.Random(7)
    good = [frame(BEAT, 4), frame(VERSIONS, 3), raw(METADATA, 1, struct.pack(">i", -1)), *NONSENSE.values()]

    def bent() -> bytes:
        data = bytearray(chance.choice(good) * chance.randint(1, 3))
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        return bytes(data[: chance.randint(1, len(data))])

    async with undisturbed(emulator):
        for _ in range(50):
            with sockets(emulator, 20) as strangers:
                for each in strangers:
                    await asyncio.get_running_loop().sock_sendall(
                        each, bent() if chance.random() < 0.7 else noise(chance)
                    )
                    if chance.random() < 0.5:
                        each.shutdown(socket.SHUT_WR)
    assert "Traceback" not in emulator.log
    assert memory_mb(emulator, "VmHWM") < 150


def noise(chance: random.Random) -> bytes:
    return chance.randbytes(chance.randint(1, 200))


async def test_whoever_only_stops_sending_is_still_answered(serve: Serve) -> None:
    emulator = serve(*TOPIC)
    async with undisturbed(emulator):
        with sockets(emulator, 1) as (half_closed,):
            await asyncio.get_running_loop().sock_sendall(half_closed, frame(BEAT, 4) * 3)
            half_closed.shutdown(socket.SHUT_WR)
            assert len(await hears_the_end(half_closed)) == 3 * BEAT_ANSWER_BYTES
    assert not refusals(emulator)


async def test_hundreds_who_send_a_huge_frame_byte_by_byte_cost_no_more_than_what_they_sent(serve: Serve) -> None:
    emulator = serve(*TOPIC, "--set", "connections.max.idle.ms=4000")
    async with undisturbed(emulator) as bystander:
        before_mb = memory_mb(emulator)
        with sockets(emulator, 300) as strangers:
            for data in [struct.pack(">i", 100_000_000), *[b"x"] * 5]:
                for each in strangers:
                    each.send(data)
                await asyncio.sleep(0.05)
            assert memory_mb(emulator) - before_mb < 30
            beats = bystander.heartbeats
            for each in strangers:
                await hears_the_end(each)  # a connection on which nothing moves is closed
            assert bystander.heartbeats > beats
    assert len(refusals(emulator)) == 300


async def test_a_client_that_never_reads_its_answers_is_not_answered_further(serve: Serve) -> None:
    """Each answer is hundreds of times as long as its request, and nobody takes them."""
    emulator = serve(*TOPIC, *[word for n in range(20) for word in ("--topic", f"{'long' * 40}-{n}:100")])
    everything = raw(METADATA, 1, struct.pack(">i", -1))
    async with undisturbed(emulator):
        before_mb = memory_mb(emulator)
        with sockets(emulator, 20) as strangers:
            sent = await asyncio.gather(*[floods(each, everything * 200) for each in strangers])
            assert all(sent)
            assert memory_mb(emulator, "VmHWM") - before_mb < 100
    assert "socket.send() raised" not in emulator.log


async def test_thirty_thousand_requests_at_once_are_all_answered(serve: Serve) -> None:
    emulator, count = serve(*TOPIC), 30_000
    async with undisturbed(emulator) as bystander:
        before_mb, beats = memory_mb(emulator), bystander.heartbeats
        with sockets(emulator, 1) as (hasty,):
            sending = asyncio.create_task(asyncio.get_running_loop().sock_sendall(hasty, frame(BEAT, 4) * count))
            answers = await hears(hasty, count * BEAT_ANSWER_BYTES)
            await sending
        assert len(answers) == count * BEAT_ANSWER_BYTES
        assert bystander.heartbeats > beats, "others have their turn in between"
        assert memory_mb(emulator, "VmHWM") - before_mb < 50


async def test_a_request_about_very_many_groups_lets_others_have_their_turn(serve: Serve) -> None:
    emulator, count, now_s = serve(*TOPIC), 100_000, asyncio.get_running_loop().time
    async with undisturbed(emulator) as bystander:
        began_s = now_s()
        with sockets(emulator, 1) as (curious,):
            question = raw(DESCRIBE, 0, struct.pack(">i", count) + bytes(2 * count))
            await asyncio.get_running_loop().sock_sendall(curious, question)
            length = int.from_bytes(await hears(curious, 4), "big")
            await hears(curious, length)
        took_s, beats = now_s() - began_s, bystander.heartbeats
        await until(lambda: bystander.heartbeats > beats, "the heartbeat that was under way")
        assert bystander.slowest_heartbeat_s < took_s / 2


async def test_whoever_asks_for_a_large_group_and_reads_nothing_holds_up_only_himself(serve: Serve) -> None:
    emulator = serve(*TOPIC)
    async with undisturbed(emulator):
        question = frame(DescribeGroupsRequest(groups=[GROUP] * 2_000), 5)
        before_mb = memory_mb(emulator)
        with sockets(emulator, 5) as strangers:
            await asyncio.gather(*[floods(each, question) for each in strangers])
            assert memory_mb(emulator, "VmHWM") - before_mb < 150


async def opened_and_dropped(emulator: EmulatorProcess, count: int) -> None:
    for start in range(0, count, 100):
        with sockets(emulator, 100) as strangers:
            if start % 200:
                for each in strangers:
                    each.send(b"\0\0")
        await asyncio.sleep(0)


@pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=pytest.mark.slow)])
async def test_connections_that_are_opened_and_dropped_leave_nothing_behind(serve: Serve, count: int) -> None:
    emulator = serve(*TOPIC)
    async with undisturbed(emulator):
        await opened_and_dropped(emulator, 200)
        before_mb = memory_mb(emulator)
        await opened_and_dropped(emulator, count)
        await until(lambda: memory_mb(emulator) - before_mb < 10, "what was dropped to be forgotten")
    assert not refusals(emulator)


@pytest.mark.slow
async def test_six_frames_of_nearly_the_limit_cost_their_size_and_are_given_back(serve: Serve) -> None:
    """Kafka, too, takes what `socket.request.max.bytes` allows from everybody."""
    emulator, megabytes = serve(*TOPIC), 90
    async with undisturbed(emulator):
        before_mb = memory_mb(emulator)
        with sockets(emulator, 6) as strangers:
            loop = asyncio.get_running_loop()
            for each in strangers:
                await loop.sock_sendall(each, struct.pack(">i", 100_000_000))
            for _ in range(megabytes):
                await asyncio.gather(*[loop.sock_sendall(each, bytes(1_000_000)) for each in strangers])
            assert memory_mb(emulator) - before_mb < 6 * megabytes * 1.3
        await until(lambda: memory_mb(emulator) - before_mb < 50, "the memory to be given back")


async def test_when_the_system_grants_no_more_connections_the_others_go_on(serve: Serve) -> None:
    resource = pytest.importorskip("resource")
    emulator = serve(*TOPIC)
    resource.prlimit(process_id(emulator), resource.RLIMIT_NOFILE, (60, 60))
    async with undisturbed(emulator):
        with sockets(emulator, 100):
            await until(lambda: "connections-wait" in emulator.log, "a word about it")
            await asyncio.sleep(0.2)
        assert emulator.log.count("connections-wait") == 1
        assert "ulimit -n" in emulator.log
    assert "Traceback" not in emulator.log
