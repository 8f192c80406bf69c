"""Loads a classic group from the log: what a new coordinator finds there, and what is lost.

Kafka does this when a broker becomes the leader of a partition of `__consumer_offsets` and replays it.
"""

from collections.abc import Iterator

from regroup.coordinator.classic.protocol_vote import subscribed_topics
from regroup.coordinator.classic.rebalance import rebalance
from regroup.coordinator.commands import LoadGroup
from regroup.coordinator.decision import Decision, DecisionBuilder
from regroup.coordinator.events import CoordinatorLoaded
from regroup.coordinator.group import AwaitedResponse, Group, GroupState


def load_group(decision: DecisionBuilder, command: LoadGroup) -> Decision:
    """Load the group in a new coordinator. Every session timeout starts again; a group with more members than
    `group.max.size` rebalances at once."""
    metadata, lost = decision.group.group_metadata, tuple(describe_lost_state(decision.group))
    topics: tuple[str, ...] | None = ()
    if metadata:
        topics = subscribed_topics(metadata.protocol_type, metadata.protocol_name, metadata.members)
    decision.apply(CoordinatorLoaded, subscribed_topics=topics, lost=lost)
    for member_id in decision.group.members:
        decision.touch_session(member_id)
    if len(decision.group.members) > decision.settings.group_max_size:
        rebalance(decision, "the group exceeds group.max.size")
    return decision.build()


def describe_lost_state(group: Group) -> Iterator[str]:
    """What the previous coordinator held in memory only, as sentences. They explain why a member is unknown after a
    failover."""
    metadata = group.group_metadata
    for awaited in AwaitedResponse:
        if waiting := [member.member_id for member in group.members_awaiting(awaited)]:
            yield f"held {awaited.capitalize()}Group of {', '.join(waiting)}"
    if group.pending_join_members:
        yield f"pending member ids {', '.join(group.pending_join_members)}"
    stored = {member.member_id for member in metadata.members} if metadata else set()
    if unknown := [member_id for member_id in group.members if member_id not in stored]:
        yield f"members {', '.join(unknown)}"
    if metadata and metadata.generation_id != group.generation_id:
        yield f"generation {group.generation_id}; generation {metadata.generation_id} is restored"
    if group.pending_appends:
        yield "records that Kafka's log had written and not committed"
    if group.state is GroupState.PREPARING_REBALANCE:
        yield "the running rebalance"
