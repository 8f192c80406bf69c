"""The sections of the report about members and their requests, and their plots."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from pyspark.sql import Row

from regroup.pipeline.report.plots import stacked_bars
from regroup.pipeline.report.request_statistics import AFTER_THE_END, NEARLY_ALL, SHARES
from regroup.pipeline.report.sections import ReportSection, cell_label, draw_fan_charts

WAITED_FOR: Final = ("alone", "with-others")
REQUEST_KINDS: Final = ("fenced", "refused", "step")
HEARTBEAT_KINDS: Final = ("in-time", "just-in-time", "too-late")
MAX_MEMBERS: Final = 10
MAX_MEMBERS_OF_CELL: Final = 3
MAX_ERRORS: Final = 25


def draw_last_joiners(rows: Sequence[Row], title: str) -> str:
    """A bar for each of the members that were waited for longest, at most three of each cell of a campaign."""
    cells = list(dict.fromkeys(row.cell for row in rows))
    limit = MAX_MEMBERS if len(cells) == 1 else MAX_MEMBERS_OF_CELL
    bars: dict[str, dict[str, float]] = {}
    left_out = 0
    for cell in cells:
        of_cell = sorted((row for row in rows if row.cell == cell), key=lambda row: -row.times_last * row.alone_s)
        left_out += len(of_cell[limit:])
        for row in of_cell[:limit]:
            label = f"{cell_label(cell)}: {row.member}, last {row.times_last:,} of {row.generations:,} times"
            bars[label] = {"alone": row.alone_s, "with-others": row.with_others_s}
    more = f'<p class="soft">… and {left_out:,} more in the Parquet files.</p>' if left_out else ""
    return stacked_bars(bars, WAITED_FOR, "seconds", title) + more


def draw_refused(rows: Sequence[Row], title: str) -> str:
    most = sorted(rows, key=lambda row: (-row.requests, row.api, row.error))
    bars = {f"{row.api}: {row.error}": {row.kind: float(row.requests)} for row in most[:MAX_ERRORS]}
    left_out = len(most[MAX_ERRORS:])
    more = f'<p class="soft">… and {left_out:,} more in the Parquet files.</p>' if left_out else ""
    return stacked_bars(bars, REQUEST_KINDS, "requests", title, decimals=0) + more


def draw_heartbeats(rows: Sequence[Row], title: str) -> str:
    """A bar for each share of the session timeout, in each protocol."""
    counts = {(row.protocol, row.share): float(row.requests) for row in rows}
    bars = {}
    for protocol in sorted({row.protocol for row in rows}):
        for share in (*SHARES.values(), NEARLY_ALL, AFTER_THE_END):
            kind = {NEARLY_ALL: "just-in-time", AFTER_THE_END: "too-late"}.get(share, "in-time")
            bars[f"{protocol}: {share}"] = {kind: counts.get((protocol, share), 0.0)}
    return stacked_bars(bars, HEARTBEAT_KINDS, "heartbeats", title, decimals=0)


MEMBER_SECTIONS: Final = (
    ReportSection(
        "last_joiners",
        "Who joined last",
        "Which members of classic groups were the last to join a generation, and for how many seconds others had been "
        "waiting when they did, on average. Alone: since the last but one had joined. With others: before that, since "
        "the first one had. Those that were waited for longest come first; the first generation of each group, and "
        "generations of one member, are left out.",
        draw_last_joiners,
        words_without_rows="No classic group had a generation of several members after its first one.",
    ),
)
RECORDED_SECTIONS: Final = (
    ReportSection(
        "refused_requests",
        "Refused requests",
        "Recorded requests whose responses have an error code, by API and error. Fenced: another member or producer "
        "has its place, or its generation is over. Step: the protocol goes on with this error as it should.",
        draw_refused,
        words_without_rows="No store has recorded a request that was refused.",
    ),
    ReportSection(
        "heartbeat_shares",
        "Heartbeats and session timeouts",
        "How much of its session timeout a member had used up when its heartbeat came, as far as requests were "
        "recorded; and heartbeats that came after the removal. By Kafka's defaults a member sends one after a "
        "fifteenth of the session timeout (classic), or after a ninth (consumer).",
        draw_heartbeats,
        words_without_rows="No store has recorded a heartbeat.",
    ),
    ReportSection(
        "lag_over_time",
        "Lag over time",
        "Offsets between the committed one and the end of the log, of the partitions for which both are known: each "
        "group commits, and recorded Fetch, ListOffsets and Produce responses say where the log ends. The line is the "
        "median of the partitions; the inner band holds half of them, the outer band 90 %.",
        partial(draw_fan_charts, "offsets"),
        words_without_rows="No store has recorded where the logs end of partitions with committed offsets.",
    ),
)
