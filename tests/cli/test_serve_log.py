"""The log of `regroup serve`: what it leaves out, and what it does not let through."""

import json
import sys
from io import StringIO

import pytest
import structlog

from regroup.cli.serve.log import set_up_log


class Screen(StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


def screen_with_a_log(monkeypatch: pytest.MonkeyPatch, *, form: str = "text", no_color: str = "1") -> Screen:
    """No fixture: pytest puts its own standard error in place when the test itself begins."""
    shown = Screen()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setenv("NO_COLOR", no_color)
    set_up_log("info", form)
    return shown


def test_a_terminal_has_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = screen_with_a_log(monkeypatch, no_color="")
    structlog.get_logger().info("member-left", group="g")
    assert "\x1b[" in screen.getvalue()


def test_whoever_wants_no_colours_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = screen_with_a_log(monkeypatch)
    structlog.get_logger().info("member-left", group="g")
    assert "member-left" in screen.getvalue()
    assert "\x1b" not in screen.getvalue()


def test_names_from_clients_give_a_terminal_no_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = screen_with_a_log(monkeypatch)
    structlog.get_logger().info("member-left", group="\x1b[31mred\x07", member="a\nb", topics=("\x1b[2J",))
    assert screen.getvalue().count("\n") == 1
    assert screen.getvalue().rstrip("\n").isprintable()
    assert r"group=\x1b[31mred\x07" in screen.getvalue()


def test_a_traceback_keeps_its_lines_and_is_as_harmless(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = screen_with_a_log(monkeypatch)
    structlog.get_logger().error("event-loop", exc_info=ValueError("\x1b[2J"))
    lines = screen.getvalue().splitlines()
    assert lines[-1] == r"ValueError: \x1b[2J"
    assert all(line.isprintable() for line in lines)


def test_a_reason_that_is_empty_is_left_out_for_people_and_stands_in_json(monkeypatch: pytest.MonkeyPatch) -> None:
    told = []
    for form in ("text", "json"):
        screen = screen_with_a_log(monkeypatch, form=form)
        structlog.get_logger().info("generation-started", group="g", reason="")
        told.append(screen.getvalue())
    assert "reason" not in told[0]
    assert json.loads(told[1])["reason"] == ""
