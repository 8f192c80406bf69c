"""Folding events: the state of a group after something happened to it. `evolve` cannot refuse an event."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from msgspec.structs import replace

from regroup.coordinator import events as e
from regroup.coordinator.classic.evolve_group import (
    assignment_committed,
    assignment_written,
    generation_raised,
    generation_started,
    group_emptied,
    group_metadata_written,
    join_phase_extended,
    leader_elected,
    member_joined,
    member_rejoined,
    member_removed,
    member_synced,
    pending_member_added,
    pending_member_removed,
    rebalance_started,
    static_member_replaced,
)
from regroup.coordinator.consumer import events as ce
from regroup.coordinator.consumer.evolve_group import (
    consumer_group_created,
    consumer_group_deleted,
    consumer_group_ended,
    consumer_group_loaded,
    consumer_removed,
    group_epoch_bumped,
    member_reconciled,
    member_subscribed,
    regexes_resolved,
    static_consumer_replaced,
    static_member_away,
    target_assigned,
)
from regroup.coordinator.consumer.migration import events as me
from regroup.coordinator.consumer.migration.evolve_group import (
    classic_member_joined,
    classic_member_synced,
    group_downgraded,
    group_upgraded,
    rejoin_requested,
    upgrade_refused,
)
from regroup.coordinator.group import Group, GroupMetadata, GroupState, LogRecordKind, PendingAppend
from regroup.coordinator.offsets.evolve_offsets import (
    append_committed,
    append_failed,
    append_timed_out,
    offsets_committed,
    offsets_deleted,
    offsets_written,
    transaction_ended,
    transactional_offsets_written,
)

__all__ = ["evolve", "fold"]


def evolve(group: Group, event: e.Event) -> Group:
    """The group after the event. The same events give the same group in every version of regroup that reads them."""
    evolvers = EVOLVERS if group.consumer is None else CONSUMER_EVOLVERS
    after: Group = evolvers[type(event)](group, event)
    is_unchanged = after.state is group.state and after.consumer is group.consumer  # after most events: commits
    if is_unchanged or after.named_state is group.named_state or isinstance(event, e.CoordinatorLoaded):
        return replace(after, event_number=group.next_event_number)
    return replace(after, event_number=group.next_event_number, state_since_ms=event.at_ms)


def fold(group: Group, events: Iterable[e.Event]) -> Group:
    """The group after all of these events, in order."""
    for event in events:
        group = evolve(group, event)
    return group


def group_created(group: Group, event: e.GroupCreated) -> Group:
    created = Group(group_id=group.group_id, state=GroupState.EMPTY, loaded_at_ms=group.loaded_at_ms)
    if not event.by_join:
        return created
    metadata = GroupMetadata(state_since_ms=event.at_ms)
    if event.commit_deadline_ms is None:
        return replace(created, group_metadata=metadata)
    append = PendingAppend(
        kind=LogRecordKind.GROUP_CREATION, deadline_ms=event.commit_deadline_ms, group_metadata=metadata
    )
    return replace(created, pending_appends={group.next_event_number: append})


def group_deleted(group: Group, event: e.GroupDeleted) -> Group:
    return Group(group_id=group.group_id, loaded_at_ms=group.loaded_at_ms)


def coordinator_loaded(group: Group, event: e.CoordinatorLoaded) -> Group:
    """The group after a new coordinator has loaded it from the log, which has its offsets and its metadata. Everything
    else was in the memory of the previous coordinator, and is lost.

    A group with offsets and no metadata is a simple group: Empty, generation 0, no protocol type.
    """
    loaded = Group(
        group_id=group.group_id,
        committed_offsets=group.committed_offsets,
        pending_transactional_offsets=group.pending_transactional_offsets,
        group_metadata=group.group_metadata,
        loaded_at_ms=event.at_ms,
    )
    metadata = group.group_metadata
    if metadata is None:
        is_simple = group.committed_offsets or group.pending_transactional_offsets
        return replace(loaded, state=GroupState.EMPTY, state_since_ms=event.at_ms) if is_simple else loaded
    return replace(
        loaded,
        state=GroupState.STABLE if metadata.members else GroupState.EMPTY,
        state_since_ms=metadata.state_since_ms,
        generation_id=metadata.generation_id,
        protocol_type=metadata.protocol_type,
        protocol_name=metadata.protocol_name,
        leader_id=metadata.leader_id,
        members={member.member_id: member for member in metadata.members},
        static_members={member.instance_id: member.member_id for member in metadata.members if member.instance_id},
        subscribed_topics=event.subscribed_topics,
    )


OFFSET_EVOLVERS: Final[dict[type[e.Event], Callable[[Group, Any], Group]]] = {
    e.OffsetsCommitted: offsets_committed,
    e.OffsetsWritten: offsets_written,
    e.AppendCommitted: append_committed,
    e.AppendFailed: append_failed,
    e.AppendTimedOut: append_timed_out,
    e.TransactionalOffsetsWritten: transactional_offsets_written,
    e.TransactionEnded: transaction_ended,
    e.OffsetsDeleted: offsets_deleted,
}
"""Events of groups of every kind."""

EVOLVERS: Final[dict[type[e.Event], Callable[[Group, Any], Group]]] = {
    **OFFSET_EVOLVERS,
    e.GroupCreated: group_created,
    e.PendingMemberAdded: pending_member_added,
    e.PendingMemberRemoved: pending_member_removed,
    e.MemberJoined: member_joined,
    e.MemberRejoined: member_rejoined,
    e.StaticMemberReplaced: static_member_replaced,
    e.LeaderElected: leader_elected,
    e.RebalanceStarted: rebalance_started,
    e.JoinPhaseExtended: join_phase_extended,
    e.GenerationStarted: generation_started,
    e.GenerationRaised: generation_raised,
    e.GroupEmptied: group_emptied,
    e.MemberSynced: member_synced,
    e.AssignmentWritten: assignment_written,
    e.AssignmentCommitted: assignment_committed,
    e.MemberLeft: member_removed,
    e.MemberRemoved: member_removed,
    e.GroupMetadataWritten: group_metadata_written,
    e.GroupDeleted: group_deleted,
    e.CoordinatorLoaded: coordinator_loaded,
    ce.ConsumerGroupCreated: consumer_group_created,
    me.GroupUpgraded: group_upgraded,
    me.UpgradeRefused: upgrade_refused,
}
"""Events of classic groups, and of groups that do not exist."""

CONSUMER_EVOLVERS: Final[dict[type[e.Event], Callable[[Group, Any], Group]]] = {
    **OFFSET_EVOLVERS,
    ce.ConsumerGroupEnded: consumer_group_ended,
    ce.MemberSubscribed: member_subscribed,
    ce.GroupEpochBumped: group_epoch_bumped,
    ce.TargetAssigned: target_assigned,
    ce.MemberReconciled: member_reconciled,
    ce.StaticMemberAway: static_member_away,
    ce.StaticConsumerReplaced: static_consumer_replaced,
    ce.RegexesResolved: regexes_resolved,
    me.GroupDowngraded: group_downgraded,
    me.ClassicMemberJoined: classic_member_joined,
    me.RejoinRequested: rejoin_requested,
    me.ClassicMemberSynced: classic_member_synced,
    e.MemberLeft: consumer_removed,
    e.MemberRemoved: consumer_removed,
    e.GroupDeleted: consumer_group_deleted,
    e.CoordinatorLoaded: consumer_group_loaded,
}
"""Events of groups of the consumer protocol."""
