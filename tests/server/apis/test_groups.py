"""Requests about groups, as the broker adapts them to API versions, and lists of groups."""

import asyncio
from typing import Any

import msgspec
import pytest

from regroup.coordinator.settings import CoordinatorSettings
from regroup.protocol.consumer.subscription import Subscription, encode_subscription
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.cluster import FindCoordinatorRequest
from regroup.protocol.messages.describe import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from regroup.protocol.messages.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from regroup.protocol.messages.offsets import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from regroup.server.broker_cluster import BrokerCluster, ClusterOptions
from regroup.server.releases import newest_release
from regroup.storage.errors import StoreFailed
from regroup.storage.memory import MemoryStore
from tests.coordinator.group_harness import behaviour
from tests.server.cluster_harness import ClusterHarness, expected_coordinator, join_request
from tests.server.group_api_harness import GroupApiHarness, running_group_api
from tests.server.wire_client import WireClient, wait_until


@behaviour("list.all", "list.simple-group")
async def test_every_group_is_listed_with_its_state_and_type(group_api: GroupApiHarness) -> None:
    await group_api.add_member("g1")
    await group_api.commit("simple", orders=[0])
    rows = [
        (each.group_id, each.protocol_type, each.group_state, each.group_type) for each in await group_api.list_groups()
    ]
    assert rows == [("g1", "consumer", "Stable", "classic"), ("simple", "", "Empty", "classic")]


@behaviour("list.state-filter", "list.type-filter", "list.both-filters")
@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({"states_filter": [" sTaBlE "]}, ["g1"]),
        ({"states_filter": ["Stable", "Empty"]}, ["g1", "simple"]),
        ({"states_filter": ["NoSuchState"]}, []),
        ({"types_filter": ["Classic"]}, ["g1", "simple"]),
        ({"types_filter": ["consumer"]}, []),
        ({"types_filter": ["no-such-type"]}, []),
        ({"states_filter": ["Empty"], "types_filter": ["classic"]}, ["simple"]),
    ],
)
async def test_a_list_is_filtered_by_state_and_type(
    group_api: GroupApiHarness, filters: dict[str, list[str]], names: list[str]
) -> None:
    await group_api.add_member("g1")
    await group_api.commit("simple", orders=[0])
    assert [each.group_id for each in await group_api.list_groups(**filters)] == names


