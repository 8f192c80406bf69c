"""A Mosquitto for each test, killed at its end."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from regroup.mqtt.address import MqttAddress
from tests.server.mqtt.mosquitto import MOSQUITTO, Mosquitto


@pytest.fixture
def mosquitto(tmp_path: Path) -> Iterator[Mosquitto]:
    if MOSQUITTO is None:
        pytest.skip("there is no mosquitto (Debian: apt-get install mosquitto)")
    broker = Mosquitto(tmp_path).start()
    yield broker
    broker.kill()


@pytest.fixture
def address(mosquitto: Mosquitto) -> MqttAddress:
    return MqttAddress("127.0.0.1", mosquitto.port)
