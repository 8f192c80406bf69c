"""What Kafka's rules say of single events of a classic group: the vote, the leader, and how long phases last.

    for sentence, detail in event_violations(group, event, settings):     # before the event is applied
        ...

Everything is computed once more from the group that `StoredClassicGroup` has folded, and from Kafka's settings.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from regroup.coordinator import events as e
from regroup.coordinator.events import Event
from regroup.coordinator.group import GroupState
from regroup.coordinator.settings import CoordinatorSettings
from regroup.lab.checker.classic.stored_group import StoredClassicGroup
from regroup.lab.checker.classic.stored_members import StoredClassicMember

VOTE: Final = (
    "The assignor of a generation is the one for which most members vote, of those that all support; the order of a "
    "Java hash map decides a tie."
)
LEADER_STAYS: Final = "A generation is led by the member that led before it, if that one has joined."
LEADER_HAS_JOINED: Final = (
    "A leader is elected only where there is none that has joined, and leads only if it has joined."
)
INITIAL_DELAY: Final = (
    "The first join phase of an Empty group lasts for the initial delay, which is extended as long as members have "
    "joined in it, up to the longest rebalance timeout (KIP-134)."
)
JOIN_PHASE_WAITS: Final = (
    "A join phase ends when every member has joined and no member id is pending, or at its deadline."
)
METADATA_COMES_WITH_A_JOIN: Final = (
    "A group that JoinGroup creates has metadata of its own in the log, and one that a commit creates has none."
)
CLASSIC_EVENT_SENTENCES: Final = (
    METADATA_COMES_WITH_A_JOIN,
    VOTE,
    LEADER_STAYS,
    LEADER_HAS_JOINED,
    INITIAL_DELAY,
    JOIN_PHASE_WAITS,
)


def event_violations(
    group: StoredClassicGroup, event: Event, settings: CoordinatorSettings
) -> Iterator[tuple[str, str]]:
    """Check one stored event of a classic group by Kafka's rules: how long the join phase lasts, the vote, and the
    leader.

    Yields the sentence of each violated rule with what was found; `group` is the group before the event.
    """
    delay_ms = settings.group_initial_rebalance_delay_ms
    match event:
        case e.RebalanceStarted():
            yield from _rebalance_violations(group, event, delay_ms)
        case e.JoinPhaseExtended():
            yield from _extension_violations(group, event, delay_ms)
        case e.LeaderElected(leader_id=leader_id):
            yield from _election_violations(group, leader_id)
        case e.GroupEmptied():
            yield from _end_violations(group, event.at_ms)
        case e.GenerationStarted():
            yield from _end_violations(group, event.at_ms)
            yield from _generation_violations(group, event)


def creation_violations(event: e.GroupCreated, api: str) -> Iterator[tuple[str, str]]:
    """Check how a group was created by a request of this API."""
    if api and event.by_join != (api == "JoinGroup"):
        yield METADATA_COMES_WITH_A_JOIN, f"{api} has created it {'with' if event.by_join else 'without'} metadata"


def _generation_violations(group: StoredClassicGroup, event: e.GenerationStarted) -> Iterator[tuple[str, str]]:
    chosen = chosen_protocol(list(group.members.values()))
    if event.protocol_name != chosen:
        votes = ", ".join(f"{each} prefers {' '.join(member.names)}" for each, member in group.members.items())
        yield VOTE, f"generation {event.generation_id} has {event.protocol_name}, the vote is for {chosen}: {votes}"
    if event.leader_id != group.leader_id:
        yield LEADER_STAYS, f"{event.leader_id} leads generation {event.generation_id}, and {group.leader_id} led"
    if event.leader_id not in group.joined:
        yield LEADER_HAS_JOINED, f"{event.leader_id} leads generation {event.generation_id}, and has not joined"


def _election_violations(group: StoredClassicGroup, leader_id: str) -> Iterator[tuple[str, str]]:
    joined = group.joined
    if leader_id not in group.members:
        yield LEADER_HAS_JOINED, f"{leader_id} is elected, and is no member"
    elif group.leader_id is not None and (group.leader_id in joined or leader_id not in joined):
        yield (
            LEADER_HAS_JOINED,
            f"{leader_id} is elected in place of {group.leader_id}; {', '.join(joined)} have joined",
        )


def _rebalance_violations(
    group: StoredClassicGroup, event: e.RebalanceStarted, delay_ms: int
) -> Iterator[tuple[str, str]]:
    lasts_ms, is_first = event.deadline_ms - event.at_ms, group.state is GroupState.EMPTY
    due_ms = delay_ms if is_first else group.rebalance_timeout_ms
    remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0) if is_first else 0
    if (event.is_initial, lasts_ms, event.remaining_ms) != (is_first, due_ms, remaining_ms):
        yield (
            INITIAL_DELAY,
            f"a {group.state} group has {lasts_ms} ms, and {event.remaining_ms} ms more; due were {due_ms} and "
            f"{remaining_ms} ms",
        )


def _extension_violations(
    group: StoredClassicGroup, event: e.JoinPhaseExtended, delay_ms: int
) -> Iterator[tuple[str, str]]:
    phase, lasts_ms = group.phase, event.deadline_ms - event.at_ms
    if phase is None:
        return
    if is_extended(group):
        due_ms, remaining_ms = min(delay_ms, phase.remaining_ms), max(phase.remaining_ms - phase.delay_ms, 0)
        if (lasts_ms, event.remaining_ms) != (due_ms, remaining_ms) or event.at_ms < phase.deadline_ms:
            yield (
                INITIAL_DELAY,
                f"it is extended by {lasts_ms} ms with {event.remaining_ms} ms more, {phase.deadline_ms - event.at_ms} "
                f"ms before its deadline; due were {due_ms} and {remaining_ms} ms",
            )
    elif not group.members or any(each.profile.instance_id is None for each in group.members.values()) or group.joined:
        yield INITIAL_DELAY, f"it is extended by {lasts_ms} ms, and no member joined in it, or its time was up"
    elif lasts_ms != group.rebalance_timeout_ms:
        yield INITIAL_DELAY, f"it waits {lasts_ms} ms for static members"


def _end_violations(group: StoredClassicGroup, at_ms: int) -> Iterator[tuple[str, str]]:
    phase = group.phase
    if phase is None:
        return
    all_joined = len(group.joined) == len(group.members) and not group.pending_ids
    is_due = at_ms >= phase.deadline_ms
    if phase.is_initial:
        # As in Kafka a member that is removed in the initial delay ends it, if only this one was missing.
        was_ended_by_removal = all_joined and group.removed_at_ms == at_ms
        if not was_ended_by_removal and (not is_due or is_extended(group)):
            yield (
                INITIAL_DELAY,
                f"it ends {phase.deadline_ms - at_ms} ms before its deadline, with {phase.remaining_ms} ms for "
                f"members that {'have joined' if group.has_newcomers else 'might join'}",
            )
    elif not is_due and not all_joined:
        missing = [each for each in (*group.members, *group.pending_ids) if each not in group.joined]
        yield JOIN_PHASE_WAITS, f"it ends {phase.deadline_ms - at_ms} ms early, without {', '.join(missing)}"


def is_extended(group: StoredClassicGroup) -> bool:
    """Whether the initial rebalance delay of a group is extended when it ends: members have joined in it, and there is
    time left of the rebalance timeout."""
    phase = group.phase
    return phase is not None and phase.is_initial and group.has_newcomers and phase.remaining_ms > 0


# -- the vote


def chosen_protocol(members: list[StoredClassicMember]) -> str | None:
    """The protocol that Kafka's `selectProtocol` chooses; None if there is none that all members support."""
    listed = Counter(name for member in members for name in set(member.names) if member.names.count(name) == 1)
    common = {name for name, count in listed.items() if count == len(members)}
    votes = Counter(next(name for name in member.names if name in common) for member in members) if common else {}
    if not votes:
        return None
    most = max(votes.values())
    tied = [name for name in votes if votes[name] == most]
    return min(tied, key=lambda name: (_bucket(name, len(votes)), list(votes).index(name)))


def _bucket(text: str, size: int) -> int:
    """The bucket of a string in a `java.util.HashMap` of this size, by the algorithm that Java specifies."""
    code = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(encoded), 2):
        code = (code * 31 + encoded[index] * 256 + encoded[index + 1]) % 2**32
    buckets = 16
    while size * 4 > buckets * 3:
        buckets += buckets
    return (code ^ (code >> 16)) % buckets
