"""Requests that no client library sends, to Apache Kafka and to regroup: both give the same answers.

Each exchange is a function that sends requests to one broker and returns what is compared. Ids that a broker draws are
replaced; texts of errors are compared only as null, empty or present, because regroup's are its own.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.util import find_spec
from itertools import count
from typing import Any

import msgspec
import pytest

from regroup.protocol.consumer.subscription import Subscription, encode_subscription
from regroup.protocol.fields import NO_UUID
from regroup.protocol.messages import cluster as c
from regroup.protocol.messages import describe as d
from regroup.protocol.messages import group as g
from regroup.protocol.messages import offsets as o
from regroup.protocol.messages import topics as t
from regroup.protocol.messages import transactions as x
from tests.conformance.apache_kafka import ApacheKafkaBroker
from tests.conformance.peers import FAST_SETTINGS, RegroupBroker, regroup_broker
from tests.server.wire_client import TIMEOUT_S, WireClient

pytestmark = pytest.mark.slow

UNKNOWN_ID = b"\x07" * 16
RETRIABLE = {14, 15, 16, 51}
"""A coordinator that is being loaded, or not there yet; a transaction that is being completed."""
RUNS = count(1)


class Probe:
    """One broker, with a topic `foo` and a topic `bar` of three partitions; `name` makes names for this run."""

    def __init__(self, address: str, stack: AsyncExitStack) -> None:
        self._host, _, self._port = address.rpartition(":")
        self._stack = stack
        self._clients: dict[str, WireClient] = {}
        self.ids: dict[str, bytes] = {}
        self._run = next(RUNS)

    def name(self, base: str) -> str:
        return f"{base}-same-answers-{self._run}"

    async def call(self, request: Any, version: int | None = None, sender: str = "") -> Any:
        """The response; None if the broker closes the connection."""
        if sender not in self._clients:
            self._clients[sender] = client = await WireClient.connect(self._host, int(self._port))
            self._stack.push_async_callback(client.close)
        try:
            return await asyncio.wait_for(self._clients[sender].call(request, version), TIMEOUT_S)
        except (asyncio.IncompleteReadError, ConnectionError):
            del self._clients[sender]
            return None

    async def eventually(self, send: Callable[[], Awaitable[Any]], code: Callable[[Any], int]) -> Any:
        """The first response whose code asks for no other attempt."""
        async with asyncio.timeout(TIMEOUT_S):
            while code(response := await send()) in RETRIABLE:  # noqa: ASYNC110  # there is no event to wait for
                await asyncio.sleep(0.05)
        return response

    async def prepare(self) -> None:
        for name in ("foo", "bar"):
            topic = t.CreatableTopic(name=self.name(name), num_partitions=3, replication_factor=1)
            await self.call(t.CreateTopicsRequest(topics=[topic], timeout_ms=5000))
            wanted = c.MetadataRequest(topics=[c.MetadataRequestTopic(name=self.name(name))])
            async with asyncio.timeout(TIMEOUT_S):
                while True:
                    found = (await self.call(wanted)).topics[0]
                    if not found.error_code and all(each.leader_id >= 0 for each in found.partitions):
                        break
                    await asyncio.sleep(0.05)
            self.ids[name] = found.topic_id

    async def coordinator(self, key: str, key_type: int = 0) -> None:
        request = c.FindCoordinatorRequest(coordinator_keys=[key], key_type=key_type)
        await self.eventually(lambda: self.call(request), lambda found: found.coordinators[0].error_code)
        if key_type == 0:
            describe = d.DescribeGroupsRequest(groups=[key])
            await self.eventually(lambda: self.call(describe, 5), lambda found: found.groups[0].error_code)

    async def group(self, base: str = "g") -> str:
        await self.coordinator(self.name(base))
        return self.name(base)

    async def begin(self, base: str) -> dict[str, Any]:
        """The identity of a transactional producer."""
        await self.coordinator(self.name(base), 1)
        request = x.InitProducerIdRequest(transactional_id=self.name(base), transaction_timeout_ms=60_000)
        begun = await self.eventually(lambda: self.call(request, 5), lambda found: found.error_code)
        return {
            "transactional_id": self.name(base),
            "producer_id": begun.producer_id,
            "producer_epoch": begun.producer_epoch,
        }

    async def add_group(self, who: dict[str, Any], group: str) -> None:
        request = x.AddOffsetsToTxnRequest(**who, group_id=group)
        added = await self.eventually(lambda: self.call(request, 3), lambda found: found.error_code)
        assert added.error_code == 0

    def topic(self, name: str, *, by_id: bool) -> dict[str, Any]:
        """The fields that name a topic: `foo` and `bar` exist, `absent` does not, `zero` has no name and no id."""
        if by_id:
            return {"topic_id": self.ids.get(name, NO_UUID if name == "zero" else UNKNOWN_ID)}
        return {"name": "" if name == "zero" else self.name(name)}

    def topic_of(self, entry: Any, *, by_id: bool) -> str:
        if by_id:
            known = {topic_id: name for name, topic_id in self.ids.items()} | {NO_UUID: "zero"}
            return known.get(entry.topic_id, "absent")
        return str(entry.name).partition("-")[0] or "zero"


Exchange = Callable[[Probe], Awaitable[Any]]
EXCHANGES: list[Any] = []


def exchange(function: Exchange) -> Exchange:
    EXCHANGES.append(pytest.param(function, id=function.__name__))
    return function


Named = Sequence[tuple[str, list[int]]]
ENTRIES: list[Named] = [
    [("foo", [0, 9, 1]), ("zero", [0]), ("absent", [0, 1])],
    [("foo", [-1, 0])],
    [("foo", []), ("bar", [0]), ("absent", [])],
    [("foo", [])],
    [("absent", [])],
    [],
    [("foo", [0]), ("bar", [0]), ("foo", [1])],
    [("foo", [0, 9]), ("bar", [7, 0]), ("foo", [1, 8])],
    [("foo", [0]), ("absent", [0]), ("bar", [9, 1]), ("foo", [2]), ("absent", [1])],
    [("foo", [0, 0, 9, 9])],
]


def codes(probe: Probe, response: Any, *, by_id: bool = False) -> Any:
    return [
        (probe.topic_of(topic, by_id=by_id), [(each.partition_index, each.error_code) for each in topic.partitions])
        for topic in response.topics
    ]


def commit(probe: Probe, group: str, entries: Named, *, by_id: bool = False, **fields: Any) -> o.OffsetCommitRequest:
    topics = [
        o.OffsetCommitRequestTopic(
            **probe.topic(name, by_id=by_id),
            partitions=[o.OffsetCommitRequestPartition(partition_index=each, committed_offset=7) for each in indexes],
        )
        for name, indexes in entries
    ]
    return o.OffsetCommitRequest(group_id=group, topics=topics, **fields)


@exchange
async def commits(probe: Probe) -> Any:
    group, found = await probe.group(), []
    for entries in ENTRIES:
        for version in (2, 9, 10):
            request = commit(probe, group, entries, by_id=version >= 10)
            found.append(codes(probe, await probe.call(request, version), by_id=version >= 10))
        refused = commit(probe, probe.name("new"), entries, member_id="m", generation_id_or_member_epoch=3)
        found += [codes(probe, await probe.call(refused, version)) for version in (8, 9)]
    return found


@exchange
async def deletes_of_offsets(probe: Probe) -> Any:
    group, found = await probe.group(), []
    for entries in ENTRIES:
        await probe.call(commit(probe, group, [("foo", [0, 1, 2]), ("bar", [0, 1])]), 9)
        topics = [
            o.OffsetDeleteRequestTopic(
                **probe.topic(name, by_id=False),
                partitions=[o.OffsetDeleteRequestPartition(partition_index=each) for each in indexes],
            )
            for name, indexes in entries
        ]
        for each in (group, probe.name("new")):
            response = await probe.call(o.OffsetDeleteRequest(group_id=each, topics=topics))
            found.append((response.error_code, codes(probe, response)))
        fetch = o.OffsetFetchRequestGroup(group_id=group, topics=None)
        left = (await probe.call(o.OffsetFetchRequest(groups=[fetch]), 9)).groups[0].topics
        found.append(
            sorted((probe.topic_of(e, by_id=False), sorted(p.partition_index for p in e.partitions)) for e in left)
        )
    return found


@exchange
async def fetches_of_offsets(probe: Probe) -> Any:
    group, found = await probe.group(), []
    await probe.call(commit(probe, group, [("foo", [0, 1])]), 9)
    for entries in ENTRIES:
        for version in (1, 7, 9, 10):
            by_id = version >= 10
            if version < 8:
                old = [
                    o.OffsetFetchRequestTopic(**probe.topic(name, by_id=False), partition_indexes=indexes)
                    for name, indexes in entries
                ]
                response = await probe.call(o.OffsetFetchRequest(group_id=group, topics=old), version)
            else:
                asked = [
                    o.OffsetFetchRequestTopics(**probe.topic(name, by_id=by_id), partition_indexes=indexes)
                    for name, indexes in entries
                ]
                wanted = o.OffsetFetchRequestGroup(group_id=group, topics=asked)
                response = (await probe.call(o.OffsetFetchRequest(groups=[wanted]), version)).groups[0]
            offsets = [[each.committed_offset for each in topic.partitions] for topic in response.topics]
            found.append((codes(probe, response, by_id=by_id), offsets))
    return found


def txn_commit(probe: Probe, who: dict[str, Any], group: str, entries: Named, version: int, **fields: Any) -> Any:
    topics = [
        x.TxnOffsetCommitRequestTopic(
            **probe.topic(name, by_id=version >= 6),
            partitions=[
                x.TxnOffsetCommitRequestPartition(partition_index=each, committed_offset=7) for each in indexes
            ],
        )
        for name, indexes in entries
    ]
    return x.TxnOffsetCommitRequest(**who, group_id=group, topics=topics, **fields)


@exchange
async def transactional_commits(probe: Probe) -> Any:
    group, who, found = await probe.group(), await probe.begin("t"), []
    await probe.add_group(who, group)
    for version in (0, 3, 4, 5, 6):
        for entries in ENTRIES:
            for each in (group, ""):
                response = await probe.call(txn_commit(probe, who, each, entries, version), version)
                found.append(codes(probe, response, by_id=version >= 6))
    for version in (5, 6):
        for fields in ({"generation_id": 3, "member_id": "m"}, {"generation_id": 0}, {"member_id": "m"}):
            for each in (group, probe.name("new")):
                request = txn_commit(probe, who, each, [("foo", [0])], version, **fields)
                found.append(codes(probe, await probe.call(request, version), by_id=version >= 6))
    return found


@exchange
async def transactional_commits_with_a_foreign_transactional_id(probe: Probe) -> Any:
    group, who, found = await probe.group(), await probe.begin("own"), []
    foreign = await probe.begin("foreign")
    await probe.add_group(who, group)
    names = [foreign["transactional_id"], probe.name("nobody"), ""]

    async def send(version: int, **changes: Any) -> None:
        request = txn_commit(probe, who | changes, group, [("foo", [0])], version)
        found.append(codes(probe, await probe.call(request, version), by_id=version >= 6))

    for has_written in (False, True):
        if has_written:
            await send(3)
        for version in (1, 3, 4, 5, 6):
            for name in names[: 3 if has_written else 2]:
                await send(version, transactional_id=name)
        await send(3, transactional_id=names[0], producer_epoch=who["producer_epoch"] + 1)
    await probe.eventually(
        lambda: probe.call(x.EndTxnRequest(**who, committed=True), 3), lambda response: response.error_code
    )
    return found


@exchange
async def groups_by_partition(probe: Probe) -> Any:
    names = [f"{letter}zz9911" for letter in "zbqacmkydefw"] + ["", "nopezz9911"]
    await probe.coordinator(names[0])
    described = await probe.call(d.DescribeGroupsRequest(groups=[*names, names[2]]), 5)
    found = [[each.group_id for each in described.groups]]
    for version in range(4):
        deleted = await probe.call(d.DeleteGroupsRequest(groups_names=[*names, names[2]]), version)
        found.append([(each.group_id, each.error_code, each.error_message) for each in deleted.results])
    return found


@exchange
async def the_group_with_the_empty_id(probe: Probe) -> Any:
    await probe.coordinator("")
    await probe.call(d.DeleteGroupsRequest(groups_names=[""]))
    found = [codes(probe, await probe.call(commit(probe, "", [("foo", [0])]), 9))]
    for _ in range(2):
        described = await probe.call(d.DescribeGroupsRequest(groups=[""], include_authorized_operations=True), 6)
        deleted = await probe.call(d.DeleteGroupsRequest(groups_names=["", ""]))
        found += [described.groups[0].error_code, described.groups[0].authorized_operations]
        found += [described.groups[0].group_state, [each.error_code for each in deleted.results]]
    return found


@exchange
async def coordinators(probe: Probe) -> Any:
    await probe.group()
    found = []
    for version in range(7):
        for key_type in (0, 1, 2, 3, -1) if version else (0,):
            keys = {"coordinator_keys": ["a", "a"]} if version >= 4 else {"key": "a"}
            request = c.FindCoordinatorRequest(**keys, key_type=key_type)
            send = lambda request=request, version=version: probe.call(request, version)  # noqa: E731
            for each in [await send()] if version < 4 else (await send()).coordinators:
                found.append((version, key_type, each.error_code, presence(each.error_message), each.node_id >= 0))
    return found


def presence(text: str | None) -> str:
    return "null" if text is None else "text" if text else "empty"


def join(probe: Probe, group: str, names: Sequence[str], metadata: bytes = b"", **fields: Any) -> g.JoinGroupRequest:
    return g.JoinGroupRequest(
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=[g.JoinGroupRequestProtocol(name=name, metadata=metadata) for name in names],
        **fields,
    )


@exchange
async def names_of_assignors(probe: Probe) -> Any:
    found = []
    for number, names in enumerate((["a", "b", "a"], ["a", "a", "b"], [""], ["", "a"], [])):
        for version in (3, 6, 7, 9):
            group = await probe.group(f"names-{number}-{version}")
            fields = {} if version < 5 else {"group_instance_id": "i"}
            joined = await probe.call(join(probe, group, names, **fields), version)
            found.append((joined.error_code, joined.protocol_name, joined.generation_id))
            for name in (None, "", "a", "b"):
                sync = g.SyncGroupRequest(
                    group_id=group,
                    generation_id=1,
                    member_id=joined.member_id,
                    protocol_type="consumer",
                    protocol_name=name,
                )
                synced = await probe.call(sync, 5)
                found.append((name, synced.error_code, synced.protocol_name))
    return found


@exchange
async def versions_of_subscriptions(probe: Probe) -> Any:
    subscription, found = encode_subscription(Subscription(1, (probe.name("bar"),))), []
    for number, version in enumerate((-32768, -5, -1, 0, 3, 99)):
        group = await probe.group(f"versions-{number}")
        metadata = version.to_bytes(2, "big", signed=True) + subscription[2:]
        await probe.call(join(probe, group, ["range"], metadata), 3)
        topics = [
            o.OffsetDeleteRequestTopic(
                name=probe.name(name), partitions=[o.OffsetDeleteRequestPartition(partition_index=0)]
            )
            for name in ("foo", "bar")
        ]
        found.append(codes(probe, await probe.call(o.OffsetDeleteRequest(group_id=group, topics=topics))))
    return found


@exchange
async def member_ids(probe: Probe) -> Any:
    found = []
    for instance_id in ("", "i", None):
        group = await probe.group(f"ids-{instance_id}")
        joined = await probe.call(join(probe, group, ["range"], group_instance_id=instance_id), 5)
        found.append(joined.member_id[:-36])
    return found


@exchange
async def other_brokers(probe: Probe) -> Any:
    """ApiVersions v5 with ids that are this broker's, another's, or incomplete; and the versions that are served."""
    names = {"client_software_name": "test", "client_software_version": "1"}
    cluster_id = (await probe.call(c.DescribeClusterRequest())).cluster_id
    node_id = (await probe.call(c.MetadataRequest(topics=[]))).brokers[0].node_id
    found = []
    for named in (cluster_id, "other", "", None):
        for node in (node_id, 99, -1, -2):
            response = await probe.call(c.ApiVersionsRequest(**names, cluster_id=named, node_id=node), 5)
            found.append((response.error_code, bool(response.api_keys), bool(response.finalized_features)))
    return found


@exchange
async def group_configs(probe: Probe) -> Any:
    found = []
    for version in (1, 4):
        for name in (await probe.group(), ""):
            resource = t.DescribeConfigsResource(resource_type=32, resource_name=name)
            request = t.DescribeConfigsRequest(resources=[resource], include_synonyms=True)
            (result,) = (await probe.call(request, version)).results
            found.append((result.error_code, presence(result.error_message), msgspec.to_builtins(result.configs)))
    return found


@exchange
async def repeated_names(probe: Probe) -> Any:
    """A topic, a resource or a setting that is named twice in a request that changes it."""
    entry = t.IncrementalAlterConfigsEntry(name="retention.ms", config_operation=0, value="5")
    changes = [[entry], [entry, entry], [msgspec.structs.replace(entry, value=None)]]
    found = []
    for configs in changes:
        resource = t.IncrementalAlterConfigsResource(resource_type=2, resource_name=probe.name("foo"), configs=configs)
        for resources in ([resource], [resource, resource]):
            response = await probe.call(t.IncrementalAlterConfigsRequest(resources=resources))
            found.append([each.error_code for each in response.responses])
    for version in (1, 5, 6):
        names = [probe.name("foo"), probe.name("foo"), probe.name("nope")]
        request = t.DeleteTopicsRequest(
            topics=[t.DeleteTopicState(name=name) for name in names] if version >= 6 else [],
            topic_names=names if version < 6 else [],
            timeout_ms=1000,
        )
        response = await probe.call(request, version)
        found.append(sorted(each.error_code for each in response.responses))
    return found


@exchange
async def topics_of_metadata(probe: Probe) -> Any:
    found = []
    for version in (4, 9, 12):
        names = [probe.name(name) for name in ("foo", "nope", "foo", "nope")]
        request = c.MetadataRequest(
            topics=[c.MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=False
        )
        response = await probe.call(request, version)
        found.append([(each.name.partition("-")[0], each.error_code) for each in response.topics])
    ids = [UNKNOWN_ID, probe.ids["foo"], b"\x08" * 16, probe.ids["bar"], probe.ids["foo"]]
    request = c.MetadataRequest(topics=[c.MetadataRequestTopic(name=None, topic_id=each) for each in ids])
    response = await probe.call(request, 12)
    found.append([((each.name or "").partition("-")[0], each.error_code) for each in response.topics])
    return found


@exchange
async def endpoints(probe: Probe) -> Any:
    found = []
    for version in (1, 2):
        for endpoint_type in (1, 2, 3):
            response = await probe.call(c.DescribeClusterRequest(endpoint_type=endpoint_type), version)
            ids = (response.controller_id >= 0, bool(response.cluster_id), len(response.brokers))
            found.append((response.error_code, presence(response.error_message), response.endpoint_type, ids))
    return found


@exchange
async def transactions(probe: Probe) -> Any:
    empty, ongoing, committed = [await probe.begin(name) for name in ("empty", "ongoing", "committed")]
    for who, indexes in ((ongoing, [2, 0, 1]), (committed, [1])):
        fields = {f"v3_and_below_{name}": value for name, value in who.items()}
        topics = [x.AddPartitionsToTxnTopic(name=probe.name("foo"), partitions=[index]) for index in indexes]
        request = x.AddPartitionsToTxnRequest(**fields, v3_and_below_topics=topics)
        await probe.eventually(
            lambda request=request: probe.call(request, 3),
            lambda added: added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code,
        )
    await probe.call(x.EndTxnRequest(**committed, committed=True), 3)
    names = [who["transactional_id"] for who in (empty, ongoing, committed)]

    def states(response: Any) -> Any:
        return [
            (
                each.error_code,
                each.transaction_state.replace("PrepareCommit", "CompleteCommit"),
                each.transaction_timeout_ms,
                each.transaction_start_time_ms > 0 if each.transaction_state == "Ongoing" else None,
                [sorted(topic.partitions) for topic in each.topics],
            )
            for each in response.transaction_states
        ]

    describe = x.DescribeTransactionsRequest(transactional_ids=[*names, probe.name("nobody"), "", names[0]])
    await asyncio.sleep(0.5)  # the marker of the transaction has been written
    found = [states(await probe.call(describe))]
    for filters in (
        {},
        {"state_filters": ["Ongoing", "ongoing", "Dead", "Nonsense"]},
        {"producer_id_filters": [empty["producer_id"]]},
        {"duration_filter": 100},
        {"transactional_id_pattern": "("},
        *([{"transactional_id_pattern": "ongo.*"}] if find_spec("re2") else []),
    ):
        response = await probe.call(x.ListTransactionsRequest(**filters))
        listed = sorted(
            (each.transactional_id.partition("-")[0], each.transaction_state)
            for each in response.transaction_states
            if each.transactional_id in names
        )
        found.append((response.error_code, sorted(response.unknown_state_filters), listed))
    return found


@pytest.fixture(scope="module")
def regroup() -> Iterator[RegroupBroker]:
    with regroup_broker(FAST_SETTINGS | {"offsets.topic.num.partitions": "4"}) as broker:
        yield broker


@asynccontextmanager
async def probe_of(address: str) -> AsyncIterator[Probe]:
    async with AsyncExitStack() as stack:
        probe = Probe(address, stack)
        await probe.prepare()
        yield probe


@pytest.mark.parametrize("send", EXCHANGES)
async def test_both_brokers_give_the_same_answers(
    kafka: ApacheKafkaBroker, regroup: RegroupBroker, send: Exchange
) -> None:
    async with probe_of(kafka.address) as theirs, probe_of(regroup.address) as ours:
        assert await send(ours) == await send(theirs)


async def test_regroup_serves_the_versions_of_the_newest_release(
    kafka: ApacheKafkaBroker, regroup: RegroupBroker
) -> None:
    request = c.ApiVersionsRequest(client_software_name="test", client_software_version="1")
    async with probe_of(kafka.address) as theirs, probe_of(regroup.address) as ours:
        found = [await probe.call(request, 5) for probe in (ours, theirs)]
    ours_rows, their_rows = ({each.api_key: each for each in response.api_keys} for response in found)
    assert ours_rows == {key: their_rows[key] for key in ours_rows}
    for field in ("supported_features", "finalized_features"):
        ours_rows, their_rows = ({each.name: each for each in getattr(response, field)} for response in found)
        assert ours_rows == {"transaction.version": their_rows["transaction.version"]}
