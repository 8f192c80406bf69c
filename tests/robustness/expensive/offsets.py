"""Requests that commit, fetch and delete the offsets of groups."""

from collections.abc import Iterator
from itertools import cycle, islice

from regroup.protocol.messages import offsets as o
from tests.robustness.expensive.requests import Row
from tests.robustness.expensive.world import EMPTY_GROUPS, MANY, OFFSETS_GROUP, WIDE


def commits() -> Iterator[Row]:
    def commit(n: int) -> o.OffsetCommitRequest:
        wanted = [o.OffsetCommitRequestPartition(partition_index=i % MANY, committed_offset=7) for i in range(n)]
        return o.OffsetCommitRequest(
            group_id=OFFSETS_GROUP, topics=[o.OffsetCommitRequestTopic(name=WIDE, partitions=wanted)]
        )

    yield "OffsetCommit, many partitions", 8, commit
    yield "OffsetCommit, the most partitions", 8, commit(MANY)
    yield "OffsetCommit, too many partitions", 8, commit(95_000)
    metadata = [
        o.OffsetCommitRequestPartition(partition_index=i, committed_offset=7, committed_metadata="x" * 30_000)
        for i in range(3)
    ]
    yield (
        "OffsetCommit, long metadata",
        8,
        o.OffsetCommitRequest(
            group_id=OFFSETS_GROUP, topics=[o.OffsetCommitRequestTopic(name=WIDE, partitions=metadata)]
        ),
    )


def fetches() -> Iterator[Row]:
    whole = o.OffsetFetchRequestGroup(group_id=OFFSETS_GROUP, topics=None)
    yield "OffsetFetch, one group many times", 8, lambda n: o.OffsetFetchRequest(groups=[whole] * min(n, 19_900))
    yield (
        "OffsetFetch, many groups",
        8,
        lambda n: o.OffsetFetchRequest(
            groups=[o.OffsetFetchRequestGroup(group_id=name, topics=None) for name in islice(cycle(EMPTY_GROUPS), n)]
        ),
    )
    yield (
        "OffsetFetch, many partitions",
        7,
        lambda n: o.OffsetFetchRequest(
            group_id=OFFSETS_GROUP,
            topics=[o.OffsetFetchRequestTopic(name=WIDE, partition_indexes=[i % MANY for i in range(n)])],
        ),
    )
    yield (
        "OffsetFetch, the most partitions",
        7,
        o.OffsetFetchRequest(
            group_id=OFFSETS_GROUP,
            topics=[o.OffsetFetchRequestTopic(name=WIDE, partition_indexes=[i % MANY for i in range(19_900)])],
        ),
    )
    yield (
        "OffsetFetch, one topic many times",
        8,
        lambda n: o.OffsetFetchRequest(
            groups=[
                o.OffsetFetchRequestGroup(
                    group_id=OFFSETS_GROUP, topics=[o.OffsetFetchRequestTopics(name=WIDE, partition_indexes=[1])] * n
                )
            ]
        ),
    )


def deletions() -> Iterator[Row]:
    yield (
        "OffsetDelete, many partitions",
        0,
        o.OffsetDeleteRequest(
            group_id=OFFSETS_GROUP,
            topics=[
                o.OffsetDeleteRequestTopic(
                    name=WIDE,
                    partitions=[o.OffsetDeleteRequestPartition(partition_index=i % MANY) for i in range(19_900)],
                )
            ],
        ),
    )
    yield (
        "OffsetDelete, too many partitions",
        0,
        lambda n: o.OffsetDeleteRequest(
            group_id=OFFSETS_GROUP,
            topics=[
                o.OffsetDeleteRequestTopic(
                    name=WIDE, partitions=[o.OffsetDeleteRequestPartition(partition_index=i % MANY) for i in range(n)]
                )
            ],
        ),
    )


def offset_requests() -> Iterator[Row]:
    """Every request about the offsets of groups."""
    yield from commits()
    yield from fetches()
    yield from deletions()
