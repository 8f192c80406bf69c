"""Requests about offsets, as the broker adapts them: unknown topics, topic ids, API versions, several groups."""

from typing import Any

import pytest

from regroup.protocol.errors import ErrorCode
from regroup.protocol.fields import NO_UUID
from regroup.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.coordinator.group_harness import behaviour
from tests.server.group_api_harness import GroupApiHarness, commit_request

OFFSET_COMMIT_VERSIONS = range(1, 11)


def codes(response: Any) -> dict[tuple[str, int], int]:
    return {
        (topic.name, each.partition_index): each.error_code for topic in response.topics for each in topic.partitions
    }


@behaviour("offset-commit.unknown-topic")
async def test_a_commit_has_an_error_for_each_partition_that_does_not_exist(
    group_api: GroupApiHarness,
) -> None:
    response = await group_api.commit("g", nope=[0], orders=[9, 0])
    assert codes(response) == {("nope", 0): 3, ("orders", 9): 3, ("orders", 0): 0}


@behaviour("offset-commit.nothing-left-skips-coordinator")
async def test_a_commit_without_existing_partitions_does_not_check_the_member(group_api: GroupApiHarness) -> None:
    request = commit_request("g", group_api, 9, {"nope": [0]})
    response = await group_api.call(
        OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=99, member_id="bogus", topics=request.topics),
        9,
    )
    assert codes(response) == {("nope", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


@pytest.mark.parametrize("version", OFFSET_COMMIT_VERSIONS)
async def test_offsets_of_every_commit_version_are_returned_by_every_fetch_version(
    group_api_of_any_release: GroupApiHarness, version: int
) -> None:
    group_api = group_api_of_any_release
    await group_api.commit("g", version, orders=[2])
    for fetch in range(1, 8):
        topics = [OffsetFetchRequestTopic(name="orders", partition_indexes=[2, 1])]
        response = await group_api.call(OffsetFetchRequest(group_id="g", topics=topics), fetch)
        assert [each.committed_offset for each in response.topics[0].partitions] == [7, -1]
    for fetch in range(8, 11):
        by_id = fetch >= 10
        asked = OffsetFetchRequestTopics(
            name="" if by_id else "orders",
            topic_id=group_api.topic_id("orders") if by_id else NO_UUID,
            partition_indexes=[2],
        )
        groups = [OffsetFetchRequestGroup(group_id="g", topics=[asked])]
        response = await group_api.call(OffsetFetchRequest(groups=groups), fetch)
        assert response.groups[0].topics[0].partitions[0].committed_offset == 7


async def test_an_unknown_topic_id_has_its_own_code(group_api: GroupApiHarness) -> None:
    committed = await group_api.commit("g", 10, nope=[0])
    assert committed.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    asked = [OffsetFetchRequestTopics(topic_id=b"\xff" * 16, partition_indexes=[4])]
    response = await group_api.call(
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=asked)]), 10
    )
    assert response.groups[0].topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


@behaviour("offset-fetch.batched-groups")
async def test_a_fetch_may_name_several_groups(group_api: GroupApiHarness) -> None:
    await group_api.commit("g1", orders=[0])
    await group_api.commit("g2", orders=[1])
    groups = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in ("g2", "g1", "g3")]
    response = await group_api.call(OffsetFetchRequest(groups=groups), 9)
    found = [
        (each.group_id, [p.partition_index for t in each.topics for p in t.partitions]) for each in response.groups
    ]
    assert found == [("g2", [1]), ("g1", [0]), ("g3", [])]


@behaviour("offset-delete.unknown-partition")
async def test_deleting_the_offset_of_an_unknown_partition_gives_3_unless_the_group_has_an_error(
    group_api: GroupApiHarness,
) -> None:
    topics = [OffsetDeleteRequestTopic(name="nope", partitions=[OffsetDeleteRequestPartition(partition_index=0)])]
    unknown_group = await group_api.call(OffsetDeleteRequest(group_id="g", topics=topics))
    assert (unknown_group.error_code, unknown_group.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, [])
    await group_api.commit("g", orders=[0])
    assert codes(await group_api.call(OffsetDeleteRequest(group_id="g", topics=topics))) == {("nope", 0): 3}
