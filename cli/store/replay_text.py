"""Formats groups as text for `regroup replay`: state, generation, and what each member owns."""

from collections.abc import Iterable, Iterator, Mapping

from regroup.cli.store.events_text import clock_time, date_of
from regroup.cli.terminal.text import counted, printable, shorten_uuids
from regroup.coordinator.consumer.evolve_group import consumer_of
from regroup.coordinator.consumer.targets import elected_assignor
from regroup.coordinator.consumer_group import ConsumerMember, PartitionEpochs, ReconciliationState, every_partition
from regroup.coordinator.group import Group, Member, OffsetsByPartition
from regroup.notation.durations import format_duration
from regroup.notation.partitions import format_partitions
from regroup.protocol.consumer.subscription import MalformedConsumerProtocol, decode_assignment

MAX_LISTED_OFFSETS = 50
"""The most committed offsets of a group that are shown; `--format json` shows all."""


def groups_text(position: int, at_ms: int | None, groups: Iterable[Group], topics: Mapping[str, str]) -> Iterator[str]:
    """The lines of `regroup replay --format text`; `at_ms` is the time of the event at this position, and `topics` are
    names by topic id."""
    when = f", {date_of(at_ms)} {clock_time(at_ms)} UTC" if at_ms is not None else ""
    yield f"Position {position}{when}"
    for group in groups:
        yield ""
        yield from map(printable, _group(group) if group.consumer is None else _consumer_group(group, topics))
        yield from map(printable, _offsets(group.committed_offsets))


def _consumer_group(group: Group, topics: Mapping[str, str]) -> Iterator[str]:
    """A group of the consumer protocol: its state, its epochs, and what each member has."""
    consumer = consumer_of(group)
    assignor = f", assignor {elected_assignor(consumer)}" if consumer.members else ""
    epochs = f"group epoch {consumer.group_epoch}, target of epoch {consumer.assignment_epoch}{assignor}"
    yield f"group {group.group_id}: {group.state_name}{_since(group)}, {epochs}"
    for member in consumer.members.values():
        partitions = _named(member.assigned, topics) or "nothing"
        if member.pending_revocation:
            partitions += f", to give up {_named(member.pending_revocation, topics)}"
        yield f"  {shorten_uuids(member.member_id):<28} {partitions}{_consumer_condition(member)}"


def _named(partitions: PartitionEpochs, topics: Mapping[str, str]) -> str:
    named = ((topics.get(topic_id, topic_id), index) for topic_id, index in every_partition(partitions))
    return format_partitions(sorted(named))


def _consumer_condition(member: ConsumerMember) -> str:
    notes = ["away" if member.is_away else f"epoch {member.epoch}"]
    if member.state is not ReconciliationState.STABLE:
        notes.append(member.state.name)
    if member.revocation_deadline_ms is not None:
        notes.append(f"until {clock_time(member.revocation_deadline_ms)}")
    if member.is_classic:
        notes.append("classic protocol")
    return _condition(member, notes)


def _since(group: Group) -> str:
    return f" since {clock_time(group.state_since_ms)}" if group.state_since_ms else ""


def _group(group: Group) -> Iterator[str]:
    leader = f", leader {shorten_uuids(group.leader_id)}" if group.leader_id else ""
    protocol = f", protocol {group.protocol_name}" if group.protocol_name else ""
    yield f"group {group.group_id}: {group.state}{_since(group)}, generation {group.generation_id}{protocol}{leader}"
    for member in group.members.values():
        yield f"  {shorten_uuids(member.member_id):<28} {_assignment(group, member)}{_classic_condition(member)}"
    if group.pending_join_members:
        yield f"  {counted(len(group.pending_join_members), 'member id')} given and not used yet"


def _assignment(group: Group, member: Member) -> str:
    """The partitions that a member owns, as text; of another protocol's assignment the number of bytes."""
    if group.protocol_type != "consumer":
        return counted(len(member.assignment), "byte")
    try:
        return format_partitions(decode_assignment(member.assignment).partitions) or "nothing"
    except MalformedConsumerProtocol:
        return "nothing" if not member.assignment else counted(len(member.assignment), "byte")


def _classic_condition(member: Member) -> str:
    notes = [] if member.awaiting is None else [f"awaits {member.awaiting}"]
    return _condition(member, [], notes)


def _condition(member: Member | ConsumerMember, first: Iterable[str], last: Iterable[str] = ()) -> str:
    profile = member.profile
    timeout = f"session timeout {format_duration(profile.session_timeout_ms, with_fractions=True)}"
    # A dynamic member of the classic protocol has its client id in its member id, and any other one does not.
    is_named = not profile.client_id or member.member_id.startswith(f"{profile.client_id}-")
    client = [] if is_named else [f"client id {profile.client_id}"]
    instance = [] if member.instance_id is None else [f"instance id {member.instance_id}"]
    return f"  ({', '.join([*first, timeout, *client, *instance, *last])})"


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
