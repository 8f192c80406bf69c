"""The limits of a campaign's numbers: how its members end, and what none of its cells simulates."""

from collections.abc import Callable
from html import escape
from typing import Final, NamedTuple

from regroup.pipeline.campaign.grid import Campaign
from regroup.pipeline.campaign.options import ScenarioOptions, parse_options

LIMITS: Final = (
    "The runs are simulations: regroup's coordinator, and consumers that behave as Kafka's Java client does, on a "
    "virtual clock and network. They show what follows from the protocol and the settings, not how fast a machine is.",
    "The percentiles show how far the runs of a cell are spread over the seeds. They are no confidence interval, and "
    "cells that overlap need not differ.",
)
"""The limits of every campaign."""


class CampaignCell(NamedTuple):
    """The scenario of a cell, and all of its options."""

    scenario: str
    options: ScenarioOptions


def cells_of(campaign: Campaign) -> list[CampaignCell]:
    """All cells of the campaign with their scenarios and options."""
    found = []
    for cell in campaign.cells:
        options = {**campaign.fixed, **cell}
        scenario = options.pop("scenario", campaign.scenario)
        found.append(CampaignCell(scenario, parse_options(options)))
    return found


def kills(cell: CampaignCell) -> bool:
    """Whether members of the cell's runs are killed."""
    scenario, options = cell
    if scenario in ("rolling-restart", "failover-restart"):
        return not options.graceful
    return scenario == "slow-network" or (scenario == "crashes" and options.crashes > 0)


def closes(cell: CampaignCell) -> bool:
    """Whether members of the cell's runs are closed in order."""
    scenario, options = cell
    if scenario in ("rolling-restart", "failover-restart"):
        return options.graceful
    return scenario == "surge" or (scenario == "scale-in" and options.members > 1)


def pauses(cell: CampaignCell) -> bool:
    """Whether members are paused after the group has formed."""
    scenario, options = cell
    return scenario in ("paused-node", "slow-member") or (scenario == "slow-network" and options.pauses > 0)


def fails_over(cell: CampaignCell) -> bool:
    return cell.scenario == "failover-restart"


def delays_polls(cell: CampaignCell) -> bool:
    return cell.options.process_ms > 0 and cell.options.records_per_s > 0


def pauses_several(cell: CampaignCell) -> bool:
    return cell.scenario == "paused-node" and min(cell.options.paused, cell.options.members) > 1


def surges(cell: CampaignCell) -> bool:
    return cell.scenario == "surge"


NOT_SIMULATED: Final[tuple[tuple[Callable[[CampaignCell], bool], str], ...]] = (
    (fails_over, "brokers that stop or fail"),
    (delays_polls, "processing that delays poll()"),
    (pauses_several, "pauses of several members at once"),
    (surges, "deployments that start new members before they stop old ones"),
)
"""What some campaigns simulate, with the words for those of which no cell does."""


def limits_of(campaign: Campaign) -> list[str]:
    """The limits of the campaign's numbers as sentences, which depend on its scenarios and options."""
    cells = cells_of(campaign)
    found = [*LIMITS, *limits_of_ends(cells)]
    if any(map(pauses, cells)):
        found.append(
            "A paused member counts as an owner until the coordinator has removed it: the seconds in which its "
            "partitions are not read are in no sum here."
        )
    if any(map(fails_over, cells)):
        found.append("Brokers are shut down in order. A broker that crashes is not simulated.")
    missing = [words for simulates, words in NOT_SIMULATED if not any(map(simulates, cells))]
    return [*found, f"Not simulated here: {'; '.join(missing)}."] if missing else found


def limits_of_ends(cells: list[CampaignCell]) -> list[str]:
    """What to know of the ways in which members end; no sentence if none does."""
    killed, closed = [each for each in cells if kills(each)], [each for each in cells if closes(each)]
    has_dynamic = any(not each.options.static for each in (*killed, *closed))
    sentences = []
    if killed and closed:
        sentences.append(
            f"Members are killed, and send nothing at their end, in {ways_of(killed)}; they are closed in order in "
            f"{ways_of(closed)}. Do not apply the numbers of one way to the other."
        )
    elif killed:
        sentences.append("A member whose process ends is killed and sends no LeaveGroup.")
    elif closed:
        sentences.append("A member whose process ends is closed in order before (SIGTERM and close()).")
    if has_dynamic:
        sentences.append(
            "A dynamic member that is closed leaves the group at once; one that is killed stays until its session ends."
            + ("" if killed and closed else other_way(is_killed=bool(killed)))
        )
    return [" ".join(sentences)] if sentences else []


def other_way(*, is_killed: bool) -> str:
    """To which ends the numbers of a campaign apply whose members all end in one way."""
    applies, not_to = ("crashes", "clean restarts") if is_killed else ("clean restarts", "crashes")
    return f" So apply these numbers to {applies}, not to {not_to}."


def ways_of(cells: list[CampaignCell]) -> str:
    """The scenarios of these cells, with `graceful` where that decides how members end."""
    return ", ".join(dict.fromkeys(way_of(each) for each in cells))


def way_of(cell: CampaignCell) -> str:
    if cell.scenario not in ("rolling-restart", "failover-restart"):
        return cell.scenario
    return f"{cell.scenario} ({'graceful' if cell.options.graceful else 'not graceful'})"


def limits_html(campaign: Campaign) -> str:
    """The limits as HTML: what the numbers of the campaign do not show."""
    return f"<h2>Limits</h2><ul>{''.join(f'<li>{escape(each)}</li>' for each in limits_of(campaign))}</ul>"
