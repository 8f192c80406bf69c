"""Stories about OffsetCommit, by members and without a member, and about the expiry of committed offsets."""

from regroup.conformance.harness.broker_under_test import ABSENT_TOPIC, FOO_0, FOO_1, FOO_TOPIC, PARTITIONS_PER_TOPIC
from regroup.conformance.harness.cases import SettingBounds, case
from regroup.conformance.harness.expect import (
    FetchedOffset,
    expect_every_partition,
    expect_partition_errors,
)
from regroup.conformance.harness.groups import completing_group, preparing_group, stable_group, stable_group_of_one
from regroup.conformance.harness.member import ConformanceMember
from regroup.conformance.harness.offsets import (
    TransactionalProducer,
    admin_commit,
    expect_committed,
    expect_fetched,
    longest_metadata,
    send_admin_commit,
)
from regroup.conformance.harness.story import StoryContext
from regroup.protocol.errors import ErrorCode as E

SHORT_RETENTION = {
    "offsets.retention.minutes": SettingBounds(at_most=1),
    "offsets.retention.check.interval.ms": SettingBounds(at_most=5000),
}
# Between the two JoinGroup requests of a dynamic member its new group is Empty, and a frequent cleanup may remove it:
# the members of these stories are static.
FREQUENT_CLEANUP = {"offsets.retention.check.interval.ms": SettingBounds(at_most=5000)}
MINUTE_S = 60.0
"""Seconds of the retention in these stories: the shortest that `offsets.retention.minutes` allows."""


@case("offset-commit.member.stable", 1)
async def commit_in_stable_group(story: StoryContext) -> None:
    """A member of a stable group commits in every version that the broker offers."""
    anna = await stable_group_of_one(story)
    for version in range(2, 10):
        expect_every_partition(await anna.commit_offsets({FOO_0: 100 + version}, version=version), E.NONE)
        await expect_committed(story, FOO_0, 100 + version)


@case("offset-commit.member.preparing", 1)
async def commit_while_preparing(story: StoryContext) -> None:
    """While the next generation is being prepared, members of the current one can still commit."""
    _, ben, _, _ = await preparing_group(story)
    expect_every_partition(await ben.commit_offsets({FOO_0: 100}), E.NONE)
    await expect_committed(story, FOO_0, 100)
    await story.expect_state("PreparingRebalance")


@case("offset-commit.member.completing", 1)
async def commit_before_sync(story: StoryContext) -> None:
    """Before SyncGroup a commit is refused with REBALANCE_IN_PROGRESS."""
    _, ben = await completing_group(story)
    expect_every_partition(await ben.commit_offsets({FOO_0: 100, FOO_1: 1}), E.REBALANCE_IN_PROGRESS)
    await expect_committed(story, FOO_0, -1)


@case("offset-commit.member.completing.bad-generation-first", 2)
async def commit_of_previous_generation_before_sync(story: StoryContext) -> None:
    """Before SyncGroup the generation id is checked before the state of the group."""
    _, ben = await completing_group(story)
    expect_every_partition(await ben.commit_offsets({FOO_0: 100}, generation_id=1), E.ILLEGAL_GENERATION)


@case("offset-commit.unknown-member", 1)
async def commit_of_unknown_member(story: StoryContext) -> None:
    """A commit with an unknown member id is refused."""
    anna = await stable_group_of_one(story)
    expect_every_partition(await anna.commit_offsets({FOO_0: 100, FOO_1: 1}, member_id="other"), E.UNKNOWN_MEMBER_ID)


@case("offset-commit.illegal-generation", 1)
async def commit_with_illegal_generation(story: StoryContext) -> None:
    """A commit with an older or newer generation id is refused."""
    anna = await stable_group_of_one(story)
    for generation_id in (0, 7):
        response = await anna.commit_offsets({FOO_0: 100}, generation_id=generation_id)
        expect_every_partition(response, E.ILLEGAL_GENERATION)


@case("offset-commit.known-member-generation-minus-one", 2)
async def commit_without_generation(story: StoryContext) -> None:
    """A commit with a member id needs the generation id."""
    anna = await stable_group_of_one(story)
    expect_every_partition(await anna.commit_offsets({FOO_0: 100}, generation_id=-1), E.ILLEGAL_GENERATION)


@case("offset-commit.admin-into-non-empty-group", 1)
async def admin_commit_to_group_with_members(story: StoryContext) -> None:
    """A commit without a member id is accepted only by groups without members."""
    await stable_group_of_one(story)
    expect_every_partition(await send_admin_commit(story, {FOO_0: 100}), E.UNKNOWN_MEMBER_ID)
    await expect_committed(story, FOO_0, -1)


