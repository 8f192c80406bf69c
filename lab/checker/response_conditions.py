"""Of whom a row of the table of expected answers holds: conditions on a request and the group as it is before it.

Said once more, in the table's own words and without a look at how the coordinator decides.
"""

from typing import Any, NamedTuple

from regroup.coordinator import commands as c
from regroup.coordinator.group import Group, State, Waiting
from regroup.coordinator.settings import Settings

CONSUMER = "consumer"


class OfPartition(NamedTuple):
    """One partition of an OffsetFetch."""

    topic: str
    partition: int
    require_stable: bool


class OfTopic(NamedTuple):
    """One topic of an OffsetDelete."""

    topic: str


def asks_anything_else(settings: Settings, group: Group, asked: Any) -> bool:
    """whoever asks"""
    return True


def names_no_group(settings: Settings, group: Group, asked: c.Command) -> bool:
    """without a group id"""
    return not asked.group_id


# Whoever wants to join


def asks_for_a_session_out_of_bounds(settings: Settings, group: Group, asked: c.JoinGroup) -> bool:
    """with a session timeout out of bounds"""
    shortest, longest = settings.group_min_session_timeout_ms, settings.group_max_session_timeout_ms
    return not shortest <= asked.session_timeout_ms <= longest


def has_an_id_where_no_group_is(settings: Settings, group: Group, asked: c.JoinGroup) -> bool:
    """with a member id, though there is no group"""
    return not group.exists and bool(asked.member_id)


def finds_no_room(settings: Settings, group: Group, asked: c.JoinGroup) -> bool:
    """too many: while members gather, those who wait are counted, later those who are in (KIP-389)"""
    if len(group.members) < settings.group_max_size or group.state in (State.EMPTY, State.DEAD):
        return False
    own = group.members.get(asked.member_id)
    if group.state is not State.PREPARING:
        return own is None
    gathered = [member.member_id for member in group.members.values() if member.waiting is Waiting.JOIN]
    return len(gathered) >= settings.group_max_size and asked.member_id not in gathered


def shares_no_protocol(settings: Settings, group: Group, asked: c.JoinGroup) -> bool:
    """without a protocol that all present members support"""
    if group.state in (State.EMPTY, State.DEAD):
        return not asked.protocol_type or not asked.protocols
    if asked.protocol_type != group.protocol_type:
        return True
    common = {protocol.name for protocol in asked.protocols}
    for member in group.members.values():
        if member.protocols is not asked.protocols:
            common.intersection_update([protocol.name for protocol in member.protocols])
    return not common


def has_a_reserved_id(settings: Settings, group: Group, asked: c.JoinGroup) -> bool:
    """with the id that it was given a moment ago"""
    return asked.member_id in group.reserved_ids


def has_a_reserved_id_and_an_instance_id(settings: Settings, group: Group, asked: c.JoinGroup) -> bool:
    """with an id that it was given, and an instance id too: Kafka fails inside"""
    return asked.member_id in group.reserved_ids and asked.group_instance_id is not None


def comes_back_unchanged(settings: Settings, group: Group, asked: c.JoinGroup) -> bool:
    """a static member that was restarted, and offers the protocols that it offered before"""
    if asked.member_id or asked.group_instance_id not in group.static_members:
        return False
    old = group.members[group.static_members[asked.group_instance_id]]
    return [each.name for each in old.protocols] == [each.name for each in asked.protocols]


def comes_back_changed(settings: Settings, group: Group, asked: c.JoinGroup) -> bool:
    """a static member that was restarted, and offers other protocols: the choice may change"""
    return not asked.member_id and asked.group_instance_id in group.static_members


def is_a_new_static_member(settings: Settings, group: Group, asked: c.JoinGroup) -> bool:
    """a static member that is new"""
    return not asked.member_id and asked.group_instance_id is not None


def is_new_since_version_4(settings: Settings, group: Group, asked: c.JoinGroup) -> bool:
    """without an id, since version 4 (KIP-394)"""
    return not asked.member_id and asked.can_be_asked_to_return


def is_new(settings: Settings, group: Group, asked: c.JoinGroup) -> bool:
    """without an id, before version 4"""
    return not asked.member_id


