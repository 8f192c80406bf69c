"""The texts of a campaign's report beside the plots: its set-up, its conclusion, and its paired differences."""

import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from html import escape
from itertools import product
from statistics import median
from typing import Any

from pyspark.sql import Row

from regroup.lab.plan.validation import CLASSIC
from regroup.pipeline.campaign.grid import Campaign, CampaignRun
from regroup.pipeline.campaign.options import PROTOCOLS, parse_options
from regroup.pipeline.campaign.scenarios import SCENARIOS
from regroup.pipeline.report.paired_differences import MEASURES, MIN_TRUSTED_PAIRS
from regroup.pipeline.report.sections import cell_label, option_label


def ordered_cells(campaign: Campaign) -> list[str]:
    """The names of all cells, ordered so that cells that differ only in the grid's first option are neighbours."""
    names = list(campaign.grid)
    others = [campaign.grid[name] for name in names[1:]]
    cells = [
        dict(zip(names, (first, *rest), strict=True))
        for rest in product(*others)
        for first in (campaign.grid[names[0]] if names else ())
    ]
    return [CampaignRun(cell, 0).cell_name for cell in cells] or [""]


def setup_html(campaign: Campaign) -> str:
    """The set-up of a campaign as HTML: the scenario, the options of all runs, and those that the grid varies."""
    scenarios = campaign.grid.get("scenario", [campaign.scenario])
    described = " ".join(f"<b>{escape(name)}</b>: {_description_html(name)}" for name in scenarios)
    fixed = {name: value for name, value in campaign.fixed.items() if name != "scenario"}
    defaults = asdict(parse_options({}))
    decided = {name for each in protocols_of(campaign) for name in PROTOCOLS[each]}
    named = {*fixed, *campaign.grid, *decided}
    unnamed = {name: value for name, value in defaults.items() if name not in named}
    varied = "; ".join(
        f"{_name(name)}: {', '.join(option_label(name, str(value)) for value in values)}"
        for name, values in campaign.grid.items()
    )
    rows = [
        ("Scenario", described),
        ("The same in all runs", escape(_options(fixed) or "nothing but the defaults")),
        ("By default", escape(_options(unnamed))),
        ("Compared", escape(varied or "nothing")),
        ("Runs", f"{campaign.seeds:,} of each cell, with the same seeds in every cell"),
    ]
    lines = "".join(f"<tr><th>{heading}</th><td>{text}</td></tr>" for heading, text in rows)
    return f"<h2>Set-up</h2><table>{lines}</table>"


def protocols_of(campaign: Campaign) -> list[str]:
    """The group protocols that the campaign's members use: `classic`, `consumer` or both."""
    found: list[str] = campaign.grid.get("protocol", [campaign.fixed.get("protocol", CLASSIC)])
    return found


def _description_html(scenario: str) -> str:
    """The scenario's description as HTML, with the names of options, which have backticks there, as code."""
    text = " ".join(inspect.cleandoc(SCENARIOS[scenario].__doc__ or "").split())
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text.partition(" Raises ")[0]))


def _name(option: str) -> str:
    return option.removesuffix("_ms").replace("_", " ")


def _options(options: Mapping[str, Any]) -> str:
    return ", ".join(option_label(name, str(value)) for name, value in options.items())


def conclusion_html(campaign: Campaign, rows: Sequence[Row]) -> str:
    """The conclusion of a campaign as HTML: the least and greatest median time without an owner, and all medians."""
    medians = {row.cell: row.p50 for row in rows}
    if not medians:
        return ""
    least, most = min(medians, key=lambda cell: medians[cell]), max(medians, key=lambda cell: medians[cell])
    words = f"The median run had partitions without an owner for {medians[least]:,.0f} partition-seconds"
    if f"{medians[least]:,.0f}" != f"{medians[most]:,.0f}":
        words = (
            f"Partitions were without an owner least with {cell_label(least)} ({medians[least]:,.0f} partition-seconds "
            f"in the median run), and most with {cell_label(most)} ({medians[most]:,.0f}). The median of all cells is "
            f"{median(medians.values()):,.0f}"
        )
    elif len(medians) > 1:
        words += ", in every cell: rounded to whole seconds there is no difference"
    return f"<h2>Result</h2><p>{escape(words)}.</p>{_side_by_side(campaign, rows)}"


