"""Durations as text."""

import re

import pytest

from regroup.notation.durations import (
    DURATION_PATTERN,
    format_duration,
    parse_duration_ms,
    parse_exact_duration_ms,
)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("300ms", 300), ("20s", 20_000), ("1.5m", 90_000), ("1h", 3_600_000), ("7d", 604_800_000), ("0.4ms", 0)],
)
def test_a_duration_is_parsed_to_milliseconds(text: str, milliseconds: int) -> None:
    assert parse_duration_ms(text) == milliseconds
    assert re.fullmatch(DURATION_PATTERN, text, re.ASCII)


@pytest.mark.parametrize("text", ["", "20", "20 s", "-1s", "1e3s", "\N{ARABIC-INDIC DIGIT TWO}s", "noon"])
def test_any_other_text_is_named_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"invalid duration: {text!r}; write for example 500ms, 20s or 5m")):
        parse_duration_ms(text)


def test_an_exact_duration_keeps_its_fraction_and_may_have_an_exponent() -> None:
    assert parse_exact_duration_ms("0.4ms") == 0.4
    assert parse_exact_duration_ms(f"{5e-05!r}ms") == 5e-05
    with pytest.raises(ValueError, match="invalid duration"):
        parse_exact_duration_ms("soon")


@pytest.mark.parametrize("milliseconds", [0, 1, 999, 1_000, 1_500, 60_000, 90_000, 3_600_000, 3_661_001])
@pytest.mark.parametrize("with_fractions", [False, True])
def test_a_formatted_duration_is_parsed_to_the_same_milliseconds(milliseconds: int, with_fractions: bool) -> None:
    assert parse_duration_ms(format_duration(milliseconds, with_fractions=with_fractions)) == milliseconds


def test_a_duration_is_formatted_in_whole_units_or_in_seconds_with_a_fraction() -> None:
    lengths = (0, 999, 1_500, 61_050, 90_000, 300_000)
    assert [format_duration(each) for each in lengths] == ["0ms", "999ms", "1500ms", "61050ms", "90s", "5m"]
    with_fractions = [format_duration(each, with_fractions=True) for each in lengths]
    assert with_fractions == ["0s", "999ms", "1.5s", "61.05s", "90s", "5m"]


def test_a_duration_that_no_number_can_hold_is_refused() -> None:
    for parse in (parse_duration_ms, parse_exact_duration_ms):
        with pytest.raises(ValueError, match="too large"):
            parse("9" * 400 + "s")