def changed_its_protocols(settings: Settings, group: Group, asked: c.JoinGroup) -> bool:
    """a member that asks for something else than before"""
    return group.members[asked.member_id].protocols != asked.protocols


# Members


def has_an_unknown_instance_id(settings: Settings, group: Group, asked: Any) -> bool:
    """with an instance id that nobody has"""
    return asked.group_instance_id is not None and asked.group_instance_id not in group.static_members


def was_replaced_under_its_instance_id(settings: Settings, group: Group, asked: Any) -> bool:
    """with an instance id that is somebody else's by now"""
    instance_id = asked.group_instance_id
    return instance_id is not None and group.static_members.get(instance_id) != asked.member_id


def is_no_member(settings: Settings, group: Group, asked: Any) -> bool:
    """who is no member"""
    return asked.member_id not in group.members


def is_of_another_generation(settings: Settings, group: Group, asked: Any) -> bool:
    """a member that believes in another generation"""
    return bool(asked.generation_id != group.generation)


def names_another_protocol(settings: Settings, group: Group, asked: c.SyncGroup) -> bool:
    """with another protocol type or name than the generation's"""
    asked_for = ((asked.protocol_type, group.protocol_type), (asked.protocol_name, group.protocol_name))
    return any(None not in pair and pair[0] != pair[1] for pair in asked_for)


def is_a_member(settings: Settings, group: Group, asked: Any) -> bool:
    """a member"""
    return asked.member_id in group.members


def leads(settings: Settings, group: Group, asked: Any) -> bool:
    """the leader"""
    return bool(asked.member_id == group.leader)


def follows(settings: Settings, group: Group, asked: Any) -> bool:
    """a follower"""
    return asked.member_id in group.members


def gives_its_reserved_id_back(settings: Settings, group: Group, asked: c.Leaving) -> bool:
    """whoever never came back with its id"""
    return asked.member_id in group.reserved_ids


def is_named_by_its_instance_id(settings: Settings, group: Group, asked: c.Leaving) -> bool:
    """a static member, named by its instance id alone (KIP-345)"""
    return not asked.member_id and asked.group_instance_id in group.static_members


# Whoever has to do with offsets


def stands_outside_the_group(settings: Settings, group: Group, asked: Any) -> bool:
    """who names neither member nor generation"""
    return asked.generation_id < 0 and not asked.member_id and asked.group_instance_id is None


def has_no_generation(settings: Settings, group: Group, asked: Any) -> bool:
    """who names no generation, while there are no members"""
    return asked.generation_id < 0 and group.state in (State.EMPTY, State.DEAD)


def asks_where_no_group_is(settings: Settings, group: Group, asked: Any) -> bool:
    """though there is no group"""
    return not group.exists


def knows_missing_groups(settings: Settings, group: Group, asked: c.CommitOffsets) -> bool:
    """though there is no group, since version 9"""
    return not group.exists and asked.knows_missing_groups


def is_too_old_to_know_them(settings: Settings, group: Group, asked: c.CommitOffsets) -> bool:
    """though there is no group, before version 9"""
    return not group.exists


def writes_too_long_a_note(settings: Settings, group: Group, asked: c.OffsetToCommit) -> bool:
    """with a note that is too long, in UTF-16 code units"""
    return len(asked.metadata.encode("utf-16-be", "surrogatepass")) > 2 * settings.offset_metadata_max_bytes


def wants_it_stable_and_it_is_not(settings: Settings, group: Group, asked: OfPartition) -> bool:
    """who wants a stable offset, while an open transaction has written one (KIP-447)"""
    return asked.require_stable and group.is_unstable(asked.topic, asked.partition)


def asks_of_consumers(settings: Settings, group: Group, asked: c.DeleteOffsets) -> bool:
    """of a group of consumers, whose topics are known"""
    return group.protocol_type == CONSUMER


def names_a_subscribed_topic(settings: Settings, group: Group, asked: OfTopic) -> bool:
    """a topic that a member subscribes to (KIP-496)"""
    return group.subscribed_topics is None or asked.topic in group.subscribed_topics
