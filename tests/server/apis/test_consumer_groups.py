"""Groups of the consumer protocol over the wire: heartbeats, lists, descriptions, offsets, patterns."""

import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from regroup.coordinator.consumer.regexes import last_search_ms
from regroup.coordinator.settings import CoordinatorSettings
from regroup.protocol.errors import ErrorCode
from regroup.protocol.fields import NO_UUID
from regroup.protocol.messages import describe as d
from regroup.protocol.messages import offsets as o
from regroup.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest, ConsumerGroupTopicPartitions
from regroup.protocol.messages.topics import CreatableTopic, CreateTopicsRequest, DeleteTopicsRequest, DeleteTopicState
from regroup.server.broker_cluster import BrokerCluster, ClusterEnvironment, ClusterOptions
from regroup.server.clock import Clock
from regroup.storage.memory import MemoryStore
from tests.coordinator.group_harness import behaviour
from tests.server.group_api_harness import commit_request
from tests.server.wire_client import NOW_MS, WireClient, wait_until

E = ErrorCode
SETTINGS = CoordinatorSettings(group_initial_rebalance_delay_ms=0, group_consumer_assignment_interval_ms=0)


class Harness:
    """A cluster of one broker with the topics foo (6 partitions) and bar (3), and a client."""

    def __init__(self, cluster: BrokerCluster, client: WireClient) -> None:
        self.cluster, self.client = cluster, client

    async def call(self, request: Any, version: int | None = None) -> Any:
        return await self.client.call(request, version)

    def topic_id(self, name: str) -> bytes:
        topic = self.cluster.state.find_topic(name, NO_UUID)
        return topic.id_bytes if topic else b"\xff" * 16

    async def beat(self, member_id: str, epoch: int, group: str = "g", version: int = 1, **fields: Any) -> Any:
        request = ConsumerGroupHeartbeatRequest(group_id=group, member_id=member_id, member_epoch=epoch, **fields)
        return await self.call(request, version)

    async def join(self, member_id: str, *names: str, **fields: Any) -> Any:
        request = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": list(names or ("foo",))}
        return await self.beat(member_id, 0, **{**request, "topic_partitions": [], **fields})

    def assigned(self, response: Any) -> dict[str, list[int]] | None:
        """The assignment by topic name."""
        if response.assignment is None:
            return None
        names = {topic.id_bytes: topic.name for topic in self.cluster.state.topics.values()}
        return {names[each.topic_id]: each.partitions for each in response.assignment.topic_partitions}

    def owned(self, name: str, *indexes: int) -> list[ConsumerGroupTopicPartitions]:
        return [ConsumerGroupTopicPartitions(topic_id=self.topic_id(name), partitions=list(indexes))]


@asynccontextmanager
async def running(
    store: MemoryStore | None = None, brokers: int = 1, monotonic_s: Callable[[], float] = lambda: 0.0, **options: Any
) -> AsyncIterator[Harness]:
    ids = itertools.count(1)
    environment = ClusterEnvironment(
        clock=Clock(started_at_ms=NOW_MS, monotonic_s=monotonic_s), new_uuid=lambda: UUID(int=next(ids) << 64)
    )
    opened = (store or MemoryStore()).open
    cluster_options = ClusterOptions(**{"settings": SETTINGS, "brokers": brokers, **options})
    async with await BrokerCluster.start(opened, cluster_options, environment) as cluster:
        await cluster.ensure_topic("foo", 6)
        await cluster.ensure_topic("bar", 3)
        client = await WireClient.connect(*cluster.address)
        yield Harness(cluster, client)
        await client.close()


@pytest.fixture
async def group() -> AsyncIterator[Harness]:
    async with running() as harness:
        yield harness


@pytest.mark.parametrize("version", [0, 1])
async def test_a_member_joins_heartbeats_and_leaves_in_every_version(group: Harness, version: int) -> None:
    joined = await group.join("m1", version=version)
    assert (joined.error_code, joined.member_id, joined.member_epoch) == (0, "m1", 2)
    assert group.assigned(joined) == {"foo": [0, 1, 2, 3, 4, 5]}
    assert group.assigned(await group.beat("m1", 2, version=version)) is None
    left = await group.beat("m1", -1, version=version)
    assert (left.error_code, left.member_epoch) == (0, -1)


async def test_a_client_of_version_0_gets_its_member_id_from_the_coordinator(group: Harness) -> None:
    joined = await group.join("", version=0)
    assert len(joined.member_id) == 22
    assert (await group.join("", version=1)).error_code == E.INVALID_REQUEST


