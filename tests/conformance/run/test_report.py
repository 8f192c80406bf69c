"""Reports are written as text and as JSON, merged, and put side by side on a page."""

import msgspec

from regroup.conformance.run.not_observable import NOT_OBSERVABLE
from regroup.conformance.run.page import render_page
from regroup.conformance.run.report import (
    ConformanceReport,
    add_not_observable,
    encode_report,
    format_report,
    merge_verdicts,
)
from regroup.conformance.run.runner import StoryOutcome, StoryVerdict

PASSED = StoryVerdict("heartbeat.stable", StoryOutcome.PASSED, duration_s=0.5)
FAILED = StoryVerdict("heartbeat.unknown-member", StoryOutcome.FAILED, "expected 25, got 0", ("anna: Heartbeat -> 0",))
UNOBSERVED = StoryVerdict("limits.static-members", StoryOutcome.NOT_OBSERVABLE, "group.max.size is too large")


def test_a_report_can_be_read_back_from_json() -> None:
    report = ConformanceReport("a broker", "2030-01-01T00:00:00+00:00", [PASSED, FAILED, UNOBSERVED])
    text = encode_report(report)
    assert msgspec.json.decode(text, type=ConformanceReport) == report
    assert msgspec.json.decode(text)["totals"] == {"pass": 1, "fail": 1, "not observable": 1}


def test_where_the_first_run_could_not_observe_the_second_counts() -> None:
    observed = StoryVerdict("limits.static-members", StoryOutcome.PASSED)
    assert merge_verdicts([PASSED, UNOBSERVED], [FAILED, observed]) == [PASSED, observed]


def test_the_text_shows_failures_with_their_transcripts_and_totals() -> None:
    lines = [*format_report(ConformanceReport("a broker", "", [PASSED, FAILED, UNOBSERVED]), show_all=False)]
    assert lines[0] == "fail           heartbeat.unknown-member: expected 25, got 0"
    assert "  anna: Heartbeat -> 0" in lines
    assert lines[-1].split() == ["all", "1", "1", "1"]


def test_the_text_has_a_line_for_each_behaviour() -> None:
    lines = [*format_report(ConformanceReport("a broker", "", [PASSED, UNOBSERVED]))]
    assert lines[0] == "pass           heartbeat.stable: In a stable group a heartbeat succeeds in every version."
    assert lines[1] == "not observable limits.static-members: group.max.size is too large"


def test_behaviours_that_are_not_observable_are_added_by_area() -> None:
    verdicts = add_not_observable([PASSED], ["heartbeat"])
    names = {verdict.behaviour for verdict in verdicts[1:]}
    assert names == {name for name in NOT_OBSERVABLE if name.startswith("heartbeat.")}


def test_the_page_puts_reports_side_by_side_with_totals() -> None:
    one = ConformanceReport("one", "2030-01-01T00:00:00+00:00", [PASSED, FAILED])
    other = ConformanceReport("other", "2030-01-02T00:00:00+00:00", [PASSED, UNOBSERVED])
    text = render_page([one, other], [], "# Conformance")
    assert "| one | 1 | 1 | 0 | 2030-01-01 |" in text
    assert "| `heartbeat.stable` | In a stable group a heartbeat succeeds in every version. | pass | pass |" in text
    assert "| **fail** |  |" in text
    assert "- `heartbeat.unknown-member`: expected 25, got 0" in text
    assert "`leave.pending-member`: When a pending join member leaves a Stable group, a rebalance starts" in text
