"""Stories about the assignor of a group, and about reconciliation: partitions that are released and received."""

from regroup.conformance.harness.broker_under_test import BAR_TOPIC, SIX_TOPIC
from regroup.conformance.harness.cases import case
from regroup.conformance.harness.consumer_group import ALL, HIGH, LOW, NOTHING, ConsumerProtocolGroup, expect_answer
from regroup.conformance.harness.consumer_groups import ORDINARY, group_of_one, revoking, settled, six, two_joined
from regroup.conformance.harness.expect import expect, expect_equal, expect_true
from regroup.conformance.harness.story import StoryContext

BAR = {BAR_TOPIC: [0, 1, 2]}


async def group_with_two_topics(story: StoryContext) -> ConsumerProtocolGroup:
    """Make a group whose only member owns all partitions of two topics."""
    group = await group_of_one(story)
    group.epoch += 1
    answer = await group.beat("m1", group.epoch - 1, names=(SIX_TOPIC, BAR_TOPIC))
    expect_answer(answer, epoch=group.epoch, assignment={**ALL, **BAR})
    return group


@case("cg.rec.revoke-told", 2, required_settings=ORDINARY)
async def member_has_to_revoke(story: StoryContext) -> None:
    """A member that has to release partitions is sent what it keeps; its epoch does not move."""
    group = await two_joined(story)
    expect_answer(await group.beat("m1", group.epoch - 1), epoch=group.epoch - 1, assignment=LOW)


@case("cg.rec.revoke-told-once", 1, required_settings=ORDINARY)
async def member_hears_of_revocation_once(story: StoryContext) -> None:
    """What a member keeps is in one answer only."""
    group = await revoking(story)
    expect_answer(await group.beat("m1", group.epoch - 1), epoch=group.epoch - 1, assignment=None)


@case("cg.rec.owned-list-with-pending-partition", 1, required_settings=ORDINARY)
async def member_still_owns_one(story: StoryContext) -> None:
    """A member that still reports one of the partitions to release stays where it is."""
    group = await revoking(story)
    answer = await group.beat("m1", group.epoch - 1, owned=six(0, 1, 2, 5))
    expect_answer(answer, epoch=group.epoch - 1, assignment=None)


@case("cg.rec.acknowledge", 1, required_settings=ORDINARY)
async def member_releases(story: StoryContext) -> None:
    """A member that reports what it keeps has released the rest, and reaches the new epoch."""
    group = await revoking(story)
    expect_answer(await group.beat("m1", group.epoch - 1, owned=LOW), epoch=group.epoch, assignment=None)
    await group.expect_member("m1", group.epoch, LOW)


@case("cg.rec.acknowledge-with-less", 2, required_settings=ORDINARY)
async def member_releases_and_reports_nothing(story: StoryContext) -> None:
    """Only the partitions to release count: a member may report less than it keeps."""
    group = await revoking(story)
    expect_answer(await group.beat("m1", group.epoch - 1, owned=NOTHING), epoch=group.epoch, assignment=None)


@case("cg.rec.revoked-already", 1, required_settings=ORDINARY)
async def member_has_released_before(story: StoryContext) -> None:
    """A member that does not report the partitions to release needs no round of revocation."""
    group = await two_joined(story)
    expect_answer(await group.beat("m1", group.epoch - 1, owned=LOW), epoch=group.epoch, assignment=LOW)


@case("cg.rec.unreleased-waits", 1, required_settings=ORDINARY)
async def member_waits_for_partitions(story: StoryContext) -> None:
    """A member waits for partitions that another one has not released; its answers have no assignment."""
    group = await revoking(story)
    for _ in range(2):
        expect_answer(await group.beat("m2", group.epoch), epoch=group.epoch, assignment=None)
    await group.expect_member("m2", group.epoch, NOTHING, target=HIGH)


@case("cg.rec.unreleased-receives", 1, required_settings=ORDINARY)
async def member_receives_partitions(story: StoryContext) -> None:
    """A member receives released partitions with its own next heartbeat; its epoch does not move."""
    group = await revoking(story)
    expect_answer(await group.beat("m1", group.epoch - 1, owned=LOW))
    await group.expect_member("m2", group.epoch, NOTHING, target=HIGH)
    expect_answer(await group.beat("m2", group.epoch), epoch=group.epoch, assignment=HIGH)


