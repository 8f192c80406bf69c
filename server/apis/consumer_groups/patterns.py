"""The search for topics that match the patterns (regular expressions) to which groups subscribe. It runs after the
response to a heartbeat, or to the JoinGroup of a classic member.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from regroup.coordinator.consumer.commands import ResolveRegexes
from regroup.coordinator.consumer.regexes import last_search_ms, regexes_to_resolve
from regroup.coordinator.runtime.logger import get_logger
from regroup.coordinator.serialization import Cause
from regroup.server.apis.transaction_lists import CompiledPattern, InvalidPattern, compile_pattern
from regroup.server.cluster.group_router import BrokerGroups
from regroup.server.cluster.state import ClusterState
from regroup.server.net.turns import TurnQueue, Turns

_CHARACTERS_PER_STEP: Final = 2
"""Characters of a pattern that are compiled in one step."""

_SEARCH = Cause(internal="the search for topics that match patterns")


class PatternSearch:
    """Searches for the topics that match the patterns of a group, in turns with other work. A group has one search at a
    time."""

    def __init__(self, state: ClusterState, groups: BrokerGroups, turns: TurnQueue) -> None:
        self._state = state
        self._groups = groups
        self._turns = turns
        self._searched: dict[str, None] = {}
        """Ids of the groups for which a search is running; a group has at most one search at a time. Used as an ordered
        set."""

    def error_of(self, group_id: str, regex: str) -> str | None:
        """Why `regex` is not a valid pattern, as text; None if it is valid. A pattern that the group has already is not
        compiled again."""
        consumer = self._groups.group(group_id).consumer
        if consumer is not None and regex in consumer.regex_subscriptions:
            return None
        try:
            compile_pattern(regex)
        except InvalidPattern as error:
            return str(error)
        return None

    def searched_ms(self, group_id: str) -> int | None:
        """When the topics were searched last for a pattern that the group has; None if none is resolved."""
        return last_search_ms(self._groups.group(group_id))

    def prepare(self, group_id: str) -> Callable[[], None]:
        """Return `search_if_due` of the group, to be called after the response to a request that is handled now."""
        return partial(self.search_if_due, group_id, self.searched_ms(group_id))

    def search_if_due(self, group_id: str, searched_before_ms: int | None = None) -> None:
        """Begin a search if the group has patterns that must be compared with the topics now. `searched_before_ms` is
        the result of `searched_ms` before the request that led to this call."""
        group = self._groups.group(group_id)
        if group.consumer is None or not group.consumer.regex_subscriptions or group_id in self._searched:
            return
        interval_ms = self._groups.settings.group_consumer_regex_refresh_interval_ms
        now_ms, topics = self._state.now_ms(), self._state.topics_image
        regexes = regexes_to_resolve(group, topics, now_ms, interval_ms, searched_before_ms)
        if regexes:
            self._searched[group_id] = None
            self._turns.run(self._search(group_id, regexes), self._fail)

    def _search(self, group_id: str, regexes: tuple[str, ...]) -> Turns:
        """Compare the patterns with all topics that exist when the search begins, in turns, and submit the result as
        ResolveRegexes."""
        topics, found = self._state.topics_image, dict[str, tuple[str, ...]]()
        names = sorted(topics.by_name)
        try:
            for regex in regexes:
                compiled = compiled_or_none(regex)
                yield 1 + len(regex) // _CHARACTERS_PER_STEP
                matches = []
                for name in names if compiled else ():
                    if compiled and compiled.matches(name):
                        matches.append(name)
                    yield 1 + (compiled.steps_of_match(name) if compiled else 0)
                found[regex] = tuple(matches)
        finally:
            self._searched.pop(group_id, None)
        command = ResolveRegexes(group_id=group_id, at_ms=self._state.now_ms(), resolved=found, topics=topics)
        self._groups.submit(command, None, _SEARCH)

    def _fail(self, error: Exception) -> None:
        get_logger("consumer-groups").error("search for patterns failed", error=repr(error))


def compiled_or_none(regex: str) -> CompiledPattern | None:
    """The compiled pattern, or None if this machine cannot compile it, so that it matches no topic. A store that
    another machine has written may hold such a pattern."""
    try:
        return compile_pattern(regex)
    except InvalidPattern:
        return None
