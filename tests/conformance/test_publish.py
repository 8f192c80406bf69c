"""The published page: verdicts of several runs are merged, and reports are put side by side."""

from regroup.conformance.run.report import ConformanceReport, StoryRun
from regroup.conformance.run.runner import StoryOutcome, StoryVerdict
from tests.conformance.columns import merge_verdicts
from tests.conformance.page import render_page

PASSED = StoryVerdict("heartbeat.stable", StoryOutcome.PASSED, duration_s=0.5)
FAILED = StoryVerdict("heartbeat.unknown-member", StoryOutcome.FAILED, "expected 25, got 0", ("anna: Heartbeat -> 0",))
UNOBSERVED = StoryVerdict("limits.static-members", StoryOutcome.NOT_OBSERVABLE, "group.max.size is too large")


def test_where_the_first_run_could_not_observe_the_second_counts() -> None:
    observed = StoryVerdict("limits.static-members", StoryOutcome.PASSED)
    assert merge_verdicts([PASSED, UNOBSERVED], [FAILED, observed]) == [PASSED, observed]


def test_the_page_puts_reports_side_by_side_with_totals() -> None:
    run = StoryRun("start --set a=1", "regroup conformance --longest 400", 2, 1)
    one = ConformanceReport("one", "2030-01-01T00:00:00+00:00", [PASSED, FAILED], [run])
    other = ConformanceReport("other", "2030-01-02T00:00:00+00:00", [PASSED, UNOBSERVED])
    text = render_page([one, other], [], "# Conformance")
    assert "| one | 1 | 1 | 0 | 2030-01-01 |" in text
    assert "| `heartbeat.stable` | In a stable group a heartbeat succeeds in every version. | pass | pass |" in text
    assert "| **fail** |  |" in text
    assert "| one | `start --set a=1` | `regroup conformance --longest 400` | 2 | 1 |" in text
    assert "- `heartbeat.unknown-member`: expected 25, got 0" in text
    assert "`leave.pending-member`: When a pending join member leaves a Stable group, a rebalance starts" in text