def _side_by_side(campaign: Campaign, rows: Sequence[Row]) -> str:
    """A table with a column for each value of the first option, and a row for each combination of the others."""
    if not campaign.grid:
        return ""
    first, *others = campaign.grid
    by_cell = {row.cell: row for row in rows}
    columns = campaign.grid[first]
    head = "".join(f'<th class="n">{escape(option_label(first, str(value)))}</th>' for value in columns)
    lines = []
    for rest in product(*(campaign.grid[name] for name in others)):
        label = ", ".join(option_label(name, str(value)) for name, value in zip(others, rest, strict=True)) or "all"
        cells = (CampaignRun(dict(zip(campaign.grid, (value, *rest), strict=True)), 0).cell_name for value in columns)
        numbers = "".join(f'<td class="n">{_median_and_spread(by_cell.get(cell))}</td>' for cell in cells)
        lines.append(f"<tr><td>{escape(label)}</td>{numbers}</tr>")
    words = (
        "Partition-seconds without an owner: the median, and in brackets the 5th and the 95th percentile of the runs."
    )
    return f'<p class="soft">{words}</p><table><tr><th></th>{head}</tr>{"".join(lines)}</table>'


def differences_html(rows: Sequence[Row]) -> str:
    """The paired differences of a campaign as HTML, a table for each measure."""
    if not rows:
        return ""
    words = (
        "How much more a cell costs than the one with the first value of the first option, from run to run with the "
        "same seed: the mean difference, and in brackets its interval. All intervals of this page hold the true means "
        "together with 95 % (2,000 bootstrap samples of the seeds), so they are wider than each alone would be. With "
        "as many pairs as are needed the interval begins to exclude 0. “None”: the difference and its interval are 0.0 "
        "when rounded to one decimal."
    )
    if min(row.pairs for row in rows) < MIN_TRUSTED_PAIRS:
        words += f" With fewer than {MIN_TRUSTED_PAIRS} pairs the intervals are too narrow, and prove no difference."
    parts = [f'<h2>Paired differences</h2><p class="soft">{escape(words)}</p>']
    for measure, name in MEASURES.items():
        lines = [
            f"<tr><td>{escape(cell_label(row.cell))}</td><td>{escape(cell_label(row.baseline))}</td>"
            f'<td class="n">{_difference(row)}</td>'
            f'<td class="n">{row.pairs}</td><td class="n">{_needed(row)}</td></tr>'
            for row in rows
            if row.measure == measure
        ]
        if not lines:
            continue
        head = (
            '<tr><th></th><th>compared with</th><th class="n">difference</th><th class="n">pairs</th>'
            '<th class="n">needed</th></tr>'
        )
        parts.append(f"<h3>{escape(name)}</h3><table>{head}{''.join(lines)}</table>")
    return "".join(parts)


def _difference(row: Row) -> str:
    """The mean difference with its interval; if all that would be shown of them is zeros, that none is seen."""
    if not _is_seen(row):
        return "none"
    return f"{_signed(row.mean_difference)} ({_signed(row.low)} to {_signed(row.high)})"


def _needed(row: Row) -> str:
    return "–" if row.pairs_needed is None or not _is_seen(row) else f"{row.pairs_needed:,}"


def _is_seen(row: Row) -> bool:
    return any(_signed(value) != "0.0" for value in (row.mean_difference, row.low, row.high))


def _signed(value: float) -> str:
    """The value with one decimal and its sign; zero has none."""
    return "0.0" if round(value, 1) == 0 else f"{value:+,.1f}"


def _median_and_spread(row: Row | None) -> str:
    return "never Stable" if row is None else f"{row.p50:,.0f} ({row.p5:,.0f}–{row.p95:,.0f})"
