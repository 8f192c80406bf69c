"""Sentences in Chinese: each one is there, says the same as in English, and has no English words but Kafka's terms."""

import re
from collections.abc import Iterator
from string import Formatter

import pytest
from hypothesis import given, settings

from regroup.classroom.fold.build import timeline_of
from regroup.classroom.fold.deadlines import INITIAL_JOIN_PHASE
from regroup.classroom.fold.deadlines import WHAT_FOLLOWS as GROUP_FOLLOWS
from regroup.classroom.incidents import incidents_of
from regroup.classroom.languages import Language
from regroup.classroom.phrases.chinese import CHINESE
from regroup.classroom.phrases.english import ENGLISH
from regroup.classroom.phrases.known_texts import FOLLOWS, LOST, MISSING, REASON, known_text
from regroup.classroom.phrases.phrase import Phrase, PhraseValue, Series, in_language, pattern_of, phrase, series
from regroup.classroom.recorded.session_clocks import WHAT_FOLLOWS as SESSION_FOLLOWS
from regroup.classroom.recorded_values import Recorded
from regroup.classroom.sentences import FURTHER_SENTENCES, SENTENCES, cause_phrase, moment_sentence, whole_sentence
from regroup.classroom.story import story_lines
from regroup.classroom.wording import MemberNames
from regroup.classroom.wrapping import columns_of, wrapped
from regroup.coordinator import events as e
from regroup.coordinator.serialization import EVENT_TYPES, Cause
from regroup.server.explanation.causes import DEADLINES, cause_text
from tests.classroom.histories import SEEDS, drawn_history, groups_of
from tests.classroom.recorded.recordings import timeline

KAFKAS_WORDS = frozenset(
    [
        *("assignor", "broker", "consumer", "coordinator", "generation", "gen", "group", "heartbeat", "id", "instance"),
        *("join", "last", "leader", "member", "offset", "partition", "poll", "producer", "protocol", "rebalance"),
        *("regroup", "session", "store", "story", "sync", "timeout", "topic", "epoch", "fenced", "batch", "will"),
        *("Empty", "JoinGroup", "Kafka", "MQTT", "OffsetCommit", "Stable", "SyncGroup", "TxnOffsetCommit", "UTC"),
        *("DeleteGroups", "OffsetDelete"),
        *("record", "STABLE", "UNREVOKED", "UNRELEASED", "UNKNOWN", "correlation", "event", "s", "v", "Home", "Esc"),
        *("ConsumerGroupHeartbeat", "classic", "J", "R", "S", "W", "x", "group.max.size", "max.poll.interval.ms"),
    ]
)
"""What stays in English, as in the texts of the lessons."""
OF_CLIENTS = (e.MemberJoined, e.MemberRejoined, e.StaticMemberReplaced, e.RebalanceStarted)
"""Events whose reasons may have a client's own words."""
HALF_WIDTH = re.compile(r"[\u4e00-\u9fff][,;:!?()]|[,;:!?()][\u4e00-\u9fff]")


def names_in(template: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(template) if name is not None}


def test_both_catalogues_have_the_same_sentences_with_the_same_values() -> None:
    assert CHINESE.keys() == ENGLISH.keys()
    for key, text in ENGLISH.items():
        assert names_in(CHINESE[key]) == names_in(text), key


def test_no_english_words_stand_in_chinese_but_kafkas_own() -> None:
    for key, text in CHINESE.items():
        words = re.findall(r"[A-Za-z][A-Za-z.]*[A-Za-z]|[A-Za-z]", re.sub(r"\{\w+\}", "", text))
        assert not set(words) - KAFKAS_WORDS, key
        assert not HALF_WIDTH.search(text.replace("poll()", "poll")), key


def test_every_event_has_a_sentence() -> None:
    assert set(EVENT_TYPES.values()) - SENTENCES.keys() - FURTHER_SENTENCES.keys() == set()


@pytest.mark.parametrize(
    "cause",
    [
        *(Cause(deadline=each) for each in (*DEADLINES, "another")),
        Cause(api="JoinGroup", client_id="anna"),
        Cause(api="JoinGroup"),
        Cause(internal="the plan"),
        Cause(internal="serve --topic"),
        Cause(test="expire"),
        Cause(test="raise-generation", beyond_kafka=True),
        Cause(),
    ],
)
def test_every_cause_has_a_chinese_sentence_with_the_same_values(cause: Cause) -> None:
    said = cause_phrase(cause)
    assert isinstance(said, Phrase)
    assert in_language(said, Language.ENGLISH) == cause_text(cause)
    assert re.search(r"[\u4e00-\u9fff]", in_language(said, Language.CHINESE))


def test_what_follows_and_what_was_not_recorded_is_known() -> None:
    for text in (*GROUP_FOLLOWS.values(), INITIAL_JOIN_PHASE, *SESSION_FOLLOWS.values()):
        assert isinstance(known_text(text, FOLLOWS), Phrase), text
    for text in Recorded().missing:
        assert isinstance(known_text(text, MISSING), Phrase), text


