"""Stories about subscriptions by a regular expression, which the coordinator resolves in the background."""

from regroup.conformance.harness.broker_under_test import SIX_TOPIC
from regroup.conformance.harness.cases import case
from regroup.conformance.harness.consumer_group import NOTHING, ConsumerProtocolGroup, PartitionsByTopic, expect_answer
from regroup.conformance.harness.consumer_groups import ORDINARY
from regroup.conformance.harness.expect import expect, expect_equal, expect_error, expect_true
from regroup.conformance.harness.member import ConformanceMember
from regroup.conformance.harness.migration import owning
from regroup.conformance.harness.offsets import delete_offsets
from regroup.conformance.harness.story import StoryContext
from regroup.protocol.errors import ErrorCode as E

REFRESH_INTERVAL_S = 10.0
"""Seconds that pass at least between two resolutions of a group's regular expressions."""


async def join_by_regex(group: ConsumerProtocolGroup, member_id: str, regex: str) -> None:
    """Let a member join by a regular expression alone."""
    answer = await group.beat(member_id, 0, rebalance_timeout_ms=60_000, regex=regex, owned=NOTHING)
    expect_answer(answer)
    group.epoch = answer.response.member_epoch


async def receive(
    group: ConsumerProtocolGroup, member_id: str, wanted: PartitionsByTopic, timeout_s: float = 20
) -> None:
    """Send heartbeats until the member has received these partitions."""
    owned: PartitionsByTopic = NOTHING

    async def check() -> None:
        nonlocal owned
        answer = await group.beat(member_id, group.epoch, owned=owned)
        expect_answer(answer)
        group.epoch = answer.response.member_epoch
        owned = owned if answer.assignment is None else answer.assignment
        expect_equal("assignment", dict(wanted), dict(owned))
        # The answer that carries the partitions is not the last step if others had to be released.
        described = await group.described_member(member_id)
        expect(described, member_epoch=group.epoch)

    await group.story.wait_until(check, timeout_s)


async def two_topics(story: StoryContext) -> tuple[ConsumerProtocolGroup, str, str, str]:
    """A group with two topics of its own: their names, and a regular expression that matches both."""
    group = await ConsumerProtocolGroup.begin(story)
    a, b = [await group.create_topic(name, partitions) for name, partitions in (("rxa", 1), ("rxb", 2))]
    return group, a, b, f"{story.group_id}-rx.*".replace(".", "[.]", story.group_id.count("."))


async def resolved(story: StoryContext) -> tuple[ConsumerProtocolGroup, str, str, str]:
    """A group whose only member, m1, owns both topics by their regular expression."""
    group, a, b, regex = await two_topics(story)
    await join_by_regex(group, "m1", regex)
    await receive(group, "m1", {a: [0], b: [0, 1]})
    return group, a, b, regex


@case("cg.regex.join", 2, required_settings=ORDINARY)
async def join_by_unresolved_regex(story: StoryContext) -> None:
    """Who joins by a new regular expression gets nothing yet, and no epoch is spent."""
    group, _, _, regex = await two_topics(story)
    answer = await group.beat("m1", 0, rebalance_timeout_ms=60_000, regex=regex, owned=NOTHING)
    expect_answer(answer, epoch=1, assignment=NOTHING)


@case("cg.regex.resolved-later", 1, required_settings=ORDINARY)
async def regex_is_resolved(story: StoryContext) -> None:
    """Soon afterwards the expression is resolved: the group is Assigning until the next heartbeat."""
    group, _, _, regex = await two_topics(story)
    await join_by_regex(group, "m1", regex)
    await story.wait_until(lambda: group.expect_group("Assigning", group.epoch + 1, group.epoch))


@case("cg.regex.assigned-after-resolution", 2, required_settings=ORDINARY)
async def partitions_by_regex(story: StoryContext) -> None:
    """The first heartbeat after the resolution carries the partitions of all matching topics."""
    group, a, b, regex = await two_topics(story)
    await join_by_regex(group, "m1", regex)
    await story.wait_until(lambda: group.expect_group("Assigning", group.epoch + 1, group.epoch))
    expect_answer(await group.beat("m1", group.epoch), epoch=group.epoch + 1, assignment={a: [0], b: [0, 1]})


