"""The emulator for tests: Kafka's groups and brokers in the process of the tests, which can wait for groups and cause
failures.

    from regroup.testing import Emulator

    def test_a_dead_consumer_is_replaced():
        with Emulator(topics={"orders": 6}) as kafka:
            first = consumer(kafka.bootstrap_servers, client_id="first")     # your own client, of any library
            second = consumer(kafka.bootstrap_servers, client_id="second")
            kafka.group("billing").wait_until_stable(members=2)
            kafka.crash_client("second")
            group = kafka.group("billing").wait_until_stable(members=1)
            assert group.partitions_of("first") == {("orders", n) for n in range(6)}

docs/testing.md has more. The package needs the base dependencies only.
"""

from regroup.coordinator.consumer_group import ConsumerGroupState, ReconciliationState
from regroup.coordinator.group import GroupKind, GroupState
from regroup.protocol.errors import ErrorCode
from regroup.server.faults.rule import FaultRule, InvalidFault
from regroup.server.recording.exchange import RecordedExchange
from regroup.testing.async_emulator import AsyncEmulator
from regroup.testing.blocking_connection import BlockingConnection
from regroup.testing.clock.deadlines import PassedDeadline
from regroup.testing.clock.manual_clock import ManualClockLoop
from regroup.testing.emulator import Emulator
from regroup.testing.errors import ActRefused, EmulatorDown, UnknownMember, UnknownTopic
from regroup.testing.faults import AsyncFault, FaultHandle
from regroup.testing.groups.async_group import AsyncGroup
from regroup.testing.groups.handle import GroupHandle
from regroup.testing.groups.story import GroupEvent
from regroup.testing.groups.views import GroupView, MemberInGroup, PartitionName
from regroup.testing.groups.waiting import WaitTimeout
from regroup.testing.topics import TopicRecord

__all__ = [
    "ActRefused",
    "AsyncEmulator",
    "AsyncFault",
    "AsyncGroup",
    "BlockingConnection",
    "ConsumerGroupState",
    "Emulator",
    "EmulatorDown",
    "ErrorCode",
    "FaultHandle",
    "FaultRule",
    "GroupEvent",
    "GroupHandle",
    "GroupKind",
    "GroupState",
    "GroupView",
    "InvalidFault",
    "ManualClockLoop",
    "MemberInGroup",
    "PartitionName",
    "PassedDeadline",
    "RecordedExchange",
    "ReconciliationState",
    "TopicRecord",
    "UnknownMember",
    "UnknownTopic",
    "WaitTimeout",
]
