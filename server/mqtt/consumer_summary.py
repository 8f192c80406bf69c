"""What the summaries of groups of the consumer protocol add: epochs, the latest reconciliation, and partitions."""

from typing import Final

import msgspec

from regroup.coordinator.consumer.evolve_group import consumer_of
from regroup.coordinator.consumer.targets import elected_assignor
from regroup.coordinator.consumer_group import (
    ConsumerGroup,
    ConsumerGroupState,
    ConsumerMember,
    PartitionEpochs,
    ReconciliationState,
)
from regroup.coordinator.group import Group
from regroup.coordinator.topics import TopicsImage

MAX_LISTED_PARTITIONS: Final = 20_000
"""How many partitions one summary lists; of members after them it has the counts alone."""
ENDED: Final = (ConsumerGroupState.STABLE, ConsumerGroupState.EMPTY)


class ReconciliationSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The reconciliation of the present group epoch. A reconciliation that was incomplete when the group epoch rose
    again is no longer shown."""

    group_epoch: int
    began_at_ms: int
    """When the group epoch was bumped, in epoch milliseconds."""
    ended_at_ms: int | None
    """When every member had reached the target, or the last one was gone; None until then. A static member that
    returns has to reach it again."""
    members_behind: int
    """How many members have not reached it."""


class ConsumerState(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a group's summary that only groups of the consumer protocol have."""

    group_epoch: int
    assignment_epoch: int
    assignor: str | None
    """The assignor that the members elect; None without members."""
    reconciliation: ReconciliationSummary | None
    """None before the first member has subscribed."""


class ReconcilingMember(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far a member's assignment has approached the target that the coordinator computed for it."""

    member_epoch: int
    """-2 while a static member is away."""
    state: ReconciliationState
    is_classic: bool = False
    """Whether it uses the classic protocol, in a group that is being migrated."""
    assigned_count: int
    pending_count: int = 0
    assigned: dict[str, list[int]] | None = None
    """The partitions that it may use, by topic; None if the summary lists as many of others already."""
    pending_revocation: dict[str, list[int]] | None = None
    """The partitions that it has to give up and may still own; None as `assigned`, and if there are none."""
    removal_deadline_ms: int | None = None
    """When it is removed unless it has given them up, or, with the classic protocol, has joined or synced; in epoch
    milliseconds. Its session timeout runs besides."""


def consumer_state(group: Group) -> ConsumerState:
    """The part of the summary that only a group of the consumer protocol has. Raises ValueError for a classic group."""
    consumer = consumer_of(group)
    return ConsumerState(
        group_epoch=consumer.group_epoch,
        assignment_epoch=consumer.assignment_epoch,
        assignor=elected_assignor(consumer) if consumer.members else None,
        reconciliation=_reconciliation(consumer, group.state_since_ms) if consumer.bumped_at_ms else None,
    )


def _reconciliation(consumer: ConsumerGroup, state_since_ms: int) -> ReconciliationSummary:
    is_assigning = consumer.state is ConsumerGroupState.ASSIGNING
    return ReconciliationSummary(
        group_epoch=consumer.group_epoch,
        began_at_ms=consumer.bumped_at_ms,
        ended_at_ms=max(state_since_ms, consumer.bumped_at_ms) if consumer.state in ENDED else None,
        members_behind=len(consumer.members) if is_assigning else consumer.behind_target,
    )


class PartitionBudget:
    """Makes the entries of the members in one group's summary. The entries list partitions until MAX_LISTED_PARTITIONS
    are reached; later entries have only their numbers."""

    def __init__(self, topics: TopicsImage) -> None:
        self._topics = topics
        self._left = MAX_LISTED_PARTITIONS

    def member(self, member: ConsumerMember) -> ReconcilingMember:
        assigned_count, pending_count = count(member.assigned), count(member.pending_revocation)
        self._left -= assigned_count + pending_count
        is_listed = self._left >= 0
        deadlines = (member.revocation_deadline_ms, member.join_deadline_ms, member.sync_deadline_ms)
        return ReconcilingMember(
            member_epoch=member.epoch,
            state=member.state,
            is_classic=member.is_classic,
            assigned_count=assigned_count,
            pending_count=pending_count,
            assigned=self._named(member.assigned) if is_listed else None,
            pending_revocation=self._named(member.pending_revocation) if is_listed and pending_count else None,
            removal_deadline_ms=min((each for each in deadlines if each is not None), default=None),
        )

    def _named(self, partitions: PartitionEpochs) -> dict[str, list[int]]:
        """The partition indexes by topic name; a topic that has been deleted is given by its id instead."""
        return {self._name_of(topic_id): sorted(indexes) for topic_id, indexes in partitions.items()}

    def _name_of(self, topic_id: str) -> str:
        topic = self._topics.by_id.get(topic_id)
        return topic.name if topic else topic_id


def count(partitions: PartitionEpochs) -> int:
    """The number of partitions in a mapping from topic ids to partitions."""
    return sum(map(len, partitions.values()))
