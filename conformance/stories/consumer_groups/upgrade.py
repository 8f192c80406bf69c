"""Stories about the migration of groups, online: from the classic protocol to the consumer protocol, and back."""

from regroup.conformance.harness.broker_under_test import FOO_0, SIX_TOPIC
from regroup.conformance.harness.cases import SettingBounds, SettingChoice, SettingRequirement, case
from regroup.conformance.harness.consumer_group import ALL, HIGH, LOW, NOTHING, ConsumerProtocolGroup, expect_answer
from regroup.conformance.harness.consumer_groups import (
    ORDINARY,
    SHORT_SESSIONS,
    add_first,
    group_of_one,
    with_short_session,
)
from regroup.conformance.harness.expect import (
    TIMER_TOLERANCE_S,
    expect,
    expect_equal,
    expect_member_errors,
    expect_one_of,
)
from regroup.conformance.harness.groups import empty_group, pending_join_member, stable_group
from regroup.conformance.harness.member import ConformanceMember, leave_group
from regroup.conformance.harness.migration import (
    classic_group,
    handed_over,
    mixed_group,
    owning,
    partitions_of,
    settled_mixed_group,
    stable_classic_group,
)
from regroup.conformance.harness.offsets import admin_commit, expect_committed
from regroup.conformance.harness.story import StoryContext
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.messages.group import MemberIdentity

POLICY = "group.consumer.migration.policy"


def policy(*words: str) -> dict[str, SettingRequirement]:
    """The settings that a story about one migration policy needs."""
    return {"group.consumer.max.size": SettingBounds(at_least=6), POLICY: SettingChoice(words)}


@case("cg.up.online", 1, required_settings=ORDINARY)
async def consumer_member_joins_classic_group(story: StoryContext) -> None:
    """A member of the consumer protocol that joins a classic group converts it; its members stay in it."""
    group, carla = await mixed_group(story)
    await group.expect_group("Reconciling", group.epoch)
    expect(await group.described_member(carla.id), member_type=0)
    await group.expect_member(carla.id, group.epoch - 1, ALL, target=LOW)


@case("cg.up.default-policy", 2, required_settings=ORDINARY)
async def upgrade_under_default_policy(story: StoryContext) -> None:
    """The policy that Kafka has by itself, bidirectional, allows the conversion."""
    group, carla = await mixed_group(story)
    await group.expect_members(carla.id, "n1")


@case("cg.up.policy-disabled", 1, required_settings=policy("disabled"))
async def upgrade_under_policy_disabled(story: StoryContext) -> None:
    """Under the policy disabled a classic group with members is not found, and stays as it is."""
    carla = await classic_group(story)
    group = await ConsumerProtocolGroup.begin(story)
    expect_answer(await group.join("n1"), error=E.GROUP_ID_NOT_FOUND)
    await carla.expect_stable(members=1)


@case("cg.up.policy-downgrade", 2, required_settings=policy("downgrade"))
async def upgrade_under_policy_downgrade(story: StoryContext) -> None:
    """Under the policy downgrade a classic group with members is not found either."""
    carla = await classic_group(story)
    group = await ConsumerProtocolGroup.begin(story)
    expect_answer(await group.join("n1"), error=E.GROUP_ID_NOT_FOUND)
    await carla.expect_stable(members=1)


@case("cg.up.policy-upgrade", 2, required_settings=policy("upgrade"))
async def upgrade_under_policy_upgrade(story: StoryContext) -> None:
    """Under the policy upgrade a classic group is converted."""
    group, carla = await mixed_group(story)
    await group.expect_members(carla.id, "n1")


@case("cg.up.offline-needs-no-policy", 1, required_settings=policy("disabled"))
async def upgrade_of_empty_group(story: StoryContext) -> None:
    """An Empty classic group becomes a consumer group under every policy."""
    await empty_group(story)
    group = await ConsumerProtocolGroup.begin(story)
    await add_first(group)
    await group.expect_group("Stable", group.epoch)


@case("cg.up.positive-epoch", 2, required_settings=ORDINARY)
async def heartbeat_does_not_convert(story: StoryContext) -> None:
    """Only a join converts a classic group; a heartbeat with an epoch does not find it."""
    carla = await classic_group(story)
    group = await ConsumerProtocolGroup.begin(story)
    expect_answer(await group.beat("n1", 3), error=E.GROUP_ID_NOT_FOUND)
    await carla.expect_stable(members=1)


