"""A transport around another one: those in a lab change or report what passes, and forward the rest."""

from abc import ABC, abstractmethod
from collections.abc import Callable

from msgspec.structs import replace

from regroup.members.consumer.effects import OutgoingRequest
from regroup.members.consumer.inputs import RequestFailed, ResponseReceived
from regroup.members.transports.base import MemberTransport, TransportCallback
from regroup.protocol.message import Message


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


class ChangedResponseTransport(ForwardingTransport):
    """The transport of a member. `replaced` returns what the member gets in place of a response."""

    def __init__(self, transport: MemberTransport, replaced: Callable[[Message], Message]) -> None:
        super().__init__(transport)
        self._replaced = replaced

    def send(self, request: OutgoingRequest, callback: TransportCallback) -> None:
        def handle(received: ResponseReceived | RequestFailed) -> None:
            if isinstance(received, ResponseReceived):
                received = replace(received, response=self._replaced(received.response))
            callback(received)

        self._transport.send(request, handle)
