"""A service with aiokafka: one consumer is dead, the answer to a commit is lost, the coordinator moves.

The emulator runs in the loop of the test.

Needs regroup, aiokafka, pytest and pytest-asyncio: pytest test_aiokafka.py
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import aiokafka
import pytest

from regroup.testing import AsyncEmulator, Emulator

pytestmark = pytest.mark.asyncio

ALL = {("orders", partition) for partition in range(6)}


@asynccontextmanager
async def service(kafka: AsyncEmulator, client_id: str) -> AsyncIterator[list[str]]:
    """The service that is tested: it handles each order and commits it. Yields the orders that it has handled."""
    consumer = aiokafka.AIOKafkaConsumer(
        "orders",
        bootstrap_servers=kafka.bootstrap_servers,
        group_id="billing",
        client_id=client_id,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        heartbeat_interval_ms=100,  # a consumer learns of a rebalance by its next heartbeat
    )
    handled: list[str] = []

    async def run() -> None:
        async with consumer:
            async for record in consumer:
                handled.append(record.value.decode())
                await consumer.commit()

    task = asyncio.create_task(run())
    try:
        yield handled
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_a_dead_consumer_is_replaced() -> None:
    async with Emulator(topics={"orders": 6}) as kafka, service(kafka, "first"), service(kafka, "second"):
        await kafka.group("billing").wait_until_stable(members=2)
        await kafka.crash_client("second")
        group = await kafka.group("billing").wait_until_stable(members=1)
        assert group.partitions_of("first") == ALL
        await kafka.revive_client("second")  # so that it can close


async def test_no_order_is_handled_twice_after_a_lost_commit() -> None:
    async with Emulator(topics={"orders": 1}) as kafka:
        lost = await kafka.fault(on="OffsetCommit", group="billing", close="after", times=1)
        async with service(kafka, "first") as handled:
            await kafka.produce("orders", "one pear")
            await lost.wait_hits(1)
            await kafka.produce("orders", "two plums")
            await kafka.group("billing").wait_until(lambda group: group.committed.get(("orders", 0)) == 2)
        assert handled == ["one pear", "two plums"]


async def test_a_service_follows_its_coordinator() -> None:
    async with Emulator(topics={"orders": 1}, brokers=2) as kafka, service(kafka, "first") as handled:
        await kafka.group("billing").wait_until_stable(members=1)
        await kafka.produce("orders", "one pear")
        before = await kafka.group("billing").wait_until(lambda group: group.committed.get(("orders", 0)) == 1)
        await kafka.move_coordinator("billing")
        await kafka.produce("orders", "two plums")
        after = await kafka.group("billing").wait_until(lambda group: group.committed.get(("orders", 0)) == 2)
        assert handled == ["one pear", "two plums"]
        assert after.generation == before.generation, "without a rebalance"
