"""Runs simulated members of groups in this process: consumers in its event loop, over TCP to the brokers' own ports.

members = MembersOfProcess(emulator)
members.add(NewMember(group="billing", topics=("orders",)))
await members.crash("member-1")
await members.close()
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from itertools import count
from typing import Any, Final, TypeAlias

import msgspec

from regroup.assignors.interface import AssignorError
from regroup.control.member_views import MemberViews
from regroup.coordinator.group import GroupKind
from regroup.members.consumer.effects import ConsumerChange, ConsumerError, NodeAddress
from regroup.members.consumer.inputs import Subscribe
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.faults import MemberFault, MemberFaultKind
from regroup.members.runtime.application import MemberView
from regroup.members.runtime.consumer_protocol_member import FAULTS as CONSUMER_PROTOCOL_FAULTS
from regroup.members.runtime.consumer_protocol_member import ConsumerProtocolMember
from regroup.members.runtime.member import SimulatedMember
from regroup.members.runtime.notes import MemberNote
from regroup.members.runtime.workload import Workload
from regroup.members.transports.tcp import TcpTransport
from regroup.server.apis.transaction_lists import compile_pattern
from regroup.server.recording.observations import ViewObserved
from regroup.testing.async_emulator import AsyncEmulator
from regroup.testing.errors import ActRefused, UnknownMember

MAX_MEMBERS: Final = 200
"""The most simulated members at once. Members that have ended count until they are removed."""
METADATA_MAX_AGE_MS: Final = 5_000
"""Interval in milliseconds after which a member refreshes its metadata and finds new partitions. Kafka's default of 5
minutes is too long to watch."""
MAX_PAUSE_S: Final = 86_400.0
LOOPBACK_OF_WILDCARD: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""The address at which a process reaches itself if it listens on all addresses."""


RunnableMember: TypeAlias = SimulatedMember | ConsumerProtocolMember


class NewMember(msgspec.Struct, frozen=True, kw_only=True):
    """The settings with which a simulated member is to be started."""

    group: str
    client_id: str
    topics: tuple[str, ...] = ()
    pattern: str = ""
    """A regular expression (RE2) in place of topics, for a member of the consumer protocol; the brokers resolve it."""
    instance_id: str | None = None
    protocol: GroupKind = GroupKind.CLASSIC
    assignor: str = "range"
    """The assignor of a member of the classic protocol."""
    remote_assignor: str | None = None
    """The assignor of the coordinator for which a member of the consumer protocol votes; None for no vote."""
    session_timeout_ms: int = 10_000
    heartbeat_interval_ms: int = 1_000
    max_poll_interval_ms: int = 300_000
    process_ms: float | None = None
    """Milliseconds that processing a record takes; None for a member that reads no records."""

    def settings(self) -> ConsumerSettings:
        """The consumer settings that the member is started with. Raises ValueError for values with which no consumer
        can work."""
        return ConsumerSettings(
            group_id=self.group,
            client_id=self.client_id,
            group_instance_id=self.instance_id,
            partition_assignment_strategy=(self.assignor,),
            group_remote_assignor=self.remote_assignor,
            session_timeout_ms=self.session_timeout_ms,
            heartbeat_interval_ms=self.heartbeat_interval_ms,
            max_poll_interval_ms=self.max_poll_interval_ms,
            auto_offset_reset="earliest",
            allow_auto_create_topics=False,
            metadata_max_age_ms=METADATA_MAX_AGE_MS,
        )

    def check_subscription(self) -> None:
        """Raise ValueError unless the member has either topics or a valid pattern, and a protocol that knows what it
        says."""
        if bool(self.topics) == bool(self.pattern):
            raise ValueError("a simulated member subscribes either to topics or to a pattern: give one of the two")
        if self.protocol is GroupKind.CLASSIC and self.pattern:
            raise ValueError(
                "a simulated member with a pattern speaks the consumer protocol: give that `protocol`, too"
            )
        if self.protocol is GroupKind.CLASSIC and self.remote_assignor is not None:
            raise ValueError("a remote assignor is for the consumer protocol: give that `protocol`, too, or `assignor`")
        if self.pattern:
            compile_pattern(self.pattern)


