"""What must hold of every group at every moment. One invariant, one function, one sentence: a failing run prints it."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Final, TypeAlias, get_args

from regroup.coordinator import events as e
from regroup.coordinator.classic.protocol_vote import CONSUMER
from regroup.coordinator.classic.transitions import MOVES
from regroup.coordinator.events import CoordinatorLoaded, Event
from regroup.coordinator.group import Group, State, Waiting
from regroup.protocol.consumer.subscription import MalformedConsumerProtocol, TopicPartition, decode_assignment

OfGroup: TypeAlias = Callable[[Group], bool]
OfStep: TypeAlias = Callable[[Group, Event, Group], bool]

COMMITS: Final = (e.OffsetsCommitted, e.OffsetsWritten, e.TransactionalOffsetsWritten)
JOIN_PHASES: Final = (e.RebalanceStarted, e.JoinPhaseProlonged)
NEW_GENERATIONS: Final = (e.GenerationStarted, e.GroupEmptied)
GOODBYES: Final = (e.MemberLeft, e.MemberExpelled)


def a_generation_has_one_leader_and_it_is_a_member(group: Group) -> bool:
    """A group with members has one leader, and the leader is one of them."""
    return group.leader in group.members if group.members else group.leader is None


def only_a_group_between_generations_waits_for_joins(group: Group) -> bool:
    """A JoinGroup is held back only while the join phase runs, a SyncGroup only in the sync phase."""
    waiting = [member.waiting for member in group.members.values()]
    may_wait_for_joins = group.state is State.PREPARING or Waiting.JOIN not in waiting
    may_wait_for_syncs = group.state is State.COMPLETING or Waiting.SYNC not in waiting
    return may_wait_for_joins and may_wait_for_syncs


def a_join_phase_runs_exactly_while_the_group_prepares(group: Group) -> bool:
    """The join phase has a deadline as long as it runs, and none otherwise."""
    return (group.join_phase is not None) == (group.state is State.PREPARING)


def an_empty_group_has_no_members(group: Group) -> bool:
    """Nobody is in a group that is Empty or Dead, and somebody is in every generation.

    While a group prepares, everybody may be gone already: the initial delay, or a reserved id, is still waited for.
    """
    if group.state is State.PREPARING:
        return True
    return bool(group.members) == (group.state in (State.COMPLETING, State.STABLE))


def a_reserved_id_is_no_member(group: Group) -> bool:
    """An id that was given out and has not come back belongs to no member."""
    return group.reserved_ids.keys().isdisjoint(group.members)


def every_instance_id_names_its_member(group: Group) -> bool:
    """Each static member is found under its instance id, and nobody else is."""
    named = {member.instance_id: name for name, member in group.members.items() if member.instance_id is not None}
    return named == group.static_members


def a_generation_works_with_a_protocol_that_all_support(group: Group) -> bool:
    """Once a generation has begun, every member supports the assignor that was chosen."""
    if group.state not in (State.COMPLETING, State.STABLE) or group.protocol_name is None:
        return group.state not in (State.COMPLETING, State.STABLE)
    return all(member.offers(group.protocol_name) for member in group.members.values())


def a_stable_group_is_what_the_log_holds(group: Group) -> bool:
    """The members of a Stable group, with their shares, are those that a failover would bring back.

    Not while Kafka's log still holds something back: then it is behind.
    """
    if group.state is not State.STABLE or group.appends:
        return True
    stored = {} if group.stored is None else {member.member_id: member.assignment for member in group.stored.members}
    return stored == {name: member.assignment for name, member in group.members.items()}


def one_owner_per_partition(group: Group) -> bool:
    """Within one generation, no partition belongs to two members, as far as the leader's assignor is sound."""
    owned = list(owned_partitions(group))
    return len(owned) == len(set(owned))


def owned_partitions(group: Group) -> Iterator[TopicPartition]:
    """The partitions in all shares. Shares are opaque bytes; this reads those of the consumer protocol."""
    if group.protocol_type == CONSUMER:
        for member in group.members.values():
            with suppress(MalformedConsumerProtocol):
                yield from decode_assignment(member.assignment).partitions if member.assignment else ()


def a_move_is_legal(before: Group, event: Event, after: Group) -> bool:
    """Within a reign a group moves only as Kafka's table allows."""
    moved = before.state is not after.state
    return not moved or isinstance(event, CoordinatorLoaded) or after.state in MOVES[before.state]


def generations_grow(before: Group, event: Event, after: Group) -> bool:
    """Within one life of a group and one reign its generation grows by one when a join phase ends, and stays else."""
    if isinstance(event, CoordinatorLoaded) or not before.exists or not after.exists:
        return True
    return after.generation - before.generation == isinstance(event, NEW_GENERATIONS)


