"""What `regroup watch` shows: a row for each group, or a line for each event."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from rich.table import Table
from rich.text import Text

from regroup.cli.terminal.text import printable, short
from regroup.mqtt.address import MqttAddress
from regroup.server.mqtt.messages import DeathMessage, FeedEvent, Presence
from regroup.server.mqtt.summaries import GroupSummary, MemberSummary

MOST_ROWS: Final = 40
"""Groups in the table; the caption says how many there are."""
COLOURS: Final = {"Stable": "green", "Empty": "dim", "PreparingRebalance": "yellow", "CompletingRebalance": "yellow"}


@dataclass(slots=True)
class Board:
    """All that is known at present. Groups stand under their topic level."""

    address: MqttAddress
    coordinator: Presence | None = None
    groups: dict[str, GroupSummary] = field(default_factory=dict)
    last: dict[str | None, FeedEvent] = field(default_factory=dict)
    deaths: dict[str, DeathMessage] = field(default_factory=dict)
    """By member id, until the coordinator has noticed."""
    noticed: dict[str, str] = field(default_factory=dict)
    """By group: who died, and how long the coordinator needed."""
    events: int = 0

    def died(self, death: DeathMessage) -> None:
        self.deaths[death.member] = death

    def note(self, group: str | None, event: FeedEvent) -> None:
        """An event went by; perhaps the one by which the coordinator noticed a death."""
        self.events += 1
        self.last[group] = event
        if event.type not in ("member-expelled", "member-left") or group is None:
            return
        death = self.deaths.pop(str(_payload(event).get("member")), None)
        if death is not None:
            self.noticed[group] = f"{death.name} died; noticed after {(event.at_ms - death.died_at_ms) / 1000:.1f} s"


def table(board: Board, now_ms: int) -> Table:
    """The newest changes first."""
    drawn = Table(title=_title(board), caption=f"{len(board.groups)} groups, {board.events} events seen")
    for heading in ("group", "state", "for", "generation", "leader", "members", "last event", "dead"):
        drawn.add_column(heading, justify="right" if heading in ("for", "generation") else "left")
    groups = sorted(board.groups.values(), key=lambda group: -group.state_since_ms)
    for group in groups[:MOST_ROWS]:
        event = board.last.get(group.group)
        drawn.add_row(
            _cell(group.group[:40]),
            _cell(group.state, COLOURS.get(group.state, "")),
            _cell(f"{_seconds(now_ms - group.state_since_ms)} s"),
            _cell(str(group.generation)),
            _cell(short(group.leader or "–")),
            _cell(_members(group)),
            _cell(event.type if event else "–"),
            _cell(_dead(group, now_ms) or board.noticed.get(group.group, ""), "red"),
        )
    return drawn


def _cell(text: str, style: str = "") -> Text:
    """Whatever is shown comes by here: anybody may publish."""
    return Text(printable(text), style)


def _title(board: Board) -> str:
    word = {"here": "is here", "left": "has left", "died": "has died"}
    state = word.get(board.coordinator.state, "?") if board.coordinator else "was never heard of"
    return f"{board.address}: the coordinator {state}"


def _members(group: GroupSummary) -> str:
    names = ", ".join(short(each.member) + (f" ({each.waiting})" if each.waiting else "") for each in group.members[:6])
    more = group.member_count - min(6, len(group.members))
    return f"{names} and {more} more" if more > 0 else names or "–"


def _dead(group: GroupSummary, now_ms: int) -> str:
    """Who died, beside the session timeout that the coordinator needs to notice."""
    return "; ".join(_death(member, now_ms) for member in group.members if member.died_at_ms is not None)


def _death(member: MemberSummary, now_ms: int) -> str:
    passed_s, timeout_s = _seconds(now_ms - (member.died_at_ms or 0)), _seconds(member.session_timeout_ms)
    return f"{short(member.member)} died {passed_s} s ago, session timeout {timeout_s} s"


def _seconds(milliseconds: int) -> int:
    """Whole ones; also of numbers that no float can hold, since anybody may publish them."""
    return max(0, milliseconds) // 1000


def event_line(group: str | None, event: FeedEvent) -> str:
    """Position, time, group, number, what happened and why."""
    payload = _payload(event)
    at = datetime.fromtimestamp(event.at_ms / 1000, UTC).strftime("%H:%M:%S.%f")[:-3]
    who = " ".join(short(str(payload[key])) for key in ("member", "generation", "leader") if key in payload)
    reason = f"  because {short(str(payload['reason']))}" if payload.get("reason") else ""
    name = "(cluster)" if group is None else group
    return printable(f"{event.position:>6}  {at}  {name:<16} #{event.number:<5} {event.type:<22} {who}{reason}")


def _payload(event: FeedEvent) -> dict[str, Any]:
    """Nothing, if it was too large for a message. ValueError if it is none."""
    return msgspec.json.decode(event.payload, type=dict[str, Any] | None) or {}


def death_line(death: DeathMessage) -> str:
    """Whose connection broke, and what comes of it."""
    timeout_s = (death.session_timeout_ms or 0) / 1000
    then = "it is expelled at once" if death.expelled else f"its session timeout is {timeout_s:.0f} s"
    return printable(f"{death.group}: the connection of {death.name} ({death.member}) died; {then}")
