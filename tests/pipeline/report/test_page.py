"""The page of a report and its plots, from rows as Spark returns them. No test needs Spark."""

import re
from pathlib import Path

import pytest
from pyspark.sql import Row

from regroup.pipeline.campaign.grid import Campaign
from regroup.pipeline.report.page import STYLESHEET, render_page
from regroup.pipeline.report.plots import (
    PLOT_WIDTH,
    Percentiles,
    box_plot,
    css_class,
    fan_chart,
    fan_scale,
    stacked_bars,
    text_width,
)
from regroup.pipeline.report.request_sections import (
    HEARTBEAT_KINDS,
    MEMBER_SECTIONS,
    RECORDED_SECTIONS,
    REQUEST_KINDS,
    WAITED_FOR,
)
from regroup.pipeline.report.request_statistics import NEARLY_ALL, OVER_THE_TIMEOUT, UNKNOWN_SHARE
from regroup.pipeline.report.run_statistics import NOT_OWNED_YET
from regroup.pipeline.report.sections import GAP_REASONS, MOVEMENTS, REMOVALS, SECTIONS, cell_label, render_sections
from regroup.pipeline.report.summary import conclusion_html, differences_html, ordered_cells, setup_html

PERCENTILES = Percentiles(1, 2, 3, 4, 5)
LONG = "cooperative-sticky, session timeout 6 s, members 3, restart 20 s, jitter 10 ms"
LONGEST = ", ".join(f"option number {number} of many" for number in range(15))


def texts(svg: str) -> list[tuple[float, str, str]]:
    """The x position, the anchor and the words of each text."""
    return [
        (float(x), anchor, words)
        for x, anchor, words in re.findall(r'<text x="([-.\d]+)" y="[-.\d]+" text-anchor="(\w+)"[^>]*>([^<]*)<', svg)
    ]


@pytest.mark.parametrize("name", ["range", LONG, LONGEST, LONGEST.upper(), "W" * 300])
@pytest.mark.parametrize("value", [0.0, 3.0, 1_234_567.0])
def test_every_label_and_number_fits_on_the_plot(name: str, value: float) -> None:
    percentiles = Percentiles(value, value, value, value, value)
    for drawing in (
        box_plot({name: percentiles}, "seconds", "?"),
        stacked_bars({name: {"join": value}}, GAP_REASONS, "seconds", "?"),
    ):
        for x, anchor, words in texts(drawing):
            width = text_width(words)
            start = {"start": x, "middle": x - width / 2, "end": x - width}[anchor]
            assert start >= -width / 2 if anchor == "middle" else start >= 0, words
            assert start + width <= PLOT_WIDTH + (width / 2 if anchor == "middle" else 0), words


def test_a_long_label_is_complete_on_several_lines() -> None:
    labels = [words for _, _, words in texts(box_plot({LONGEST: PERCENTILES, "short": PERCENTILES}, "seconds", "?"))]
    assert " ".join(labels).count("of many") == 15
    assert "short" in labels


def test_a_part_has_the_same_colour_and_place_in_every_plot() -> None:
    one = stacked_bars({"a": {"join": 5.0, "session-expiry": 5.0}}, GAP_REASONS, "s", "?")
    other = stacked_bars({"a": {"session-expiry": 5.0}, "b": {"join": 5.0}}, GAP_REASONS, "s", "?")
    for page in (one, other):
        assert re.findall(r'<i class="([\w-]+)"></i>([\w ]+)', page) == [
            ("part-session-expiry", "session expiry"),
            ("part-join", "join"),
        ]


def test_every_part_that_is_not_shown_as_zero_can_be_seen_and_is_in_the_legend() -> None:
    page = stacked_bars({"a": {"session-expiry": 100_000.0, "join": 0.04, "sync": 0.1}}, GAP_REASONS, "s", "?")
    assert re.findall(r'<i class="([\w-]+)">', page) == ["part-session-expiry", "part-sync"]
    assert re.findall(r'width="([.\d]+)" height="16" class="([\w-]+)"', page)[1:] == [("1.5", "part-sync")]


def test_every_part_has_a_colour_in_the_light_and_the_dark_scheme() -> None:
    style = STYLESHEET.read_text(encoding="utf-8")
    light, dark = (set(re.findall(r"(--\w+): #", part)) for part in style.split("@media (prefers-color-scheme: dark)"))
    assert light == dark
    for part in (*GAP_REASONS, *MOVEMENTS, *REMOVALS, *WAITED_FOR, *REQUEST_KINDS, *HEARTBEAT_KINDS):
        [colour] = re.findall(rf"\.{css_class(part)} {{ --tone: var\((--\w+)\) }}", style)
        assert colour in light


