"""The coordinator's settings, read from the texts that an operator gives."""

import pytest

from regroup.coordinator.settings import CoordinatorSettings, InvalidSetting, UnknownSetting

INT = 2_147_483_647
LONG = 9_223_372_036_854_775_807

LIMITS = {
    "group.min.session.timeout.ms": (-INT - 1, INT),
    "group.max.session.timeout.ms": (-INT - 1, INT),
    "group.initial.rebalance.delay.ms": (-INT - 1, INT),
    "group.max.size": (1, INT),
    "offset.metadata.max.bytes": (-INT - 1, INT),
    "offsets.retention.minutes": (1, INT),
    "offsets.retention.check.interval.ms": (1, LONG),
    "offsets.topic.num.partitions": (1, 10_000),
    "offsets.commit.timeout.ms": (1, INT),
}
"""Kafka's limits, except for the partitions, each of which costs memory here."""


def test_every_setting_has_tested_limits() -> None:
    assert set(CoordinatorSettings.names()) == set(LIMITS)


@pytest.mark.parametrize("name", LIMITS)
def test_both_limits_of_a_setting_are_accepted(name: str) -> None:
    for limit in LIMITS[name]:
        assert CoordinatorSettings.from_texts({name: str(limit)}).by_name()[name] == limit


@pytest.mark.parametrize("name", LIMITS)
def test_a_value_beyond_a_limit_is_refused_with_the_setting_and_the_limit(name: str) -> None:
    minimum, maximum = LIMITS[name]
    with pytest.raises(InvalidSetting, match=f"{name} must be at least {minimum}, not {minimum - 1}$"):
        CoordinatorSettings.from_texts({name: str(minimum - 1)})
    with pytest.raises(InvalidSetting, match=f"{name} must be at most {maximum}, not {maximum + 1}$"):
        CoordinatorSettings.from_texts({name: str(maximum + 1)})


def test_settings_given_as_numbers_have_the_same_limits() -> None:
    with pytest.raises(InvalidSetting, match=r"group\.max\.size must be at least 1"):
        CoordinatorSettings(group_max_size=0)


def test_settings_are_listed_and_read_by_their_kafka_names() -> None:
    settings = CoordinatorSettings(group_max_size=7, offsets_topic_num_partitions=3)
    texts = {name: str(value) for name, value in settings.by_name().items()}
    assert (texts["group.max.size"], texts["offsets.topic.num.partitions"]) == ("7", "3")
    assert CoordinatorSettings.from_texts(texts) == settings


@pytest.mark.parametrize("text", ["many", "", "2.5", "0x10"])
def test_a_value_that_is_no_whole_number_is_quoted(text: str) -> None:
    with pytest.raises(InvalidSetting, match=f"group.max.size takes a whole number, not '{text}'"):
        CoordinatorSettings.from_texts({"group.max.size": text})


def test_an_unknown_setting_is_refused_with_the_nearest_name_or_with_all() -> None:
    with pytest.raises(UnknownSetting, match=r"group\.max\.sise: did you mean group\.max\.size\?"):
        CoordinatorSettings.from_texts({"group.max.sise": "3"})
    with pytest.raises(UnknownSetting, match=r"colour: known are group\.initial\.rebalance\.delay\.ms, .*minutes"):
        CoordinatorSettings.from_texts({"colour": "3"})
