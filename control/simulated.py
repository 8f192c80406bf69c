"""Simulated members of the groups of this process: consumers in its loop, over TCP to the brokers' own ports.

members = MembersOfProcess(emulator)
members.add(NewMember(group="billing", topics=("orders",)))
await members.crash("member-1")
await members.close()
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from itertools import count
from typing import Any, Final

import msgspec

from regroup.assignors.interface import AssignorError
from regroup.control.member_views import MemberViews
from regroup.members.consumer.effects import ConsumerChange, ConsumerError, NodeAddress
from regroup.members.consumer.inputs import Subscribe
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.faults import MemberFault, MemberFaultKind
from regroup.members.runtime.application import MemberView
from regroup.members.runtime.member import SimulatedMember
from regroup.members.runtime.notes import MemberNote
from regroup.members.runtime.workload import Workload
from regroup.members.transports.tcp import TcpTransport
from regroup.server.recording.observations import ViewObserved
from regroup.testing.async_emulator import AsyncEmulator
from regroup.testing.errors import ActRefused, UnknownMember

MAX_MEMBERS: Final = 200
"""Simulated members at once, those that have ended among them."""
METADATA_MAX_AGE_MS: Final = 5_000
"""After which a member looks for new partitions; Kafka's default of 5 minutes is too long to watch."""
MAX_PAUSE_S: Final = 86_400.0
LOOPBACK_OF_WILDCARD: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""The address at which a process reaches itself if it listens on all addresses."""


class NewMember(msgspec.Struct, frozen=True, kw_only=True):
    """A member that is to run."""

    group: str
    topics: tuple[str, ...]
    client_id: str
    instance_id: str | None = None
    assignor: str = "range"
    session_timeout_ms: int = 10_000
    heartbeat_interval_ms: int = 1_000
    max_poll_interval_ms: int = 300_000
    process_ms: float | None = None
    """The time for each record; None for a member that reads no records."""

    def settings(self) -> ConsumerSettings:
        """The consumer's settings. Raises ValueError for values with which no consumer can work."""
        return ConsumerSettings(
            group_id=self.group,
            client_id=self.client_id,
            group_instance_id=self.instance_id,
            partition_assignment_strategy=(self.assignor,),
            session_timeout_ms=self.session_timeout_ms,
            heartbeat_interval_ms=self.heartbeat_interval_ms,
            max_poll_interval_ms=self.max_poll_interval_ms,
            auto_offset_reset="earliest",
            allow_auto_create_topics=False,
            metadata_max_age_ms=METADATA_MAX_AGE_MS,
        )


class RunningMember:
    """A simulated member with the connections of its process."""

    def __init__(
        self, plan: NewMember, transport: TcpTransport, on_change: Callable[["RunningMember"], None], *, epoch_ms: int
    ) -> None:
        self.plan = plan
        self.slow_s = 0.0
        """How late the member returns to poll() when a rebalance asks it to join."""
        self._transport = transport
        self._on_change = on_change
        self.member = SimulatedMember(
            plan.client_id,
            plan.settings(),
            transport,
            Subscribe(plan.topics),
            workload=None if plan.process_ms is None else Workload(process_ms=plan.process_ms),
            observe=self._observe,
            on_note=self._observe,
            epoch_ms=epoch_ms,
        )

    @property
    def view(self) -> MemberView:
        return self.member.view

    def _observe(self, name: str, change: ConsumerChange | ConsumerError | MemberNote) -> None:
        self._on_change(self)

    def inject(self, kind: MemberFaultKind, duration_s: float | None = None) -> None:
        """Let a fault begin now."""
        duration_ms = None if duration_s is None else max(1, round(duration_s * 1000))
        self.member.inject_fault(MemberFault(kind, duration_ms))
        self._on_change(self)

    def be_slow(self, seconds: float) -> None:
        """Be so late in poll() at each rebalance from now on; 0 ends it."""
        self.slow_s = seconds
        if seconds:
            self.inject(MemberFaultKind.SLOW_JOIN, seconds)
        else:
            self.member.end_fault(MemberFaultKind.SLOW_JOIN)
            self._on_change(self)

    def resume(self) -> None:
        """End a pause."""
        self.member.resume()
        self._on_change(self)

    async def crash(self) -> None:
        """End as a killed process does: without a request, and with its connections."""
        self.inject(MemberFaultKind.CRASH)
        await self._transport.close()

    async def leave(self) -> None:
        """Close the consumer, which leaves the group unless the member is static."""
        await self.member.close()
        await self._transport.close()
        self._on_change(self)

    async def stop(self) -> None:
        """End without a request and without a word."""
        if self.view.condition != "crashed":
            self.member.inject_fault(MemberFault(MemberFaultKind.CRASH))
        self._on_change(self)
        await self._transport.close()


