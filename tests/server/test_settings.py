"""Settings of brokers and topics by Kafka's names."""

import pytest

from regroup.coordinator.settings import CoordinatorSettings, InvalidSetting, UnknownSetting
from regroup.server.absent_settings import absent_setting_message
from regroup.server.cluster.topic_configs import TOPIC_CONFIGS, check_topic_config
from regroup.server.settings import BOOL, INT, LONG, BrokerSettings, describe_settings, settings_from_texts


def test_settings_are_read_from_text() -> None:
    settings = BrokerSettings.from_texts({"num.partitions": "3", "auto.create.topics.enable": "FALSE"})
    assert (settings.num_partitions, settings.auto_create_topics_enable) == (3, False)
    assert settings.connections_max_idle_ms == 600_000


def test_every_setting_has_its_kafka_name_and_is_read_back_from_its_text() -> None:
    texts = {each.name: each.text for each in describe_settings(BrokerSettings())}
    assert tuple(texts) == BrokerSettings.names()
    assert BrokerSettings.from_texts(texts) == BrokerSettings()


def test_an_unknown_name_is_refused_with_the_most_similar_one() -> None:
    with pytest.raises(UnknownSetting, match=r"num\.partition: did you mean num\.partitions\?"):
        BrokerSettings.from_texts({"num.partition": "3"})


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("group.consumer.assignors", "the assignors uniform and range in this order"),
        ("group.coordinator.rebalance.protocols", "classic and consumer are served"),
        ("consumer.assignor.offload.enable", "a target is computed within the heartbeat"),
        ("group.share.session.timeout.ms", "there are no share groups"),
        ("group.streams.num.standby.replicas", "there are no streams groups"),
        ("group.coordinator.threads", "the coordinator has one thread"),
    ],
)
def test_a_setting_of_kafka_that_is_absent_here_is_refused_with_what_is_done_instead(name: str, says: str) -> None:
    with pytest.raises(UnknownSetting, match=rf"does not have Kafka's setting {name}: .*{says}.*\. Leave it out\.$"):
        settings_from_texts({name: "1"})


def test_an_unknown_setting_of_a_server_is_refused_with_the_most_similar_one() -> None:
    with pytest.raises(UnknownSetting, match=r"group\.max\.sizes: did you mean group\.max\.size\?"):
        settings_from_texts({"group.max.sizes": "1"})


def test_no_setting_is_both_present_and_absent() -> None:
    present = {*CoordinatorSettings.names(), *BrokerSettings.names()}
    assert not [name for name in present if absent_setting_message(name)]


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("num.partitions", "0", "at least 1, not 0"),
        ("num.partitions", "10001", "at most 10000, not 10001"),
        ("num.partitions", "many", "whole number, not 'many'"),
        ("delete.topic.enable", "yes", "true or false, not 'yes'"),
        ("log.retention.bytes", "-2", "at least -1, not -2"),
        ("fetch.max.bytes", "1023", "at least 1024, not 1023"),
        ("default.replication.factor", "32768", "at most 32767, not 32768"),
        ("message.max.bytes", "2147483648", "at most 2147483647, not 2147483648"),
        ("connections.max.idle.ms", "9223372036854775808", "at most 9223372036854775807"),
    ],
)
def test_an_invalid_value_is_refused_with_the_name_of_its_setting(name: str, text: str, says: str) -> None:
    with pytest.raises(InvalidSetting, match=f"{name}.*{says}"):
        BrokerSettings.from_texts({name: text})


def test_settings_are_described_with_kafkas_types() -> None:
    kinds = {
        each.name: each.type_id
        for each in (*describe_settings(CoordinatorSettings()), *describe_settings(BrokerSettings()))
    }
    assert kinds["group.max.size"] == kinds["num.partitions"] == INT == 3
    assert kinds["offsets.retention.check.interval.ms"] == kinds["log.retention.bytes"] == LONG == 5
    assert kinds["auto.create.topics.enable"] == BOOL == 1


def test_an_internal_setting_is_described_only_if_it_was_set() -> None:
    name = "group.consumer.regex.refresh.interval.ms"
    assert name not in {each.name for each in describe_settings(CoordinatorSettings())}
    set_by_hand, _ = settings_from_texts({name: "10000"})
    [row] = [each for each in describe_settings(set_by_hand) if each.name == name]
    assert (row.text, row.default, row.type_id) == ("10000", "600000", INT)


@pytest.mark.parametrize("name", TOPIC_CONFIGS)
def test_the_default_of_every_topic_setting_is_valid(name: str) -> None:
    check_topic_config(name, TOPIC_CONFIGS[name].default)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cleanup.policy", "shred"),
        ("max.message.bytes", "-1"),
        ("max.message.bytes", "2147483648"),
        ("preallocate", "maybe"),
        ("retention.ms", ""),
        ("retention.ms", "9223372036854775808"),
    ],
)
def test_an_invalid_topic_setting_is_refused(name: str, text: str) -> None:
    with pytest.raises(InvalidSetting, match=name):
        check_topic_config(name, text)
