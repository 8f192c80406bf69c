"""Bugs in the fold of events, which the coordinator and the lab's second state have in common; and bugs in offsets."""

from typing import Any

from msgspec.structs import replace

from regroup.coordinator import evolve
from regroup.coordinator.classic import evolve_group
from regroup.coordinator.classic.offset_rules import ClassicOffsetRules
from regroup.coordinator.events import GroupEmptied, JoinPhaseExtended, RebalanceStarted, TransactionEnded
from regroup.coordinator.group import CommittedOffset, Group, GroupState
from regroup.coordinator.offsets import commits, evolve_offsets
from regroup.coordinator.runtime.group_coordinator import GroupCoordinator
from regroup.lab.planted_bugs.bug import BugContext, patch_attribute, patch_evolver, planted_bug


@planted_bug
def fold_keeps_the_newcomers() -> BugContext:
    """The fold of an extended initial delay keeps the note that members have joined in it."""

    def extended(group: Group, event: JoinPhaseExtended) -> Group:
        return replace(evolve_group.join_phase_extended(group, event), new_member_added=group.new_member_added)

    return patch_evolver(JoinPhaseExtended, extended)


@planted_bug
def fold_drops_assignments_of_a_stable_group() -> BugContext:
    """The fold of a rebalance that begins in Stable drops the assignments, which DescribeGroups has to show."""

    def started(group: Group, event: RebalanceStarted) -> Group:
        after = evolve_group.rebalance_started(group, event)
        members = {each: replace(member, assignment=b"") for each, member in after.members.items()}
        return replace(after, members=members)

    return patch_evolver(RebalanceStarted, started)


@planted_bug
def fold_keeps_the_protocol_of_an_empty_group() -> BugContext:
    """The fold of a group that becomes Empty keeps the assignor of its last generation."""

    def emptied(group: Group, event: GroupEmptied) -> Group:
        return replace(evolve_group.group_emptied(group, event), protocol_name=group.protocol_name)

    return patch_evolver(GroupEmptied, emptied)


@planted_bug
def fold_dates_an_empty_group_back() -> BugContext:
    """The fold of a group that becomes Empty says that it has been so for 50 s: its offsets expire too early."""

    def replaced(group: Group, **changes: Any) -> Group:
        if "state_since_ms" in changes and group.state is GroupState.EMPTY:
            changes["state_since_ms"] -= 50_000
        return replace(group, **changes)

    return patch_attribute(evolve, "replace", replaced)


@planted_bug
def fold_commits_aborted_transactions() -> BugContext:
    """The fold of a transaction's end commits its offsets, also if it was aborted."""

    def ended(group: Group, event: TransactionEnded) -> Group:
        return evolve_offsets.transaction_ended(group, replace(event, committed=True))

    return patch_evolver(TransactionEnded, ended)


@planted_bug
def fetch_returns_one_offset_less() -> BugContext:
    """OffsetFetch returns the offset of the last processed record, not of the next one."""
    right = commits.fetched_partition

    def fetched_partition(index: int, offset: CommittedOffset, *code: Any) -> Any:
        return right(index, replace(offset, offset=offset.offset - 1) if offset.offset > 0 else offset, *code)

    return patch_attribute(commits, "fetched_partition", fetched_partition)


@planted_bug
def offsets_of_subscribed_topics_expire() -> BugContext:
    """Offsets of a Stable group expire, although its members subscribe to their topics."""
    right = ClassicOffsetRules.retention_starts_ms

    def retention_starts_ms(rules: ClassicOffsetRules, group: Group, topic: str, offset: CommittedOffset) -> int | None:
        found = right(rules, group, topic, offset)
        return offset.committed_at_ms if found is None else found

    return patch_attribute(ClassicOffsetRules, "retention_starts_ms", retention_starts_ms)


@planted_bug
def offsets_never_expire() -> BugContext:
    """Offsets are kept for ever, however long their group has been Empty."""
    return patch_attribute(commits, "is_expired", lambda decision, rules, topic, offset: False)


@planted_bug
def retention_is_checked_once() -> BugContext:
    """A coordinator looks for expired offsets once after it has loaded its groups, and not again."""
    right = GroupCoordinator._schedule_retention

    def schedule(coordinator: GroupCoordinator) -> None:
        if coordinator._retention_timer is None or coordinator._retention_timer.cancelled():
            right(coordinator)

    return patch_attribute(GroupCoordinator, "_schedule_retention", schedule)
