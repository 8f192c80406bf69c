"""A cluster in memory whose topics, groups and records make requests expensive, and a client without a network."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from regroup.coordinator.settings import CoordinatorSettings
from regroup.protocol.frames import decode_response, encode_request
from regroup.protocol.header import RequestHeader
from regroup.protocol.message import Message
from regroup.protocol.messages import consumer_group as cg
from regroup.protocol.messages import group as g
from regroup.protocol.messages import offsets as o
from regroup.protocol.messages import records as r
from regroup.protocol.messages import transactions as t
from regroup.protocol.record_batch import TRANSACTIONAL, BatchRecord, write_batch
from regroup.server.broker_cluster import BrokerCluster, ClusterOptions
from regroup.server.cluster.events import BROKER_START
from regroup.server.log.record_validation import ValidatedBatch
from regroup.server.net.connection import Connection
from regroup.storage.memory import MemoryStore
from regroup.storage.records import NewRecord

WIDE = "wide"
"""A topic with MANY partitions."""
DEEP = "deep"
"""A topic with MANY small batches, a batch of MANY records, and MANY aborted transactions, in a partition each."""
MANY = 10_000
SMALL_TOPICS = [f"t{number}" for number in range(3_000)]
LARGE_MEMBER_GROUP, LARGE_GROUP, OFFSETS_GROUP, LEAVING_GROUP = "m", "l", "o", "leaving"
CONSUMER_GROUP = "z"
"""A group of the consumer protocol with MEMBERS members, which have all partitions of CONSUMED_TOPICS."""
EMPTY_GROUPS = [f"e{number}" for number in range(3_000)]
CONSUMED_TOPICS = [WIDE, *SMALL_TOPICS[:1_000]]
MEMBERS = 1_000
SETTINGS = CoordinatorSettings(
    group_initial_rebalance_delay_ms=0,
    group_consumer_session_timeout_ms=1_800_000,
    group_consumer_max_session_timeout_ms=1_800_000,
)
TIMEOUT_S = 300.0
TRANSACTIONAL_ID = "x"


class DiscardingStore(MemoryStore):
    """Counts records and keeps none, so that only the server itself takes memory."""

    count = 0

    async def append(self, records: Sequence[NewRecord]) -> int:
        self.count += len(records)
        return self.count

    @property
    def last_position(self) -> int:
        return self.count


class DiscardingTransport(asyncio.Transport):
    """Counts what is written, and keeps the first frame of `keep_bytes` at most; the reader is always quick."""

    def __init__(self, keep_bytes: int = 0) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.written_bytes = 0
        self.kept = bytearray()
        self.closed = asyncio.Event()
        self.protocol: asyncio.Protocol | None = None
        self._keep_bytes = keep_bytes

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written_bytes += len(data)
        if len(self.kept) < self._keep_bytes:
            self.kept += data

    def is_closing(self) -> bool:
        return self.closed.is_set()

    def close(self) -> None:
        if not self.closed.is_set() and self.protocol is not None:
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)
        self.closed.set()

    def abort(self) -> None:
        self.close()

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class Client:
    """A client of the cluster's broker, without a network between them."""

    def __init__(self, cluster: BrokerCluster) -> None:
        self.cluster = cluster
        self.transport = DiscardingTransport()
        self.connection = Connection(cluster.broker, "client")
        self.transport.protocol = self.connection
        self.connection.connection_made(self.transport)

    async def close(self) -> None:
        self.transport.close()
        await asyncio.sleep(0)

    @staticmethod
    def encode(request: Message, version: int) -> bytes:
        return encode_request(RequestHeader(request.api_key, version, 1, "client"), request)

    async def send(self, data: bytes) -> int:
        """Send an encoded request, and wait until it is answered, or its connection is closed; the bytes written."""
        before = self.transport.written_bytes
        self.connection.data_received(data)
        async with asyncio.timeout(TIMEOUT_S):
            while not self._is_answered(before):  # noqa: ASYNC110  # nothing signals it
                await asyncio.sleep(0)
        return self.transport.written_bytes - before

    def _is_answered(self, before: int) -> bool:
        """Everything is written, and no work is left over."""
        is_busy = self.connection._current or self.connection._responses or self.cluster.turns._waiting
        return not is_busy and (self.transport.written_bytes > before or self.transport.closed.is_set())

    async def call(self, request: Message, version: int) -> Any:
        """The response to a request that prepares something."""
        self.transport._keep_bytes, self.transport.kept = 2**30, bytearray()
        await self.send(self.encode(request, version))
        self.transport._keep_bytes = 0
        return decode_response(request.api_key, version, bytes(self.transport.kept[4:]))[1]


@asynccontextmanager
async def expensive_world() -> AsyncIterator[BrokerCluster]:
    """A running cluster with all that."""
    async with await BrokerCluster.start(
        DiscardingStore().open, ClusterOptions(settings=SETTINGS, release=None)
    ) as cluster:
        state = cluster.state
        names = [(WIDE, MANY), (DEEP, 3), ("__consumer_offsets", 50), *((name, 1) for name in SMALL_TOPICS)]
        state.record_events([state.topic_to_create(name, partitions) for name, partitions in names], BROKER_START)
        _fill_logs(cluster)
        client = Client(cluster)
        await _fill_groups(client)
        await _fill_consumer_group(client)
        await client.call(_offsets_commit(OFFSETS_GROUP, range(MANY)), 8)
        for name in EMPTY_GROUPS:
            await client.call(_offsets_commit(name, [0]), 8)
        await begin_transaction(client)
        await client.close()
        yield cluster


