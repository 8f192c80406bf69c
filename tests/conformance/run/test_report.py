"""Reports are written as text and as JSON; behaviours that no client can observe are added."""

import msgspec

from regroup.conformance.run.not_observable import NOT_OBSERVABLE
from regroup.conformance.run.report import (
    ConformanceReport,
    add_not_observable,
    encode_report,
    format_report,
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
