"""Settings by Kafka's names."""

import pytest

from regroup.coordinator.settings import InvalidSetting, UnknownSetting
from regroup.server.settings import BrokerSettings
from regroup.server.topic_configs import TOPIC_CONFIGS, check_topic_config


def test_settings_are_read_from_text() -> None:
    settings = BrokerSettings.from_texts({"num.partitions": "3", "auto.create.topics.enable": "FALSE"})
    assert (settings.num_partitions, settings.auto_create_topics_enable) == (3, False)
    assert settings.connections_max_idle_ms == 600_000


def test_every_setting_has_its_kafka_name_and_can_be_said_again() -> None:
    shown = {each.name: each.text for each in BrokerSettings().shown()}
    assert list(shown) == BrokerSettings.names()
    assert BrokerSettings.from_texts(shown) == BrokerSettings()


def test_an_unknown_name_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(UnknownSetting, match=r"num\.partition: did you mean num\.partitions\?"):
        BrokerSettings.from_texts({"num.partition": "3"})


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("num.partitions", "0", "between 1 and"),
        ("num.partitions", "many", "whole number"),
        ("delete.topic.enable", "yes", "true or false"),
        ("log.retention.bytes", "-2", "between -1 and"),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_name(name: str, text: str, says: str) -> None:
    with pytest.raises(InvalidSetting, match=f"{name}.*{says}"):
        BrokerSettings.from_texts({name: text})


@pytest.mark.parametrize("name", TOPIC_CONFIGS)
def test_the_default_of_every_topic_setting_is_allowed(name: str) -> None:
    check_topic_config(name, TOPIC_CONFIGS[name].default)


@pytest.mark.parametrize(
    ("name", "text"),
    [("cleanup.policy", "shred"), ("max.message.bytes", "-1"), ("preallocate", "maybe"), ("retention.ms", "")],
)
def test_a_topic_setting_that_cannot_be_is_refused(name: str, text: str) -> None:
    with pytest.raises(InvalidSetting, match=name):
        check_topic_config(name, text)