@case(
    "cg.up.too-big",
    2,
    required_settings={
        "group.consumer.max.size": SettingBounds(at_least=2, at_most=8),
        "group.max.size": SettingBounds(at_least=4),
    },
)
async def upgrade_of_too_large_group(story: StoryContext) -> None:
    """A classic group with more members than a consumer group may have stays classic; so does one with as many."""
    size = story.setting("group.consumer.max.size")
    for members, error in ((size + 1, E.GROUP_ID_NOT_FOUND), (size, E.GROUP_MAX_SIZE_REACHED)):
        story.use_group(f"of{members}")
        await stable_classic_group(story, members)
        group = await ConsumerProtocolGroup.begin(story)
        expect_answer(await group.join("n1"), error=error)
        expect_one_of("state", ("Stable", "PreparingRebalance"), await story.group_state())


@case("cg.up.reserved-ids-do-not-count", 3, required_settings=ORDINARY)
async def upgrade_of_group_with_pending_members(story: StoryContext) -> None:
    """A classic group in which member ids were given, but no member has joined, is Empty: the ids are forgotten."""
    ben = await pending_join_member(story, "ben")
    group = await ConsumerProtocolGroup.begin(story)
    await add_first(group)
    await group.expect_members("m1")
    expect(await ben.heartbeat(), error=E.UNKNOWN_MEMBER_ID)


@case("cg.up.completing", 2, required_settings=ORDINARY)
async def upgrade_while_completing(story: StoryContext) -> None:
    """SyncGroups that are pending when the group is converted get REBALANCE_IN_PROGRESS."""
    group = await ConsumerProtocolGroup.begin(story)
    carla = await classic_group(story)
    dora = ConformanceMember(story, "dora", protocols=owning())
    join = await dora.start_rebalance()
    expect(await carla.join_group(), error=E.NONE)
    expect(await join, error=E.NONE)
    sync = await dora.sync_group().expect_pending()
    expect_answer(await group.join("n1"), epoch=carla.generation_id + 1, assignment=NOTHING)
    expect(await sync, error=E.REBALANCE_IN_PROGRESS)
    await group.expect_members(carla.id, dora.id, "n1")


@case("cg.up.custom-assignor", 2, required_settings=ORDINARY)
async def upgrade_with_custom_assignor(story: StoryContext) -> None:
    """Assignments with user data are those of a custom assignor: the group is not converted."""
    carla = await classic_group(story, user_data=b"mine")
    group = await ConsumerProtocolGroup.begin(story)
    expect_answer(await group.join("n1"), error=E.GROUP_ID_NOT_FOUND)
    await carla.expect_stable(members=1)


@case("cg.up.static-member-takes-its-place", 1, required_settings=ORDINARY)
async def static_member_crosses_over(story: StoryContext) -> None:
    """A static member that comes back with the consumer protocol takes its place: no epoch is spent."""
    carla = await classic_group(story, instance_id="i1")
    group = await ConsumerProtocolGroup.begin(story)
    expect_answer(await group.join("n1", instance_id="i1"), epoch=carla.generation_id, assignment=ALL)
    await group.expect_group("Stable", carla.generation_id)


@case("cg.up.old-static-id-is-fenced", 2, required_settings=ORDINARY)
async def old_id_of_crossed_static_member(story: StoryContext) -> None:
    """The classic member whose place was taken is fenced."""
    carla = await classic_group(story, instance_id="i1")
    group = await ConsumerProtocolGroup.begin(story)
    expect_answer(await group.join("n1", instance_id="i1"))
    expect(await carla.heartbeat(), error=E.FENCED_INSTANCE_ID)


@case("cg.up.session-timers", 2, required_settings=ORDINARY)
async def sessions_of_converted_members(story: StoryContext) -> None:
    """Classic members keep their own session timeouts when their group is converted."""
    short_ms = story.short_session_timeout_ms
    group, _ = await mixed_group(story, session_timeout_ms=short_ms)
    await story.wait_until(lambda: group.expect_members("n1"), short_ms / 1000 + TIMER_TOLERANCE_S)


@case("cg.up.offsets-stay", 1, required_settings=ORDINARY)
async def offsets_of_converted_group(story: StoryContext) -> None:
    """Offsets stay when a group is converted."""
    await admin_commit(story, {FOO_0: 7})
    await mixed_group(story)
    await expect_committed(story, FOO_0, 7)


@case("cg.up.refused-after-all-answers-the-parked", 3, required_settings=ORDINARY)
async def refused_upgrade_answers_pending_joins(story: StoryContext) -> None:
    """Pending JoinGroups are answered with REBALANCE_IN_PROGRESS even if the conversion is refused in the end."""
    group = await ConsumerProtocolGroup.begin(story)
    await stable_group(story, protocols=owning())  # with assignments that cannot be read
    carla = ConformanceMember(story, "carla", protocols=owning())
    join = await carla.start_rebalance()
    member_id = carla.id
    expect_answer(await group.join("n1"), error=E.GROUP_ID_NOT_FOUND)
    expect(await join, error=E.REBALANCE_IN_PROGRESS, member_id=member_id)


