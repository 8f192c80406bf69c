"""Requests of a member of the consumer protocol on a transport that fails."""

import asyncio

import pytest

from regroup.lab.simulation.virtual_clock import VirtualLoop, run_in_virtual_time
from regroup.members.consumer.effects import OutgoingRequest
from regroup.members.consumer.inputs import RequestFailed, ResponseReceived
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.runtime.consumer_protocol_requests import ConsumerProtocolRequests
from regroup.members.runtime.timers import MemberTimers
from regroup.members.transports.base import TransportCallback
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import Coordinator, FindCoordinatorResponse
from regroup.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)


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


class ScriptedTransport:
    """Keeps requests; the test answers them."""

    def __init__(self) -> None:
        self.open: list[tuple[OutgoingRequest, TransportCallback]] = []

    def send(self, request: OutgoingRequest, callback: TransportCallback) -> None:
        self.open.append((request, callback))

    def disconnect_coordinator(self) -> None:
        pass

    async def close(self) -> None:
        pass

    def names(self) -> list[str]:
        """The kinds of the requests without a response, in order."""
        return [type(request.message).__name__ for request, _ in self.open]

    def answer(self, response: Message | None) -> None:
        """Answer the oldest request; None lets it fail."""
        request, callback = self.open.pop(0)
        number = request.request_id
        callback(RequestFailed(number, "reset") if response is None else ResponseReceived(number, response))


class Scripted:
    """Requests over a scripted transport, and what came of them."""

    def __init__(self) -> None:
        self.transport = ScriptedTransport()
        self.found: list[str] = []
        self.requests = ConsumerProtocolRequests(
            ConsumerSettings(group_id="g"),
            self.transport,
            MemberTimers(lambda: False),
            on_coordinator=lambda: self.found.append("found"),
            on_refusal=lambda refused, code: None,
        )
        self.requests.find_coordinator()
        self.transport.answer(FOUND)

    def commit(self) -> None:
        self.requests.send(COMMIT, lambda response: None, lambda: self.found.append("lost"))


FOUND = FindCoordinatorResponse(
    node_id=0, host="", port=0, coordinators=[Coordinator(key="g", node_id=0, host="broker", port=1)]
)
COMMIT = OffsetCommitRequest(group_id="g", topics=[])
MOVED = OffsetCommitResponse(
    topics=[
        OffsetCommitResponseTopic(
            name="orders",
            partitions=[OffsetCommitResponsePartition(partition_index=0, error_code=ErrorCode.NOT_COORDINATOR)],
        )
    ]
)

NO_OFFSETS = OffsetFetchResponse(
    groups=[OffsetFetchResponseGroup(group_id="g", topics=[], error_code=ErrorCode.NOT_COORDINATOR)]
)


@pytest.mark.parametrize("response", [None, MOVED, NO_OFFSETS], ids=["lost", "moved", "moved, by an OffsetFetch"])
def test_nothing_is_sent_to_a_coordinator_that_is_lost_before_it_is_found_again(response: Message | None) -> None:
    async def main() -> None:
        scripted = Scripted()
        scripted.commit()
        scripted.transport.answer(response)
        scripted.commit()
        assert scripted.transport.names() == ["FindCoordinatorRequest"]
        await asyncio.sleep(1)
        assert scripted.transport.names() == ["FindCoordinatorRequest"], "one search for both"
        assert "lost" in scripted.found
        scripted.transport.answer(FOUND)
        await asyncio.sleep(1)
        assert scripted.transport.names() == []
        scripted.commit()
        assert scripted.transport.names() == ["OffsetCommitRequest"]

    run_in_virtual_time(main(), VirtualLoop())


def test_a_lost_coordinator_is_searched_for_without_another_request() -> None:
    async def main() -> None:
        scripted = Scripted()
        scripted.commit()
        scripted.transport.answer(None)
        assert not scripted.requests.has_coordinator
        assert scripted.transport.names() == [], "not at once"
        await asyncio.sleep(0.11)
        assert scripted.transport.names() == ["FindCoordinatorRequest"]

    run_in_virtual_time(main(), VirtualLoop())


def test_several_refusals_lead_to_one_search_after_a_pause() -> None:
    async def main() -> None:
        scripted = Scripted()
        for _ in range(3):
            scripted.requests.find_coordinator_later()
            await asyncio.sleep(0.03)
        assert scripted.requests.is_search_due
        assert scripted.transport.names() == []
        await asyncio.sleep(0.2)
        assert not scripted.requests.is_search_due
        assert scripted.transport.names() == ["FindCoordinatorRequest"]

    run_in_virtual_time(main(), VirtualLoop())


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
