"""The members of a simulated world: each on a host of its own, known by a name, coming and going as the plan says."""

import asyncio
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final

from regroup.lab.checker.judge import Judge
from regroup.lab.plan.plan import MemberPlan, Plan
from regroup.lab.plan.validation import consumer_settings
from regroup.lab.simulation.brokers import Brokers
from regroup.lab.simulation.network import Network
from regroup.lab.simulation.virtual_clock import BEGIN_MS
from regroup.members.consumer.effects import Change, ConsumerError, JoinedGroup
from regroup.members.consumer.inputs import Subscribe
from regroup.members.faults import Habit, Kind, parse_habit
from regroup.members.producer.producer import Producer
from regroup.members.runtime.member import Member
from regroup.members.runtime.workload import Ledger
from regroup.members.transports.tcp import TcpTransport

Observe = Callable[[str, Change | ConsumerError], None]
PRODUCER: Final = "the producer"
SPOIL_DEALING: Final = frozenset({Kind.ASSIGNOR_DOUBLES, Kind.ASSIGNOR_FORGETS})


class Company:
    """Members by name. One that crashed or left may join again, as a new process under the same name."""

    def __init__(
        self,
        plan: Plan,
        network: Network,
        brokers: Brokers,
        chance: Random,
        observe: Observe,
        gone: Callable[[str], None],
        judge: Judge | None,
    ) -> None:
        self.members: dict[str, Member] = {}
        self._judge = judge
        self._ledger = Ledger(plan.workload.late_after_ms)
        self._former: list[Member] = []
        self._plan, self._network, self._brokers = plan, network, brokers
        self._chance = chance
        self._tell, self._gone = observe, gone
        self._names: dict[str, str] = {}
        self._transports: list[TcpTransport] = []
        self._producers: list[Producer] = []

    @property
    def reads(self) -> bool:
        """Whether there are records to read at all."""
        return self._plan.workload.records_per_s > 0

    def knows(self, member_id: str, name: str) -> None:
        """Somebody was admitted under this id, and may never hear of it."""
        self._names.setdefault(member_id, name)

    def name_of(self, member_id: str) -> str | None:
        """Whose member id this is, or was."""
        return self._names.get(member_id)

    def errors_of(self, name: str) -> list[int]:
        """The error codes that a member was answered with, in all its lives."""
        lives = [*self._former, *self.members.values()]
        return list(dict.fromkeys(code for member in lives if member.name == name for code in member.errors_seen))

    @property
    def processed_twice(self) -> int:
        """Of all members, how often a record was processed that somebody had processed before."""
        return sum(member.view.twice for member in [*self._former, *self.members.values()])

    def living(self, group: str) -> dict[str, Member]:
        """Those of a group that have joined the run and are not over."""
        return {
            name: member
            for name, member in self.members.items()
            if self._plan.members[name].group == group and not member.is_over
        }

    # What members do

    def join(self, name: str) -> None:
        """Start a member; one that is alive goes on as it is."""
        present = self.members.get(name)
        if present is not None and not present.is_over:
            return
        planned = self._plan.members[name]
        member = Member(
            name,
            consumer_settings(name, planned),
            self._transport(name),
            Subscribe(planned.topics),
            habits=[parse_habit(text) for text in planned.habits],
            workload=self._plan.workload if self.reads else None,
            ledger=self._judge.ledger(planned.group, name) if self._judge else self._ledger,
            observe=self._observe,
            dies=self._dies,
            epoch_ms=BEGIN_MS,
        )
        if present is not None:
            self._former.append(present)
        self.members[name] = member
        if self._judge:
            self._judge.joins(name, planned.group, behaves=is_sound(planned), deals_soundly=deals_soundly(planned))
        member.start()

    def misbehave(self, name: str, kind: Kind, milliseconds: int | None = None) -> None:
        """Something happens once to a member that is alive."""
        member = self.members.get(name)
        if member is not None and not member.is_over:
            member.misbehave(Habit(kind, milliseconds))

    def _dies(self, name: str) -> None:
        self._network.kill(name)
        if self._judge:
            self._judge.is_gone(name, round(asyncio.get_running_loop().time() * 1000))
        self._gone(name)

    def produce(self) -> None:
        """Records begin to flow into every topic of the plan."""
        for topic in self._plan.topics if self.reads else ():
            producer = Producer(
                self._transport(PRODUCER),
                topic,
                self._plan.workload,
                draw=self._chance.randrange(1 << 16),
                now_ms=lambda: BEGIN_MS + round(asyncio.get_running_loop().time() * 1000),
            )
            self._producers.append(producer)
            producer.start()

    async def close(self) -> None:
        """Everybody vanishes."""
        for producer in self._producers:
            producer.close()
        for member in self.members.values():
            if not member.is_over:
                member.misbehave(Habit(Kind.CRASH))
        for transport in self._transports:
            await transport.close()

    def _transport(self, host: str) -> TcpTransport:
        connect = partial(self._network.connect, host)
        transport = TcpTransport(self._brokers.addresses, client_id=host, connect=connect)
        self._transports.append(transport)
        return transport

    def _observe(self, name: str, happening: Change | ConsumerError) -> None:
        if isinstance(happening, JoinedGroup):
            self._names[happening.member_id] = name
        self._tell(name, happening)


def deals_soundly(planned: MemberPlan) -> bool:
    """Whether each partition goes to one member when it leads."""
    return not any(parse_habit(text).kind in SPOIL_DEALING for text in planned.habits)


def is_sound(planned: MemberPlan) -> bool:
    """Whether what must hold of good members must hold of this one."""
    return deals_soundly(planned) and not any(parse_habit(text).kind is Kind.ZOMBIE for text in planned.habits)
