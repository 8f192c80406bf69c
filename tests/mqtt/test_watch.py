"""What `regroup watch` makes of the feed."""

from argparse import Namespace
from io import StringIO

import msgspec
import pytest
from rich.console import Console

from regroup.cli.watch.command import Watcher
from regroup.cli.watch.table import Board, event_line, table
from regroup.mqtt.address import MqttAddress
from regroup.server.mqtt.messages import DeathMessage, FeedEvent, Presence
from regroup.server.mqtt.summaries import GroupSummary, MemberSummary

ANNA = "anna-1f2e3d4c-0000-4000-8000-000000000001"
EXPELLED = FeedEvent(
    position=9, number=9, reign=1, at_ms=8_000, type="member-expelled", version=1,
    payload=msgspec.Raw(msgspec.json.encode({"member": ANNA, "reason": "silence\x1b[2J"})),
)  # fmt: skip


def group(died_at_ms: int | None = None) -> GroupSummary:
    anna = MemberSummary(
        member=ANNA, client_id="anna", host="/mqtt:anna", session_timeout_ms=6_000, died_at_ms=died_at_ms
    )
    return GroupSummary(
        group="pay[red]ments", number=8, state="Stable", state_since_ms=1_000, generation=3, protocol_name="range",
        leader=ANNA, member_count=9, members=[anna],
    )  # fmt: skip


def drawn(board: Board) -> str:
    console = Console(file=StringIO(), width=200)
    console.print(table(board, now_ms=4_000))
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_a_death_stands_beside_the_session_timeout_until_it_is_noticed() -> None:
    board = Board(MqttAddress("broker", 1883), coordinator=Presence("here", "1"))
    board.groups["payments"] = group(died_at_ms=2_000)
    seen = drawn(board)
    assert "the coordinator is here" in seen
    assert "pay[red]ments" in seen
    assert "anna-1f2e3d4c… and 8 more" in seen
    assert "anna-1f2e3d4c… died 2 s ago, session timeout 6 s" in seen
    death = DeathMessage(
        group="pay[red]ments", member=ANNA, name="laptop-1", died_at_ms=2_000, session_timeout_ms=6_000, expelled=False
    )
    board.died(death)
    board.note("pay[red]ments", EXPELLED)
    board.groups["payments"] = group()
    assert "laptop-1 died; noticed after 6.0 s" in drawn(board)


EVENT = b'{"group":"g","events":[{"position":1,"number":1,"reign":1,"at_ms":%s,"type":"%s","version":1,"payload":%s}]}'


@pytest.mark.parametrize(
    ("topic", "payload"),
    [
        ("coordinator", b"?"),
        ("groups/g/state", b'{"group":"g"}'),
        ("groups/g/deaths", b"[]"),
        ("groups/g/events", b'{"group":"g"}'),
        ("groups/g/events", EVENT % (b"1", b"member-left", b"[]")),
        ("groups/g/events", EVENT % (b"1" * 400, b"offsets-committed", b"{}")),
        ("groups/g/events", EVENT % (b"1", b"offsets-committed", b"[" * 100_000 + b"]" * 100_000)),
    ],
)
async def test_what_cannot_be_read_is_dropped_with_a_line_and_the_rest_is_shown(
    topic: str, payload: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = StringIO()
    args = Namespace(mqtt=MqttAddress("broker", 1883), group=None, from_start=True)
    watcher = Watcher(args, Console(file=shown, width=200))
    watcher.hear(f"regroup/main/{topic}", payload)
    assert "cannot be read" in capsys.readouterr().err
    watcher.hear(
        "regroup/main/groups/other/events", (EVENT % (b"1", b"member-left", b"null")).replace(b'"g"', b'"other"')
    )
    assert "member-left" in shown.getvalue()


def test_an_events_line_says_who_and_why_and_obeys_nobody() -> None:
    line = event_line("pay\x07ments", EXPELLED)
    assert "member-expelled" in line
    assert "anna-1f2e3d4c…" in line
    assert "because silence\\x1b[2J" in line
    assert line.isprintable()
