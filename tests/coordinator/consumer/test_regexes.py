"""Subscriptions by pattern: the broker searches the topics after a heartbeat, and the result is a command."""

from typing import Any

from regroup.coordinator.consumer.regexes import last_search_ms, regexes_to_resolve
from regroup.coordinator.consumer_group import ReconciliationState as S
from regroup.protocol.errors import ErrorCode
from tests.coordinator.consumer.consumer_harness import Answer, ConsumerHarness, image
from tests.coordinator.group_harness import behaviour

E = ErrorCode
REFRESH_MS = 600_000
BY_PATTERN: dict[str, Any] = {"subscribed_topics": None, "subscribed_regex": "rx.*"}


def due(harness: ConsumerHarness) -> tuple[str, ...]:
    """The patterns that the broker is to resolve now."""
    return regexes_to_resolve(harness.group, harness.topics, harness.now_ms, REFRESH_MS)


def joined() -> tuple[ConsumerHarness, Answer]:
    """m1 has joined with the pattern rx.*, which is not resolved; the topics are rxa (1 partition) and rxb (2)."""
    harness = ConsumerHarness()
    harness.topics = image(rxa=1, rxb=2, zrxc=1)
    return harness, harness.join("m1", **BY_PATTERN)


def resolved() -> ConsumerHarness:
    """As `joined`, and m1 has rxa 0 and rxb 0-1 at epoch 2."""
    harness, _ = joined()
    harness.resolve(**{"rx.*": ("rxa", "rxb")})
    answer = harness.beat("m1", 1)
    assert (answer.epoch, answer.assignment) == (2, {"rxa": [0], "rxb": [0, 1]})
    return harness


def test_a_member_with_an_unresolved_pattern_has_nothing_at_epoch_1() -> None:
    harness, answer = joined()
    assert (answer.epoch, answer.assignment, harness.state_name) == (1, {}, "Stable")
    assert due(harness) == ("rx.*",)


@behaviour("cg.regex.resolved-later")
def test_the_result_bumps_and_the_next_heartbeat_assigns() -> None:
    harness, _ = joined()
    result = harness.resolve(**{"rx.*": ("rxa", "rxb")})
    assert result.event_types == ["RegexesResolved", "GroupEpochBumped"]
    assert (harness.state_name, harness.epochs) == ("Assigning", (2, 1))


@behaviour("cg.regex.known-already", "cg.regex.checked-only-when-new")
def test_a_pattern_that_is_resolved_bumps_at_once_and_is_not_compiled_again() -> None:
    harness = resolved()
    answer = harness.join("m2", **BY_PATTERN, regex_error="not looked at")
    assert (answer.code, answer.epoch, answer.assignment) == (E.NONE, 3, {})


def test_a_pattern_that_takes_the_place_of_the_only_one_is_searched_for_after_the_next_heartbeat() -> None:
    harness = resolved()
    before_ms = last_search_ms(harness.group)
    harness.advance(2_000)
    harness.beat("m1", 2, subscribed_regex="zrx.*")
    assert regexes_to_resolve(harness.group, harness.topics, harness.now_ms, REFRESH_MS, before_ms) == ()
    assert due(harness) == ("zrx.*",)


@behaviour("cg.regex.invalid-at-join")
def test_an_invalid_pattern_creates_no_group() -> None:
    harness = ConsumerHarness()
    answer = harness.join("m1", subscribed_topics=None, subscribed_regex="(abc", regex_error="missing )")
    assert (answer.code, harness.group.exists) == (E.INVALID_REGULAR_EXPRESSION, False)


@behaviour("cg.regex.invalid-on-heartbeat")
def test_an_invalid_pattern_leaves_the_old_one() -> None:
    harness = resolved()
    assert harness.beat("m1", 2, subscribed_regex="(a", regex_error="missing )").code is E.INVALID_REGULAR_EXPRESSION
    assert harness.member("m1").profile.subscribed_regex == "rx.*"


@behaviour("cg.regex.changed-to-an-unresolved-one")
def test_a_new_pattern_takes_everything_at_once() -> None:
    harness = resolved()
    answer = harness.beat("m1", 2, subscribed_regex="rxa")
    assert (answer.epoch, answer.assignment, harness.member_state("m1")) == (2, {}, S.UNREVOKED_PARTITIONS)
    assert answer.event_types == ["MemberSubscribed", "MemberReconciled"]
    assert (harness.pending("m1"), harness.epochs[0]) == ({"rxa": [0], "rxb": [0, 1]}, 2)


