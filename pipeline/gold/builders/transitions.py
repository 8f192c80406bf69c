"""Builds the table `transitions`: a row for each event of a group, with the group before and after it."""

from collections.abc import Mapping
from typing import Any, Final
from zlib import crc32

import msgspec

from regroup.coordinator import events as e
from regroup.coordinator.group import Group, GroupKind, GroupMetadata, Member, MemberId
from regroup.pipeline.gold.builders.table_builder import TableBuilder, Transition
from regroup.pipeline.gold.folded_rows import FoldedRows

CLASSIC: Final = GroupKind.CLASSIC.value
NO_LOAD: Final = (None, None, None, None)
NO_GROUP: Final = (None,) * 8


class Transitions(TableBuilder):
    """Builds the table `transitions` for one group; events that only change offsets have no row.

    For classic groups the last row of each command also has columns about the whole group, since most invariants need
    not hold between the events of a command.
    """

    def __init__(self) -> None:
        self._last: tuple[tuple[Any, ...], Group] | None = None
        """The columns of the last row up to `ends_command`, and the group after its event."""
        self._stops_within_command = False
        self._group_columns = GroupColumns()

    def on_event(self, transition: Transition, rows: FoldedRows) -> None:
        if self._last is not None and transition.begins_command:
            self._complete(rows, ends_command=True)
        if type(transition.event) not in e.OFFSET_EVENTS:
            if self._last is not None:
                self._complete(rows, ends_command=False)
            self._last = (transition_columns(transition), transition.after)

    def stop_within_command(self) -> None:
        """Note that the next event of the present command cannot be folded.

        The command's last row then gets no columns about the whole group.
        """
        self._stops_within_command = True

    def on_end(self, rows: FoldedRows) -> None:
        if self._last is not None:
            self._complete(rows, ends_command=not self._stops_within_command)

    def _complete(self, rows: FoldedRows, *, ends_command: bool) -> None:
        if self._last is not None:
            columns, group = self._last
            has_columns = ends_command and group.consumer is None
            of_group = self._group_columns.of(group) if has_columns else NO_GROUP
            rows.transitions.append((*columns, ends_command, *of_group))
            self._last = None


def transition_columns(transition: Transition) -> tuple[Any, ...]:
    """The columns up to `ends_command`."""
    before, after, record = transition.before, transition.after, transition.record
    position, at_ms = record.position, transition.event.at_ms
    head = (position, record.event_number, record.coordinator_epoch, at_ms, record.type)
    generations = (before.generation_id, after.generation_id)
    if before.consumer is None and after.consumer is None:
        states: tuple[str, ...] = (CLASSIC, CLASSIC, before.state, after.state)
        load = load_columns(before, after) if type(transition.event) is e.CoordinatorLoaded else NO_LOAD
        return (*head, *states, *generations, None, None, None, None, *load)
    states = (before.kind.value, after.kind.value, before.named_state, after.named_state)
    epochs = (*epochs_of(before), *epochs_of(after))
    is_load = type(transition.event) is e.CoordinatorLoaded and after.consumer is None
    load = load_columns(before, after) if is_load else NO_LOAD
    return (*head, *states, *generations, epochs[0], epochs[2], epochs[1], epochs[3], *load)


def epochs_of(group: Group) -> tuple[int | None, int | None]:
    consumer = group.consumer
    return (None, None) if consumer is None else (consumer.group_epoch, consumer.assignment_epoch)


def load_columns(before: Group, after: Group) -> tuple[Any, ...]:
    stored = before.group_metadata
    return (
        [member_checksum(member) for member in stored.members] if stored else [],
        [*map(member_checksum, after.members.values()), *after.pending_join_members],
        stored.generation_id if stored else 0,
        before.committed_offsets == after.committed_offsets,
    )


class GroupColumns:
    """The columns about a whole classic group. What has not changed since the group before is taken from there."""

    def __init__(self) -> None:
        self._protocol_name: str | None = None
        self._members: Mapping[MemberId, Member] = {}
        self._structs: dict[MemberId, tuple[Member, tuple[Any, ...]]] = {}
        """The struct of each member, with the member that it was made of."""
        self._shown_members: list[tuple[Any, ...]] = []
        self._stored: GroupMetadata | None = None
        self._shown_stored: list[str] = []

    def __reduce__(self) -> tuple[type["GroupColumns"], tuple[()]]:
        """Leave what can be made again out of the state of a fold."""
        return GroupColumns, ()

    def of(self, group: Group) -> tuple[Any, ...]:
        """The columns from `leader_id` on."""
        if group.members is not self._members or group.protocol_name != self._protocol_name:
            self._show_members(group)
        if group.group_metadata is not self._stored:
            self._stored = group.group_metadata
            members = self._stored.members if self._stored else ()
            self._shown_stored = [assignment_checksum(each) for each in members]
        return (
            group.leader_id,
            group.protocol_name,
            group.join_phase is not None,
            bool(group.pending_appends),
            self._shown_members,
            [f"{instance_id} {member_id}" for instance_id, member_id in group.static_members.items()],
            list(group.pending_join_members),
            self._shown_stored,
        )

    def _show_members(self, group: Group) -> None:
        known = self._structs if group.protocol_name == self._protocol_name else {}
        self._structs = {}
        for member_id, member in group.members.items():
            shown = known.get(member_id)
            if shown is None or shown[0] is not member:
                shown = (member, member_struct(member, group.protocol_name))
            self._structs[member_id] = shown
        self._members, self._protocol_name = group.members, group.protocol_name
        self._shown_members = [struct for _, struct in self._structs.values()]


def member_struct(member: Member, protocol_name: str | None) -> tuple[Any, ...]:
    """The fields of a member in the column `members`, in order."""
    supports = protocol_name is not None and member.supports(protocol_name)
    return (member.member_id, member.instance_id, member.awaiting, supports, assignment_checksum(member))


def assignment_checksum(member: Member) -> str:
    """The member id and a checksum of the member's assignment, as one text."""
    return f"{member.member_id} {crc32(member.assignment)}"


def member_checksum(member: Member) -> str:
    """The member id and a checksum of all that the coordinator stores about the member, as one text."""
    return f"{member.member_id} {crc32(msgspec.json.encode(msgspec.to_builtins(member, str_keys=True)))}"