def _fill_logs(cluster: BrokerCluster) -> None:
    topic = cluster.state.topics[DEEP]
    small = write_batch([BatchRecord(value=b"")], base_timestamp_ms=5)
    cluster.state.append_batches(topic, 0, [ValidatedBatch(small, 1, 5)] * (10 * MANY))
    large = write_batch([BatchRecord()] * (10 * MANY), base_timestamp_ms=5)
    cluster.state.append_batches(topic, 1, [ValidatedBatch(large, 10 * MANY, 2**40)])
    log = cluster.state.partition_log(topic, 2)
    transactional = write_batch(
        [BatchRecord()], base_timestamp_ms=5, producer_id=1, producer_epoch=0, base_sequence=0, attributes=TRANSACTIONAL
    )
    for _ in range(MANY):
        log.producers._open[1] = log.log_end_offset
        log._store(transactional, 1, 5)
        log.append_marker(1, 0, committed=False, at_ms=5)
    log.reserve(log.log_end_offset)


async def _fill_groups(client: Client) -> None:
    await join(client, LARGE_MEMBER_GROUP, metadata=bytes(520_000))  # as large as a batch of the log may be
    for name in (LARGE_GROUP, LEAVING_GROUP):
        joining = [Client(client.cluster) for _ in range(MEMBERS)]
        for each in joining:
            each.transport._keep_bytes = 2**20
            each.connection.data_received(Client.encode(join_request(name), 3))
        async with asyncio.timeout(TIMEOUT_S):
            while not all(each.transport.written_bytes for each in joining):  # noqa: ASYNC110  # nothing signals it
                await asyncio.sleep(0)
        for each in joining:
            await each.close()


async def _fill_consumer_group(client: Client) -> None:
    epochs = {}
    for number in range(MEMBERS):
        request = consumer_join(CONSUMER_GROUP, f"m{number}", CONSUMED_TOPICS)
        epochs[request.member_id] = (await client.call(request, 1)).member_epoch
    await until_target_may_change(client, CONSUMER_GROUP)
    for member_id, epoch in epochs.items():
        await client.call(consumer_heartbeat(CONSUMER_GROUP, member_id, epoch), 1)
    consumer = client.cluster.coordinator_of(CONSUMER_GROUP).group(CONSUMER_GROUP).consumer
    assert consumer is not None
    assert len(consumer.holders[client.cluster.state.topics_image.by_name[WIDE].topic_id]) > MANY // 2


async def until_target_may_change(client: Client, group: str) -> None:
    """Wait until `group.consumer.assignment.interval.ms` is over for a group."""
    consumer = client.cluster.coordinator_of(group).group(group).consumer
    assert consumer is not None
    due_ms = consumer.assigned_at_ms + SETTINGS.group_consumer_assignment_interval_ms
    while client.cluster.state.now_ms() < due_ms:  # noqa: ASYNC110  # no timer waits for it
        await asyncio.sleep(0.05)


def consumer_join(group: str, member_id: str, topics: list[str] | None, **fields: Any) -> Any:
    return consumer_heartbeat(
        group,
        member_id,
        0,
        rebalance_timeout_ms=1_800_000,
        subscribed_topic_names=topics,
        topic_partitions=[],
        **fields,
    )


def consumer_heartbeat(group: str, member_id: str, epoch: int, **fields: Any) -> cg.ConsumerGroupHeartbeatRequest:
    return cg.ConsumerGroupHeartbeatRequest(group_id=group, member_id=member_id, member_epoch=epoch, **fields)


async def join(client: Client, group: str, metadata: bytes = b"") -> str:
    """A member joins alone and syncs; returns its id."""
    joined = await client.call(join_request(group, metadata), 3)
    member_id = str(joined.member_id)
    assignments = [g.SyncGroupRequestAssignment(member_id=member_id, assignment=metadata)]
    request = g.SyncGroupRequest(
        group_id=group, generation_id=joined.generation_id, member_id=member_id, assignments=assignments
    )
    assert (await client.call(request, 2)).error_code == 0
    return member_id


def join_request(group: str, metadata: bytes = b"", member_id: str = "") -> g.JoinGroupRequest:
    return g.JoinGroupRequest(
        group_id=group,
        session_timeout_ms=1_800_000,
        rebalance_timeout_ms=1_800_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[g.JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )


def _offsets_commit(group: str, partitions: Sequence[int] | range) -> o.OffsetCommitRequest:
    wanted = [o.OffsetCommitRequestPartition(partition_index=index, committed_offset=7) for index in partitions]
    return o.OffsetCommitRequest(group_id=group, topics=[o.OffsetCommitRequestTopic(name=WIDE, partitions=wanted)])


async def begin_transaction(client: Client) -> tuple[int, int]:
    """A transaction with all partitions of the wide topic; returns its producer id and epoch."""
    request = t.InitProducerIdRequest(transactional_id=TRANSACTIONAL_ID, transaction_timeout_ms=900_000)
    producer = await client.call(request, 2)
    add = t.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=TRANSACTIONAL_ID,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=[t.AddPartitionsToTxnTopic(name=WIDE, partitions=list(range(MANY)))],
    )
    await client.call(add, 3)
    return producer.producer_id, producer.producer_epoch


def fetch_partition(index: int) -> r.FetchPartition:
    return r.FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=2**20)