@behaviour("cg.regex.still-owning-one-stops-all")
def test_a_member_that_still_owns_one_partition_gets_none() -> None:
    harness = resolved()
    harness.beat("m1", 2, subscribed_regex="rxa")
    harness.resolve(rxa=("rxa",))
    answer = harness.beat("m1", 2, owned={"rxa": [0]})
    assert (answer.epoch, answer.assignment, harness.target("m1")) == (2, None, {"rxa": [0]})
    assert harness.beat("m1", 2, owned={}).assignment == {"rxa": [0]}


@behaviour("cg.regex.cleared")
def test_an_empty_pattern_clears_it_and_bumps() -> None:
    harness = resolved()
    answer = harness.beat("m1", 2, subscribed_topics=("rxb",), subscribed_regex="")
    assert (answer.code, harness.epochs[0], harness.consumer.resolved_regexes) == (E.NONE, 3, {})


@behaviour("cg.regex.and-names")
def test_names_and_patterns_are_united() -> None:
    harness = resolved()
    harness.beat("m1", 2, subscribed_topics=("rxb",), subscribed_regex="zrxc")
    harness.resolve(zrxc=("zrxc",))
    harness.beat("m1", 2, owned={"rxb": [0, 1]})
    assert harness.assigned("m1") == {"rxb": [0, 1], "zrxc": [0]}


@behaviour("cg.regex.new-topic")
def test_a_topic_that_is_created_makes_a_search_due() -> None:
    harness = resolved()
    harness.advance(10_001)
    assert due(harness) == ()
    harness.topics = image(version=1, rxa=1, rxb=2, rxd=1)
    assert harness.beat("m1", 2).epoch == 2
    assert due(harness) == ("rx.*",)
    harness.resolve(**{"rx.*": ("rxa", "rxb", "rxd")})
    assert harness.beat("m1", 2).assignment == {"rxa": [0], "rxb": [0, 1], "rxd": [0]}


@behaviour("cg.regex.not-within-ten-seconds")
def test_no_search_is_due_within_ten_seconds_even_for_a_new_pattern() -> None:
    harness = resolved()
    harness.topics = image(version=1, rxa=1, rxb=2, rxd=1)
    harness.beat("m1", 2)
    assert due(harness) == ()
    harness.join("m2", subscribed_topics=None, subscribed_regex="rxd")
    harness.advance(10_000)
    assert due(harness) == ()
    harness.advance(1)
    assert due(harness) == ("rx.*", "rxd")


@behaviour("cg.regex.refreshed-every-ten-minutes")
def test_a_search_is_due_after_the_refresh_interval() -> None:
    harness = resolved()
    for _ in range(30):
        harness.advance(20_000)
        harness.beat("m1", 2)
    assert due(harness) == ()
    harness.advance(1)
    assert due(harness) == ("rx.*",)


@behaviour("cg.regex.deleted-topic")
def test_a_topic_that_is_deleted_bumps_before_the_pattern_is_resolved_again() -> None:
    harness = resolved()
    harness.topics = image(rxa=1)
    assert harness.beat("m1", 2).assignment == {"rxa": [0]}
    assert harness.epochs[0] == 3


@behaviour("cg.regex.result-without-change")
def test_the_same_result_does_not_bump() -> None:
    harness = resolved()
    assert harness.resolve(**{"rx.*": ("rxa", "rxb")}).event_types == ["RegexesResolved"]


@behaviour("cg.fail.regex-under-way-is-lost")
def test_a_search_that_a_failover_has_lost_is_due_again() -> None:
    harness, _ = joined()
    harness.fail_over()
    assert due(harness) == ("rx.*",)


def test_the_result_of_a_pattern_that_no_member_has_any_more_is_dropped() -> None:
    harness, _ = joined()
    harness.beat("m1", -1)
    assert harness.resolve(**{"rx.*": ("rxa", "rxb")}).event_types == []


@behaviour("cg.asr.subscription-type-with-regex")
def test_members_with_one_pattern_count_as_equal_subscribers() -> None:
    harness = resolved()
    harness.join("m2", **BY_PATTERN)
    shares = [sum(map(len, harness.target(each).values())) for each in ("m1", "m2")]
    assert sorted(shares) == [1, 2]