# Back to the classic protocol


async def expect_downgraded(story: StoryContext, carla: ConformanceMember, generation_id: int) -> None:
    """Expect a classic group in PreparingRebalance of this generation, whose only member is Carla."""
    await story.expect_state("PreparingRebalance", members=1)
    expect(await carla.heartbeat(generation_id=generation_id), error=E.REBALANCE_IN_PROGRESS)
    expect(await carla.heartbeat(generation_id=generation_id - 1), error=E.ILLEGAL_GENERATION)


@case("cg.down.last-consumer-member-leaves", 1, required_settings=ORDINARY)
async def last_consumer_member_leaves(story: StoryContext) -> None:
    """When the last member of the consumer protocol leaves, the group is classic again, and prepares a rebalance."""
    group, carla = await mixed_group(story)
    await group.leave("n1")
    await expect_downgraded(story, carla, group.epoch)


@case("cg.down.next-generation", 2, required_settings=ORDINARY)
async def generation_after_downgrade(story: StoryContext) -> None:
    """The next generation of the classic group is the one after the group epoch; a leader is chosen."""
    group, carla = await mixed_group(story)
    await group.leave("n1")
    expect(await carla.join_group(), error=E.NONE, generation_id=group.epoch + 1, leader=carla.id)


@case("cg.down.by-session-timeout", 2, required_settings=SHORT_SESSIONS)
async def last_consumer_member_expires(story: StoryContext) -> None:
    """An expired session of the last member of the consumer protocol makes the group classic, too."""
    group = await with_short_session(story)
    carla = await classic_group(story)
    expect_answer(await group.join("n1"), epoch=carla.generation_id + 1)
    await story.wait_for_state("PreparingRebalance", members=1)
    await expect_downgraded(story, carla, carla.generation_id + 1)


@case("cg.down.by-rebalance-timeout", 2, required_settings=ORDINARY)
async def last_consumer_member_revokes_too_slowly(story: StoryContext) -> None:
    """So does the rebalance timeout of the last member of the consumer protocol."""
    group = await ConsumerProtocolGroup.begin(story)
    await add_first(group, rebalance_timeout_ms=1_500)
    carla = ConformanceMember(story, "carla", protocols=owning())
    expect(await carla.join(), error=E.NONE)
    expect_answer(await group.beat("m1", group.epoch), epoch=group.epoch, assignment=LOW)
    await story.wait_for_state("PreparingRebalance", members=1)


@case("cg.down.by-LeaveGroup", 2, required_settings=ORDINARY)
async def last_consumer_member_is_removed(story: StoryContext) -> None:
    """So does a LeaveGroup that removes the last member of the consumer protocol."""
    group, carla = await mixed_group(story)
    expect_member_errors(await leave_group(story, MemberIdentity(member_id="n1")), E.NONE)
    await expect_downgraded(story, carla, group.epoch)


@case("cg.down.policy-upgrade", 1, required_settings=policy("upgrade"))
async def downgrade_under_policy_upgrade(story: StoryContext) -> None:
    """Under the policy upgrade a group stays a consumer group, also with classic members only."""
    group, carla = await mixed_group(story)
    await group.leave("n1")
    await group.expect_group("Assigning", group.epoch + 1, group.epoch)
    await group.expect_members(carla.id)


@case("cg.down.policy-downgrade", 2, required_settings=policy("downgrade"))
async def downgrade_under_policy_downgrade(story: StoryContext) -> None:
    """Under the policy downgrade a group becomes classic when its last member of the consumer protocol leaves."""
    group = await group_of_one(story)
    carla = ConformanceMember(story, "carla", protocols=owning())
    expect(await carla.join(), error=E.NONE)
    await group.leave("m1")
    await story.expect_state("PreparingRebalance", members=1)


@case(
    "cg.down.too-big",
    3,
    required_settings={
        "group.consumer.max.size": SettingBounds(at_least=6),
        "group.max.size": SettingBounds(at_least=1, at_most=4),
        POLICY: SettingChoice(("downgrade", "bidirectional")),
    },
)
async def downgrade_of_too_large_group(story: StoryContext) -> None:
    """A group with more classic members than a classic group may have stays a consumer group."""
    group = await group_of_one(story)
    size = story.setting("group.max.size") + 1
    for number in range(size):
        carla = ConformanceMember(story, f"carla-{number}", protocols=owning())
        expect(await carla.join(), error=E.NONE)
    await group.leave("m1")
    expect_equal("members", size, len((await group.describe()).members))