async def test_a_partition_changes_hands(group: Harness) -> None:
    await group.join("m1")
    await group.join("m2")
    assert group.assigned(await group.beat("m1", 2)) == {"foo": [0, 1, 2]}
    assert (await group.beat("m1", 2, topic_partitions=group.owned("foo", 0, 1, 2))).member_epoch == 3
    assert group.assigned(await group.beat("m2", 3)) == {"foo": [3, 4, 5]}


async def test_topics_that_are_created_and_deleted_are_found(group: Harness) -> None:
    await group.join("m1", "foo", "new")
    topic = CreatableTopic(name="new", num_partitions=2, replication_factor=1)
    await group.call(CreateTopicsRequest(topics=[topic]))
    assert group.assigned(await group.beat("m1", 2)) == {"new": [0, 1], "foo": [0, 1, 2, 3, 4, 5]}
    await group.call(DeleteTopicsRequest(topics=[DeleteTopicState(name="new")], timeout_ms=1))
    assert group.assigned(await group.beat("m1", 3)) == {"foo": [0, 1, 2, 3, 4, 5]}


@behaviour("cg.topic.assignment-of-unknown-id")
async def test_a_topic_that_is_deleted_is_not_described(group: Harness) -> None:
    await group.join("m1", "foo", "bar")
    await group.call(DeleteTopicsRequest(topics=[DeleteTopicState(name="bar")], timeout_ms=1))
    [described] = (await group.call(d.ConsumerGroupDescribeRequest(group_ids=["g"]))).groups
    [topic] = described.members[0].assignment.topic_partitions
    assert (topic.topic_name, topic.topic_id) == ("foo", group.topic_id("foo"))


# Lists and descriptions


async def listed(group: Harness, version: int = 5, **filters: list[str]) -> list[tuple[str, str, str, str]]:
    response = await group.call(d.ListGroupsRequest(**filters), version)
    return [(each.group_id, each.protocol_type, each.group_state, each.group_type) for each in response.groups]


async def commit(group: Harness, name: str, version: int = 9) -> None:
    await group.call(commit_request(name, group, version, {"foo": [0]}), version)  # type: ignore[arg-type]


@behaviour("cg.list.types", "cg.list.type-filter")
async def test_groups_of_both_kinds_are_listed_with_their_type(group: Harness) -> None:
    await group.join("m1")
    await commit(group, "k")
    both = [("g", "consumer", "Stable", "consumer"), ("k", "", "Empty", "classic")]
    assert await listed(group) == both
    assert await listed(group, types_filter=["Consumer"]) == both[:1]
    assert await listed(group, types_filter=["classic"]) == both[1:]


@behaviour("cg.list.state-filter-over-both-types", "cg.list.both-filters")
async def test_a_state_filter_is_about_groups_of_both_kinds(group: Harness) -> None:
    await group.join("m1", group="h")
    await group.beat("m1", -1, group="h")
    await commit(group, "k")
    assert [each[0] for each in await listed(group, states_filter=["Empty"])] == ["h", "k"]
    assert [each[0] for each in await listed(group, states_filter=["Empty"], types_filter=["consumer"])] == ["h"]


@behaviour("cg.list.old-versions")
async def test_old_clients_see_groups_of_the_consumer_protocol(group: Harness) -> None:
    await group.join("m1")
    assert await listed(group, version=3) == [("g", "consumer", "", "")]


@behaviour("cg.desc.twice", "cg.desc.empty-id", "cg.desc.missing")
async def test_every_named_group_is_described(group: Harness) -> None:
    await group.join("m1")
    response = await group.call(d.ConsumerGroupDescribeRequest(group_ids=["g", "", "x", "g"]))
    codes = [(each.group_id, each.error_code) for each in response.groups]
    assert codes == [("g", 0), ("", E.INVALID_GROUP_ID), ("x", E.GROUP_ID_NOT_FOUND), ("g", 0)]


@behaviour("cg.desc.operations", "cg.desc.member-type")
@pytest.mark.parametrize(("version", "member_type"), [(0, -1), (1, 1)])
async def test_operations_and_types_of_members(group: Harness, version: int, member_type: int) -> None:
    await group.join("m1")
    request = d.ConsumerGroupDescribeRequest(group_ids=["g"], include_authorized_operations=True)
    [described] = (await group.call(request, version)).groups
    assert (described.authorized_operations, described.members[0].member_type) == (3400, member_type)
    [plain] = (await group.call(d.ConsumerGroupDescribeRequest(group_ids=["g"]), version)).groups
    assert plain.authorized_operations == -(2**31)


