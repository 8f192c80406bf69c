"""Text for a terminal: escaped, joined and shortened names."""

import pytest

from regroup.cli.terminal.text import join_names, printable, printable_lines, shorten_uuids

EVIL = "\x1b[31mred\x07"


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("café … 🦀 [red]", "café … 🦀 [red]"),
        ("\x1b]0;pwned\x07", r"\x1b]0;pwned\x07"),
        ("two\nlines\r\t", r"two\nlines\r\t"),
        ("\x9b2J\x7f", r"\x9b2J\x7f"),
        ("right\u202eto left", r"right\u202eto left"),
    ],
)
def test_control_characters_are_escaped_and_the_rest_is_left(raw: str, shown: str) -> None:
    assert printable(raw) == shown


def test_line_breaks_can_be_kept() -> None:
    assert printable_lines("one\ntwo\x07") == "one\ntwo\\x07"


def test_names_are_sorted_and_their_absence_is_written() -> None:
    assert (join_names({"b", "a\x07"}), join_names([])) == (r"a\x07, b", "none")


def test_member_ids_are_shortened_within_a_text() -> None:
    assert (
        shorten_uuids("the leader a-1f2e3d4c-0000-4000-8000-000000000001 is gone") == "the leader a-1f2e3d4c… is gone"
    )
