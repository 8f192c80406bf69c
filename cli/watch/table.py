"""The output of `regroup watch`: a table with a row for each group, or a line for each event."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from rich.table import Table
from rich.text import Text

from regroup.cli.terminal.text import printable, shorten_uuids
from regroup.mqtt.address import MqttAddress
from regroup.server.mqtt.messages import ConnectionLossMessage, FeedEvent, Presence
from regroup.server.mqtt.summaries import GroupSummary

MAX_TABLE_ROWS: Final = 40
"""The most groups in the table; the caption says how many there are."""
MAX_SHOWN_MEMBERS: Final = 6
COLORS: Final = {"Stable": "green", "Empty": "dim", "PreparingRebalance": "yellow", "CompletingRebalance": "yellow"}


@dataclass(slots=True)
class WatchedCluster:
    """The content of the feed so far. Groups are held by their topic level."""

    address: MqttAddress
    coordinator: Presence | None = None
    groups: dict[str, GroupSummary] = field(default_factory=dict)
    last_events: dict[str | None, FeedEvent] = field(default_factory=dict)
    connection_losses: dict[str, ConnectionLossMessage] = field(default_factory=dict)
    """Lost connections by member id, until the coordinator has removed the member."""
    detections: dict[str, str] = field(default_factory=dict)
    """The client of each group whose connection was lost last, and the time until its member was removed."""
    event_count: int = 0

    def record_connection_loss(self, loss: ConnectionLossMessage) -> None:
        self.connection_losses[loss.member_id] = loss

    def record_event(self, group: str | None, event: FeedEvent) -> None:
        """Take in an event; it may be the removal of a member whose connection was lost."""
        self.event_count += 1
        self.last_events[group] = event
        if event.type not in ("member-removed", "member-left") or group is None:
            return
        loss = self.connection_losses.pop(str(_payload(event).get("member_id")), None)
        if loss is not None:
            took_s = (event.at_ms - loss.lost_at_ms) / 1000
            self.detections[group] = f"{loss.client_name} lost; removed after {took_s:.1f} s"


def groups_table(cluster: WatchedCluster, now_ms: int) -> Table:
    """Draw a row for each group, the one that changed last on top."""
    table = Table(title=_title(cluster), caption=f"{len(cluster.groups)} groups, {cluster.event_count} events seen")
    for heading in ("group", "state", "for", "generation", "leader", "members", "last event", "lost connections"):
        table.add_column(heading, justify="right" if heading in ("for", "generation") else "left")
    groups = sorted(cluster.groups.values(), key=lambda group: -group.state_since_ms)
    for group in groups[:MAX_TABLE_ROWS]:
        event = cluster.last_events.get(group.group)
        table.add_row(
            _cell(group.group[:40]),
            _cell(group.state, COLORS.get(group.state, "")),
            _cell(f"{_seconds(now_ms - group.state_since_ms)} s"),
            _cell(str(group.generation_id)),
            _cell(shorten_uuids(group.leader_id or "–")),
            _cell(_members(group)),
            _cell(event.type if event else "–"),
            _cell(_lost_connections(group, now_ms) or cluster.detections.get(group.group, ""), "red"),
        )
    return table


def _cell(text: str, style: str = "") -> Text:
    """A cell without control characters: every client of the MQTT broker may publish."""
    return Text(printable(text), style)


def _title(cluster: WatchedCluster) -> str:
    texts = {"online": "is online", "offline": "is offline", "lost": "has lost its connection"}
    state = texts.get(cluster.coordinator.state, "?") if cluster.coordinator else "has published nothing yet"
    return f"{cluster.address}: the coordinator {state}"


def _members(group: GroupSummary) -> str:
    shown = group.members[:MAX_SHOWN_MEMBERS]
    names = ", ".join(
        shorten_uuids(each.member_id) + (f" (awaits {each.awaiting})" if each.awaiting else "") for each in shown
    )
    more = group.member_count - len(shown)
    return f"{names} and {more} more" if more > 0 else names or "–"


def _lost_connections(group: GroupSummary, now_ms: int) -> str:
    """The time since each loss, beside the session timeout, after which the coordinator removes the member."""
    return "; ".join(
        f"{shorten_uuids(each.member_id)} lost {_seconds(now_ms - each.connection_lost_at_ms)} s ago, "
        f"session timeout {_seconds(each.session_timeout_ms)} s"
        for each in group.members
        if each.connection_lost_at_ms is not None
    )


def _seconds(milliseconds: int) -> int:
    """Whole seconds, also of numbers too large for a float: every client may publish them."""
    return max(0, milliseconds) // 1000


def event_line(group: str | None, event: FeedEvent) -> str:
    """Format position, time, group, event number, event type, ids and reason."""
    payload = _payload(event)
    at = datetime.fromtimestamp(event.at_ms / 1000, UTC).strftime("%H:%M:%S.%f")[:-3]
    ids = " ".join(
        shorten_uuids(str(payload[key])) for key in ("member_id", "generation_id", "leader_id") if key in payload
    )
    reason = f"  because {shorten_uuids(str(payload['reason']))}" if payload.get("reason") else ""
    name = "(cluster)" if group is None else group
    return printable(f"{event.position:>6}  {at}  {name:<16} #{event.event_number:<5} {event.type:<22} {ids}{reason}")


def _payload(event: FeedEvent) -> dict[str, Any]:
    """The event's payload; empty if it was too large for a message. Raises ValueError for what is not an object."""
    return msgspec.json.decode(event.payload, type=dict[str, Any] | None) or {}


def connection_loss_line(loss: ConnectionLossMessage) -> str:
    """Format whose connection was lost, and when the member is removed."""
    timeout_s = (loss.session_timeout_ms or 0) / 1000
    then = "it is removed at once" if loss.is_removed else f"its session timeout is {timeout_s:.0f} s"
    return printable(f"{loss.group}: the connection of {loss.client_name} ({loss.member_id}) was lost; {then}")
