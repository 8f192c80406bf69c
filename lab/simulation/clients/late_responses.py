"""Responses that a member gets late, while those to its other requests come in time.

late = LateResponses()
late.expect("anna", "Metadata", 20_000)
transport = LateResponseTransport(transport, partial(late.taken_delay_ms, "anna"))
"""

import asyncio
from collections.abc import Callable

from regroup.lab.simulation.network.forwarding_transport import ForwardingTransport
from regroup.members.consumer.effects import OutgoingRequest
from regroup.members.consumer.inputs import RequestFailed, ResponseReceived
from regroup.members.transports.base import MemberTransport, TransportCallback
from regroup.protocol.apis import APIS
from regroup.protocol.message import Message


class LateResponses:
    """Which members get the response to their next request of which type late, and by how much."""

    def __init__(self) -> None:
        self._delays_ms: dict[tuple[str, int], int] = {}
        """By the name of a member and an API key."""

    def expect(self, name: str, api: str, delay_ms: int) -> None:
        """Let the response to the next request of this type of this member come `delay_ms` late."""
        (key,) = (key for key, each in APIS.items() if each.name == api)
        self._delays_ms[name, key] = delay_ms

    def taken_delay_ms(self, name: str, request: Message) -> int:
        """How late the response to this request of a member comes, in milliseconds; 0 if it is in time. Later ones are
        in time."""
        return self._delays_ms.pop((name, type(request).api_key), 0)


class LateResponseTransport(ForwardingTransport):
    """The network transport of a member. `delay_ms` returns how late the response to a request comes."""

    def __init__(self, transport: MemberTransport, delay_ms: Callable[[Message], int]) -> None:
        super().__init__(transport)
        self._delay_ms = delay_ms

    def send(self, request: OutgoingRequest, callback: TransportCallback) -> None:
        delay_ms = self._delay_ms(request.message)

        def handle(received: ResponseReceived | RequestFailed) -> None:
            if delay_ms and isinstance(received, ResponseReceived):
                asyncio.get_running_loop().call_later(delay_ms / 1000, callback, received)
            else:
                callback(received)

        self._transport.send(request, handle)
