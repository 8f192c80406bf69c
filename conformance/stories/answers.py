"""Stories about responses as a whole: the order of their entries, entries that a request names twice, unknown names."""

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from regroup.conformance.harness.broker_under_test import ABSENT_TOPIC, BAR_TOPIC, FOO_0, FOO_1, FOO_TOPIC
from regroup.conformance.harness.cases import case
from regroup.conformance.harness.expect import expect, expect_equal, expect_true
from regroup.conformance.harness.offsets import (
    TransactionalProducer,
    admin_commit,
    expect_committed,
    longest_metadata,
)
from regroup.conformance.harness.story import StoryContext
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.fields import NO_UUID
from regroup.protocol.java_order import in_hash_map_order, java_partition_hash, java_string_hash
from regroup.protocol.messages.cluster import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from regroup.protocol.messages.describe import DescribeGroupsRequest, DescribeGroupsResponse
from regroup.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from regroup.protocol.messages.topics import DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResponse
from regroup.protocol.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

FOUND_BY_PROBES = "Not in the catalogue; found by probes with requests that no client library sends."
ABSENT_PARTITION = 99
UNKNOWN_ID = b"\x07" * 16
GROUP_RESOURCE = 32
"""Kafka's number of the resource type of groups."""

MIXED = [(FOO_TOPIC, [0]), (ABSENT_TOPIC, [0]), (BAR_TOPIC, [ABSENT_PARTITION, 1]), (FOO_TOPIC, [1])]
ANSWERED = [
    (ABSENT_TOPIC, [(0, E.UNKNOWN_TOPIC_OR_PARTITION)]),
    (BAR_TOPIC, [(ABSENT_PARTITION, E.UNKNOWN_TOPIC_OR_PARTITION), (1, E.NONE)]),
    (FOO_TOPIC, [(0, E.NONE), (1, E.NONE)]),
]
"""The entries of the response to a request that names a topic twice.

Partitions that do not exist come first, with one entry for each topic.
"""


def codes_of(topics: Iterable[Any], *, by_id: bool = False) -> list[tuple[Any, list[tuple[int, int]]]]:
    """The topics of a response, by name or by id, each with its partitions and their error codes."""
    return [
        (
            topic.topic_id if by_id else topic.name,
            [(each.partition_index, each.error_code) for each in topic.partitions],
        )
        for topic in topics
    ]


async def topic_id_of(story: StoryContext, name: str) -> bytes:
    wanted = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
    return (await story.send(wanted, MetadataResponse, version=12)).topics[0].topic_id


@case("offset-commit.refused-partitions-first", 3, correction=FOUND_BY_PROBES)
async def commit_to_partitions_that_do_not_exist(story: StoryContext) -> None:
    """OffsetCommit answers partitions that do not exist first, and has one entry for each topic then."""
    topics = [
        OffsetCommitRequestTopic(
            name=name,
            partitions=[OffsetCommitRequestPartition(partition_index=each, committed_offset=1) for each in indexes],
        )
        for name, indexes in MIXED
    ]
    request = OffsetCommitRequest(group_id=story.group_id, topics=topics)
    response = await story.send(request, OffsetCommitResponse, version=9)
    expect_equal("answer", ANSWERED, codes_of(response.topics))


@case("offset-commit.partition-twice", 3, correction=FOUND_BY_PROBES)
async def commit_to_one_partition_twice(story: StoryContext) -> None:
    """Of several offsets for one partition in a request the last one is stored whose metadata is accepted."""
    too_long = "x" * (longest_metadata(story) + 1)
    partitions = [
        OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata=metadata)
        for offset, metadata in ((1, ""), (2, ""), (3, too_long))
    ]
    topics = [OffsetCommitRequestTopic(name=FOO_TOPIC, partitions=partitions)]
    request = OffsetCommitRequest(group_id=story.group_id, topics=topics)
    response = await story.send(request, OffsetCommitResponse, version=9)
    codes = [(0, E.NONE), (0, E.NONE), (0, E.OFFSET_METADATA_TOO_LARGE)]
    expect_equal("answer", [(FOO_TOPIC, codes)], codes_of(response.topics))
    await expect_committed(story, FOO_0, 2)


@case("offset-delete.refused-partitions-first", 3, correction=FOUND_BY_PROBES)
async def delete_offsets_of_partitions_that_do_not_exist(story: StoryContext) -> None:
    """OffsetDelete answers partitions that do not exist first, and has one entry for each topic then."""
    await admin_commit(story, {FOO_0: 1})
    topics = [
        OffsetDeleteRequestTopic(
            name=name, partitions=[OffsetDeleteRequestPartition(partition_index=each) for each in indexes]
        )
        for name, indexes in MIXED
    ]
    request = OffsetDeleteRequest(group_id=story.group_id, topics=topics)
    response = await story.send(request, OffsetDeleteResponse)
    expect_equal("answer", ANSWERED, codes_of(response.topics))