@case("cg.rec.new-partitions-wait-for-revocation", 1, required_settings=ORDINARY)
async def nothing_is_given_while_revoking(story: StoryContext) -> None:
    """Nothing is given to a member that has something to release, even if it is free."""
    group = await group_of_one(story)
    expect_answer(await group.beat("m1", group.epoch, names=(BAR_TOPIC,)), epoch=group.epoch, assignment=NOTHING)
    expect_answer(await group.beat("m1", group.epoch, owned=NOTHING), epoch=group.epoch + 1, assignment=BAR)


@case("cg.rec.revoke-and-receive-together", 1, required_settings=ORDINARY)
async def release_and_receive_together(story: StoryContext) -> None:
    """A request that shows that everything is released is answered with what is free."""
    group = await group_of_one(story)
    answer = await group.beat("m1", group.epoch, names=(BAR_TOPIC,), owned=NOTHING)
    expect_answer(answer, epoch=group.epoch + 1, assignment=BAR)


@case("cg.rec.target-turns-back-unacknowledged", 2, required_settings=ORDINARY)
async def revocation_is_not_called_off(story: StoryContext) -> None:
    """A revocation is not called off when a newer target gives the partitions back: it must be acknowledged."""
    group = await revoking(story)
    await group.leave("m2")
    expect_answer(await group.beat("m1", group.epoch - 1), epoch=group.epoch - 1, assignment=None)


@case("cg.rec.target-turns-back-acknowledged", 2, required_settings=ORDINARY)
async def partitions_come_back_after_revocation(story: StoryContext) -> None:
    """Partitions that a newer target gives back come with the answer to the acknowledgement."""
    group = await revoking(story)
    await group.leave("m2")
    expect_answer(await group.beat("m1", group.epoch - 1, owned=LOW), epoch=group.epoch + 1, assignment=ALL)


@case("cg.rec.newer-target-after-acknowledging", 2, required_settings=ORDINARY)
async def newer_target_takes_more(story: StoryContext) -> None:
    """If a newer target takes more, the acknowledgement is answered with the next revocation at the same epoch."""
    group = await revoking(story)
    expect_answer(await group.join("m3"))
    answer = await group.beat("m1", group.epoch - 1, owned=LOW)
    expect_answer(answer, epoch=group.epoch - 1, assignment=six(0, 1))


@case("cg.rec.newer-target-while-unreleased", 2, required_settings=ORDINARY)
async def newer_target_while_waiting(story: StoryContext) -> None:
    """A member that waits for partitions follows each newer target: it may have to release some of its own."""
    group = await settled(story)
    await group.join("m3")
    expect_answer(await group.beat("m1", group.epoch), epoch=group.epoch, assignment=six(0, 1))
    expect_answer(await group.beat("m2", group.epoch), epoch=group.epoch, assignment=six(3, 4))
    expect_answer(await group.beat("m2", group.epoch, owned=six(3, 4)), epoch=group.epoch + 1)
    answer = await group.beat("m3", group.epoch + 1)
    expect_answer(answer, epoch=group.epoch + 1, assignment=six(5))  # waits for partition 2 of m1
    for number in (4, 5, 6, 7):
        await group.join(f"m{number}")
    expect_answer(await group.beat("m3", group.epoch + 1))
    target = (await group.described_member("m3")).target_assignment.topic_partitions
    expect_true(sum(len(each.partitions) for each in target) <= 1, "six partitions are shared by seven members")


@case("cg.rec.unreleased-moves-with-the-epoch", 2, required_settings=ORDINARY)
async def epoch_moves_while_waiting(story: StoryContext) -> None:
    """A member that waits reaches each newer epoch, also if its own target stays the same."""
    group = await two_joined(story)
    expect_answer(await group.beat("m2", group.epoch, rack_id="r", names=(SIX_TOPIC, "absent")), epoch=group.epoch + 1)
    await group.expect_member("m2", group.epoch + 1, NOTHING, target=HIGH)


@case("cg.rec.stable-with-the-same-share", 1, required_settings=ORDINARY)
async def same_share_in_newer_target(story: StoryContext) -> None:
    """A stable member whose share stays the same reaches the new epoch without an assignment in the answer."""
    group = await settled(story)
    expect_answer(await group.join("m3", "absent"), epoch=group.epoch + 1, assignment=NOTHING)
    expect_answer(await group.beat("m1", group.epoch), epoch=group.epoch + 1, assignment=None)


@case("cg.rec.unsubscribed-topic-goes-at-once", 1, required_settings=ORDINARY)
async def topic_is_dropped(story: StoryContext) -> None:
    """Partitions of a topic that is no longer subscribed to have to be released at once."""
    group = await group_with_two_topics(story)
    expect_answer(await group.beat("m1", group.epoch, names=(BAR_TOPIC,)), epoch=group.epoch, assignment=BAR)
    await group.expect_group("Reconciling", group.epoch + 1)


