"""Stories about members of the classic protocol in a consumer group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup."""

from regroup.conformance.harness.broker_under_test import ABSENT_TOPIC, SIX_TOPIC
from regroup.conformance.harness.cases import case
from regroup.conformance.harness.consumer_group import ALL, LOW, expect_answer
from regroup.conformance.harness.consumer_groups import ORDINARY, group_of_one
from regroup.conformance.harness.expect import (
    TIMER_TOLERANCE_S,
    expect,
    expect_equal,
    expect_every_partition,
    expect_member_errors,
    expect_true,
)
from regroup.conformance.harness.member import ConformanceMember, leave_group
from regroup.conformance.harness.migration import handed_over, mixed_group, owning, partitions_of, settled_mixed_group
from regroup.conformance.harness.story import StoryContext
from regroup.conformance.stories.consumer_groups.upgrade import policy
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.messages.group import MemberIdentity

SIX_0, SIX_5 = (SIX_TOPIC, 0), (SIX_TOPIC, 5)
SHORT_REBALANCE_MS = 1_500


@case("cg.cm.join-new", 1, required_settings=ORDINARY)
async def classic_member_joins_consumer_group(story: StoryContext) -> None:
    """A classic member that joins is answered at once: its generation is its epoch, and there is no leader."""
    group = await group_of_one(story)
    carla = ConformanceMember(story, "carla", protocols=owning())
    expect(await carla.join_group(), error=E.MEMBER_ID_REQUIRED)
    expect(await carla.join_group(), error=E.NONE, generation_id=group.epoch + 1, leader="", members=[])
    joined = await carla.join_group()
    expect(joined, protocol_type="consumer", protocol_name="range", skip_assignment=False)


@case("cg.cm.join-without-id-v3", 2, required_settings=ORDINARY)
async def classic_member_joins_without_id(story: StoryContext) -> None:
    """Up to v3 a classic member joins without being asked to come back with its member id."""
    group = await group_of_one(story)
    carla = ConformanceMember(story, "carla", protocols=owning())
    expect(await carla.join_group(version=3), error=E.NONE, generation_id=group.epoch + 1)


@case("cg.cm.join-with-made-up-id", 3, required_settings=ORDINARY)
async def classic_member_joins_with_made_up_id(story: StoryContext) -> None:
    """A classic member may make its member id up, which a classic group would refuse."""
    await group_of_one(story)
    carla = ConformanceMember(story, "carla", protocols=owning())
    expect(await carla.join_group(member_id="made-up"), error=E.NONE, member_id="made-up")


@case("cg.cm.join-policy-disabled", 1, required_settings=policy("disabled"))
async def classic_member_joins_under_policy_disabled(story: StoryContext) -> None:
    """Under the policy disabled a consumer group with members refuses classic members."""
    await group_of_one(story)
    carla = ConformanceMember(story, "carla", protocols=owning())
    expect(await carla.join_group(), error=E.INCONSISTENT_GROUP_PROTOCOL, member_id="")


@case("cg.cm.join-policy-upgrade", 2, required_settings=policy("upgrade"))
async def classic_member_joins_under_policy_upgrade(story: StoryContext) -> None:
    """Under the policy upgrade classic members may join a consumer group."""
    await group_of_one(story)
    carla = ConformanceMember(story, "carla", protocols=owning())
    expect(await carla.join(), error=E.NONE)


@case("cg.cm.join-no-common-assignor", 2, required_settings=ORDINARY)
async def classic_members_without_common_assignor(story: StoryContext) -> None:
    """Classic members must have an assignor in common; members of the consumer protocol do not count."""
    await mixed_group(story)
    dora = ConformanceMember(story, "dora", protocols=owning({}, "roundrobin"))
    expect(await dora.join_group(member_id="dora"), error=E.INCONSISTENT_GROUP_PROTOCOL)


@case("cg.cm.join-malformed-subscription", 3, required_settings=ORDINARY)
async def classic_member_with_malformed_subscription(story: StoryContext) -> None:
    """A subscription that cannot be read is refused."""
    await group_of_one(story)
    carla = ConformanceMember(story, "carla", protocols={"range": b"\x00"})
    expect(await carla.join_group(member_id="c"), error=E.INCONSISTENT_GROUP_PROTOCOL)


