"""The patterns of a group: when the broker is to search the topics for them, and what follows from the result.

The search is not a part of a heartbeat. The broker runs it after the response, and submits ResolveRegexes.
"""

from typing import Final

from regroup.coordinator.consumer.commands import ResolveRegexes
from regroup.coordinator.consumer.events import GroupEpochBumped, RegexesResolved
from regroup.coordinator.consumer.evolve_group import consumer_of
from regroup.coordinator.consumer_group import ResolvedRegex
from regroup.coordinator.decision import Decision, DecisionBuilder
from regroup.coordinator.group import Group
from regroup.coordinator.topics import TopicsImage

MIN_REFRESH_INTERVAL_MS: Final = 10_000
"""The least time between two searches for one group (Kafka's constant)."""


def last_search_ms(group: Group) -> int | None:
    """When the topics were searched last for a pattern that the group still has; None if it has no resolved one."""
    resolved = group.consumer.resolved_regexes.values() if group.consumer else ()
    return max((each.resolved_at_ms for each in resolved), default=None)


def regexes_to_resolve(
    group: Group, topics: TopicsImage, at_ms: int, refresh_interval_ms: int, searched_before_ms: int | None = None
) -> tuple[str, ...]:
    """The patterns for which the broker has to search the topics after a heartbeat: all patterns of the group, or none.

    A search is due if some pattern has no result yet, if topics were created since the last search, or if that was
    longer ago than `refresh_interval_ms`. `searched_before_ms` is the time of the last search as the group had it
    before the heartbeat. As in Kafka, a new pattern that replaces the group's only one waits for the interval in this
    heartbeat, and not in the next.
    """
    consumer = group.consumer
    if consumer is None or not consumer.regex_subscriptions:
        return ()
    resolved = consumer.resolved_regexes.values()
    last_ms = last_search_ms(group)
    for searched_ms in (last_ms, searched_before_ms):
        if searched_ms is not None and at_ms - searched_ms <= MIN_REFRESH_INTERVAL_MS:
            return ()
    has_unresolved = len(resolved) < len(consumer.regex_subscriptions)
    are_topics_newer = any(topics.version > each.topics_version for each in resolved)
    is_old = last_ms is not None and at_ms - last_ms > refresh_interval_ms
    return tuple(consumer.regex_subscriptions) if has_unresolved or are_topics_newer or is_old else ()


def resolve_regexes(decision: DecisionBuilder, command: ResolveRegexes) -> Decision:
    """Store the found topics of those patterns that members still have. Members get changed assignments with their next
    heartbeats."""
    before = decision.group.consumer
    if before is None:
        return decision.build()
    resolved = {
        regex: ResolvedRegex(topics, decision.at_ms, command.topics.version)
        for regex, topics in command.resolved.items()
        if regex in before.regex_subscriptions
    }
    if not resolved:
        return decision.build()
    decision.apply(RegexesResolved, resolved=resolved)
    consumer = consumer_of(decision.group)
    found = {regex: each.topics for regex, each in before.resolved_regexes.items()}
    have_changed = any(found.get(regex, ()) != each.topics for regex, each in resolved.items())
    metadata_hash = command.topics.metadata_hash(consumer.subscribed_topics)
    if have_changed or metadata_hash != consumer.metadata_hash:
        decision.apply(
            GroupEpochBumped,
            group_epoch=consumer.group_epoch + 1,
            metadata_hash=metadata_hash,
            hashed_topics=consumer.subscribed_topics,
            reason="patterns match other topics",
        )
    return decision.build()