@pytest.mark.parametrize("parts", [GAP_REASONS, MOVEMENTS, REMOVALS, WAITED_FOR, REQUEST_KINDS, HEARTBEAT_KINDS])
def test_no_two_parts_of_a_bar_have_one_colour(parts: tuple[str, ...]) -> None:
    style = STYLESHEET.read_text(encoding="utf-8")
    tones = [re.findall(rf"\.{css_class(part)} {{ --tone: ([^}}]+) }}", style)[0] for part in parts]
    assert len({*tones}) == len(parts)


def test_all_fan_charts_of_a_page_have_one_scale() -> None:
    small, large = [(0.0, PERCENTILES), (10.0, PERCENTILES)], [(0.0, Percentiles(0, 0, 0, 0, 50)), (20.0, PERCENTILES)]
    scale = fan_scale([small, large])
    assert (scale.end, scale.top) == (20.0, 50)
    marks = [
        [words for _, _, words in texts(fan_chart(each, scale, "partitions", "seconds", "?"))]
        for each in (small, large)
    ]
    assert marks[0] == marks[1]


@pytest.mark.parametrize(
    ("cell", "label"),
    [
        ("static=False,assignor=range,restart_ms=5000", "not static, range, restart 5 s"),
        ("static=True,members=3,jitter_ms=10", "static, members 3, jitter 10 ms"),
        ("pause_ms=1500,latency_ms=0", "pause 1500 ms, latency 0 ms"),
        ("", "all runs"),
    ],
)
def test_the_label_of_a_cell_has_words_for_its_options(cell: str, label: str) -> None:
    assert cell_label(cell) == label


ALL_SECTIONS = (*SECTIONS, *MEMBER_SECTIONS, *RECORDED_SECTIONS)
EMPTY: dict[str, list[Row]] = {each.key: [] for each in ALL_SECTIONS} | {
    "worst_runs": [],
    "failed_runs": [],
    "paired_differences": [],
}


def test_a_section_without_rows_says_so_or_is_left_out() -> None:
    rendered = {heading: (words, plot) for heading, words, plot in render_sections(EMPTY, is_campaign=True)}
    assert rendered["Failure detection"] == ("No member was removed.", "")
    assert "Records processed again" not in rendered
    assert all(not plot for _, plot in rendered.values())


def test_removals_of_live_members_are_shown_with_two_decimals_and_left_out_for_stores() -> None:
    rows = EMPTY | {"removals": [Row(cell="a=b", live=0.03, ended=1.0)]}
    plots = {heading: plot for heading, _, plot in render_sections(rows, is_campaign=True)}
    assert "live 0.03 members" in plots["Removed members"]
    assert "ended 1.00 members" in plots["Removed members"]
    assert "Removed members" not in {heading for heading, *_ in render_sections(EMPTY, is_campaign=False)}


def test_failed_runs_come_first_with_a_command_to_replay_one(tmp_path: Path) -> None:
    row = Row(cell="members=2", runs=9, failed=3, store="members=2,seed=4", sentence="It <held> once.")
    page = render_page("Does it?", tmp_path, EMPTY | {"failed_runs": [row]}, is_campaign=True)
    assert "3 of 9" in page
    assert "It &lt;held&gt; once." in page
    assert f"regroup campaign {tmp_path}/campaign.json --only members=2,seed=4 --store members-2-seed-4.db" in page
    assert page.index("Runs with violations") < page.index("Time without an owner")


def test_both_kinds_of_report_explain_the_time_without_an_owner(tmp_path: Path) -> None:
    row = Row(cell="a=b", p5=1.0, p25=1.0, p50=1.0, p75=1.0, p95=1.0, value_count=1)
    reason = Row(cell="a=b", reason=NOT_OWNED_YET, mean_s=2.0)
    for is_campaign in (True, False):
        page = render_page(
            "?", tmp_path, EMPTY | {"time_without_owner": [row], "gap_reasons": [reason]}, is_campaign=is_campaign
        )
        assert "A partition counts from its first owner on" in page
        assert 'class="part-not-owned-yet"' in page


CAMPAIGN = Campaign(
    question="Static or not?",
    scenario="rolling-restart",
    seeds=3,
    grid={"static": [False, True], "restart_ms": [5_000, 20_000]},
    fixed={"members": 4, "session_timeout_ms": 30_000},
)


def box(cell: str, median: float, **columns: object) -> Row:
    return Row(cell=cell, p5=median, p25=median, p50=median, p75=median, p95=median, value_count=3, **columns)