@case("cg.cm.join-other-protocol-type", 2, required_settings=ORDINARY)
async def classic_member_with_other_protocol_type(story: StoryContext) -> None:
    """A classic member of another protocol type is refused."""
    await group_of_one(story)
    carla = ConformanceMember(story, "carla", protocols=owning(), protocol_type="connect")
    expect(await carla.join_group(member_id="c"), error=E.INCONSISTENT_GROUP_PROTOCOL)


@case("cg.cm.sync-while-unrevoked", 1, required_settings=ORDINARY)
async def sync_while_revoking(story: StoryContext) -> None:
    """A classic member that has to release partitions gets by SyncGroup what it may keep."""
    _, carla = await mixed_group(story)
    expect(await carla.join_group(protocols=owning(ALL)), error=E.NONE)
    response = await carla.sync_group()
    expect(response, error=E.NONE)
    expect_equal("assignment", LOW, partitions_of(response))
    expect(await carla.heartbeat(), error=E.REBALANCE_IN_PROGRESS)


@case("cg.cm.owned-by-name", 3, required_settings=ORDINARY)
async def classic_member_owns_unknown_topic(story: StoryContext) -> None:
    """Owned partitions of topics that do not exist are ignored: the member owns nothing, and is done in one round."""
    group, carla = await mixed_group(story)
    joined = await carla.join_group(protocols=owning({ABSENT_TOPIC: [0]}))
    expect(joined, error=E.NONE, generation_id=group.epoch)


@case("cg.cm.sync-ok", 1, required_settings=ORDINARY)
async def sync_after_join(story: StoryContext) -> None:
    """SyncGroup returns what is assigned to the member; assignments that it sends are ignored."""
    _, carla = await handed_over(story)
    response = await carla.sync_group({carla.id: b"mine", "n1": b"yours"})
    expect(response, error=E.NONE, protocol_name="range")
    expect_equal("assignment", LOW, partitions_of(response))


@case("cg.cm.sync-when-behind", 2, required_settings=ORDINARY)
async def sync_before_join(story: StoryContext) -> None:
    """A member that has not joined since the target changed gets REBALANCE_IN_PROGRESS by SyncGroup."""
    _, carla = await mixed_group(story)
    expect(await carla.sync_group(), error=E.REBALANCE_IN_PROGRESS)


@case("cg.cm.sync-wrong-protocol-name", 2, required_settings=ORDINARY)
async def sync_with_wrong_protocol(story: StoryContext) -> None:
    """SyncGroup with another assignor or protocol type than the member's own is refused."""
    _, carla = await handed_over(story)
    expect(await carla.sync_group(protocol_name="roundrobin"), error=E.INCONSISTENT_GROUP_PROTOCOL)
    expect(await carla.sync_group(protocol_type="connect"), error=E.INCONSISTENT_GROUP_PROTOCOL)


@case("cg.cm.sync-by-consumer-member", 2, required_settings=ORDINARY)
async def sync_of_consumer_member(story: StoryContext) -> None:
    """A member of the consumer protocol is unknown to SyncGroup."""
    group, carla = await mixed_group(story)
    expect(await carla.sync_group(member_id="n1", generation_id=group.epoch), error=E.UNKNOWN_MEMBER_ID)


@case("cg.cm.sync-wrong-generation", 2, required_settings=ORDINARY)
async def sync_with_wrong_generation(story: StoryContext) -> None:
    """SyncGroup with a generation that is not the member's epoch is refused."""
    _, carla = await mixed_group(story)
    expect(await carla.sync_group(generation_id=9), error=E.ILLEGAL_GENERATION)


@case("cg.cm.heartbeat-behind", 1, required_settings=ORDINARY)
async def heartbeat_when_behind(story: StoryContext) -> None:
    """A member that has not reached the target's epoch gets REBALANCE_IN_PROGRESS by Heartbeat."""
    _, carla = await mixed_group(story)
    expect(await carla.heartbeat(), error=E.REBALANCE_IN_PROGRESS)


