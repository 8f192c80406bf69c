"""`regroup report`: the numbers of many runs as Parquet, and one page with plots of them."""

import re
import shlex
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Final

from pyspark.sql import Row, SparkSession

from regroup.pipeline.bronze.ingest import paths_of
from regroup.pipeline.campaign.run import campaign_in, line_to_replay, note_of
from regroup.pipeline.report.numbers import Numbers
from regroup.pipeline.report.sections import Rows, label, sections

STYLE: Final = Path(__file__).with_name("report.css")


def write_report(spark: SparkSession, folder: Path) -> Path:
    """Write DIR/report.html, and below DIR/report every number on it. Raises BadCampaign."""
    title = question_of(folder)
    numbers = Numbers(spark, folder)
    rows: dict[str, list[Row]] = {}
    for name, frame in numbers.frames().items():
        frame.coalesce(1).write.mode("overwrite").parquet(str(folder / "report" / name))
        kept = spark.read.parquet(str(folder / "report" / name)).collect()
        rows[name] = kept if name == "worst" else sorted(kept, key=in_natural_order)
    page = folder / "report.html"
    page.write_text(html(title, folder, rows, is_campaign=numbers.is_campaign), encoding="utf-8")
    return page


def in_natural_order(row: Row) -> list[tuple[int, str]]:
    """By cell, numbers in it by their size; then by whatever comes next."""
    words = re.split(r"(\d+)", row.cell)
    after = str(row["phase"]) if "phase" in row else f"{row['at_s']:020.3f}" if "at_s" in row else ""
    return [(int(word), "") if word.isdigit() else (0, word) for word in [*words, after]]


def question_of(folder: Path) -> str:
    campaign = campaign_in(folder)
    return campaign.question if campaign else f"The runs in {folder}"


def html(title: str, folder: Path, rows: Rows, *, is_campaign: bool) -> str:
    """The whole page. Nothing on it comes from elsewhere."""
    runs = sum(row["values"] for row in rows["without_an_owner"])
    begin = (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE.read_text(encoding='utf-8')}</style><h1>{escape(title)}</h1>"
        f'<p class="soft">{runs:,} runs. Boxes hold the middle half, whiskers nine tenths, the stroke is the median, '
        "whose value stands at the end. The numbers are beside this page, as Parquet.</p>"
    )
    drawn = [section(heading, words, inside) for heading, words, inside in sections(rows, is_campaign=is_campaign)]
    return "".join([begin, the_broken(rows["broken"], folder), *drawn, the_worst(rows["worst"], folder, is_campaign)])


def section(heading: str, words: str, inside: str) -> str:
    return f'<h2>{escape(heading)}</h2><p class="soft">{escape(words)}</p>{inside}'


def table(headings: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
    """The first column has numbers. What is in the cells is HTML already."""
    first, *others = headings
    head = f'<tr><th class="n">{first}</th>' + "".join(f"<th>{each}</th>" for each in others) + "</tr>"
    lines = [f'<tr><td class="n">{row[0]}</td>' + "".join(f"<td>{each}</td>" for each in row[1:]) for row in rows]
    return f"<table>{head}{'</tr>'.join([*lines, ''])}</table>"


def code(line: str) -> str:
    return f"<code>{escape(line)}</code>"


def the_broken(rows: Sequence[Row], folder: Path) -> str:
    """First on the page: what is broken may have made all other numbers of its cell."""
    if not rows:
        return ""
    lines = (
        [
            f"{row.broken:,} of {row.runs:,}",
            escape(label(row.cell)),
            f"{escape(row.sentence)}<br>{code(line_to_replay(note_of(folder), row.store))}",
        ]
        for row in rows
    )
    words = (
        "In these runs something does not hold that has to. Find out why before you trust the numbers of their cells."
    )
    inside = section("Broken", words, table(["runs", "of", "for example"], lines))
    return f'<div class="broken">{inside}</div>'


def the_worst(rows: Sequence[Row], folder: Path, is_campaign: bool) -> str:
    """With a line for each, to be typed as it stands."""
    if is_campaign:
        again = {row.store: line_to_replay(note_of(folder), row.store) for row in rows}
    else:
        again = {name: shlex.join(["regroup", "events", path]) for name, path in paths_of(folder).items()}
    lines = ([f"{row.ownerless_s:,.1f}", code(again[row.store])] for row in rows)
    words = "Each line plays its run again." if is_campaign else "Each line shows what happened in its store."
    return section("The worst ten", words, table(["partition-seconds", "again"], lines))
