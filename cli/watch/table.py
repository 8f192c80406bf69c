"""Formats the table of `regroup watch`: a row for each group, and below it lost connections and refused requests."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from regroup.cli.terminal.text import counted, printable, shorten_uuids
from regroup.cli.watch.lines import describe_refusal
from regroup.coordinator.consumer_group import ReconciliationState
from regroup.mqtt.address import MqttAddress
from regroup.mqtt.payloads import decode_payload
from regroup.server.mqtt.consumer_summary import ConsumerState
from regroup.server.mqtt.group_summary import GroupSummary, MemberSummary
from regroup.server.mqtt.messages import ConnectionLossMessage, FeedEvent, Presence, RefusalMessage

MAX_TABLE_ROWS: Final = 40
"""The most groups in the table; its caption says how many there are in all."""
MAX_SHOWN_MEMBERS: Final = 6
WIDE: Final = 110
"""The width of a terminal, in characters, from which on the last event has a column."""
COLORS: Final = {
    "Stable": "green",
    "Empty": "dim",
    **dict.fromkeys(("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"), "yellow"),
}
REMOVAL_SHOWN_MS: Final = 60_000
"""For how many milliseconds the removal of a member is shown."""


@dataclass(slots=True)
class WatchedCluster:
    """What the feed has reported about a cluster so far. Groups are stored by their topic level."""

    address: MqttAddress
    coordinator: Presence | None = None
    groups: dict[str, GroupSummary] = field(default_factory=dict)
    last_events: dict[str | None, FeedEvent] = field(default_factory=dict)
    connection_losses: dict[str, ConnectionLossMessage] = field(default_factory=dict)
    """Lost connections by member id. An entry is removed when the coordinator removes the member."""
    detections: dict[str, str] = field(default_factory=dict)
    """For each group a text about the last removed member whose connection was lost: its client, and the time from the
    loss to the removal."""
    refusals: dict[str, RefusalMessage] = field(default_factory=dict)
    """The last notice of refused requests in each group."""
    event_count: int = 0

    def record_connection_loss(self, loss: ConnectionLossMessage) -> None:
        self.connection_losses[loss.member_id] = loss

    def record_event(self, group: str | None, event: FeedEvent) -> None:
        """Handle an event, which may be the removal of a member whose connection was lost."""
        self.event_count += 1
        self.last_events[group] = event
        if event.type not in ("member-removed", "member-left") or group is None:
            return
        loss = self.connection_losses.pop(str(_payload(event).get("member_id")), None)
        if loss is not None:
            took_s = (event.at_ms - loss.lost_at_ms) / 1000
            self.detections[group] = f"{loss.client_name} lost; removed after {took_s:.1f} s"


def groups_table(cluster: WatchedCluster, now_ms: int, width: int = 80) -> Group:
    """A table with a row for each group, the one that changed last on top; below it lost connections and refused
    requests.

    The last event has a column only in a wide terminal: 80 columns are enough for the others.
    """
    table = Table(title=_title(cluster), box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("group", "state", "for", "generation", "members"):
        table.add_column(heading, justify="right" if heading in ("for", "generation") else "left")
    if width >= WIDE:
        table.add_column("last event")
    groups = sorted(cluster.groups.values(), key=lambda group: -group.state_since_ms)
    for group in groups[:MAX_TABLE_ROWS]:
        event = cluster.last_events.get(group.group)
        row = [
            _cell(group.group[:40]),
            _cell(group.state, COLORS.get(group.state, "")),
            _cell(f"{_seconds(now_ms - group.state_since_ms)} s"),
            _cell(str(group.generation_id) if group.consumer is None else f"epoch {group.generation_id}"),
            _cell(_members(group)),
        ]
        table.add_row(*row, *([_cell(event.type if event else "–")] if width >= WIDE else []))
    notes = [_cell(f"{group.group[:40]}: {note}", "red") for group in groups for note in _notes(cluster, group, now_ms)]
    caption = f"{counted(len(cluster.groups), 'group')}, {counted(cluster.event_count, 'event')} seen"
    if len(groups) > MAX_TABLE_ROWS:
        caption += f"; the {MAX_TABLE_ROWS} that changed last are shown"
    return Group(table, *notes[:MAX_TABLE_ROWS], _cell(caption, "dim"))


def _notes(cluster: WatchedCluster, group: GroupSummary, now_ms: int) -> Iterator[str]:
    """What goes on in a group, and what went wrong, as lines of text: its reconciliation, lost connections, the last
    removed member, and the last refused requests."""
    if group.consumer is not None and (text := _reconciliation(group.consumer, group, now_ms)):
        yield text
    if text := _lost_connections(group, now_ms) or cluster.detections.get(group.group, ""):
        yield text
    if text := _removal(cluster, group, now_ms):
        yield text
    if refusal := cluster.refusals.get(group.group):
        yield f"{describe_refusal(refusal)}, {_seconds(now_ms - refusal.at_ms)} s ago"


def _cell(text: str, style: str = "") -> Text:
    """A cell with control characters escaped, since every client of the MQTT broker may publish them."""
    return Text(printable(text), style)


def _title(cluster: WatchedCluster) -> str:
    texts = {"online": "is online", "offline": "is offline", "lost": "has lost its connection"}
    state = texts.get(cluster.coordinator.state, "?") if cluster.coordinator else "has published nothing yet"
    return f"{cluster.address}: the coordinator {state}"


def _members(group: GroupSummary) -> str:
    """The members of a group by their shortest names, as text; the leader is marked with a star."""
    shown = group.members[:MAX_SHOWN_MEMBERS]
    names = ", ".join(
        name + "*" * (each.member_id == group.leader_id) + (f" ({notes})" if (notes := _condition(each, group)) else "")
        for each, name in zip(shown, _short_names(shown), strict=True)
    )
    more = group.member_count - len(shown)
    return f"{names} and {more} more" if more > 0 else names or "–"


def _condition(member: MemberSummary, group: GroupSummary) -> str:
    """What a member still has to do or to wait for, as text; empty if nothing."""
    if member.awaiting:
        return f"awaits {member.awaiting}"
    if (reconciling := member.consumer) is None or group.consumer is None:
        return ""
    notes = ["classic"] if reconciling.is_classic else []
    if reconciling.member_epoch < 0:
        notes.append("away")
    elif reconciling.member_epoch != group.consumer.group_epoch:
        notes.append(f"epoch {reconciling.member_epoch}")
    if reconciling.state is ReconciliationState.UNREVOKED_PARTITIONS:
        notes.append(f"revokes {reconciling.pending_count}")
    elif reconciling.state is ReconciliationState.UNRELEASED_PARTITIONS:
        notes.append("waits for partitions")
    return ", ".join(notes)


def _reconciliation(state: ConsumerState, group: GroupSummary, now_ms: int) -> str:
    """How far a reconciliation that goes on has come, as text; empty if none does."""
    running = state.reconciliation
    if running is None or running.ended_at_ms is not None:
        return ""
    target = (
        "" if state.assignment_epoch == state.group_epoch else f"; the target is that of epoch {state.assignment_epoch}"
    )
    return (
        f"reconciliation to epoch {running.group_epoch} for {_seconds(now_ms - running.began_at_ms)} s, "
        f"{running.members_behind} of {counted(group.member_count, 'member')} behind{target}"
    )


def _removal(cluster: WatchedCluster, group: GroupSummary, now_ms: int) -> str:
    """The last removed member as text; empty if it was long ago, or the loss of its connection is shown."""
    last = group.removed_members[-1] if group.removed_members else None
    if last is None or now_ms - last.at_ms > REMOVAL_SHOWN_MS or group.group in cluster.detections:
        return ""
    return f"{shorten_uuids(last.member_id)} was removed {_seconds(now_ms - last.at_ms)} s ago: {last.reason}"


def _short_names(members: Sequence[MemberSummary]) -> list[str]:
    """The client id of each member, followed by the first digits of its member id's UUID if several members have the
    same."""
    times = Counter(each.client_id for each in members)
    return [
        each.client_id
        if times[each.client_id] == 1 and each.client_id
        else f"{each.client_id}-{each.member_id.removeprefix(each.client_id).lstrip('-')[:4]}"
        for each in members
    ]


def _lost_connections(group: GroupSummary, now_ms: int) -> str:
    """The time since each lost connection, beside the session timeout after which the coordinator removes the
    member."""
    return "; ".join(
        f"the connection of {each.client_id or shorten_uuids(each.member_id)} was lost "
        f"{_seconds(now_ms - each.connection_lost_at_ms)} s ago, session timeout {_seconds(each.session_timeout_ms)} s"
        for each in group.members
        if each.connection_lost_at_ms is not None
    )


def _seconds(milliseconds: int) -> int:
    """Milliseconds as whole seconds, also for numbers too large for a float, which any client may publish."""
    return max(0, milliseconds) // 1000


def _payload(event: FeedEvent) -> dict[str, Any]:
    """The payload of an event; empty if it was too large for a message. Raises ValueError if it is not a JSON
    object."""
    payload = bytes(event.payload)
    return {} if payload == b"null" else decode_payload(payload, dict[str, Any])