@case("cg.regex.known-already", 1, required_settings=ORDINARY)
async def regex_of_another_member(story: StoryContext) -> None:
    """Who joins by an expression that is resolved already raises the group epoch at once."""
    group, _, _, regex = await resolved(story)
    answer = await group.beat("m2", 0, rebalance_timeout_ms=60_000, regex=regex, owned=NOTHING)
    expect_answer(answer, epoch=group.epoch + 1, assignment=NOTHING)


@case("cg.regex.invalid-on-heartbeat", 2, required_settings=ORDINARY)
async def invalid_regex_in_heartbeat(story: StoryContext) -> None:
    """A member that sends an invalid expression keeps the one that it had."""
    group, a, b, regex = await resolved(story)
    expect_answer(await group.beat("m1", group.epoch, regex="(a"), error=E.INVALID_REGULAR_EXPRESSION)
    expect(await group.described_member("m1"), subscribed_topic_regex=regex)
    await group.expect_member("m1", group.epoch, {a: [0], b: [0, 1]})


@case("cg.regex.changed-to-an-unresolved-one", 2, required_settings=ORDINARY)
async def changed_regex(story: StoryContext) -> None:
    """Who changes to a new expression has to release everything, also what it will match."""
    group, a, _, _ = await resolved(story)
    expect_answer(await group.beat("m1", group.epoch, regex=a), epoch=group.epoch, assignment=NOTHING)


@case("cg.regex.still-owning-one-stops-all", 3, required_settings=ORDINARY)
async def changed_regex_with_one_partition_left(story: StoryContext) -> None:
    """As long as one partition is not released, nothing is given, not even that same partition."""
    group, a, _, _ = await resolved(story)
    expect_answer(await group.beat("m1", group.epoch, regex=a), epoch=group.epoch, assignment=NOTHING)
    expect_answer(await group.beat("m1", group.epoch, owned={a: [0]}), epoch=group.epoch, assignment=None)


@case("cg.regex.cleared", 2, required_settings=ORDINARY)
async def cleared_regex(story: StoryContext) -> None:
    """An empty text takes the regular expression back; null keeps it."""
    group, _, b, regex = await resolved(story)
    expect_answer(await group.beat("m1", group.epoch))
    expect(await group.described_member("m1"), subscribed_topic_regex=regex)
    answer = await group.beat("m1", group.epoch, names=(b,), regex="")
    expect_answer(answer, epoch=group.epoch, assignment={b: [0, 1]})
    expect(await group.described_member("m1"), subscribed_topic_regex="", subscribed_topic_names=[b])
    expect_answer(await group.beat("m1", group.epoch, owned={b: [0, 1]}), epoch=group.epoch + 1)


@case("cg.regex.and-names", 3, required_settings=ORDINARY)
async def regex_and_names(story: StoryContext) -> None:
    """Names and a regular expression are united."""
    group, _, _, regex = await two_topics(story)
    other = await group.create_topic("other", 1)
    joined = await group.join("m1", other, regex=regex)
    expect_answer(joined, assignment={other: [0]})
    group.epoch = joined.response.member_epoch
    base = f"{story.group_id}-"
    await receive(group, "m1", {other: [0], f"{base}rxa": [0], f"{base}rxb": [0, 1]})


@case("cg.regex.new-topic", 1, required_settings=ORDINARY)
async def topic_that_matches_is_created(story: StoryContext) -> None:
    """A new topic that matches is found by the first heartbeat ten seconds after the last resolution."""
    group, a, b, _ = await resolved(story)
    new = await group.create_topic("rxd", 1)
    await receive(group, "m1", {a: [0], b: [0, 1], new: [0]}, timeout_s=REFRESH_INTERVAL_S + 10)


