"""Order and shape of answers about offsets: partitions that do not exist, topics that are named twice or are empty.

What each request gets is what Apache Kafka 4.4.0 answered to the same bytes; `tests/conformance/test_same_answers.py`
asks it again.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import pytest

from regroup.protocol.fields import NO_UUID
from regroup.protocol.messages import offsets as o
from regroup.protocol.messages import transactions as x
from tests.coordinator.group_harness import behaviour
from tests.server.group_api_harness import GroupApiHarness

Named: TypeAlias = Sequence[tuple[str, list[int]]]
"""Entries of a request: a topic and its partitions."""

UNKNOWN_ID, TOO_LONG = "unknown id", "x" * 5000
MIXED = [
    ([("orders", [0, 9, 1])], [("orders", [(9, 3), (0, 0), (1, 0)])]),
    ([("orders", [-1, 0])], [("orders", [(-1, 3), (0, 0)])]),
    ([("orders", [0]), ("nope", [0])], [("nope", [(0, 3)]), ("orders", [(0, 0)])]),
    ([("orders", []), ("bills", [0])], [("bills", [(0, 0)])]),
    ([("orders", [])], []),
    ([("nope", [])], [("nope", [])]),
    ([], []),
    (
        [("orders", [0]), ("bills", [0]), ("orders", [1])],
        [("orders", [(0, 0)]), ("bills", [(0, 0)]), ("orders", [(1, 0)])],
    ),
    (
        [("orders", [0]), ("nope", [0]), ("bills", [9, 1]), ("orders", [2]), ("nope", [1])],
        [("nope", [(0, 3), (1, 3)]), ("bills", [(9, 3), (1, 0)]), ("orders", [(0, 0), (2, 0)])],
    ),
    ([("orders", [0, 0, 9, 9])], [("orders", [(9, 3), (9, 3), (0, 0), (0, 0)])]),
    ([("", [0]), ("orders", [0])], [("", [(0, 3)]), ("orders", [(0, 0)])]),
]
"""Entries of a request, and those of its response with the code of each partition."""
MIXED_IDS = [
    (
        [("orders", [0, 9]), ("", [0]), (UNKNOWN_ID, [0, 1])],
        [("orders", [(9, 3), (0, 0)]), ("", [(0, 100)]), (UNKNOWN_ID, [(0, 100), (1, 100)])],
    ),
    (
        [(UNKNOWN_ID, [0]), ("bills", [0]), (UNKNOWN_ID, [1]), ("", [2]), ("", [3])],
        [(UNKNOWN_ID, [(0, 100), (1, 100)]), ("", [(2, 100), (3, 100)]), ("bills", [(0, 0)])],
    ),
    ([("orders", []), (UNKNOWN_ID, [])], [(UNKNOWN_ID, [])]),
]
"""The same by topic id; the empty name stands for an id of zeros."""


@pytest.fixture
async def api(group_api: GroupApiHarness) -> GroupApiHarness:
    """With the topics `orders` and `bills` of three partitions."""
    await group_api.cluster.ensure_topic("bills", 3)
    return group_api


def named(api: GroupApiHarness, topic: str, *, by_id: bool) -> dict[str, Any]:
    if not by_id:
        return {"name": topic}
    return {"topic_id": {"": NO_UUID, UNKNOWN_ID: b"\x07" * 16}.get(topic) or api.topic_id(topic)}


def name_in(api: GroupApiHarness, topic: Any, *, by_id: bool) -> str:
    names = {api.topic_id("orders"): "orders", api.topic_id("bills"): "bills", NO_UUID: ""}
    return names.get(topic.topic_id, UNKNOWN_ID) if by_id else topic.name


def codes_of(api: GroupApiHarness, response: Any, *, by_id: bool = False) -> list[tuple[str, list[tuple[int, int]]]]:
    return [
        (name_in(api, topic, by_id=by_id), [(each.partition_index, each.error_code) for each in topic.partitions])
        for topic in response.topics
    ]


async def commit(api: GroupApiHarness, entries: Named, version: int = 9, group: str = "g", **fields: Any) -> Any:
    topics = [
        o.OffsetCommitRequestTopic(
            **named(api, topic, by_id=version >= 10),
            partitions=[o.OffsetCommitRequestPartition(partition_index=each, committed_offset=7) for each in indexes],
        )
        for topic, indexes in entries
    ]
    return await api.call(o.OffsetCommitRequest(group_id=group, topics=topics, **fields), version)


@behaviour("offset-commit.refused-partitions-first")
@pytest.mark.parametrize(("entries", "answered"), MIXED)
async def test_a_commit_answers_refused_partitions_first(api: GroupApiHarness, entries: Named, answered: Any) -> None:
    for version in (2, 9):
        assert codes_of(api, await commit(api, entries, version)) == answered


@behaviour("offset-commit.unknown-topic-id")
@pytest.mark.parametrize(("entries", "answered"), MIXED_IDS)
async def test_a_commit_by_topic_id_tells_a_missing_partition_from_an_unknown_id(
    api: GroupApiHarness, entries: Named, answered: Any
) -> None:
    assert codes_of(api, await commit(api, entries, 10), by_id=True) == answered


async def test_a_commit_that_the_group_refuses_keeps_the_codes_of_missing_partitions(api: GroupApiHarness) -> None:
    entries: Named = [("orders", [0, 9, 1]), ("bills", []), ("nope", [0])]
    response = await commit(api, entries, generation_id_or_member_epoch=3, member_id="m")
    assert codes_of(api, response) == [("orders", [(9, 3), (0, 69), (1, 69)]), ("nope", [(0, 3)])]


@behaviour("offset-commit.partition-twice")
async def test_of_two_commits_to_one_partition_the_one_with_short_metadata_is_stored(api: GroupApiHarness) -> None:
    partitions = [
        o.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata=metadata)
        for offset, metadata in ((1, ""), (2, "short"), (3, TOO_LONG))
    ]
    topics = [o.OffsetCommitRequestTopic(name="orders", partitions=partitions)]
    response = await api.call(o.OffsetCommitRequest(group_id="g", topics=topics), 9)
    assert codes_of(api, response) == [("orders", [(0, 0), (0, 0), (0, 12)])]
    assert await fetched(api, [("orders", [0])]) == [("orders", [(0, 2, 0)])]


# OffsetDelete


async def delete(api: GroupApiHarness, entries: Named, group: str = "g") -> Any:
    topics = [
        o.OffsetDeleteRequestTopic(
            name=topic, partitions=[o.OffsetDeleteRequestPartition(partition_index=each) for each in indexes]
        )
        for topic, indexes in entries
    ]
    return await api.call(o.OffsetDeleteRequest(group_id=group, topics=topics))


@behaviour("offset-delete.refused-partitions-first")
@pytest.mark.parametrize(("entries", "answered"), MIXED)
async def test_a_delete_answers_refused_partitions_first(api: GroupApiHarness, entries: Named, answered: Any) -> None:
    await commit(api, [("orders", [0, 1, 2])])
    assert codes_of(api, await delete(api, entries)) == answered


@behaviour("offset-delete.topic-twice")
async def test_a_delete_that_names_a_topic_twice_deletes_all_of_its_partitions(api: GroupApiHarness) -> None:
    await commit(api, [("orders", [0, 1, 2]), ("bills", [0])])
    assert (await delete(api, [("orders", [0]), ("bills", [0]), ("orders", [1])])).error_code == 0
    left = await fetched(api, None)
    assert left == [("orders", [(2, 7, 0)])]


# OffsetFetch


async def fetched(api: GroupApiHarness, entries: Named | None, version: int = 9) -> list[tuple[str, list[Any]]]:
    """The entries of the response, each partition with its offset and code."""
    by_id = version >= 10
    if version < 8:
        old = [o.OffsetFetchRequestTopic(name=topic, partition_indexes=indexes) for topic, indexes in entries or ()]
        topics = (await api.call(o.OffsetFetchRequest(group_id="g", topics=old), version)).topics
    else:
        asked = [
            o.OffsetFetchRequestTopics(**named(api, topic, by_id=by_id), partition_indexes=indexes)
            for topic, indexes in entries or ()
        ]
        group = o.OffsetFetchRequestGroup(group_id="g", topics=None if entries is None else asked)
        topics = (await api.call(o.OffsetFetchRequest(groups=[group]), version)).groups[0].topics
    return [
        (
            name_in(api, topic, by_id=by_id),
            [(each.partition_index, each.committed_offset, each.error_code) for each in topic.partitions],
        )
        for topic in topics
    ]


@behaviour("offset-fetch.topic-twice")
@pytest.mark.parametrize("version", [1, 7, 8, 9])
async def test_a_fetch_has_an_entry_for_each_of_the_request(api: GroupApiHarness, version: int) -> None:
    await commit(api, [("orders", [0, 1])])
    entries: Named = [("orders", [0]), ("", [3]), ("bills", []), ("orders", [1, 1, 9])]
    assert await fetched(api, entries, version) == [
        ("orders", [(0, 7, 0)]),
        ("", [(3, -1, 0)]),
        ("bills", []),
        ("orders", [(1, 7, 0), (1, 7, 0), (9, -1, 0)]),
    ]


@behaviour("offset-fetch.unknown-ids-last")
async def test_a_fetch_by_topic_id_answers_unknown_ids_last(api: GroupApiHarness) -> None:
    await commit(api, [("orders", [0, 1])])
    entries: Named = [("orders", [1]), (UNKNOWN_ID, [0]), ("orders", [0]), ("", [3]), (UNKNOWN_ID, [1])]
    assert await fetched(api, entries, 10) == [
        ("orders", [(1, 7, 0)]),
        ("orders", [(0, 7, 0)]),
        (UNKNOWN_ID, [(0, -1, 100)]),
        ("", [(3, -1, 100)]),
        (UNKNOWN_ID, [(1, -1, 100)]),
    ]


# TxnOffsetCommit


async def begin_transaction(api: GroupApiHarness, group: str = "g") -> dict[str, Any]:
    begun = await api.call(x.InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60_000))
    who = {"transactional_id": "t", "producer_id": begun.producer_id, "producer_epoch": begun.producer_epoch}
    await api.call(x.AddOffsetsToTxnRequest(**who, group_id=group), 3)
    return who


async def txn_commit(
    api: GroupApiHarness, who: dict[str, Any], entries: Named, version: int = 5, group: str = "g", **fields: Any
) -> Any:
    topics = [
        x.TxnOffsetCommitRequestTopic(
            **named(api, topic, by_id=version >= 6),
            partitions=[
                x.TxnOffsetCommitRequestPartition(partition_index=each, committed_offset=7) for each in indexes
            ],
        )
        for topic, indexes in entries
    ]
    return await api.call(x.TxnOffsetCommitRequest(**who, group_id=group, topics=topics, **fields), version)


@behaviour("txn-offset.refused-partitions-first")
@pytest.mark.parametrize(("entries", "answered"), MIXED)
async def test_a_transactional_commit_answers_refused_partitions_first(
    api: GroupApiHarness, entries: Named, answered: Any
) -> None:
    who = await begin_transaction(api)
    for version in (0, 3, 5):
        assert codes_of(api, await txn_commit(api, who, entries, version)) == answered


@behaviour("txn-offset.by-topic-id")
@pytest.mark.parametrize(("entries", "answered"), MIXED_IDS)
async def test_since_v6_a_transactional_commit_names_topics_by_id(
    api: GroupApiHarness, entries: Named, answered: Any
) -> None:
    who = await begin_transaction(api)
    assert codes_of(api, await txn_commit(api, who, entries, 6), by_id=True) == answered


async def test_a_transactional_commit_by_topic_id_becomes_visible_when_it_commits(api: GroupApiHarness) -> None:
    who = await begin_transaction(api)
    await txn_commit(api, who, [("orders", [1])], 6)
    assert (await api.call(x.EndTxnRequest(**who, committed=True), 5)).error_code == 0
    assert await fetched(api, None) == [("orders", [(1, 7, 0)])]


@behaviour("txn-offset.unknown-group-v6")
@pytest.mark.parametrize(("version", "code"), [(3, 22), (5, 22), (6, 69)])
async def test_since_v6_a_group_that_does_not_exist_has_its_own_code(
    api: GroupApiHarness, version: int, code: int
) -> None:
    who = await begin_transaction(api, "new")
    response = await txn_commit(api, who, [("orders", [0, 9])], version, "new", generation_id=3, member_id="m")
    assert codes_of(api, response, by_id=version >= 6) == [("orders", [(9, 3), (0, code)])]


async def test_a_transactional_commit_for_the_empty_group_id_is_refused(api: GroupApiHarness) -> None:
    who = await begin_transaction(api)
    response = await txn_commit(api, who, [("orders", [0, 9]), ("nope", [0])], group="")
    assert codes_of(api, response) == [("orders", [(9, 3), (0, 24)]), ("nope", [(0, 3)])]
