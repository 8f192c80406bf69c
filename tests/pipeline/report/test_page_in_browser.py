"""The report in Debian's Chromium: its plots can be read on a wide and on a narrow page, and nothing is cut."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row

from regroup.pipeline.campaign.grid import Campaign
from regroup.pipeline.campaign.options import PROTOCOLS
from regroup.pipeline.report.page import render_page
from regroup.pipeline.report.request_sections import MEMBER_SECTIONS, RECORDED_SECTIONS
from regroup.pipeline.report.sections import SECTIONS
from regroup.pipeline.report.summary import ordered_cells
from tests.browser import opened_page

pytestmark = pytest.mark.slow

EMPTY: dict[str, list[Row]] = {each.key: [] for each in (*SECTIONS, *MEMBER_SECTIONS, *RECORDED_SECTIONS)} | {
    "worst_runs": [],
    "failed_runs": [],
    "paired_differences": [],
}
REFUSED = (("FindCoordinator", "COORDINATOR_NOT_AVAILABLE"), ("OffsetFetch", "MMMM_WWWW_QQQQ"), ("Fetch", "NONE"))
CUT = """() => [...document.querySelectorAll("svg text")].filter(text => {
    const words = text.getBoundingClientRect(), plot = text.closest("svg").getBoundingClientRect();
    return words.left < plot.left - 0.5 || words.right > plot.right + 0.5;
}).map(text => text.textContent)"""
HEIGHTS = '() => [...document.querySelectorAll("svg text")].map(text => text.getBoundingClientRect().height)'


@pytest.mark.parametrize("width", [1280, 400])
def test_labels_are_complete_and_large_enough_and_the_page_itself_does_not_scroll_sideways(
    tmp_path: Path, width: int
) -> None:
    rows: list[Any] = [
        Row(cell="all stores", api=api, error=error, kind="refused", requests=9) for api, error in REFUSED
    ]
    html = render_page("?", tmp_path, EMPTY | {"refused_requests": rows}, is_campaign=False, has_recordings=True)
    with opened_page(viewport={"width": width, "height": 800}) as page:
        page.set_content(html)
        assert page.evaluate(CUT) == []
        assert min(page.evaluate(HEIGHTS)) >= 12
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_wide_table_scrolls_by_itself_on_a_narrow_page(tmp_path: Path) -> None:
    campaign = Campaign("?", "crashes", 3, {"protocol": [*PROTOCOLS], "restart_ms": [5_000]})
    times = [
        Row(cell=cell, p5=10_000.0, p25=1.0, p50=20_000.0, p75=1.0, p95=30_000.0, value_count=3)
        for cell in ordered_cells(campaign)
    ]
    html = render_page("?", tmp_path, EMPTY | {"time_without_owner": times}, is_campaign=True, campaign=campaign)
    with opened_page(viewport={"width": 400, "height": 800}) as page:
        page.set_content(html)
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
