"""Stories about reading, deleting and expiry of offsets of consumer groups, and about offsets of transactions."""

from regroup.conformance.harness.broker_under_test import ABSENT_TOPIC, BAR_0, SIX_TOPIC
from regroup.conformance.harness.cases import SettingBounds, case
from regroup.conformance.harness.consumer_group import ConsumerProtocolGroup, expect_answer
from regroup.conformance.harness.consumer_groups import (
    ORDINARY,
    add_first,
    group_of_one,
    settled,
)
from regroup.conformance.harness.expect import (
    FetchedOffset,
    PartitionKey,
    expect,
    expect_equal,
    expect_every_partition,
    fetched_offsets,
)
from regroup.conformance.harness.offsets import (
    TransactionalProducer,
    admin_commit,
    delete_offsets,
    expect_committed,
    fetch_offsets,
)
from regroup.conformance.harness.story import StoryContext
from regroup.conformance.stories.consumer_groups.offset_commit import expect_commit
from regroup.protocol.errors import ErrorCode as E

SIX_0, SIX_1, SIX_3, SIX_5 = ((SIX_TOPIC, number) for number in (0, 1, 3, 5))
SHORT_RETENTION = {
    "offsets.retention.minutes": SettingBounds(at_most=1),
    "offsets.retention.check.interval.ms": SettingBounds(at_most=5_000),
}


# OffsetFetch


@case("cg.of.current-epoch", 1, required_settings=ORDINARY)
async def fetch_with_current_epoch(story: StoryContext) -> None:
    """A member reads offsets with its current epoch."""
    group = await group_of_one(story)
    await expect_commit(group, "m1", group.epoch, SIX_0)
    expect_equal("answer", (E.NONE, {SIX_0: 1}), await group.fetch("m1", group.epoch, SIX_0))


@case("cg.of.older-epoch", 1, required_settings=ORDINARY)
async def fetch_with_older_epoch(story: StoryContext) -> None:
    """Reading needs the current epoch: the previous one is stale, for the whole group."""
    group = await settled(story)
    expect_equal("answer", (E.STALE_MEMBER_EPOCH, {}), await group.fetch("m1", group.epoch - 1, SIX_0))


@case("cg.of.greater-epoch", 2, required_settings=ORDINARY)
async def fetch_with_greater_epoch(story: StoryContext) -> None:
    """Reading with an epoch that the member has not reached is refused."""
    group = await group_of_one(story)
    expect_equal("answer", (E.STALE_MEMBER_EPOCH, {}), await group.fetch("m1", group.epoch + 1, SIX_0))


@case("cg.of.unknown-member", 1, required_settings=ORDINARY)
async def fetch_of_stranger(story: StoryContext) -> None:
    """An unknown member cannot read with an epoch; an empty member id is an unknown one."""
    group = await group_of_one(story)
    for member_id in ("mx", ""):
        expect_equal("answer", (E.UNKNOWN_MEMBER_ID, {}), await group.fetch(member_id, group.epoch, SIX_0))


@case("cg.of.nobody", 1, required_settings=ORDINARY)
async def fetch_without_member(story: StoryContext) -> None:
    """Without member id and epoch every client may read, as it may with v8 and older."""
    group = await group_of_one(story)
    expect_equal("answer", (E.NONE, {SIX_0: -1}), await group.fetch(None, -1, SIX_0))
    for version in (1, 7, 8):
        offsets = fetched_offsets(await fetch_offsets(story, [SIX_0], version=version))
        expect_equal(f"offsets in v{version}", {SIX_0: FetchedOffset(-1)}, offsets)


@case("cg.of.member-with-minus-one", 3, required_settings=ORDINARY)
async def fetch_with_negative_epoch(story: StoryContext) -> None:
    """A member that reads with epoch -1 is refused."""
    group = await group_of_one(story)
    expect_equal("answer", (E.STALE_MEMBER_EPOCH, {}), await group.fetch("m1", -1, SIX_0))


@case("cg.of.unknown-group", 1, required_settings=ORDINARY)
async def fetch_from_unknown_group(story: StoryContext) -> None:
    """A group that does not exist has no offsets; that is no error, whatever the member says."""
    group = await ConsumerProtocolGroup.begin(story)
    expect_equal("answer", (E.NONE, {SIX_0: -1}), await group.fetch("m1", 1, SIX_0))


@case("cg.of.all-topics", 2, required_settings=ORDINARY)
async def fetch_all_topics(story: StoryContext) -> None:
    """Reading all topics returns those to which the member does not subscribe, too."""
    group = await group_of_one(story)
    await expect_commit(group, "m1", group.epoch, SIX_0, BAR_0)
    answer = await group.fetch("m1", group.epoch, all_topics=True)
    expect_equal("answer", (E.NONE, {SIX_0: 1, BAR_0: 1}), answer)


