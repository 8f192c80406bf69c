"""What a report's page has to tell, one section after the other: which numbers, in which words, drawn how."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from html import escape
from typing import Final, NamedTuple, TypeAlias

from pyspark.sql import Row

from regroup.pipeline.report.numbers import NOT_OWNED_YET
from regroup.pipeline.report.plots import Spread, boxes, fan, ground, stacks

MOST_FANS: Final = 12

CAUSES: Final = ("silence", "join", "sync", "unassigned", NOT_OWNED_YET)
MOVES: Final = {"moved": "moved", "given up for nothing": "given_up_for_nothing", "kept": "kept", "new": "new"}

Rows: TypeAlias = Mapping[str, Sequence[Row]]
Drawing: TypeAlias = Callable[[Sequence[Row], str], str]
"""Of rows, under a title."""


class Section(NamedTuple):
    """`key` is the name of its numbers; `of_stores` are the words where there was no campaign, if these are others."""

    key: str
    heading: str
    words: str
    draw: Drawing
    of_stores: str = ""
    without: str = ""
    """What is said where there are no rows; without it the section is left out then."""


def label(cell: str) -> str:
    """`static=False,assignor=range,restart_ms=5000` for people: `not static, range, restart 5 s`."""
    return ", ".join(said_of(*part.partition("=")[::2]) for part in cell.split(",")) if cell else "all runs"


def said_of(name: str, value: str) -> str:
    words = name.removesuffix("_ms").replace("_", " ")
    if value in ("True", "False"):
        return words if value == "True" else f"not {words}"
    if name.endswith("_ms"):
        seconds = value.removesuffix("000")
        return f"{words} {value} ms" if seconds in (value, "") else f"{words} {seconds} s"
    return f"{words} {value}" if value[:1].isdigit() else value or words


def spread_of(row: Row) -> Spread:
    return Spread(row.p5, row.p25, row.p50, row.p75, row.p95)


def in_boxes(unit: str, part: str = "") -> Drawing:
    return partial(draw_boxes, unit, part)


def draw_boxes(unit: str, part: str, rows: Sequence[Row], title: str) -> str:
    named = {label(row.cell) + (f": {row[part]}" if part else ""): spread_of(row) for row in rows}
    return boxes(named, unit, title)


def draw_causes(rows: Sequence[Row], title: str) -> str:
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        found.setdefault(label(row.cell), {})[row.why] = row.mean_s
    return stacks(found, CAUSES, "partition-seconds", title)


def draw_moves(rows: Sequence[Row], title: str) -> str:
    named = {
        label(row.cell) + ("" if row.protocol in row.cell else f" ({row.protocol})"): {
            part: row[column] for part, column in MOVES.items()
        }
        for row in rows
    }
    return stacks(named, tuple(MOVES), "partitions", title)


def draw_fans(rows: Sequence[Row], title: str) -> str:
    """One for each cell, all on the same scale."""
    bands: dict[str, list[tuple[float, Spread]]] = {}
    for row in rows:
        bands.setdefault(row.cell, []).append((row.at_s, spread_of(row)))
    on = ground(bands.values())
    drawn = [
        f"<h3>{escape(label(cell))}</h3>" + fan(bands[cell], on, "partitions", "seconds", f"{title}: {label(cell)}")
        for cell in list(bands)[:MOST_FANS]
    ]
    left = len(bands) - MOST_FANS
    return "".join(drawn) + (f'<p class="soft">… and {left} more in the Parquet.</p>' if left > 0 else "")


SECTIONS: Final = (
    Section(
        "without_an_owner",
        "Time without an owner",
        "Summed over the partitions of a run, as the lab saw it at the members, dead processes included. A partition "
        "counts from its first owner on.",
        in_boxes("partition-seconds"),
        of_stores="Summed over the partitions of a run, as far as the coordinator knew. A partition counts from its "
        "first owner on, as in a campaign; the time before that is told below, under Why.",
        without="No run had a group that was ever Stable.",
    ),
    Section(
        "causes",
        "Why",
        "The mean of a run, from the events. Silence: the owner was not heard any more, and the coordinator waited for "
        "its session timeout. A static member that comes back in time was never missed, so its absence is not here. "
        "Not owned yet: a partition that was new, and waited for its first owner; the time above leaves that out.",
        draw_causes,
        without="As far as the coordinator knew, no partition was ever without an owner.",
    ),
    Section(
        "phases",
        "How long rebalances took",
        "Each completed rebalance but a group's first, by phase.",
        in_boxes("seconds", "phase"),
        without="There was no rebalance but the first of each group.",
    ),
    Section(
        "detection",
        "How long the silent were waited for",
        "From the last sign of life to the expulsion.",
        in_boxes("seconds"),
        without="Nobody was expelled.",
    ),
    Section(
        "read_again",
        "Records read again",
        "Of one run: processed a second time, or oftener.",
        in_boxes("records"),
        of_stores="Of one store: by how many records committed offsets went back.",
    ),
    Section(
        "moves",
        "Partitions moved",
        "Of one rebalance, in the mean.",
        draw_moves,
        without="There was no rebalance but the first of each group.",
    ),
    Section(
        "fan",
        "A fan of runs",
        "Partitions without an owner while the runs go on; a run counts until it ends. The line is the median, "
        "the inner band holds half of the runs, the outer one nine tenths.",
        draw_fans,
    ),
)


def sections(rows: Rows, *, is_campaign: bool) -> Iterator[tuple[str, str, str]]:
    """Heading, words and drawing of each."""
    for each in SECTIONS:
        words = each.words if is_campaign else each.of_stores or each.words
        found = rows[each.key]
        if found:
            yield each.heading, words, each.draw(found, each.heading)
        elif each.without:
            yield each.heading, each.without, ""