@case("offset-commit.unknown-group-with-generation.v9", 1)
async def commit_with_generation_to_unknown_group(story: StoryContext) -> None:
    """A commit with a generation id to an unknown group gets GROUP_ID_NOT_FOUND since v9, ILLEGAL_GENERATION before."""
    for version in (9, 8, 2):
        anna = ConformanceMember(story, "anna")
        response = await anna.commit_offsets({FOO_0: 100}, generation_id=3, member_id="m", version=version)
        expect_every_partition(response, E.GROUP_ID_NOT_FOUND if version >= 9 else E.ILLEGAL_GENERATION)


@case("offset-commit.fenced-static", 1)
async def commit_with_fenced_instance_id(story: StoryContext) -> None:
    """A commit with a group instance id and another member id than its current one is fenced."""
    anna, _ = await stable_group(story, static=True)
    for version in range(7, 10):
        response = await anna.commit_offsets({FOO_0: 100}, member_id="wrong", version=version)
        expect_every_partition(response, E.FENCED_INSTANCE_ID)


@case("offset-commit.unknown-instance", 2)
async def commit_with_unknown_instance_id(story: StoryContext) -> None:
    """A commit with a known member id and an unknown group instance id is refused."""
    anna, _ = await stable_group(story, static=True)
    anna.instance_id = "nope"
    expect_every_partition(await anna.commit_offsets({FOO_0: 100}), E.UNKNOWN_MEMBER_ID)


@case("offset-commit.instance-id-without-member-id", 3)
async def commit_with_instance_id_alone(story: StoryContext) -> None:
    """A commit with a group instance id and no member id is fenced."""
    anna, _ = await stable_group(story, static=True)
    response = await anna.commit_offsets({FOO_0: 100}, member_id="", generation_id=-1)
    expect_every_partition(response, E.FENCED_INSTANCE_ID)


@case("offset-commit.metadata-too-large", 1)
async def commit_with_large_metadata(story: StoryContext) -> None:
    """Metadata of up to `offset.metadata.max.bytes` is stored; a partition with one character more is refused."""
    max_length = longest_metadata(story)
    anna = await stable_group_of_one(story)
    metadata = {FOO_0: "x" * (max_length + 1), FOO_1: "x" * max_length}
    response = await anna.commit_offsets({FOO_0: 1, FOO_1: 2}, metadata=metadata)
    expect_partition_errors(response, {FOO_0: E.OFFSET_METADATA_TOO_LARGE, FOO_1: E.NONE})
    await expect_fetched(story, {FOO_0: FetchedOffset(-1), FOO_1: FetchedOffset(2, metadata=metadata[FOO_1])})


@case("offset-commit.leader-epoch", 2)
async def commit_with_leader_epoch(story: StoryContext) -> None:
    """The leader epoch is stored since v6 and returned since v5 of OffsetFetch; -1 means none."""
    anna = await stable_group_of_one(story)
    for version in range(6, 10):
        expect_every_partition(await anna.commit_offsets({FOO_0: 1}, leader_epoch=5, version=version), E.NONE)
        await expect_fetched(story, {FOO_0: FetchedOffset(1, leader_epoch=5)})
    expect_every_partition(await anna.commit_offsets({FOO_0: 1}, version=5), E.NONE)
    await expect_fetched(story, {FOO_0: FetchedOffset(1)})


@case("offset-commit.unknown-topic", 1)
async def commit_to_unknown_partitions(story: StoryContext) -> None:
    """Partitions that do not exist are refused; the others are stored."""
    anna = await stable_group_of_one(story)
    unknown = dict.fromkeys([(ABSENT_TOPIC, 0), (FOO_TOPIC, PARTITIONS_PER_TOPIC)], E.UNKNOWN_TOPIC_OR_PARTITION)
    errors = {**unknown, FOO_0: E.NONE}
    expect_partition_errors(await anna.commit_offsets(dict.fromkeys(errors, 1)), errors)


@case("offset-commit.nothing-left-skips-coordinator", 2)
async def commit_to_unknown_partitions_only(story: StoryContext) -> None:
    """When none of the partitions exists, member id and generation id are not checked."""
    anna = await stable_group_of_one(story)
    response = await anna.commit_offsets({(ABSENT_TOPIC, 0): 1}, member_id="bogus", generation_id=99)
    expect_partition_errors(response, {(ABSENT_TOPIC, 0): E.UNKNOWN_TOPIC_OR_PARTITION})
    expect_partition_errors(await anna.commit_offsets({}, member_id="bogus", generation_id=99), {})


