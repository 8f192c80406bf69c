"""Stories about requests that no client library sends: names twice or empty, unknown versions and ids."""

from msgspec.structs import replace

from regroup.conformance.harness.broker_under_test import BAR_0, BAR_TOPIC, FOO_0, FOO_1, FOO_TOPIC
from regroup.conformance.harness.cases import case
from regroup.conformance.harness.expect import expect, expect_equal, expect_partition_errors
from regroup.conformance.harness.groups import empty_group
from regroup.conformance.harness.member import ConformanceMember
from regroup.conformance.harness.offsets import admin_commit, delete_offsets, expect_committed
from regroup.conformance.harness.story import StoryContext, subscription_of
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.fields import NO_UUID
from regroup.protocol.messages.cluster import MetadataRequest, MetadataRequestTopic, MetadataResponse
from regroup.protocol.messages.describe import DeleteGroupsRequest, DeleteGroupsResponse
from regroup.protocol.messages.group import JoinGroupRequestProtocol, JoinGroupResponse
from regroup.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)

FOUND_BY_PROBES = "Not in the catalogue; found by probes with requests that no client library sends."
ABSENT_PARTITION = 99


async def join_with(story: StoryContext, *names: str) -> JoinGroupResponse:
    """Send a JoinGroup v3 with assignors of these names, and return the response.

    The metadata of each assignor is its position in the list.
    """
    request = ConformanceMember(story, "anna").join_group_request()
    protocols = [JoinGroupRequestProtocol(name=name, metadata=b"%d" % each) for each, name in enumerate(names)]
    return await story.send(replace(request, protocols=protocols), JoinGroupResponse, version=3)


@case("protocol.name-twice", 3, correction=FOUND_BY_PROBES)
async def assignor_named_twice(story: StoryContext) -> None:
    """An assignor that a member names twice is never selected."""
    response = await join_with(story, "range", "roundrobin", "range")
    expect(response, error=E.NONE, generation_id=1, protocol_name="roundrobin")
    expect_equal("metadata of the member", [b"1"], [each.metadata for each in response.members])


@case("protocol.empty-name", 3, correction=FOUND_BY_PROBES)
async def assignor_without_name(story: StoryContext) -> None:
    """An assignor may have the empty name, which is null in JoinGroup responses since v7."""
    for name, version, protocol_name in (("old", 6, ""), ("new", 7, None)):
        story.use_group(name)
        member = ConformanceMember(story, "anna", instance_id=f"i-{name}", protocols={"": b"mine"})
        response = await member.join_group(version=version)
        expect(response, error=E.NONE, generation_id=1, protocol_name=protocol_name)


@case("protocol.negative-subscription-version", 3, correction=FOUND_BY_PROBES)
async def subscription_with_negative_version(story: StoryContext) -> None:
    """The topics of a subscription with a negative version are read like those of version 0."""
    await admin_commit(story, {FOO_0: 1, BAR_0: 1})
    metadata = (-1).to_bytes(2, "big", signed=True) + subscription_of(BAR_TOPIC)[2:]
    await ConformanceMember(story, "anna", protocols={"range": metadata}).join_group(version=3)
    response = await delete_offsets(story, FOO_0, BAR_0)
    expect_partition_errors(response, {FOO_0: E.NONE, BAR_0: E.GROUP_SUBSCRIBED_TO_TOPIC})


@case("describe.missing-group-v6", 2, correction=FOUND_BY_PROBES)
async def describe_group_that_does_not_exist(story: StoryContext) -> None:
    """Since v6 DescribeGroups has an error for a group that does not exist; it is still called Dead."""
    expect(await story.describe(version=5), error=E.NONE, group_state="Dead")
    expect(await story.describe(version=6), error=E.GROUP_ID_NOT_FOUND, group_state="Dead")


@case("delete.group-twice", 3, correction=FOUND_BY_PROBES)
async def delete_group_named_twice(story: StoryContext) -> None:
    """A group that a DeleteGroups names twice is deleted and answered once."""
    await empty_group(story)
    response = await story.send(DeleteGroupsRequest(groups_names=[story.group_id] * 2), DeleteGroupsResponse)
    found = [(result.group_id, result.error_code) for result in response.results]
    expect_equal("results", [(story.group_id, E.NONE)], found)


@case("delete.empty-group-id", 3, correction=FOUND_BY_PROBES)
async def delete_group_without_name(story: StoryContext) -> None:
    """The group with the empty id, which an OffsetCommit creates, can be deleted."""
    story.group_id = ""
    await admin_commit(story, {FOO_0: 1})
    response = await story.send(DeleteGroupsRequest(groups_names=[""]), DeleteGroupsResponse)
    expect(response.results[0], error=E.NONE, group_id="")
    expect(await story.describe(), group_state="Dead")


@case("offset-delete.topic-twice", 2, correction=FOUND_BY_PROBES)
async def delete_offsets_of_topic_named_twice(story: StoryContext) -> None:
    """An OffsetDelete that names a topic twice deletes the offsets of all its partitions."""
    await admin_commit(story, {FOO_0: 1, FOO_1: 2, BAR_0: 3})
    topics = [
        OffsetDeleteRequestTopic(name=name, partitions=[OffsetDeleteRequestPartition(partition_index=number)])
        for name, number in (FOO_0, BAR_0, FOO_1)
    ]
    request = OffsetDeleteRequest(group_id=story.group_id, topics=topics)
    response = await story.send(request, OffsetDeleteResponse)
    expect_partition_errors(response, {FOO_0: E.NONE, BAR_0: E.NONE, FOO_1: E.NONE})
    for partition in (FOO_0, FOO_1, BAR_0):
        await expect_committed(story, partition, -1)


@case("offset-commit.unknown-topic-id", 2, correction=FOUND_BY_PROBES)
async def commit_by_topic_id(story: StoryContext) -> None:
    """By topic id, a partition that does not exist and an unknown id have different errors."""
    wanted = MetadataRequest(topics=[MetadataRequestTopic(name=FOO_TOPIC)])
    topic_id = (await story.send(wanted, MetadataResponse, version=12)).topics[0].topic_id
    for named, number, error in (
        (topic_id, 0, E.NONE),
        (topic_id, ABSENT_PARTITION, E.UNKNOWN_TOPIC_OR_PARTITION),
        (NO_UUID, 0, E.UNKNOWN_TOPIC_ID),
        (b"\x07" * 16, 0, E.UNKNOWN_TOPIC_ID),
    ):
        partition = OffsetCommitRequestPartition(partition_index=number, committed_offset=1)
        request = OffsetCommitRequest(
            group_id=story.group_id, topics=[OffsetCommitRequestTopic(topic_id=named, partitions=[partition])]
        )
        response = await story.send(request, OffsetCommitResponse, version=10)
        codes = [each.error_code for topic in response.topics for each in topic.partitions]
        expect_equal(f"error codes of partition {number}", [error], codes)
