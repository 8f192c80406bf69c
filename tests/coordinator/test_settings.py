"""The coordinator's settings as an operator types them."""

import pytest

from regroup.coordinator.settings import InvalidSetting, Settings, UnknownSetting

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
"""Kafka's, but for the partitions, each of which costs memory here."""


def test_the_limits_of_every_setting_are_known() -> None:
    assert set(Settings.names()) == set(LIMITS)


@pytest.mark.parametrize("name", LIMITS)
def test_the_limits_of_a_setting_are_accepted_themselves(name: str) -> None:
    for limit in LIMITS[name]:
        assert Settings.from_texts({name: str(limit)}).by_name()[name] == limit


@pytest.mark.parametrize("name", LIMITS)
def test_what_lies_beyond_a_limit_is_refused_by_name_and_the_limit_is_told(name: str) -> None:
    least, most = LIMITS[name]
    with pytest.raises(InvalidSetting, match=f"{name} must be at least {least}, not {least - 1}$"):
        Settings.from_texts({name: str(least - 1)})
    with pytest.raises(InvalidSetting, match=f"{name} must be at most {most}, not {most + 1}$"):
        Settings.from_texts({name: str(most + 1)})


def test_settings_that_no_text_was_read_for_have_limits_too() -> None:
    with pytest.raises(InvalidSetting, match=r"group\.max\.size must be at least 1"):
        Settings(group_max_size=0)


def test_every_setting_has_its_kafka_name_and_can_be_said_again() -> None:
    settings = Settings(group_max_size=7, offsets_topic_num_partitions=3)
    said = {name: str(value) for name, value in settings.by_name().items()}
    assert (said["group.max.size"], said["offsets.topic.num.partitions"]) == ("7", "3")
    assert Settings.from_texts(said) == settings


@pytest.mark.parametrize("text", ["many", "", "2.5", "0x10"])
def test_what_is_no_whole_number_is_quoted(text: str) -> None:
    with pytest.raises(InvalidSetting, match=f"group.max.size takes a whole number, not '{text}'"):
        Settings.from_texts({"group.max.size": text})


def test_an_unknown_name_is_answered_with_the_nearest_one_or_with_all() -> None:
    with pytest.raises(UnknownSetting, match=r"group\.max\.sise: did you mean group\.max\.size\?"):
        Settings.from_texts({"group.max.sise": "3"})
    with pytest.raises(UnknownSetting, match=r"colour: known are group\.initial\.rebalance\.delay\.ms, .*minutes"):
        Settings.from_texts({"colour": "3"})
