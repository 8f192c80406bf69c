"""The commands that speak MQTT, as processes and as words."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import aiomqtt
import msgspec
import pytest

from regroup.cli.main import main
from regroup.cli.watch_table import printable
from regroup.members.mqtt_address import MqttAddress
from regroup.tests.mqtt.brokers import needs_mosquitto
from regroup.tests.mqtt.playing import Reader, until

REGROUP = [sys.executable, "-m", "regroup.cli"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["serve", "--mqtt", "mqtt://anna:secret@broker"], "REGROUP_MQTT_PASSWORD"),
        (["watch", "--mqtt", "mqtts://anna:secret@broker"], "REGROUP_MQTT_PASSWORD"),
        (["members", "--mqtt", "mqtt://:secret@b", "--group", "g", "--topic", "t"], "REGROUP_MQTT_PASSWORD"),
        (["serve", "--mqtt", "broker"], "mqtt://HOST:PORT"),
        (["serve", "--mqtt", "embedded:0"], "embedded:1884"),
        (["members", "--mqtt", "mqtt://b", "--bootstrap", "b:1", "--group", "g", "--topic", "t"], "not allowed with"),
    ],
)
def test_what_is_typed_wrong_is_explained_and_no_password_is_repeated(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(words)
    said = capsys.readouterr().err
    assert end.value.code == 2
    assert says in said
    assert "secret" not in said


def test_a_file_of_settings_that_cannot_be_used_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mqtt.toml"
    for text, says in [("username = ", "mqtt.toml"), ('user = "anna"', "known are username"), ("username = 1", "text")]:
        file.write_text(text)
        assert main(["watch", "--mqtt", "mqtt://broker", "--mqtt-settings", str(file)]) == 2
        assert says in capsys.readouterr().err
    assert main(["watch", "--mqtt", "mqtt://broker", "--mqtt-settings", str(tmp_path / "none")]) == 2


def test_a_terminal_is_not_sent_what_it_would_obey() -> None:
    assert printable("a\x1b[2Jb") == "a\\x1b[2Jb"


async def start(*words: str, **more: object) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(*REGROUP, *words, stdout=subprocess.PIPE, **more)  # type: ignore[arg-type]  # mypy cannot look into them


@needs_mosquitto
async def test_a_class_breaks_a_group_from_a_phone(address: MqttAddress, tmp_path: Path) -> None:
    serve = await start(
        "serve", "--port", "0", "--store", str(tmp_path / "g.db"), "--topic", "orders:4", "--mqtt", str(address),
        "--set", "group.initial.rebalance.delay.ms=0", stderr=subprocess.DEVNULL,
    )  # fmt: skip
    watch = await start("watch", "--mqtt", str(address), "--events")
    members = await start(
        "members", "--mqtt", str(address), "--group", "g", "--topic", "orders", "--count", "2", "--mqtt-name", "anna",
        "--mqtt-control", "--heartbeat-interval", "1s", stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert serve.stdout
    assert members.stdout
    assert (await serve.stdout.readline()).startswith(b"listening on")
    assert (await serve.stdout.readline()).decode().strip() == f"feed on {address}"
    joined = 0
    async with asyncio.timeout(20):
        while joined < 2:
            joined += b"was assigned orders" in await members.stdout.readline()
    async with aiomqtt.Client(address.host, address.port) as phone:
        await phone.subscribe("regroup/main/members/+/answers", qos=1)
        answers = aiter(phone.messages)
        for text, answer in [
            ("dance", "'dance' is no command; known are crash, pause 20s, slow 5s, leave, rejoin"),
            ("rejoin", "anna-1 is there still: let it crash or leave first"),
            ("slow 2s", "anna-1: slow 2s"),
            ("crash", "anna-1: crash"),
            ("pause 20 s", "anna-1 is gone; rejoin brings it back"),
            ("rejoin", "anna-1: rejoin"),
        ]:
            await phone.publish("regroup/main/members/anna-1/control", text, qos=1)
            async with asyncio.timeout(10):
                assert (await anext(answers)).payload == answer.encode()
    for process in (members, watch, serve):
        process.send_signal(signal.SIGTERM)
        seen, _ = await asyncio.wait_for(process.communicate(), 15)
        assert process.returncode == 0
        if process is watch:
            lines = seen.decode()
    assert "generation-started" in lines
    assert "the connection of anna-1 (regroup-1-" in lines


@needs_mosquitto
async def test_a_coordinator_that_is_killed_is_announced_and_its_feed_goes_on(
    address: MqttAddress, tmp_path: Path
) -> None:
    words = ["serve", "--port", "0", "--store", str(tmp_path / "g.db"), "--mqtt", str(address), "--log-level", "error"]
    async with aiomqtt.Client(address.host, address.port) as client, Reader(address).listening() as reader:
        await client.subscribe("regroup/main/coordinator", qos=1)
        presences = aiter(client.messages)
        for told, topic in enumerate(("orders:3", "payments:3")):
            serve = await start(*words, "--topic", topic)
            async with asyncio.timeout(10):
                assert b'"here"' in (await anext(presences)).payload
                await until(lambda told=told: len(reader.events[None]) > told)
                serve.kill()
                assert b'"died"' in (await anext(presences)).payload
            await serve.communicate()
        names = [msgspec.json.decode(event.payload)["name"] for event in reader.events[None]]
    assert names == ["orders", "payments"]