@case("cg.cm.heartbeat-wrong-generation", 2, required_settings=ORDINARY)
async def heartbeat_with_wrong_generation(story: StoryContext) -> None:
    """Heartbeat with a generation that is not the member's epoch is refused."""
    _, carla = await mixed_group(story)
    expect(await carla.heartbeat(generation_id=8), error=E.ILLEGAL_GENERATION)


@case("cg.cm.heartbeat-unknown", 2, required_settings=ORDINARY)
async def heartbeat_of_stranger(story: StoryContext) -> None:
    """Heartbeat of an unknown member is refused."""
    _, carla = await mixed_group(story)
    expect(await carla.heartbeat(member_id="zz"), error=E.UNKNOWN_MEMBER_ID)


@case("cg.cm.heartbeat-of-consumer-member", 2, required_settings=ORDINARY)
async def classic_heartbeat_of_consumer_member(story: StoryContext) -> None:
    """A member of the consumer protocol is unknown to Heartbeat."""
    group, carla = await mixed_group(story)
    expect(await carla.heartbeat(member_id="n1", generation_id=group.epoch), error=E.UNKNOWN_MEMBER_ID)


@case("cg.cm.session-timeout", 1, required_settings=ORDINARY)
async def session_of_classic_member(story: StoryContext) -> None:
    """A classic member in a consumer group is removed after its own session timeout."""
    short_ms = story.short_session_timeout_ms
    group = await group_of_one(story)
    carla = ConformanceMember(story, "carla", protocols=owning(), session_timeout_ms=short_ms)
    expect(await carla.join(), error=E.NONE)
    await story.wait_until(lambda: group.expect_members("m1"), short_ms / 1000 + TIMER_TOLERANCE_S)
    expect_true((await group.describe()).group_epoch == group.epoch + 2, "the group epoch should rise by one")


@case("cg.cm.sync-timeout", 2, required_settings=ORDINARY)
async def classic_member_never_syncs(story: StoryContext) -> None:
    """A classic member that does not send SyncGroup within its rebalance timeout is removed, even if it heartbeats."""
    group = await group_of_one(story)
    carla = ConformanceMember(story, "carla", protocols=owning(), rebalance_timeout_ms=SHORT_REBALANCE_MS)
    expect(await carla.join(), error=E.NONE)

    async def check() -> None:
        await carla.heartbeat()
        await group.expect_members("m1")

    await story.wait_until(check, SHORT_REBALANCE_MS / 1000 + TIMER_TOLERANCE_S)


@case("cg.cm.join-timeout", 2, required_settings=ORDINARY)
async def classic_member_never_rejoins(story: StoryContext) -> None:
    """A classic member that does not rejoin within its rebalance timeout is removed, even if it heartbeats."""
    group, carla = await mixed_group(story, rebalance_timeout_ms=SHORT_REBALANCE_MS)

    async def check() -> None:
        await carla.heartbeat()
        await group.expect_members("n1")

    await story.wait_until(check, SHORT_REBALANCE_MS / 1000 + TIMER_TOLERANCE_S)


@case("cg.cm.leave-batch", 1, required_settings=ORDINARY)
async def leave_of_both_kinds(story: StoryContext) -> None:
    """One LeaveGroup removes members of both protocols, and raises the group epoch once."""
    group, carla = await settled_mixed_group(story)
    expect_answer(await group.join("n2"), epoch=group.epoch + 1)
    leaving = [MemberIdentity(member_id=member_id) for member_id in (carla.id, "n1", "zz")]
    expect_member_errors(await leave_group(story, *leaving), E.NONE, E.NONE, E.UNKNOWN_MEMBER_ID)
    await group.expect_members("n2")
    await group.expect_group("Assigning", group.epoch + 2, group.epoch + 1)


@case("cg.cm.leave-by-instance", 2, required_settings=ORDINARY)
async def leave_by_instance_id(story: StoryContext) -> None:
    """LeaveGroup finds static members of the consumer protocol by instance id; the answer repeats the request."""
    await group_of_one(story, instance_id="i1")
    leaving = [MemberIdentity(member_id="", group_instance_id=name) for name in ("i1", "i7")]
    response = await leave_group(story, *leaving)
    expect_member_errors(response, E.NONE, E.UNKNOWN_MEMBER_ID)
    expect_equal("member ids", ["", ""], [each.member_id for each in response.members])


