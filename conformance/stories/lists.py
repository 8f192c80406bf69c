"""ListGroups: which groups there are."""

from regroup.conformance.harness.cases import case
from regroup.conformance.harness.expect import code_is, same
from regroup.conformance.harness.offsets import committed_outside
from regroup.conformance.harness.scenes import alone, awaiting_sync_alone, left_behind
from regroup.conformance.harness.story import Story
from regroup.conformance.harness.target import FOO
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.messages.describe import ListGroupsRequest, ListGroupsResponse

Row = tuple[str, str, str]
"""Protocol type, state and type of a group."""


async def listed(
    tell: Story, *, states: tuple[str, ...] = (), types: tuple[str, ...] = (), version: int | None = None
) -> dict[str, Row]:
    """The groups of this story in the list, by what follows its name; all of them have one coordinator."""
    request = ListGroupsRequest(states_filter=[*states], types_filter=[*types])
    answer = await tell.ask(request, ListGroupsResponse, version=version)
    code_is("ListGroupsResponse.error_code", E.NONE, answer.error_code)
    mine = tell.first_group + "-"
    return {
        each.group_id.removeprefix(mine).split("-")[0]: (each.protocol_type, each.group_state, each.group_type)
        for each in sorted(answer.groups, key=lambda group: group.group_id)
        if each.group_id.startswith(mine)
    }


async def three_groups(tell: Story) -> None:
    """One stable, one before its shares, one empty."""
    for name, scene in (("stable", alone), ("completing", awaiting_sync_alone), ("empty", left_behind)):
        await tell.turns_to_neighbour(name)
        await scene(tell)


STABLE, COMPLETING, EMPTY = (("consumer", state, "classic") for state in ("Stable", "CompletingRebalance", "Empty"))


@case("list.all", 1)
async def all_groups(tell: Story) -> None:
    """Every group is listed with protocol type, state and type; older versions tell less."""
    await three_groups(tell)
    same("the groups", {"stable": STABLE, "completing": COMPLETING, "empty": EMPTY}, await listed(tell, version=5))
    for version in range(5):
        rows = await listed(tell, version=version)
        state = "Stable" if version == 4 else ""
        same(f"the stable group in v{version}", ("consumer", state, ""), rows.get("stable"))


@case("list.state-filter", 1)
async def groups_by_state(tell: Story) -> None:
    """A filter by state does not mind case; several states are any of them; an unknown one selects nothing."""
    await three_groups(tell)
    for version in (4, 5):
        same("stable", ["stable"], [*await listed(tell, states=("sTaBlE",), version=version)])
        both = await listed(tell, states=("Stable", "Empty"), version=version)
        same("stable or empty", ["empty", "stable"], [*both])
        same("nonsense", [], [*await listed(tell, states=("Nonsense",), version=version)])


@case("list.type-filter", 1)
async def groups_by_type(tell: Story) -> None:
    """A filter by type does not mind case either."""
    await three_groups(tell)
    same("classic", ["completing", "empty", "stable"], [*await listed(tell, types=("Classic",))])
    same("consumer", [], [*await listed(tell, types=("Consumer",))])
    same("nonsense", [], [*await listed(tell, types=("Nonsense",))])


@case("list.both-filters", 2)
async def groups_by_state_and_type(tell: Story) -> None:
    """Two filters must both be passed."""
    await three_groups(tell)
    same("empty and classic", ["empty"], [*await listed(tell, states=("Empty",), types=("classic",))])
    same("empty and consumer", [], [*await listed(tell, states=("Empty",), types=("consumer",))])


@case("list.simple-group", 2)
async def group_of_offsets_only(tell: Story) -> None:
    """A group that holds offsets and never had a member has no protocol type."""
    tell.turns_to_group("simple")
    await committed_outside(tell, {(FOO, 0): 1})
    same("the groups", {"simple": ("", "Empty", "classic")}, await listed(tell))


@case("list.scope-is-one-broker", 2)
async def groups_of_one_broker(tell: Story) -> None:
    """A broker lists the groups that it coordinates, and no others."""
    tell.turns_to_group("stable")
    await alone(tell)
    same("the coordinator's list", {"stable": STABLE}, await listed(tell))
    await tell.turns_to_another_broker()
    same("another broker's list", {}, await listed(tell))
