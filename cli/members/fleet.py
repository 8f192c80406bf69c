"""The members of one `regroup members`: their plan from the arguments, their transports, and their producers."""

import asyncio
import time
from argparse import Namespace
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeAlias
from uuid import uuid4

from rich.console import Console

from regroup.assignors.interface import AssignorError
from regroup.assignors.registry import assignor_named
from regroup.cli.members.mqtt import MembersOverMqtt, member_name
from regroup.cli.members.table import describe_change, describe_note
from regroup.cli.terminal.text import printable
from regroup.members.consumer.effects import (
    ConsumerChange,
    ConsumerClosed,
    ConsumerError,
    JoinedGroup,
    LeftGroup,
    PartitionsRevoked,
)
from regroup.members.consumer.inputs import Subscribe
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.faults import MemberFault, MemberFaultKind, parse_fault
from regroup.members.runtime.consumer_protocol_member import FAULTS as CONSUMER_PROTOCOL_FAULTS
from regroup.members.runtime.consumer_protocol_member import ConsumerProtocolMember
from regroup.members.runtime.member import SimulatedMember
from regroup.members.runtime.notes import FaultEnded, MemberNote, RequestRefused
from regroup.members.runtime.producer import SimulatedProducer
from regroup.members.runtime.workload import RecordLedger, Workload
from regroup.members.transports.mqtt import MqttTransport
from regroup.members.transports.tcp import TcpTransport
from regroup.notation.durations import format_duration
from regroup.server.rate_limited_log import RateLimitedLog

CLOSE_TIMEOUT_S: Final = 10.0
CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
"""The values of --group-protocol."""
SESSION_TIMEOUT_MS: Final = 45_000
HEARTBEAT_INTERVAL_MS: Final = 3_000
FleetMember: TypeAlias = SimulatedMember | ConsumerProtocolMember


def known_assignor(text: str) -> str:
    """Check that an assignor with this name exists, and return the name. Raises ValueError if there is none."""
    try:
        return assignor_named(text).name
    except AssignorError as error:
        raise ValueError(str(error)) from None


def parse_numbered_fault(text: str) -> tuple[int | None, MemberFault]:
    """Parse `2:pause:20s` or `all:crash` to the member's number (None for all) and the fault. Raises ValueError."""
    number, _, fault = text.partition(":")
    if number != "all" and not (number.isascii() and number.isdigit() and int(number) >= 1):
        raise ValueError(f"no member is named in {text!r}; write for example 2:pause:20s or all:slow-join:5s")
    parsed = parse_fault(fault)
    return (None if number == "all" else int(number)), parsed


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """The checked arguments of `regroup members`. Settings and faults are lists with one entry for each member, in
    order."""

    args: Namespace
    settings: tuple[ConsumerSettings, ...]
    faults: tuple[tuple[MemberFault, ...], ...]
    subscription: Subscribe
    workload: Workload


def plan_fleet(args: Namespace) -> FleetPlan:
    """Make a plan from the arguments. Raises ValueError for arguments that contradict each other."""
    for number, fault in args.faults:
        if number is not None and number > args.count:
            raise ValueError(f"fault {fault} is for member {number}, and there are {args.count} members")
        if args.group_protocol == CONSUMER and fault.kind not in CONSUMER_PROTOCOL_FAULTS:
            raise ValueError(f"{fault} is a fault of the classic protocol; these members speak the consumer protocol")
        if args.group_protocol == CLASSIC and fault.kind is MemberFaultKind.SLOW_REVOKE:
            raise ValueError(f"{fault} is a fault of the consumer protocol: add --group-protocol consumer")
    if args.group_protocol == CONSUMER and args.assignors:
        raise ValueError("--assignor is for the classic protocol; --remote-assignor names one of the coordinator's")
    if args.group_protocol == CLASSIC and args.remote_assignor is not None:
        raise ValueError("--remote-assignor is for the consumer protocol: add --group-protocol consumer")
    if args.records_per_s and not args.topic:
        raise ValueError("--records-per-s writes to the topics of --topic; a pattern names none")
    workload = Workload(
        records_per_s=args.records_per_s,
        keys=args.keys,
        process_ms=args.process_ms,
        late_after_ms=args.late_after,
    )
    for name, value in (("session-timeout", args.session_timeout), ("heartbeat-interval", args.heartbeat_interval)):
        if args.group_protocol == CONSUMER and value is not None:
            setting = f"group.consumer.{name.replace('-', '.')}.ms"
            raise ValueError(f"--{name} is for the classic protocol; in the consumer protocol the broker has {setting}")
    session_timeout_ms, heartbeat_interval_ms = _timeouts_ms(args)
    if heartbeat_interval_ms >= session_timeout_ms:
        heartbeat, session = format_duration(heartbeat_interval_ms), format_duration(session_timeout_ms)
        raise ValueError(f"--heartbeat-interval ({heartbeat}) must be shorter than --session-timeout ({session})")
    numbers = range(1, args.count + 1)
    settings = tuple(_consumer_settings(number, args) for number in numbers)
    faults = tuple(tuple(fault for whose, fault in args.faults if whose in (None, number)) for number in numbers)
    return FleetPlan(args, settings, faults, Subscribe(tuple(args.topic), args.topic_pattern), workload)


