"""The conditions in the response table: each is a function of a request and of its group before the request.

They state the protocol once more, without the code that decides.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from regroup.coordinator import commands as c
from regroup.coordinator.group import AwaitedResponse, Group, GroupState, Member, MemberId
from regroup.coordinator.invariants import MANY_MEMBERS
from regroup.coordinator.layered_mapping import added_keys, changed
from regroup.coordinator.settings import CoordinatorSettings
from regroup.coordinator.supported_protocol import SupportedProtocol


class RequestedPartition(NamedTuple):
    """One partition of an OffsetFetch request."""

    topic: str
    partition: int
    require_stable: bool


class RequestedTopic(NamedTuple):
    """One topic of an OffsetDelete request."""

    topic: str


class Condition(NamedTuple):
    """When a row of the response table applies: `text` in words, and a function of the settings, the group and the
    request.

    Where a row is about a part of a request, the function gets this part.
    """

    text: str
    holds: Callable[[CoordinatorSettings, Group, Any], bool]


def _exceeds_max_size(settings: CoordinatorSettings, group: Group, command: c.JoinGroup) -> bool:
    """Whether a new member would exceed `group.max.size`.

    KIP-389: in PreparingRebalance Kafka counts the members that have joined, in other states all members.
    """
    if len(group.members) < settings.group_max_size or group.state in (GroupState.EMPTY, GroupState.DEAD):
        return False
    if group.state is not GroupState.PREPARING_REBALANCE:
        return command.member_id not in group.members
    joined = [each.member_id for each in group.members.values() if each.awaiting is AwaitedResponse.JOIN]
    return len(joined) >= settings.group_max_size and command.member_id not in joined


def _has_no_common_protocol(settings: CoordinatorSettings, group: Group, command: c.JoinGroup) -> bool:
    protocols = command.profile.supported_protocols
    common = _names_listed_once(protocols)
    if group.state in (GroupState.EMPTY, GroupState.DEAD):
        return not command.protocol_type or not common
    if command.protocol_type != group.protocol_type:
        return True
    return not (common & _COMMON_PROTOCOLS.of(group.members) if group.members else common)


class _CommonProtocols:
    """Counts by how many members of a group each protocol is listed once. From one state of a large group to the next
    only the members that have changed are counted again."""

    def __init__(self) -> None:
        self._members: Mapping[MemberId, Member] = {}
        self._counts: Counter[str] = Counter()

    def of(self, members: Mapping[MemberId, Member]) -> set[str]:
        """The names of the protocols that all of these members, at least one, list once."""
        if len(members) < MANY_MEMBERS:
            common = [_names_listed_once(each.profile.supported_protocols) for each in members.values()]
            return set.intersection(*common)
        former, newer = self._members, changed(self._members, members)
        self._count((former[each] for each in newer if each in former), -1)
        self._count((former[each] for each in added_keys(members, former)), -1)
        self._count(newer.values(), 1)
        self._members = members
        return {name for name, count in self._counts.items() if count == len(members)}

    def _count(self, members: Iterable[Member], by: int) -> None:
        for member in members:
            for name in _names_listed_once(member.profile.supported_protocols):
                self._counts[name] += by


_COMMON_PROTOCOLS: Final = _CommonProtocols()


def _names_listed_once(protocols: Sequence[SupportedProtocol]) -> set[str]:
    names = [protocol.name for protocol in protocols]
    return {name for name in names if names.count(name) == 1}


def _is_static_restart_with_same_protocols(settings: CoordinatorSettings, group: Group, command: c.JoinGroup) -> bool:
    instance_id = command.profile.instance_id
    if command.member_id or instance_id is None or instance_id not in group.static_members:
        return False
    former = group.members[group.static_members[instance_id]]
    before, now = former.profile.supported_protocols, command.profile.supported_protocols
    return [protocol.name for protocol in before] == [protocol.name for protocol in now]


def _names_other_protocol(settings: CoordinatorSettings, group: Group, command: c.SyncGroup) -> bool:
    pairs = ((command.protocol_type, group.protocol_type), (command.protocol_name, group.protocol_name))
    return any(None not in pair and pair[0] != pair[1] for pair in pairs)


def _session_timeout_is_out_of_bounds(settings: CoordinatorSettings, group: Group, command: c.JoinGroup) -> bool:
    shortest, longest = settings.group_min_session_timeout_ms, settings.group_max_session_timeout_ms
    return not shortest <= command.profile.session_timeout_ms <= longest


def _instance_id(asked: Any) -> str | None:
    instance_id: str | None = asked.profile.instance_id if isinstance(asked, c.JoinGroup) else asked.group_instance_id
    return instance_id


def _has_unknown_instance_id(settings: CoordinatorSettings, group: Group, asked: Any) -> bool:
    instance_id = _instance_id(asked)
    return instance_id is not None and instance_id not in group.static_members


def _has_another_member_under_its_instance_id(settings: CoordinatorSettings, group: Group, asked: Any) -> bool:
    instance_id = _instance_id(asked)
    return instance_id is not None and group.static_members.get(instance_id) != asked.member_id


# -- every request

ALWAYS = Condition("any request", lambda settings, group, asked: True)
NO_GROUP_ID = Condition("without a group id", lambda settings, group, asked: not asked.group_id)
THERE_IS_NO_GROUP = Condition("though there is no group", lambda settings, group, asked: not group.exists)

# -- JoinGroup

SESSION_TIMEOUT_OUT_OF_BOUNDS = Condition("with a session timeout out of bounds", _session_timeout_is_out_of_bounds)
MEMBER_ID_WITHOUT_GROUP = Condition(
    "with a member id, though there is no group",
    lambda settings, group, asked: not group.exists and bool(asked.member_id),
)
GROUP_IS_FULL = Condition("a member beyond group.max.size (KIP-389)", _exceeds_max_size)
NO_COMMON_PROTOCOL = Condition("without a protocol that all present members support", _has_no_common_protocol)
PENDING_ID = Condition(
    "with the member id from MEMBER_ID_REQUIRED",
    lambda settings, group, asked: asked.member_id in group.pending_join_members,
)
PENDING_ID_AND_INSTANCE_ID = Condition(
    "with the member id from MEMBER_ID_REQUIRED and an instance id, where Kafka fails internally",
    lambda settings, group, asked: (
        asked.member_id in group.pending_join_members and asked.profile.instance_id is not None
    ),
)
STATIC_RESTART_SAME_PROTOCOLS = Condition(
    "a restarted static member with the protocols that it had before", _is_static_restart_with_same_protocols
)
STATIC_RESTART_OTHER_PROTOCOLS = Condition(
    "a restarted static member with other protocols, which may change the choice",
    lambda settings, group, asked: not asked.member_id and asked.profile.instance_id in group.static_members,
)
NEW_STATIC_MEMBER = Condition(
    "a new static member", lambda settings, group, asked: not asked.member_id and asked.profile.instance_id is not None
)
NEW_MEMBER_SINCE_VERSION_4 = Condition(
    "without a member id, since version 4 (KIP-394)",
    lambda settings, group, asked: not asked.member_id and asked.supports_member_id_required,
)
NEW_MEMBER = Condition("without a member id, before version 4", lambda settings, group, asked: not asked.member_id)
OTHER_PROTOCOLS = Condition(
    "a member with other protocols than before",
    lambda settings, group, asked: (
        group.members[asked.member_id].profile.supported_protocols != asked.profile.supported_protocols
    ),
)

# -- members

UNKNOWN_INSTANCE_ID = Condition("with an unknown instance id", _has_unknown_instance_id)
FENCED_INSTANCE_ID = Condition(
    "with an instance id that another member has now", _has_another_member_under_its_instance_id
)
NOT_A_MEMBER = Condition("not a member", lambda settings, group, asked: asked.member_id not in group.members)
OTHER_GENERATION = Condition(
    "a member with another generation id",
    lambda settings, group, asked: bool(asked.generation_id != group.generation_id),
)
OTHER_PROTOCOL_NAME = Condition("with another protocol type or name than the generation has", _names_other_protocol)
A_MEMBER = Condition("a member", lambda settings, group, asked: asked.member_id in group.members)
THE_LEADER = Condition("the leader", lambda settings, group, asked: bool(asked.member_id == group.leader_id))
A_FOLLOWER = Condition("a follower", lambda settings, group, asked: asked.member_id in group.members)
INSTANCE_ID_ALONE = Condition(
    "a static member by its instance id alone (KIP-345)",
    lambda settings, group, asked: not asked.member_id and asked.group_instance_id in group.static_members,
)

# -- offsets

NO_MEMBER_NOR_GENERATION = Condition(
    "without member id and generation id",
    lambda settings, group, asked: asked.generation_id < 0 and not asked.member_id and asked.group_instance_id is None,
)
NO_GENERATION_NOR_MEMBERS = Condition(
    "without generation id, while the group has no members",
    lambda settings, group, asked: asked.generation_id < 0 and group.state in (GroupState.EMPTY, GroupState.DEAD),
)
UNDERSTANDS_NO_GROUP = Condition(
    "though there is no group, from a client that knows GROUP_ID_NOT_FOUND",
    lambda settings, group, asked: not group.exists and asked.supports_group_id_not_found,
)
METADATA_TOO_LONG = Condition(
    "with metadata that is too long, in UTF-16 code units",
    lambda settings, group, asked: (
        len(asked.metadata.encode("utf-16-be", "surrogatepass")) > 2 * settings.offset_metadata_max_bytes
    ),
)
UNSTABLE_OFFSET = Condition(
    "a stable offset, while an open transaction has written one (KIP-447)",
    lambda settings, group, asked: (
        asked.require_stable and group.has_pending_transactional_offset(asked.topic, asked.partition)
    ),
)
GROUP_OF_CONSUMERS = Condition(
    "of a group of consumers, whose subscribed topics are known",
    lambda settings, group, asked: group.protocol_type == "consumer",
)
SUBSCRIBED_TOPIC = Condition(
    "a topic that a member subscribes to (KIP-496)",
    lambda settings, group, asked: group.subscribed_topics is None or asked.topic in group.subscribed_topics,
)