@behaviour("cg.desc.by-DescribeGroups-v6", "cg.desc.by-DescribeGroups-v5")
async def test_describe_groups_does_not_know_them(group: Harness) -> None:
    await group.join("m1")
    [newer] = (await group.call(d.DescribeGroupsRequest(groups=["g"]), 6)).groups
    assert (newer.error_code, newer.group_state) == (E.GROUP_ID_NOT_FOUND, "Dead")
    assert newer.error_message == "Group g is not a classic group."
    [older] = (await group.call(d.DescribeGroupsRequest(groups=["g"]), 5)).groups
    assert (older.error_code, older.group_state, older.members) == (0, "Dead", [])


# Offsets


def commit_of(group: Harness, member_id: str, epoch: int, version: int, *topics: str) -> o.OffsetCommitRequest:
    partitions = [o.OffsetCommitRequestPartition(partition_index=0, committed_offset=7)]
    return o.OffsetCommitRequest(
        group_id="g",
        member_id=member_id,
        generation_id_or_member_epoch=epoch,
        topics=[
            o.OffsetCommitRequestTopic(
                name=each if version < 10 else "",
                topic_id=group.topic_id(each) if version >= 10 else NO_UUID,
                partitions=partitions,
            )
            for each in topics
        ],
    )


@behaviour("cg.oc.v10-by-topic-id", "cg.oc.v10-unknown-topic-id", "cg.oc.unknown-topic-by-name")
@pytest.mark.parametrize(("version", "unknown"), [(9, E.UNKNOWN_TOPIC_OR_PARTITION), (10, E.UNKNOWN_TOPIC_ID)])
async def test_a_member_commits_by_name_or_by_id(group: Harness, version: int, unknown: ErrorCode) -> None:
    await group.join("m1")
    response = await group.call(commit_of(group, "m1", 2, version, "foo", "nope"), version)
    codes = {each.name or each.topic_id: each.partitions[0].error_code for each in response.topics}
    known, missing = ("foo", "nope") if version == 9 else (group.topic_id("foo"), group.topic_id("nope"))
    assert codes == {known: 0, missing: unknown}


async def test_a_stale_commit_and_a_stale_fetch_say_so(group: Harness) -> None:
    await group.join("m1")
    response = await group.call(commit_of(group, "m1", 3, 9, "foo"), 9)
    assert response.topics[0].partitions[0].error_code == E.STALE_MEMBER_EPOCH
    for member_id, epoch, code in (("m1", 2, 0), ("m1", 1, E.STALE_MEMBER_EPOCH), (None, -1, 0)):
        wanted = o.OffsetFetchRequestGroup(group_id="g", member_id=member_id, member_epoch=epoch, topics=None)
        fetched = await group.call(o.OffsetFetchRequest(groups=[wanted]), 9)
        assert fetched.groups[0].error_code == code


async def test_an_older_epoch_commits_what_the_member_has_had_since_then(group: Harness) -> None:
    await group.join("m1", "foo", "bar")
    await group.beat("m1", 2, subscribed_topic_names=["foo"], topic_partitions=group.owned("foo", *range(6)))
    assert (await group.call(commit_of(group, "m1", 2, 9, "foo"), 9)).topics[0].partitions[0].error_code == 0
    refused = await group.call(commit_of(group, "m1", 2, 9, "bar"), 9)
    assert refused.topics[0].partitions[0].error_code == E.STALE_MEMBER_EPOCH


@behaviour("cg.od.unknown-topic")
async def test_offsets_of_a_topic_that_does_not_exist_are_not_deleted(group: Harness) -> None:
    await group.join("m1")
    partitions = [o.OffsetDeleteRequestPartition(partition_index=0)]
    topics = [o.OffsetDeleteRequestTopic(name=each, partitions=partitions) for each in ("nope", "foo")]
    response = await group.call(o.OffsetDeleteRequest(group_id="g", topics=topics))
    codes = {each.name: each.partitions[0].error_code for each in response.topics}
    assert codes == {"nope": E.UNKNOWN_TOPIC_OR_PARTITION, "foo": E.GROUP_SUBSCRIBED_TO_TOPIC}


# Patterns


@behaviour("cg.regex.resolved-later", "cg.log.regex")
async def test_the_topics_of_a_pattern_are_found_after_the_response(group: Harness) -> None:
    joined = await group.join("m1", subscribed_topic_names=None, subscribed_topic_regex="fo.|b")
    assert (joined.member_epoch, group.assigned(joined)) == (1, {})
    await wait_until(lambda: group.cluster.coordinator_of("g").group("g").state_name == "Assigning")
    answer = await group.beat("m1", 1)
    assert (answer.member_epoch, group.assigned(answer)) == (2, {"foo": [0, 1, 2, 3, 4, 5]})


