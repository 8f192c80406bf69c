"""What a member of the consumer protocol asks about offsets, and what it does not ask while it is in no group."""

import asyncio
from collections.abc import Callable

from regroup.lab.simulation.virtual_clock import VirtualLoop, run_in_virtual_time
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.consumer.state import MemberGeneration
from regroup.members.runtime.application import SimulatedApplication
from regroup.members.runtime.consumer_protocol_offsets import RETRY_MS, ConsumerProtocolOffsets
from regroup.members.runtime.fetcher import Fetcher
from regroup.members.runtime.timers import MemberTimers
from regroup.members.runtime.workload import RecordLedger, Workload
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.message import Message
from tests.members.runtime.test_consumer_protocol_requests import ScriptedTransport

ORDERS_0 = TopicPartition("orders", 0)


class OffsetsOfMember:
    """The offsets of one member whose membership the test sets; its requests wait in `failures` to fail."""

    def __init__(self) -> None:
        self.generation: MemberGeneration | None = MemberGeneration(3, "anna")
        self.failures: list[Callable[[], None]] = []
        settings = ConsumerSettings(group_id="payments")
        application = SimulatedApplication(Workload(records_per_s=1), RecordLedger())
        self.offsets = ConsumerProtocolOffsets(
            settings,
            application,
            Fetcher(ScriptedTransport(), settings, application),
            MemberTimers(lambda: False),
            generation=lambda: self.generation,
            send=self._send,
            observe=lambda change: None,
        )

    def _send(self, message: Message, received: Callable[[Message], None], failed: Callable[[], None]) -> None:
        self.failures.append(failed)


def test_a_lost_fetch_of_offsets_is_repeated_only_while_the_member_is_in_its_group() -> None:
    async def main() -> None:
        member = OffsetsOfMember()
        member.offsets.add([ORDERS_0])
        member.failures[-1]()
        await asyncio.sleep(2 * RETRY_MS / 1000)
        assert len(member.failures) == 2
        member.generation = None  # it is fenced, and its application does not know yet
        member.failures[-1]()
        await asyncio.sleep(2 * RETRY_MS / 1000)
        assert len(member.failures) == 2
        member.generation = MemberGeneration(5, "anna")
        member.offsets.add([ORDERS_0])
        assert len(member.failures) == 3

    run_in_virtual_time(main(), VirtualLoop())
