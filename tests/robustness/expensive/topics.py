"""Metadata, and requests that create, enlarge and delete topics."""

from collections.abc import Iterator
from typing import Any

from regroup.protocol.messages import cluster as c
from regroup.protocol.messages import topics as p
from tests.robustness.expensive.requests import Row
from tests.robustness.expensive.world import MANY, SMALL_TOPICS, WIDE

CREATED = [f"c{i}" for i in range(MANY)]
"""Names of topics that are created by one request and deleted by a later one."""


def metadata_of_topics() -> Iterator[Row]:
    def metadata(names: list[str]) -> c.MetadataRequest:
        return c.MetadataRequest(topics=[c.MetadataRequestTopic(name=name) for name in names])

    yield "Metadata, unknown topics", 8, lambda n: metadata([f"{i:x}" for i in range(n)])
    yield "Metadata, unknown topics once more", 8, lambda n: metadata([f"{i:x}." for i in range(min(n, 9_999))])
    yield "Metadata, the wide topic many times", 8, lambda n: metadata([WIDE] * n)
    yield "Metadata, all topics", 12, c.MetadataRequest(topics=None)
    yield "Metadata, long names", 12, lambda n: metadata(["x" * 32_000 + str(i) for i in range(n)])


def creations() -> Iterator[Row]:
    def create(n: int, **fields: Any) -> p.CreateTopicsRequest:
        made = [p.CreatableTopic(name=f"c{i}", num_partitions=1, replication_factor=1) for i in range(min(n, MANY))]
        return p.CreateTopicsRequest(topics=made, **fields)

    replicas = [p.CreatableReplicaAssignment(partition_index=0, broker_ids=[0] * 24_000)]
    yield "CreateTopics, many", 7, create
    yield "CreateTopics, to be checked only", 7, lambda n: create(n, validate_only=True)
    yield (
        "CreateTopics, many replicas",
        7,
        p.CreateTopicsRequest(
            topics=[p.CreatableTopic(name="r", num_partitions=-1, replication_factor=-1, assignments=replicas)]
        ),
    )
    yield (
        "CreateTopics, too many partitions",
        7,
        p.CreateTopicsRequest(
            topics=[p.CreatableTopic(name=f"d{i}", num_partitions=2**31 - 1, replication_factor=1) for i in range(MANY)]
        ),
    )


def enlargements() -> Iterator[Row]:
    yield (
        "CreatePartitions, many",
        3,
        lambda n: p.CreatePartitionsRequest(
            topics=[p.CreatePartitionsTopic(name=SMALL_TOPICS[i % len(SMALL_TOPICS)], count=2) for i in range(n)],
            timeout_ms=1000,
        ),
    )
    yield (
        "CreatePartitions, too many",
        3,
        p.CreatePartitionsRequest(
            topics=[p.CreatePartitionsTopic(name=name, count=MANY) for name in SMALL_TOPICS], timeout_ms=1000
        ),
    )


def deletions() -> Iterator[Row]:
    yield "DeleteTopics, many", 5, lambda n: p.DeleteTopicsRequest(topic_names=CREATED[:n], timeout_ms=1000)
    yield "DeleteTopics, one many times", 5, lambda n: p.DeleteTopicsRequest(topic_names=["c1"] * n, timeout_ms=1000)
