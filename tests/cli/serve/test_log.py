"""The log of `regroup serve`: colours, control characters, and empty reasons."""

import json
import sys
from io import StringIO

import pytest
import structlog

from regroup.cli.serve.log import configure_log


class Screen(StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


def screen_with_a_log(monkeypatch: pytest.MonkeyPatch, *, form: str = "text", no_color: str = "1") -> Screen:
    """No fixture: pytest puts its own standard error in place when the test itself begins."""
    shown = Screen()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setenv("NO_COLOR", no_color)
    configure_log("info", form)
    return shown


def test_a_terminal_has_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = screen_with_a_log(monkeypatch, no_color="")
    structlog.get_logger().info("member-left", group="g")
    assert "\x1b[" in screen.getvalue()


def test_no_color_turns_colours_off(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = screen_with_a_log(monkeypatch)
    structlog.get_logger().info("member-left", group="g")
    assert "member-left" in screen.getvalue()
    assert "\x1b" not in screen.getvalue()


def test_control_characters_of_clients_are_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = screen_with_a_log(monkeypatch)
    structlog.get_logger().info("member-left", group="\x1b[31mred\x07", member="a\nb", topics=("\x1b[2J",))
    assert screen.getvalue().count("\n") == 1
    assert screen.getvalue().rstrip("\n").isprintable()
    assert r"group=\x1b[31mred\x07" in screen.getvalue()


def test_a_traceback_keeps_its_lines_and_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = screen_with_a_log(monkeypatch)
    structlog.get_logger().error("event-loop", exc_info=ValueError("\x1b[2J"))
    lines = screen.getvalue().splitlines()
    assert lines[-1] == r"ValueError: \x1b[2J"
    assert all(line.isprintable() for line in lines)


def test_an_empty_reason_is_left_out_of_text_and_stands_in_json(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = []
    for form in ("text", "json"):
        screen = screen_with_a_log(monkeypatch, form=form)
        structlog.get_logger().info("generation-started", group="g", reason="")
        logs.append(screen.getvalue())
    assert "reason" not in logs[0]
    assert json.loads(logs[1])["reason"] == ""
