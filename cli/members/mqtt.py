"""Members of `regroup members` over MQTT: transports, client names, and the remote control."""

import asyncio
import os
import socket
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import Final
from uuid import uuid4

from regroup.cli.mqtt_access import load_mqtt_access
from regroup.cli.terminal.output import print_error
from regroup.members.faults import MemberFault, MemberFaultKind
from regroup.members.runtime.consumer_protocol_member import ConsumerProtocolMember
from regroup.members.runtime.member import SimulatedMember
from regroup.members.runtime.remote_control import RemoteCommand, RemoteCommandKind, RemoteControl
from regroup.members.transports.mqtt import MqttTransport
from regroup.mqtt.link import MqttLink, cancel_and_wait
from regroup.mqtt.topics import MqttTopics

FAULT_KINDS: Final = {
    RemoteCommandKind.CRASH: MemberFaultKind.CRASH,
    RemoteCommandKind.LEAVE: MemberFaultKind.LEAVE,
    RemoteCommandKind.PAUSE: MemberFaultKind.PAUSE,
    RemoteCommandKind.SLOW: MemberFaultKind.SLOW_JOIN,
}
"""The fault that each remote command injects. The command that is not here, `rejoin`, starts a new member."""


class MembersOverMqtt:
    """The transports and the remote control of all members of one process. Raises CannotRun for invalid credentials."""

    def __init__(self, args: Namespace) -> None:
        self.address = args.mqtt
        self._access = load_mqtt_access(args.mqtt, args.mqtt_settings)
        self._prefix = name_prefix(args)
        self._names = [member_name(args, number + 1) for number in range(args.count)]
        self._remote_control: asyncio.Task[None] | None = None
        self._last_error = ""

    def transport(self, client_id: str, index: int | None) -> MqttTransport:
        """A connection to the MQTT broker with its own last will, for the member with this index, or for a producer if
        it is None."""
        name = f"{self._prefix}-producer-{_new_id()[:8]}" if index is None else self._names[index]
        return MqttTransport(
            self.address, self._access, name, new_incarnation=_new_id, client_id=client_id, report=self._report
        )

    def _report(self, error: str) -> None:
        """Print an error if it differs from the last one, because all members lose the same MQTT broker at the same
        time."""
        if error != self._last_error:
            print_error("members", error)
            self._last_error = error

    def start_remote_control(
        self, members: Sequence[SimulatedMember | ConsumerProtocolMember], replace_member: Callable[[int], None]
    ) -> None:
        """Carry out commands that arrive over MQTT, until `close` is called."""

        def carry_out(name: str, command: RemoteCommand) -> str:
            """Carry out a command for one member; return the response. Raises ValueError if it is not possible."""
            index = self._names.index(name)
            if command.kind is RemoteCommandKind.REJOIN:
                if not members[index].is_stopped:
                    raise ValueError(f"{name} is still running; crash it or let it leave first")
                replace_member(index)
            elif members[index].is_stopped:
                raise ValueError(f"{name} has stopped; rejoin starts it again")
            else:
                members[index].inject_fault(MemberFault(FAULT_KINDS[command.kind], command.duration_ms))
            print(f"remote control: {name}: {command}", file=sys.stderr, flush=True)
            return f"{name}: {command}"

        control = RemoteControl(self.address.cluster, self._names, carry_out)
        for name in self._names:
            print(f"remote control: {MqttTopics(self.address.cluster).member(name, 'control')}", file=sys.stderr)
        link = MqttLink(self.address, self._access, report=self._report)
        self._remote_control = asyncio.create_task(link.run(control.session), name="remote control")

    async def close(self) -> None:
        if self._remote_control is not None:
            await cancel_and_wait(self._remote_control)


def name_prefix(args: Namespace) -> str:
    """The beginning of the names of this process's members."""
    return args.mqtt_name or f"{socket.gethostname()}-{os.getpid()}"


def member_name(args: Namespace, number: int) -> str:
    """The name of a member on MQTT, which is also its client id."""
    return f"{name_prefix(args)}-{number}"


def _new_id() -> str:
    return uuid4().hex
