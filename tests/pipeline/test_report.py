"""The page of a report, without Spark: rows as Spark gives them, and what is drawn of them."""

import re
from pathlib import Path

import pytest
from pyspark.sql import Row

from regroup.cli.main import main
from regroup.pipeline.bronze.stamp import is_fresh, put_stamp, remove_stamp, stamp_of
from regroup.pipeline.report.numbers import NOT_OWNED_YET
from regroup.pipeline.report.page import STYLE, html
from regroup.pipeline.report.plots import LETTER, WIDTH, Spread, boxes, fan, ground, stacks, tone_of
from regroup.pipeline.report.sections import CAUSES, MOVES, SECTIONS, label, sections

SPREAD = Spread(1, 2, 3, 4, 5)
LONG = "cooperative-sticky, session timeout 6 s, members 3, restart 20 s, jitter 10 ms"
LONGEST = ", ".join(f"option number {number} of many" for number in range(15))


def texts(svg: str) -> list[tuple[float, str, str]]:
    """Where each stands, on which side of that, and what it says."""
    return [
        (float(x), anchor, words)
        for x, anchor, words in re.findall(r'<text x="([-.\d]+)" y="[-.\d]+" text-anchor="(\w+)"[^>]*>([^<]*)<', svg)
    ]


@pytest.mark.parametrize("name", ["range", LONG, LONGEST])
@pytest.mark.parametrize("value", [0.0, 3.0, 1_234_567.0])
def test_no_label_and_no_number_is_cut_off(name: str, value: float) -> None:
    spread = Spread(value, value, value, value, value)
    for drawing in (boxes({name: spread}, "seconds", "?"), stacks({name: {"join": value}}, CAUSES, "seconds", "?")):
        for x, anchor, words in texts(drawing):
            width = len(words) * LETTER
            start = {"start": x, "middle": x - width / 2, "end": x - width}[anchor]
            assert start >= -width / 2 if anchor == "middle" else start >= 0, words
            assert start + width <= WIDTH + (width / 2 if anchor == "middle" else 0), words


def test_a_long_label_is_whole_though_it_takes_several_lines() -> None:
    said = [words for _, _, words in texts(boxes({LONGEST: SPREAD, "short": SPREAD}, "seconds", "?"))]
    assert " ".join(said).count("of many") == 15
    assert "short" in said


def test_a_cause_has_its_colour_and_its_place_whatever_comes_first() -> None:
    one = stacks({"a": {"join": 5.0, "silence": 5.0}}, CAUSES, "s", "?")
    other = stacks({"a": {"silence": 5.0}, "b": {"join": 5.0}}, CAUSES, "s", "?")
    for page in (one, other):
        assert re.findall(r'<i class="([\w-]+)"></i>(\w+)', page) == [
            ("part-silence", "silence"),
            ("part-join", "join"),
        ]


def test_what_is_too_small_to_be_seen_is_not_explained() -> None:
    page = stacks({"a": {"silence": 100_000.0, "sync": 0.1}}, CAUSES, "s", "?")
    assert re.findall(r'<i class="([\w-]+)">', page) == ["part-silence"]


def test_every_part_has_a_colour_by_day_and_by_night() -> None:
    style = STYLE.read_text(encoding="utf-8")
    day, night = (set(re.findall(r"(--\w+): #", part)) for part in style.split("@media (prefers-color-scheme: dark)"))
    assert day == night
    for part in (*CAUSES, *MOVES):
        [colour] = re.findall(rf"\.{tone_of(part)} {{ --tone: var\((--\w+)\) }}", style)
        assert colour in day


def test_all_fans_of_a_page_have_one_scale() -> None:
    small, large = [(0.0, SPREAD), (10.0, SPREAD)], [(0.0, Spread(0, 0, 0, 0, 50)), (20.0, SPREAD)]
    on = ground([small, large])
    assert (on.end, on.top) == (20.0, 50)
    marks = [[words for _, _, words in texts(fan(each, on, "partitions", "seconds", "?"))] for each in (small, large)]
    assert marks[0] == marks[1]


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("static=False,assignor=range,restart_ms=5000", "not static, range, restart 5 s"),
        ("static=True,members=3,jitter_ms=10", "static, members 3, jitter 10 ms"),
        ("pause_ms=1500,latency_ms=0", "pause 1500 ms, latency 0 ms"),
        ("", "all runs"),
    ],
)
def test_a_cell_is_said_in_words(cell: str, said: str) -> None:
    assert label(cell) == said


EMPTY: dict[str, list[Row]] = {each.key: [] for each in SECTIONS} | {"worst": [], "broken": []}


def test_a_section_without_rows_says_so_or_is_left_out() -> None:
    told = {heading: (words, inside) for heading, words, inside in sections(EMPTY, is_campaign=True)}
    assert told["How long the silent were waited for"] == ("Nobody was expelled.", "")
    assert "Records read again" not in told
    assert all(not inside for _, inside in told.values())


def test_what_is_broken_is_told_first_with_a_line_to_play_it_again(tmp_path: Path) -> None:
    row = Row(cell="members=2", runs=9, broken=3, store="members=2,seed=4", sentence="It <held> once.")
    page = html("Does it?", tmp_path, EMPTY | {"broken": [row]}, is_campaign=True)
    assert "3 of 9" in page
    assert "It &lt;held&gt; once." in page
    assert f"regroup campaign {tmp_path}/campaign.json --only members=2,seed=4 --store members-2-seed-4.db" in page
    assert page.index("Broken") < page.index("Time without an owner")


def test_both_kinds_of_report_say_what_time_without_an_owner_counts(tmp_path: Path) -> None:
    row = Row(cell="a=b", p5=1.0, p25=1.0, p50=1.0, p75=1.0, p95=1.0, values=1)
    cause = Row(cell="a=b", why=NOT_OWNED_YET, mean_s=2.0)
    for is_campaign in (True, False):
        page = html("?", tmp_path, EMPTY | {"without_an_owner": [row], "causes": [cause]}, is_campaign=is_campaign)
        assert "A partition counts from its first owner on" in page
        assert 'class="part-not-owned-yet"' in page


def add_events(folder: Path, name: str, size: int = 4) -> None:
    (folder / "events").mkdir(parents=True, exist_ok=True)
    (folder / "events" / name).write_bytes(b"x" * size)


def test_tables_are_fresh_until_more_events_come(tmp_path: Path) -> None:
    add_events(tmp_path, "chunk-00000000.parquet")
    assert not is_fresh(tmp_path)
    put_stamp(tmp_path, stamp_of(tmp_path))
    assert is_fresh(tmp_path)
    add_events(tmp_path, ".chunk-00000020.parquet.17")
    assert is_fresh(tmp_path), "what is being written does not count yet"
    add_events(tmp_path, "chunk-00000020.parquet")
    assert not is_fresh(tmp_path)


def test_tables_are_stale_while_they_are_made_and_when_a_block_has_grown(tmp_path: Path) -> None:
    add_events(tmp_path, "block-000000.parquet")
    put_stamp(tmp_path, stamp_of(tmp_path))
    add_events(tmp_path, "block-000000.parquet", size=5)
    assert not is_fresh(tmp_path)
    put_stamp(tmp_path, stamp_of(tmp_path))
    remove_stamp(tmp_path)
    assert not is_fresh(tmp_path)


def test_a_report_of_stale_tables_is_refused_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tables").mkdir()
    add_events(tmp_path, "chunk-00000000.parquet")
    assert main(["report", str(tmp_path), "--master", "no such master"]) == 2
    assert f"run `regroup pipeline tables {tmp_path}` again" in capsys.readouterr().err
