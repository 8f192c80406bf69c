"""What the broker decides about offsets before, or after, the coordinator: topics, their ids, versions, many groups."""

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
from tests.coordinator.story import behaviour
from tests.server.door import Door, commit_request

OFFSET_COMMIT_VERSIONS = range(1, 11)


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