@pytest.mark.parametrize(
    ("reason", "chinese"),
    [
        ("session timeout of 10000 ms expired", "10000 ms 的 session timeout 已到"),
        (
            "leader anna rejoined: need to revoke partitions and re-join",
            "leader anna 重新加入：需要交出 partition 并重新加入",
        ),
        ("anna, ben left", "成员 anna、ben 离开"),
        ("I had to go", "I had to go"),
        ("member {0} expired", "成员 {0} 的 session 过期"),
    ],
)
def test_a_reason_is_translated_and_a_clients_own_words_stay(reason: str, chinese: str) -> None:
    value = known_text(reason, REASON)
    assert in_language(value, Language.ENGLISH) == reason
    assert in_language(value, Language.CHINESE) == chinese


@settings(max_examples=3, deadline=None)
@given(SEEDS)
def test_every_sentence_of_a_history_has_the_same_names_and_numbers_in_both_languages(seed: int) -> None:
    for value, english in _said(seed):
        texts, values = pattern_of(value)
        numbers = [set(re.findall(r"\{\d+\}", text)) for text in texts]
        assert numbers[0] == numbers[1] == {f"{{{number}}}" for number in range(len(values))}
        assert _filled(texts[0], values) == english
        assert in_language(value, Language.CHINESE) == _filled(texts[1], values)


def _said(seed: int) -> Iterator[tuple[PhraseValue, str]]:
    records = drawn_history(seed, minutes=3)
    for name in groups_of(records):
        history = timeline_of(name, records)
        names = MemberNames(history.names)
        for moment in history.moments:
            yield whole_sentence(moment, names), moment_sentence(moment, names)
            if moment.cause is not None:
                yield cause_phrase(moment.cause), cause_text(moment.cause)


def _filled(pattern: str, values: tuple[str, ...]) -> str:
    return re.sub(r"\{(\d+)\}", lambda match: values[int(match[1])], pattern)


@settings(max_examples=5, deadline=None)
@given(SEEDS)
def test_every_reason_of_the_coordinator_is_known(seed: int) -> None:
    records = drawn_history(seed, minutes=3)
    for name in groups_of(records):
        for moment in timeline_of(name, records).moments:
            event = moment.event
            if isinstance(event, e.CoordinatorLoaded):
                assert all(isinstance(known_text(each, LOST), Phrase) for each in event.lost), event.lost
            elif event.reason and not isinstance(event, OF_CLIENTS):
                assert isinstance(known_text(event.reason.rstrip("."), REASON), Phrase | Series), event.reason


@settings(max_examples=3, deadline=None)
@given(SEEDS)
def test_a_chinese_story_has_the_lines_of_the_english_one(seed: int) -> None:
    records = drawn_history(seed, minutes=3)
    for name in groups_of(records):
        history = timeline_of(name, records)
        english, chinese = (list(story_lines(history, language=each)) for each in Language)
        assert [line._replace(text="") for line in chinese] == [line._replace(text="") for line in english]
        assert all(line.text.endswith("。") for line in chinese)


def test_what_went_wrong_is_said_in_chinese() -> None:
    incidents = incidents_of(timeline("lost-syncgroup-response"))
    assert incidents
    for incident in incidents:
        assert incident.text_in(Language.CHINESE).endswith("。")
        assert incident.api in incident.text_in(Language.CHINESE)


def test_a_long_series_is_cut_and_counted() -> None:
    names = series("names", (f"m{number}" for number in range(15)))
    assert in_language(names, Language.ENGLISH).endswith("m11 and 3 more")
    assert in_language(names, Language.CHINESE).endswith("m11，以及另外 3 个")
    assert series("names", ()) == ""


def test_braces_in_names_stay_as_they_are() -> None:
    said = phrase("member left", member="{0} {member}", because="")
    assert in_language(said, Language.CHINESE) == "{0} {member} 离开"


def test_chinese_lines_are_as_wide_as_the_terminal_and_begin_with_no_stop() -> None:
    lines = list(wrapped("成员离开，" * 40, 80, " " * 4, "22:13  "))
    assert len(lines) > 2
    assert all(columns_of(line) <= 80 for line in lines)
    assert not any(line.strip().startswith("，") for line in lines)


@pytest.mark.parametrize(
    ("reason", "english", "chinese"),
    [
        ("leader anna was removed", "the former leader anna is no member any more", "原 leader anna 已不是成员"),
        (
            "member anna changed its supported protocols",
            "member anna changed its subscription or its assignors",
            "成员 anna 改变了它的订阅或 assignor",
        ),
    ],
)
def test_a_reason_of_the_coordinator_may_have_clearer_words_here(reason: str, english: str, chinese: str) -> None:
    said = known_text(reason, REASON)
    assert [in_language(said, each) for each in Language] == [english, chinese]
