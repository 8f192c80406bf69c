"""Commands for members that come over MQTT: which ones are understood, and what is answered."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiomqtt
import pytest

from regroup.members.runtime.remote_control import RemoteCommand, RemoteCommandKind, RemoteControl, parse_remote_command


@pytest.mark.parametrize(
    ("text", "command"),
    [
        (b"crash", RemoteCommand(RemoteCommandKind.CRASH)),
        (b" Pause 20 s\n", RemoteCommand(RemoteCommandKind.PAUSE, 20_000)),
        (b"pause:500ms", RemoteCommand(RemoteCommandKind.PAUSE, 500)),
        (b"pause", RemoteCommand(RemoteCommandKind.PAUSE, 20_000)),
        (b"slow", RemoteCommand(RemoteCommandKind.SLOW, 5_000)),
        (b"slow 1m", RemoteCommand(RemoteCommandKind.SLOW, 60_000)),
        (b"leave", RemoteCommand(RemoteCommandKind.LEAVE)),
        (b"rejoin", RemoteCommand(RemoteCommandKind.REJOIN)),
    ],
)
def test_a_command_is_parsed(text: bytes, command: RemoteCommand) -> None:
    assert parse_remote_command(text) == command


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "unknown command ''; write for example crash, pause 20s, slow 5s, leave, rejoin"),
        (b"dance", "unknown command 'dance'"),
        (b"\xff\x00", "unknown command"),
        (b"crash 20s", "crash takes no duration"),
        (b"pause soon", "invalid duration: 'soon'"),
        (b"pause 0s", "pause needs a duration above 0, for example pause 20s"),
        (b"slow 0s", "slow needs a duration above 0"),
    ],
)
def test_an_invalid_command_is_explained(text: bytes, says: str) -> None:
    with pytest.raises(ValueError, match=r".+") as raised:
        parse_remote_command(text)
    assert says in str(raised.value)


def test_a_command_has_at_most_200_bytes() -> None:
    assert parse_remote_command(b"pause 20s".ljust(200)) == RemoteCommand(RemoteCommandKind.PAUSE, 20_000)
    with pytest.raises(ValueError, match="a command of 201 bytes is too long; write for example crash"):
        parse_remote_command(b"pause 20s".ljust(201))


class FakeClient:
    """An MQTT client that has received these messages: the topic, the payload, and whether it was retained."""

    def __init__(self, *received: tuple[str, bytes, bool]) -> None:
        self._received = received
        self.subscribed: list[str] = []
        self.published: list[tuple[str, bytes]] = []

    async def subscribe(self, topics: list[tuple[str, int]]) -> None:
        self.subscribed += [topic for topic, _ in topics]

    @property
    async def messages(self) -> AsyncIterator[aiomqtt.Message]:
        for topic, payload, is_retained in self._received:
            yield aiomqtt.Message(topic, payload, 1, is_retained, 1, None)

    async def publish(self, topic: str, payload: bytes, *, qos: int) -> None:
        self.published.append((topic, payload))


def test_each_command_is_answered_once_to_the_member_that_it_was_sent_to() -> None:
    def execute(name: str, command: RemoteCommand) -> str:
        if command.kind is RemoteCommandKind.REJOIN:
            raise ValueError(f"{name} is running")
        return f"{name}: {command}"

    topic = "regroup/main/members/{}/control".format
    client: Any = FakeClient(
        (topic("anna"), b"pause", False),
        (topic("ben"), b"rejoin", False),
        (topic("anna"), b"dance", False),
        (topic("anna"), b"crash", True),  # it was meant for an earlier member of that name
        (topic("carla"), b"crash", False),
    )
    asyncio.run(RemoteControl("main", ("anna", "ben"), execute).session(client))
    assert client.subscribed == [topic("anna"), topic("ben")]
    assert client.published == [
        ("regroup/main/members/anna/answers", b"anna: pause 20s"),
        ("regroup/main/members/ben/answers", b"ben is running"),
        (
            "regroup/main/members/anna/answers",
            b"unknown command 'dance'; write for example crash, pause 20s, slow 5s, leave, rejoin",
        ),
    ]
