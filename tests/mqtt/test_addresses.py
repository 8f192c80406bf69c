"""Addresses of MQTT brokers, and credentials, which are neither typed nor shown."""

from pathlib import Path

import pytest

from regroup.mqtt.address import MqttAccess, MqttAddress, parse_mqtt_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("mqtt://broker", MqttAddress("broker", 1883)),
        ("mqtts://broker", MqttAddress("broker", 8883, True)),
        ("mqtt://broker:1884/", MqttAddress("broker", 1884)),
        ("mqtt://[::1]:1884/room%207", MqttAddress("::1", 1884, False, "room 7")),
        ("mqtt://broker/50%25%20%231%3F", MqttAddress("broker", 1883, False, "50% #1?")),
    ],
)
def test_an_address_is_parsed(text: str, address: MqttAddress) -> None:
    assert parse_mqtt_address(text) == address
    assert parse_mqtt_address(str(address)) == address


@pytest.mark.parametrize(
    "text", ["broker:1883", "http://broker", "mqtt://", "mqtt://broker:0", "mqtt://broker:99999", "mqtt://b?x=1", ""]
)
def test_an_invalid_address_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="write mqtt://HOST:PORT"):
        parse_mqtt_address(text)


def test_a_cluster_has_no_slash() -> None:
    with pytest.raises(ValueError, match="invalid cluster name: 'one/two'; '/' is not allowed"):
        parse_mqtt_address("mqtt://broker/one/two")


@pytest.mark.parametrize("text", ["mqtt://me:secret@broker", "mqtt://me@broker", "mqtts://:secret@broker:8883/main"])
def test_user_and_password_are_refused_in_an_address_and_not_repeated(text: str) -> None:
    with pytest.raises(ValueError, match="REGROUP_MQTT_PASSWORD") as refused:
        parse_mqtt_address(text)
    assert "secret" not in str(refused.value)


def test_the_environment_overrides_the_settings() -> None:
    environment = {"REGROUP_MQTT_USERNAME": "anna", "REGROUP_MQTT_PASSWORD": "secret", "HOME": "/"}
    access = MqttAccess.from_settings(environment, {"username": "ben", "ca_file": "ca.pem"})
    assert access == MqttAccess(username="anna", password="secret", ca_file="ca.pem")
    assert "secret" not in repr(access)


@pytest.mark.parametrize(
    ("environment", "settings", "message"),
    [
        ({}, {"user": "anna"}, "unknown MQTT setting 'user'; settings: username"),
        ({}, {"username": 7}, "must be text"),
        ({"REGROUP_MQTT_PASSWORD": "secret"}, {}, "an MQTT password is set and no user"),
    ],
)
def test_unknown_and_invalid_settings_are_refused(
    environment: dict[str, str], settings: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        MqttAccess.from_settings(environment, settings)


def test_certificates_without_encryption_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="write mqtts://"):
        MqttAccess(ca_file="ca.pem").tls_context(MqttAddress("broker", 1883))
    with pytest.raises(ValueError, match=r"cannot load the certificates in .*missing\.pem"):
        MqttAccess(ca_file=str(tmp_path / "missing.pem")).tls_context(MqttAddress("broker", 8883, True))
    assert MqttAccess().tls_context(MqttAddress("broker", 1883)) is None