async def fetch(story: StoryContext, topics: Sequence[OffsetFetchRequestTopics], version: int) -> list[Any]:
    """Send OffsetFetch for the story's group, and return the topics of the response."""
    group = OffsetFetchRequestGroup(group_id=story.group_id, topics=list(topics))
    response = await story.send(OffsetFetchRequest(groups=[group]), OffsetFetchResponse, version=version)
    return list(response.groups[0].topics)


@case("offset-fetch.topic-twice", 3, correction=FOUND_BY_PROBES)
async def fetch_offsets_of_topic_named_twice(story: StoryContext) -> None:
    """OffsetFetch has an entry for each of the request, also if a topic is named twice."""
    await admin_commit(story, {FOO_0: 1, FOO_1: 2})
    asked = [OffsetFetchRequestTopics(name=name, partition_indexes=[index]) for name, index in (FOO_0, FOO_1)]
    found = [
        (topic.name, [each.committed_offset for each in topic.partitions]) for topic in await fetch(story, asked, 9)
    ]
    expect_equal("offsets", [(FOO_TOPIC, [1]), (FOO_TOPIC, [2])], found)


@case("offset-fetch.unknown-ids-last", 3, correction=FOUND_BY_PROBES)
async def fetch_offsets_of_unknown_topic_ids(story: StoryContext) -> None:
    """OffsetFetch by topic id answers unknown ids last."""
    await admin_commit(story, {FOO_0: 1})
    topic_id = await topic_id_of(story, FOO_TOPIC)
    asked = [OffsetFetchRequestTopics(topic_id=each, partition_indexes=[0]) for each in (UNKNOWN_ID, topic_id, NO_UUID)]
    answered = [(topic_id, E.NONE), (UNKNOWN_ID, E.UNKNOWN_TOPIC_ID), (NO_UUID, E.UNKNOWN_TOPIC_ID)]
    expected = [(each, [(0, code)]) for each, code in answered]
    expect_equal("answer", expected, codes_of(await fetch(story, asked, 10), by_id=True))


async def txn_commit(
    story: StoryContext,
    producer: TransactionalProducer,
    topics: Sequence[TxnOffsetCommitRequestTopic],
    version: int,
    *,
    transactional_id: str | None = None,
    generation_id: int = -1,
) -> list[Any]:
    """Send TxnOffsetCommit as this producer, and return the topics of the response."""
    request = TxnOffsetCommitRequest(
        transactional_id=producer.transactional_id if transactional_id is None else transactional_id,
        group_id=story.group_id,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        generation_id=generation_id,
        member_id="m" if generation_id >= 0 else "",
        topics=list(topics),
    )
    response = await story.send(request, TxnOffsetCommitResponse, version=version, sender=producer.name)
    return list(response.topics)


def txn_partitions(*indexes: int) -> list[TxnOffsetCommitRequestPartition]:
    return [TxnOffsetCommitRequestPartition(partition_index=each, committed_offset=7) for each in indexes]


@case("txn-offset.refused-partitions-first", 3, correction=FOUND_BY_PROBES)
async def transactional_commit_to_partitions_that_do_not_exist(story: StoryContext) -> None:
    """TxnOffsetCommit answers partitions that do not exist first, and has one entry for each topic then."""
    producer = await TransactionalProducer.begin(story)
    topics = [TxnOffsetCommitRequestTopic(name=name, partitions=txn_partitions(*indexes)) for name, indexes in MIXED]
    expect_equal("answer", ANSWERED, codes_of(await txn_commit(story, producer, topics, 3)))


@case("txn-offset.by-topic-id", 2, correction=FOUND_BY_PROBES)
async def transactional_commit_by_topic_id(story: StoryContext) -> None:
    """Since v6 TxnOffsetCommit names topics by id, and unknown ids have an error of their own (KIP-1319)."""
    producer = await TransactionalProducer.begin(story)
    topic_id = await topic_id_of(story, FOO_TOPIC)
    topics = [
        TxnOffsetCommitRequestTopic(topic_id=each, partitions=txn_partitions(*indexes))
        for each, indexes in ((topic_id, [0, ABSENT_PARTITION]), (UNKNOWN_ID, [0]))
    ]
    expected = [
        (topic_id, [(ABSENT_PARTITION, E.UNKNOWN_TOPIC_OR_PARTITION), (0, E.NONE)]),
        (UNKNOWN_ID, [(0, E.UNKNOWN_TOPIC_ID)]),
    ]
    expect_equal("answer", expected, codes_of(await txn_commit(story, producer, topics, 6), by_id=True))
    await producer.end_transaction(committed=True)
    await story.wait_until(lambda: expect_committed(story, FOO_0, 7))


