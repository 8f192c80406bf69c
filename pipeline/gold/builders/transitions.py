"""Builds the table `transitions`, which `violations` reads: a row for each event with the group before and after it."""

from collections.abc import Iterator
from typing import Any
from zlib import crc32

import msgspec

from regroup.coordinator import events as e
from regroup.coordinator.group import Group, GroupKind, Member
from regroup.pipeline.gold.builders.table_builder import TableRow, Transition


class Transitions:
    """Builds the table `transitions` for one group; events that only change offsets have no row.

    For classic groups the last row of each command also has columns about the whole group, since most invariants need
    not hold between the events of a command.
    """

    def __init__(self) -> None:
        self._last: tuple[dict[str, Any], Group] | None = None
        self._stops_within_command = False

    def on_event(self, transition: Transition) -> Iterator[TableRow]:
        if transition.begins_command:
            yield from self._complete(ends_command=True)
        if not isinstance(transition.event, e.OFFSET_EVENTS):
            yield from self._complete(ends_command=False)
            self._last = (transition_columns(transition), transition.after)

    def stop_within_command(self) -> None:
        """Note that the next event of the present command cannot be folded.

        The command's last row then gets no columns about the whole group.
        """
        self._stops_within_command = True

    def on_end(self) -> Iterator[TableRow]:
        yield from self._complete(ends_command=not self._stops_within_command)

    def _complete(self, *, ends_command: bool) -> Iterator[TableRow]:
        if self._last is not None:
            row, group = self._last
            has_columns = ends_command and group.kind is GroupKind.CLASSIC
            yield "transitions", row | {"ends_command": ends_command} | (group_columns(group) if has_columns else {})
            self._last = None


def transition_columns(transition: Transition) -> dict[str, Any]:
    before, after, record = transition.before, transition.after, transition.record
    row = {
        "position": record.position,
        "event_number": record.event_number,
        "coordinator_epoch": record.coordinator_epoch,
        "at_ms": transition.at_ms,
        "type": record.type,
        "protocol_before": before.kind.value,
        "protocol": after.kind.value,
        "state_before": before.state_name,
        "state": after.state_name,
        "generation_id_before": before.generation_id,
        "generation_id": after.generation_id,
        "group_epoch_before": before.consumer.group_epoch if before.consumer else None,
        "group_epoch": after.consumer.group_epoch if after.consumer else None,
        "assignment_epoch_before": before.consumer.assignment_epoch if before.consumer else None,
        "assignment_epoch": after.consumer.assignment_epoch if after.consumer else None,
    }
    if not isinstance(transition.event, e.CoordinatorLoaded) or after.kind is not GroupKind.CLASSIC:
        return row
    stored = before.group_metadata
    return row | {
        "stored_members_before": [member_checksum(member) for member in stored.members] if stored else [],
        "loaded_members": [*map(member_checksum, after.members.values()), *after.pending_join_members],
        "stored_generation_id": stored.generation_id if stored else 0,
        "offsets_unchanged": before.committed_offsets == after.committed_offsets,
    }


def group_columns(group: Group) -> dict[str, Any]:
    stored = group.group_metadata
    return {
        "leader_id": group.leader_id,
        "protocol_name": group.protocol_name,
        "has_join_phase": group.join_phase is not None,
        "has_pending_appends": bool(group.pending_appends),
        "members": [
            {
                "member_id": member.member_id,
                "instance_id": member.instance_id,
                "awaiting": member.awaiting.value if member.awaiting else None,
                "supports_protocol": group.protocol_name is not None and member.supports(group.protocol_name),
                "assignment_checksum": assignment_checksum(member),
            }
            for member in group.members.values()
        ],
        "static_members": [f"{instance_id} {member_id}" for instance_id, member_id in group.static_members.items()],
        "pending_join_members": list(group.pending_join_members),
        "stored_members": [assignment_checksum(member) for member in stored.members] if stored else [],
    }


def assignment_checksum(member: Member) -> str:
    """The member id and a checksum of the member's assignment, as one text."""
    return f"{member.member_id} {crc32(member.assignment)}"


def member_checksum(member: Member) -> str:
    """The member id and a checksum of all that the coordinator stores about the member, as one text."""
    return f"{member.member_id} {crc32(msgspec.json.encode(msgspec.to_builtins(member, str_keys=True)))}"
