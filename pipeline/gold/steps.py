"""What a group was after each event, flat enough for SQL: the table `steps`, which the invariants are asked of."""

from collections.abc import Iterator
from typing import Any
from zlib import crc32

import msgspec

from regroup.coordinator import events as e
from regroup.coordinator.group import Group, Member
from regroup.pipeline.gold.transition import Moment, Row


class Steps:
    """Watches one group. Of the last event of a command the whole group is told, since only then it is at rest.

    No step is told of events that leave everything but offsets as it was.
    """

    def __init__(self) -> None:
        self._last: tuple[dict[str, Any], Group] | None = None

    def sees(self, moment: Moment) -> Iterator[Row]:
        if moment.begins_command:
            yield from self._tell(at_rest=True)
        if isinstance(moment.event, e.OFFSETS_ALONE):
            return
        yield from self._tell(at_rest=False)
        self._last = (step(moment), moment.after)

    def ends(self) -> Iterator[Row]:
        yield from self._tell(at_rest=True)

    def _tell(self, *, at_rest: bool) -> Iterator[Row]:
        if self._last is not None:
            row, group = self._last
            yield "steps", row | (rest(group) if at_rest else {"at_rest": False})
            self._last = None


def step(moment: Moment) -> dict[str, Any]:
    before, after, record = moment.before, moment.after, moment.record
    row = {
        "position": record.position,
        "number": record.number,
        "reign": record.reign,
        "at_ms": moment.at_ms,
        "type": record.type,
        "state_before": before.state.value,
        "state": after.state.value,
        "generation_before": before.generation,
        "generation": after.generation,
    }
    if not isinstance(moment.event, e.CoordinatorLoaded):
        return row
    stored = before.stored.members if before.stored else ()
    return row | {
        "stored_before": [whole(member) for member in stored],
        "loaded": [*map(whole, after.members.values()), *after.reserved_ids],
        "stored_generation": before.stored.generation if before.stored else 0,
        "offsets_were_kept": before.offsets == after.offsets,
    }


def rest(group: Group) -> dict[str, Any]:
    return {
        "at_rest": True,
        "leader": group.leader,
        "protocol": group.protocol_name,
        "has_join_phase": group.join_phase is not None,
        "has_appends": bool(group.appends),
        "members": [member_of(group, member) for member in group.members.values()],
        "instances": [f"{instance} {name}" for instance, name in group.static_members.items()],
        "reserved_ids": list(group.reserved_ids),
        "stored": [share(member) for member in group.stored.members] if group.stored else [],
    }


def member_of(group: Group, member: Member) -> dict[str, Any]:
    return {
        "member": member.member_id,
        "instance_id": member.instance_id,
        "waiting": member.waiting.value if member.waiting else None,
        "supports_protocol": group.protocol_name is not None and member.offers(group.protocol_name),
        "share": share(member),
    }


def share(member: Member) -> str:
    """A member and a sum of its share's bytes, to be compared."""
    return f"{member.member_id} {crc32(member.assignment)}"


def whole(member: Member) -> str:
    """A member and a sum of all that is known of it, to be compared."""
    return f"{member.member_id} {crc32(msgspec.json.encode(msgspec.to_builtins(member, str_keys=True)))}"


def state_as_json(group: Group) -> str:
    """As `regroup replay` shows it, on one line."""
    return msgspec.json.encode(msgspec.to_builtins(group, str_keys=True)).decode()