class MembersOfProcess:
    """The simulated members of one process, by client id. `close` ends them all."""

    def __init__(self, emulator: AsyncEmulator) -> None:
        self._emulator = emulator
        self._running: dict[str, RunningMember] = {}
        self._numbers = count(1)
        self._views = MemberViews()
        self.change_count = 0
        """Grows with each change of any of them."""

    def all(self) -> tuple[RunningMember, ...]:
        """In the order in which they were added."""
        return tuple(self._running.values())

    def find(self, client_id: str) -> RunningMember:
        """The member with this client id. Raises UnknownMember."""
        found = self._running.get(client_id)
        if found is None:
            names = ", ".join(map(repr, self._running)) or "none"
            raise UnknownMember(f"no simulated member has the client id {client_id!r}; simulated members: {names}")
        return found

    def find_alive(self, client_id: str) -> RunningMember:
        """The same, if it has not ended. Raises UnknownMember, or ActRefused."""
        found = self.find(client_id)
        if found.member.is_stopped:
            raise ActRefused(f"{client_id!r} has {_ended(found.view.condition)}: start it again first")
        return found

    def new_client_id(self) -> str:
        """A client id that no simulated member has had: `member-1`."""
        return next(name for number in self._numbers if (name := f"member-{number}") not in self._running)

    def add(self, plan: NewMember) -> RunningMember:
        """Start a member. One that has ended gives its client id to a new one.

        Raises ActRefused for a client id of a member that runs, or if there are too many, and ValueError for a plan
        that no consumer can follow.
        """
        former = self._running.get(plan.client_id)
        if former is not None and not former.member.is_stopped:
            raise ActRefused(f"a simulated member with the client id {plan.client_id!r} runs already")
        if former is None and len(self._running) >= MAX_MEMBERS:
            raise ActRefused(f"there are {MAX_MEMBERS} simulated members, and no more are possible: remove some")
        try:
            epoch_ms = self._emulator.now_ms() - round(asyncio.get_running_loop().time() * 1000)
            started = RunningMember(plan, self._transport(plan.client_id), self._changed, epoch_ms=epoch_ms)
        except AssignorError as error:
            raise ValueError(str(error)) from None
        self._running[plan.client_id] = started
        started.member.start()
        self._changed(started)
        return started

    async def remove(self, client_id: str) -> None:
        """End a member as a crash does, if it runs, and forget it. Raises UnknownMember."""
        found = self.find(client_id)
        del self._running[client_id]
        await found.stop()

    async def close(self) -> None:
        """End all of them at once, as the end of their processes would: none sends LeaveGroup."""
        running, self._running = self._running, {}
        await asyncio.gather(*(each.stop() for each in running.values()))

    def views_of(self, group: str, member_ids: Collection[str]) -> Sequence[ViewObserved] | None:
        """What the members of a group have believed, if all of these are simulated members here; None otherwise."""
        for each in self._running.values():
            if each.plan.group == group:
                self._note_view(each)
        return self._views.of_group(group, member_ids)

    def _changed(self, member: RunningMember) -> None:
        self.change_count += 1
        self._note_view(member)
        self._emulator.changes.notify()

    def _note_view(self, member: RunningMember) -> None:
        if self._emulator.is_running:
            position = self._emulator.cluster.journal.last_position
            self._views.note(member.plan.group, member.view, at_ms=self._emulator.now_ms(), position=position)

    def _transport(self, client_id: str) -> TcpTransport:
        addresses = [NodeAddress(number, host, port) for number, (host, port) in enumerate(self._addresses())]
        return TcpTransport(addresses, client_id=client_id, connect=self._connect)

    def _addresses(self) -> list[tuple[str, int]]:
        """Where this process reaches its own brokers."""
        host = self._emulator.options.cluster.host
        return [(LOOPBACK_OF_WILDCARD.get(host, host), port) for port in self._emulator.ports]

    async def _connect(self, protocol: Callable[[], asyncio.Protocol], host: str, port: int) -> Any:
        """Connect to a broker by the address that it gives to clients, which may lead here from elsewhere only."""
        advertise = self._emulator.options.cluster.advertise
        addresses = self._addresses()
        if advertise is not None and host == advertise[0] and 0 <= port - advertise[1] < len(addresses):
            host, port = addresses[port - advertise[1]]
        connecting: Awaitable[Any] = asyncio.get_running_loop().create_connection(
            protocol, LOOPBACK_OF_WILDCARD.get(host, host), port
        )
        return await connecting


def _ended(condition: str) -> str:
    return {"failed": "failed with an error"}.get(condition, condition)
