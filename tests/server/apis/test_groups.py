"""Requests about groups, as the broker adapts them to API versions, and lists of groups."""

import asyncio

import pytest

from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.cluster import FindCoordinatorRequest
from regroup.protocol.messages.describe import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from regroup.protocol.messages.group import (
    HeartbeatRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from regroup.storage.errors import StoreFailed
from regroup.storage.memory import MemoryStore
from tests.coordinator.group_harness import behaviour
from tests.server.cluster_harness import join_request
from tests.server.group_api_harness import GroupApiHarness, running_group_api
from tests.server.wire_client import wait_until


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
    async with running_group_api(store) as group_api:
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


async def test_a_group_that_does_not_exist_is_an_error_since_describe_v6(group_api: GroupApiHarness) -> None:
    older = await group_api.call(DescribeGroupsRequest(groups=["g"]), 5)
    newer = await group_api.call(DescribeGroupsRequest(groups=["g"]), 6)
    assert (older.groups[0].group_state, older.groups[0].error_code) == ("Dead", 0)
    assert (newer.groups[0].group_state, newer.groups[0].error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)


@behaviour("validation.sync.v5-needs-protocol-fields")
async def test_a_sync_v5_without_protocol_type_is_refused_before_the_group_is_looked_up(
    group_api: GroupApiHarness,
) -> None:
    response = await group_api.call(
        SyncGroupRequest(group_id="g", generation_id=1, member_id="m", protocol_name="range"), 5
    )
    assert (response.error_code, response.assignment) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, b"")


@behaviour("leave.unknown-group.v0-v2")
@pytest.mark.parametrize("version", [0, 1, 2])
async def test_a_leave_before_v3_has_its_error_at_the_top_level(group_api: GroupApiHarness, version: int) -> None:
    response = await group_api.call(LeaveGroupRequest(group_id="g", member_id="m1"), version)
    assert response.error_code == ErrorCode.UNKNOWN_MEMBER_ID


@behaviour("join.member-id-format")
async def test_a_member_id_begins_with_the_client_id_or_the_instance_id(group_api: GroupApiHarness) -> None:
    dynamic = await group_api.call(join_request("g"), 9)
    static = await group_api.call(join_request("h", group_instance_id="i1"), 9)
    assert dynamic.member_id.startswith("test-")
    assert static.member_id.startswith("i1-")
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
    assert [each.error_code for each in response.results] == [
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.NONE,
        ErrorCode.GROUP_ID_NOT_FOUND,
    ]
    assert (await group_api.call(DeleteGroupsRequest(groups_names=[]))).results == []


@behaviour("validation.find-coordinator.versions")
async def test_find_coordinator_has_one_key_before_v4_and_several_since(group_api: GroupApiHarness) -> None:
    await group_api.call(FindCoordinatorRequest(coordinator_keys=["g"]))  # the first request creates the offsets topic
    one = await group_api.call(FindCoordinatorRequest(key="g"), 3)
    many = await group_api.call(FindCoordinatorRequest(coordinator_keys=["g", "h"]), 4)
    assert (one.error_code, (one.host, one.port)) == (0, group_api.cluster.address)
    assert [(each.key, each.error_code, each.error_message) for each in many.coordinators] == [
        ("g", 0, None),
        ("h", 0, None),
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
