"""Transactions over the wire: epochs, fencing, isolation levels, and the offsets of groups."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from msgspec.structs import replace

from regroup.coordinator.runtime.group_coordinator import GroupCoordinator
from regroup.coordinator.serialization import Cause
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.internal_topics import OFFSETS_TOPIC
from regroup.protocol.messages import transactions as x
from regroup.server.cluster.transaction_coordinator import ProducerIdentity
from regroup.storage.memory import MemoryStore
from tests.coordinator.group_harness import behaviour
from tests.server.transaction_harness import TransactionHarness, running_transactions, write_and_commit
from tests.server.wire_client import wait_until


@pytest.fixture
async def harness() -> AsyncIterator[TransactionHarness]:
    async with running_transactions() as ready:
        yield ready


protocols = pytest.mark.parametrize("protocol", [1, 2])


@protocols
@behaviour("txn-offset.commit-then-marker", "txn-offset.abort")
async def test_records_and_offsets_are_committed_together_or_not_at_all(
    harness: TransactionHarness, protocol: int
) -> None:
    producer = await (await harness.producer(protocol=protocol)).begin()
    for number, committed in enumerate([True, False, True]):
        await write_and_commit(producer, b"%d" % number, offset=number + 1)
        await producer.end(committed)
    assert await harness.read_values() == [b"0", b"2"]
    assert await harness.committed_offset() == (3, 0)


async def test_the_end_of_a_transaction_looks_at_no_group_without_its_offsets(
    harness: TransactionHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = await (await harness.producer()).begin()
    await write_and_commit(producer, b"value", offset=7)
    monkeypatch.delattr(GroupCoordinator, "groups")
    await producer.end()
    assert await harness.committed_offset(stable=True) == (7, 0)


@protocols
@behaviour("offset-fetch.require-stable.pending-txn", "offset-fetch.not-stable.pending-txn")
async def test_an_open_transaction_is_visible_to_read_uncommitted_only(
    harness: TransactionHarness, protocol: int
) -> None:
    producer = await (await harness.producer(protocol=protocol)).begin()
    await write_and_commit(producer, b"open", offset=7)
    assert await harness.read_values() == []
    assert await harness.read_values(committed=False) == [b"open"]
    assert await harness.committed_offset() == (-1, 0)
    assert await harness.committed_offset(stable=True) == (-1, E.UNSTABLE_OFFSET_COMMIT)
    await producer.end()
    assert await harness.committed_offset(stable=True) == (7, 0)


@protocols
async def test_each_transaction_has_its_own_epoch_since_kip_890(harness: TransactionHarness, protocol: int) -> None:
    producer = await (await harness.producer(protocol=protocol)).begin()
    for _ in range(3):
        await write_and_commit(producer, b"value", offset=1)
        await producer.end()
    assert producer.epoch == (0 if protocol == 1 else 3)


@protocols
async def test_a_second_producer_fences_the_first_and_aborts_its_open_transaction(
    harness: TransactionHarness, protocol: int
) -> None:
    first = await (await harness.producer(protocol=protocol)).begin()
    await write_and_commit(first, b"lost", offset=7)
    second = await harness.producer(protocol=protocol)
    assert (await second.init_producer_id()).error_code == E.CONCURRENT_TRANSACTIONS
    await second.begin()
    assert second.id == first.id
    assert second.epoch > first.epoch
    assert (await first.end_txn()).error_code == E.PRODUCER_FENCED
    assert await first.write(b"late") == E.INVALID_PRODUCER_EPOCH
    assert await first.commit_offset(8) == E.INVALID_PRODUCER_EPOCH
    await write_and_commit(second, b"committed", offset=9)
    await second.end()
    assert await harness.read_values() == [b"committed"]
    assert await harness.committed_offset() == (9, 0)


async def test_a_fenced_producer_that_aborts_with_its_own_epochs_gets_the_epoch_that_fenced_it(
    harness: TransactionHarness,
) -> None:
    # As Kafka does, which cannot tell this request from one that is repeated; found by a random course.
    fenced = await (await harness.producer(protocol=2)).begin()
    await write_and_commit(fenced, b"lost", offset=7)
    second = await harness.producer(protocol=2)
    assert (await second.init_producer_id()).error_code == E.CONCURRENT_TRANSACTIONS
    await harness.wait_until_stable()
    assert (await fenced.end_txn(committed=True)).error_code == E.INVALID_TXN_STATE
    aborted = await fenced.end_txn(committed=False)
    assert (aborted.error_code, aborted.producer_id, aborted.producer_epoch) == (0, fenced.id, fenced.epoch + 1)


async def test_older_versions_have_one_code_for_all_old_epochs(harness: TransactionHarness) -> None:
    first = await (await harness.producer()).begin()
    await (await harness.producer()).begin()
    old, new = E.INVALID_PRODUCER_EPOCH, E.PRODUCER_FENCED
    assert [await first.add_partitions(0, version=version) for version in (1, 2)] == [[old], [new]]
    assert [await first.add_offsets("g", version) for version in (1, 2)] == [old, new]
    assert [(await first.end_txn(version=version)).error_code for version in (1, 2)] == [old, new]
    claim = {"producer_id": first.id, "producer_epoch": first.epoch}
    responses = [await first.init_producer_id(version=version, **claim) for version in (3, 4)]
    assert [response.error_code for response in responses] == [old, new]


async def test_a_write_outside_the_transaction_is_refused(harness: TransactionHarness) -> None:
    producer = await (await harness.producer()).begin()
    assert await producer.add_partitions(0) == [0]
    assert await producer.write(b"elsewhere", partition=1) == E.INVALID_TXN_STATE
    assert await producer.write(b"elsewhere", partition=1, version=11) == E.TRANSACTION_ABORTABLE
    assert await producer.commit_offset(7) == E.INVALID_TXN_STATE
    assert await producer.commit_offset(7, version=4) == E.TRANSACTION_ABORTABLE
    producer.name = "another producer"
    assert await producer.write(b"mine?") == E.INVALID_PRODUCER_ID_MAPPING


@behaviour("txn-offset.foreign-transactional-id")
@pytest.mark.parametrize("version", [1, 3, 4, 5])
async def test_only_the_first_commit_of_a_transaction_is_verified_by_its_transactional_id(
    harness: TransactionHarness, version: int
) -> None:
    """A bug of Kafka: later ones need only the producer's id and epoch. They end with the producer's transaction."""
    producer = await (await harness.producer()).begin()
    await producer.add_offsets("g")
    own, producer.name = producer.name, "another producer"
    assert await producer.commit_offset(7, version=version) == E.INVALID_PRODUCER_ID_MAPPING
    producer.name = own
    assert await producer.commit_offset(7) == 0
    producer.name = "another producer"
    assert await producer.commit_offset(8, partition=1, version=version) == 0
    assert await producer.commit_offset(8, group="in another partition", version=version) == 49
    producer.epoch += 1
    assert await producer.commit_offset(9, partition=2, version=version) == E.INVALID_PRODUCER_ID_MAPPING
    producer.epoch -= 2
    assert await producer.commit_offset(9, partition=2, version=version) == E.INVALID_PRODUCER_EPOCH
    producer.name, producer.epoch = own, producer.epoch + 1
    await producer.end()
    committed = harness.cluster.coordinator_of("g").group("g").committed_offset("orders", 1)
    assert committed is not None
    assert committed.offset == 8
    producer.name = "another producer"
    assert await producer.commit_offset(9, version=version) == E.INVALID_PRODUCER_ID_MAPPING, "it is open no more"


@pytest.mark.parametrize("version", [9, 11, 12])
async def test_only_the_first_write_of_a_transaction_is_verified_by_its_transactional_id(
    harness: TransactionHarness, version: int
) -> None:
    producer = await (await harness.producer()).begin()
    await producer.add_partitions(0)
    own, producer.name = producer.name, "another producer"
    assert await producer.write(b"first", version=version) == E.INVALID_PRODUCER_ID_MAPPING
    producer.name = own
    assert await producer.write(b"first") == 0
    producer.name = "another producer"
    assert await producer.write(b"second", version=version) == 0
    assert await producer.write(b"elsewhere", partition=1, version=version) == E.INVALID_PRODUCER_ID_MAPPING


async def test_a_transactional_write_without_a_transactional_id_is_refused(harness: TransactionHarness) -> None:
    producer = await (await harness.producer()).begin()
    await producer.add_partitions(0)
    producer.name = None  # type: ignore[assignment]  # only a client that is written by hand does this
    assert await producer.write(b"first") == E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


@pytest.mark.parametrize("version", range(6))
async def test_partitions_are_added_all_or_none(harness: TransactionHarness, version: int) -> None:
    producer = await (await harness.producer()).begin()
    assert await producer.add_partitions(0, 9, version=version) == [
        E.OPERATION_NOT_ATTEMPTED,
        E.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert await producer.add_partitions(0, 1, version=version) == [0, 0]
    assert await producer.write(b"there", partition=1) == 0


@pytest.mark.parametrize("version", [0, 3, 4])
async def test_only_brokers_add_partitions_of_internal_topics(harness: TransactionHarness, version: int) -> None:
    await harness.cluster.ensure_topic(OFFSETS_TOPIC, 50)
    producer = await (await harness.producer()).begin()
    codes = [E.OPERATION_NOT_ATTEMPTED, E.TOPIC_AUTHORIZATION_FAILED] if version < 4 else [0, 0]
    topics = [x.AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in ("orders", OFFSETS_TOPIC)]
    assert await producer.add_topics(topics, version) == [[code] for code in codes]


async def test_partitions_of_a_topic_that_is_named_twice_are_all_added(harness: TransactionHarness) -> None:
    producer = await (await harness.producer()).begin()
    topics = [x.AddPartitionsToTxnTopic(name="orders", partitions=[index]) for index in (0, 1)]
    assert await producer.add_topics(topics, 3) == [[0], [0]]
    assert [await producer.write(b"there", partition=index) for index in (0, 1)] == [0, 0]


async def test_a_broker_may_verify_that_a_partition_is_part_of_a_transaction(harness: TransactionHarness) -> None:
    producer = await (await harness.producer()).begin()
    await producer.add_partitions(0)
    topics = [x.AddPartitionsToTxnTopic(name="orders", partitions=[0, 1])]
    asked = x.AddPartitionsToTxnTransaction(**producer.identity, verify_only=True, topics=topics)
    for version, absent in ((4, E.INVALID_TXN_STATE), (5, E.TRANSACTION_ABORTABLE)):
        answer = await producer.call(x.AddPartitionsToTxnRequest(transactions=[asked]), version)
        rows = answer.results_by_transaction[0].topic_results[0].results_by_partition
        assert [row.partition_error_code for row in rows] == [0, absent]


@protocols
async def test_the_end_of_a_transaction_may_be_repeated_with_the_same_outcome_only(
    harness: TransactionHarness, protocol: int
) -> None:
    producer = await (await harness.producer(protocol=protocol)).begin()
    await write_and_commit(producer, b"once", offset=1)
    first, repeated = [await producer.end_txn() for _ in range(2)]
    assert (first.error_code, repeated.error_code) == (0, 0)
    assert (first.producer_id, first.producer_epoch) == (repeated.producer_id, repeated.producer_epoch)
    assert (await producer.end_txn(committed=False)).error_code == E.INVALID_TXN_STATE


@protocols
async def test_a_transaction_that_has_not_begun_cannot_be_committed(harness: TransactionHarness, protocol: int) -> None:
    producer = await (await harness.producer(protocol=protocol)).begin()
    assert (await producer.end_txn()).error_code == E.INVALID_TXN_STATE
    aborted = await producer.end_txn(committed=False)
    assert aborted.error_code == (E.INVALID_TXN_STATE if protocol == 1 else 0)


async def test_an_unknown_producer_is_refused(harness: TransactionHarness) -> None:
    unknown = await harness.producer()
    assert await unknown.add_partitions(0) == [E.INVALID_PRODUCER_ID_MAPPING]
    assert await unknown.add_offsets("g") == E.INVALID_PRODUCER_ID_MAPPING
    assert (await unknown.end_txn()).error_code == E.INVALID_PRODUCER_ID_MAPPING
    assert (await unknown.init_producer_id(timeout_ms=0)).error_code == E.INVALID_TRANSACTION_TIMEOUT
    assert (await unknown.init_producer_id(timeout_ms=900_001)).error_code == E.INVALID_TRANSACTION_TIMEOUT
    unknown.name = ""
    assert (await unknown.init_producer_id()).error_code == E.INVALID_REQUEST


async def test_a_producer_may_raise_its_epoch_and_repeat_the_request(
    harness: TransactionHarness,
) -> None:
    producer = await (await harness.producer()).begin()
    claim = {"producer_id": producer.id, "producer_epoch": producer.epoch}
    first, repeated = [await producer.init_producer_id(**claim) for _ in range(2)]
    assert (first.producer_epoch, repeated.producer_epoch) == (1, 1)


async def test_a_transaction_that_exceeds_its_timeout_is_aborted_and_its_producer_fenced() -> None:
    async with running_transactions() as harness:
        producer = await (await harness.producer()).begin(timeout_ms=20)
        await write_and_commit(producer, b"slow", offset=7)
        harness.time_s[0] += 1
        await harness.wait_until_stable()
        assert (await producer.end_txn()).error_code == E.PRODUCER_FENCED
        assert await harness.read_values() == []
        assert await harness.committed_offset() == (-1, 0)


@protocols
async def test_a_producer_with_exhausted_epochs_gets_another_id(harness: TransactionHarness, protocol: int) -> None:
    producer = await (await harness.producer(protocol=protocol)).begin()
    before = producer.id
    transactions = harness.cluster.state.image.transactions
    almost_exhausted = {"epoch": 32_765} if protocol == 1 else {"epoch": 32_766}
    harness.cluster.state.image = with_transaction(harness, almost_exhausted)
    assert transactions["t"].epoch == 0
    if protocol == 1:
        await producer.begin()
        assert (producer.id, producer.epoch) == (before, 32_766)
        await producer.begin()
    else:
        producer.epoch = 32_766
        await write_and_commit(producer, b"last", offset=1)
        await producer.end()
    assert producer.id > before
    assert producer.epoch == 0
    await write_and_commit(producer, b"next", offset=2)
    await producer.end()
    assert (await harness.read_values())[-1] == b"next"


def with_transaction(harness: TransactionHarness, changes: dict[str, int]) -> Any:
    image = harness.cluster.state.image
    return replace(image, transactions={"t": replace(image.transactions["t"], **changes)})


@pytest.mark.parametrize("committed", [True, False])
async def test_an_open_transaction_survives_a_restart(committed: bool) -> None:
    store = MemoryStore()
    async with running_transactions(store) as harness:
        producer = await (await harness.producer()).begin()
        await write_and_commit(producer, b"lost", offset=7)
    async with running_transactions(store) as harness:
        producer.client = await harness.client()
        assert await harness.committed_offset(stable=True) == (-1, E.UNSTABLE_OFFSET_COMMIT)
        await producer.end(committed)
        assert await harness.committed_offset(stable=True) == ((7, 0) if committed else (-1, 0))


async def test_a_transaction_prepared_before_a_crash_is_completed_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The crash is between the outcome and the markers."""
    store = MemoryStore()
    async with running_transactions(store) as harness:
        producer = await (await harness.producer()).begin()
        await write_and_commit(producer, b"lost", offset=7)
        monkeypatch.setattr(harness.cluster.transactions, "_complete", lambda transactional_id: None)
        await producer.end()
        assert await harness.committed_offset(stable=True) == (-1, E.UNSTABLE_OFFSET_COMMIT)
    async with running_transactions(store) as harness:
        await harness.wait_until_stable()
        assert await harness.committed_offset() == (7, 0)


