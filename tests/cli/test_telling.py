"""How far long work is: for people, and for a log."""

from io import StringIO

import pytest
from rich.console import Console

from regroup.cli.terminal.progress import LINE_EVERY_S, Telling


class Watch:
    """A clock that is set by hand."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.mark.parametrize(("total", "line"), [(250_000, "folding: 9,000 of 250,000\n"), (None, "folding: 9,000\n")])
def test_a_log_gets_a_line_now_and_then(total: int | None, line: str) -> None:
    log, watch = StringIO(), Watch()
    with Telling(Console(file=log), watch) as telling:
        telling("folding", 1_000, total)
        watch.now_s += LINE_EVERY_S
        telling("folding", 9_000, total)
        watch.now_s += LINE_EVERY_S / 2
        telling("folding", 12_000, total)
    assert log.getvalue() == line


def test_a_person_sees_a_bar_that_is_gone_afterwards() -> None:
    screen = StringIO()
    with Telling(Console(file=screen, force_terminal=True, width=100)) as telling:
        telling("playing, 2 found", 30, 1_000)
    shown, _, after = screen.getvalue().rpartition("30/1000")
    assert "playing, 2 found" in shown
    assert "playing" not in after


def test_work_that_never_tells_shows_nothing() -> None:
    log = StringIO()
    with Telling(Console(file=log)):
        pass
    assert log.getvalue() == ""
