"""Invariants of groups. One invariant is one function and one sentence: the first line of its docstring, which a
failing run prints."""

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias, get_args

from msgspec.structs import replace

from regroup.coordinator import events as e
from regroup.coordinator.classic.transitions import TRANSITIONS
from regroup.coordinator.consumer.invariants import CONSUMER_GROUP_INVARIANTS, CONSUMER_STEP_INVARIANTS
from regroup.coordinator.consumer.kept_invariants import KEPT, with_members
from regroup.coordinator.consumer.migration.events import UpgradeRefused
from regroup.coordinator.events import CoordinatorLoaded, Event
from regroup.coordinator.group import AwaitedResponse, Group, GroupKind, GroupState
from regroup.coordinator.layered_mapping import added_keys, changed

GroupInvariant: TypeAlias = Callable[[Group], bool]
StepInvariant: TypeAlias = Callable[[Group, Event, Group], bool]

COMMIT_EVENTS: Final = (e.OffsetsCommitted, e.OffsetsWritten, e.TransactionalOffsetsWritten)
JOIN_PHASE_EVENTS: Final = (e.RebalanceStarted, e.JoinPhaseExtended)
GENERATION_EVENTS: Final = (e.GenerationStarted, e.GroupEmptied, e.GenerationRaised)
REMOVAL_EVENTS: Final = (e.MemberLeft, e.MemberRemoved)
MANY_MEMBERS: Final = 16
"""From this many members on, it costs less to find the changed ones than to check all."""
GENERATION_STATES: Final = (GroupState.COMPLETING_REBALANCE, GroupState.STABLE)


def a_generation_has_one_leader_and_it_is_a_member(group: Group) -> bool:
    """A group with members has one leader, and the leader is one of them."""
    return group.leader_id in group.members if group.members else group.leader_id is None


def responses_are_held_only_during_their_phase(group: Group) -> bool:
    """A JoinGroup is held only while the join phase runs, a SyncGroup only in the sync phase."""
    held = {member.awaiting for member in group.members.values()}
    joins_are_legal = group.state is GroupState.PREPARING_REBALANCE or AwaitedResponse.JOIN not in held
    syncs_are_legal = group.state is GroupState.COMPLETING_REBALANCE or AwaitedResponse.SYNC not in held
    return joins_are_legal and syncs_are_legal


def a_join_phase_runs_only_in_preparing_rebalance(group: Group) -> bool:
    """The join phase has a deadline as long as it runs, and none otherwise."""
    return (group.join_phase is not None) == (group.state is GroupState.PREPARING_REBALANCE)


def an_empty_group_has_no_members(group: Group) -> bool:
    """A group that is Empty or Dead has no members, and a generation has at least one.

    In PreparingRebalance all members may be gone: the initial delay, or a pending member id, keeps the phase open.
    """
    if group.state is GroupState.PREPARING_REBALANCE:
        return True
    return bool(group.members) == (group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE))


def a_pending_member_id_is_no_member(group: Group) -> bool:
    """A pending member id belongs to no member."""
    return not any(map(group.members.__contains__, group.pending_join_members))


def every_instance_id_names_its_member(group: Group) -> bool:
    """Each instance id names its static member, and no other member has one."""
    static = [
        (each.instance_id, member_id) for member_id, each in group.members.items() if each.instance_id is not None
    ]
    return len(static) == len(group.static_members) and dict(static) == group.static_members


def every_member_supports_the_selected_protocol(group: Group) -> bool:
    """Once a generation has started, every member supports the selected assignor."""
    if group.state not in GENERATION_STATES:
        return True
    name = group.protocol_name
    return name is not None and all(member.supports(name) for member in group.members.values())


def a_stable_group_is_what_the_log_holds(group: Group) -> bool:
    """The members of a Stable group, with their assignments, are those that a failover restores.

    This does not hold while the emulated Kafka log delays a record.
    """
    if group.state is not GroupState.STABLE or group.pending_appends:
        return True
    stored = (
        {}
        if group.group_metadata is None
        else {member.member_id: member.assignment for member in group.group_metadata.members}
    )
    return stored == {member_id: member.assignment for member_id, member in group.members.items()}


def a_transition_is_legal(before: Group, event: Event, after: Group) -> bool:
    """Within a coordinator epoch a group changes its state only as Kafka's table allows."""
    return (
        before.state is after.state or isinstance(event, CoordinatorLoaded) or after.state in TRANSITIONS[before.state]
    )


