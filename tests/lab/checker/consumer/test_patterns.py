"""When the topics have to be searched for patterns, and when that has to lead to a new group epoch."""

from regroup.coordinator.consumer.commands import ConsumerGroupHeartbeat, ResolveRegexes
from regroup.coordinator.consumer_group import ConsumerGroup, ResolvedRegex
from regroup.coordinator.group import Group
from regroup.coordinator.topics import NO_TOPICS, TopicMetadata, TopicsImage
from regroup.lab.checker.consumer.patterns import PatternSearches, an_epoch_follows_what_patterns_match
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


# When the topics have to be searched


def topics_of(*names: str) -> TopicsImage:
    return TopicsImage([TopicMetadata(name.encode().ljust(16), name, 1) for name in names])


def searched(at_ms: int, *names: str) -> PatternSearches:
    """The searches of a run in which the patterns of the group were compared with these topics."""
    searches = PatternSearches(checker_state().settings)
    search = ResolveRegexes(group_id="lab", at_ms=at_ms, resolved={}, topics=topics_of(*names))
    searches.on_search(made_exchange(search, PATTERNED))
    return searches


def heartbeats(searches: PatternSearches, topics: TopicsImage, *at_ms: int, group: Group | None = None) -> str | None:
    """What the heartbeats at these times find overdue at the end."""
    overdue = None
    for each in at_ms:
        command = ConsumerGroupHeartbeat(group_id="lab", at_ms=each, member_id="anna-1", member_epoch=4, topics=topics)
        overdue = searches.on_heartbeat(made_exchange(command, group or PATTERNED), each)
    return overdue


PATTERNED = Group(
    group_id="lab",
    consumer=ConsumerGroup(
        group_epoch=4, regex_subscriptions={"a.*": 1}, resolved_regexes={"a.*": ResolvedRegex((), 0)}
    ),
)
UNRESOLVED = Group(group_id="lab", consumer=ConsumerGroup(group_epoch=4, regex_subscriptions={"a.*": 1}))


def test_a_created_topic_that_leads_to_no_search_is_found() -> None:
    assert heartbeats(searched(0, "a"), topics_of("a"), 11_000, 16_000, 21_000) is None
    found = heartbeats(searched(0, "a"), topics_of("a", "b"), 11_000, 16_000, 21_000)
    assert found == "the topic b is new, and 3 heartbeats in 10000 ms have led to no search"


def test_a_search_waits_for_ten_seconds_after_the_last_one() -> None:
    assert heartbeats(searched(0, "a"), topics_of("a", "b"), 2_000, 4_000, 6_000, 8_000, 10_000) is None


def test_a_search_in_time_is_right() -> None:
    searches = searched(0, "a")
    assert heartbeats(searches, topics_of("a", "b"), 11_000, 12_100) is None
    search = ResolveRegexes(group_id="lab", at_ms=12_200, resolved={}, topics=topics_of("a", "b"))
    searches.on_search(made_exchange(search, PATTERNED))
    assert heartbeats(searches, topics_of("a", "b"), 23_000, 24_000, 25_000) is None


def test_a_pattern_without_a_result_and_an_old_result_lead_to_a_search() -> None:
    never = PatternSearches(checker_state().settings)
    assert heartbeats(never, topics_of("a"), 0, 5_000, 10_000, group=UNRESOLVED)
    assert heartbeats(searched(0, "a"), topics_of("a"), 601_000, 606_000, 611_000)


def test_after_a_load_it_is_not_known_when_a_search_is_due() -> None:
    searches = searched(0, "a")
    searches.on_load("lab")
    assert heartbeats(searches, topics_of("a", "b"), 11_000, 16_000, 21_000) is None


def test_a_group_without_patterns_needs_no_search() -> None:
    searches, plain = searched(0, "a"), Group(group_id="lab", consumer=ConsumerGroup(group_epoch=4))
    assert heartbeats(searches, topics_of("a", "b"), 11_000, 16_000, 21_000, group=plain) is None
