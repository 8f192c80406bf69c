"""Names from anywhere, as a terminal is shown them."""

from io import StringIO

import pytest
from rich.console import Console

from regroup.cli.terminal.text import listed, printable, printable_lines, short
from regroup.cli.watch.table import Board, table
from regroup.mqtt.address import MqttAddress
from regroup.server.mqtt.summaries import GroupSummary, MemberSummary

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
def test_what_a_terminal_would_obey_is_escaped_and_the_rest_is_left(raw: str, shown: str) -> None:
    assert printable(raw) == shown


def test_lines_that_are_meant_as_lines_remain() -> None:
    assert printable_lines("one\ntwo\x07") == "one\ntwo\\x07"


def test_names_are_listed_in_order_and_none_is_said_too() -> None:
    assert (listed({"b", "a\x07"}), listed([])) == (r"a\x07, b", "none at all")


def test_a_member_id_is_shortened_wherever_it_stands() -> None:
    assert short("the leader a-1f2e3d4c-0000-4000-8000-000000000001 is gone") == "the leader a-1f2e3d4c… is gone"


def test_no_cell_of_the_watched_groups_gives_the_terminal_orders() -> None:
    member = MemberSummary(member=EVIL, client_id=EVIL, host=EVIL, session_timeout_ms=1, died_at_ms=1)
    board = Board(MqttAddress("broker", 1883), noticed={EVIL: f"{EVIL} died"})
    board.groups["g"] = GroupSummary(
        group=EVIL, number=1, state=EVIL, state_since_ms=0, generation=1, protocol_name=EVIL, leader=EVIL,
        member_count=1, members=[member],
    )  # fmt: skip
    console = Console(file=StringIO(), width=200)
    console.print(table(board, now_ms=1_000))
    assert isinstance(console.file, StringIO)
    text = console.file.getvalue()
    assert text.replace("\n", "").isprintable()
    assert text.count(r"\x1b[31mred\x07") == 5
