"""Chaos by remote control: a word on `regroup/{cluster}/members/{name}/control` breaks a member, from any MQTT client.

    crash       falls silent for ever, and its connection breaks
    pause 20s   falls silent for so long (20 s unless told), then goes on
    slow 5s     from now on it is so late (5 s unless told) when a rebalance asks for it; slow 1ms ends that
    leave       leaves politely
    rejoin      comes back, after it crashed or left

What became of it is said on `…/answers`.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import aiomqtt

from regroup.members.faults import duration_text, parse_duration_ms
from regroup.mqtt.topics import Topics

MOST_BYTES: Final = 200


class Word(StrEnum):
    """What a member can be told."""

    CRASH = "crash"
    PAUSE = "pause"
    SLOW = "slow"
    LEAVE = "leave"
    REJOIN = "rejoin"


USUAL_MS: Final = {Word.PAUSE: 20_000, Word.SLOW: 5_000}
KNOWN: Final = "crash, pause 20s, slow 5s, leave, rejoin"
_COMMAND: Final = re.compile(r"([a-z]+)(?:[ :]\s*(\S.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Command:
    """`milliseconds` for pause and slow."""

    word: Word
    milliseconds: int | None = None

    def __str__(self) -> str:
        return self.word if self.milliseconds is None else f"{self.word} {duration_text(self.milliseconds)}"


def parse_command(payload: bytes) -> Command:
    """`pause 20 s`, `pause 20s`, `crash`. ValueError says what is possible."""
    if len(payload) > MOST_BYTES:
        raise ValueError(f"a command of {len(payload)} bytes; known are {KNOWN}")
    text = payload.decode(errors="replace").strip().lower()
    match = _COMMAND.fullmatch(text)
    if match is None or match[1] not in list(Word):
        raise ValueError(f"{text[:40]!r} is no command; known are {KNOWN}")
    word = Word(match[1])
    if word not in USUAL_MS:
        if match[2]:
            raise ValueError(f"{word} takes no time; known are {KNOWN}")
        return Command(word)
    milliseconds = parse_duration_ms(match[2].replace(" ", "")) if match[2] else USUAL_MS[word]
    if milliseconds == 0:
        raise ValueError(f"{word} takes some time, for example {word} 20s")
    return Command(word, milliseconds)


class RemoteControl:
    """Listens for the members of one process. `obey(name, command)` says what became of it; ValueError is said, too."""

    def __init__(self, cluster: str, names: Sequence[str], obey: Callable[[str, Command], str]) -> None:
        self._topics = Topics(cluster)
        self._names = names
        self._obey = obey

    async def session(self, client: aiomqtt.Client) -> None:
        """For `MqttLink.run`."""
        names = {self._topics.member(name, "control"): name for name in self._names}
        await client.subscribe([(topic, 1) for topic in names])
        async for message in client.messages:
            # A command that lay there retained was meant for somebody else, long ago.
            name = names.get(message.topic.value)
            if name is not None and not message.retain and isinstance(message.payload, bytes):
                await self._hear(client, name, message.payload)

    async def _hear(self, client: aiomqtt.Client, name: str, payload: bytes) -> None:
        try:
            answer = self._obey(name, parse_command(payload))
        except ValueError as error:
            answer = str(error)
        await client.publish(self._topics.member(name, "answers"), answer.encode(), qos=1)
