"""Remote control of members over MQTT: commands on the topic `regroup/{cluster}/members/{name}/control`.

    crash       stops for good, and its connection breaks
    pause 20s   stops for so long (20 s if no duration is given), then goes on
    slow 5s     from now on joins each rebalance so late (5 s if no duration is given); slow 1ms ends that
    leave       closes its consumer, which leaves the group
    rejoin      starts again, after it crashed or left

The result of each command is published on `…/answers`.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import aiomqtt

from regroup.mqtt.topics import MqttTopics
from regroup.notation.durations import format_duration, parse_duration_ms

MAX_COMMAND_BYTES: Final = 200


class RemoteCommandKind(StrEnum):
    """The kind of a command for a member: its first word."""

    CRASH = "crash"
    PAUSE = "pause"
    SLOW = "slow"
    LEAVE = "leave"
    REJOIN = "rejoin"


DEFAULT_DURATIONS_MS: Final = {RemoteCommandKind.PAUSE: 20_000, RemoteCommandKind.SLOW: 5_000}
COMMAND_EXAMPLES: Final = "crash, pause 20s, slow 5s, leave, rejoin"
_COMMAND: Final = re.compile(r"([a-z]+)(?:[ :]\s*(\S.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class RemoteCommand:
    """A command for one member. `duration_ms` is for `pause` and `slow` only."""

    kind: RemoteCommandKind
    duration_ms: int | None = None

    def __str__(self) -> str:
        return self.kind if self.duration_ms is None else f"{self.kind} {format_duration(self.duration_ms)}"


def parse_remote_command(payload: bytes) -> RemoteCommand:
    """Parse a command, in any of the forms `pause 20 s`, `pause:20s`, `Crash`, ….

    Raises ValueError for any other payload.
    """
    if len(payload) > MAX_COMMAND_BYTES:
        raise ValueError(f"a command of {len(payload)} bytes is too long; write for example {COMMAND_EXAMPLES}")
    text = payload.decode(errors="replace").strip().lower()
    match = _COMMAND.fullmatch(text)
    if match is None or match[1] not in list(RemoteCommandKind):
        raise ValueError(f"unknown command {text[:40]!r}; write for example {COMMAND_EXAMPLES}")
    kind = RemoteCommandKind(match[1])
    if kind not in DEFAULT_DURATIONS_MS:
        if match[2]:
            raise ValueError(f"{kind} takes no duration; write for example {COMMAND_EXAMPLES}")
        return RemoteCommand(kind)
    duration_ms = parse_duration_ms(match[2].replace(" ", "")) if match[2] else DEFAULT_DURATIONS_MS[kind]
    if duration_ms == 0:
        raise ValueError(f"{kind} needs a duration above 0, for example {kind} 20s")
    return RemoteCommand(kind, duration_ms)


class RemoteControl:
    """Receives the commands for the members of one process, and publishes the result of each.

    `execute(name, command)` returns a text that says what was done; the text of a ValueError is published as well.
    """

    def __init__(self, cluster: str, names: Sequence[str], execute: Callable[[str, RemoteCommand], str]) -> None:
        self._topics = MqttTopics(cluster)
        self._names = names
        self._execute = execute

    async def session(self, client: aiomqtt.Client) -> None:
        """Handle the commands of one connection to the MQTT broker. `MqttLink.run` calls this for each connection."""
        names = {self._topics.member(name, "control"): name for name in self._names}
        await client.subscribe([(topic, 1) for topic in names])
        async for message in client.messages:
            # A retained command was meant for an earlier member of that name.
            name = names.get(message.topic.value)
            if name is not None and not message.retain and isinstance(message.payload, bytes):
                await self._handle(client, name, message.payload)

    async def _handle(self, client: aiomqtt.Client, name: str, payload: bytes) -> None:
        try:
            answer = self._execute(name, parse_remote_command(payload))
        except ValueError as error:
            answer = str(error)
        await client.publish(self._topics.member(name, "answers"), answer.encode(), qos=1)
