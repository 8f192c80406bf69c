"""For every API, requests of 100 kB that cost as much as possible: repeated names, large members, maximal arrays."""

import gzip
import zlib
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any

from regroup.protocol.codec.codec import encode
from regroup.protocol.message import Message
from regroup.protocol.messages import cluster as c
from regroup.protocol.messages import describe as d
from regroup.protocol.messages import group as g
from regroup.protocol.messages import offsets as o
from regroup.protocol.messages import records as r
from regroup.protocol.messages import topics as p
from regroup.protocol.messages import transactions as t
from regroup.protocol.record_batch import BatchRecord, write_batch
from tests.robustness.expensive_world import (
    DEEP,
    EMPTY_GROUPS,
    LARGE_GROUP,
    LARGE_MEMBER_GROUP,
    LEAVING_GROUP,
    MANY,
    OFFSETS_GROUP,
    SMALL_TOPICS,
    TRANSACTIONAL_ID,
    WIDE,
    Client,
    fetch_partition,
    join,
    join_request,
)

REQUEST_BYTES = 100_000
Make = Callable[[int], Message]


@dataclass(frozen=True)
class Expensive:
    """A request, and what is prepared for it."""

    name: str
    version: int
    request: Message | Callable[[Client], Awaitable[Message]]

    def __str__(self) -> str:
        return self.name

    async def prepare(self, client: Client) -> Message:
        return self.request if isinstance(self.request, Message) else await self.request(client)


