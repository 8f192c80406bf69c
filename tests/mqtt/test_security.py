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
from tests.mqtt.brokers import FOUND, Mosquitto, free_port
from tests.mqtt.playing import commit, emulating, new_incarnation, until

ANNA = MqttAccess(username="anna", password="secret")


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[tuple[Mosquitto, Path]]:
    """TLS with a throw-away certificate for localhost, one user; and who signed the certificate."""
    if FOUND is None or not shutil.which("openssl") or not shutil.which("mosquitto_passwd"):
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


async def said(address: MqttAddress, access: MqttAccess) -> str:
    """The line in the log when the feed cannot get in; empty if it can."""
    with capture_logs() as lines:
        async with emulating() as emulator:
            service = MqttService(emulator, address, access, new_incarnation=new_incarnation)
            await service.start()
            commit(emulator, "payments")
            await until(lambda: service.feed.position == 2 or [each for each in lines if each["event"] == "mqtt"])
            await service.stop()
    return " ".join(str(each["what"]) for each in lines if each["event"] == "mqtt")


# Where the handshake fails, paho leaves the socket to the garbage collector.
@pytest.mark.filterwarnings("ignore:unclosed <ssl.SSLSocket:ResourceWarning")
async def test_only_with_the_right_certificate_and_password(
    guarded: tuple[Mosquitto, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, certificate = guarded
    address = MqttAddress("localhost", broker.port, is_encrypted=True)
    trusting = replace(ANNA, ca_file=str(certificate))
    assert await said(address, trusting) == ""
    assert "REGROUP_MQTT_PASSWORD" in await said(address, replace(trusting, password="wrong"))
    assert "REGROUP_MQTT_PASSWORD" in await said(address, replace(trusting, username=None, password=None))
    assert "certificate verify failed" in await said(address, ANNA), "nobody this machine trusts has signed it"
    other_name = replace(address, host="127.0.0.1")
    assert "certificate verify failed" in await said(other_name, trusting), "it is for localhost"
    monkeypatch.setattr("regroup.mqtt.link.TIMEOUT_S", 1.0)  # nobody answers there
    assert await said(replace(address, is_encrypted=False), ANNA), "an encrypted port takes nothing else"
    gc.collect()


async def test_encryption_has_todays_versions(guarded: tuple[Mosquitto, Path]) -> None:
    broker, certificate = guarded
    context = MqttAccess(ca_file=str(certificate)).tls_for(MqttAddress("localhost", broker.port, is_encrypted=True))
    assert context
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


async def test_the_embedded_broker_serves_the_feed_and_asks_for_the_password_that_it_was_given() -> None:
    pytest.importorskip("amqtt", reason="amqtt is not installed: pip install 'kafka-regroup[mqtt-broker]'")
    address = MqttAddress("127.0.0.1", free_port())
    async with embedded_broker("127.0.0.1", address.port, ANNA):
        assert await said(address, ANNA) == ""
        assert await said(address, replace(ANNA, password="wrong"))
        assert await said(address, MqttAccess())
    async with embedded_broker("127.0.0.1", address.port, MqttAccess()):
        assert await said(address, MqttAccess()) == ""


async def test_an_embedded_broker_without_a_port_says_which() -> None:
    pytest.importorskip("amqtt", reason="amqtt is not installed: pip install 'kafka-regroup[mqtt-broker]'")
    port = free_port()
    async with embedded_broker("127.0.0.1", port, MqttAccess()):
        with pytest.raises(InvalidSetting, match="embedded:PORT"):
            async with embedded_broker("127.0.0.1", port, MqttAccess()):
                pass
