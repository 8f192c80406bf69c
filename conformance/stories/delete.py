"""Stories about DeleteGroups: which groups can be deleted, and what is left of them."""

from regroup.conformance.harness.broker_under_test import FOO_0, FOO_1
from regroup.conformance.harness.cases import case
from regroup.conformance.harness.expect import FetchedOffset, expect, expect_equal
from regroup.conformance.harness.groups import (
    completing_group_of_one,
    empty_group,
    preparing_group,
    stable_group_of_one,
)
from regroup.conformance.harness.member import ConformanceMember
from regroup.conformance.harness.offsets import admin_commit, expect_fetched
from regroup.conformance.harness.story import StoryContext
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.messages.describe import DeleteGroupsRequest, DeleteGroupsResponse


async def delete_group(story: StoryContext, error: int) -> None:
    """Delete the story's group, and expect this error code."""
    response = await story.send(DeleteGroupsRequest(groups_names=[story.group_id]), DeleteGroupsResponse)
    expect_equal("groups in the response", [story.group_id], [result.group_id for result in response.results])
    expect(response.results[0], error=error)


@case("delete.non-empty", 1)
async def delete_group_with_members(story: StoryContext) -> None:
    """A group with members cannot be deleted in any state."""
    for name, create_group in (
        ("stable", stable_group_of_one),
        ("completing", completing_group_of_one),
        ("preparing", preparing_group),
    ):
        story.use_group(name)
        await create_group(story)
        state = await story.group_state()
        await delete_group(story, E.NON_EMPTY_GROUP)
        await story.expect_state(state)


@case("delete.empty-with-offsets", 1)
async def delete_empty_group_with_offsets(story: StoryContext) -> None:
    """An Empty group is deleted with its offsets; the next member starts with generation 1."""
    await empty_group(story)
    await admin_commit(story, {FOO_0: 1, FOO_1: 2})
    await delete_group(story, E.NONE)
    await story.expect_state("Dead")
    await delete_group(story, E.GROUP_ID_NOT_FOUND)
    expect(await ConformanceMember(story, "ben").join(), generation_id=1)


@case("delete.simple-group", 2)
async def delete_group_of_offsets(story: StoryContext) -> None:
    """A group that has only committed offsets can be deleted."""
    await admin_commit(story, {FOO_0: 1})
    await delete_group(story, E.NONE)
    await story.expect_state("Dead")


@case("delete.fetch-after-delete", 1)
async def fetch_after_delete(story: StoryContext) -> None:
    """After a deletion OffsetFetch returns no offsets and no error."""
    await admin_commit(story, {FOO_0: 1})
    await delete_group(story, E.NONE)
    await expect_fetched(story, {FOO_0: FetchedOffset(-1)})
