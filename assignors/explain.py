"""Explains an assignment in words: why the assignor chose it, and which partitions moved."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from regroup.assignors.cases import CaseStep
from regroup.assignors.interface import Assignments
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.java_order import utf16_order


@dataclass(frozen=True, slots=True)
class MemberChange:
    """The partitions of one member that it kept, gained and lost in a rebalance."""

    member: str
    kept: tuple[TopicPartition, ...]
    gained: tuple[TopicPartition, ...]
    lost: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class AssignmentExplanation:
    """The explanation of one rebalance: sentences, then a table with a row for each member, then further sentences."""

    reasons: tuple[str, ...]
    rows: tuple[MemberChange, ...]
    movements: tuple[str, ...]


def explain_assignment(
    assignor: str, step: CaseStep, assignments: Assignments, previous: Assignments
) -> AssignmentExplanation:
    """Explain the result of an assignor; `previous` is the result of the rebalance before in a sequence, or empty."""
    before = {member.id: member.previous_partitions() for member in step.members}
    return AssignmentExplanation(
        reasons=tuple(_reasons(assignor, step)),
        rows=tuple(_row(name, before[name], assignments[name]) for name in before),
        movements=tuple(_movements(assignor, step, before, assignments, previous)),
    )


def _row(name: str, before: Sequence[TopicPartition], after: Sequence[TopicPartition]) -> MemberChange:
    before_set, after_set = frozenset(before), frozenset(after)
    return MemberChange(
        name,
        kept=tuple(each for each in after if each in before_set),
        gained=tuple(each for each in after if each not in before_set),
        lost=tuple(each for each in before if each not in after_set),
    )


def _reasons(assignor: str, step: CaseStep) -> list[str]:
    topics = _assigned_topics(step)
    total, members = sum(topics.values()), len(step.members)
    all_equal = len({frozenset(member.topics) for member in step.members}) <= 1
    ignored = sorted({topic for member in step.members for topic in member.topics} - topics.keys(), key=utf16_order)
    what = f"{_counted(total, 'partition')} of {_counted(len(topics), 'topic')}"
    sentences = [f"{assignor} assigns {what} to {_counted(members, 'member')}."]
    if ignored and not assignor.startswith("server-"):
        sentences.append(f"Ignored, because they have no partitions: {', '.join(ignored)}.")
    if assignor.endswith("range"):
        sentences += _range_reasons(step, topics)
    elif assignor == "roundrobin":
        sentences.append("The partitions of all topics are assigned to the members in turn, static members first.")
        sentences.append("A member that is not subscribed to a topic is skipped.")
    elif all_equal and assignor != "sticky-before-2.6":
        quota, larger = divmod(total, max(members, 1))
        more = f", and {larger} of them may have one more" if larger else ""
        sentences.append(
            f"All subscriptions are equal, so there is a quota: {_counted(quota, 'partition')} for each member{more}."
        )
        sentences.append("A member keeps what it had, up to its quota; the rest goes to members below their quota.")
    else:
        reason = "This is the older sticky, which has no quotas" if all_equal else "Subscriptions differ"
        order = "topic by topic" if assignor.startswith("server-") else "one by one"
        sentences += [
            f"{reason}, so every member first keeps what it may, and each unassigned partition goes to the subscriber "
            "with the fewest.",
            f"Then partitions move, {order}, from members with more to members that have at least two fewer.",
        ]
    if step.racks and any(member.rack for member in step.members) and not assignor.startswith("server-"):
        sentences.append("Within these limits a partition goes to a member in a rack that has a replica of it.")
    return sentences


def _range_reasons(step: CaseStep, topics: Mapping[str, int]) -> list[str]:
    sentences = ["Each topic is divided separately, so the remainder always goes to the same first members:"]
    for topic, count in topics.items():
        subscribers = sum(topic in member.topics for member in step.members)
        quota, larger = divmod(count, subscribers)
        more = f", and one more for the first {larger}" if larger else ""
        sentences.append(
            f"  {topic}: {_counted(count, 'partition')} for {_counted(subscribers, 'subscriber')} are {quota} "
            f"each{more}."
        )
    return sentences


def _assigned_topics(step: CaseStep) -> dict[str, int]:
    subscribed = {topic for member in step.members for topic in member.topics}
    known = {topic: count for topic, count in step.partitions_per_topic.items() if count and topic in subscribed}
    return dict(sorted(known.items(), key=lambda item: utf16_order(item[0])))


def _movements(
    assignor: str,
    step: CaseStep,
    before: Mapping[str, Sequence[TopicPartition]],
    assignments: Assignments,
    previous: Assignments,
) -> list[str]:
    removed = {each: f"{name}, which left," for name, had in previous.items() if name not in before for each in had}
    owner_before = removed | {each: name for name, partitions in before.items() for each in partitions}
    owner_after = {each: name for name, partitions in assignments.items() for each in partitions}
    if not owner_before:
        return ["No partition had an owner before."]
    moved = [each for each, name in owner_after.items() if owner_before.get(each, name) != name]
    unowned = [each for each in owner_after if each not in owner_before]
    stayed = sum(owner_before.get(each) == name for each, name in owner_after.items())
    sentences = [f"{_counted(stayed, 'partition')} stayed, {len(moved)} moved, {len(unowned)} had no owner."]
    sentences += [
        f"  {each.topic}-{each.partition}: from {owner_before[each]} to {owner_after[each]}" for each in sorted(moved)
    ]
    existing = {TopicPartition(topic, each) for topic, count in _assigned_topics(step).items() for each in range(count)}
    withheld = sorted(existing - owner_after.keys()) if assignor == "cooperative-sticky" else []
    sentences += [
        f"  {each.topic}-{each.partition}: withheld, {owner_before.get(each, 'its owner')} must revoke it first; "
        "it is assigned in the next rebalance"
        for each in withheld
    ]
    return sentences


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
