"""What the methods of a logger hand to the sink that takes its lines."""

from typing import Any

import pytest

from regroup.coordinator.runtime.logger import get_logger, log_sink


@pytest.mark.parametrize("method", ["debug", "info", "warning", "error", "exception"])
def test_a_line_has_the_name_of_the_logger_the_method_the_event_and_its_fields(method: str) -> None:
    lines: list[Any] = []
    with log_sink(lambda *line: lines.append(line)):
        getattr(get_logger("coordinator"), method)("member-removed", group="billing")
    assert lines == [("coordinator", method, "member-removed", {"group": "billing"})]


def test_of_two_sinks_the_newer_one_gets_the_lines() -> None:
    older: list[Any] = []
    newer: list[Any] = []
    with log_sink(lambda *line: older.append(line)), log_sink(lambda *line: newer.append(line)):
        get_logger("coordinator").info("member-joined")
    assert (len(older), len(newer)) == (0, 1)
