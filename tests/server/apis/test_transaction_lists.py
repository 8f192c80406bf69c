"""DescribeTransactions and ListTransactions, as administrators use them.

The answers are those of Apache Kafka 4.4.0, but for the order of a list, which Kafka leaves to a concurrent hash map,
and the start of a transaction that has ended, which is not kept here.
"""

import importlib.util
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from structlog.testing import capture_logs

from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.messages import transactions as x
from regroup.server.apis import transaction_lists
from tests.server.cluster_harness import ClusterHarness
from tests.server.transaction_harness import TransactionHarness, running_transactions
from tests.server.wire_client import NOW_MS

EMPTY, ONGOING, COMMITTED, ABORTED = "empty", "ongoing", "committed", "aborted"
needs_re2 = pytest.mark.skipif(importlib.util.find_spec("re2") is None, reason="RE2 is not installed")


@pytest.fixture
async def harness() -> AsyncIterator[TransactionHarness]:
    """Four transactional ids, named like their states; a second has passed since the transactions began."""
    async with running_transactions() as ready:
        await (await ready.producer(EMPTY)).begin(50_000)
        ongoing = await (await ready.producer(ONGOING)).begin(60_000)
        await ongoing.add_partitions(2, 0)
        await ongoing.add_offsets("g")
        for name in (COMMITTED, ABORTED):
            producer = await (await ready.producer(name)).begin()
            await producer.add_partitions(1)
            await producer.end(committed=name == COMMITTED)
        await ready.wait_until_stable()
        ready.time_s[0] += 1
        yield ready


async def described(harness: TransactionHarness, *names: str) -> dict[str, Any]:
    client = await harness.reader_client()
    response: Any = await client.call(x.DescribeTransactionsRequest(transactional_ids=list(names)))
    assert [each.transactional_id for each in response.transaction_states] == list(names)
    return {each.transactional_id: each for each in response.transaction_states}


async def listed(harness: TransactionHarness, version: int = 2, **filters: Any) -> set[str]:
    response: Any = await (await harness.reader_client()).call(x.ListTransactionsRequest(**filters), version)
    assert response.error_code == 0
    return {each.transactional_id for each in response.transaction_states}


async def test_a_transaction_is_described_with_its_state_and_partitions(harness: TransactionHarness) -> None:
    found = await described(harness, EMPTY, ONGOING, COMMITTED, ABORTED)
    assert {name: (each.error_code, each.transaction_state) for name, each in found.items()} == {
        EMPTY: (0, "Empty"),
        ONGOING: (0, "Ongoing"),
        COMMITTED: (0, "CompleteCommit"),
        ABORTED: (0, "CompleteAbort"),
    }
    topics = {each.topic: each.partitions for each in found[ONGOING].topics}
    assert {name: sorted(indexes) for name, indexes in topics.items()} == {"orders": [0, 2], "__consumer_offsets": [3]}
    assert found[COMMITTED].topics == []
    assert [each.transaction_timeout_ms for each in found.values()] == [50_000, 60_000, 60_000, 60_000]
    starts = [each.transaction_start_time_ms for each in found.values()]
    assert starts == [-1, NOW_MS, -1, -1]
    assert len({each.producer_id for each in found.values()}) == 4


async def test_an_unknown_transactional_id_and_an_empty_one_have_codes(harness: TransactionHarness) -> None:
    found = await described(harness, "nobody", "")
    assert [(each.error_code, each.transaction_state) for each in found.values()] == [
        (E.TRANSACTIONAL_ID_NOT_FOUND, ""),
        (E.INVALID_REQUEST, ""),
    ]


ALL = {EMPTY, ONGOING, COMMITTED, ABORTED}


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({}, ALL),
        ({"state_filters": ["Ongoing", "Empty"]}, {ONGOING, EMPTY}),
        ({"state_filters": ["Dead", "PrepareCommit"]}, set()),
        ({"producer_id_filters": [999]}, set()),
        ({"duration_filter": -5}, ALL),
        ({"duration_filter": 999}, ALL),
        ({"duration_filter": 1000}, {EMPTY, COMMITTED, ABORTED}),
        ({"transactional_id_pattern": ""}, ALL),
    ],
)
async def test_a_list_is_filtered(harness: TransactionHarness, filters: Mapping[str, Any], names: set[str]) -> None:
    assert await listed(harness, **filters) == names


async def test_a_list_is_filtered_by_producer_id(harness: TransactionHarness) -> None:
    producer_id = (await described(harness, ONGOING))[ONGOING].producer_id
    assert await listed(harness, 0, producer_id_filters=[producer_id, -1]) == {ONGOING}


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_states_that_do_not_exist_are_returned(harness: TransactionHarness, version: int) -> None:
    request = x.ListTransactionsRequest(state_filters=["ongoing", "Nonsense", "Empty", "Nonsense"])
    response: Any = await (await harness.reader_client()).call(request, version)
    assert response.unknown_state_filters == ["ongoing", "Nonsense"], "the names are case-sensitive"
    assert [each.transactional_id for each in response.transaction_states] == [EMPTY]


@needs_re2
@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        (".*ed", {COMMITTED, ABORTED}),
        ("e", set()),
        ("(?i)EMPTY|ongoing", {EMPTY, ONGOING}),
        ("[[:alpha:]]+", ALL),
        ("(a+)+b", set()),
    ],
)
async def test_a_pattern_of_re2_matches_whole_ids(harness: TransactionHarness, pattern: str, names: set[str]) -> None:
    assert await listed(harness, transactional_id_pattern=pattern) == names


@needs_re2
@pytest.mark.parametrize("pattern", ["(", "a{1001}", "e(?=m).*", r"(e)\1.*", "a**"])
async def test_what_is_no_pattern_of_re2_is_refused(harness: TransactionHarness, pattern: str) -> None:
    request = x.ListTransactionsRequest(transactional_id_pattern=pattern)
    response: Any = await (await harness.reader_client()).call(request)
    assert (response.error_code, response.transaction_states) == (E.INVALID_REGULAR_EXPRESSION, [])


async def test_without_re2_a_pattern_is_refused_with_what_to_install(
    harness: TransactionHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_re2(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(transaction_lists, "import_module", no_re2)
    client = await harness.reader_client()
    with capture_logs() as lines:
        response: Any = await client.call(x.ListTransactionsRequest(transactional_id_pattern="a"))
    assert (response.error_code, response.transaction_states) == (E.INVALID_REGULAR_EXPRESSION, [])
    assert [line["reason"] for line in lines] == ["a pattern needs RE2: pip install google-re2"]
    assert await listed(harness) == ALL


async def test_each_broker_answers_for_the_transactional_ids_that_it_coordinates(brokers: ClusterHarness) -> None:
    names = [f"t{number}" for number in range(6)]
    homes = {name: await brokers.coordinator_of(name, key_type=1) for name in names}
    assert len(set(homes.values())) == 3
    for name, home in homes.items():
        await brokers.call(home, x.InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=1000))
    for broker in range(3):
        own = {name for name, home in homes.items() if home == broker}
        response = await brokers.call(broker, x.ListTransactionsRequest())
        assert {each.transactional_id for each in response.transaction_states} == own
        response = await brokers.call(broker, x.DescribeTransactionsRequest(transactional_ids=names))
        codes = {each.transactional_id: each.error_code for each in response.transaction_states}
        assert codes == {name: 0 if name in own else E.NOT_COORDINATOR for name in names}
