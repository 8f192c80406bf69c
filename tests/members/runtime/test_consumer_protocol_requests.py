"""Requests of a member of the consumer protocol on a transport that fails."""

import asyncio

from regroup.members.consumer.effects import OutgoingRequest
from regroup.members.consumer.inputs import RequestFailed
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.runtime.consumer_protocol_requests import ConsumerProtocolRequests
from regroup.members.runtime.timers import MemberTimers
from regroup.members.transports.base import TransportCallback


class FailingTransport:
    """Refuses every request before `send` returns."""

    def __init__(self) -> None:
        self.sent: list[OutgoingRequest] = []

    def send(self, request: OutgoingRequest, callback: TransportCallback) -> None:
        self.sent.append(request)
        callback(RequestFailed(request.request_id, "there is no connection"))

    def disconnect_coordinator(self) -> None:
        pass

    async def close(self) -> None:
        pass


async def test_a_request_that_is_refused_at_once_is_sent_again_after_a_pause() -> None:
    transport = FailingTransport()
    requests = ConsumerProtocolRequests(
        ConsumerSettings(group_id="g"),
        transport,
        MemberTimers(lambda: False),
        on_coordinator=lambda: None,
        on_refusal=lambda refused, code: None,
    )
    requests.find_coordinator()
    assert len(transport.sent) == 1
    await asyncio.sleep(0.25)
    assert len(transport.sent) == 3
    requests.is_over = True
    await asyncio.sleep(0.25)
    assert len(transport.sent) == 3, "nothing follows the end of the process"
