"""Stories about committing offsets to consumer groups with member epochs."""

from regroup.conformance.harness.broker_under_test import ABSENT_TOPIC, FOO_0, SIX_TOPIC
from regroup.conformance.harness.cases import case
from regroup.conformance.harness.consumer_group import LOW, ConsumerProtocolGroup, expect_answer
from regroup.conformance.harness.consumer_groups import (
    ORDINARY,
    away,
    group_of_one,
    revoking,
    settled,
    static_pair,
)
from regroup.conformance.harness.expect import (
    PartitionKey,
    expect,
    expect_equal,
    expect_error,
    expect_every_partition,
    expect_partition_errors,
)
from regroup.conformance.harness.member import offset_commit_topics
from regroup.conformance.harness.offsets import (
    expect_committed,
)
from regroup.conformance.harness.story import StoryContext
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.messages.offsets import OffsetCommitRequest, OffsetCommitRequestTopic, OffsetCommitResponse

SIX_0, SIX_1, SIX_3, SIX_5 = ((SIX_TOPIC, number) for number in (0, 1, 3, 5))


async def expect_commit(
    group: ConsumerProtocolGroup,
    member_id: str,
    epoch: int,
    *partitions: PartitionKey,
    error: int = E.NONE,
    version: int | None = None,
) -> None:
    """Send an OffsetCommit, and expect this error code for each of its partitions."""
    response = await group.commit(member_id, epoch, *partitions, version=version)
    expect_every_partition(response, error)


@case("cg.oc.current-epoch", 1, required_settings=ORDINARY)
async def commit_with_current_epoch(story: StoryContext) -> None:
    """A member commits with its current epoch, for any partition that exists."""
    group = await group_of_one(story)
    await expect_commit(group, "m1", group.epoch, SIX_0, FOO_0)
    await expect_committed(story, SIX_0, 1)


@case("cg.oc.v10-by-topic-id", 1, required_settings=ORDINARY)
async def commit_by_topic_id(story: StoryContext) -> None:
    """Since v10 topics are named by their ids, in the response as well."""
    group = await group_of_one(story)
    response = await group.commit("m1", group.epoch, SIX_0, version=10)
    (topic,) = response.topics
    expect(topic, name="", topic_id=story.target.topic_ids[SIX_TOPIC])
    expect_error("partition", E.NONE, topic.partitions[0].error_code)
    await expect_committed(story, SIX_0, 1)


@case("cg.oc.v10-unknown-topic-id", 2, required_settings=ORDINARY)
async def commit_by_unknown_topic_id(story: StoryContext) -> None:
    """An unknown topic id is refused for its partitions alone."""
    group = await group_of_one(story)
    response = await group.commit("m1", group.epoch, (ABSENT_TOPIC, 0), SIX_0, version=10)
    codes = sorted(each.error_code for topic in response.topics for each in topic.partitions)
    expect_equal("error codes", [E.NONE, E.UNKNOWN_TOPIC_ID], codes)


@case("cg.oc.unknown-topic-by-name", 2, required_settings=ORDINARY)
async def commit_of_unknown_topic(story: StoryContext) -> None:
    """An unknown topic is refused for its partitions alone, and before the epoch is looked at."""
    group = await group_of_one(story)
    response = await group.commit("m1", group.epoch, (ABSENT_TOPIC, 0), SIX_0)
    expect_partition_errors(response, {(ABSENT_TOPIC, 0): E.UNKNOWN_TOPIC_OR_PARTITION, SIX_0: E.NONE})
    response = await group.commit("m1", group.epoch + 7, (ABSENT_TOPIC, 0), SIX_0)
    expect_partition_errors(response, {(ABSENT_TOPIC, 0): E.UNKNOWN_TOPIC_OR_PARTITION, SIX_0: E.STALE_MEMBER_EPOCH})