class BlockingStore(MemoryStore):
    """Waits until `gate` is set before each new coordinator epoch, and so before the groups are loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()

    async def next_coordinator_epoch(self) -> int:
        await self.gate.wait()
        return await super().next_coordinator_epoch()


@behaviour("recovery.loading-answers")
async def test_a_list_is_refused_while_groups_are_being_loaded() -> None:
    store = BlockingStore()
    async with running_group_api(store, newest_release()) as group_api:
        await group_api.add_member("g1")
        store.gate.clear()
        group_api.cluster.journal.fail(StoreFailed("the disk is gone"))
        loading = await group_api.call(ListGroupsRequest())
        assert (loading.error_code, loading.groups) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])
        store.gate.set()
        await wait_until(lambda: group_api.cluster.coordinator_of("g1").is_ready)
        assert [each.group_id for each in await group_api.list_groups()] == ["g1"]


@behaviour("describe.authorized-operations")
async def test_authorized_operations_are_returned_on_request_only(group_api: GroupApiHarness) -> None:
    await group_api.add_member("g")
    without = await group_api.call(DescribeGroupsRequest(groups=["g"]), 5)
    with_operations = await group_api.call(DescribeGroupsRequest(groups=["g"], include_authorized_operations=True), 5)
    assert without.groups[0].authorized_operations == -(2**31)
    assert with_operations.groups[0].authorized_operations & 1 << 8, "every client may describe the group"


@behaviour("describe.missing-group-v6")
async def test_a_group_that_does_not_exist_is_an_error_since_describe_v6(group_api: GroupApiHarness) -> None:
    request = DescribeGroupsRequest(groups=["g"], include_authorized_operations=True)
    older = (await group_api.call(request, 5)).groups[0]
    newer = (await group_api.call(request, 6)).groups[0]
    assert (older.group_state, older.error_code, older.authorized_operations) == ("Dead", 0, 3400)
    assert (newer.group_state, newer.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)
    assert newer.authorized_operations == -(2**31), "a group with an error has no operations"


@behaviour("validation.sync.v5-needs-protocol-fields")
async def test_a_sync_v5_without_protocol_type_is_refused_before_the_group_is_looked_up(
    group_api: GroupApiHarness,
) -> None:
    response = await group_api.call(
        SyncGroupRequest(group_id="g", generation_id=1, member_id="m", protocol_name="range"), 5
    )
    assert (response.error_code, response.assignment) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, b"")


@behaviour("protocol.empty-name")
@pytest.mark.parametrize(("version", "name"), [(3, ""), (6, ""), (7, None), (9, None)])
async def test_an_assignor_may_have_the_empty_name_which_is_null_since_join_v7(
    group_api: GroupApiHarness, version: int, name: str | None
) -> None:
    fields = {"group_instance_id": "i"} if version >= 5 else {}
    request = msgspec.structs.replace(
        join_request("g", **fields), protocols=[JoinGroupRequestProtocol(name="", metadata=b"mine")]
    )
    joined = await group_api.call(request, version)
    assert (joined.error_code, joined.protocol_name, [each.metadata for each in joined.members]) == (0, name, [b"mine"])
    sync = SyncGroupRequest(
        group_id="g", generation_id=1, member_id=joined.member_id, protocol_type="consumer", protocol_name=name
    )
    assert (await group_api.call(sync, 5)).error_code == (23 if name is None else 0), "a null name never matches"
    named = await group_api.call(msgspec.structs.replace(sync, protocol_name=""), 5)
    assert (named.error_code, named.protocol_name) == (0, "")


def join_with(names: str, metadata: bytes = b"", **fields: Any) -> Any:
    """A JoinGroup with assignors of one letter each."""
    protocols = [JoinGroupRequestProtocol(name=name, metadata=metadata) for name in names]
    return msgspec.structs.replace(join_request("g", **fields), protocols=protocols)


@behaviour("protocol.name-twice")
@pytest.mark.parametrize(
    ("names", "selected"), [("aba", "b"), ("aab", "b"), ("abbc", "a"), ("aa", None), ("abab", None), ("", None)]
)
async def test_an_assignor_that_is_named_twice_is_never_selected(
    group_api: GroupApiHarness, names: str, selected: str | None
) -> None:
    """Kafka counts it as two members'. Where no other is left Kafka never answers; here the member is refused."""
    joined = await group_api.call(join_with(names), 3)
    refused = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert (joined.error_code, joined.protocol_name) == ((0, selected) if selected else (refused, ""))


@pytest.mark.parametrize(
    ("first", "second", "selected"), [("ab", "aab", "b"), ("b", "baa", "b"), ("a", "aa", None), ("b", "aab", "b")]
)
async def test_a_second_member_with_an_assignor_twice_joins_if_the_group_has_another(
    group_api: GroupApiHarness, first: str, second: str, selected: str | None
) -> None:
    anna = await group_api.call(join_with(first), 3)
    ben = await WireClient.connect(*group_api.cluster.address)
    ben.send(join_with(second), 3)
    if selected is None:
        answer: Any = await ben.receive(JoinGroupRequest.api_key, 3)
        assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        rejoined = await group_api.call(join_with(first, member_id=anna.member_id), 3)
        assert rejoined.generation_id == 1, "the group is as it was"
    else:
        await wait_until(lambda: len(group_api.cluster.coordinator_of("g").group("g").members) == 2)
        rejoined = await group_api.call(join_with(first, member_id=anna.member_id), 3)
        answer = await ben.receive(JoinGroupRequest.api_key, 3)
        assert (answer.protocol_name, rejoined.protocol_name, rejoined.generation_id) == (selected, selected, 2)
    await ben.close()


@behaviour("protocol.negative-subscription-version")
@pytest.mark.parametrize("version", [-1, -5, -32768, 0, 99])
async def test_the_topics_of_a_subscription_are_read_whatever_its_version(
    group_api: GroupApiHarness, version: int
) -> None:
    await group_api.cluster.ensure_topic("bills", 1)
    await group_api.commit("g", orders=[0], bills=[0])
    subscription = encode_subscription(Subscription(1, ("bills",)))
    metadata = version.to_bytes(2, "big", signed=True) + subscription[2:]
    await group_api.call(join_with("a", metadata), 3)
    partitions = [OffsetDeleteRequestPartition(partition_index=0)]
    topics = [OffsetDeleteRequestTopic(name=name, partitions=partitions) for name in ("orders", "bills")]
    response = await group_api.call(OffsetDeleteRequest(group_id="g", topics=topics))
    codes = {topic.name: topic.partitions[0].error_code for topic in response.topics}
    assert codes == {"orders": 0, "bills": ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}


