"""When the topics are searched for the patterns of a group (KIP-848), and when that leads to a new group epoch.

searches = PatternSearches(settings)
searches.on_search(exchange)                  # the broker has compared the patterns of a group with the topics
searches.on_heartbeat(exchange, now_ms)       # what is wrong if such a search is overdue, or None
searches.on_load(group_id)                    # another coordinator has the group
"""

from dataclasses import dataclass
from typing import Final

from regroup.coordinator.consumer.commands import ConsumerGroupHeartbeat, ResolveRegexes
from regroup.coordinator.consumer_group import TopicId
from regroup.coordinator.settings import CoordinatorSettings
from regroup.lab.checker.exchanges import ObservedExchange

SEARCHES_IN_TIME: Final = (
    "The topics are searched for the patterns of a group once heartbeats come more than 10 s after the last search, "
    "after three of them and 1 s at the latest, if a pattern has no result or a topic was created since, or if "
    "group.consumer.regex.refresh.interval.ms has passed."
)
SEARCH_INTERVAL_MS: Final = 10_000
"""How long a group is left alone after a search, as in Kafka."""
SEARCH_MS: Final = 1_000
"""How long a search may take."""
HEARTBEATS: Final = 3
"""How many heartbeats must have found a search due: the response to the first may leave just before a broker stalls."""


@dataclass(frozen=True, slots=True)
class _Search:
    """A search of the topics, by the clock of its coordinator, and which topics there were."""

    at_ms: int
    topics: frozenset[TopicId]


class PatternSearches:
    """The last search for the patterns of each group, and since when the next one is due, by group id."""

    def __init__(self, settings: CoordinatorSettings) -> None:
        self._refresh_interval_ms = settings.group_consumer_regex_refresh_interval_ms
        self._last: dict[str, _Search] = {}
        self._due: dict[str, tuple[int, int]] = {}
        """When a heartbeat first found a search due, by the clock of the run, and how many heartbeats have."""

    def on_load(self, group_id: str) -> None:
        """Forget a group that another coordinator has loaded, or the same one again: its clock may be another."""
        self._last.pop(group_id, None)
        self._due.pop(group_id, None)

    def on_search(self, exchange: ObservedExchange) -> None:
        """Note that the broker has searched the topics for the patterns of a group."""
        assert isinstance(exchange.command, ResolveRegexes)
        self._due.pop(exchange.group_id, None)
        self._last[exchange.group_id] = _Search(exchange.received_ms, frozenset(exchange.command.topics.by_id))

    def on_heartbeat(self, exchange: ObservedExchange, now_ms: int) -> str | None:
        """Check that an accepted heartbeat, whose response leaves now, does not find a search overdue."""
        group_id = exchange.group_id
        if (reason := self._reason_to_search(exchange)) is None:
            self._due.pop(group_id, None)
            return None
        since_ms, count = self._due.get(group_id, (now_ms, 0))
        self._due[group_id] = since_ms, count + 1
        if count + 1 < HEARTBEATS or now_ms - since_ms <= SEARCH_MS:
            return None
        del self._due[group_id]
        return f"{reason}, and {count + 1} heartbeats in {now_ms - since_ms} ms have led to no search"

    def _reason_to_search(self, exchange: ObservedExchange) -> str | None:
        """Why a search is due when this heartbeat has been answered; None if none is, or if that is not known."""
        command, consumer, last = exchange.command, exchange.after.consumer, self._last.get(exchange.group_id)
        assert isinstance(command, ConsumerGroupHeartbeat)
        if consumer is None or not consumer.regex_subscriptions:
            return None
        if last is None and consumer.resolved_regexes:
            return None
        if last is not None and exchange.received_ms - last.at_ms <= SEARCH_INTERVAL_MS:
            return None
        if missing := [each for each in consumer.regex_subscriptions if each not in consumer.resolved_regexes]:
            return f"the pattern {missing[0]} has no result"
        if last is None:
            return None
        if created := [each.name for key, each in command.topics.by_id.items() if key not in last.topics]:
            return f"the topic {created[0]} is new"
        age_ms = exchange.received_ms - last.at_ms
        return f"the last search is {age_ms} ms ago" if age_ms > self._refresh_interval_ms else None


def an_epoch_follows_what_patterns_match(state: object, exchange: ObservedExchange) -> str | None:
    """A search for patterns leads to a new group epoch only if a pattern matches other topics or a topic has changed.

    In that case it always does.
    """
    before, after = exchange.before.consumer, exchange.after.consumer
    if before is None or after is None:
        return None
    matched = {regex: each.topics for regex, each in before.resolved_regexes.items()}
    others = [regex for regex, each in after.resolved_regexes.items() if each.topics != matched.get(regex, ())]
    is_due = bool(others) or before.metadata_hash != after.metadata_hash
    if (after.group_epoch != before.group_epoch) == is_due:
        return None
    found = f"other topics match {', '.join(others)}" if others else "the patterns match what they matched"
    return f"{found}, and the group epoch is {after.group_epoch} after {before.group_epoch}"
