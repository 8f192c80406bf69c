"""The sections of the report about members and their requests, and their plots."""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from pyspark.sql import Row

from regroup.pipeline.report.plots import stacked_bars
from regroup.pipeline.report.request_statistics import (
    AFTER_THE_END,
    NEARLY_ALL,
    OVER_THE_TIMEOUT,
    SHARES,
    UNKNOWN_SHARE,
)
from regroup.pipeline.report.sections import ReportSection, cell_label, draw_fan_charts

WAITED_FOR: Final = ("alone", "with-others")
REQUEST_KINDS: Final = ("fenced", "refused", "step")
HEARTBEAT_KINDS: Final = ("in-time", "just-in-time", "over-the-timeout", "too-late")
MAX_MEMBERS: Final = 10
MAX_MEMBERS_OF_CELL: Final = 3
MAX_ERRORS: Final = 25


def draw_last_joiners(rows: Sequence[Row], title: str) -> str:
    """A bar for each of the members that were waited for longest, at most three of each cell of a campaign."""
    cells = list(dict.fromkeys(row.cell for row in rows))
    limit = MAX_MEMBERS if len(cells) == 1 else MAX_MEMBERS_OF_CELL
    names = store_names(row.store for row in rows if row.store is not None)
    bars: dict[str, dict[str, float]] = {}
    left_out = 0
    for cell in cells:
        of_cell = sorted((row for row in rows if row.cell == cell), key=lambda row: -(row.alone_s + row.with_others_s))
        left_out += len(of_cell[limit:])
        for row in of_cell[:limit]:
            place = cell_label(cell) if row.store is None else f"{names[row.store]}, group {row.group}"
            label = f"{place}: {row.member}, last {row.times_last:,} of {row.generations:,} times"
            bars[label] = {"alone": row.alone_s, "with-others": row.with_others_s}
    more = f'<p class="soft">… and {left_out:,} more in the Parquet files.</p>' if left_out else ""
    return stacked_bars(bars, WAITED_FOR, "seconds", title) + more


def store_names(stores: Iterable[str]) -> dict[str, str]:
    """A name for each store: that of its file, or its whole address where several files have the same name."""
    files = {store: store.rpartition("/")[2] for store in stores}
    several = {name for name, count in Counter(files.values()).items() if count > 1}
    return {store: store if name in several else name for store, name in files.items()}


def draw_refused(rows: Sequence[Row], title: str) -> str:
    most = sorted(rows, key=lambda row: (-row.requests, row.api, row.error))
    bars = {f"{row.api}: {row.error}": {row.kind: float(row.requests)} for row in most[:MAX_ERRORS]}
    left_out = len(most[MAX_ERRORS:])
    more = f'<p class="soft">… and {left_out:,} more in the Parquet files.</p>' if left_out else ""
    return stacked_bars(bars, REQUEST_KINDS, "requests", title, decimals=0) + more


def draw_heartbeats(rows: Sequence[Row], title: str) -> str:
    """A bar for each share of the session timeout, in each protocol, and how many heartbeats are in none of them."""
    counts = {(row.protocol, row.share): float(row.requests) for row in rows}
    late = {NEARLY_ALL: "just-in-time", OVER_THE_TIMEOUT: "over-the-timeout", AFTER_THE_END: "too-late"}
    bars = {}
    for protocol in sorted({row.protocol for row in rows}):
        for share in (*SHARES.values(), *late):
            bars[f"{protocol}: {share}"] = {late.get(share, "in-time"): counts.get((protocol, share), 0.0)}
    unknown, total = (sum(row.requests for row in found) for found in (unknown_shares(rows), rows))
    words = (
        f'<p class="soft">{unknown:,} of {total:,} heartbeats are in no bar: no session timeout is known for them, '
        "or not since when it ran. They were refused, or came after the member had left, while a JoinGroup or "
        "SyncGroup was held, or after a request without a response, or several were recorded together.</p>"
    )
    return stacked_bars(bars, HEARTBEAT_KINDS, "heartbeats", title, decimals=0) + (words if unknown else "")


def unknown_shares(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.share == UNKNOWN_SHARE]


MEMBER_SECTIONS: Final = (
    ReportSection(
        "last_joiners",
        "Who joined last",
        "Which members of classic groups were the last to join a generation, and for how many seconds others had been "
        "waiting when they did, on average. Alone: since the last but one had joined. With others: before that, since "
        "the first one had. A member that never came was waited for until it left or was removed, or until the end of "
        "the join phase. A pending member id was given out (MEMBER_ID_REQUIRED) and not used until it was removed, or "
        "until the end of the join phase. Those with the "
        "longest mean wait, which is the whole bar, come first. The number of times is out of those generations that "
        "waited for the member. Dynamic members of one client id are one bar in each group. The first generation of "
        "each group, and generations that waited for one member, are left out.",
        draw_last_joiners,
        words_without_rows="No classic group had a generation of several members after its first one.",
    ),
)
RECORDED_SECTIONS: Final = (
    ReportSection(
        "refused_requests",
        "Refused requests",
        "Recorded requests whose responses have an error code, by API and error. Fenced: another member or producer "
        "has its place, or its generation is over. Step: the protocol goes on with this error as it should. A request "
        "that names several groups counts once for each of its errors.",
        draw_refused,
        words_without_rows="None of the recorded requests was refused.",
    ),
    ReportSection(
        "heartbeat_shares",
        "Heartbeats and session timeouts",
        "How much of its session timeout a member had used up when its heartbeat came, as far as requests were "
        "recorded; and heartbeats that came after the removal. More than 100 %: the member was not removed although "
        "its session timeout was over, as when the broker's clock was set forward, or the broker stood still. By "
        "Kafka's defaults a member sends one after a fifteenth of the session timeout (classic), or "
        "after a ninth (consumer).",
        draw_heartbeats,
        words_without_rows="None of the recorded requests was a heartbeat.",
    ),
    ReportSection(
        "lag_over_time",
        "Lag over time",
        "Records between the committed offset and the end of the log, without those that a restart of the brokers has "
        "lost, of the partitions for which both are known: each group commits, and recorded Fetch, ListOffsets and "
        "Produce responses say where the log ends. The line is the "
        "median of the partitions; the inner band holds half of them, the outer band 90 %.",
        partial(draw_fan_charts, "offsets"),
        words_without_rows="No recorded response says where the logs end of partitions with committed offsets.",
    ),
)
WORDS_WITHOUT_RECORDINGS: Final = (
    "No store has recorded its requests, so nothing is known of refused requests, of late heartbeats and of lag. "
    "“regroup serve --store FILE --record” records them, and so does “regroup chaos run --store FILE”."
)
