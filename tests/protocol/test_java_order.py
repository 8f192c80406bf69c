"""Java's hash of strings, computed as `String.hashCode()` is documented."""

from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regroup.protocol.java_order import java_string_hash


def documented(text: str) -> int:
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    return reduce(lambda hashed, unit: (31 * hashed + unit) & 0xFFFFFFFF, units, 0)


@given(text=st.text("aZ~\x7fé\ud7ff\ud800\ue000𝄞"))
def test_the_hash_is_that_of_java(text: str) -> None:
    assert java_string_hash(text) == documented(text)


@pytest.mark.parametrize("length", [0, 1, 22, 299, 300, 301, 302, 2000])
def test_the_hash_of_a_long_text_is_that_of_java(length: int) -> None:
    assert java_string_hash("~" * length) == documented("~" * length)
