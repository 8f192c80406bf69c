"""Stories about OffsetDelete (KIP-496): which offsets can be deleted in which state of a group."""

from regroup.conformance.harness.broker_under_test import ABSENT_TOPIC, BAR_0, FOO_0, FOO_1
from regroup.conformance.harness.cases import SettingBounds, case
from regroup.conformance.harness.expect import expect, expect_partition_errors
from regroup.conformance.harness.groups import empty_group, preparing_group, stable_group_of_one
from regroup.conformance.harness.member import ConformanceMember
from regroup.conformance.harness.offsets import (
    TransactionalProducer,
    admin_commit,
    delete_offsets,
    expect_committed,
    fetch_offsets,
)
from regroup.conformance.harness.story import StoryContext
from regroup.protocol.errors import ErrorCode as E


@case("offset-delete.unknown-group", 1)
async def delete_offsets_of_unknown_group(story: StoryContext) -> None:
    """OffsetDelete for a group that does not exist is refused."""
    expect(await delete_offsets(story, FOO_0), error=E.GROUP_ID_NOT_FOUND, topics=[])


@case("offset-delete.subscribed-topic", 1)
async def delete_offsets_of_subscribed_topic(story: StoryContext) -> None:
    """Offsets of subscribed topics cannot be deleted; others can."""
    await admin_commit(story, {FOO_0: 1, BAR_0: 2})
    await stable_group_of_one(story)
    response = await delete_offsets(story, FOO_0, BAR_0)
    expect(response, error=E.NONE)
    expect_partition_errors(response, {FOO_0: E.NONE, BAR_0: E.GROUP_SUBSCRIBED_TO_TOPIC})
    await expect_committed(story, FOO_0, -1)
    await expect_committed(story, BAR_0, 2)


@case(
    "offset-delete.first-join-phase",
    3,
    required_settings={"group.initial.rebalance.delay.ms": SettingBounds(at_least=1000)},
    correction="Not in the catalogue; found by a random course. Until its first generation a group of "
    "consumers counts as subscribed to every topic.",
)
async def delete_offsets_in_first_join_phase(story: StoryContext) -> None:
    """During the first join phase offsets of all topics are kept: the subscriptions are not known yet."""
    await admin_commit(story, {FOO_0: 1})
    expect_partition_errors(await delete_offsets(story, FOO_1), {FOO_1: E.NONE})
    await ConformanceMember(story, "anna").join_group(version=3).expect_pending()
    expect_partition_errors(await delete_offsets(story, FOO_0), {FOO_0: E.GROUP_SUBSCRIBED_TO_TOPIC})
    await expect_committed(story, FOO_0, 1)


@case("offset-delete.empty-group", 1)
async def delete_offsets_of_empty_group(story: StoryContext) -> None:
    """In an Empty group any offset can be deleted; the group stays."""
    await empty_group(story)
    await admin_commit(story, {FOO_0: 1, BAR_0: 2})
    expect_partition_errors(await delete_offsets(story, BAR_0), {BAR_0: E.NONE})
    await expect_committed(story, BAR_0, -1)
    await expect_committed(story, FOO_0, 1)
    await story.expect_state("Empty")


@case("offset-delete.non-consumer-non-empty", 2)
async def delete_offsets_of_connect_group(story: StoryContext) -> None:
    """A group of another protocol type refuses OffsetDelete while it has members."""
    await admin_commit(story, {FOO_0: 1})
    await stable_group_of_one(story, protocol_type="connect")
    expect(await delete_offsets(story, FOO_0), error=E.NON_EMPTY_GROUP, topics=[])
    await expect_committed(story, FOO_0, 1)


@case("offset-delete.empty-non-consumer", 3)
async def delete_offsets_of_empty_connect_group(story: StoryContext) -> None:
    """In an Empty group of another protocol type any offset can be deleted."""
    anna = await stable_group_of_one(story, protocol_type="connect")
    await anna.leave_group()
    await admin_commit(story, {FOO_0: 1})
    expect_partition_errors(await delete_offsets(story, FOO_0), {FOO_0: E.NONE})
    await expect_committed(story, FOO_0, -1)


@case("offset-delete.missing-offset", 2)
async def delete_missing_offset(story: StoryContext) -> None:
    """Deleting an offset that was never committed succeeds."""
    await empty_group(story)
    expect_partition_errors(await delete_offsets(story, FOO_0), {FOO_0: E.NONE})


@case("offset-delete.unknown-partition", 2)
async def delete_offset_of_unknown_topic(story: StoryContext) -> None:
    """A topic that does not exist has its own error code; an unknown group is refused as a whole."""
    await empty_group(story)
    response = await delete_offsets(story, (ABSENT_TOPIC, 0), FOO_0)
    expect(response, error=E.NONE)
    expect_partition_errors(response, {(ABSENT_TOPIC, 0): E.UNKNOWN_TOPIC_OR_PARTITION, FOO_0: E.NONE})
    story.use_group("absent")
    expect(await delete_offsets(story, (ABSENT_TOPIC, 0)), error=E.GROUP_ID_NOT_FOUND, topics=[])


@case("offset-delete.rebalancing", 2)
async def delete_offsets_during_rebalance(story: StoryContext) -> None:
    """During a rebalance the subscriptions of the last generation count."""
    await admin_commit(story, {FOO_0: 1, BAR_0: 2})
    await preparing_group(story)
    response = await delete_offsets(story, FOO_0, BAR_0)
    expect_partition_errors(response, {FOO_0: E.NONE, BAR_0: E.GROUP_SUBSCRIBED_TO_TOPIC})


@case("offset-delete.unparsable-subscription", 3)
async def delete_offsets_with_invalid_subscription(story: StoryContext) -> None:
    """When a subscription cannot be parsed, every topic counts as subscribed."""
    await admin_commit(story, {FOO_0: 1})
    await stable_group_of_one(story, protocols={"range": b"\xff"})
    expect_partition_errors(await delete_offsets(story, FOO_0), {FOO_0: E.GROUP_SUBSCRIBED_TO_TOPIC})
    await expect_committed(story, FOO_0, 1)


@case("offset-delete.pending-txn", 2)
async def delete_pending_transactional_offset(story: StoryContext) -> None:
    """A pending transactional offset can be deleted; the transaction marker then commits nothing for it."""
    await empty_group(story)
    producer = await TransactionalProducer.begin(story)
    await producer.send_offsets({FOO_0: 100})
    expect_partition_errors(await delete_offsets(story, FOO_0), {FOO_0: E.NONE})
    await producer.end_transaction(committed=True)
    await story.sleep(0.5)
    await fetch_offsets(story, [FOO_0])
    await expect_committed(story, FOO_0, -1)
