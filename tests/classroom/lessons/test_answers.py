"""What learners write is read: numbers, times, names and partitions, in English and in Chinese."""

import pytest

from regroup.classroom.languages import Language
from regroup.classroom.lessons.format.language import Translations, filled_in, in_language
from regroup.classroom.lessons.questions import is_close, parse_choice
from regroup.classroom.lessons.runs.answers import (
    AnswerKind,
    Known,
    UnreadableAnswer,
    answer_text,
    number_of,
    parse_answer,
    read_value,
)
from regroup.protocol.consumer.subscription import TopicPartition

ONE_TOPIC = Known(("anna", "ben", "carla"), ("orders",))
TWO_TOPICS = Known(("anna", "ben"), ("orders", "payments"))


def partitions(*given: tuple[str, int]) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(*each) for each in given)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (AnswerKind.NUMBER, "7", 7.0),
        (AnswerKind.NUMBER, " 7 partitions", 7.0),
        (AnswerKind.NUMBER, "7 个", 7.0),
        (AnswerKind.DURATION, "20s", 20_000.0),
        (AnswerKind.DURATION, "20", 20_000.0),
        (AnswerKind.DURATION, "1.5 s", 1_500.0),
        (AnswerKind.DURATION, "20 seconds", 20_000.0),
        (AnswerKind.DURATION, "20 秒", 20_000.0),
        (AnswerKind.DURATION, "2分钟", 120_000.0),
        (AnswerKind.DURATION, "300ms", 300.0),
        (AnswerKind.NAMES, "anna", frozenset({"anna"})),
        (AnswerKind.NAMES, "Anna and ben", frozenset({"anna", "ben"})),
        (AnswerKind.NAMES, "anna、ben", frozenset({"anna", "ben"})),
        (AnswerKind.NAMES, "anna 和 ben", frozenset({"anna", "ben"})),
        (AnswerKind.NAMES, "none", frozenset()),
        (AnswerKind.NAMES, "没有", frozenset()),
        (AnswerKind.PARTITIONS, "orders 0-2", partitions(("orders", 0), ("orders", 1), ("orders", 2))),
        (AnswerKind.PARTITIONS, "0, 2", partitions(("orders", 0), ("orders", 2))),
        (AnswerKind.PARTITIONS, "orders-0 orders-1", partitions(("orders", 0), ("orders", 1))),
        (AnswerKind.PARTITIONS, "none", frozenset()),
        (AnswerKind.NUMBER, "７", 7.0),
        (AnswerKind.DURATION, "２０ｓ", 20_000.0),
        (AnswerKind.PARTITIONS, "orders　０－１", partitions(("orders", 0), ("orders", 1))),
        (AnswerKind.WORD, " range ", "range"),
    ],
)
def test_an_answer_is_read(kind: AnswerKind, text: str, value: object) -> None:
    assert parse_answer(kind, text, ONE_TOPIC) == value


def test_partitions_of_two_topics_name_their_topics() -> None:
    found = parse_answer(AnswerKind.PARTITIONS, "orders 0,1; payments 0", TWO_TOPICS)
    assert found == partitions(("orders", 0), ("orders", 1), ("payments", 0))
    assert answer_text(AnswerKind.PARTITIONS, found, Language.ENGLISH) == "orders 0-1; payments 0"
    with pytest.raises(UnreadableAnswer):
        parse_answer(AnswerKind.PARTITIONS, "0-3", TWO_TOPICS)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (AnswerKind.NUMBER, "1e9"),
        (AnswerKind.NUMBER, "9 of 7"),
        (AnswerKind.NUMBER, "7.4 partitions or 12"),
        (AnswerKind.NUMBER, ""),
        (AnswerKind.NUMBER, "many"),
        (AnswerKind.DURATION, "soon"),
        (AnswerKind.DURATION, "20 parsecs"),
        (AnswerKind.DURATION, "-20s"),
        (AnswerKind.NAMES, "dora"),
        (AnswerKind.PARTITIONS, "payments 0"),
        (AnswerKind.PARTITIONS, "0-999999999"),
        (AnswerKind.PARTITIONS, "first"),
    ],
)
def test_an_answer_of_another_kind_is_refused(kind: AnswerKind, text: str) -> None:
    with pytest.raises(UnreadableAnswer) as caught:
        parse_answer(kind, text, ONE_TOPIC)
    assert caught.value.kind is kind


def test_an_option_is_chosen_by_its_number_or_letter() -> None:
    assert [parse_choice(each, 3) for each in ("1", "b", " 3. ", "C)")] == [0, 1, 2, 2]
    for text in ("0", "4", "d", "", "one", "²"):
        with pytest.raises(UnreadableAnswer):
            parse_choice(text, 3)


def test_numbers_are_compared_within_a_tolerance_and_everything_else_exactly() -> None:
    assert is_close(20_400.0, 20_003.0, 500.0)
    assert not is_close(21_000.0, 20_003.0, 500.0)
    assert is_close("Range", "range", 0)
    assert is_close(frozenset({"anna"}), frozenset({"anna"}), 0)
    assert not is_close(frozenset({"anna"}), frozenset(), 99)


def test_values_of_a_file_are_read_and_written() -> None:
    assert read_value(AnswerKind.NAMES, ["anna", "ben"], ONE_TOPIC) == frozenset({"anna", "ben"})
    assert read_value(AnswerKind.DURATION, "20s", ONE_TOPIC) == 20_000.0
    assert read_value(AnswerKind.NUMBER, 7, ONE_TOPIC) == 7.0
    with pytest.raises(UnreadableAnswer):
        read_value(AnswerKind.DURATION, 20, ONE_TOPIC)
    assert answer_text(AnswerKind.DURATION, 20_003.0, Language.ENGLISH) == "20.003 s"
    assert answer_text(AnswerKind.NAMES, frozenset(), Language.CHINESE) == "无"
    assert number_of(frozenset({"anna", "ben"})) == 2


def test_lines_of_a_paragraph_are_joined_without_blanks_in_chinese() -> None:
    text = "第一行\n第二行。\nKafka 的\ngroup\n（组）\n\n    a\n    b\n\n- c\n- d\n"
    assert in_language(text, Language.CHINESE) == "第一行第二行。Kafka 的 group（组）\n\n    a\n    b\n\n- c\n- d"


def test_a_text_in_one_language_is_shown_in_both() -> None:
    assert in_language(Translations(zh="你好"), Language.ENGLISH) == "你好"
    assert in_language(Translations(en="Hello", zh="你好"), Language.CHINESE) == "你好"
    assert in_language("both ", Language.CHINESE) == "both"
    assert filled_in("{answer} {other thing} {", {"answer": "7"}) == "7 {other thing} {"


@pytest.mark.parametrize("text", ["orders", "orders 2-1", "orders,", "and"])
def test_an_answer_without_a_partition_is_asked_for_again(text: str) -> None:
    with pytest.raises(UnreadableAnswer):
        parse_answer(AnswerKind.PARTITIONS, text, ONE_TOPIC)