@behaviour("leave.unknown-group.v0-v2")
@pytest.mark.parametrize("version", [0, 1, 2])
async def test_a_leave_before_v3_has_its_error_at_the_top_level(group_api: GroupApiHarness, version: int) -> None:
    response = await group_api.call(LeaveGroupRequest(group_id="g", member_id="m1"), version)
    assert response.error_code == ErrorCode.UNKNOWN_MEMBER_ID


@behaviour("join.member-id-format")
async def test_a_member_id_begins_with_the_client_id_or_the_instance_id(group_api: GroupApiHarness) -> None:
    dynamic = await group_api.call(join_request("g"), 9)
    static = await group_api.call(join_request("h", group_instance_id="i1"), 9)
    with_empty_id = await group_api.call(join_request("i", group_instance_id=""), 9)
    assert dynamic.member_id.startswith("test-")
    assert static.member_id.startswith("i1-")
    assert with_empty_id.member_id.startswith("-")
    assert len(dynamic.member_id) == len("test-") + 36


@behaviour("validation.join.error-body-by-version")
@pytest.mark.parametrize("version", range(10))
async def test_a_refused_join_has_an_empty_protocol_name_before_v7_and_null_since(
    group_api: GroupApiHarness, version: int
) -> None:
    response = await group_api.call(join_request("g", member_id="nope"), version)
    assert (response.error_code, response.generation_id, response.leader) == (ErrorCode.UNKNOWN_MEMBER_ID, -1, "")
    assert response.protocol_name == ("" if version < 7 else None)


async def test_in_join_v0_the_session_timeout_is_also_the_rebalance_timeout(group_api: GroupApiHarness) -> None:
    await group_api.call(join_request("oldest"), 0)
    await group_api.call(join_request("old"), 1)
    groups = {group.group_id: group.rebalance_timeout_ms for group in group_api.cluster.groups()}
    assert groups == {"oldest": 10_000, "old": 60_000}


@pytest.mark.parametrize("version", range(10))
async def test_a_group_forms_in_every_version_of_its_requests(group_api: GroupApiHarness, version: int) -> None:
    """JoinGroup, SyncGroup, Heartbeat and LeaveGroup in the version that came with this JoinGroup, or the last."""
    joined = await group_api.call(join_request("g"), version)
    assert joined.error_code == (ErrorCode.MEMBER_ID_REQUIRED if version >= 4 else ErrorCode.NONE)
    if version >= 4:
        joined = await group_api.call(join_request("g", member_id=joined.member_id), version)
    assert (joined.generation_id, joined.leader, len(joined.members)) == (1, joined.member_id, 1)
    assignments = [SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"mine")]
    sync = SyncGroupRequest(
        group_id="g",
        generation_id=1,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=assignments,
    )
    assert (await group_api.call(sync, min(version, 5))).assignment == b"mine"
    heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id=joined.member_id)
    assert (await group_api.call(heartbeat, min(version, 4))).error_code == 0
    assert (
        await group_api.call(LeaveGroupRequest(group_id="g", member_id=joined.member_id), min(version, 2))
    ).error_code == 0


@pytest.mark.parametrize("version", [5, 8, 9])
async def test_a_replaced_static_leader_skips_assignment_since_v9_and_is_no_leader_before(
    group_api: GroupApiHarness, version: int
) -> None:
    first = await group_api.call(join_request("g", group_instance_id="till"), version)
    assignments = [SyncGroupRequestAssignment(member_id=first.member_id, assignment=b"mine")]
    await group_api.call(
        SyncGroupRequest(group_id="g", generation_id=1, member_id=first.member_id, assignments=assignments), 3
    )
    replacement = await group_api.call(join_request("g", group_instance_id="till"), version)
    assert (replacement.error_code, replacement.generation_id) == (ErrorCode.NONE, 1)
    assert replacement.skip_assignment == (version >= 9)
    assert replacement.leader == (replacement.member_id if version >= 9 else first.member_id)