@case("cg.down.static-replacement", 2, required_settings=ORDINARY)
async def static_member_crosses_back(story: StoryContext) -> None:
    """A static member that comes back with the classic protocol takes its place; the classic group is Stable."""
    group = await group_of_one(story, instance_id="i1")
    carla = ConformanceMember(story, "carla", instance_id="i1", protocols=owning())
    expect(await carla.join_group(), error=E.NONE, generation_id=group.epoch, leader="", members=[])
    await story.expect_state("Stable", members=1)
    response = await carla.sync_group()
    expect(response, error=E.NONE)
    expect_equal("assignment", ALL, partitions_of(response))


@case("cg.down.empty-consumer-group-becomes-classic", 1, required_settings=ORDINARY)
async def empty_consumer_group_becomes_classic(story: StoryContext) -> None:
    """An Empty consumer group becomes classic with the first JoinGroup; its generations start again."""
    group = await group_of_one(story)
    await group.leave("m1")
    carla = ConformanceMember(story, "carla", protocols=owning())
    expect(await carla.join_group(), error=E.MEMBER_ID_REQUIRED)
    expect(await story.describe(), error=E.NONE, group_state="Empty", protocol_type="")
    expect(await carla.join_group(), error=E.NONE, generation_id=1)


@case("cg.down.assignments-come-from-the-target", 3, required_settings=ORDINARY)
async def assignments_after_downgrade(story: StoryContext) -> None:
    """The classic group has the targets of its members as their assignments."""
    group, carla = await settled_mixed_group(story)
    await group.leave("n1")
    described = await story.describe()
    expect(described, group_state="PreparingRebalance", protocol_type="consumer")
    expect(await carla.join_group(), error=E.NONE, leader=carla.id)


@case("cg.up.back-and-forth", 2, required_settings=ORDINARY)
async def migration_back_and_forth(story: StoryContext) -> None:
    """A group may migrate in both directions again and again; epochs and generations only rise."""
    group, carla = await mixed_group(story)
    await group.leave("n1")
    joined = await carla.join_group()
    expect(joined, error=E.NONE, generation_id=group.epoch + 1)
    expect(await carla.sync_group({carla.id: b""}), error=E.NONE)
    answer = await group.join("n2")
    expect_answer(answer, epoch=group.epoch + 2)
    await group.expect_members(carla.id, "n2")


@case("cg.up.cooperative-hand-over", 2, required_settings=ORDINARY)
async def cooperative_hand_over(story: StoryContext) -> None:
    """A cooperative classic member hands partitions over in two rounds, an eager one in one."""
    group, carla = await mixed_group(story)
    expect(await carla.heartbeat(), error=E.REBALANCE_IN_PROGRESS)
    owning_all = await carla.join_group(protocols=owning(ALL))
    expect(owning_all, error=E.NONE, generation_id=group.epoch - 1)
    expect_equal("kept", LOW, partitions_of(await carla.sync_group()))
    expect_answer(await group.beat("n1", group.epoch), assignment=None)
    expect(await carla.heartbeat(), error=E.REBALANCE_IN_PROGRESS)
    owning_rest = await carla.join_group(protocols=owning(LOW))
    expect(owning_rest, error=E.NONE, generation_id=group.epoch)
    expect_equal("kept", LOW, partitions_of(await carla.sync_group()))
    expect(await carla.heartbeat(), error=E.NONE)
    expect_answer(await group.beat("n1", group.epoch), assignment=HIGH)


@case("cg.up.eager-hand-over", 2, required_settings=ORDINARY)
async def eager_hand_over(story: StoryContext) -> None:
    """An eager classic member, which owns nothing when it joins, hands partitions over in one round."""
    group, carla = await handed_over(story)
    expect(await carla.heartbeat(), error=E.NONE)
    expect_answer(await group.beat("n1", group.epoch), epoch=group.epoch, assignment=HIGH)
    await group.expect_group("Stable", group.epoch)


@case("cg.up.classic-member-crosses-over", 2, required_settings=ORDINARY)
async def classic_member_sends_heartbeat_of_new_protocol(story: StoryContext) -> None:
    """A classic member of a consumer group that sends a ConsumerGroupHeartbeat speaks the consumer protocol then."""
    group, carla = await settled_mixed_group(story)
    answer = await group.beat(carla.id, 0, rebalance_timeout_ms=60_000, names=(SIX_TOPIC,), owned=NOTHING)
    expect_answer(answer, epoch=group.epoch, assignment=LOW)
    expect(await group.described_member(carla.id), member_type=1)
    expect(await carla.heartbeat(), error=E.UNKNOWN_MEMBER_ID)
