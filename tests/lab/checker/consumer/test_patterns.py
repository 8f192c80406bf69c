"""When a search of the topics for patterns has to lead to a new group epoch."""

from regroup.coordinator.consumer.commands import ResolveRegexes
from regroup.coordinator.consumer_group import ConsumerGroup, ResolvedRegex
from regroup.coordinator.group import Group
from regroup.coordinator.topics import NO_TOPICS
from regroup.lab.checker.consumer.patterns import an_epoch_follows_what_patterns_match
from tests.lab.checker.made_exchanges import checker_state, made_exchange

STATE = checker_state()
SEARCH = ResolveRegexes(group_id="lab", at_ms=0, resolved={}, topics=NO_TOPICS)


def group(epoch: int, metadata_hash: int = 1, **topics: tuple[str, ...]) -> Group:
    """A group with this epoch and these patterns, each with the topics that it matches."""
    resolved = {regex: ResolvedRegex(each, 0) for regex, each in topics.items()}
    consumer = ConsumerGroup(group_epoch=epoch, metadata_hash=metadata_hash, resolved_regexes=resolved)
    return Group(group_id="lab", consumer=consumer)


def found(before: Group, after: Group) -> str | None:
    return an_epoch_follows_what_patterns_match(STATE, made_exchange(SEARCH, before, after))


def test_a_pattern_that_matches_another_topic_leads_to_a_new_epoch() -> None:
    before, wider = {"a": ("x",), "b": ("x", "y")}, {"a": ("x", "y"), "b": ("x", "y")}
    assert found(group(4, **before), group(5, **wider)) is None
    assert found(group(4, **before), group(4, **wider)) == "other topics match a, and the group epoch is 4 after 4"


def test_a_search_that_finds_the_same_leaves_the_epoch() -> None:
    assert found(group(4, a=("x",)), group(4, a=("x",))) is None
    assert found(group(4, a=("x",)), group(5, a=("x",)))


def test_a_new_pattern_without_topics_leaves_the_epoch() -> None:
    assert found(group(4), group(4, a=())) is None


def test_changed_topics_lead_to_a_new_epoch() -> None:
    assert found(group(4, a=("x",)), group(5, 2, a=("x",))) is None


def test_a_classic_group_has_no_patterns() -> None:
    assert found(Group(group_id="lab"), Group(group_id="lab")) is None
