"""Transactions over the wire: epochs, fencing, what readers see, and how groups' offsets follow."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace

from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.messages import transactions as x
from regroup.storage.memory import MemoryStore
from tests.coordinator.story import behaviour
from tests.server.transacting import Stage, on_stage, take_part


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with on_stage() as ready:
        yield ready


protocols = pytest.mark.parametrize("protocol", [1, 2])


@protocols
@behaviour("txn-offset.commit-then-marker", "txn-offset.abort")
async def test_records_and_offsets_count_together_or_not_at_all(stage: Stage, protocol: int) -> None:
    producer = await (await stage.producer(protocol=protocol)).begins()
    for number, committed in enumerate([True, False, True]):
        await take_part(producer, b"%d" % number, offset=number + 1)
        await producer.ends(committed)
    assert await stage.reads() == [b"0", b"2"]
    assert await stage.stands_at() == (3, 0)


@protocols
@behaviour("offset-fetch.require-stable.pending-txn", "offset-fetch.not-stable.pending-txn")
async def test_what_an_open_transaction_wrote_shows_only_to_the_impatient(stage: Stage, protocol: int) -> None:
    producer = await (await stage.producer(protocol=protocol)).begins()
    await take_part(producer, b"open", offset=7)
    assert await stage.reads() == []
    assert await stage.reads(committed=False) == [b"open"]
    assert await stage.stands_at() == (-1, 0)
    assert await stage.stands_at(stable=True) == (-1, E.UNSTABLE_OFFSET_COMMIT)
    await producer.ends()
    assert await stage.stands_at(stable=True) == (7, 0)


@protocols
async def test_each_epoch_serves_one_transaction_since_kip_890_and_many_before(stage: Stage, protocol: int) -> None:
    producer = await (await stage.producer(protocol=protocol)).begins()
    for _ in range(3):
        await take_part(producer, b"value", offset=1)
        await producer.ends()
    assert producer.epoch == (0 if protocol == 1 else 3)


@protocols
async def test_a_second_producer_fences_the_first_and_aborts_what_it_left_open(stage: Stage, protocol: int) -> None:
    first = await (await stage.producer(protocol=protocol)).begins()
    await take_part(first, b"lost", offset=7)
    second = await stage.producer(protocol=protocol)
    assert (await second.asks_to_begin()).error_code == E.CONCURRENT_TRANSACTIONS
    await second.begins()
    assert second.id == first.id
    assert second.epoch > first.epoch
    assert (await first.asks_to_end()).error_code == E.PRODUCER_FENCED
    assert await first.writes(b"late") == E.INVALID_PRODUCER_EPOCH
    assert await first.commits(8) == E.INVALID_PRODUCER_EPOCH
    await take_part(second, b"kept", offset=9)
    await second.ends()
    assert await stage.reads() == [b"kept"]
    assert await stage.stands_at() == (9, 0)


async def test_older_requests_know_one_code_for_every_epoch_that_is_over(stage: Stage) -> None:
    first = await (await stage.producer()).begins()
    await (await stage.producer()).begins()
    old, new = E.INVALID_PRODUCER_EPOCH, E.PRODUCER_FENCED
    assert [await first.adds(0, version=version) for version in (1, 2)] == [[old], [new]]
    assert [await first.announces("g", version) for version in (1, 2)] == [old, new]
    assert [(await first.asks_to_end(version=version)).error_code for version in (1, 2)] == [old, new]
    claim = {"producer_id": first.id, "producer_epoch": first.epoch}
    asked = [await first.asks_to_begin(version=version, **claim) for version in (3, 4)]
    assert [answer.error_code for answer in asked] == [old, new]


async def test_nobody_writes_where_the_transaction_did_not_say_it_would(stage: Stage) -> None:
    producer = await (await stage.producer()).begins()
    assert await producer.adds(0) == [0]
    assert await producer.writes(b"elsewhere", partition=1) == E.INVALID_TXN_STATE
    assert await producer.writes(b"elsewhere", partition=1, version=11) == E.TRANSACTION_ABORTABLE
    assert await producer.commits(7) == E.INVALID_TXN_STATE
    assert await producer.commits(7, version=4) == E.TRANSACTION_ABORTABLE
    producer.name = "somebody else"
    assert await producer.writes(b"mine?") == E.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize("version", range(6))
async def test_partitions_are_added_all_or_none(stage: Stage, version: int) -> None:
    producer = await (await stage.producer()).begins()
    assert await producer.adds(0, 9, version=version) == [E.OPERATION_NOT_ATTEMPTED, E.UNKNOWN_TOPIC_OR_PARTITION]
    assert await producer.adds(0, 1, version=version) == [0, 0]
    assert await producer.writes(b"there", partition=1) == 0


async def test_a_broker_may_ask_whether_a_partition_belongs_to_a_transaction(stage: Stage) -> None:
    producer = await (await stage.producer()).begins()
    await producer.adds(0)
    topics = [x.AddPartitionsToTxnTopic(name="orders", partitions=[0, 1])]
    asked = x.AddPartitionsToTxnTransaction(**producer.who, verify_only=True, topics=topics)
    for version, absent in ((4, E.INVALID_TXN_STATE), (5, E.TRANSACTION_ABORTABLE)):
        answer = await producer.ask(x.AddPartitionsToTxnRequest(transactions=[asked]), version)
        rows = answer.results_by_transaction[0].topic_results[0].results_by_partition
        assert [row.partition_error_code for row in rows] == [0, absent]


@protocols
async def test_a_transaction_may_be_ended_again_in_the_same_way_alone(stage: Stage, protocol: int) -> None:
    producer = await (await stage.producer(protocol=protocol)).begins()
    await take_part(producer, b"once", offset=1)
    first, again = [await producer.asks_to_end() for _ in range(2)]
    assert (first.error_code, again.error_code) == (0, 0)
    assert (first.producer_id, first.producer_epoch) == (again.producer_id, again.producer_epoch)
    other = await producer.asks_to_end(committed=False)
    assert other.error_code == (E.INVALID_TXN_STATE if protocol == 1 else E.PRODUCER_FENCED)


@protocols
async def test_a_transaction_that_never_began_cannot_be_committed(stage: Stage, protocol: int) -> None:
    producer = await (await stage.producer(protocol=protocol)).begins()
    assert (await producer.asks_to_end()).error_code == E.INVALID_TXN_STATE
    aborted = await producer.asks_to_end(committed=False)
    assert aborted.error_code == (E.INVALID_TXN_STATE if protocol == 1 else 0)


async def test_who_is_not_known_is_told_so(stage: Stage) -> None:
    stranger = await stage.producer()
    assert await stranger.adds(0) == [E.INVALID_PRODUCER_ID_MAPPING]
    assert await stranger.announces("g") == E.INVALID_PRODUCER_ID_MAPPING
    assert (await stranger.asks_to_end()).error_code == E.INVALID_PRODUCER_ID_MAPPING
    assert (await stranger.asks_to_begin(timeout_ms=0)).error_code == E.INVALID_TRANSACTION_TIMEOUT
    assert (await stranger.asks_to_begin(timeout_ms=900_001)).error_code == E.INVALID_TRANSACTION_TIMEOUT
    stranger.name = ""
    assert (await stranger.asks_to_begin()).error_code == E.INVALID_REQUEST


async def test_a_producer_may_raise_its_own_epoch_and_ask_again_if_the_answer_was_lost(stage: Stage) -> None:
    producer = await (await stage.producer()).begins()
    claim = {"producer_id": producer.id, "producer_epoch": producer.epoch}
    first, again = [await producer.asks_to_begin(**claim) for _ in range(2)]
    assert (first.producer_epoch, again.producer_epoch) == (1, 1)


async def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced() -> None:
    async with on_stage() as stage:
        producer = await (await stage.producer()).begins(timeout_ms=20)
        await take_part(producer, b"slow", offset=7)
        stage.time_s[0] += 1
        await stage.settles()
        assert (await producer.asks_to_end()).error_code == E.PRODUCER_FENCED
        assert await stage.reads() == []
        assert await stage.stands_at() == (-1, 0)


@protocols
async def test_when_the_epochs_are_used_up_the_producer_gets_another_id(stage: Stage, protocol: int) -> None:
    producer = await (await stage.producer(protocol=protocol)).begins()
    before = producer.id
    transactions = stage.emulator.cluster.topics.transactions
    nearly = {"epoch": 32_765} if protocol == 1 else {"epoch": 32_766}
    stage.emulator.cluster.topics = with_transaction(stage, nearly)
    assert transactions["t"].epoch == 0
    if protocol == 1:
        await producer.begins()
        assert (producer.id, producer.epoch) == (before, 32_766)
        await producer.begins()
    else:
        producer.epoch = 32_766
        await take_part(producer, b"last", offset=1)
        await producer.ends()
    assert producer.id > before
    assert producer.epoch == 0
    await take_part(producer, b"next", offset=2)
    await producer.ends()
    assert (await stage.reads())[-1] == b"next"


def with_transaction(stage: Stage, changes: dict[str, int]) -> Any:
    topics = stage.emulator.cluster.topics
    return replace(topics, transactions={"t": replace(topics.transactions["t"], **changes)})


@pytest.mark.parametrize("committed", [True, False])
async def test_a_restart_does_not_forget_an_open_transaction(committed: bool) -> None:
    store = MemoryStore()
    async with on_stage(store) as stage:
        producer = await (await stage.producer()).begins()
        await take_part(producer, b"lost", offset=7)
    async with on_stage(store) as stage:
        producer.client = await stage.client()
        assert await stage.stands_at(stable=True) == (-1, E.UNSTABLE_OFFSET_COMMIT)
        await producer.ends(committed)
        assert await stage.stands_at(stable=True) == ((7, 0) if committed else (-1, 0))


async def test_a_transaction_that_was_settled_before_a_crash_reaches_its_groups_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The crash comes between the decision and its telling."""
    store = MemoryStore()
    async with on_stage(store) as stage:
        producer = await (await stage.producer()).begins()
        await take_part(producer, b"lost", offset=7)
        monkeypatch.setattr(stage.emulator.transactions, "_complete", lambda transactional_id: None)
        await producer.ends()
        assert await stage.stands_at(stable=True) == (-1, E.UNSTABLE_OFFSET_COMMIT)
    async with on_stage(store) as stage:
        await stage.settles()
        assert await stage.stands_at() == (7, 0)


async def test_time_goes_on_for_an_open_transaction_after_a_restart() -> None:
    store = MemoryStore()
    async with on_stage(store) as stage:
        producer = await (await stage.producer()).begins(timeout_ms=20)
        await take_part(producer, b"lost", offset=7)
    async with on_stage(store) as stage:
        stage.time_s[0] += 1
        await stage.settles()
        assert await stage.stands_at() == (-1, 0)


@behaviour("txn-offset.loading-mapped-for-old-clients")
async def test_old_producers_hear_of_a_loading_group_as_of_one_without_coordinator(stage: Stage) -> None:
    producer = await (await stage.producer()).begins()
    await producer.announces("g")
    (coordinator,) = stage.emulator.shares.coordinators
    coordinator._unload(E.COORDINATOR_LOAD_IN_PROGRESS)
    codes = [await producer.commits(7, version=version) for version in (1, 2)]
    assert codes == [E.COORDINATOR_NOT_AVAILABLE, E.COORDINATOR_LOAD_IN_PROGRESS]
