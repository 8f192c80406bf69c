"""TLS and passwords, against a real Mosquitto and the embedded broker."""

import gc
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from regroup.coordinator.settings import InvalidSetting
from regroup.mqtt.address import MqttAccess, MqttAddress
from regroup.server.mqtt.embedded import embedded_broker
from regroup.server.mqtt.service import MqttService
from tests.server.mqtt.harness import commit, new_incarnation, running_cluster, wait_until
from tests.server.mqtt.mosquitto import MOSQUITTO, Mosquitto, free_port

ACCESS = MqttAccess(username="anna", password="secret")


@pytest.fixture
def secure_broker(tmp_path: Path) -> Iterator[tuple[Mosquitto, Path]]:
    """A broker with TLS and one user, and the certificate of its authority, made for this test."""
    if MOSQUITTO is None or not shutil.which("openssl") or not shutil.which("mosquitto_passwd"):
        pytest.skip("there is no mosquitto, or no openssl")
    certificate, key, passwords = (tmp_path / name for name in ("cert.pem", "key.pem", "passwords"))
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    words += ["-keyout", str(key), "-out", str(certificate), "-days", "2", "-subj", "/CN=localhost"]
    subprocess.run([*words, "-addext", "subjectAltName=DNS:localhost"], check=True, capture_output=True)
    subprocess.run(["mosquitto_passwd", "-c", "-b", passwords, "anna", "secret"], check=True, capture_output=True)
    for file in (key, passwords):
        file.chmod(0o644)  # started by root, Mosquitto reads them as another user
    tmp_path.chmod(0o755)
    lines = ["allow_anonymous false", f"password_file {passwords}", f"certfile {certificate}", f"keyfile {key}"]
    broker = Mosquitto(tmp_path, *lines, "user root").start()
    yield broker, certificate
    broker.kill()


async def connection_error(address: MqttAddress, access: MqttAccess) -> str:
    """The reason in the log why the feed cannot connect; empty if it can."""
    with capture_logs() as lines:
        async with running_cluster() as cluster:
            service = MqttService(cluster, address, access, new_incarnation=new_incarnation)
            await service.start()
            commit(cluster, "payments")
            await wait_until(
                lambda: service.feed.position == 2 or [each for each in lines if each["event"] == "mqtt-connection"]
            )
            await service.stop()
    return " ".join(str(each["reason"]) for each in lines if each["event"] == "mqtt-connection")


# Where the handshake fails, paho leaves the socket to the garbage collector.
@pytest.mark.filterwarnings("ignore:unclosed <ssl.SSLSocket:ResourceWarning")
async def test_connecting_needs_the_right_certificate_and_password(
    secure_broker: tuple[Mosquitto, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, certificate = secure_broker
    address = MqttAddress("localhost", broker.port, is_encrypted=True)
    trusting = replace(ACCESS, ca_file=str(certificate))
    assert await connection_error(address, trusting) == ""
    assert "REGROUP_MQTT_PASSWORD" in await connection_error(address, replace(trusting, password="wrong"))
    assert "REGROUP_MQTT_PASSWORD" in await connection_error(address, replace(trusting, username=None, password=None))
    assert "certificate verify failed" in await connection_error(address, ACCESS), (
        "this machine does not trust its authority"
    )
    other_name = replace(address, host="127.0.0.1")
    assert "certificate verify failed" in await connection_error(other_name, trusting), "it is for localhost"
    monkeypatch.setattr("regroup.mqtt.link.MQTT_TIMEOUT_S", 1.0)  # there is no response
    assert await connection_error(replace(address, is_encrypted=False), ACCESS), (
        "an encrypted port accepts no plain connection"
    )
    gc.collect()


async def test_encryption_uses_current_tls_versions(secure_broker: tuple[Mosquitto, Path]) -> None:
    broker, certificate = secure_broker
    context = MqttAccess(ca_file=str(certificate)).tls_context(MqttAddress("localhost", broker.port, is_encrypted=True))
    assert context
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


async def test_the_embedded_broker_serves_the_feed_and_requires_its_password() -> None:
    pytest.importorskip("amqtt", reason="amqtt is not installed: pip install amqtt")
    address = MqttAddress("127.0.0.1", free_port())
    async with embedded_broker("127.0.0.1", address.port, ACCESS):
        assert await connection_error(address, ACCESS) == ""
        assert await connection_error(address, replace(ACCESS, password="wrong"))
        assert await connection_error(address, MqttAccess())
    async with embedded_broker("127.0.0.1", address.port, MqttAccess()):
        assert await connection_error(address, MqttAccess()) == ""


async def test_an_embedded_broker_names_the_port_that_is_in_use() -> None:
    pytest.importorskip("amqtt", reason="amqtt is not installed: pip install amqtt")
    port = free_port()
    async with embedded_broker("127.0.0.1", port, MqttAccess()):
        with pytest.raises(InvalidSetting, match="embedded:PORT"):
            async with embedded_broker("127.0.0.1", port, MqttAccess()):
                pass