def generations_grow(before: Group, event: Event, after: Group) -> bool:
    """Within a coordinator epoch the generation grows by one when a join phase ends or a test raises it."""
    if after.generation_id - before.generation_id == isinstance(event, GENERATION_EVENTS):
        return True
    return isinstance(event, CoordinatorLoaded) or not before.exists or not after.exists


def members_of_a_generation_have_joined(before: Group, event: Event, after: Group) -> bool:
    """Every member of a new generation has joined it; only static members may be absent."""
    if not isinstance(event, e.GenerationStarted):
        return True
    return all(
        each.awaiting is AwaitedResponse.JOIN or each.instance_id is not None for each in before.members.values()
    )


def a_phase_lasts_as_long_as_its_members_allow(before: Group, event: Event, after: Group) -> bool:
    """A join or sync phase lasts for the longest rebalance timeout of its members, or for the initial delay."""
    if isinstance(event, JOIN_PHASE_EVENTS):
        lasts_ms = event.deadline_ms - event.at_ms
        was_initial = before.join_phase is not None and before.join_phase.is_initial
        is_initial = event.is_initial if isinstance(event, e.RebalanceStarted) else was_initial
        may_be_delay = is_initial and lasts_ms == event.delay_ms
        return may_be_delay or (event.delay_ms == 0 and lasts_ms == before.rebalance_timeout_ms)
    if isinstance(event, e.GenerationStarted):
        return event.sync_deadline_ms - event.at_ms == before.rebalance_timeout_ms
    return True


def a_load_restores_what_was_stored(before: Group, event: Event, after: Group) -> bool:
    """A coordinator that loads a group knows what the log holds: members, assignments, generation, offsets."""
    if not isinstance(event, CoordinatorLoaded):
        return True
    stored = before.group_metadata
    members = {} if stored is None else {member.member_id: member for member in stored.members}
    return (
        after.members == members
        and after.committed_offsets == before.committed_offsets
        and after.generation_id == (0 if stored is None else stored.generation_id)
        and not after.pending_join_members
    )


def a_commit_comes_from_a_member(before: Group, event: Event, after: Group) -> bool:
    """A commit that names a member is accepted from members only, unless the group is Empty.

    A transactional commit need not name a member.
    """
    if not isinstance(event, COMMIT_EVENTS):
        return True
    return not event.member_id or event.member_id in before.members or before.state is GroupState.EMPTY


def a_removed_member_is_no_member(before: Group, event: Event, after: Group) -> bool:
    """A member that left, was removed or was replaced is no member any more."""
    if isinstance(event, REMOVAL_EVENTS):
        return event.member_id not in after.members
    return not isinstance(event, e.StaticMemberReplaced) or event.replaced_member_id not in after.members


def event_numbers_have_no_gap(before: Group, event: Event, after: Group) -> bool:
    """The number of every event of a group is one more than the number of the event before it."""
    return after.event_number == before.event_number + 1


GROUP_INVARIANTS: Final[tuple[GroupInvariant, ...]] = (
    a_generation_has_one_leader_and_it_is_a_member,
    responses_are_held_only_during_their_phase,
    a_join_phase_runs_only_in_preparing_rebalance,
    an_empty_group_has_no_members,
    a_pending_member_id_is_no_member,
    every_instance_id_names_its_member,
    every_member_supports_the_selected_protocol,
    a_stable_group_is_what_the_log_holds,
)
"""Invariants that hold after every command, but not between the events of one command.

None of them is about offsets, so an event of `OFFSET_EVENTS` breaks none of them.
"""

EVERY_STEP_INVARIANTS: Final[tuple[StepInvariant, ...]] = (
    a_transition_is_legal,
    generations_grow,
    event_numbers_have_no_gap,
)
"""Invariants of every single event, given the group before and after it."""

SOME_STEP_INVARIANTS: Final[dict[StepInvariant, tuple[type[Event], ...]]] = {
    a_load_restores_what_was_stored: (CoordinatorLoaded,),
    members_of_a_generation_have_joined: (e.GenerationStarted,),
    a_phase_lasts_as_long_as_its_members_allow: (*JOIN_PHASE_EVENTS, e.GenerationStarted),
    a_commit_comes_from_a_member: COMMIT_EVENTS,
    a_removed_member_is_no_member: (*REMOVAL_EVENTS, e.StaticMemberReplaced),
}
"""Invariants of some events, with the types of those events."""

INVARIANTS_BY_EVENT: Final[dict[type[Event], tuple[StepInvariant, ...]]] = {
    kind: (*EVERY_STEP_INVARIANTS, *(each for each, kinds in SOME_STEP_INVARIANTS.items() if kind in kinds))
    for kind in (*get_args(e.AnyEvent), UpgradeRefused)
}
"""The invariants of events of classic groups."""

