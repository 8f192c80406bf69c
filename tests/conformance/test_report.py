"""Reports can be kept, merged and put side by side."""

from regroup.conformance.run.not_observable import UNSEEN
from regroup.conformance.run.report import Report, as_json, as_text, from_json, merged, with_the_unseen
from regroup.conformance.run.runner import Outcome, Verdict
from regroup.conformance.run.table import page

PASSED = Verdict("heartbeat.stable", Outcome.PASSED, seconds=0.5)
FAILED = Verdict("heartbeat.unknown-member", Outcome.FAILED, "expected 25, came 0", ("anna: Heartbeat -> 0",))
UNKNOWN = Verdict("limits.static-members", Outcome.NOT_OBSERVABLE, "group.max.size is too large")


def test_a_report_comes_back_from_json_as_it_was() -> None:
    report = Report("somebody", "2030-01-01T00:00:00+00:00", [PASSED, FAILED, UNKNOWN])
    assert from_json(as_json(report)) == report


def test_where_one_run_could_not_see_the_other_counts() -> None:
    seen = Verdict("limits.static-members", Outcome.PASSED)
    assert merged([PASSED, UNKNOWN], [FAILED, seen]) == [PASSED, seen]


def test_the_text_shows_failures_with_their_exchange_and_totals() -> None:
    lines = [*as_text(Report("somebody", "", [PASSED, FAILED, UNKNOWN]), every=False)]
    assert lines[0] == "fail           heartbeat.unknown-member: expected 25, came 0"
    assert "  anna: Heartbeat -> 0" in lines
    assert lines[-1].split() == ["all", "1", "1", "1"]


def test_the_text_says_behaviour_by_behaviour_what_was_expected() -> None:
    lines = [*as_text(Report("somebody", "", [PASSED, UNKNOWN]))]
    assert lines[0] == "pass           heartbeat.stable: In a stable group there is nothing to tell, in any version."
    assert lines[1] == "not observable limits.static-members: group.max.size is too large"


def test_the_unseen_are_counted_in_their_areas() -> None:
    whole = with_the_unseen([PASSED], ["heartbeat"])
    assert {each.behaviour for each in whole[1:]} == {name for name in UNSEEN if name.startswith("heartbeat.")}


def test_the_page_puts_reports_side_by_side_with_totals() -> None:
    one = Report("one", "2030-01-01T00:00:00+00:00", [PASSED, FAILED])
    other = Report("other", "2030-01-02T00:00:00+00:00", [PASSED, UNKNOWN])
    text = page([one, other], [], "# Conformance")
    assert "| one | 1 | 1 | 0 | 2030-01-01 |" in text
    assert "| `heartbeat.stable` | In a stable group there is nothing to tell, in any version. | pass | pass |" in text
    assert "| **fail** |  |" in text
    assert "- `heartbeat.unknown-member`: expected 25, came 0" in text
    assert "`leave.pending-member`: Giving back a pending id disturbs a stable group" in text