@case("cg.oc.v8", 1, required_settings=ORDINARY)
async def commit_in_older_version(story: StoryContext) -> None:
    """Members of the consumer protocol cannot commit with versions before v9; the member is looked up first."""
    group = await group_of_one(story)
    await expect_commit(group, "m1", group.epoch, SIX_0, error=E.UNSUPPORTED_VERSION, version=8)
    await expect_commit(group, "mx", group.epoch, SIX_0, error=E.UNKNOWN_MEMBER_ID, version=8)


@case("cg.oc.unknown-member", 1, required_settings=ORDINARY)
async def commit_of_stranger(story: StoryContext) -> None:
    """An unknown member cannot commit."""
    group = await group_of_one(story)
    await expect_commit(group, "mx", group.epoch, SIX_0, error=E.UNKNOWN_MEMBER_ID)


@case("cg.oc.admin-while-members", 1, required_settings=ORDINARY)
async def commit_without_member_while_there_are_members(story: StoryContext) -> None:
    """Without a member nothing can be committed while the group has members."""
    group = await group_of_one(story)
    await expect_commit(group, "", -1, SIX_0, error=E.UNKNOWN_MEMBER_ID)


@case("cg.oc.admin-on-empty-group", 1, required_settings=ORDINARY)
async def commit_without_member_to_empty_group(story: StoryContext) -> None:
    """Offsets of an Empty group can be committed without a member, in any version."""
    group = await group_of_one(story)
    await group.leave("m1")
    for version in (2, 8, 9):
        await expect_commit(group, "", -1, SIX_0, version=version)


@case("cg.oc.any-id-with-minus-one-on-empty-group", 3, required_settings=ORDINARY)
async def commit_with_any_member_id_to_empty_group(story: StoryContext) -> None:
    """To an Empty group any member id may commit, if its epoch is negative."""
    group = await group_of_one(story)
    await group.leave("m1")
    await expect_commit(group, "mx", -1, SIX_0)


@case("cg.oc.former-member-on-empty-group", 2, required_settings=ORDINARY)
async def commit_of_former_member(story: StoryContext) -> None:
    """A former member cannot commit with its last epoch."""
    group = await group_of_one(story)
    await group.leave("m1")
    await expect_commit(group, "m1", group.epoch, SIX_0, error=E.UNKNOWN_MEMBER_ID)


@case("cg.oc.greater-epoch", 1, required_settings=ORDINARY)
async def commit_with_greater_epoch(story: StoryContext) -> None:
    """An epoch that the member has not reached is stale, too."""
    group = await group_of_one(story)
    await expect_commit(group, "m1", group.epoch + 1, SIX_0, error=E.STALE_MEMBER_EPOCH)


@case("cg.oc.older-epoch-partition-kept", 1, required_settings=ORDINARY)
async def commit_of_kept_partition(story: StoryContext) -> None:
    """With an older epoch a member may commit what it has owned since then (KIP-1251)."""
    group = await settled(story)
    await expect_commit(group, "m1", group.epoch - 1, SIX_0)


@case("cg.oc.older-epoch-partition-lost", 1, required_settings=ORDINARY)
async def commit_of_lost_partition(story: StoryContext) -> None:
    """With an older epoch a member cannot commit what it has released."""
    group = await settled(story)
    await expect_commit(group, "m1", group.epoch - 1, SIX_5, error=E.STALE_MEMBER_EPOCH)


@case("cg.oc.older-epoch-mixed", 1, required_settings=ORDINARY)
async def commit_of_kept_and_lost_partitions(story: StoryContext) -> None:
    """One partition that was released fails the whole request, and nothing of it is stored."""
    group = await settled(story)
    await expect_commit(group, "m1", group.epoch - 1, SIX_0, SIX_5, error=E.STALE_MEMBER_EPOCH)
    await expect_committed(story, SIX_0, -1)


@case("cg.oc.epoch-before-the-partition", 2, required_settings=ORDINARY)
async def commit_with_epoch_before_assignment(story: StoryContext) -> None:
    """A partition cannot be committed with an epoch from before the member got it."""
    group = await settled(story)
    await expect_commit(group, "m2", group.epoch - 1, SIX_5, error=E.STALE_MEMBER_EPOCH)


