"""Reconciliation: one step of one member towards its target (`CurrentAssignmentBuilder`).

`MOVES` is the table of a member's moves. In each state the first move counts whose condition holds; without one the
member stays as it is. A member first gives up what it must (UNREVOKED_PARTITIONS), then reaches the epoch of the
target and gets what is free, and waits for the rest (UNRELEASED_PARTITIONS).
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from regroup.coordinator.consumer_group import (
    ConsumerMember,
    PartitionEpochs,
    Partitions,
    ReconciliationState,
    TopicId,
    every_partition,
)

S = ReconciliationState


class FencedMember(Exception):
    """The member's state is unknown to this version, and it may still own partitions: it must join again."""


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """What a step rests on."""

    member: ConsumerMember
    target_epoch: int
    target: Mapping[TopicId, Collection[int]]
    """The member's share of the target."""
    subscribed: Collection[TopicId]
    """The topics to which the member subscribes, if they exist; others are struck from the target."""
    has_subscription_changed: bool
    """The request of this step has changed the member's subscription."""
    is_held_by_another: Callable[[TopicId, int], bool]
    """Whether another member has a partition, or has yet to give it up."""
    owned: Mapping[TopicId, Collection[int]] | None
    """What the member reports that it owns; None if it reports nothing, which counts as owning everything."""

    def owns_any(self, partitions: Mapping[TopicId, Iterable[int]]) -> bool:
        """Whether the member may still own one of these partitions."""
        if self.owned is None:
            return any(True for _ in every_partition(partitions))
        return any(
            not frozenset(self.owned.get(topic_id, ())).isdisjoint(each) for topic_id, each in partitions.items()
        )

    def step(self) -> ConsumerMember:
        """The member after the step, perhaps the same. Raises FencedMember."""
        return next((move(self) for condition, move in MOVES[self.member.state] if condition(self)), self.member)


# Conditions


def always(step: Reconciliation) -> bool:
    return True


def target_is_newer(step: Reconciliation) -> bool:
    """The target is not the one that the member has reached."""
    return step.member.epoch != step.target_epoch


def subscription_changed(step: Reconciliation) -> bool:
    return step.has_subscription_changed


def still_owns(step: Reconciliation) -> bool:
    """The member has not given up all that it was asked to."""
    return step.owns_any(step.member.pending_revocation)


def still_owns_and_subscription_changed(step: Reconciliation) -> bool:
    return step.has_subscription_changed and still_owns(step)


def owns_nothing(step: Reconciliation) -> bool:
    """The member reports that it owns nothing."""
    return step.owned is not None and not any(True for _ in every_partition(step.owned))


# Moves


def stay(step: Reconciliation) -> ConsumerMember:
    return step.member


def fence(step: Reconciliation) -> ConsumerMember:
    raise FencedMember


def approach_target(step: Reconciliation) -> ConsumerMember:
    """Give up what is not in the target, or else reach its epoch with all of it that is free."""
    return approach_target_from(step, step.member.epoch)


def begin_at_target(step: Reconciliation) -> ConsumerMember:
    """The same for a member whose epoch means nothing."""
    return approach_target_from(step, step.target_epoch)


def approach_target_from(step: Reconciliation, epoch: int) -> ConsumerMember:
    member, subscribed = step.member, frozenset(step.subscribed)
    target = {topic_id: frozenset(indexes) for topic_id, indexes in step.target.items() if topic_id in subscribed}
    kept = selected(member.assigned, lambda topic_id, index: index in target.get(topic_id, ()))
    revoked = selected(member.assigned, lambda topic_id, index: index not in target.get(topic_id, ()))
    if revoked and step.owns_any(revoked):
        return after_step(member, S.UNREVOKED_PARTITIONS, epoch, kept, revoked)
    wanted = [each for each in every_partition(target) if each[1] not in kept.get(each[0], {})]
    blocked = [each for each in wanted if step.is_held_by_another(*each)]
    waiting = frozenset(blocked)
    assigned = with_partitions(kept, (each for each in wanted if each not in waiting), step.target_epoch)
    state = S.UNRELEASED_PARTITIONS if blocked else S.STABLE
    return after_step(member, state, step.target_epoch, assigned, {})


def drop_unsubscribed_topics(step: Reconciliation) -> ConsumerMember:
    """Partitions of topics that the member has just unsubscribed go at once, before there is a new target."""
    member, subscribed = step.member, frozenset(step.subscribed)
    gone = selected(member.assigned, lambda topic_id, _: topic_id not in subscribed)
    if not gone:
        return member
    kept = selected(member.assigned, lambda topic_id, _: topic_id in subscribed)
    pending = merged(member.pending_revocation, gone)
    if step.owns_any(pending):
        return after_step(member, S.UNREVOKED_PARTITIONS, member.epoch, kept, pending)
    return after_step(member, member.state, member.epoch, kept, member.pending_revocation)


MOVES: Final[
    dict[S, tuple[tuple[Callable[[Reconciliation], bool], Callable[[Reconciliation], ConsumerMember]], ...]]
] = {
    S.STABLE: ((target_is_newer, approach_target), (subscription_changed, drop_unsubscribed_topics)),
    S.UNREVOKED_PARTITIONS: (
        (still_owns_and_subscription_changed, drop_unsubscribed_topics),
        (still_owns, stay),  # also if the target has turned back: a revocation is not called off
        (always, approach_target),
    ),
    S.UNRELEASED_PARTITIONS: ((always, approach_target),),
    S.UNKNOWN: ((owns_nothing, begin_at_target), (always, fence)),
}


# Partitions


def after_step(
    member: ConsumerMember,
    state: S,
    epoch: int,
    assigned: PartitionEpochs,
    pending_revocation: PartitionEpochs,
) -> ConsumerMember:
    """The previous epoch is the present one, also where the epoch does not move."""
    return replace(
        member,
        state=state,
        epoch=epoch,
        previous_epoch=member.epoch,
        assigned=assigned,
        pending_revocation=pending_revocation,
    )


def selected(partitions: PartitionEpochs, condition: Callable[[TopicId, int], bool]) -> PartitionEpochs:
    """The partitions that meet a condition, without topics that have none."""
    chosen = {
        topic_id: {index: epoch for index, epoch in epochs.items() if condition(topic_id, index)}
        for topic_id, epochs in partitions.items()
    }
    return {topic_id: epochs for topic_id, epochs in chosen.items() if epochs}


def with_partitions(partitions: PartitionEpochs, added: Iterable[tuple[TopicId, int]], epoch: int) -> PartitionEpochs:
    """The partitions and others that are assigned at an epoch."""
    by_topic: dict[TopicId, dict[int, int]] = {}
    for topic_id, index in added:
        by_topic.setdefault(topic_id, {})[index] = epoch
    return merged(partitions, by_topic)


def merged(partitions: PartitionEpochs, added: PartitionEpochs) -> PartitionEpochs:
    """All partitions of both, in order of topic and index."""
    topic_ids = sorted({*partitions, *added})
    return {
        topic_id: dict(sorted({**partitions.get(topic_id, {}), **added.get(topic_id, {})}.items()))
        for topic_id in topic_ids
    }


def as_partitions(epochs: PartitionEpochs) -> Partitions:
    """The partitions without their epochs, sorted."""
    return {topic_id: tuple(sorted(epochs[topic_id])) for topic_id in sorted(epochs)}
