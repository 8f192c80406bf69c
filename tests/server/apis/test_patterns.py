"""Patterns of RE2 in requests, and what they may cost."""

import pytest

from regroup.server.apis.transaction_lists import InvalidPattern, compile_pattern
from regroup.server.limits import MAX_PATTERN_CHARACTERS

pytest.importorskip("re2")


def test_a_pattern_with_the_most_characters_is_compiled() -> None:
    names = "|".join(["orders"] * 1_000)

    compiled = compile_pattern(names[: MAX_PATTERN_CHARACTERS // 7 * 7 - 1])

    assert compiled.matches("orders")
    assert not compiled.matches("orders-")


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        pytest.param(r"\pL" * 1_334, "the pattern has 4002 characters, at most 4000 are allowed", id="long"),
        pytest.param("(((a|x){0,20}){0,30})", "instructions, at most 2000 are allowed", id="many instructions"),
        pytest.param(r"\pL{1000}" * 60, "pattern too large", id="large while it is compiled"),
    ],
)
def test_a_pattern_that_costs_too_much_is_refused(pattern: str, reason: str) -> None:
    with pytest.raises(InvalidPattern, match=reason):
        compile_pattern(pattern)