@case("txn-offset.unknown-group-v6", 3, correction=FOUND_BY_PROBES)
async def transactional_commit_to_unknown_group_v6(story: StoryContext) -> None:
    """A transactional commit of a generation of a group that does not exist has its own error since v6 (KIP-1319)."""
    producer = await TransactionalProducer.begin(story)
    named = {5: {"name": FOO_TOPIC}, 6: {"topic_id": await topic_id_of(story, FOO_TOPIC)}}
    for version, error in ((5, E.ILLEGAL_GENERATION), (6, E.GROUP_ID_NOT_FOUND)):
        topics = [TxnOffsetCommitRequestTopic(**named[version], partitions=txn_partitions(0))]  # type: ignore[arg-type]
        answered = await txn_commit(story, producer, topics, version, generation_id=5)
        expect_equal(f"error codes in v{version}", [(0, error)], codes_of(answered)[0][1])


@case("txn-offset.foreign-transactional-id", 3, correction=FOUND_BY_PROBES)
async def transactional_commit_with_foreign_transactional_id(story: StoryContext) -> None:
    """Only the first commit of a transaction is verified with its transactional id; later ones take any."""
    producer = await TransactionalProducer.begin(story, "own")
    topics = [TxnOffsetCommitRequestTopic(name=FOO_TOPIC, partitions=txn_partitions(0))]
    for transactional_id, error in (("foreign", E.INVALID_PRODUCER_ID_MAPPING), (None, E.NONE), ("foreign", E.NONE)):
        answered = await txn_commit(story, producer, topics, 3, transactional_id=transactional_id)
        expect_equal("answer", [(FOO_TOPIC, [(0, error)])], codes_of(answered))


@case("describe.order-of-partitions", 3, correction=FOUND_BY_PROBES)
async def describe_several_groups(story: StoryContext) -> None:
    """DescribeGroups answers the groups of one partition of `__consumer_offsets` together."""
    names = [f"{story.group_id}-{number}" for number in range(8)]
    partitions = story.setting("offsets.topic.num.partitions")
    by_partition: dict[tuple[str, int], list[str]] = {}
    for name in names:
        code = java_string_hash(name)
        number = (code if code < 2**31 else 2**32 - code) % 2**31 % partitions
        by_partition.setdefault(("__consumer_offsets", number), []).append(name)
    ordered = [each for key in in_hash_map_order(by_partition, java_partition_hash) for each in by_partition[key]]
    response = await story.send(DescribeGroupsRequest(groups=names), DescribeGroupsResponse)
    expect_equal("groups", ordered, [each.group_id for each in response.groups])


@case("describe.group-configs", 3, correction=FOUND_BY_PROBES)
async def describe_settings_of_group(story: StoryContext) -> None:
    """A group that does not exist has settings too, as DescribeConfigs returns them; only a name is needed."""
    asked = [DescribeConfigsResource(resource_type=GROUP_RESOURCE, resource_name=name) for name in (story.group_id, "")]
    response = await story.send(DescribeConfigsRequest(resources=asked), DescribeConfigsResponse)
    named, nameless = response.results
    expect(named, error=E.NONE)
    expect_true("consumer.session.timeout.ms" in [row.name for row in named.configs], "a group has a session timeout")
    expect(nameless, error=E.INVALID_REQUEST, configs=[])


@case("validation.find-coordinator.error-message", 3, correction=FOUND_BY_PROBES)
async def error_message_of_find_coordinator(story: StoryContext) -> None:
    """Without an error FindCoordinator has the text NONE up to v3, and an empty text since v4."""
    await story.describe()
    older = FindCoordinatorRequest(key=story.group_id)
    expect(await story.send(older, FindCoordinatorResponse, version=3), error=E.NONE, error_message="NONE")
    newer = FindCoordinatorRequest(coordinator_keys=[story.group_id])
    response = await story.send(newer, FindCoordinatorResponse, version=4)
    expect(response.coordinators[0], error=E.NONE, error_message="")


@case("validation.api-versions.other-broker", 3, correction=FOUND_BY_PROBES)
async def api_versions_for_another_broker(story: StoryContext) -> None:
    """A client that means another broker gets REBOOTSTRAP_REQUIRED, since ApiVersions v5 (KIP-1242)."""
    own = ApiVersionsRequest(client_software_name="regroup", client_software_version="1")
    for cluster_id, node_id, error in (
        ("another cluster", 1, E.REBOOTSTRAP_REQUIRED),
        ("another cluster", -1, E.INVALID_REQUEST),
        (None, 1, E.INVALID_REQUEST),
    ):
        request = replace(own, cluster_id=cluster_id, node_id=node_id)
        expect(await story.send(request, ApiVersionsResponse, version=5), error=error, api_keys=[])
    expect(await story.send(own, ApiVersionsResponse, version=5), error=E.NONE)
