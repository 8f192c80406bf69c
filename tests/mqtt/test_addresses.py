"""Where the broker is, and that no password is ever typed or shown."""

from pathlib import Path

import pytest

from regroup.mqtt.address import MqttAccess, MqttAddress, parse_mqtt


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
def test_an_address_is_read(text: str, address: MqttAddress) -> None:
    assert parse_mqtt(text) == address
    assert parse_mqtt(str(address)) == address


@pytest.mark.parametrize(
    "text", ["broker:1883", "http://broker", "mqtt://", "mqtt://broker:0", "mqtt://broker:99999", "mqtt://b?x=1", ""]
)
def test_what_is_no_address_is_explained(text: str) -> None:
    with pytest.raises(ValueError, match="write mqtt://HOST:PORT"):
        parse_mqtt(text)


def test_a_cluster_has_no_slash() -> None:
    with pytest.raises(ValueError, match="has no / in it"):
        parse_mqtt("mqtt://broker/one/two")


@pytest.mark.parametrize("text", ["mqtt://me:secret@broker", "mqtt://me@broker", "mqtts://:secret@broker:8883/main"])
def test_user_and_password_are_refused_in_an_address_and_not_repeated(text: str) -> None:
    with pytest.raises(ValueError, match="REGROUP_MQTT_PASSWORD") as refused:
        parse_mqtt(text)
    assert "secret" not in str(refused.value)


def test_the_environment_comes_before_the_settings() -> None:
    environment = {"REGROUP_MQTT_USERNAME": "anna", "REGROUP_MQTT_PASSWORD": "secret", "HOME": "/"}
    access = MqttAccess.from_settings(environment, {"username": "ben", "ca_file": "ca.pem"})
    assert access == MqttAccess(username="anna", password="secret", ca_file="ca.pem")
    assert "secret" not in repr(access)


@pytest.mark.parametrize(
    ("environment", "settings", "says"),
    [
        ({}, {"user": "anna"}, "no MQTT setting user; known are username"),
        ({}, {"username": 7}, "must be text"),
        ({"REGROUP_MQTT_PASSWORD": "secret"}, {}, "a password and no user|password and no user"),
    ],
)
def test_settings_that_do_not_fit_are_explained(
    environment: dict[str, str], settings: dict[str, object], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        MqttAccess.from_settings(environment, settings)


def test_certificates_without_encryption_are_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="write mqtts://"):
        MqttAccess(ca_file="ca.pem").tls_for(MqttAddress("broker", 1883))
    with pytest.raises(ValueError, match=r"missing\.pem cannot be used"):
        MqttAccess(ca_file=str(tmp_path / "missing.pem")).tls_for(MqttAddress("broker", 8883, True))
    assert MqttAccess().tls_for(MqttAddress("broker", 1883)) is None