def a_generation_has_joined(before: Group, event: Event, after: Group) -> bool:
    """Everybody in a new generation has joined it; only static members may have stayed away."""
    if not isinstance(event, e.GenerationStarted):
        return True
    return all(each.waiting is Waiting.JOIN or each.instance_id is not None for each in before.members.values())


def a_phase_lasts_as_long_as_its_members_allow(before: Group, event: Event, after: Group) -> bool:
    """A join or sync phase lasts for the longest rebalance timeout of its members, or for the initial delay."""
    if isinstance(event, JOIN_PHASES):
        lasts_ms = event.deadline_ms - event.at_ms
        was_initial = before.join_phase is not None and before.join_phase.initial
        is_initial = event.initial if isinstance(event, e.RebalanceStarted) else was_initial
        may_be_delay = is_initial and lasts_ms == event.delay_ms
        return may_be_delay or (event.delay_ms == 0 and lasts_ms == before.rebalance_timeout_ms)
    if isinstance(event, e.GenerationStarted):
        return event.sync_deadline_ms - event.at_ms == before.rebalance_timeout_ms
    return True


def a_load_brings_back_what_was_stored(before: Group, event: Event, after: Group) -> bool:
    """A coordinator that takes over knows what the log holds, members, shares, generation, offsets, and no more."""
    if not isinstance(event, CoordinatorLoaded):
        return True
    stored = before.stored
    members = {} if stored is None else {member.member_id: member for member in stored.members}
    return (
        after.members == members
        and after.offsets == before.offsets
        and after.generation == (0 if stored is None else stored.generation)
        and not after.reserved_ids
    )


def a_commit_comes_from_a_member(before: Group, event: Event, after: Group) -> bool:
    """A commit in a member's name is accepted from members only, unless nobody is in the group.

    A transactional commit need not name a member.
    """
    if not isinstance(event, COMMITS):
        return True
    return not event.member or event.member in before.members or before.state is State.EMPTY


def who_is_gone_is_no_member(before: Group, event: Event, after: Group) -> bool:
    """Whoever left, was expelled or was replaced is no member any more."""
    if isinstance(event, GOODBYES):
        return event.member not in after.members
    return not isinstance(event, e.StaticMemberReplaced) or event.replaces not in after.members


def numbers_have_no_gap(before: Group, event: Event, after: Group) -> bool:
    """Every event of a group has the number after that of the one before."""
    return after.number == before.number + 1


OF_GROUPS: Final[tuple[OfGroup, ...]] = (
    a_generation_has_one_leader_and_it_is_a_member,
    only_a_group_between_generations_waits_for_joins,
    a_join_phase_runs_exactly_while_the_group_prepares,
    an_empty_group_has_no_members,
    a_reserved_id_is_no_member,
    every_instance_id_names_its_member,
    a_generation_works_with_a_protocol_that_all_support,
    a_stable_group_is_what_the_log_holds,
)
"""Hold whenever a command has been dealt with; between the events of one command a group may be on its way.

None of them speaks of offsets, so none is broken by an event of `OFFSETS_ALONE`.
"""

OF_SOUND_ASSIGNORS: Final[tuple[OfGroup, ...]] = (one_owner_per_partition,)
"""Hold where the leader's assignor is sound: the coordinator only keeps the books."""

OF_EVERY_STEP: Final[tuple[OfStep, ...]] = (a_move_is_legal, generations_grow, numbers_have_no_gap)
"""Hold of every single event, with the group before and after it."""

OF_SOME_STEPS: Final[dict[OfStep, tuple[type[Event], ...]]] = {
    a_load_brings_back_what_was_stored: (CoordinatorLoaded,),
    a_generation_has_joined: (e.GenerationStarted,),
    a_phase_lasts_as_long_as_its_members_allow: (*JOIN_PHASES, e.GenerationStarted),
    a_commit_comes_from_a_member: COMMITS,
    who_is_gone_is_no_member: (*GOODBYES, e.StaticMemberReplaced),
}
"""The same, with the events of which each speaks."""

OF_STEPS: Final[tuple[OfStep, ...]] = (*OF_EVERY_STEP, *OF_SOME_STEPS)

OF_EVENT: Final[dict[type[Event], tuple[OfStep, ...]]] = {
    kind: (*OF_EVERY_STEP, *(each for each, kinds in OF_SOME_STEPS.items() if kind in kinds))
    for kind in get_args(e.AnyEvent)
}


def broken_by_group(group: Group, invariants: Iterable[OfGroup] = OF_GROUPS) -> list[str]:
    """The sentences that do not hold of a group."""
    return [sentence(each) for each in invariants if not each(group)]


def broken_by_step(before: Group, event: Event, after: Group) -> list[str]:
    """The sentences that do not hold of one event."""
    return [sentence(each) for each in OF_EVENT[type(event)] if not each(before, event, after)]


def sentence(invariant: Callable[..., object]) -> str:
    """What an invariant says."""
    return (invariant.__doc__ or invariant.__name__).partition("\n")[0].strip()
