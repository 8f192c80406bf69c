"""Progress of long work: a bar on a terminal, lines in a log."""

from io import StringIO

import pytest
from rich.console import Console

from regroup.cli.terminal.progress import PROGRESS_LINE_INTERVAL_S, ProgressReporter


class FakeClock:
    """A clock that a test sets."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.mark.parametrize(("total", "line"), [(250_000, "folding: 9,000 of 250,000\n"), (None, "folding: 9,000\n")])
def test_a_log_gets_a_line_after_each_interval(total: int | None, line: str) -> None:
    log, clock = StringIO(), FakeClock()
    with ProgressReporter(Console(file=log), clock) as report:
        report("folding", 1_000, total)
        clock.now_s += PROGRESS_LINE_INTERVAL_S
        report("folding", 9_000, total)
        clock.now_s += PROGRESS_LINE_INTERVAL_S / 2
        report("folding", 12_000, total)
    assert log.getvalue() == line


def test_a_terminal_shows_a_bar_and_removes_it_at_the_end() -> None:
    screen = StringIO()
    with ProgressReporter(Console(file=screen, force_terminal=True, width=100)) as report:
        report("playing, 2 found", 30, 1_000)
    shown, _, after = screen.getvalue().rpartition("30/1000")
    assert "playing, 2 found" in shown
    assert "playing" not in after


def test_work_that_reports_nothing_prints_nothing() -> None:
    log = StringIO()
    with ProgressReporter(Console(file=log)):
        pass
    assert log.getvalue() == ""
