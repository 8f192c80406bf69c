"""`regroup report`: the numbers of many runs as Parquet, and one page with plots of them."""

import re
import shlex
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

import msgspec
from pyspark.sql import Row, SparkSession

from regroup.pipeline.bronze import paths_of
from regroup.pipeline.campaign import line_to_replay, note_of
from regroup.pipeline.grid import Campaign
from regroup.pipeline.numbers import Numbers
from regroup.pipeline.plots import Spread, boxes, fan, stacks

STYLE: Final = Path(__file__).with_name("report.css")
MOST_FANS: Final = 12


def write_report(spark: SparkSession, folder: Path) -> Path:
    """Write DIR/report.html, and below DIR/report every number on it."""
    numbers = Numbers(spark, folder)
    rows: dict[str, list[Row]] = {}
    for name, frame in numbers.frames().items():
        frame.coalesce(1).write.mode("overwrite").parquet(str(folder / "report" / name))
        kept = spark.read.parquet(str(folder / "report" / name)).collect()
        rows[name] = kept if name == "worst" else sorted(kept, key=in_natural_order)
    page = folder / "report.html"
    page.write_text(html(folder, rows, is_campaign=numbers.is_campaign), encoding="utf-8")
    return page


def in_natural_order(row: Row) -> list[tuple[int, str]]:
    """By cell, numbers in it by their size; then by whatever comes next."""
    words = re.split(r"(\d+)", row.cell)
    after = str(row["phase"]) if "phase" in row else f"{row['at_s']:020.3f}" if "at_s" in row else ""
    return [(int(word), "") if word.isdigit() else (0, word) for word in [*words, after]]


def label(cell: str) -> str:
    """`static=False,assignor=range,restart_ms=5000` for people: `not static, range, restart ms 5000`."""
    said = []
    for part in cell.split(","):
        name, _, value = part.partition("=")
        words = name.replace("_", " ")
        if value in ("True", "False"):
            said.append(words if value == "True" else f"not {words}")
        else:
            said.append(f"{words} {value}" if value[:1].isdigit() else value or words)
    return ", ".join(said)


def html(folder: Path, rows: dict[str, list[Row]], *, is_campaign: bool) -> str:
    """The whole page. Nothing on it comes from elsewhere."""
    title = escape(question_of(folder))
    runs = sum(row["values"] for row in rows["without_an_owner"])
    begin = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        f"<style>{STYLE.read_text(encoding='utf-8')}</style><h1>{title}</h1>"
        f'<p class="soft">{runs:,} runs. Boxes hold the middle half, whiskers nine tenths, the stroke is the median, '
        "whose value stands at the end. The numbers are beside this page, as Parquet.</p>"
    )
    return begin + "".join([*sections(rows, is_campaign=is_campaign), the_worst(rows["worst"], folder, is_campaign)])


def question_of(folder: Path) -> str:
    note = note_of(folder)
    return msgspec.json.decode(note.read_bytes(), type=Campaign).question if note.exists() else f"The runs in {folder}"


def sections(rows: dict[str, list[Row]], *, is_campaign: bool) -> Iterable[str]:
    said_by = "as the lab saw it, dead processes included" if is_campaign else "as far as the coordinator knew; see Why"
    lost = boxes(spreads(rows["without_an_owner"]), "partition-seconds", "Time without an owner in each run")
    yield section("Time without an owner", f"Summed over the partitions of a run, {said_by}.", lost)
    causes = stacks(parts(rows["causes"], "why", "mean_s"), "partition-seconds", "Time without an owner, by cause")
    yield section(
        "Why",
        "The mean of a run, from the events. Silence: the owner was not heard any more, and the coordinator waited for "
        "its session timeout. A static member that comes back in time was never missed, so its absence is not here.",
        causes,
    )
    phases = boxes(spreads(rows["phases"], "phase"), "seconds", "How long rebalances took")
    yield section("How long rebalances took", "Each completed rebalance but a group's first, by phase.", phases)
    silent = boxes(spreads(rows["detection"]), "seconds", "How long the dead were waited for")
    yield section("How long the silent were waited for", "From the last sign of life to the expulsion.", silent)
    if rows["read_again"]:
        again = boxes(spreads(rows["read_again"]), "records", "Records that were read again")
        yield section("Records read again", "Of one run: processed a second time, or oftener.", again)
    moves = {
        label(row.cell) + ("" if row.protocol in row.cell else f" ({row.protocol})"): {
            "moved": row.moved,
            "given up for nothing": row.given_up_for_nothing,
            "kept": row.kept,
            "new": row.new,
        }
        for row in rows["moves"]
    }
    yield section("Partitions moved", "Of one rebalance, in the mean.", stacks(moves, "partitions", "Partitions moved"))
    yield section("A fan of runs", "Partitions without an owner while the runs go on.", fans(rows["fan"]))


def section(heading: str, words: str, inside: str) -> str:
    return f'<h2>{escape(heading)}</h2><p class="soft">{escape(words)}</p>{inside}'


def spread_of(row: Row) -> Spread:
    return Spread(row.p5, row.p25, row.p50, row.p75, row.p95)


def spreads(rows: Sequence[Row], part: str = "") -> dict[str, Spread]:
    return {label(row.cell) + (f": {row[part]}" if part else ""): spread_of(row) for row in rows}


def parts(rows: Sequence[Row], part: str, value: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        found.setdefault(label(row.cell), {})[row[part]] = row[value]
    return found


def fans(rows: Sequence[Row]) -> str:
    cells = list(dict.fromkeys(row.cell for row in rows))
    drawn = [
        f"<p>{escape(label(cell))}</p>"
        + fan([(row.at_s, spread_of(row)) for row in rows if row.cell == cell], "partitions", "s", f"{cell} over time")
        for cell in cells[:MOST_FANS]
    ]
    left = len(cells) - MOST_FANS
    return "".join(drawn) + (f'<p class="soft">… and {left} more in the Parquet.</p>' if left > 0 else "")


def the_worst(rows: Sequence[Row], folder: Path, is_campaign: bool) -> str:
    """With a line for each, to be typed as it stands."""
    if is_campaign:
        again = {row.store: line_to_replay(note_of(folder), row.store) for row in rows}
    else:
        again = {name: shlex.join(["regroup", "events", path]) for name, path in paths_of(folder).items()}
    lines = [
        f'<tr><td class="n">{row.ownerless_s:,.1f}</td><td><code>{escape(again[row.store])}</code></td></tr>'
        for row in rows
    ]
    table = f'<table><tr><th class="n">partition-seconds</th><th>again</th></tr>{"".join(lines)}</table>'
    words = "Each line plays its run again." if is_campaign else "Each line shows what happened in its store."
    return section("The worst ten", words, table)
