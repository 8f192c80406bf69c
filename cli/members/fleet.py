"""The members of one `regroup members`, with their transports and producers."""

import argparse
import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from rich.console import Console

from regroup.cli.members.mqtt import OverMqtt
from regroup.cli.members.table import line_about
from regroup.cli.terminal.text import printable
from regroup.members.consumer.effects import Change, ConsumerError, JoinedGroup
from regroup.members.consumer.inputs import Subscribe
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.faults import Habit
from regroup.members.producer.producer import Producer
from regroup.members.runtime.member import Member
from regroup.members.runtime.workload import Ledger, Workload
from regroup.members.transports.mqtt import MqttTransport
from regroup.members.transports.tcp import TcpTransport

CLOSE_PATIENCE_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What was asked for, checked."""

    args: argparse.Namespace
    settings: tuple[ConsumerSettings, ...]
    habits: tuple[tuple[Habit, ...], ...]
    subscription: Subscribe
    workload: Workload


@dataclass(slots=True)
class Company:
    """All members of one run, with what they need."""

    plan: Plan
    console: Console
    epoch_ms: int
    mqtt: OverMqtt | None = None
    members: list[Member] = field(default_factory=list)
    transports: list[TcpTransport] = field(default_factory=list)
    producers: list[Producer] = field(default_factory=list)
    somebody_joined: bool = False
    ledger: Ledger = field(init=False)

    def __post_init__(self) -> None:
        self.ledger = Ledger(self.plan.workload.late_after_ms)
        for place, (settings, habits) in enumerate(zip(self.plan.settings, self.plan.habits, strict=True)):
            self.transports.append(self._transport(settings.client_id, place))
            self.members.append(self._member(place, habits))
        if self.plan.workload.records_per_s:
            for draw, topic in enumerate(self.plan.subscription.topics):
                transport = self._transport("regroup-producer")
                self.transports.append(transport)
                self.producers.append(Producer(transport, topic, self.plan.workload, draw=draw, now_ms=self.now_ms))

    def _member(self, place: int, habits: tuple[Habit, ...] = ()) -> Member:
        transport = self.transports[place]
        return Member(
            str(place + 1),
            self.plan.settings[place],
            transport,
            self.plan.subscription,
            habits=habits,
            workload=self.plan.workload,
            ledger=self.ledger,
            observe=self._observe,
            dies=lambda name: transport.crash() if isinstance(transport, MqttTransport) else None,
            epoch_ms=self.epoch_ms,
        )

    def begin_anew(self, place: int) -> None:
        """A new member in place of one that is gone."""
        self.members[place] = self._member(place)
        self.members[place].start()

    def now_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000) + self.epoch_ms

    def _transport(self, client_id: str, place: int | None = None) -> TcpTransport:
        """That of a member has its place; a producer has none."""
        if self.mqtt is not None:
            return self.mqtt.transport(client_id, place)
        return TcpTransport(self.plan.args.bootstrap, client_id=client_id)

    def _observe(self, name: str, happening: Change | ConsumerError) -> None:
        self.somebody_joined |= isinstance(happening, JoinedGroup)
        line = line_about(happening)
        if line and not self.console.is_terminal:
            self.console.print(printable(f"{time.strftime('%H:%M:%S')} member {name} {line}"), soft_wrap=True)

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        for place, member in enumerate(self.members):
            loop.call_later(place * self.plan.args.every / 1000, member.start)
        for producer in self.producers:
            producer.start()
        if self.mqtt is not None:
            self.mqtt.open_control(self)

    async def close(self) -> None:
        for producer in self.producers:
            producer.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_PATIENCE_S):
                await asyncio.gather(*(member.close() for member in self.members))
        await asyncio.gather(*(transport.close() for transport in self.transports))
        if self.mqtt is not None:
            await self.mqtt.close()

    @property
    def is_over(self) -> bool:
        """Members under remote control may be called back, so that is never the end."""
        return all(member.is_over for member in self.members) and not self.plan.args.mqtt_control