async def test_groups_are_deleted_each_with_its_own_code(group_api: GroupApiHarness) -> None:
    await group_api.add_member("busy")
    await group_api.commit("idle", orders=[0])
    response = await group_api.call(DeleteGroupsRequest(groups_names=["busy", "idle", "unknown"]))
    assert {each.group_id: (each.error_code, each.error_message) for each in response.results} == {
        "busy": (ErrorCode.NON_EMPTY_GROUP, None),
        "idle": (ErrorCode.NONE, None),
        "unknown": (ErrorCode.GROUP_ID_NOT_FOUND, None),
    }
    assert (await group_api.call(DeleteGroupsRequest(groups_names=[]))).results == []


@behaviour("delete.group-twice")
@pytest.mark.parametrize("version", range(4))
async def test_a_group_that_is_named_twice_is_deleted_once(group_api: GroupApiHarness, version: int) -> None:
    await group_api.commit("g", orders=[0])
    response = await group_api.call(DeleteGroupsRequest(groups_names=["g", "g"]), version)
    assert [(each.group_id, each.error_code) for each in response.results] == [("g", 0)]


@behaviour("delete.empty-group-id")
async def test_the_group_with_the_empty_id_can_be_deleted(group_api: GroupApiHarness) -> None:
    request = DeleteGroupsRequest(groups_names=[""])
    assert (await group_api.call(request)).results[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND
    await group_api.commit("", orders=[0])
    assert (await group_api.call(request)).results[0].error_code == 0
    assert await group_api.list_groups() == []


async def test_the_group_with_the_empty_id_belongs_to_the_leader_of_partition_0(brokers: ClusterHarness) -> None:
    home = expected_coordinator("")
    codes = {
        broker: [
            (await brokers.call(broker, DescribeGroupsRequest(groups=[""]), 5)).groups[0].error_code,
            (await brokers.call(broker, DeleteGroupsRequest(groups_names=[""]))).results[0].error_code,
        ]
        for broker in range(3)
    }
    elsewhere = [ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR]
    assert codes == dict.fromkeys(range(3), elsewhere) | {home: [0, ErrorCode.GROUP_ID_NOT_FOUND]}


@behaviour("describe.order-of-partitions")
async def test_groups_are_answered_in_the_order_of_their_partitions() -> None:
    """As Apache Kafka 4.4.0 did, with four partitions. In one partition DeleteGroups has the order of a hash set."""
    asked = [f"{letter}zz9911" for letter in "zbqacmkydefw"] + ["", "nopezz9911"]
    settings = CoordinatorSettings(offsets_topic_num_partitions=4)
    async with await BrokerCluster.start(options=ClusterOptions(settings=settings)) as cluster:
        client = await WireClient.connect(*cluster.address)
        described: Any = await client.call(DescribeGroupsRequest(groups=asked), 5)
        deleted: Any = await client.call(DeleteGroupsRequest(groups_names=asked))
        await client.close()
    assert "".join(each.group_id[:1] or "-" for each in described.groups) == "d-acyewqmkzbfn"
    assert "".join(each.group_id[:1] or "-" for each in deleted.results) == "-dwecyaqkmbnzf"


@behaviour("validation.find-coordinator.versions")
async def test_find_coordinator_has_one_key_before_v4_and_several_since(group_api: GroupApiHarness) -> None:
    await group_api.call(FindCoordinatorRequest(coordinator_keys=["g"]))  # the first request creates the offsets topic
    one = await group_api.call(FindCoordinatorRequest(key="g"), 3)
    many = await group_api.call(FindCoordinatorRequest(coordinator_keys=["g", "h"]), 4)
    assert (one.error_code, (one.host, one.port)) == (0, group_api.cluster.address)
    assert [(each.key, each.error_code, each.error_message) for each in many.coordinators] == [
        ("g", 0, ""),
        ("h", 0, ""),
    ]


@behaviour("validation.find-coordinator.offsets-topic-missing")
async def test_the_first_find_coordinator_creates_the_offsets_topic_and_must_be_repeated(
    group_api: GroupApiHarness,
) -> None:
    response = await group_api.call(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
    first = response.coordinators[0]
    assert (first.error_code, first.node_id, first.host, first.port) == (
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        -1,
        "",
        -1,
    )
