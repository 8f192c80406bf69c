"""Writes the report: statistics of many runs as Parquet, and one HTML page with plots of them."""

import re
import shlex
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Final

from pyspark.sql import Row, SparkSession

from regroup.pipeline.campaign.grid import Campaign
from regroup.pipeline.campaign.runner import campaign_file, replay_command, stored_campaign
from regroup.pipeline.locations.location import Location, LocationLike, location_of
from regroup.pipeline.report.limits import limits_html
from regroup.pipeline.report.request_sections import MEMBER_SECTIONS, RECORDED_SECTIONS, WORDS_WITHOUT_RECORDINGS
from regroup.pipeline.report.run_statistics import RunStatistics
from regroup.pipeline.report.sections import SECTIONS, ReportRows, cell_label, render_sections
from regroup.pipeline.report.summary import conclusion_html, differences_html, ordered_cells, setup_html

STYLESHEET: Final = Path(__file__).with_name("report.css")


def write_report(spark: SparkSession, folder: LocationLike) -> Location:
    """Write DIR/report.html, and every statistic on it below DIR/report. Raises InvalidCampaign, StoreError."""
    place = location_of(folder, spark)
    campaign = stored_campaign(place)
    statistics = RunStatistics(spark, place)
    rows: dict[str, list[Row]] = {}
    for name, frame in statistics.frames().items():
        target = (place / "report" / name).for_spark
        frame.coalesce(1).write.mode("overwrite").parquet(target)
        written = spark.read.parquet(target).collect()
        rows[name] = written if name == "worst_runs" else sorted(written, key=natural_order)
    title = campaign.question if campaign else f"The runs in {folder}"
    page = place / "report.html"
    html = render_page(
        title,
        place,
        rows,
        is_campaign=statistics.is_campaign,
        campaign=campaign,
        has_recordings=statistics.has_recordings,
    )
    page.replace(html.encode())
    return page


def natural_order(row: Row) -> list[tuple[int, str]]:
    """A key to sort rows by: the cell, with its numbers compared as numbers, and then the phase or time."""
    words = re.split(r"(\d+)", row.cell)
    last = str(row["phase"]) if "phase" in row else f"{row['at_s']:020.3f}" if "at_s" in row else ""
    return [(int(word), "") if word.isdigit() else (0, word) for word in [*words, last]]


def render_page(
    title: str,
    folder: LocationLike,
    rows: ReportRows,
    *,
    is_campaign: bool,
    campaign: Campaign | None = None,
    has_recordings: bool = False,
) -> str:
    """The whole page as HTML, which needs no other file.

    With a campaign it begins with the conclusion, and ends with the limits. Stores have sections about their recorded
    requests; if there are none (`has_recordings`), one sentence says so.
    """
    runs = sum(row.value_count for row in rows["time_without_owner"])
    head = (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLESHEET.read_text(encoding='utf-8')}</style><h1>{escape(title)}</h1>"
        f'<p class="soft">{runs:,} {"run" if runs == 1 else "runs"}. A box spans the 25th to the 75th percentile, its '
        "whiskers the 5th to the 95th, and the stroke is the median, with its value at the end. The numbers are in the "
        "folder report, as Parquet.</p>"
    )
    cells = ordered_cells(campaign) if campaign else []
    result = ""
    if campaign:
        differences = differences_html(rows["paired_differences"])
        result = conclusion_html(campaign, rows["time_without_owner"]) + differences + setup_html(campaign)
    chosen = (*SECTIONS, *MEMBER_SECTIONS, *(RECORDED_SECTIONS if has_recordings and not is_campaign else ()))
    rendered = render_sections(rows, is_campaign=is_campaign, cells=cells, sections=chosen)
    sections = [section_html(*section) for section in rendered]
    if not is_campaign and not has_recordings:
        sections.append(section_html("Recorded requests", WORDS_WITHOUT_RECORDINGS, ""))
    failed = failed_runs_html(rows["failed_runs"], folder)
    worst = worst_runs_html(rows["worst_runs"], folder, is_campaign)
    return "".join([head, failed, result, *sections, worst, limits_html(campaign) if campaign else ""])


def section_html(heading: str, words: str, inside: str) -> str:
    return f'<h2>{escape(heading)}</h2><p class="soft">{escape(words)}</p>{inside}'


def table_html(headings: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
    """An HTML table, whose first column is formatted for numbers. The texts of `rows` must be HTML already."""
    first, *others = headings
    head = f'<tr><th class="n">{first}</th>' + "".join(f"<th>{each}</th>" for each in others) + "</tr>"
    lines = [f'<tr><td class="n">{row[0]}</td>' + "".join(f"<td>{each}</td>" for each in row[1:]) for row in rows]
    return f"<table>{head}{'</tr>'.join([*lines, ''])}</table>"


def failed_runs_html(rows: Sequence[Row], folder: LocationLike) -> str:
    """The section of runs with violations. It comes first, since a violation may explain other numbers of its cell."""
    if not rows:
        return ""
    lines = (
        [
            f"{row.failed:,} of {row.runs:,}",
            escape(cell_label(row.cell)),
            f"{escape(row.sentence)}<br><code>{escape(replay_command(campaign_file(folder), row.store))}</code>",
        ]
        for row in rows
    )
    words = "These runs violate an invariant. Find out why before you rely on the numbers of their cells."
    inside = section_html("Runs with violations", words, table_html(["runs", "cell", "first violation"], lines))
    return f'<div class="failed">{inside}</div>'


def worst_runs_html(rows: Sequence[Row], folder: LocationLike, is_campaign: bool) -> str:
    """The section of the worst runs, each with the shell command that repeats it."""
    if is_campaign:
        commands = {row.store: replay_command(campaign_file(folder), row.store) for row in rows}
    else:
        commands = {row.store: shlex.join(["regroup", "events", row.store]) for row in rows}
    lines = ([f"{row.ownerless_s:,.1f}", f"<code>{escape(commands[row.store])}</code>"] for row in rows)
    words = "Each command simulates its run again." if is_campaign else "Each command shows the events of its store."
    return section_html("The ten worst runs", words, table_html(["partition-seconds", "command"], lines))
