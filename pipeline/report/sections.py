"""The sections of the report's page: which statistics each shows, its words, and its plot."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from html import escape
from typing import Final, NamedTuple, TypeAlias

from pyspark.sql import Row

from regroup.pipeline.report.plots import Percentiles, box_plot, fan_chart, fan_scale, stacked_bars
from regroup.pipeline.report.run_statistics import NOT_OWNED_YET

MAX_FAN_CHARTS: Final = 12

NO_SECONDS: Final = dict.fromkeys(("p5", "p25", "p50", "p75", "p95"), 0.0)
GAP_REASONS: Final = (
    "session-expiry",
    "join",
    "sync",
    "assigning",
    "reconciling",
    "away",
    "unassigned",
    NOT_OWNED_YET,
)
REMOVALS: Final = ("live", "ended")
MOVEMENTS: Final = ("moved", "revoked_and_returned", "kept", "new")

ReportRows: TypeAlias = Mapping[str, Sequence[Row]]
"""The rows of each statistic, by the name of its frame in `RunStatistics`."""
DrawSection: TypeAlias = Callable[[Sequence[Row], str], str]
"""A function that draws the rows of a statistic as SVG, with a title."""


class ReportSection(NamedTuple):
    """One section of the page: its heading and words, and how it draws the statistic `key` of `RunStatistics`."""

    key: str
    heading: str
    words: str
    draw: DrawSection
    words_of_stores: str = ""
    """The words in the report of ingested stores; empty if they are the same as `words`."""
    words_without_rows: str = ""
    """The words of the section if the statistic has no rows; empty if the section is left out then."""
    columns_without_rows: Mapping[str, object] | None = None
    """The columns of a cell without rows, in which nothing of the kind happened; None to leave the cell out."""


def cell_label(cell: str) -> str:
    """The label of a cell: `static=False,assignor=range,restart_ms=5000` becomes `not static, range, restart 5 s`."""
    return ", ".join(option_label(*part.partition("=")[::2]) for part in cell.split(",")) if cell else "all runs"


def option_label(name: str, value: str) -> str:
    words = name.removesuffix("_ms").replace("_", " ")
    if (name, value) == ("heartbeat_interval_ms", "0"):
        return "heartbeat interval of the protocol"
    if value in ("True", "False"):
        return words if value == "True" else f"not {words}"
    if name.endswith("_ms"):
        seconds = value.removesuffix("000")
        return f"{words} {value} ms" if seconds in (value, "") else f"{words} {seconds} s"
    return f"{words} {value}" if value[:1].isdigit() else value or words


def percentiles_of(row: Row) -> Percentiles:
    return Percentiles(row.p5, row.p25, row.p50, row.p75, row.p95)


def draw_boxes(unit: str, rows: Sequence[Row], title: str) -> str:
    """One box for each cell, or for each phase in each cell."""
    labels = [cell_label(row.cell) + (f": {row.phase}" if "phase" in row else "") for row in rows]
    return box_plot(dict(zip(labels, map(percentiles_of, rows), strict=True)), unit, title)


def draw_gap_reasons(rows: Sequence[Row], title: str) -> str:
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        found.setdefault(cell_label(row.cell), {})[row.reason] = row.mean_s
    return stacked_bars(found, GAP_REASONS, "partition-seconds", title)


def draw_movements(rows: Sequence[Row], title: str) -> str:
    found = {}
    for row in rows:
        protocol = "" if row.protocol_name in row.cell else f" ({row.protocol_name})"
        found[cell_label(row.cell) + protocol] = {column: row[column] for column in MOVEMENTS}
    return stacked_bars(found, MOVEMENTS, "partitions", title)


def draw_removals(rows: Sequence[Row], title: str) -> str:
    found = {cell_label(row.cell): {part: float(row[part]) for part in REMOVALS} for row in rows}
    return stacked_bars(found, REMOVALS, "members", title, decimals=2)


def draw_fan_charts(unit: str, rows: Sequence[Row], title: str) -> str:
    """One fan chart for each cell, all on the same scale."""
    by_cell: dict[str, list[tuple[float, Percentiles]]] = {}
    for row in rows:
        by_cell.setdefault(row.cell, []).append((row.at_s, percentiles_of(row)))
    scale = fan_scale(by_cell.values())
    drawn = []
    for cell in list(by_cell)[:MAX_FAN_CHARTS]:
        label = cell_label(cell)
        chart = fan_chart(by_cell[cell], scale, unit, "seconds", f"{title}: {label}")
        drawn.append(f"<h3>{escape(label)}</h3>{chart}")
    left_out = len(by_cell) - MAX_FAN_CHARTS
    if left_out > 0:
        drawn.append(f'<p class="soft">… and {left_out} more in the Parquet files.</p>')
    return "".join(drawn)


SECTIONS: Final = (
    ReportSection(
        "time_without_owner",
        "Time without an owner",
        "Seconds without an owner, summed over the partitions of a run, from the first moment on at which something "
        "happens to the group. The lab counts them at the members, so a crashed process owns nothing. A partition "
        "counts from its first owner on.",
        partial(draw_boxes, "partition-seconds"),
        words_of_stores="Seconds without an owner, summed over the partitions of a run, as the coordinator's events "
        "show them. A partition counts from its first owner on, as in a campaign; the time before that is under "
        "Reasons for gaps. A gap that has not ended counts until the last event of its store.",
        words_without_rows="No run had a group that was ever Stable.",
    ),
    ReportSection(
        "convergence",
        "Time to convergence",
        "Seconds from what happened to the group to the last change of an owner that followed, by the members' own "
        "view: the mean of a run.",
        partial(draw_boxes, "seconds"),
    ),
    ReportSection(
        "group_formation",
        "Forming the group",
        "Seconds without an owner while the members join within the first five seconds, summed over the partitions of "
        "a run. The time above does not include it.",
        partial(draw_boxes, "partition-seconds"),
    ),
    ReportSection(
        "gap_reasons",
        "Reasons for gaps",
        "Mean partition-seconds of a run without an owner, from the coordinator's events. Session expiry: from the "
        "owner's last request to its removal. A static member that returns within its session timeout is not removed, "
        "so its absence is not included. Join, sync: a classic group rebalances. Assigning, reconciling: a group of "
        "the consumer protocol has to compute its target, and then the next owner has not got the partition. Away: it "
        "is kept for a static member that has left and will return. Unassigned: the group is not rebalancing, and its "
        "assignment or target gives the partition to no member. Not owned yet: a partition before its first owner; "
        "the time above does not include it, nor the gaps while the group formed. A gap that has not ended counts "
        "until the run ends, or until the last event of a store.",
        draw_gap_reasons,
        words_without_rows="As the coordinator's events show it, no partition was ever without an owner.",
        columns_without_rows={"reason": "join", "mean_s": 0.0},
    ),
    ReportSection(
        "rebalance_phases",
        "Duration of rebalances",
        "Seconds of each phase of the completed rebalances of classic groups, except the first of each group. The "
        "phases are those of all members together; eager ones own nothing meanwhile.",
        partial(draw_boxes, "seconds"),
        words_without_rows="No rebalance was completed except the first of each group.",
        columns_without_rows={"phase": "no rebalance", **NO_SECONDS},
    ),
    ReportSection(
        "reconciliation_phases",
        "Duration of reconciliations",
        "Seconds of the completed reconciliations of groups of the consumer protocol, except the first of each group: "
        "until the target was computed, and until the last member had reached it. Members go on meanwhile, except with "
        "what they give up or wait for.",
        partial(draw_boxes, "seconds"),
        words_without_rows="No reconciliation was completed except the first of each group.",
        columns_without_rows={"phase": "no reconciliation", **NO_SECONDS},
    ),
    ReportSection(
        "failure_detection",
        "Failure detection",
        "Seconds from a removed member's last request to its removal.",
        partial(draw_boxes, "seconds"),
        words_without_rows="No member was removed.",
        columns_without_rows={"phase": "no member was removed", **NO_SECONDS},
    ),
    ReportSection(
        "removals",
        "Removed members",
        "Mean number of members that the coordinator removed in a run. Live: the member's process had not ended, as "
        "when it was paused or its requests came too late. Ended: it had crashed, a static member was closed, or "
        "a closed member was brought back by a failover.",
        draw_removals,
    ),
    ReportSection(
        "reprocessed_records",
        "Records processed again",
        "Number of times that a run processed a record again.",
        partial(draw_boxes, "records"),
        words_of_stores="Number of records by which the committed offsets of a store went back.",
    ),
    ReportSection(
        "partition_movements",
        "Partition movements",
        "Mean number of partitions in the assignment of a rebalance or a reconciliation, except the first of each "
        "group.",
        draw_movements,
        words_without_rows="No rebalance or reconciliation was completed except the first of each group.",
        columns_without_rows={"protocol_name": "no rebalance", **dict.fromkeys(MOVEMENTS, 0.0)},
    ),
    ReportSection(
        "gaps_over_time",
        "Gaps over time",
        "Partitions without an owner, over the runs that have not ended at that time. The line is the median; the "
        "inner band holds half of the runs, the outer band 90 %.",
        partial(draw_fan_charts, "partitions"),
    ),
)


def with_missing_cells(
    rows: Sequence[Row], cells: Sequence[str], columns: Mapping[str, object] | None
) -> Iterator[Row]:
    """Yield the rows in the order of `cells`; a cell without a row gets one with the values in `columns`, such as 0.

    If `columns` is None, such a cell gets no row.
    """
    by_cell: dict[str, list[Row]] = {}
    for row in rows:
        by_cell.setdefault(row.cell, []).append(row)
    for cell in [*cells, *(each for each in by_cell if each not in cells)]:
        if cell in by_cell:
            yield from by_cell[cell]
        elif columns is not None:
            yield Row(cell=cell, **columns)


def render_sections(
    rows: ReportRows, *, is_campaign: bool, cells: Sequence[str] = (), sections: Sequence[ReportSection] = SECTIONS
) -> Iterator[tuple[str, str, str]]:
    """Yield the heading, the words and the plot of each section. `cells` is the order of a campaign's cells."""
    for section in sections:
        words = section.words if is_campaign else section.words_of_stores or section.words
        if found := rows[section.key]:
            ordered = list(with_missing_cells(found, cells, section.columns_without_rows))
            yield section.heading, words, section.draw(ordered, section.heading)
        elif section.words_without_rows:
            yield section.heading, section.words_without_rows, ""
