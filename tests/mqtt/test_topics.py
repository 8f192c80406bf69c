"""Topic names: valid for any group id, and decodable."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from regroup.mqtt.topics import MqttTopics, decode_level, encode_level

GROUP_IDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
ODD = "a+b#c/d%e\x00\x1f\x7f\x85\ufffe\ufdd0\U0001ffff$SYS é 漢 🐑 \u2028"


@given(GROUP_IDS)
@example("")
@example(ODD)
@example("%")
@example("%~YQ==")
@example("%!abc")
def test_any_group_id_is_encoded_as_one_level_and_decoded(group_id: str) -> None:
    level = encode_level(group_id)
    assert level
    assert not set(level) & set("+#/\x00")
    assert all(character.isprintable() or ord(character) > 0x9F for character in level)
    assert decode_level(level) == group_id


@given(GROUP_IDS, GROUP_IDS)
def test_two_groups_never_have_the_same_topic(one: str, other: str) -> None:
    assert (encode_level(one) == encode_level(other)) == (one == other)


@pytest.mark.parametrize("group_id", ["/" * 32_767, "x" * 32_767, "é" * 16_383])
def test_the_longest_group_id_of_kafka_fits_into_a_topic(group_id: str) -> None:
    topic = MqttTopics("/" * 100).group(group_id, "events")
    assert len(topic.encode()) < 65_535
    level = MqttTopics("/" * 100).levels(topic)[1]
    assert decode_level(level) == group_id


def test_a_longer_group_id_is_replaced_by_its_digest() -> None:
    one, other = encode_level("x" * 100_000), encode_level("x" * 100_001)
    assert one != other
    assert len(one) < 100
    with pytest.raises(ValueError, match="invalid topic level"):
        decode_level(one)


@pytest.mark.parametrize("level", ["%zz", "a%2", "a%41", "%~é", "%~YQ", "%~YQ==", "%ff"])
def test_a_level_that_is_not_an_encoded_text_is_refused(level: str) -> None:
    with pytest.raises(ValueError, match="invalid topic level"):
        decode_level(level)


def test_topics_of_another_cluster_have_no_levels() -> None:
    topics = MqttTopics("main")
    assert topics.levels("regroup/main/groups/a/events") == ("groups", "a", "events")
    assert topics.levels("regroup/mainland/groups/a/events") == ()
    assert topics.group(None, "events") == "regroup/main/events"