@case("cg.cm.leave-nobody", 2, required_settings=ORDINARY)
async def leave_of_stranger(story: StoryContext) -> None:
    """A LeaveGroup that removes no member does not raise the group epoch."""
    group = await group_of_one(story)
    expect_member_errors(await leave_group(story, MemberIdentity(member_id="zz")), E.UNKNOWN_MEMBER_ID)
    await group.expect_group("Stable", group.epoch)


@case("cg.cm.leave-v2", 3, required_settings=ORDINARY)
async def leave_in_older_version(story: StoryContext) -> None:
    """The versions of LeaveGroup with a single member remove members of the consumer protocol, too."""
    group = await group_of_one(story)
    expect(await leave_group(story, MemberIdentity(member_id="m1"), version=2), error=E.NONE)
    await group.expect_group("Empty", group.epoch + 1)


@case("cg.cm.commit-lost-partition", 2, required_settings=ORDINARY)
async def commit_of_classic_member(story: StoryContext) -> None:
    """With an older generation a classic member may commit what it kept; anything else is an ILLEGAL_GENERATION."""
    group, carla = await handed_over(story)
    for partition, error in ((SIX_0, E.NONE), (SIX_5, E.ILLEGAL_GENERATION)):
        response = await carla.commit_offsets({partition: 1}, generation_id=group.epoch - 1, version=8)
        expect_every_partition(response, error)


@case("cg.cm.commit-greater-generation", 2, required_settings=ORDINARY)
async def commit_of_classic_member_with_greater_generation(story: StoryContext) -> None:
    """A generation that the classic member has not reached is an ILLEGAL_GENERATION."""
    group, carla = await handed_over(story)
    response = await carla.commit_offsets({SIX_0: 1}, generation_id=group.epoch + 1)
    expect_every_partition(response, E.ILLEGAL_GENERATION)


@case("cg.cm.fetch-old-generation", 2, required_settings=ORDINARY)
async def fetch_of_classic_member(story: StoryContext) -> None:
    """Reading offsets with an older generation is an ILLEGAL_GENERATION for a classic member."""
    group, carla = await handed_over(story)
    expect_equal("answer", (E.ILLEGAL_GENERATION, {}), await group.fetch(carla.id, group.epoch - 1, SIX_0))
    expect_equal("answer", (E.NONE, {SIX_0: -1}), await group.fetch(carla.id, group.epoch, SIX_0))


@case("cg.cm.static-known-id-mismatch", 2, required_settings=ORDINARY)
async def classic_member_with_foreign_member_id(story: StoryContext) -> None:
    """A JoinGroup with an instance id and another member id than its holder's is fenced."""
    await group_of_one(story, instance_id="i1")
    carla = ConformanceMember(story, "carla", instance_id="i1", protocols=owning())
    expect(await carla.join_group(member_id="zz"), error=E.FENCED_INSTANCE_ID)


@case("cg.cm.static-known-id-unknown-instance", 2, required_settings=ORDINARY)
async def classic_member_with_unknown_instance_id(story: StoryContext) -> None:
    """A JoinGroup with a member id and an unknown instance id is refused."""
    await group_of_one(story)
    carla = ConformanceMember(story, "carla", instance_id="i9", protocols=owning())
    expect(await carla.join_group(member_id="zz"), error=E.UNKNOWN_MEMBER_ID)


@case("cg.cm.votes-and-racks", 3, required_settings=ORDINARY)
async def classic_members_do_not_vote(story: StoryContext) -> None:
    """Classic members never vote for the assignor of the group: their own assignors do not run."""
    group, _ = await mixed_group(story)
    expect(await group.describe(), assignor_name="uniform")


@case("cg.cm.empty-group-requests", 3, required_settings=ORDINARY)
async def classic_requests_to_empty_group(story: StoryContext) -> None:
    """In an Empty consumer group SyncGroup and Heartbeat know no member."""
    group = await group_of_one(story)
    await group.leave("m1")
    carla = ConformanceMember(story, "carla")
    expect(await carla.sync_group(member_id="c", generation_id=1), error=E.UNKNOWN_MEMBER_ID)
    expect(await carla.heartbeat(member_id="c", generation_id=1), error=E.UNKNOWN_MEMBER_ID)