@case("cg.rec.unsubscribed-topic-already-dropped", 2, required_settings=ORDINARY)
async def topic_was_dropped_before(story: StoryContext) -> None:
    """If the request shows that the partitions are released, the member is stable at the new epoch at once."""
    group = await group_with_two_topics(story)
    answer = await group.beat("m1", group.epoch, names=(BAR_TOPIC,), owned=BAR)
    expect_answer(answer, epoch=group.epoch + 1, assignment=BAR)
    await group.expect_group("Stable", group.epoch + 1)


@case("cg.rec.partition-taken-back-gets-a-new-epoch", 3, required_settings=ORDINARY)
async def commit_of_partition_taken_back(story: StoryContext) -> None:
    """A partition that left and came back counts from its new epoch: older epochs cannot commit it."""
    group = await settled(story)
    await group.leave("m2")
    expect_answer(await group.beat("m1", group.epoch), epoch=group.epoch + 1, assignment=ALL)
    kept = await group.commit("m1", group.epoch, (SIX_TOPIC, 0))
    back = await group.commit("m1", group.epoch, (SIX_TOPIC, 5))
    expect_equal(
        "kept and taken back", (0, 113), tuple(each.topics[0].partitions[0].error_code for each in (kept, back))
    )


@case("cg.rec.two-owners-never", 1, required_settings=ORDINARY)
async def no_partition_has_two_owners(story: StoryContext) -> None:
    """While four members join and reconcile in turn, no answer gives away a partition that another one owns."""
    group = await ConsumerProtocolGroup.begin(story)
    owned: dict[str, list[int]] = {}
    epochs: dict[str, int] = {}
    for newest in range(1, 5):
        for member in (f"m{number}" for number in range(1, newest + 1)):
            answer = (
                await group.beat(member, epochs[member], owned=six(*owned[member]) if owned[member] else NOTHING)
                if member in epochs
                else await group.join(member)
            )
            expect_answer(answer)
            epochs[member] = answer.response.member_epoch
            if answer.assignment is not None:
                owned[member] = [*answer.assignment.get(SIX_TOPIC, ())]
            taken = [number for numbers in owned.values() for number in numbers]
            expect_equal("partitions with two owners", len({*taken}), len(taken))


# The assignor of a group


async def group_with_votes(story: StoryContext, **votes: str | None) -> ConsumerProtocolGroup:
    """Make a group whose members join with these votes, and reach the last epoch."""
    group = await ConsumerProtocolGroup.begin(story)
    for member_id, assignor in votes.items():
        answer = await group.join(member_id, assignor=assignor)
        expect_answer(answer)
        group.epoch = answer.response.member_epoch
    return group


@case("cg.asr.majority", 2, required_settings=ORDINARY)
async def majority_of_votes(story: StoryContext) -> None:
    """The assignor with most votes is used; members that name none do not vote."""
    group = await group_with_votes(story, m1="range", m2="uniform", m3=None, m4="uniform")
    expect(await group.describe(), assignor_name="uniform")


@case("cg.asr.majority-turns", 2, required_settings=ORDINARY)
async def vote_that_turns_the_majority(story: StoryContext) -> None:
    """A vote that changes the assignor of the group raises the group epoch."""
    group = await group_with_votes(story, m1="range", m2="uniform", m3=None, m4="uniform")
    expect_answer(await group.beat("m4", group.epoch, assignor="range"), epoch=group.epoch + 1)
    expect(await group.describe(), assignor_name="range", group_epoch=group.epoch + 1)


@case("cg.asr.tie", 3, required_settings=ORDINARY)
async def tie_of_votes(story: StoryContext) -> None:
    """Of two assignors with equally many votes, uniform is used."""
    group = await group_with_votes(story, m1="range", m2="uniform")
    expect(await group.describe(), assignor_name="uniform")


@case("cg.asr.uniform-two-of-two", 1, required_settings=ORDINARY)
async def uniform_target_of_two(story: StoryContext) -> None:
    """The uniform assignor gives two members half each, and leaves the first one what it can."""
    group = await settled(story)
    await group.expect_member("m1", group.epoch, LOW)
    await group.expect_member("m2", group.epoch, HIGH)


@case("cg.asr.default-is-first", 2, required_settings=ORDINARY)
async def default_assignor(story: StoryContext) -> None:
    """Without a vote the first of the configured assignors is used."""
    group = await group_of_one(story)
    expect(await group.describe(), assignor_name="uniform")