def _timeouts_ms(args: Namespace) -> tuple[int, int]:
    """The session timeout and the heartbeat interval of a classic member, by default those of Kafka's consumer."""
    session_timeout_ms, heartbeat_interval_ms = args.session_timeout, args.heartbeat_interval
    return (
        SESSION_TIMEOUT_MS if session_timeout_ms is None else session_timeout_ms,
        HEARTBEAT_INTERVAL_MS if heartbeat_interval_ms is None else heartbeat_interval_ms,
    )


def _consumer_settings(number: int, args: Namespace) -> ConsumerSettings:
    session_timeout_ms, heartbeat_interval_ms = _timeouts_ms(args)
    return ConsumerSettings(
        group_id=args.group,
        client_id=member_name(args, number) if args.mqtt else f"regroup-{number}",
        group_instance_id=f"{args.group}-{number}" if args.static else None,
        partition_assignment_strategy=tuple(args.assignors or ["cooperative-sticky"]),
        group_remote_assignor=args.remote_assignor,
        session_timeout_ms=session_timeout_ms,
        heartbeat_interval_ms=heartbeat_interval_ms,
        max_poll_interval_ms=args.max_poll_interval,
        auto_offset_reset=args.auto_offset_reset,
    )


@dataclass(slots=True)
class MemberFleet:
    """All members of one `regroup members`, with their transports and producers. The index of a member counts from
    0."""

    plan: FleetPlan
    console: Console
    epoch_ms: int
    """The time at which the clock of the event loop is 0, in epoch milliseconds."""
    mqtt: MembersOverMqtt | None = None
    members: list[FleetMember] = field(default_factory=list)
    transports: list[TcpTransport] = field(default_factory=list)
    producers: list[SimulatedProducer] = field(default_factory=list)
    has_joined: bool = False
    """Whether any member has joined the group at least once."""
    _joined: set[str] = field(default_factory=set)
    """The names of the members whose present process has joined."""
    ledger: RecordLedger = field(init=False)
    _starts: list[asyncio.TimerHandle] = field(default_factory=list)
    _refusal_lines: dict[tuple[str, RequestRefused], RateLimitedLog] = field(default_factory=dict)
    """Logs of refused requests by member and refusal: a member that is refused in a loop gets one line every ten
    seconds."""

    def __post_init__(self) -> None:
        self.ledger = RecordLedger(self.plan.workload.late_after_ms)
        for index, (settings, faults) in enumerate(zip(self.plan.settings, self.plan.faults, strict=True)):
            self.transports.append(self._new_transport(settings.client_id, index))
            self.members.append(self._new_member(index, faults))
        if self.plan.workload.records_per_s:
            for draw, topic in enumerate(self.plan.subscription.topics):
                transport = self._new_transport("regroup-producer")
                self.transports.append(transport)
                self.producers.append(
                    SimulatedProducer(transport, topic, self.plan.workload, draw=draw, now_ms=self.now_ms)
                )

    def _new_transport(self, client_id: str, index: int | None = None) -> TcpTransport:
        """A new transport for the member with this index, or for a producer if it is None."""
        if self.mqtt is not None:
            return self.mqtt.transport(client_id, index)
        return TcpTransport(self.plan.args.bootstrap, client_id=client_id)

    def _new_member(self, index: int, faults: tuple[MemberFault, ...] = ()) -> FleetMember:
        transport, subscription = self.transports[index], self.plan.subscription
        new: Callable[..., FleetMember] = SimulatedMember
        if self.plan.args.group_protocol == CONSUMER:
            pattern = subscription.pattern.pattern if subscription.pattern else ""
            new = partial(ConsumerProtocolMember, pattern=pattern, draw_member_id=lambda: str(uuid4()))
        return new(
            str(index + 1),
            self.plan.settings[index],
            transport,
            subscription,
            faults=faults,
            workload=self.plan.workload,
            ledger=self.ledger,
            observe=self._observe,
            on_note=self._on_note,
            on_process_exit=lambda name: transport.crash() if isinstance(transport, MqttTransport) else None,
            epoch_ms=self.epoch_ms,
        )

    def replace_member(self, index: int) -> None:
        """Start a new member in place of one that has stopped."""
        self.members[index] = self._new_member(index)
        self.members[index].start()

    def now_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000) + self.epoch_ms

    def _observe(self, name: str, change: ConsumerChange | ConsumerError) -> None:
        if isinstance(change, JoinedGroup):
            self.has_joined = True
            self._joined.add(name)
        line = describe_change(change, self.members[int(name) - 1].view.partitions)
        if isinstance(change, PartitionsRevoked | LeftGroup | ConsumerClosed):
            line = self._describe_end(name, change, line)
        if line:
            self._print_line(name, line)

    def _describe_end(self, name: str, change: ConsumerChange, line: str) -> str:
        """The line of a change with which a member may end, if it is static or its process has not joined; otherwise
        `line`. A closed static member stays in its group: a classic one says nothing to the coordinator, and one of the
        consumer protocol reports that it will return."""
        is_static, is_consumer = self.plan.settings[int(name) - 1].is_static, self.plan.args.group_protocol == CONSUMER
        has_joined = name in self._joined
        match change:
            case PartitionsRevoked(()) if not has_joined:
                return ""
            case LeftGroup() if is_consumer and (is_static or not has_joined):
                return ""
            case ConsumerClosed() if not has_joined and (is_static or is_consumer):
                return "closed its consumer before it had joined"
            case ConsumerClosed() if is_static:
                return "closed its consumer; it is static, and stays a member until its session ends"
        return line

    def _on_note(self, name: str, note: MemberNote) -> None:
        if note == FaultEnded("restarting"):
            self._joined.discard(name)
        line = describe_note(note)
        if isinstance(note, RequestRefused):
            new = RateLimitedLog(partial(self._print_line, name))
            self._refusal_lines.setdefault((name, note), new)(line)
        else:
            self._print_line(name, line)

    def _print_line(self, name: str, line: str) -> None:
        """Print a line about a member. On a terminal nothing is printed, since the table shows the member."""
        if not self.console.is_terminal:
            self.console.print(printable(f"{time.strftime('%H:%M:%S')} member {name} {line}"), soft_wrap=True)

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        every_s = self.plan.args.every / 1000
        self._starts = [loop.call_later(index * every_s, member.start) for index, member in enumerate(self.members)]
        for producer in self.producers:
            producer.start()
        if self.mqtt is not None and self.plan.args.mqtt_control:
            self.mqtt.start_remote_control(self.members, self.replace_member)

    async def close(self) -> None:
        """Let the members leave their group, and close the connections. Members that have not started never do."""
        for start in self._starts:
            start.cancel()
        for producer in self.producers:
            producer.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await asyncio.gather(*(member.close() for member in self.members))
        await asyncio.gather(*(transport.close() for transport in self.transports))
        if self.mqtt is not None:
            await self.mqtt.close()

    @property
    def is_over(self) -> bool:
        """Whether every member has stopped and none can be started again by remote control."""
        return all(member.is_stopped for member in self.members) and not self.plan.args.mqtt_control