async def test_the_timeout_of_an_open_transaction_continues_after_a_restart() -> None:
    store = MemoryStore()
    async with running_transactions(store) as harness:
        producer = await (await harness.producer()).begin(timeout_ms=20)
        await write_and_commit(producer, b"lost", offset=7)
    async with running_transactions(store) as harness:
        harness.time_s[0] += 1
        await harness.wait_until_stable()
        assert await harness.committed_offset() == (-1, 0)


@behaviour("txn-offset.loading-mapped-for-old-clients")
async def test_old_producers_get_another_code_for_a_group_that_is_being_loaded(harness: TransactionHarness) -> None:
    producer = await (await harness.producer()).begin()
    await producer.add_offsets("g")
    harness.cluster.coordinator_of("g")._unload(E.COORDINATOR_LOAD_IN_PROGRESS)
    codes = [await producer.commit_offset(7, version=version) for version in (1, 2)]
    assert codes == [E.COORDINATOR_NOT_AVAILABLE, E.COORDINATOR_LOAD_IN_PROGRESS]


async def test_a_refused_commit_is_answered_once_the_events_behind_the_refusal_are_stored(
    harness: TransactionHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = await (await harness.producer()).begin()
    when_stored: list[Callable[[], None]] = []
    monkeypatch.setattr(harness.cluster.state, "when_durable", lambda call, _: when_stored.append(call))
    committing = asyncio.create_task(producer.commit_offset(7))
    await wait_until(lambda: when_stored or committing.done())
    assert not committing.done()
    when_stored[0]()
    assert await committing == E.INVALID_TXN_STATE


async def test_a_transaction_that_ends_while_brokers_start_has_markers_once_its_outcome_is_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Requests are served as soon as the state is loaded: `start` finds a transaction that one of them has ended."""
    async with running_transactions(MemoryStore()) as harness:
        producer = await (await harness.producer()).begin()
        await write_and_commit(producer, b"v", offset=7)
        when_stored: list[Callable[[], None]] = []
        monkeypatch.setattr(harness.cluster.state, "when_durable", lambda call, _: when_stored.append(call))
        harness.cluster.transactions.end_transaction(
            ProducerIdentity("t", producer.id, producer.epoch), committed=True, bumps_epoch=False, cause=Cause()
        )
        harness.cluster.transactions.start()
        assert await harness.committed_offset(stable=True) == (-1, E.UNSTABLE_OFFSET_COMMIT)
        for call in when_stored:
            call()
        await harness.wait_until_stable()
        assert await harness.committed_offset(stable=True) == (7, 0)
