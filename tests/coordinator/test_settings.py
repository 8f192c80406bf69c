"""The coordinator's settings, read from the texts that an operator gives."""

import pytest

from regroup.coordinator.settings import CoordinatorSettings, InvalidSetting, MigrationPolicy, UnknownSetting
from tests.coordinator.group_harness import behaviour

POLICY = "group.consumer.migration.policy"
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
    "group.consumer.max.size": (1, INT),
    "group.consumer.regex.refresh.interval.ms": (10_000, INT),
}
"""Kafka's limits, except for the partitions, each of which costs memory here."""

BOUNDED = {
    "session.timeout.ms": (45_000, 60_000),
    "heartbeat.interval.ms": (5_000, 15_000),
    "assignment.interval.ms": (0, 15_000),
}
"""Settings `group.consumer.…` with the defaults of their bounds, which are settings themselves."""


KAFKAS_DEFAULTS = {
    "group.min.session.timeout.ms": 6_000,
    "group.max.session.timeout.ms": 30 * 60_000,
    "group.initial.rebalance.delay.ms": 3_000,
    "group.max.size": INT,
    "group.consumer.session.timeout.ms": 45_000,
    "group.consumer.min.session.timeout.ms": 45_000,
    "group.consumer.max.session.timeout.ms": 60_000,
    "group.consumer.heartbeat.interval.ms": 5_000,
    "group.consumer.min.heartbeat.interval.ms": 5_000,
    "group.consumer.max.heartbeat.interval.ms": 15_000,
    "group.consumer.assignment.interval.ms": 1_000,
    "group.consumer.min.assignment.interval.ms": 0,
    "group.consumer.max.assignment.interval.ms": 15_000,
    "group.consumer.max.size": INT,
    "group.consumer.migration.policy": "bidirectional",
    "group.consumer.regex.refresh.interval.ms": 10 * 60_000,
    "offset.metadata.max.bytes": 4_096,
    "offsets.retention.minutes": 7 * 24 * 60,
    "offsets.retention.check.interval.ms": 10 * 60_000,
    "offsets.topic.num.partitions": 50,
    "offsets.commit.timeout.ms": 5_000,
}
"""The defaults of Apache Kafka 4.4."""


def test_without_a_setting_the_coordinator_acts_with_kafkas_defaults() -> None:
    assert CoordinatorSettings().by_name() == KAFKAS_DEFAULTS


def test_every_setting_has_tested_limits() -> None:
    bounded = {f"group.consumer.{bound}{name}" for name in BOUNDED for bound in ("", "min.", "max.")}
    assert set(CoordinatorSettings.names()) == {*LIMITS, *bounded, POLICY}


@behaviour("cg.up.default-policy")
def test_the_migration_policy_is_one_of_kafkas_four_words_in_any_case() -> None:
    assert CoordinatorSettings().group_consumer_migration_policy is MigrationPolicy.BIDIRECTIONAL
    for policy in MigrationPolicy:
        for text in (policy.value, policy.value.upper(), f" {policy.value.title()} "):
            assert CoordinatorSettings.from_texts({POLICY: text}).group_consumer_migration_policy is policy
    with pytest.raises(InvalidSetting, match=f"{POLICY} is one of bidirectional, upgrade, downgrade, disabled, not"):
        CoordinatorSettings.from_texts({POLICY: "both"})


@pytest.mark.parametrize("name", BOUNDED)
def test_a_setting_of_the_consumer_protocol_is_within_its_bounds(name: str) -> None:
    minimum, maximum = BOUNDED[name]
    for limit in (minimum, maximum):
        texts = {f"group.consumer.{name}": str(limit)}
        assert CoordinatorSettings.from_texts(texts).by_name()[f"group.consumer.{name}"] == limit
    above = {f"group.consumer.{name}": str(maximum + 1)}
    with pytest.raises(InvalidSetting, match=f"group.consumer.{name} must be at most {maximum}, not {maximum + 1}"):
        CoordinatorSettings.from_texts(above)
    wider = {f"group.consumer.max.{name}": str(maximum + 1)}
    assert CoordinatorSettings.from_texts(above | wider).by_name()[f"group.consumer.{name}"] == maximum + 1
    below = {f"group.consumer.{name}": str(minimum - 1)}
    with pytest.raises(InvalidSetting, match=f"group.consumer.{name} must be at least {minimum}, not {minimum - 1}"):
        CoordinatorSettings.from_texts(below)


def test_a_heartbeat_interval_is_shorter_than_the_session_timeout() -> None:
    texts = {"session.timeout.ms": "6000", "min.session.timeout.ms": "1000", "heartbeat.interval.ms": "6000"}
    with pytest.raises(InvalidSetting, match=r"heartbeat\.interval\.ms must be less than .* \(6000\), not 6000"):
        CoordinatorSettings.from_texts({f"group.consumer.{name}": text for name, text in texts.items()})


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
    with pytest.raises(UnknownSetting, match=r"colour: known are group\.consumer\.assignment\.interval\.ms, .*minutes"):
        CoordinatorSettings.from_texts({"colour": "3"})
