"""The commands with MQTT, as processes and as arguments."""

import asyncio
import os
import signal
import socket
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiomqtt
import msgspec
import pytest

from regroup.cli.main import main
from regroup.cli.watch.table import printable
from regroup.mqtt.address import MqttAddress
from tests.server.mqtt.harness import FeedListener, timeout
from tests.server.mqtt.mosquitto import free_port, needs_mosquitto

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
def test_invalid_arguments_are_explained_without_repeating_a_password(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(words)
    said = capsys.readouterr().err
    assert end.value.code == 2
    assert says in said
    assert "secret" not in said


def test_an_invalid_settings_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mqtt.toml"
    for text, says in [("username = ", "mqtt.toml"), ('user = "anna"', "settings: username"), ("username = 1", "text")]:
        file.write_text(text)
        assert main(["watch", "--mqtt", "mqtt://broker", "--mqtt-settings", str(file)]) == 2
        assert says in capsys.readouterr().err
    assert main(["watch", "--mqtt", "mqtt://broker", "--mqtt-settings", str(tmp_path / "none")]) == 2


def test_control_characters_are_escaped_for_the_terminal() -> None:
    assert printable("a\x1b[2Jb") == "a\\x1b[2Jb"


@asynccontextmanager
async def started(*words: str) -> AsyncIterator[Process]:
    """The process is killed at the end, if it still runs."""
    process = await asyncio.create_subprocess_exec(*REGROUP, *words, stdout=PIPE, stderr=DEVNULL)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


async def wait_for_line(process: Process, text: str) -> None:
    """Wait until the process has printed a line with this text."""
    assert process.stdout
    async with timeout():
        async for line in process.stdout:
            if text in line.decode():
                return
    raise AssertionError(f"the process ended without {text!r}")


REMOTE_COMMANDS = [
    ("dance", "unknown command 'dance'; write for example crash, pause 20s, slow 5s, leave, rejoin"),
    ("rejoin", "anna-1 is still running; crash it or let it leave first"),
    ("slow 2s", "anna-1: slow 2s"),
    ("crash", "anna-1: crash"),
    ("pause 20 s", "anna-1 has stopped; rejoin starts it again"),
    ("rejoin", "anna-1: rejoin"),
]


async def run(*words: str) -> tuple[int, str, str]:
    """The exit code, standard output and standard error of a command that ends by itself."""
    process = await asyncio.create_subprocess_exec(*REGROUP, *words, stdout=PIPE, stderr=PIPE)
    async with timeout():
        out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()


@pytest.mark.slow
@needs_mosquitto
async def test_watch_says_when_nobody_has_spoken(address: MqttAddress, tmp_path: Path) -> None:
    other = f"mqtt://{address.host}:{address.port}/other"
    code, _, said = await run("watch", "--mqtt", other, "--for", "3")
    assert (code, said.count("\n")) == (0, 1)
    assert "no coordinator has published anything as cluster other yet" in said
    serving = "serve", "--mqtt", str(address), "--port", "0", "--store", str(tmp_path / "g.db")
    async with started(*serving) as serve:
        await wait_for_line(serve, "feed on")
        _, _, said = await run("watch", "--mqtt", str(address), "--for", "1")
        assert not said
        _, _, said = await run("watch", "--mqtt", str(address), "--group", "nope", "--for", "1")
        assert "nothing was published about group 'nope' yet" in said


@pytest.mark.slow
async def test_watch_fails_if_it_never_connects() -> None:
    code, _, said = await run("watch", "--mqtt", f"mqtt://127.0.0.1:{free_port()}", "--for", "1")
    assert code == 2
    assert "never connected" in said
    assert "Errno" not in said


@pytest.mark.slow
async def test_serve_says_that_it_listens_when_everything_does(tmp_path: Path) -> None:
    """A script that waits for the line must not go on when the embedded MQTT broker cannot start."""
    pytest.importorskip("amqtt", reason="amqtt is not installed: pip install 'kafka-regroup[mqtt-broker]'")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        words = "--mqtt", f"embedded:{taken.getsockname()[1]}", "--port", "0", "--store", str(tmp_path / "g.db")
        code, out, said = await run("serve", *words)
    assert code == 2
    assert "the port is in use" in said
    assert not out
    assert not os.listdir(tmp_path), "no store is made"


@pytest.mark.slow
@needs_mosquitto
async def test_members_are_controlled_remotely_and_watched(address: MqttAddress, tmp_path: Path) -> None:
    over_mqtt = "--mqtt", str(address)
    serving = "--port", "0", "--store", str(tmp_path / "g.db"), "--set", "group.initial.rebalance.delay.ms=0"
    joining = "--group", "g", "--topic", "orders", "--count", "2", "--heartbeat-interval", "1s"
    async with (
        started("serve", *over_mqtt, *serving, "--topic", "orders:4") as serve,
        started("watch", *over_mqtt, "--events", "--from-start") as watch,
        started("members", *over_mqtt, *joining, "--mqtt-name", "anna", "--mqtt-control") as members,
    ):
        await wait_for_line(serve, "listening on")
        await wait_for_line(serve, f"feed on {address}")
        for _ in range(2):
            await wait_for_line(members, "was assigned orders")
        await wait_for_line(watch, "generation-started")
        async with aiomqtt.Client(address.host, address.port) as remote:
            await remote.subscribe("regroup/main/members/+/answers", qos=1)
            for text, answer in REMOTE_COMMANDS:
                await remote.publish("regroup/main/members/anna-1/control", text, qos=1)
                async with timeout():
                    assert (await anext(remote.messages)).payload == answer.encode()
        await wait_for_line(watch, "the connection of anna-1 (anna-1-")
        for process in (members, watch, serve):
            process.send_signal(signal.SIGTERM)
            async with timeout():
                await process.communicate()
            assert process.returncode == 0


@needs_mosquitto
async def test_a_killed_coordinator_is_announced_and_its_feed_continues_after_a_restart(
    address: MqttAddress, tmp_path: Path
) -> None:
    words = ["serve", "--port", "0", "--store", str(tmp_path / "g.db"), "--mqtt", str(address), "--log-level", "error"]
    async with aiomqtt.Client(address.host, address.port) as client, FeedListener(address).listening() as reader:
        await client.subscribe("regroup/main/coordinator", qos=1)
        for number, topic in enumerate(("orders:3", "payments:3"), 1):
            async with timeout(), started(*words, "--topic", topic) as serve:
                assert b'"online"' in (await anext(client.messages)).payload
                await reader.wait_for_events(number)
                serve.kill()
                assert b'"lost"' in (await anext(client.messages)).payload
        names = [msgspec.json.decode(event.payload)["name"] for event in reader.events[None]]
    assert names == ["orders", "payments"]
