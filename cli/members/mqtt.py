"""The part of `regroup members` that speaks MQTT: transports, names, and the remote control."""

import argparse
import asyncio
import os
import socket
import sys
from collections.abc import Callable
from typing import Protocol
from uuid import uuid4

from regroup.cli.mqtt_arguments import access_for, add_mqtt_settings, mqtt_address
from regroup.cli.terminal.output import complain
from regroup.members.faults import Habit, Kind
from regroup.members.runtime.member import Member
from regroup.members.runtime.remote_control import Command, RemoteControl, Word
from regroup.members.transports.mqtt import MqttTransport
from regroup.mqtt.link import MqttLink, cancelled
from regroup.mqtt.topics import Topics


class Company(Protocol):
    """The members of one run, as the remote control needs them. Places begin with 0."""

    members: list[Member]

    def begin_anew(self, place: int) -> None:
        """A new member in place of one that is gone."""


def add_arguments(parser: argparse.ArgumentParser, where: argparse._MutuallyExclusiveGroup) -> None:
    where.add_argument("--mqtt", metavar="URL", type=mqtt_address, help="join over this MQTT broker instead")
    add_mqtt_settings(parser)
    parser.add_argument(
        "--mqtt-name",
        metavar="NAME",
        help="the members' names on MQTT, with -1, -2, … behind (default: this machine's name and the process number)",
    )
    parser.add_argument(
        "--mqtt-control",
        action="store_true",
        help="let anybody on the MQTT broker say crash, pause 20s, slow 5s, leave or rejoin to a member",
    )


class OverMqtt:
    """What the members of one process need of MQTT. InvalidSetting if user, password or certificates do not fit."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.address = args.mqtt
        self._access = access_for(args.mqtt, args.mqtt_settings)
        self._prefix = args.mqtt_name or f"{socket.gethostname()}-{os.getpid()}"
        self._names = [f"{self._prefix}-{place + 1}" for place in range(args.count)]
        self._controls = args.mqtt_control
        self._control: asyncio.Task[None] | None = None
        self._told: dict[str, None] = {}

    def transport(self, client_id: str, place: int | None) -> MqttTransport:
        """One connection to the MQTT broker, with a last will of its own. A producer has no place among the members."""
        name = f"{self._prefix}-producer-{_new()[:8]}" if place is None else self._names[place]
        return MqttTransport(
            self.address, self._access, name, new_incarnation=_new, client_id=client_id, tell=self._tell
        )

    def _tell(self, trouble: str) -> None:
        """All members lose the same broker in the same moment; one line is enough."""
        if trouble not in self._told:
            complain("members", trouble)
            self._told = {trouble: None}

    def open_control(self, company: Company) -> None:
        """Listen for commands, if that was asked for."""
        if self._controls:
            obey = Obedience(company, self._names)
            control = RemoteControl(self.address.cluster, self._names, obey)
            for name in self._names:
                print(f"remote control: {Topics(self.address.cluster).member(name, 'control')}", file=sys.stderr)
            link = MqttLink(self.address, self._access, tell=self._tell)
            self._control = asyncio.create_task(link.run(control.session), name="remote control")

    async def close(self) -> None:
        if self._control is not None:
            await cancelled(self._control)


def _new() -> str:
    return uuid4().hex


class Obedience:
    """Carries out what a member is told; returns what became of it, for whoever said it."""

    def __init__(self, company: Company, names: list[str]) -> None:
        self._company = company
        self._places = {name: place for place, name in enumerate(names)}

    def __call__(self, name: str, command: Command) -> str:
        place = self._places[name]
        member = self._company.members[place]
        if command.word is Word.REJOIN:
            if not member.is_over:
                raise ValueError(f"{name} is there still: let it crash or leave first")
            self._company.begin_anew(place)
        elif member.is_over:
            raise ValueError(f"{name} is gone; rejoin brings it back")
        else:
            member.misbehave(HABITS[command.word](command))
        return f"{name}: {command}"


HABITS: dict[Word, Callable[[Command], Habit]] = {
    Word.CRASH: lambda command: Habit(Kind.CRASH),
    Word.LEAVE: lambda command: Habit(Kind.LEAVE),
    Word.PAUSE: lambda command: Habit(Kind.PAUSE, command.milliseconds),
    Word.SLOW: lambda command: Habit(Kind.SLOW_JOIN, command.milliseconds),
}