@case("offset-commit.negative-offset", 3)
async def commit_of_negative_offset(story: StoryContext) -> None:
    """Offsets are not validated; a negative one is stored like any other."""
    anna = await stable_group_of_one(story)
    expect_every_partition(await anna.commit_offsets({FOO_0: -1}), E.NONE)
    expect_every_partition(await anna.commit_offsets({FOO_1: -7}), E.NONE)
    await expect_committed(story, FOO_1, -7)


@case("offset-commit.retention-v2-v4", 2)
async def commit_with_retention_time(story: StoryContext) -> None:
    """Up to v4 a commit may have a retention time; its offset is stored."""
    admin = ConformanceMember(story, "admin")
    for version in range(2, 5):
        response = await admin.commit_offsets({FOO_0: version}, retention_time_ms=600_000, version=version)
        expect_every_partition(response, E.NONE)
        await expect_committed(story, FOO_0, version)


@case("offset-commit.last-write-wins", 1)
async def commit_of_smaller_offset(story: StoryContext) -> None:
    """A commit may go back to a smaller offset: the last commit wins."""
    await admin_commit(story, {FOO_0: 100})
    await admin_commit(story, {FOO_0: 40})
    await expect_committed(story, FOO_0, 40)


@case("offset-commit.expiry.empty-group", 1, required_settings=SHORT_RETENTION, timeout_s=150)
async def offsets_of_empty_group_expire(story: StoryContext) -> None:
    """In a group that had members the offset retention starts when the group becomes Empty, not with the commit."""
    anna = await stable_group_of_one(story, instance_id="i-anna")
    expect_every_partition(await anna.commit_offsets({FOO_0: 1}), E.NONE)
    end_s = story.elapsed_s() + MINUTE_S / 2
    while story.elapsed_s() < end_s:
        await anna.heartbeat()
        await story.sleep(1)
    await anna.leave_group()
    await story.sleep(MINUTE_S * 0.7)
    await expect_committed(story, FOO_0, 1)
    await story.wait_until(lambda: expect_committed(story, FOO_0, -1), timeout_s=MINUTE_S)
    await story.wait_for_state("Dead")


@case("offset-commit.expiry.simple-group", 1, required_settings=SHORT_RETENTION, timeout_s=150)
async def offsets_of_simple_group_expire(story: StoryContext) -> None:
    """In a group that never had members each offset has its own retention."""
    await admin_commit(story, {FOO_0: 1})
    await story.sleep(MINUTE_S / 2)
    await admin_commit(story, {FOO_1: 2})
    await story.wait_until(lambda: expect_committed(story, FOO_0, -1), timeout_s=MINUTE_S)
    await expect_committed(story, FOO_1, 2)
    await story.expect_state("Empty")
    await story.wait_for_state("Dead", timeout_s=MINUTE_S)


@case("offset-commit.expiry.not-while-rebalancing", 2, required_settings=SHORT_RETENTION, timeout_s=150)
async def offsets_of_rebalancing_group_stay(story: StoryContext) -> None:
    """Offsets do not expire while the group rebalances."""
    anna = await stable_group_of_one(
        story, instance_id="i-anna", rebalance_timeout_ms=300_000, session_timeout_ms=300_000
    )
    expect_every_partition(await anna.commit_offsets({FOO_0: 1}), E.NONE)
    await ConformanceMember(story, "ben").start_rebalance()
    await story.sleep(MINUTE_S * 1.2)
    await expect_committed(story, FOO_0, 1)
    await story.expect_state("PreparingRebalance")


@case("offset-commit.expiry.pending-txn-blocks", 2, required_settings=SHORT_RETENTION, timeout_s=150)
async def offset_with_open_transaction_stays(story: StoryContext) -> None:
    """An offset with a pending transactional offset does not expire."""
    await admin_commit(story, {FOO_0: 1, FOO_1: 1})
    producer = await TransactionalProducer.begin(story, timeout_ms=300_000)
    await producer.send_offsets({FOO_0: 2})
    await story.wait_until(lambda: expect_committed(story, FOO_1, -1), timeout_s=1.5 * MINUTE_S)
    await story.sleep(5)
    await expect_committed(story, FOO_0, 1)
    await story.expect_state("Empty")


@case("offset-commit.expiry.empty-group-without-offsets", 1, required_settings=FREQUENT_CLEANUP)
async def empty_group_without_offsets_expires(story: StoryContext) -> None:
    """An Empty group without offsets is removed at the next cleanup: retention applies to offsets, not to groups."""
    anna = await stable_group_of_one(story, instance_id="i-anna")
    await anna.leave_group()
    await story.wait_for_state("Dead", timeout_s=30)