CONSUMER_EVENT_INVARIANTS: Final[tuple[StepInvariant, ...]] = (event_numbers_have_no_gap, *CONSUMER_STEP_INVARIANTS)
"""The invariants of every event of groups of the consumer protocol."""

GROUP_INVARIANTS_BY_KIND: Final = {
    GroupKind.CLASSIC: GROUP_INVARIANTS,
    GroupKind.CONSUMER: CONSUMER_GROUP_INVARIANTS,
}


def violations_of_group(group: Group, invariants: Iterable[GroupInvariant] | None = None) -> list[str]:
    """The sentences of the invariants that a group breaks; by default those of all invariants of its kind are
    checked."""
    of_kind = GROUP_INVARIANTS_BY_KIND[group.kind] if invariants is None else invariants
    return [invariant_sentence(each) for each in of_kind if not each(group)]


def violations_since(sound: Group, group: Group) -> list[str]:
    """The sentences that `violations_of_group` returns for `group`, found with less work.

    `sound` is a former state of the same group, which breaks no invariant: of the members only those are looked at that
    have changed since then, where that shows that an invariant still holds. A group of thousands changes for each one.
    """
    if sound.kind is not group.kind or len(group.member_ids) < MANY_MEMBERS:
        return violations_of_group(group)
    if group.consumer is not None and sound.consumer is not None:
        changed_part = with_members(group, changed(sound.consumer.members, group.consumer.members))
    else:
        changed_part = replace(group, members=changed(sound.members, group.members))
    of_kind = GROUP_INVARIANTS_BY_KIND[group.kind]
    unsettled = [each for each in of_kind if not _still_holds(each, sound, group, changed_part)]
    return violations_of_group(group, unsettled)


def _still_holds(invariant: GroupInvariant, sound: Group, group: Group, changed_part: Group) -> bool:
    """Whether the changed members alone show that an invariant which held in `sound` holds in `group`."""
    proof = STILL_HOLDS.get(invariant)
    return proof is not None and proof(sound, group, changed_part)


def _responses_are_still_held_in_their_phase(sound: Group, group: Group, changed_part: Group) -> bool:
    return sound.state is group.state and responses_are_held_only_during_their_phase(changed_part)


def _instance_ids_are_the_same(sound: Group, group: Group, changed_part: Group) -> bool:
    former = sound.members
    return (
        sound.static_members is group.static_members
        and all(
            each.instance_id == (former[member_id].instance_id if member_id in former else None)
            for member_id, each in changed_part.members.items()
        )
        and all(former[member_id].instance_id is None for member_id in added_keys(group.members, former))
    )


def _changed_members_support_the_protocol(sound: Group, group: Group, changed_part: Group) -> bool:
    is_same = sound.state in GENERATION_STATES and sound.protocol_name == group.protocol_name
    return is_same and every_member_supports_the_selected_protocol(changed_part)


def _assignments_and_log_are_the_same(sound: Group, group: Group, changed_part: Group) -> bool:
    former = sound.members
    return (
        sound.state is group.state
        and not sound.pending_appends
        and sound.group_metadata is group.group_metadata
        and len(former) == len(group.members)
        and all(
            member_id in former and each.assignment == former[member_id].assignment
            for member_id, each in changed_part.members.items()
        )
    )


STILL_HOLDS: Final[dict[GroupInvariant, Callable[[Group, Group, Group], bool]]] = {
    responses_are_held_only_during_their_phase: _responses_are_still_held_in_their_phase,
    every_instance_id_names_its_member: _instance_ids_are_the_same,
    every_member_supports_the_selected_protocol: _changed_members_support_the_protocol,
    a_stable_group_is_what_the_log_holds: _assignments_and_log_are_the_same,
    **KEPT,
}
"""For invariants about all members, a function of a former state that keeps them, the present one, and the present one
with its changed members alone. It returns True only if the present state keeps the invariant, too."""


def violations_of_step(before: Group, event: Event, after: Group) -> list[str]:
    """The sentences of the invariants that one event breaks. If the event changes the kind of the group, the invariants
    of both kinds are checked."""
    is_classic = before.consumer is None and after.consumer is None
    invariants = INVARIANTS_BY_EVENT[type(event)] if is_classic else CONSUMER_EVENT_INVARIANTS
    return [invariant_sentence(each) for each in invariants if not each(before, event, after)]


def invariant_sentence(invariant: Callable[..., object]) -> str:
    """The sentence that describes an invariant to users: the first line of its docstring, or else its name."""
    return (invariant.__doc__ or invariant.__name__).partition("\n")[0].strip()
