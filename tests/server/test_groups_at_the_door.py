"""What the broker decides about group requests before, or after, the coordinator: versions and lists."""

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
from tests.coordinator.story import behaviour
from tests.server.client import until
from tests.server.door import Door, join_request, opened


@behaviour("list.all", "list.simple-group")
async def test_every_group_is_listed_with_its_state_and_type(door: Door) -> None:
    await door.has_a_member("g1")
    await door.commit("simple", orders=[0])
    rows = [(each.group_id, each.protocol_type, each.group_state, each.group_type) for each in await door.listed()]
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
    door: Door, filters: dict[str, list[str]], names: list[str]
) -> None:
    await door.has_a_member("g1")
    await door.commit("simple", orders=[0])
    assert [each.group_id for each in await door.listed(**filters)] == names


class StoreThatLoadsSlowly(MemoryStore):
    """Waits at a gate before each reign, and with it the groups that are being loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()

    async def next_reign(self) -> int:
        await self.gate.wait()
        return await super().next_reign()


@behaviour("recovery.loading-answers")
async def test_there_is_no_list_while_groups_are_loaded() -> None:
    store = StoreThatLoadsSlowly()
    async with opened(store) as door:
        await door.has_a_member("g1")
        store.gate.clear()
        door.emulator.journal.give_up(StoreFailed("the disk is gone"))
        loading = await door.call(ListGroupsRequest())
        assert (loading.error_code, loading.groups) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])
        store.gate.set()
        await until(lambda: door.emulator.shares.coordinators[0].is_ready)
        assert [each.group_id for each in await door.listed()] == ["g1"]


@behaviour("describe.authorized-operations")
async def test_what_one_may_do_is_told_only_if_asked(door: Door) -> None:
    await door.has_a_member("g")
    silent = await door.call(DescribeGroupsRequest(groups=["g"]), 5)
    told = await door.call(DescribeGroupsRequest(groups=["g"], include_authorized_operations=True), 5)
    assert silent.groups[0].authorized_operations == -(2**31)
    assert told.groups[0].authorized_operations & 1 << 8, "everybody may describe the group"


async def test_a_group_that_does_not_exist_is_an_error_since_describe_v6(door: Door) -> None:
    older = await door.call(DescribeGroupsRequest(groups=["g"]), 5)
    newer = await door.call(DescribeGroupsRequest(groups=["g"]), 6)
    assert (older.groups[0].group_state, older.groups[0].error_code) == ("Dead", 0)
    assert (newer.groups[0].group_state, newer.groups[0].error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)


@behaviour("validation.sync.v5-needs-protocol-fields")
async def test_a_sync_of_v5_must_name_type_and_protocol_even_of_an_unknown_group(door: Door) -> None:
    answer = await door.call(SyncGroupRequest(group_id="g", generation_id=1, member_id="m", protocol_name="range"), 5)
    assert (answer.error_code, answer.assignment) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, b"")


@behaviour("leave.unknown-group.v0-v2")
@pytest.mark.parametrize("version", [0, 1, 2])
async def test_the_only_code_of_an_old_leave_stands_at_the_top(door: Door, version: int) -> None:
    answer = await door.call(LeaveGroupRequest(group_id="g", member_id="m1"), version)
    assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


@behaviour("join.member-id-format")
async def test_a_member_id_begins_with_the_name_of_the_client_or_of_the_instance(door: Door) -> None:
    dynamic = await door.call(join_request("g"), 9)
    static = await door.call(join_request("h", group_instance_id="i1"), 9)
    assert dynamic.member_id.startswith("test-")
    assert static.member_id.startswith("i1-")
    assert len(dynamic.member_id) == len("test-") + 36


@behaviour("validation.join.error-body-by-version")
@pytest.mark.parametrize("version", range(10))
async def test_a_refused_join_has_no_protocol_empty_before_v7_and_null_since(door: Door, version: int) -> None:
    answer = await door.call(join_request("g", member_id="nope"), version)
    assert (answer.error_code, answer.generation_id, answer.leader) == (ErrorCode.UNKNOWN_MEMBER_ID, -1, "")
    assert answer.protocol_name == ("" if version < 7 else None)


async def test_in_v0_the_session_timeout_is_the_rebalance_timeout_too(door: Door) -> None:
    await door.call(join_request("oldest"), 0)
    await door.call(join_request("old"), 1)
    groups = {group.name: group.rebalance_timeout_ms for group in door.emulator.shares.coordinators[0].groups()}
    assert groups == {"oldest": 10_000, "old": 60_000}


@pytest.mark.parametrize("version", range(10))
async def test_a_group_forms_in_every_version_of_its_requests(door: Door, version: int) -> None:
    """JoinGroup, SyncGroup, Heartbeat and LeaveGroup in the version that came with this JoinGroup, or the last."""
    joined = await door.call(join_request("g"), version)
    assert joined.error_code == (ErrorCode.MEMBER_ID_REQUIRED if version >= 4 else ErrorCode.NONE)
    if version >= 4:
        joined = await door.call(join_request("g", member_id=joined.member_id), version)
    assert (joined.generation_id, joined.leader, len(joined.members)) == (1, joined.member_id, 1)
    share = [SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"mine")]
    sync = SyncGroupRequest(
        group_id="g",
        generation_id=1,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=share,
    )
    assert (await door.call(sync, min(version, 5))).assignment == b"mine"
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=joined.member_id)
    assert (await door.call(beat, min(version, 4))).error_code == 0
    assert (
        await door.call(LeaveGroupRequest(group_id="g", member_id=joined.member_id), min(version, 2))
    ).error_code == 0


@pytest.mark.parametrize("version", [5, 8, 9])
async def test_a_static_leader_that_came_back_is_asked_not_to_assign_since_v9_and_led_astray_before(
    door: Door, version: int
) -> None:
    first = await door.call(join_request("g", group_instance_id="till"), version)
    share = [SyncGroupRequestAssignment(member_id=first.member_id, assignment=b"mine")]
    await door.call(SyncGroupRequest(group_id="g", generation_id=1, member_id=first.member_id, assignments=share), 3)
    again = await door.call(join_request("g", group_instance_id="till"), version)
    assert (again.error_code, again.generation_id) == (ErrorCode.NONE, 1)
    assert again.skip_assignment == (version >= 9)
    assert again.leader == (again.member_id if version >= 9 else first.member_id)


async def test_groups_are_deleted_each_with_its_own_code(door: Door) -> None:
    await door.has_a_member("busy")
    await door.commit("idle", orders=[0])
    answer = await door.call(DeleteGroupsRequest(groups_names=["busy", "idle", "nobody"]))
    assert [each.error_code for each in answer.results] == [
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.NONE,
        ErrorCode.GROUP_ID_NOT_FOUND,
    ]
    assert (await door.call(DeleteGroupsRequest(groups_names=[]))).results == []


@behaviour("validation.find-coordinator.versions")
async def test_one_key_is_looked_up_before_v4_and_many_since(door: Door) -> None:
    await door.call(FindCoordinatorRequest(coordinator_keys=["g"]))  # the first to ask makes the offsets topic
    one = await door.call(FindCoordinatorRequest(key="g"), 3)
    many = await door.call(FindCoordinatorRequest(coordinator_keys=["g", "h"]), 4)
    assert (one.error_code, (one.host, one.port)) == (0, door.emulator.address)
    assert [(each.key, each.error_code, each.error_message) for each in many.coordinators] == [
        ("g", 0, None),
        ("h", 0, None),
    ]


@behaviour("validation.find-coordinator.offsets-topic-missing")
async def test_the_first_to_look_up_a_coordinator_makes_the_offsets_topic_and_must_ask_again(door: Door) -> None:
    answer = await door.call(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
    first = answer.coordinators[0]
    assert (first.error_code, first.node_id, first.host, first.port) == (
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        -1,
        "",
        -1,
    )