@case("cg.of.unstable", 2, required_settings=ORDINARY)
async def fetch_while_transaction_is_open(story: StoryContext) -> None:
    """An open transaction makes offsets unstable for a member, if it asks for stable ones."""
    group = await group_of_one(story)
    await expect_commit(group, "m1", group.epoch, SIX_0, SIX_1)
    producer = await TransactionalProducer.begin(story)
    response = await producer.txn_offset_commit({SIX_0: 9}, member_id="m1", generation_id=group.epoch)
    expect_every_partition(response, E.NONE)
    answer = await group.fetch("m1", group.epoch, SIX_0, SIX_1, require_stable=True)
    expect_equal("answer", (E.NONE, {SIX_0: E.UNSTABLE_OFFSET_COMMIT, SIX_1: 1}), answer)


@case("cg.of.group-converted", 1, required_settings=ORDINARY)
async def fetch_after_conversion(story: StoryContext) -> None:
    """Offsets that were committed while the group was classic stay when it becomes a consumer group."""
    await admin_commit(story, {SIX_0: 7})
    group = await ConsumerProtocolGroup.begin(story)
    await add_first(group)
    expect_equal("answer", (E.NONE, {SIX_0: 7}), await group.fetch("m1", group.epoch, SIX_0))


# OffsetDelete


@case("cg.od.subscribed", 1, required_settings=ORDINARY)
async def delete_offset_of_subscribed_topic(story: StoryContext) -> None:
    """The offset of a topic that a member subscribes to cannot be deleted."""
    group = await group_of_one(story)
    await expect_commit(group, "m1", group.epoch, SIX_0)
    response = await delete_offsets(story, SIX_0)
    expect(response, error=E.NONE)
    expect_every_partition(response, E.GROUP_SUBSCRIBED_TO_TOPIC)


@case("cg.od.not-subscribed", 1, required_settings=ORDINARY)
async def delete_offset_of_other_topic(story: StoryContext) -> None:
    """The offset of another topic can be deleted while the group has members."""
    group = await group_of_one(story)
    await expect_commit(group, "m1", group.epoch, BAR_0)
    expect_every_partition(await delete_offsets(story, BAR_0), E.NONE)
    await expect_committed(story, BAR_0, -1)


@case("cg.od.unknown-topic", 2, required_settings=ORDINARY)
async def delete_offset_of_unknown_topic(story: StoryContext) -> None:
    """The offset of a topic that does not exist cannot be deleted."""
    await group_of_one(story)
    expect_every_partition(await delete_offsets(story, (ABSENT_TOPIC, 0)), E.UNKNOWN_TOPIC_OR_PARTITION)


@case("cg.od.empty-group", 1, required_settings=ORDINARY)
async def delete_offset_of_empty_group(story: StoryContext) -> None:
    """All offsets of an Empty group can be deleted."""
    group = await group_of_one(story)
    await expect_commit(group, "m1", group.epoch, SIX_0)
    await group.leave("m1")
    expect_every_partition(await delete_offsets(story, SIX_0), E.NONE)


@case("cg.od.no-members-needed", 2, required_settings=ORDINARY)
async def delete_offset_that_is_not_there(story: StoryContext) -> None:
    """A group with members never refuses the request as a whole, also where no offset is committed."""
    await group_of_one(story)
    response = await delete_offsets(story, BAR_0)
    expect(response, error=E.NONE)
    expect_every_partition(response, E.NONE)


# Transactions


async def expect_txn_commit(
    story: StoryContext, member_id: str, epoch: int, partition: PartitionKey, error: int, version: int | None = None
) -> None:
    """Send a TxnOffsetCommit with a member epoch, and expect this error code for its partition."""
    producer = await TransactionalProducer.begin(story)
    response = await producer.txn_offset_commit(
        {partition: 1}, member_id=member_id, generation_id=epoch, version=version
    )
    codes = [each.error_code for topic in response.topics for each in topic.partitions]
    expect_equal("error codes", [error], codes)


@case("cg.txn.current-epoch", 1, required_settings=ORDINARY)
async def txn_commit_with_current_epoch(story: StoryContext) -> None:
    """A member commits in a transaction with its current epoch."""
    group = await group_of_one(story)
    await expect_txn_commit(story, "m1", group.epoch, SIX_0, E.NONE)


