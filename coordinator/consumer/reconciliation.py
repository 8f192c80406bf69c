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
    """Raised for a member whose reconciliation state is unknown to this version. It may still own partitions, so it
    must join again."""


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """What one step of a member depends on: the member, its share of the target, and what it owns."""

    member: ConsumerMember
    target_epoch: int
    target: Mapping[TopicId, Collection[int]]
    """The member's share of the target assignment."""
    subscribed: Collection[TopicId]
    """The topics to which the member subscribes and which exist; other topics are left out of its target."""
    has_subscription_changed: bool
    """Whether the request of this step has changed the member's subscription."""
    is_held_by_another: Callable[[TopicId, int], bool]
    """Whether another member has a partition, or has not yet given it up."""
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
        """The member after the step, unchanged if no move applies. Raises FencedMember."""
        return next((move(self) for condition, move in MOVES[self.member.state] if condition(self)), self.member)


# Conditions


def always(step: Reconciliation) -> bool:
    return True


def target_is_newer(step: Reconciliation) -> bool:
    """Whether the target is newer than the one that the member has reached."""
    return step.member.epoch != step.target_epoch


def subscription_changed(step: Reconciliation) -> bool:
    return step.has_subscription_changed


def still_owns(step: Reconciliation) -> bool:
    """Whether the member has not given up all partitions that it was asked to give up."""
    return step.owns_any(step.member.pending_revocation)


def still_owns_and_subscription_changed(step: Reconciliation) -> bool:
    return step.has_subscription_changed and still_owns(step)


def owns_nothing(step: Reconciliation) -> bool:
    """Whether the member reports that it owns nothing."""
    return step.owned is not None and not any(True for _ in every_partition(step.owned))


# Moves


def stay(step: Reconciliation) -> ConsumerMember:
    return step.member


def fence(step: Reconciliation) -> ConsumerMember:
    raise FencedMember


def approach_target(step: Reconciliation) -> ConsumerMember:
    """The member after a move: if it still owns partitions that are not in the target, it is asked to give them up.
    Otherwise it reaches the epoch of the target and gets the partitions that are free."""
    return approach_target_from(step, step.member.epoch)


def begin_at_target(step: Reconciliation) -> ConsumerMember:
    """As `approach_target`, but with the epoch of the target in place of the member's, also if the member has to give
    up partitions first."""
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
    """The member without partitions of topics from which it has just unsubscribed. It is asked to give them up at once,
    before a new target is computed."""
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
    """The member with the results of a step. Its previous epoch becomes the present one, also if the epoch does not
    change."""
    return replace(
        member,
        state=state,
        epoch=epoch,
        previous_epoch=member.epoch,
        assigned=assigned,
        pending_revocation=pending_revocation,
    )


def selected(partitions: PartitionEpochs, condition: Callable[[TopicId, int], bool]) -> PartitionEpochs:
    """The partitions for which the condition is True; topics without any are left out."""
    chosen = {
        topic_id: {index: epoch for index, epoch in epochs.items() if condition(topic_id, index)}
        for topic_id, epochs in partitions.items()
    }
    return {topic_id: epochs for topic_id, epochs in chosen.items() if epochs}


def with_partitions(partitions: PartitionEpochs, added: Iterable[tuple[TopicId, int]], epoch: int) -> PartitionEpochs:
    """The partitions, and `added` ones with this assignment epoch."""
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
    """The partitions as sorted indexes by topic, without their epochs."""
    return {topic_id: tuple(sorted(epochs[topic_id])) for topic_id in sorted(epochs)}
