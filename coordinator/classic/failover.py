"""A coordinator takes a group over: what comes back from the log, and what is lost.

As when a Kafka broker becomes leader of a partition of `__consumer_offsets` and replays it.
"""

from collections.abc import Iterator

from regroup.coordinator.classic.protocol_vote import subscribed_topics
from regroup.coordinator.classic.rebalance import rebalance
from regroup.coordinator.commands import TakeOver
from regroup.coordinator.decision import Decision, Unfolding
from regroup.coordinator.events import CoordinatorLoaded
from regroup.coordinator.group import Group, State, Waiting
from regroup.coordinator.settings import Settings


def take_over(settings: Settings, group: Group, command: TakeOver) -> Decision:
    """Everybody's session starts afresh. A group that has become too large for the limit rebalances at once."""
    now = Unfolding(group, command.at_ms)
    now.takes_over(
        CoordinatorLoaded(
            at_ms=now.at_ms,
            subscribed_topics=stored_topics(group),
            forgotten=tuple(what_is_lost(group)),
        )
    )
    for name in now.group.members:
        now.hears(name)
    if len(now.group.members) > settings.group_max_size:
        rebalance(now, settings, "the group is larger than group.max.size allows")
    return now.ends()


def stored_topics(group: Group) -> tuple[str, ...] | None:
    stored = group.stored
    return subscribed_topics(stored.protocol_type, stored.protocol_name, stored.members) if stored else ()


def what_is_lost(group: Group) -> Iterator[str]:
    """In words, for whoever asks why a member was unknown after a failover."""
    for answer in Waiting:
        if waiting := [member.member_id for member in group.waiting(answer)]:
            yield f"the parked {answer.capitalize()}Group of {', '.join(waiting)}"
    if group.reserved_ids:
        yield f"the reserved ids {', '.join(group.reserved_ids)}"
    stored = {member.member_id for member in group.stored.members} if group.stored else set()
    if unknown := [name for name in group.members if name not in stored]:
        yield f"the members {', '.join(unknown)}"
    if group.stored and group.stored.generation != group.generation:
        yield f"generation {group.generation}; generation {group.stored.generation} is back"
    if group.appends:
        yield "what Kafka's log had written and not committed"
    if group.state is State.PREPARING:
        yield "the rebalance that was running"