def filled(make: Make, version: int) -> Message:
    """The request with so many entries that it has REQUEST_BYTES."""
    one, some = (len(encode(make(count), version)) for count in (1, 101))
    return make(max(1, (REQUEST_BYTES - one) * 100 // (some - one)))


def expensive_requests() -> Iterator[Expensive]:
    for name, version, request in [*_records(), *_topics(), *_groups(), *_transactions(), *_cluster()]:
        yield Expensive(
            name,
            version,
            request if isinstance(request, Message) or _is_coroutine(request) else filled(request, version),
        )


def _is_coroutine(request: Any) -> bool:
    return bool(request.__code__.co_flags & 0x80)


def _legacy(value: bytes, attributes: int = 0) -> bytes:
    body = bytes([1, attributes]) + bytes(8) + b"\xff" * 4 + len(value).to_bytes(4, "big") + value
    sized = zlib.crc32(body).to_bytes(4, "big") + body
    return bytes(8) + len(sized).to_bytes(4, "big") + sized


def _produce(topic: str, records: list[tuple[int, bytes]]) -> r.ProduceRequest:
    data = [r.PartitionProduceData(index=index, records=each) for index, each in records]
    return r.ProduceRequest(acks=1, timeout_ms=1000, topic_data=[r.TopicProduceData(name=topic, partition_data=data)])


def _records() -> Iterator[tuple[str, int, Any]]:
    batch = write_batch([BatchRecord()], base_timestamp_ms=5)
    large = _legacy(gzip.compress(_legacy(bytes(9_000_000))), 1)
    many = _legacy(gzip.compress(_legacy(b"") * 49_000), 1)
    yield "Produce, a batch in each partition", 9, lambda n: _produce(WIDE, [(i % MANY, batch) for i in range(n)])
    yield "Produce, one partition many times", 9, lambda n: _produce(SMALL_TOPICS[0], [(0, batch)] * n)
    yield "Produce, large gzipped sets", 2, _produce(SMALL_TOPICS[1], [(0, large)] * (REQUEST_BYTES // len(large)))
    yield (
        "Produce, gzipped sets of many messages",
        2,
        _produce(SMALL_TOPICS[2], [(0, many)] * (REQUEST_BYTES // len(many))),
    )
    yield "Produce, a gzipped set of nothing", 2, _produce(SMALL_TOPICS[3], [(0, _legacy(gzip.compress(b""), 1))])

    def fetch(topic: str, indexes: list[int], **fields: int) -> r.FetchRequest:
        wanted = [r.FetchTopic(topic=topic, partitions=[fetch_partition(index) for index in indexes])]
        return r.FetchRequest(max_wait_ms=0, min_bytes=0, topics=wanted, **fields)

    yield "Fetch, all partitions", 12, lambda n: fetch(WIDE, [i % MANY for i in range(n)])
    yield "Fetch, aborted transactions many times", 12, lambda n: fetch(DEEP, [2] * n, isolation_level=1)
    yield "Fetch, small batches many times", 12, lambda n: fetch(DEEP, [0] * n)

    def list_offsets(topic: str, indexes: list[int], timestamp: int) -> r.ListOffsetsRequest:
        wanted = [r.ListOffsetsPartition(partition_index=index, timestamp=timestamp) for index in indexes]
        return r.ListOffsetsRequest(replica_id=-1, topics=[r.ListOffsetsTopic(name=topic, partitions=wanted)])

    yield "ListOffsets, all partitions by time", 7, lambda n: list_offsets(WIDE, [i % MANY for i in range(n)], 6)
    yield "ListOffsets, many batches many times", 7, lambda n: list_offsets(DEEP, [0] * n, 2**41)
    yield "ListOffsets, many batches", 7, list_offsets(DEEP, [0, 1, 2], 2**39)
    yield "ListOffsets, the newest of many batches", 7, list_offsets(DEEP, [0, 1, 2], -3)
    yield "ListOffsets, many records many times", 7, lambda n: list_offsets(DEEP, [1] * n, 2**39)

    def epochs(n: int) -> r.OffsetForLeaderEpochRequest:
        wanted = [r.OffsetForLeaderPartition(partition=i % MANY, leader_epoch=0) for i in range(n)]
        return r.OffsetForLeaderEpochRequest(topics=[r.OffsetForLeaderTopic(topic=WIDE, partitions=wanted)])

    yield "OffsetForLeaderEpoch, all partitions", 4, epochs

    def delete_records(n: int) -> p.DeleteRecordsRequest:
        wanted = [p.DeleteRecordsPartition(partition_index=i % MANY, offset=-1) for i in range(n)]
        return p.DeleteRecordsRequest(topics=[p.DeleteRecordsTopic(name=WIDE, partitions=wanted)], timeout_ms=1000)

    yield "DeleteRecords, all partitions", 2, delete_records


def _topics() -> Iterator[tuple[str, int, Any]]:
    def metadata(names: list[str]) -> c.MetadataRequest:
        return c.MetadataRequest(topics=[c.MetadataRequestTopic(name=name) for name in names])

    yield "Metadata, unknown topics", 8, lambda n: metadata([f"{i:x}" for i in range(n)])
    yield "Metadata, unknown topics once more", 8, lambda n: metadata([f"{i:x}." for i in range(min(n, 9_999))])
    yield "Metadata, the wide topic many times", 8, lambda n: metadata([WIDE] * n)
    yield "Metadata, all topics", 12, c.MetadataRequest(topics=None)
    yield "Metadata, long names", 12, lambda n: metadata(["x" * 32_000 + str(i) for i in range(n)])

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
    names = [f"c{i}" for i in range(MANY)]
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
    topic, broker = 2, 4
    for what, kind, resource_names in (
        ("one topic many times", topic, [WIDE]),
        ("many topics", topic, SMALL_TOPICS),
        ("the broker many times", broker, ["0"]),
    ):
        yield (
            f"DescribeConfigs, {what}",
            4,
            lambda n, kind=kind, names=resource_names: p.DescribeConfigsRequest(
                resources=[
                    p.DescribeConfigsResource(resource_type=kind, resource_name=name)
                    for name in islice(cycle(names), n)
                ],
                include_synonyms=True,
            ),
        )
    yield (
        "DescribeConfigs, many keys",
        4,
        lambda n: p.DescribeConfigsRequest(
            resources=[p.DescribeConfigsResource(resource_type=topic, resource_name=WIDE, configuration_keys=["?"] * n)]
        ),
    )

    def alter(names: list[str], key: str, value: str) -> p.AlterConfigsRequest:
        entries = [p.AlterConfigsEntry(name=key, value=value)]
        resources = [p.AlterConfigsResource(resource_type=topic, resource_name=name, configs=entries) for name in names]
        return p.AlterConfigsRequest(resources=resources)

    yield "AlterConfigs, many topics", 2, lambda n: alter(list(islice(cycle(SMALL_TOPICS), n)), "segment.ms", "7")
    yield "AlterConfigs, one topic many times", 2, lambda n: alter([WIDE] * n, "segment.ms", "7")
    yield "AlterConfigs, unknown settings", 2, lambda n: alter([*SMALL_TOPICS[:n]], "segment.msx", "7")

    def incremental(name: str, entries: list[tuple[str, int, str]]) -> p.IncrementalAlterConfigsRequest:
        configs = [
            p.IncrementalAlterConfigsEntry(name=key, config_operation=operation, value=value)
            for key, operation, value in entries
        ]
        resource = p.IncrementalAlterConfigsResource(resource_type=topic, resource_name=name, configs=configs)
        return p.IncrementalAlterConfigsRequest(resources=[resource])

    listed = ",".join(f"{i:x}" for i in range(6_000))
    yield (
        "IncrementalAlterConfigs, long lists",
        1,
        incremental(WIDE, [("cleanup.policy", 2, listed), ("leader.replication.throttled.replicas", 2, listed)]),
    )
    yield (
        "IncrementalAlterConfigs, one list many times",
        1,
        lambda n: incremental(WIDE, [("cleanup.policy", 2, "compact,delete")] * n),
    )
    yield (
        "IncrementalAlterConfigs, long unknown names",
        1,
        incremental(WIDE, [("x" * 32_000 + str(i), 0, "") for i in range(3)]),
    )
    yield "DeleteTopics, many", 5, lambda n: p.DeleteTopicsRequest(topic_names=names[:n], timeout_ms=1000)
    yield "DeleteTopics, one many times", 5, lambda n: p.DeleteTopicsRequest(topic_names=["c1"] * n, timeout_ms=1000)


def _groups() -> Iterator[tuple[str, int, Any]]:
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

    async def rejoin(client: Client) -> Message:
        member_id = await join(client, "rejoin")
        protocols = [g.JoinGroupRequestProtocol(name=f"{i:x}", metadata=b"") for i in range(19_900)]
        request = join_request("rejoin", member_id=member_id)
        return g.JoinGroupRequest(
            **{name: getattr(request, name) for name in request.__struct_fields__} | {"protocols": protocols}
        )

    yield "JoinGroup, many protocols", 3, rejoin

    async def rejoin_large(client: Client) -> Message:
        return join_request("large-metadata", bytes(REQUEST_BYTES), await join(client, "large-metadata"))

    yield "JoinGroup, large metadata", 3, rejoin_large

    async def sync(client: Client) -> Message:
        joined = await client.call(join_request("sync"), 3)
        return g.SyncGroupRequest(
            group_id="sync",
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[g.SyncGroupRequestAssignment(member_id=f"{i:x}", assignment=b"") for i in range(19_900)],
        )

    yield "SyncGroup, many assignments", 2, sync

    async def leave(client: Client) -> Message:
        members = client.cluster.coordinator_of(LEAVING_GROUP).group(LEAVING_GROUP).members
        return g.LeaveGroupRequest(
            group_id=LEAVING_GROUP, members=[g.MemberIdentity(member_id=each) for each in [*members]]
        )

    yield "LeaveGroup, all members", 3, leave
    yield (
        "LeaveGroup, unknown members",
        5,
        g.LeaveGroupRequest(
            group_id=LARGE_GROUP, members=[g.MemberIdentity(member_id=f"{i:x}") for i in range(19_900)]
        ),
    )
    yield "Heartbeat, long names", 3, g.HeartbeatRequest(group_id="g" * 32_000, generation_id=1, member_id="m" * 32_000)
    yield (
        "DescribeGroups, one large member many times",
        4,
        lambda n: d.DescribeGroupsRequest(groups=[LARGE_MEMBER_GROUP] * n),
    )
    yield "DescribeGroups, a large group many times", 4, lambda n: d.DescribeGroupsRequest(groups=[LARGE_GROUP] * n)
    yield "DescribeGroups, a large group some times", 4, d.DescribeGroupsRequest(groups=[LARGE_GROUP] * 300)
    yield "DescribeGroups, many groups", 4, lambda n: d.DescribeGroupsRequest(groups=[f"{i:x}" for i in range(n)])
    yield "DescribeGroups, the empty name", 5, lambda n: d.DescribeGroupsRequest(groups=[""] * n)
    yield "ListGroups, with many filters", 4, lambda n: d.ListGroupsRequest(states_filter=["Empty"] * n)
    yield "ListGroups", 4, d.ListGroupsRequest()
    yield (
        "DeleteGroups, many",
        2,
        lambda n: d.DeleteGroupsRequest(groups_names=[*EMPTY_GROUPS, *(f"{i:x}" for i in range(n))][:n]),
    )


def _transactions() -> Iterator[tuple[str, int, Any]]:
    def producer(client: Client) -> dict[str, Any]:
        transaction = client.cluster.state.image.transactions[TRANSACTIONAL_ID]
        return {"producer_id": transaction.producer_id, "producer_epoch": transaction.epoch}

    async def add(client: Client) -> Message:
        named = {f"v3_and_below_{name}": value for name, value in producer(client).items()}
        topics = [t.AddPartitionsToTxnTopic(name=WIDE, partitions=[i % MANY for i in range(19_900)])]
        return t.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=TRANSACTIONAL_ID, v3_and_below_topics=topics, **named
        )

    async def verify(client: Client) -> Message:
        topics = [t.AddPartitionsToTxnTopic(name=WIDE, partitions=[MANY - 1] * 19_900)]
        transaction = t.AddPartitionsToTxnTransaction(
            transactional_id=TRANSACTIONAL_ID, verify_only=True, topics=topics, **producer(client)
        )
        return t.AddPartitionsToTxnRequest(transactions=[transaction])

    async def commit(client: Client) -> Message:
        wanted = [t.TxnOffsetCommitRequestPartition(partition_index=i % MANY, committed_offset=7) for i in range(5_500)]
        topics = [t.TxnOffsetCommitRequestTopic(name=WIDE, partitions=wanted)]
        return t.TxnOffsetCommitRequest(
            transactional_id=TRANSACTIONAL_ID, group_id=OFFSETS_GROUP, topics=topics, **producer(client)
        )

    async def end(client: Client) -> Message:
        return t.EndTxnRequest(transactional_id=TRANSACTIONAL_ID, committed=True, **producer(client))

    yield "AddPartitionsToTxn, all partitions many times", 3, add
    yield "AddPartitionsToTxn, one partition verified many times", 4, verify
    yield (
        "AddOffsetsToTxn",
        3,
        t.AddOffsetsToTxnRequest(
            transactional_id=TRANSACTIONAL_ID, producer_id=1, producer_epoch=0, group_id="g" * 32_000
        ),
    )
    yield "TxnOffsetCommit, many partitions", 2, commit
    yield "EndTxn, of many partitions", 3, end
    yield (
        "DescribeTransactions, a large one many times",
        0,
        t.DescribeTransactionsRequest(transactional_ids=[TRANSACTIONAL_ID] * 19_900),
    )
    yield (
        "DescribeTransactions, unknown ones",
        0,
        t.DescribeTransactionsRequest(transactional_ids=[f"{i:x}" for i in range(19_900)]),
    )
    yield (
        "ListTransactions, with many filters",
        2,
        lambda n: t.ListTransactionsRequest(
            state_filters=["Ongoing", *(f"{i:x}" for i in range(n))],
            producer_id_filters=[*range(n)],
            transactional_id_pattern="(((a|x){0,20}){0,10})",
        ),
    )
    yield (
        "InitProducerId, a long id",
        4,
        t.InitProducerIdRequest(transactional_id="x" * 32_000, transaction_timeout_ms=1000),
    )


def _cluster() -> Iterator[tuple[str, int, Any]]:
    yield (
        "FindCoordinator, many keys",
        4,
        lambda n: c.FindCoordinatorRequest(key_type=0, coordinator_keys=[f"{i:x}" for i in range(n)]),
    )
    yield (
        "FindCoordinator, long keys",
        4,
        c.FindCoordinatorRequest(key_type=0, coordinator_keys=["k" * 32_000 + str(i) for i in range(3)]),
    )
    yield (
        "ApiVersions, long names",
        3,
        c.ApiVersionsRequest(client_software_name="a" * 32_000 + "-", client_software_version="1"),
    )
    yield "DescribeCluster", 1, c.DescribeClusterRequest()
