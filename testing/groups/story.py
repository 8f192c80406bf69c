"""Shows a group's last events and requests as a small table, for the message of a failed wait or test."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from regroup.coordinator.group import MemberId
from regroup.coordinator.serialization import Cause, decode_cause
from regroup.server.recording.exchange import RecordedExchange
from regroup.storage.records import Record
from regroup.testing.groups.views import MemberInGroup, short_name

MAX_ROWS: Final = 12
"""The most rows of each table in a message."""
_MAX_CELL: Final = 60
_SHOWN_FIELDS: Final = (
    "member_id", "client_id", "instance_id", "leader_id", "generation_id", "protocol_name", "partitions",
    "state", "epoch", "group_epoch", "assignor", "reason",
)  # fmt: skip
_UUID: Final = re.compile(r"([0-9a-f]{8})(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_LABELLED: Final = {"epoch": "epoch", "group_epoch": "group epoch"}
"""Fields whose numbers say nothing alone, with the words before them."""


class GroupEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A stored event of a group, as `regroup events` shows it."""

    position: int
    at_ms: int
    type: str
    """The name of the event's type, such as `member-joined`. It does not change between versions."""
    fields: dict[str, Any]
    cause: Cause | None

    @property
    def cause_text(self) -> str:
        """What led to the event, a request, deadline or act, in one or two words."""
        cause = self.cause
        if cause is None:
            return ""
        if cause.test:
            return f"test: {cause.test}" + (", which Kafka never does" if cause.beyond_kafka else "")
        if cause.api:
            return f"{cause.api} of {cause.client_id}"
        return f"deadline: {cause.deadline}" if cause.deadline else cause.internal


def event_of(record: Record) -> GroupEvent:
    """The event in a stored record."""
    fields = msgspec.json.decode(record.payload)
    fields.pop("at_ms", None)
    return GroupEvent(
        position=record.position, at_ms=record.at_ms, type=record.type, fields=fields, cause=decode_cause(record)
    )


def story_table(
    events: Sequence[GroupEvent],
    exchanges: Sequence[RecordedExchange] | None,
    started_at_ms: int,
    members: Iterable[MemberInGroup] = (),
) -> str:
    """The table of events and the table of exchanges, as text. Times are seconds since the emulator was started;
    `exchanges` is None if they are not recorded. `members` are those that the group has now. Member ids are named after
    them, and those of other members after the clients that have sent them."""
    names = {member_id: each.client_id for each in exchanges or () for member_id in each.members}
    names |= {each.member_id: short_name(each) for each in members}

    def seconds(at_ms: int) -> str:
        return f"{(at_ms - started_at_ms) / 1000:+.3f} s"

    parts = ["last events:" if events else "no events"]
    parts += _table(
        (seconds(each.at_ms), each.type, _described(each.fields, names), each.cause_text) for each in events[-MAX_ROWS:]
    )
    if exchanges is None:
        return "\n".join([*parts, "requests are not recorded"])
    parts.append("last requests:" if exchanges else "no requests")
    parts += _table(
        (
            seconds(each.at_ms),
            each.client_id,
            each.api if each.count == 1 else f"{each.api} x{each.count}, last {seconds(each.last_at_ms)}",
            each.answer,
            ", ".join(sorted(each.members)),
            f"fault: {each.fault}" if each.fault else "",
        )
        for each in exchanges[-MAX_ROWS:]
    )
    return "\n".join(parts)


def _described(fields: dict[str, Any], names: Mapping[MemberId, str]) -> str:
    shown = {name: str(fields[name]) for name in _SHOWN_FIELDS if fields.get(name) not in (None, "")}
    shown |= {name: _named(shown[name], names) for name in ("member_id", "leader_id") if name in shown}
    return ", ".join(f"{_LABELLED[name]} {text}" if name in _LABELLED else text for name, text in shown.items())


def _named(member_id: MemberId, names: Mapping[MemberId, str]) -> str:
    """A member id behind the name of its member, and shortened; as it is if it begins with the name, or has none."""
    name = names.get(member_id, "")
    if not name or member_id.startswith(name):
        return member_id
    short_id = _UUID.sub(r"\1…", member_id)
    return f"{name} ({short_id})"


def _table(rows: Iterable[tuple[str, ...]]) -> list[str]:
    cells = [[_shortened(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells
    ]


def _shortened(cell: str) -> str:
    printable = "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in cell)
    return printable if len(printable) <= _MAX_CELL else printable[: _MAX_CELL - 1] + "…"
