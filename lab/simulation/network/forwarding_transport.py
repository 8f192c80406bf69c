"""A transport around another one: those in a lab change or report what passes, and forward the rest."""

from abc import ABC, abstractmethod

from regroup.members.consumer.effects import OutgoingRequest
from regroup.members.transports.base import MemberTransport, TransportCallback


class ForwardingTransport(ABC):
    """Forwards to another transport everything but requests."""

    def __init__(self, transport: MemberTransport) -> None:
        self._transport = transport

    @abstractmethod
    def send(self, request: OutgoingRequest, callback: TransportCallback) -> None:
        """Send a request, and call `callback` once with its response or failure."""

    def disconnect_coordinator(self) -> None:
        self._transport.disconnect_coordinator()

    async def close(self) -> None:
        await self._transport.close()
