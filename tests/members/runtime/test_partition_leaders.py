"""Metadata requests for the leaders of partitions, on a transport that fails."""

import asyncio

from regroup.lab.simulation.virtual_clock import VirtualLoop, run_in_virtual_time
from regroup.members.consumer.effects import OutgoingRequest
from regroup.members.consumer.inputs import RequestFailed
from regroup.members.runtime.partition_leaders import RETRY_BACKOFF_S, PartitionLeaders
from regroup.members.transports.base import TransportCallback


class FailingTransport:
    """Refuses every request before `send` returns, and notes when it came."""

    def __init__(self) -> None:
        self.sent_s: list[float] = []

    def send(self, request: OutgoingRequest, callback: TransportCallback) -> None:
        self.sent_s.append(asyncio.get_running_loop().time())
        callback(RequestFailed(request.request_id, "there is no connection"))

    def disconnect_coordinator(self) -> None:
        pass

    async def close(self) -> None:
        pass


class SilentTransport(FailingTransport):
    """Takes requests and answers none."""

    def send(self, request: OutgoingRequest, callback: TransportCallback) -> None:
        self.sent_s.append(asyncio.get_running_loop().time())


def test_no_second_request_is_sent_while_one_is_in_flight_and_none_without_topics() -> None:
    transport = SilentTransport()
    leaders = PartitionLeaders(transport, lambda: None)

    async def main() -> None:
        leaders.refresh(())
        assert not transport.sent_s
        leaders.refresh(("orders",))
        leaders.refresh(("orders",))

    run_in_virtual_time(main(), VirtualLoop())
    assert len(transport.sent_s) == 1


def test_a_request_that_has_failed_is_repeated_after_a_pause_and_by_one_caller() -> None:
    transport = FailingTransport()

    async def main() -> None:
        leaders = PartitionLeaders(transport, lambda: leaders.refresh(("orders",)))
        leaders.refresh(("orders",))
        leaders.refresh(("orders",))
        await asyncio.sleep(2.5 * RETRY_BACKOFF_S)

    run_in_virtual_time(main(), VirtualLoop())
    assert transport.sent_s == [0.0, RETRY_BACKOFF_S, 2 * RETRY_BACKOFF_S]
