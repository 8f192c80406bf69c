"""`kill -9` while exchanges are recorded: the store is sound, and at most the last second of them is missing."""

import asyncio
import json
import time
from typing import Any

import pytest

from regroup.protocol.client import ClientConnection
from regroup.protocol.messages.cluster import ApiVersionsRequest
from tests.clients.emulator import EmulatorProcess, run_regroup
from tests.clients.processes import Serve

ROUNDS = 3
SECONDS_PER_ROUND = 2.0
MAX_LOST_MS = 1_000


async def send_for(emulator: EmulatorProcess, client_id: str) -> int:
    """Send requests for some seconds; returns when the last answer came, in epoch milliseconds."""
    host, _, port = emulator.address.partition(":")
    connection = await ClientConnection.open(host, int(port), client_id)
    end = time.monotonic() + SECONDS_PER_ROUND
    while time.monotonic() < end:
        await connection.send(ApiVersionsRequest(), 0)
    answered_ms = time.time_ns() // 1_000_000
    emulator.kill()
    await connection.close()
    return answered_ms


def exchanges(emulator: EmulatorProcess, *options: str) -> list[dict[str, Any]]:
    shown = run_regroup("exchanges", emulator.store, "--json", *options)
    assert shown.returncode == 0, shown.stderr
    return [json.loads(line) for line in shown.stdout.splitlines()]


@pytest.mark.slow
def test_at_most_the_last_second_of_exchanges_is_lost_and_the_store_is_sound(serve: Serve) -> None:
    emulator = serve("--record", "--topic", "orders:2", "--log-level", "error", "--durability", "process")
    for number in range(ROUNDS):
        client_id = f"client-{number}"
        answered_ms = asyncio.run(send_for(emulator, client_id))
        kept = exchanges(emulator, "--client", client_id)
        assert kept[-1]["at_ms"] > answered_ms - MAX_LOST_MS
        correlation_ids = [each["correlation_id"] for each in kept]
        assert correlation_ids == list(range(correlation_ids[0], correlation_ids[0] + len(kept)))
        assert len({each["connection"] for each in kept}) == 1
        verified = run_regroup("verify", emulator.store)
        assert verified.returncode == 0, verified.stdout + verified.stderr
        emulator.start()
    assert len({each["connection"] for each in exchanges(emulator)}) == ROUNDS