@case("cg.oc.older-than-the-assignment", 2, required_settings=ORDINARY)
async def commit_with_much_older_epoch(story: StoryContext) -> None:
    """A kept partition cannot be committed with an epoch from before the member had it."""
    group = await settled(story)
    await expect_commit(group, "m1", group.epoch - 2, SIX_0, error=E.STALE_MEMBER_EPOCH)


@case("cg.oc.pending-revocation", 1, required_settings=ORDINARY)
async def commit_of_partition_to_release(story: StoryContext) -> None:
    """What a member has to release it may still commit."""
    group = await revoking(story)
    await expect_commit(group, "m1", group.epoch - 1, SIX_5)


@case("cg.oc.pending-revocation-older-epoch", 3, required_settings=ORDINARY)
async def commit_of_partition_to_release_with_older_epoch(story: StoryContext) -> None:
    """What a member has to release it may commit with an older epoch, too, if it had it then."""
    group = await group_of_one(story)
    expect_answer(await group.beat("m1", group.epoch, assignor="range"), epoch=group.epoch + 1)
    await group.join("m2")
    expect_answer(await group.beat("m1", group.epoch + 1), epoch=group.epoch + 1, assignment=LOW)
    await expect_commit(group, "m1", group.epoch, SIX_5)


@case("cg.oc.minus-one-with-member-id", 3, required_settings=ORDINARY)
async def commit_with_negative_epoch(story: StoryContext) -> None:
    """Epoch -1 with a member id is an older epoch like any other."""
    group = await group_of_one(story)
    await expect_commit(group, "m1", -1, SIX_0, error=E.STALE_MEMBER_EPOCH)


@case("cg.oc.static-member-away", 2, required_settings=ORDINARY)
async def commit_of_member_away(story: StoryContext) -> None:
    """A member that left for a while cannot commit with its last epoch."""
    group = await away(story)
    await expect_commit(group, "m2", group.epoch, SIX_5, error=E.STALE_MEMBER_EPOCH)


@case("cg.oc.static-member-back", 3, required_settings=ORDINARY)
async def commit_of_returned_member(story: StoryContext) -> None:
    """The partitions of a static member that returned count as its own since epoch 0."""
    group = await away(story)
    expect_answer(await group.join("m2b", instance_id="i2"), epoch=group.epoch)
    await expect_commit(group, "m2b", group.epoch - 1, SIX_3)


@case("cg.oc.unknown-group-with-epoch-v9", 2, required_settings=ORDINARY)
async def commit_to_unknown_group(story: StoryContext) -> None:
    """Since v9 a commit with an epoch to a group that does not exist gets GROUP_ID_NOT_FOUND."""
    group = await ConsumerProtocolGroup.begin(story)
    await expect_commit(group, "m1", 1, SIX_0, error=E.GROUP_ID_NOT_FOUND)


@case("cg.oc.unknown-group-with-epoch-v8", 2, required_settings=ORDINARY)
async def commit_to_unknown_group_in_older_version(story: StoryContext) -> None:
    """Up to v8 a commit with an epoch to a group that does not exist gets ILLEGAL_GENERATION."""
    group = await ConsumerProtocolGroup.begin(story)
    await expect_commit(group, "m1", 1, SIX_0, error=E.ILLEGAL_GENERATION, version=8)


@case("cg.oc.instance-id-is-not-looked-at", 3, required_settings=ORDINARY)
async def commit_with_foreign_instance_id(story: StoryContext) -> None:
    """The instance id of a commit is not looked at."""
    group = await static_pair(story)
    topics: list[OffsetCommitRequestTopic] = offset_commit_topics({SIX_3: 1})
    request = OffsetCommitRequest(
        group_id=story.group_id,
        generation_id_or_member_epoch=group.epoch,
        member_id="m2",
        group_instance_id="i9",
        topics=topics,
    )
    expect_every_partition(await story.send(request, OffsetCommitResponse, version=9), E.NONE)
