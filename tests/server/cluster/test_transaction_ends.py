"""The ends of transactions: markers that are written in turns, groups that are loaded meanwhile, and timeouts."""

import asyncio
from collections.abc import AsyncIterator, Callable
from itertools import chain, repeat

import pytest

from regroup.coordinator.runtime.logger import log_sink
from regroup.coordinator.serialization import Cause
from regroup.protocol.errors import ErrorCode as E
from regroup.server.cluster.transaction_coordinator import ProducerIdentity
from tests.server.transaction_harness import TransactionalClient, TransactionHarness, running_transactions
from tests.server.wire_client import wait_until

PARTITIONS = range(400)
"""More than one turn of the event loop can write markers to."""


@pytest.fixture
async def harness() -> AsyncIterator[TransactionHarness]:
    async with running_transactions() as ready:
        await ready.cluster.ensure_topic("wide", len(PARTITIONS))
        yield ready


async def begin_wide(harness: TransactionHarness) -> TransactionalClient:
    """A producer with an open transaction that has many partitions and an offset of group `g`."""
    producer = await (await harness.producer()).begin()
    await add_wide(producer)
    return producer


async def add_wide(producer: TransactionalClient) -> None:
    assert set(await producer.add_partitions(*PARTITIONS, topic="wide")) == {0}
    assert await producer.add_offsets("g") == 0
    assert await producer.commit_offset(7) == 0


def is_complete(harness: TransactionHarness) -> bool:
    return not harness.cluster.state.image.transactions["t"].is_prepared


def marker_count(harness: TransactionHarness) -> int:
    state = harness.cluster.state
    return sum(state.partition_log(state.topics["wide"], index).log_end_offset for index in PARTITIONS)


async def test_a_second_transaction_of_many_partitions_ends_as_the_first_did(harness: TransactionHarness) -> None:
    producer = await begin_wide(harness)
    await producer.end()
    await wait_until(lambda: is_complete(harness))
    await add_wide(producer)
    await producer.end()
    await wait_until(lambda: is_complete(harness))
    assert marker_count(harness) == 2 * len(PARTITIONS)


async def test_a_group_that_is_loaded_while_markers_are_written_takes_the_end_of_the_transaction(
    harness: TransactionHarness,
) -> None:
    producer = await begin_wide(harness)
    ending = asyncio.create_task(producer.end())
    await wait_until(lambda: marker_count(harness))
    harness.cluster.begin_load("g")
    assert marker_count(harness) < len(PARTITIONS)
    await ending
    await wait_until(lambda: marker_count(harness) == len(PARTITIONS))
    assert not is_complete(harness)
    await harness.cluster.finish_load("g")
    await wait_until(lambda: is_complete(harness))
    assert await harness.committed_offset(stable=True) == (7, 0)
    assert marker_count(harness) == len(PARTITIONS)


async def test_the_next_transaction_has_a_timeout_although_the_end_of_the_last_one_had_to_wait(
    harness: TransactionHarness,
) -> None:
    producer = await (await harness.producer()).begin(timeout_ms=20)
    assert await producer.add_offsets("g") == 0
    harness.cluster.begin_load("g")
    await producer.end()
    await harness.cluster.finish_load("g")
    await wait_until(lambda: is_complete(harness))
    assert await producer.add_partitions(0) == [0]
    harness.time_s[0] += 1
    await wait_until(lambda: not harness.cluster.state.image.transactions["t"].is_ongoing)
    assert await producer.write(b"late") == E.INVALID_PRODUCER_EPOCH


async def test_an_end_that_is_continued_twice_leaves_the_timeout_of_the_next_transaction(
    harness: TransactionHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    transactions = harness.cluster.transactions
    producer = await (await harness.producer()).begin(timeout_ms=20)
    assert await producer.add_partitions(0) == [0]
    when_stored: list[Callable[[], None]] = []
    with monkeypatch.context() as patch:
        patch.setattr(harness.cluster.state, "when_durable", lambda call, _: when_stored.append(call))
        identity = ProducerIdentity("t", producer.id, producer.epoch)
        transactions.end_transaction(identity, committed=True, bumps_epoch=False, cause=Cause())
        transactions.start()
    first, second = when_stored
    first()
    assert await producer.add_partitions(0) == [0]
    second()
    transactions.stop()
    harness.time_s[0] += 1
    await asyncio.sleep(0.04)
    assert harness.cluster.state.image.transactions["t"].is_ongoing, "its timeout was stopped"


async def test_an_error_of_an_end_that_had_to_wait_is_logged(
    harness: TransactionHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    producer = await (await harness.producer()).begin()
    assert await producer.add_offsets("g") == 0
    lines: list[str] = []
    are_loaded = chain([True, False], repeat(True))  # when the markers are written, when they are, and later
    monkeypatch.setattr(harness.cluster.transactions._offsets, "are_loaded", lambda _: next(are_loaded))
    monkeypatch.setattr(harness.cluster.transactions._offsets, "end_transaction", fail)
    with log_sink(lambda logger, level, event, _: lines.append(f"{logger} {level}: {event}")):
        await producer.end()
        await wait_until(lambda: "transactions error: transaction could not be completed" in lines)