CELLS = [f"static={static},restart_ms={restart_ms}" for restart_ms in (5_000, 20_000) for static in (False, True)]


def test_cells_that_differ_in_the_first_option_alone_are_neighbours() -> None:
    assert ordered_cells(CAMPAIGN) == CELLS


def test_the_page_of_a_campaign_has_result_set_up_and_limits(tmp_path: Path) -> None:
    times = [box(cell, 100.0 * number) for number, cell in enumerate(CELLS, 1)]
    page = render_page("?", tmp_path, EMPTY | {"time_without_owner": times}, is_campaign=True, campaign=CAMPAIGN)
    assert "least with not static, restart 5 s (100 partition-seconds in the median run)" in page
    assert "most with static, restart 20 s (400)" in page
    assert '<td>restart 20 s</td><td class="n">300 (300–300)</td><td class="n">400 (400–400)</td>' in page
    for expected in ("members 4, session timeout 30 s", "The members are killed, or closed in order", "no LeaveGroup"):
        assert expected in page
    assert page.index("<h2>Result") < page.index("<h2>Set-up") < page.index("<h2>Limits")


def test_a_cell_in_which_nothing_happened_is_shown_with_zeros() -> None:
    found = EMPTY | {
        "failure_detection": [box(CELLS[0], 30.0)],
        "rebalance_phases": [box(CELLS[0], 3.0, phase="join")],
        "gap_reasons": [Row(cell=CELLS[0], reason="join", mean_s=1.0)],
        "partition_movements": [Row(cell=CELLS[0], protocol_name="range", **dict.fromkeys(MOVEMENTS, 1.0))],
    }
    plots = {heading: plot for heading, _, plot in render_sections(found, is_campaign=True, cells=CELLS)}
    assert plots["Failure detection"].count("no member was removed") == 3
    assert plots["Duration of rebalances"].count("no rebalance") == 3
    assert plots["Partition movements"].count("(no rebalance)</text>") == 3
    for plot in filter(None, plots.values()):
        assert plot.count("restart 20 s") >= 2


def test_the_paired_differences_stand_below_the_result_with_their_intervals(tmp_path: Path) -> None:
    row = Row(
        cell=CELLS[1],
        baseline=CELLS[0],
        measure="disturbed_ownerless_s",
        pairs=3,
        mean_difference=-12.25,
        low=-20.0,
        high=1_000.0,
        pairs_needed=20_832,
    )
    page = render_page("?", tmp_path, EMPTY | {"paired_differences": [row]}, is_campaign=True, campaign=CAMPAIGN)
    assert "-12.2 (-20.0 to +1,000.0)" in page
    assert "With fewer than 15 pairs" in page
    assert ">20,832<" in page
    assert page.index("Paired differences") < page.index("<h2>Set-up")


def test_a_difference_that_would_be_shown_as_zero_is_none_and_needs_no_pairs() -> None:
    row = {"cell": CELLS[1], "baseline": CELLS[0], "measure": "convergence_s", "pairs": 30}
    nothing = Row(**row, mean_difference=-0.013, low=-0.02, high=-0.006, pairs_needed=2)
    page = differences_html([nothing])
    assert '<td class="n">none</td><td class="n">30</td><td class="n">–</td>' in page
    assert "With fewer than" not in page
    unclear = Row(**row, mean_difference=-0.04, low=-2.0, high=0.04, pairs_needed=9)
    assert '<td class="n">0.0 (-2.0 to 0.0)</td><td class="n">30</td><td class="n">9</td>' in differences_html(
        [unclear]
    )


def test_the_options_that_a_scenario_names_are_set_as_code() -> None:
    page = setup_html(Campaign("?", "", 3, {"scenario": ["rolling-restart", "surge"]}))
    assert "<code>graceful</code>" in page
    assert "<code>overlap_ms</code>" in page
    assert "`" not in page


def test_the_set_up_names_no_option_that_the_protocols_decide() -> None:
    campaign = Campaign("?", "crashes", 3, {"protocol": ["consumer", "eager"]}, {"members": 2})
    page = setup_html(campaign)
    by_default = page[page.index("By default") : page.index("Compared")]
    assert "not static" not in by_default
    assert "cooperative-sticky" not in by_default
    assert "heartbeat interval of the protocol" in by_default


@pytest.mark.parametrize("other", [47.0, 47.4])
def test_cells_whose_medians_are_shown_as_equal_are_not_ranked(other: float) -> None:
    campaign = Campaign(question="Which is best?", grid={"static": [True, False]}, seeds=3)
    conclusion = conclusion_html(campaign, [box("static=True", 47.0), box("static=False", other)])
    assert "without an owner for 47 partition-seconds, in every cell" in conclusion
    assert "least with" not in conclusion


