"""What the broker decides about group requests before, or after, the coordinator: versions, topics, lists."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest

from regroup.coordinator.settings import Settings
from regroup.protocol.errors import ErrorCode
from regroup.protocol.fields import NO_UUID
from regroup.protocol.messages.cluster import FindCoordinatorRequest
from regroup.protocol.messages.describe import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListedGroup,
    ListGroupsRequest,
)
from regroup.protocol.messages.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from regroup.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from regroup.server.clock import Clock
from regroup.server.emulator import Emulator
from regroup.storage.memory import MemoryStore
from regroup.tests.coordinator.story import behaviour
from regroup.tests.server.client import Client

OFFSET_COMMIT_VERSIONS = range(1, 11)


class Door:
    """A running emulator with topic `orders` of three partitions, and one client."""

    def __init__(self, emulator: Emulator, client: Client) -> None:
        self.emulator, self.client = emulator, client

    async def call(self, request: Any, version: int | None = None) -> Any:
        return await self.client.call(request, version)

    async def commit(self, group: str, version: int = 9, **partitions: list[int]) -> Any:
        return await self.call(commit_request(group, self, version, partitions), version)

    async def has_a_member(self, group: str) -> str:
        """Somebody joins and syncs; the group is Stable at generation 1."""
        answer = await self.call(join_request(group), 3)
        share = [SyncGroupRequestAssignment(member_id=answer.member_id, assignment=b"mine")]
        await self.call(
            SyncGroupRequest(group_id=group, generation_id=1, member_id=answer.member_id, assignments=share), 3
        )
        return str(answer.member_id)

    def topic_id(self, name: str) -> bytes:
        topic = self.emulator.cluster.topic(name, NO_UUID)
        return topic.id_bytes if topic else b"\xff" * 16

    async def listed(self, **filters: list[str]) -> list[ListedGroup]:
        return list((await self.call(ListGroupsRequest(**filters))).groups)


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    ids = itertools.count(1)
    store = MemoryStore()
    emulator = Emulator(
        store.open,
        clock=Clock(started_at_ms=1_700_000_000_000, monotonic_s=lambda: 0.0),
        new_uuid=lambda: UUID(int=next(ids)),
        settings=Settings(group_initial_rebalance_delay_ms=0),
    )
    await emulator.start()
    await emulator.ensure_topic("orders", 3)
    client = Client(*await asyncio.open_connection(*emulator.address))
    yield Door(emulator, client)
    await client.close()
    await emulator.close()


def join_request(group: str, **fields: Any) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        **fields,
    )


def commit_request(group: str, door: Door, version: int, partitions: dict[str, list[int]]) -> OffsetCommitRequest:
    """Commits offset 7 of each partition; by the topic's id from v10 on."""
    return OffsetCommitRequest(
        group_id=group,
        topics=[
            OffsetCommitRequestTopic(
                name=topic if version < 10 else "",
                topic_id=door.topic_id(topic) if version >= 10 else NO_UUID,
                partitions=[OffsetCommitRequestPartition(partition_index=each, committed_offset=7) for each in numbers],
            )
            for topic, numbers in partitions.items()
        ],
    )


def codes(answer: Any) -> dict[tuple[str, int], int]:
    return {(topic.name, each.partition_index): each.error_code for topic in answer.topics for each in topic.partitions}


@behaviour("offset-commit.unknown-topic")
async def test_a_commit_of_partitions_that_do_not_exist_is_answered_for_each_of_them(door: Door) -> None:
    answer = await door.commit("g", nope=[0], orders=[9, 0])
    assert codes(answer) == {("nope", 0): 3, ("orders", 9): 3, ("orders", 0): 0}


@behaviour("offset-commit.nothing-left-skips-coordinator")
async def test_a_commit_of_nothing_that_exists_does_not_even_ask_who_commits(door: Door) -> None:
    request = commit_request("g", door, 9, {"nope": [0]})
    answer = await door.call(
        OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=99, member_id="bogus", topics=request.topics),
        9,
    )
    assert codes(answer) == {("nope", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


@pytest.mark.parametrize("version", OFFSET_COMMIT_VERSIONS)
async def test_what_one_version_commits_every_version_of_fetch_finds(door: Door, version: int) -> None:
    await door.commit("g", version, orders=[2])
    for fetch in range(1, 8):
        topics = [OffsetFetchRequestTopic(name="orders", partition_indexes=[2, 1])]
        answer = await door.call(OffsetFetchRequest(group_id="g", topics=topics), fetch)
        assert [each.committed_offset for each in answer.topics[0].partitions] == [7, -1]
    for fetch in range(8, 11):
        by_id = fetch >= 10
        asked = OffsetFetchRequestTopics(
            name="" if by_id else "orders",
            topic_id=door.topic_id("orders") if by_id else NO_UUID,
            partition_indexes=[2],
        )
        groups = [OffsetFetchRequestGroup(group_id="g", topics=[asked])]
        answer = await door.call(OffsetFetchRequest(groups=groups), fetch)
        assert answer.groups[0].topics[0].partitions[0].committed_offset == 7


async def test_a_topic_id_that_belongs_to_no_topic_is_told_apart(door: Door) -> None:
    committed = await door.commit("g", 10, nope=[0])
    assert committed.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    asked = [OffsetFetchRequestTopics(topic_id=b"\xff" * 16, partition_indexes=[4])]
    answer = await door.call(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=asked)]), 10)
    assert answer.groups[0].topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


@behaviour("offset-fetch.batched-groups")
async def test_one_fetch_may_ask_for_many_groups(door: Door) -> None:
    await door.commit("g1", orders=[0])
    await door.commit("g2", orders=[1])
    groups = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in ("g2", "g1", "g3")]
    answer = await door.call(OffsetFetchRequest(groups=groups), 9)
    found = [(each.group_id, [p.partition_index for t in each.topics for p in t.partitions]) for each in answer.groups]
    assert found == [("g2", [1]), ("g1", [0]), ("g3", [])]


@behaviour("offset-delete.unknown-partition")
async def test_deleting_the_offset_of_a_partition_that_does_not_exist_gives_3_unless_the_group_says_otherwise(
    door: Door,
) -> None:
    topics = [OffsetDeleteRequestTopic(name="nope", partitions=[OffsetDeleteRequestPartition(partition_index=0)])]
    unknown_group = await door.call(OffsetDeleteRequest(group_id="g", topics=topics))
    assert (unknown_group.error_code, unknown_group.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, [])
    await door.commit("g", orders=[0])
    assert codes(await door.call(OffsetDeleteRequest(group_id="g", topics=topics))) == {("nope", 0): 3}


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


@pytest.mark.parametrize("version", range(10))
async def test_a_group_forms_in_every_version_of_its_requests(door: Door, version: int) -> None:
    """JoinGroup, SyncGroup, Heartbeat and LeaveGroup in the version that came with this JoinGroup, or the last."""
    joined = await door.call(join_request("g"), version)
    if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
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