class RunningMember:
    """A simulated member that was started, with its connections to the brokers. They are closed when the member has
    stopped."""

    def __init__(
        self,
        plan: NewMember,
        transport: TcpTransport,
        on_change: Callable[["RunningMember"], None],
        draw_member_id: Callable[[], str],
        *,
        epoch_ms: int,
    ) -> None:
        self.plan = plan
        self.slow_s = 0.0
        """Seconds by which the member returns late to poll() when a rebalance asks it to join."""
        self._transport = transport
        self._closing: asyncio.Task[None] | None = None
        """The closing of the connections, once it has begun."""
        self._on_change = on_change
        new: Callable[..., RunnableMember] = SimulatedMember
        if plan.protocol is GroupKind.CONSUMER:
            new = partial(ConsumerProtocolMember, draw_member_id=draw_member_id, pattern=plan.pattern)
        self.member = new(
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
        # A member reports its end before it counts as stopped.
        asyncio.get_running_loop().call_soon(self._close_if_stopped)

    def _close_if_stopped(self) -> None:
        if self.member.is_stopped:
            self._close_connections()

    def _close_connections(self) -> asyncio.Task[None]:
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._transport.close())
        return self._closing

    def inject(self, kind: MemberFaultKind, duration_s: float | None = None) -> None:
        """Let a fault of this kind begin in the member now. `duration_s` is for kinds of faults that take a duration,
        None for the others. Raises ActRefused if only members of the other group protocol can have the fault."""
        is_consumer = self.plan.protocol is GroupKind.CONSUMER
        if is_consumer and kind not in CONSUMER_PROTOCOL_FAULTS:
            raise ActRefused(f"a member of the consumer protocol cannot have the fault {kind.value}")
        if not is_consumer and kind is MemberFaultKind.SLOW_REVOKE:
            raise ActRefused(f"only a member of the consumer protocol can have the fault {kind.value}")
        duration_ms = None if duration_s is None else max(1, round(duration_s * 1000))
        self.member.inject_fault(MemberFault(kind, duration_ms))
        self._on_change(self)

    def be_slow(self, seconds: float) -> None:
        """Let the member return to poll() this many seconds late at each rebalance from now on; 0 ends the delay."""
        self.slow_s = seconds
        if seconds:
            self.inject(MemberFaultKind.SLOW_JOIN, seconds)
        else:
            self.member.end_fault(MemberFaultKind.SLOW_JOIN)
            self._on_change(self)

    def resume(self) -> None:
        """Let the member continue if it is paused."""
        self.member.resume()
        self._on_change(self)

    async def crash(self) -> None:
        """End the member as a killed process ends: it sends no request, and its connections are closed."""
        self.inject(MemberFaultKind.CRASH)
        await self._close_connections()

    async def leave(self) -> None:
        """Close the member's consumer. It leaves the group, unless it is a static member."""
        await self.member.close()
        await self._close_connections()
        self._on_change(self)

    async def stop(self) -> None:
        """End the member as if its process had been killed, so that it sends no LeaveGroup, and close its
        connections."""
        if self.view.condition != "crashed":
            self.member.inject_fault(MemberFault(MemberFaultKind.CRASH))
        self._on_change(self)
        await self._close_connections()


