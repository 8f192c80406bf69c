"""The log of a run's violations keeps the first hundred."""

from unittest.mock import Mock

from regroup.lab.checker.violations import MAX_VIOLATIONS, ViolationLog


def test_exchanges_are_described_only_as_long_as_their_violations_are_kept() -> None:
    log = ViolationLog(Mock(now_ms=lambda: 5))
    exchange = Mock(required_position=3, summary="Heartbeat was answered NONE.")
    for _ in range(MAX_VIOLATIONS):
        log.report_exchange("A sentence.", "detail", exchange)
    assert log.found[-1].detail == "detail. Heartbeat was answered NONE."
    log.report_exchange("A sentence.", "detail", Mock(spec=()))
    assert len(log.found) == MAX_VIOLATIONS