@case("cg.txn.stale-v6", 2, required_settings=ORDINARY)
async def txn_commit_with_stale_epoch(story: StoryContext) -> None:
    """Since v6 a stale epoch is called so; v6 names topics by id (KIP-1319)."""
    group = await settled(story)
    await expect_txn_commit(story, "m1", group.epoch - 2, SIX_0, E.STALE_MEMBER_EPOCH, version=6)


@case("cg.txn.greater-epoch", 2, required_settings=ORDINARY)
async def txn_commit_with_greater_epoch(story: StoryContext) -> None:
    """Up to v5 an epoch that the member has not reached is an ILLEGAL_GENERATION."""
    group = await group_of_one(story)
    await expect_txn_commit(story, "m1", group.epoch + 1, SIX_0, E.ILLEGAL_GENERATION)


@case("cg.txn.unknown-member", 1, required_settings=ORDINARY)
async def txn_commit_of_stranger(story: StoryContext) -> None:
    """An unknown member cannot commit in a transaction."""
    group = await group_of_one(story)
    await expect_txn_commit(story, "zz", group.epoch, SIX_0, E.UNKNOWN_MEMBER_ID)


@case("cg.txn.member-with-minus-one", 3, required_settings=ORDINARY)
async def txn_commit_with_negative_epoch(story: StoryContext) -> None:
    """A member that names no epoch cannot commit in a transaction."""
    await group_of_one(story)
    await expect_txn_commit(story, "m1", -1, SIX_0, E.ILLEGAL_GENERATION)


@case("cg.txn.without-member", 2, required_settings=ORDINARY)
async def txn_commit_without_member(story: StoryContext) -> None:
    """Without member id, epoch and instance id every producer may commit, also while the group has members."""
    await group_of_one(story)
    await expect_txn_commit(story, "", -1, SIX_0, E.NONE)


@case("cg.txn.older-epoch-partition-kept", 2, required_settings=ORDINARY)
async def txn_commit_of_kept_partition(story: StoryContext) -> None:
    """With an older epoch a member may commit in a transaction what it has owned since then, and nothing else."""
    group = await settled(story)
    await expect_txn_commit(story, "m1", group.epoch - 1, SIX_0, E.NONE)
    await expect_txn_commit(story, "m1", group.epoch - 1, SIX_5, E.ILLEGAL_GENERATION)


@case("cg.txn.unknown-group-v5", 2, required_settings=ORDINARY)
async def txn_commit_to_unknown_group(story: StoryContext) -> None:
    """A member of a group that does not exist gets ILLEGAL_GENERATION up to v5, and GROUP_ID_NOT_FOUND since v6."""
    await ConsumerProtocolGroup.begin(story)
    await expect_txn_commit(story, "m1", 1, SIX_0, E.ILLEGAL_GENERATION, version=5)
    await expect_txn_commit(story, "m1", 1, SIX_0, E.GROUP_ID_NOT_FOUND, version=6)


# Expiry


@case(
    "cg.exp.empty-group-without-offsets",
    1,
    required_settings={"offsets.retention.check.interval.ms": SHORT_RETENTION["offsets.retention.check.interval.ms"]},
)
async def empty_group_without_offsets_is_removed(story: StoryContext) -> None:
    """An Empty group without offsets is removed by the next check, whatever its age."""
    group = await group_of_one(story)
    await group.leave("m1")

    async def check() -> None:
        expect(await group.describe(), error=E.GROUP_ID_NOT_FOUND)

    await story.wait_until(check)


@case("cg.exp.subscribed-topics-are-safe", 1, required_settings=SHORT_RETENTION, timeout_s=150)
async def offsets_of_subscribed_topics_do_not_expire(story: StoryContext) -> None:
    """Offsets of topics that a member subscribes to do not expire; of other topics they do, members or not."""
    group = await group_of_one(story)
    await expect_commit(group, "m1", group.epoch, SIX_0, BAR_0)

    async def check() -> None:
        expect_answer(await group.beat("m1", group.epoch))
        await expect_committed(story, BAR_0, -1)
        await story.sleep(1)

    await story.wait_until(check, 120)
    await expect_committed(story, SIX_0, 1)


@case("cg.exp.group-goes-with-its-last-offset", 2, required_settings=SHORT_RETENTION, timeout_s=150)
async def empty_group_goes_with_its_offsets(story: StoryContext) -> None:
    """An Empty group is removed with its last offset."""
    group = await group_of_one(story)
    await expect_commit(group, "m1", group.epoch, SIX_0)
    await group.leave("m1")
    await story.sleep(5)
    await group.expect_group("Empty", group.epoch + 1)

    async def check() -> None:
        expect(await group.describe(), error=E.GROUP_ID_NOT_FOUND)
        await story.sleep(1)

    await story.wait_until(check, 120)