class MembersOfProcess:
    """The simulated members of one process, by client id. `close` ends all of them."""

    def __init__(self, emulator: AsyncEmulator) -> None:
        self._emulator = emulator
        self._running: dict[str, RunningMember] = {}
        self._numbers = count(1)
        self._views = MemberViews()
        self.change_count = 0
        """Grows by one with each change of any member."""

    def all(self) -> tuple[RunningMember, ...]:
        """All simulated members, in the order in which they were added."""
        return tuple(self._running.values())

    def find(self, client_id: str) -> RunningMember:
        """The simulated member with this client id. Raises UnknownMember if there is none."""
        found = self._running.get(client_id)
        if found is None:
            names = ", ".join(map(repr, self._running)) or "none"
            raise UnknownMember(f"no simulated member has the client id {client_id!r}; simulated members: {names}")
        return found

    def find_alive(self, client_id: str) -> RunningMember:
        """The member with this client id. Raises UnknownMember if there is none, or ActRefused if the member has
        ended."""
        found = self.find(client_id)
        if found.member.is_stopped:
            raise ActRefused(f"{client_id!r} has {_ended(found.view.condition)}: start it again first")
        return found

    def new_client_id(self) -> str:
        """A client id that no simulated member has had yet: `member-1`."""
        return next(name for number in self._numbers if (name := f"member-{number}") not in self._running)

    def add(self, plan: NewMember) -> RunningMember:
        """Start a member. The client id of a member that has ended may be used again.

        Raises ActRefused for a client id of a member that runs, or if there are too many, and ValueError for a plan
        that no consumer can follow.
        """
        plan.check_subscription()
        former = self._running.get(plan.client_id)
        if former is not None and not former.member.is_stopped:
            raise ActRefused(f"a simulated member with the client id {plan.client_id!r} runs already")
        if former is None and len(self._running) >= MAX_MEMBERS:
            raise ActRefused(f"there are {MAX_MEMBERS} simulated members, and no more are possible: remove some")
        try:
            epoch_ms = self._emulator.now_ms() - round(asyncio.get_running_loop().time() * 1000)
            transport = self._transport(plan.client_id)
            started = RunningMember(plan, transport, self._changed, self._draw_member_id, epoch_ms=epoch_ms)
        except AssignorError as error:
            raise ValueError(str(error)) from None
        self._running[plan.client_id] = started
        started.member.start()
        self._changed(started)
        return started

    async def remove(self, client_id: str) -> None:
        """Remove a member from the list; if it runs, it is first ended as by a crash. Raises UnknownMember."""
        found = self.find(client_id)
        del self._running[client_id]
        await found.stop()

    async def close(self) -> None:
        """End all members at once, as the end of their processes would: none sends LeaveGroup."""
        running, self._running = self._running, {}
        await asyncio.gather(*(each.stop() for each in running.values()))

    def views_of(self, group: str, member_ids: Collection[str]) -> Sequence[ViewObserved] | None:
        """The views of a group's members since they were started; None if one of `member_ids` is not a simulated member
        here."""
        for each in self._running.values():
            if each.plan.group == group:
                self._note_view(each)
        return self._views.of_group(group, member_ids)

    def _changed(self, member: RunningMember) -> None:
        self.change_count += 1
        self._note_view(member)
        self._emulator.changes.notify()

    def _draw_member_id(self) -> str:
        return str(self._emulator.cluster.state.new_uuid())

    def _note_view(self, member: RunningMember) -> None:
        if self._emulator.is_running:
            position = self._emulator.cluster.journal.last_position
            self._views.note(member.plan.group, member.view, at_ms=self._emulator.now_ms(), position=position)

    def _transport(self, client_id: str) -> TcpTransport:
        addresses = [NodeAddress(number, host, port) for number, (host, port) in enumerate(self._addresses())]
        return TcpTransport(addresses, client_id=client_id, connect=self._connect)

    def _addresses(self) -> list[tuple[str, int]]:
        """The host and port of each broker, as programs on this machine can reach them."""
        host = self._emulator.options.cluster.host
        return [(LOOPBACK_OF_WILDCARD.get(host, host), port) for port in self._emulator.ports]

    async def _connect(self, protocol: Callable[[], asyncio.Protocol], host: str, port: int) -> Any:
        """Open a connection to a broker of this process. The address that the broker gives to clients may work only
        from elsewhere, so it is replaced by the local one."""
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
