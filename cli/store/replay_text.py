"""Formats groups as text for `regroup replay`: state, generation, and what each member owns."""

from collections.abc import Iterable, Iterator

from regroup.cli.store.events_text import clock_time, date_of
from regroup.cli.terminal.text import counted, printable, shorten_uuids
from regroup.coordinator.group import Group, Member, OffsetsByPartition
from regroup.notation.durations import format_duration
from regroup.notation.partitions import format_partitions
from regroup.protocol.consumer.subscription import MalformedConsumerProtocol, decode_assignment

MAX_LISTED_OFFSETS = 50
"""The most committed offsets of a group that are shown; `--format json` shows all."""


def groups_text(position: int, at_ms: int | None, groups: Iterable[Group]) -> Iterator[str]:
    """The lines of `regroup replay --format text`; `at_ms` is the time of the event at this position."""
    when = f", {date_of(at_ms)} {clock_time(at_ms)} UTC" if at_ms is not None else ""
    yield f"Position {position}{when}"
    for group in groups:
        yield ""
        yield from map(printable, _group(group))


def _group(group: Group) -> Iterator[str]:
    leader = f", leader {shorten_uuids(group.leader_id)}" if group.leader_id else ""
    protocol = f", protocol {group.protocol_name}" if group.protocol_name else ""
    since = f" since {clock_time(group.state_since_ms)}" if group.state_since_ms else ""
    yield f"group {group.group_id}: {group.state}{since}, generation {group.generation_id}{protocol}{leader}"
    for member in group.members.values():
        yield f"  {shorten_uuids(member.member_id):<28} {_assignment(group, member)}{_condition(member)}"
    if group.pending_join_members:
        yield f"  {counted(len(group.pending_join_members), 'member id')} given and not used yet"
    yield from _offsets(group.committed_offsets)


def _assignment(group: Group, member: Member) -> str:
    """The partitions that a member owns, as text; of another protocol's assignment the number of bytes."""
    if group.protocol_type != "consumer":
        return counted(len(member.assignment), "byte")
    try:
        return format_partitions(decode_assignment(member.assignment).partitions) or "nothing"
    except MalformedConsumerProtocol:
        return "nothing" if not member.assignment else counted(len(member.assignment), "byte")


def _condition(member: Member) -> str:
    notes = [f"session timeout {format_duration(member.profile.session_timeout_ms, with_fractions=True)}"]
    if member.instance_id is not None:
        notes.append(f"instance id {member.instance_id}")
    if member.awaiting is not None:
        notes.append(f"awaits {member.awaiting}")
    return f"  ({', '.join(notes)})"


def _offsets(offsets: OffsetsByPartition) -> Iterator[str]:
    """A line with the committed offsets; none if there are no offsets."""
    listed = [
        f"{topic}-{number} at {committed.offset}"
        for topic, partitions in offsets.items()
        for number, committed in partitions.items()
    ]
    if listed:
        more = f" and {len(listed) - MAX_LISTED_OFFSETS} more" if len(listed) > MAX_LISTED_OFFSETS else ""
        yield f"  committed: {', '.join(listed[:MAX_LISTED_OFFSETS])}{more}"
