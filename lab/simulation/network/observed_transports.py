"""Transports that are observed: their requests and responses, and each attempt to connect with the requests that it is
for."""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

from regroup.lab.checker.members.reconnections import Reconnections, Target
from regroup.lab.simulation.network.forwarding_transport import ForwardingTransport
from regroup.members.consumer.effects import OutgoingRequest, RequestTarget
from regroup.members.consumer.inputs import RequestFailed, ResponseReceived
from regroup.members.transports.base import MemberTransport, TransportCallback
from regroup.members.transports.tcp import ConnectionOpener
from regroup.protocol.message import Message

_TARGET: ContextVar[Target] = ContextVar("target")
"""For which requests a connection is opened: known to the task that opens it, since the request starts that task."""


class ObservedTransport(ForwardingTransport):
    """The network transport of a member or of a producer.

    It calls `on_request` with each request that is sent, and `on_response` with the request and its response,
    None if the request has failed.
    """

    def __init__(
        self,
        transport: MemberTransport,
        on_request: Callable[[Message], None],
        on_response: Callable[[Message, Any], None],
    ) -> None:
        super().__init__(transport)
        self._on_request, self._on_response = on_request, on_response

    def send(self, request: OutgoingRequest, callback: TransportCallback) -> None:
        self._on_request(request.message)

        def handle(received: ResponseReceived | RequestFailed) -> None:
            self._on_response(request.message, received.response if isinstance(received, ResponseReceived) else None)
            callback(received)

        self._transport.send(request, handle)


class DialledTransport:
    """A transport that reports to `dials` which requests it sends, and when it drops its connections."""

    def __init__(self, transport: MemberTransport, dials: Reconnections) -> None:
        self._transport, self._dials = transport, dials

    def send(self, request: OutgoingRequest, callback: TransportCallback) -> None:
        address = request.address
        target = Target(request.target, (address.host, address.port) if address else None)
        self._dials.on_send(target)
        token = _TARGET.set(target)
        self._transport.send(request, callback)
        _TARGET.reset(token)

    def disconnect_coordinator(self) -> None:
        self._dials.on_disconnected(lambda target: target.kind is RequestTarget.COORDINATOR)
        self._transport.disconnect_coordinator()

    async def close(self) -> None:
        self._dials.on_disconnected(lambda target: True)
        await self._transport.close()


def observed(connect: ConnectionOpener, dials: Reconnections) -> ConnectionOpener:
    """Open connections with `connect`, and report each attempt and its end to `dials`."""

    async def dial(factory: Callable[[], asyncio.Protocol], host: str, port: int) -> Any:
        dialled = dials.on_dial(_TARGET.get())
        is_open = False
        try:
            opened: Awaitable[Any] = connect(factory, host, port)
            found = await opened
            is_open = True
            return found
        finally:
            dials.on_dialled(dialled, is_open=is_open)

    return dial
