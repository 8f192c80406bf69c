"""Parses and formats durations as people write them: `300ms`, `20s`, `1.5m`, `1h`, `7d`."""

import re
from math import inf
from typing import Final

DURATION_PATTERN: Final = r"\d+(?:\.\d+)?(?:ms|s|m|h|d)"
"""A regular expression for a duration, without groups, to be used inside a larger one and compiled with `re.ASCII`."""

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", re.ASCII)
_EXACT_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?(?:e-?\d+)?)(ms|s|m|h|d)", re.ASCII)
_UNIT_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_duration_ms(text: str) -> int:
    """Parse a duration to milliseconds, rounded. Raises ValueError for text that is not a duration."""
    return round(_parse(_DURATION, text))


def parse_exact_duration_ms(text: str) -> float:
    """Parse a duration to milliseconds with their fraction; the number may have an exponent, as in `5e-05ms`."""
    return _parse(_EXACT_DURATION, text)


def _parse(pattern: re.Pattern[str], text: str) -> float:
    match = pattern.fullmatch(text)
    if match is None:
        raise ValueError(f"invalid duration: {text!r}; write for example 500ms, 20s or 5m")
    milliseconds = float(match[1]) * _UNIT_MS[match[2]]
    if milliseconds == inf:
        raise ValueError(f"invalid duration: {text[:20]}… is too large")
    return milliseconds


def format_duration(milliseconds: int, *, with_fractions: bool = False) -> str:
    """Write a duration in the largest unit that gives a whole number: `90s`, `1500ms`, `0ms`.

    `with_fractions` writes seconds with a fraction in place of 1,000 milliseconds and more (`1.5s`), and `0s` for 0.
    """
    if with_fractions and milliseconds == 0:
        return "0s"
    if with_fractions and milliseconds >= 1_000 and milliseconds % 1_000:
        return f"{milliseconds // 1_000}.{milliseconds % 1_000:03}".rstrip("0") + "s"
    unit = next((unit for unit in ("h", "m", "s") if milliseconds and milliseconds % _UNIT_MS[unit] == 0), "ms")
    return f"{milliseconds // _UNIT_MS[unit]}{unit}"