@case("cg.regex.not-within-ten-seconds", 1, required_settings=ORDINARY)
async def topic_is_created_soon_after_resolution(story: StoryContext) -> None:
    """Within ten seconds after a resolution no heartbeat looks for new topics."""
    group, _, _, _ = await resolved(story)
    await group.create_topic("rxd", 1)
    for _ in range(5):
        expect_answer(await group.beat("m1", group.epoch), epoch=group.epoch, assignment=None)
        await story.sleep(0.5)
    await group.expect_group("Stable", group.epoch)


@case("cg.regex.deleted-topic", 2, required_settings=ORDINARY)
async def topic_that_matches_is_deleted(story: StoryContext) -> None:
    """When a topic that an expression matches is deleted, its partitions have to be released."""
    group, a, b, _ = await resolved(story)
    await group.delete_topic(a)
    answer = await group.beat("m1", group.epoch)
    expect_answer(answer, epoch=group.epoch, assignment={b: [0, 1]})
    expect_true((await group.describe()).group_epoch > group.epoch, "the group epoch should rise")


@case("cg.regex.internal-topics", 3, required_settings=ORDINARY)
async def regex_matches_internal_topics(story: StoryContext) -> None:
    """The expression matches internal topics, too."""
    group = await ConsumerProtocolGroup.begin(story)
    await join_by_regex(group, "m1", "__consumer.*")
    await story.wait_until(lambda: group.expect_group("Assigning", group.epoch + 1, group.epoch))
    expect_answer(await group.beat("m1", group.epoch), epoch=group.epoch + 1)
    assigned = (await group.described_member("m1")).assignment.topic_partitions
    expect_equal("topics", ["__consumer_offsets"], [each.topic_name for each in assigned])


@case("cg.od.by-regex", 3, required_settings=ORDINARY)
async def delete_offset_of_topic_that_matches(story: StoryContext) -> None:
    """The offset of a topic that a member's expression matches cannot be deleted."""
    group, a, _, _ = await resolved(story)
    await group.commit("m1", group.epoch, (a, 0))
    response = await delete_offsets(story, (a, 0))
    expect_error("OffsetDelete", E.GROUP_SUBSCRIBED_TO_TOPIC, response.topics[0].partitions[0].error_code)


@case("cg.regex.whole-name", 2, required_settings=ORDINARY)
async def regex_matches_whole_names(story: StoryContext) -> None:
    """The expression has to match the whole name of a topic."""
    group = await ConsumerProtocolGroup.begin(story)
    await join_by_regex(group, "m1", SIX_TOPIC[:-1])
    await story.sleep(1)
    expect_answer(await group.beat("m1", group.epoch), epoch=group.epoch, assignment=None)
    await group.expect_group("Stable", group.epoch)


@case("cg.regex.classic-member-has-none", 3, required_settings=ORDINARY)
async def classic_member_replaces_one_with_regex(story: StoryContext) -> None:
    """A classic member that takes the place of a static member has no regular expression."""
    group, topic, _, regex = await two_topics(story)
    await group.beat("m1", 0, rebalance_timeout_ms=60_000, regex=regex, owned=NOTHING, instance_id="i1")
    expect_answer(await group.join("m2", topic))
    carla = ConformanceMember(story, "carla", instance_id="i1", protocols=owning())
    expect(await carla.join_group(), error=E.NONE)
    expect(await group.described_member(carla.id), subscribed_topic_regex="", subscribed_topic_names=[SIX_TOPIC])


@case("cg.regex.result-without-change", 3, required_settings=ORDINARY)
async def unrelated_topic_is_created(story: StoryContext) -> None:
    """A topic that does not match is created: the next resolution finds nothing new, and no epoch is spent."""
    group, _, _, _ = await resolved(story)
    await group.create_topic("other", 1)
    await story.sleep(REFRESH_INTERVAL_S + 1)
    for _ in range(3):
        expect_answer(await group.beat("m1", group.epoch), epoch=group.epoch, assignment=None)
        await story.sleep(0.5)
    await group.expect_group("Stable", group.epoch)
