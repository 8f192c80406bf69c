"""What the events of a group of the consumer protocol (KIP-848) say, in sentences for the replay of a lesson."""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from regroup.classroom.lessons.format.language import Language
from regroup.classroom.lessons.runs.moments import RunMoment
from regroup.classroom.lessons.runs.run import LessonRun
from regroup.coordinator import events as e
from regroup.coordinator.consumer import events as ce
from regroup.coordinator.consumer_group import ReconciliationState
from regroup.coordinator.events import Event

Sentences: TypeAlias = tuple[str, str]
"""In English and in Chinese."""


def consumer_sentence(moment: RunMoment, run: LessonRun, language: Language) -> str:
    """The sentence of an event; empty for one that a replay leaves out."""
    assert moment.event is not None
    describe = SENTENCES.get(type(moment.event.event))
    if describe is None:
        return ""
    return describe(moment.event.event, moment.member, run)[0 if language is Language.ENGLISH else 1]


def _created(event: ce.ConsumerGroupCreated, member: str, run: LessonRun) -> Sentences:
    group = run.timeline.group_id
    return (
        f"The group {group} was created by its first ConsumerGroupHeartbeat.",
        f"第一个 ConsumerGroupHeartbeat 创建了 group {group}。",
    )


def _subscribed(event: ce.MemberSubscribed, member: str, run: LessonRun) -> Sentences:
    topics = ", ".join(event.profile.subscribed_topics)
    return f"{member} subscribed to {topics}.", f"{member} 订阅了 {topics}。"


def _bumped(event: ce.GroupEpochBumped, member: str, run: LessonRun) -> Sentences:
    group = run.timeline.group_id
    return (
        f"The group epoch of {group} became {event.group_epoch}, so its target assignment was out of date.",
        f"{group} 的 group epoch 变为 {event.group_epoch}，原来的目标分配过期。",
    )


def _targeted(event: ce.TargetAssigned, member: str, run: LessonRun) -> Sentences:
    shares = {run.name_of(each): _count(partitions) for each, partitions in event.targets.items()}
    english = ", ".join(f"{number} partitions to {name}" for name, number in sorted(shares.items())) or "nothing new"
    chinese = "，".join(f"{name} {number} 个" for name, number in sorted(shares.items())) or "没有变化"
    return (
        f"The coordinator computed the target of epoch {event.assignment_epoch}: {english}.",
        f"coordinator 算出 epoch {event.assignment_epoch} 的目标分配：{chinese}。",
    )


def _reconciled(event: ce.MemberReconciled, member: str, run: LessonRun) -> Sentences:
    owned, revoked = _count(event.assigned), _count(event.pending_revocation)
    match event.state:
        case ReconciliationState.UNREVOKED_PARTITIONS:
            return (
                f"{member} has to give up {revoked} of its partitions, and stays at epoch {event.epoch} until it has.",
                f"{member} 要交出 {revoked} 个 partition，交出之前留在 epoch {event.epoch}。",
            )
        case ReconciliationState.UNRELEASED_PARTITIONS:
            return (
                f"{member} reached epoch {event.epoch} with {owned} partitions. Others of its target are still owned.",
                f"{member} 到达 epoch {event.epoch}，有 {owned} 个 partition；目标中的其余 partition 还有拥有者。",
            )
    return (
        f"{member} reached epoch {event.epoch}: it is assigned {owned} partitions.",
        f"{member} 到达 epoch {event.epoch}：分配到 {owned} 个 partition。",
    )


def _left(event: e.MemberLeft, member: str, run: LessonRun) -> Sentences:
    return f"{member} left.", f"{member} 离开。"


def _removed(event: e.MemberRemoved, member: str, run: LessonRun) -> Sentences:
    return f"{member} was removed: {event.reason.rstrip('.')}.", f"{member} 被移除（{event.reason.rstrip('.')}）。"


def _count(partitions: Mapping[Any, Any]) -> int:
    return sum(map(len, partitions.values()))


SENTENCES: Final[dict[type[Event], Callable[[Any, str, LessonRun], Sentences]]] = {
    ce.ConsumerGroupCreated: _created,
    ce.MemberSubscribed: _subscribed,
    ce.GroupEpochBumped: _bumped,
    ce.TargetAssigned: _targeted,
    ce.MemberReconciled: _reconciled,
    e.MemberLeft: _left,
    e.MemberRemoved: _removed,
}
"""The other events are about offsets, loads and patterns."""
