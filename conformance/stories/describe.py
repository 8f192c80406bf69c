"""DescribeGroups: what an observer sees."""

from regroup.conformance.harness.cases import case
from regroup.conformance.harness.expect import expect, same, that
from regroup.conformance.harness.member import Member, share_of
from regroup.conformance.harness.scenes import alone, awaiting_sync_alone, disturbed, left_behind, let_in, stable
from regroup.conformance.harness.story import TWO_ASSIGNORS, Story
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.messages.describe import DescribeGroupsRequest, DescribeGroupsResponse

NOT_REQUESTED = -2147483648


@case("describe.unknown-group", 1)
async def unknown_group_is_dead(tell: Story) -> None:
    """Up to v5 a group that does not exist is shown as `Dead`, and that is no error."""
    for version in range(6):
        group = await tell.describe(version=version)
        shown = (group.error_code, group.group_id, group.group_state, group.protocol_type, group.protocol_data)
        same("the group", (E.NONE, tell.group, "Dead", "", ""), shown)
        same("its members", [], group.members)


@case("describe.stable", 1)
async def stable_group_is_shown_in_full(tell: Story) -> None:
    """A stable group shows its assignor, and of each member the client, the subscription and the share."""
    anna = Member(tell, "anna", client_id="c")
    await anna.joins()
    await anna.syncs({anna.id: share_of(anna)})
    group = await tell.describe(version=5)
    shown = (group.error_code, group.group_state, group.protocol_type, group.protocol_data, len(group.members))
    same("the group", (E.NONE, "Stable", "consumer", "range", 1), shown)
    member = group.members[0]
    same("id, instance, client", (anna.id, None, "c"), (member.member_id, member.group_instance_id, member.client_id))
    that(
        member.client_host.startswith("/"), f"the host should be written as Java does, /127.0.0.1: {member.client_host}"
    )
    came = (member.member_metadata, member.member_assignment)
    same("subscription and share", (TWO_ASSIGNORS["range"], share_of(anna)), came)


@case("describe.rebalancing", 1)
async def rebalancing_group_hides_subscriptions(tell: Story) -> None:
    """While a group rebalances it shows no assignor and no subscriptions, but the shares of before."""
    anna, ben, _, _ = await disturbed(tell)
    group = await tell.describe()
    shown = (group.group_state, group.protocol_type, group.protocol_data, len(group.members))
    same("the group", ("PreparingRebalance", "consumer", "", 3), shown)
    same("subscriptions", [b""] * 3, [each.member_metadata for each in group.members])
    shares = {each.member_id: each.member_assignment for each in group.members}
    same("shares", (share_of(anna), share_of(ben)), (shares.get(anna.id), shares.get(ben.id)))


@case("describe.completing", 2)
async def group_before_the_shares(tell: Story) -> None:
    """Before the shares are there a group shows neither assignor nor subscriptions nor shares."""
    await awaiting_sync_alone(tell)
    group = await tell.describe()
    same("the group", ("CompletingRebalance", ""), (group.group_state, group.protocol_data))
    same("the member", (b"", b""), (group.members[0].member_metadata, group.members[0].member_assignment))


@case(
    "describe.completing.shares-of-before",
    2,
    corrected="The catalogue shows members without shares before SyncGroup. A member that had a share in the "
    "generation before shows it still, until the new one is there; a rebalance that starts before SyncGroup clears it.",
)
async def shares_of_before_are_shown(tell: Story) -> None:
    """Before the new shares are there members show those of the generation before."""
    anna = await alone(tell)
    ben = Member(tell, "ben")
    await let_in(anna, ben)
    group = await tell.describe()
    same("the state", "CompletingRebalance", group.group_state)
    shares = {each.member_id: each.member_assignment for each in group.members}
    same("shares", {anna.id: share_of(anna), ben.id: b""}, shares)
    await Member(tell, "carla").knocks()
    same("shares", {b""}, {each.member_assignment for each in (await tell.describe()).members})


@case("describe.empty", 1)
async def empty_group_keeps_its_type(tell: Story) -> None:
    """An empty group keeps its protocol type."""
    await left_behind(tell)
    group = await tell.describe()
    shown = (group.error_code, group.group_state, group.protocol_type, group.protocol_data, group.members)
    same("the group", (E.NONE, "Empty", "consumer", "", []), shown)


@case("describe.pending-members-hidden", 3)
async def pending_ids_are_not_shown(tell: Story) -> None:
    """Ids that were handed out are not shown."""
    anna = await alone(tell)
    await Member(tell, "ben").gets_an_id()
    same("the members", [anna.id], [each.member_id for each in (await tell.describe()).members])


@case("describe.static-member", 2)
async def instance_ids_are_shown(tell: Story) -> None:
    """Since v4 static members are shown with their instance ids."""
    members = await stable(tell, static=True)
    for version in range(6):
        shown = {each.member_id: each.group_instance_id for each in (await tell.describe(version=version)).members}
        same("instances", {each.id: each.instance if version >= 4 else None for each in members}, shown)


@case("describe.authorized-operations", 3)
async def operations_only_when_asked_for(tell: Story) -> None:
    """What the caller may do is told only when asked for, since v3."""
    await alone(tell)
    for version in range(3, 6):
        same("operations", NOT_REQUESTED, (await tell.describe(version=version)).authorized_operations)
        request = DescribeGroupsRequest(groups=[tell.group], include_authorized_operations=True)
        answer = await tell.ask(request, DescribeGroupsResponse, version=version)
        that(answer.groups[0].authorized_operations != NOT_REQUESTED, "operations were asked for and not told")
        expect(answer.groups[0], error=E.NONE)