def last_joiner(
    cell: str, member: str, times_last: int, alone_s: float, *, store: str | None = None, with_others_s: float = 0.5
) -> Row:
    row = {"cell": cell, "member": member, "times_last": times_last, "alone_s": alone_s, "with_others_s": with_others_s}
    return Row(**row, store=store, group="payments", generations=10)


def labels_of(section: str) -> list[str]:
    return re.findall(r'class="">([^<]+), last \d+ of 10 times</text>', section)


@pytest.mark.parametrize("is_campaign", [True, False])
def test_the_page_shows_who_joined_last_and_how_long_others_waited(tmp_path: Path, is_campaign: bool) -> None:
    joiners = [last_joiner("", "anna", 3, 2.5), last_joiner("", "ben", 7, 4.0)]
    page = render_page("?", tmp_path, EMPTY | {"last_joiners": joiners}, is_campaign=is_campaign)
    assert "<h2>Who joined last</h2>" in page
    assert labels_of(page) == ["all runs: ben", "all runs: anna"]
    assert "ben, last 7 of 10 times: alone 4.0 seconds" in page


def test_the_members_with_the_longest_bars_come_first() -> None:
    joiners = [
        last_joiner("", "ben", 3, 1.6, with_others_s=0.0),
        last_joiner("", "greta", 1, 1.8, with_others_s=14.0),
        last_joiner("", "david", 2, 1.6, with_others_s=0.7),
    ]
    [section] = MEMBER_SECTIONS
    assert [label.partition(": ")[2] for label in labels_of(section.draw(joiners, "?"))] == ["greta", "david", "ben"]


def test_members_of_one_name_in_several_stores_have_a_bar_each() -> None:
    stores = ("/runs/a.db", "/runs/b.db", "/others/b.db")
    joiners = [last_joiner("all stores", "c1", 1, 9.0 - n, store=store) for n, store in enumerate(stores)]
    [section] = MEMBER_SECTIONS
    assert labels_of(section.draw(joiners, "?")) == [
        f"{name}, group payments: c1" for name in ("a.db", "/runs/b.db", "/others/b.db")
    ]


def test_of_a_campaign_the_three_members_of_each_cell_are_shown_that_were_waited_for_longest() -> None:
    joiners = [last_joiner(f"restart_ms={each}", f"m{n}", 1, float(n)) for each in (1, 2) for n in range(1, 6)]
    [section] = MEMBER_SECTIONS
    assert re.findall(r"(m\d), last \d of 10 times</text>", section.draw(joiners, "?")) == ["m5", "m4", "m3"] * 2
    assert "… and 4 more" in section.draw(joiners, "?")


def test_the_page_of_stores_shows_requests_and_lag_and_that_of_a_campaign_does_not(tmp_path: Path) -> None:
    found = EMPTY | {
        "refused_requests": [
            Row(cell="all stores", api="Heartbeat", error="UNKNOWN_MEMBER_ID", kind="fenced", requests=3)
        ],
        "heartbeat_shares": [
            Row(cell="all stores", protocol="classic", share=share, requests=requests)
            for share, requests in ((NEARLY_ALL, 1_200), (OVER_THE_TIMEOUT, 9), (UNKNOWN_SHARE, 300))
        ],
        "lag_over_time": [box("all stores", 5.0, at_s=float(second)) for second in (0, 10)],
    }
    page = render_page("?", tmp_path, found, is_campaign=False, has_recordings=True)
    assert "Heartbeat: UNKNOWN_MEMBER_ID: fenced 3 requests" in page
    assert "classic: 90 to 100 %: just in time 1,200 heartbeats" in page
    assert "classic: more than 100 %, not removed: over the timeout 9 heartbeats" in page
    assert "300 of 1,509 heartbeats are in no bar" in page
    assert "Lag over time: all stores" in page
    of_campaign = render_page("?", tmp_path, found, is_campaign=True)
    assert not any(each in of_campaign for each in ("Refused requests", "Heartbeats and session", "Lag over time"))


def test_a_report_of_stores_without_recorded_requests_says_how_to_record_them(tmp_path: Path) -> None:
    page = render_page("?", tmp_path, EMPTY, is_campaign=False)
    assert "No store has recorded its requests" in page
    assert "--record" in page
    assert "was refused" not in page
    recorded = render_page("?", tmp_path, EMPTY, is_campaign=False, has_recordings=True)
    assert "None of the recorded requests was refused." in recorded
    assert "--record" not in recorded
