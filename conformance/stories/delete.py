"""DeleteGroups: forgetting a whole group."""

from regroup.conformance.harness.cases import case
from regroup.conformance.harness.expect import code_is, offsets_in, same
from regroup.conformance.harness.member import Member
from regroup.conformance.harness.offsets import committed_outside, fetches, offset
from regroup.conformance.harness.scenes import alone, awaiting_sync_alone, disturbed, left_behind
from regroup.conformance.harness.story import Story
from regroup.conformance.harness.target import FOO
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.messages.describe import DeleteGroupsRequest, DeleteGroupsResponse


async def deletion(tell: Story, error: int) -> None:
    """The story's group is to be deleted, and this code comes."""
    answer = await tell.ask(DeleteGroupsRequest(groups_names=[tell.group]), DeleteGroupsResponse)
    same("the groups in the answer", [tell.group], [each.group_id for each in answer.results])
    code_is("the group's code", error, answer.results[0].error_code)


@case("delete.non-empty", 1)
async def group_with_members(tell: Story) -> None:
    """A group with members cannot be deleted, in whatever state."""
    for name, scene in (("stable", alone), ("completing", awaiting_sync_alone), ("preparing", disturbed)):
        tell.turns_to_group(name)
        await scene(tell)
        before = await tell.state()
        await deletion(tell, E.NON_EMPTY_GROUP)
        await tell.is_in(before)


@case("delete.empty-with-offsets", 1)
async def empty_group_with_offsets(tell: Story) -> None:
    """An empty group is deleted with its offsets, and a next member begins with generation 1."""
    await left_behind(tell)
    await committed_outside(tell, {(FOO, 0): 1, (FOO, 1): 2})
    await deletion(tell, E.NONE)
    await tell.is_in("Dead")
    await deletion(tell, E.GROUP_ID_NOT_FOUND)
    same("the next generation", 1, (await Member(tell, "ben").joins()).generation_id)


@case("delete.simple-group", 2)
async def group_of_offsets(tell: Story) -> None:
    """A group that holds offsets only can be deleted too."""
    await committed_outside(tell, {(FOO, 0): 1})
    await deletion(tell, E.NONE)
    await tell.is_in("Dead")


@case("delete.fetch-after-delete", 1)
async def offsets_are_gone(tell: Story) -> None:
    """After the deletion nothing is committed, and that is no error."""
    await committed_outside(tell, {(FOO, 0): 1})
    await deletion(tell, E.NONE)
    same("the offsets", {(FOO, 0): offset(-1)}, offsets_in(await fetches(tell, [(FOO, 0)])))