@behaviour("cg.regex.invalid-at-join")
@pytest.mark.parametrize("regex", ["(abc", "(?=foo)", r"(a)\1"])
async def test_a_pattern_that_re2_does_not_take_is_refused(group: Harness, regex: str) -> None:
    joined = await group.join("m1", subscribed_topic_names=None, subscribed_topic_regex=regex)
    assert joined.error_code == E.INVALID_REGULAR_EXPRESSION
    assert await listed(group) == []


@behaviour("cg.regex.internal-topics")
async def test_a_pattern_finds_internal_topics(group: Harness) -> None:
    await group.cluster.ensure_topic("__consumer_offsets", 5)
    await group.join("m1", subscribed_topic_names=None, subscribed_topic_regex="__consumer.*")
    await wait_until(lambda: group.cluster.coordinator_of("g").group("g").state_name == "Assigning")
    assert group.assigned(await group.beat("m1", 1)) == {"__consumer_offsets": [0, 1, 2, 3, 4]}


@behaviour("cg.regex.refresh-runs-once")
async def test_one_search_runs_for_a_group_at_a_time(group: Harness) -> None:
    for number in range(3_000):
        await group.cluster.ensure_topic(f"t{number}", 1)
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m1",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_regex="(t|foo).*",
        topic_partitions=[],
    )
    for _ in range(3):
        group.client.send(request)
    for _ in range(3):
        await group.client.receive(request.api_key, 1)
    await wait_until(lambda: group.cluster.coordinator_of("g").group("g").consumer.resolved_regexes)  # type: ignore[union-attr]
    records = [record async for record in group.cluster.store.read(group="g")]
    assert [record.type for record in records].count("regexes-resolved") <= 1


@behaviour("cg.regex.refreshed-every-ten-minutes")
async def test_patterns_are_resolved_again_after_the_interval_that_was_set() -> None:
    settings = replace(SETTINGS, group_consumer_regex_refresh_interval_ms=20_000)
    now_s = 0.0
    async with running(monotonic_s=lambda: now_s, settings=settings) as group:

        def resolved_at_ms() -> int | None:
            return last_search_ms(group.cluster.coordinator_of("g").group("g"))

        await group.join("m1", subscribed_topic_names=None, subscribed_topic_regex="fo.")
        await wait_until(lambda: resolved_at_ms() == NOW_MS)
        now_s = 20.0
        await group.beat("m1", 1)
        assert resolved_at_ms() == NOW_MS
        now_s = 20.001
        await group.beat("m1", 2)
        await wait_until(lambda: resolved_at_ms() == NOW_MS + 20_001)


# Brokers


@behaviour("cg.val.wrong-broker", "cg.fail.unloading-answers-nobody")
async def test_another_broker_refuses_all_but_invalid_requests() -> None:
    async with running(brokers=2) as group:
        shard = group.cluster.router.shard_of("g")
        other = await WireClient.connect(*group.cluster.addresses[1 - shard])
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="m",
            member_epoch=0,
            rebalance_timeout_ms=1,
            subscribed_topic_names=["foo"],
            topic_partitions=[],
        )
        assert (await other.call(request)).error_code == E.NOT_COORDINATOR  # type: ignore[attr-defined]
        invalid = ConsumerGroupHeartbeatRequest(group_id="g", member_id="", member_epoch=0)
        assert (await other.call(invalid)).error_code == E.INVALID_REQUEST  # type: ignore[attr-defined]
        await other.close()


async def test_a_restart_keeps_members_targets_and_epochs() -> None:
    store = MemoryStore()
    async with running(store) as group:
        await group.join("m1")
        await group.join("m2")
        before = group.cluster.coordinator_of("g").group("g").consumer
        await group.cluster.take_snapshot()
        await group.join("m1")
    async with running(store) as group:
        after = group.cluster.coordinator_of("g").group("g").consumer
        assert before is not None
        assert after is not None
        assert (after.targets, after.members.keys()) == (before.targets, before.members.keys())
        assert group.assigned(await group.beat("m2", 3)) == {"foo": [3, 4, 5]}


async def test_a_full_group_and_a_session_timeout_are_settings() -> None:
    settings = CoordinatorSettings(group_consumer_max_size=1)
    async with running(settings=settings) as group:
        await group.join("m1")
        assert (await group.join("m2")).error_code == E.GROUP_MAX_SIZE_REACHED
        deadline = group.cluster.coordinator_of("g").next_deadline("g")
        assert deadline is not None
        assert (deadline.kind, deadline.at_ms - NOW_MS) == ("session", 45_000)
