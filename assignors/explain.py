"""Why an assignor dealt as it did, in words, and what moved since the last time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from regroup.assignors.cases import StepRecord
from regroup.assignors.interface import Assignments
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.java_order import utf16_order


@dataclass(frozen=True, slots=True)
class Row:
    """One member: what it kept, what is new to it, what it had and lost."""

    member: str
    kept: tuple[TopicPartition, ...]
    gained: tuple[TopicPartition, ...]
    lost: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """One rebalance, explained: sentences before the table, its rows, sentences after it."""

    why: tuple[str, ...]
    rows: tuple[Row, ...]
    moved: tuple[str, ...]


def explain(assignor: str, step: StepRecord, assignments: Assignments, previous: Assignments) -> Explanation:
    """Explain what the assignor did in this rebalance; `previous` is the one before, of a sequence, or empty."""
    before = {member.id: member.had() for member in step.members}
    return Explanation(
        why=tuple(_why(assignor, step)),
        rows=tuple(_row(name, before[name], assignments[name]) for name in before),
        moved=tuple(_moved(assignor, step, before, assignments, previous)),
    )


def _row(name: str, had: Sequence[TopicPartition], has: Sequence[TopicPartition]) -> Row:
    had_set, has_set = frozenset(had), frozenset(has)
    return Row(
        name,
        kept=tuple(each for each in has if each in had_set),
        gained=tuple(each for each in has if each not in had_set),
        lost=tuple(each for each in had if each not in has_set),
    )


def _why(assignor: str, step: StepRecord) -> list[str]:
    topics = _dealt_topics(step)
    total, members = sum(topics.values()), len(step.members)
    alike = len({frozenset(member.topics) for member in step.members}) <= 1
    skipped = sorted({topic for member in step.members for topic in member.topics} - topics.keys(), key=utf16_order)
    sentences = [f"{assignor} deals {total} partitions of {len(topics)} topics to {members} members."]
    if skipped and not assignor.startswith("server-"):
        sentences.append(f"Skipped, because they have no partitions: {', '.join(skipped)}.")
    if assignor.endswith("range"):
        sentences += _why_range(step, topics)
    elif assignor == "roundrobin":
        sentences.append("All partitions stand in one row, and the members take from it in turn, static ones first.")
        sentences.append("A member that is not subscribed to a topic is passed over.")
    elif alike and assignor != "sticky-before-2.6":
        sentences += _why_quota(total, members)
    else:
        sentences += _why_search(assignor, alike)
    if step.racks and any(member.rack for member in step.members) and not assignor.startswith("server-"):
        sentences.append("Racks come first where that costs no balance: a partition goes where a replica is near.")
    return sentences


def _why_range(step: StepRecord, topics: Mapping[str, int]) -> list[str]:
    sentences = ["Every topic is cut by itself, so what is left over always falls to the same first members:"]
    for topic, count in topics.items():
        subscribers = sum(topic in member.topics for member in step.members)
        share, larger = divmod(count, subscribers)
        more = f", and one more for the first {larger}" if larger else ""
        sentences.append(f"  {topic}: {count} partitions for {subscribers} subscribers are {share} each{more}.")
    return sentences


def _why_quota(total: int, members: int) -> list[str]:
    quota, larger = divmod(total, max(members, 1))
    more = f", and {larger} of them may have one more" if larger else ""
    return [
        f"All subscribe alike, so there is a quota: {quota} partitions for each member{more}.",
        "A member keeps what it had up to that; the rest goes round among those that have too few.",
    ]


def _why_search(assignor: str, alike: bool) -> list[str]:
    reason = "This is the older sticky, which knows no quotas" if alike else "Subscriptions differ"
    last = "topic by topic" if assignor.startswith("server-") else "one by one"
    return [
        f"{reason}, so every member first keeps what it may, and each free partition goes to the subscriber with the "
        "fewest.",
        f"Then partitions move, {last}, from members with more to members that have at least two fewer.",
    ]


def _dealt_topics(step: StepRecord) -> dict[str, int]:
    subscribed = {topic for member in step.members for topic in member.topics}
    known = {topic: count for topic, count in step.partitions_per_topic.items() if count and topic in subscribed}
    return dict(sorted(known.items(), key=lambda item: utf16_order(item[0])))


def _moved(
    assignor: str,
    step: StepRecord,
    before: Mapping[str, Sequence[TopicPartition]],
    assignments: Assignments,
    previous: Assignments,
) -> list[str]:
    gone = {each: f"{name}, who left," for name, had in previous.items() if name not in before for each in had}
    held_by = {each: name for name, partitions in before.items() for each in partitions}
    held_by = gone | held_by
    goes_to = {each: name for name, partitions in assignments.items() for each in partitions}
    if not held_by:
        return ["Nobody had anything before."]
    moved = [each for each, name in goes_to.items() if held_by.get(each, name) != name]
    free = [each for each in goes_to if each not in held_by]
    stayed = sum(held_by.get(each) == name for each, name in goes_to.items())
    sentences = [f"{stayed} partitions stay, {len(moved)} move, {len(free)} were nobody's."]
    sentences += [f"  {each.topic}-{each.partition}: from {held_by[each]} to {goes_to[each]}" for each in sorted(moved)]
    existing = {TopicPartition(topic, each) for topic, count in _dealt_topics(step).items() for each in range(count)}
    waiting = sorted(existing - goes_to.keys()) if assignor == "cooperative-sticky" else []
    sentences += [
        f"  {each.topic}-{each.partition}: withheld, {held_by.get(each, 'its owner')} must give it up first; "
        "it is given out in the next rebalance"
        for each in waiting
    ]
    return sentences
