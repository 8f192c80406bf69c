"""Stories about ListGroups: state filters (KIP-518) and type filters (KIP-848)."""

from regroup.conformance.harness.broker_under_test import FOO_0
from regroup.conformance.harness.cases import case
from regroup.conformance.harness.expect import expect, expect_equal
from regroup.conformance.harness.groups import completing_group_of_one, empty_group, stable_group_of_one
from regroup.conformance.harness.offsets import admin_commit
from regroup.conformance.harness.story import StoryContext
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.messages.describe import ListGroupsRequest, ListGroupsResponse


async def list_groups(
    story: StoryContext, *, states: tuple[str, ...] = (), types: tuple[str, ...] = (), version: int | None = None
) -> dict[str, tuple[str, str, str]]:
    """By name of each group of the story: protocol type, state and group type, as the common coordinator lists them."""
    request = ListGroupsRequest(states_filter=[*states], types_filter=[*types])
    response = await story.send(request, ListGroupsResponse, version=version)
    expect(response, error=E.NONE)
    prefix = story.base_group_id + "-"
    return {
        group.group_id.removeprefix(prefix).split("-")[0]: (group.protocol_type, group.group_state, group.group_type)
        for group in sorted(response.groups, key=lambda group: group.group_id)
        if group.group_id.startswith(prefix)
    }


async def create_three_groups(story: StoryContext) -> None:
    """Create the groups `stable`, `completing` and `empty`, each in the state of its name."""
    groups = {"stable": stable_group_of_one, "completing": completing_group_of_one, "empty": empty_group}
    for name, create_group in groups.items():
        await story.use_group_of_same_coordinator(name)
        await create_group(story)


STABLE, COMPLETING, EMPTY = (("consumer", state, "classic") for state in ("Stable", "CompletingRebalance", "Empty"))


@case("list.all", 1)
async def list_all_groups(story: StoryContext) -> None:
    """Groups are listed with protocol type, state (since v4) and group type (since v5)."""
    await create_three_groups(story)
    groups = {"stable": STABLE, "completing": COMPLETING, "empty": EMPTY}
    expect_equal("the groups", groups, await list_groups(story, version=5))
    for version in range(5):
        stable = (await list_groups(story, version=version)).get("stable")
        expect_equal(f"the stable group in v{version}", ("consumer", "Stable" if version == 4 else "", ""), stable)


@case("list.state-filter", 1)
async def list_groups_by_state(story: StoryContext) -> None:
    """The state filter ignores case; several states match any of them; an unknown state matches no group."""
    await create_three_groups(story)
    for version in (4, 5):
        expect_equal("stable", ["stable"], [*await list_groups(story, states=("sTaBlE",), version=version)])
        two_states = await list_groups(story, states=("Stable", "Empty"), version=version)
        expect_equal("stable or empty", ["empty", "stable"], [*two_states])
        expect_equal("unknown state", [], [*await list_groups(story, states=("Nonsense",), version=version)])


@case("list.type-filter", 1)
async def list_groups_by_type(story: StoryContext) -> None:
    """The type filter ignores case; an unknown type matches no group."""
    await create_three_groups(story)
    expect_equal("classic", ["completing", "empty", "stable"], [*await list_groups(story, types=("Classic",))])
    expect_equal("consumer", [], [*await list_groups(story, types=("Consumer",))])
    expect_equal("unknown type", [], [*await list_groups(story, types=("Nonsense",))])


@case("list.both-filters", 2)
async def list_groups_by_state_and_type(story: StoryContext) -> None:
    """State filter and type filter must both match."""
    await create_three_groups(story)
    expect_equal("empty and classic", ["empty"], [*await list_groups(story, states=("Empty",), types=("classic",))])
    expect_equal("empty and consumer", [], [*await list_groups(story, states=("Empty",), types=("consumer",))])


@case("list.simple-group", 2)
async def list_group_of_offsets(story: StoryContext) -> None:
    """A group that has committed offsets and never had a member has no protocol type."""
    story.use_group("simple")
    await admin_commit(story, {FOO_0: 1})
    expect_equal("the groups", {"simple": ("", "Empty", "classic")}, await list_groups(story))


@case("list.scope-is-one-broker", 2)
async def list_groups_of_one_broker(story: StoryContext) -> None:
    """A broker lists only the groups that it coordinates."""
    story.use_group("stable")
    await stable_group_of_one(story)
    expect_equal("the coordinator's groups", {"stable": STABLE}, await list_groups(story))
    await story.use_wrong_broker()
    expect_equal("another broker's groups", {}, await list_groups(story))
