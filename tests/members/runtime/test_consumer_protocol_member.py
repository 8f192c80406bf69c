"""A member of the consumer protocol whose coordinator is played by the test, in virtual time."""

import asyncio
from itertools import count
from typing import Any

import pytest
from msgspec.structs import replace

from regroup.members.consumer.effects import (
    ConsumerChange,
    ConsumerError,
    ConsumerErrorKind,
    JoinedGroup,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
)
from regroup.members.consumer.inputs import Subscribe
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.faults import parse_fault
from regroup.members.runtime.application import FetchedRecord
from regroup.members.runtime.consumer_protocol_member import ConsumerProtocolMember
from regroup.members.runtime.notes import FaultBegan, FaultEnded, MemberNote, RequestRefused
from regroup.members.runtime.workload import Workload
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.cluster import MetadataRequest, MetadataResponse, MetadataResponseTopic
from regroup.protocol.messages.consumer_group import (
    ConsumerGroupAssignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupTopicPartitions,
)
from regroup.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from tests.members.runtime.played_coordinator import METADATA, ORDERS_ID, UNCHANGED, PlayedCoordinator, assigned

HEARTBEAT = ConsumerGroupHeartbeatRequest
LATE_ID = bytes(15) + b"\2"
METADATA_WITH_LATE = MetadataResponse(
    brokers=[], topics=[*METADATA.topics, MetadataResponseTopic(name="late", topic_id=LATE_ID, partitions=[])]
)
ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def refused(code: ErrorCode, message: str | None = None) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=code, error_message=message)


class Played:
    """The member anna with these faults, its coordinator, and what it has reported."""

    def __init__(self, *faults: str, workload: Workload | None = None, **settings: Any) -> None:
        self.coordinator = PlayedCoordinator()
        self.changes: list[ConsumerChange | ConsumerError] = []
        self.notes: list[MemberNote] = []
        numbers = count(1)
        self.member = ConsumerProtocolMember(
            "anna",
            ConsumerSettings(group_id="payments", **settings),
            self.coordinator,
            Subscribe(("orders",)),
            draw_member_id=lambda: f"anna-{next(numbers)}",
            faults=[parse_fault(each) for each in faults],
            observe=lambda name, change: self.changes.append(change),
            on_note=lambda name, note: self.notes.append(note),
            workload=workload,
        )
        self.member.start()

    def answer(self, response: ConsumerGroupHeartbeatResponse) -> None:
        self.coordinator.answer(HEARTBEAT, response)

    def changes_of(self, kind: type[Any]) -> list[Any]:
        return [each for each in self.changes if isinstance(each, kind)]

    def epochs(self) -> list[int]:
        """The epochs of all heartbeats."""
        return [each.member_epoch for each in self.coordinator.sent_of(HEARTBEAT)]

    async def own(self, *partitions: int) -> "Played":
        """Join, take these partitions, and from now on get heartbeats answered that change nothing."""
        self.answer(assigned(*partitions))
        self.coordinator.answers_heartbeats = UNCHANGED
        self.answer(UNCHANGED)
        await asyncio.sleep(0)
        assert len(self.member.consumer.assigned_partitions) == len(partitions)
        return self


# -- heartbeats


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("the group has no room", "the group has no room"),
        (None, "GROUP_MAX_SIZE_REACHED"),
        ("", "GROUP_MAX_SIZE_REACHED"),
    ],
)
async def test_a_refusal_that_ends_the_member_is_explained(message: str | None, text: str) -> None:
    anna = Played()
    anna.answer(refused(ErrorCode.GROUP_MAX_SIZE_REACHED, message))
    code = ErrorCode.GROUP_MAX_SIZE_REACHED
    assert anna.changes == [ConsumerError(ConsumerErrorKind.GROUP, text, code, is_fatal=True)]
    assert anna.member.view.condition == "failed"


async def test_a_refused_heartbeat_is_noted_with_its_error() -> None:
    anna = await Played().own(0)
    anna.coordinator.answers_heartbeats = None
    await asyncio.sleep(6)
    anna.answer(refused(ErrorCode.UNKNOWN_MEMBER_ID))
    assert anna.notes == [RequestRefused("ConsumerGroupHeartbeat", "UNKNOWN_MEMBER_ID")]
    assert list(anna.member.error_codes_seen) == [ErrorCode.UNKNOWN_MEMBER_ID]


async def test_a_static_member_whose_instance_id_is_taken_asks_for_it_once_a_second() -> None:
    anna = Played(group_instance_id="a")
    anna.coordinator.answers_heartbeats = refused(ErrorCode.UNRELEASED_INSTANCE_ID)
    anna.answer(refused(ErrorCode.UNRELEASED_INSTANCE_ID))
    await asyncio.sleep(10.5)
    assert anna.coordinator.times_of(HEARTBEAT) == pytest.approx(range(11), abs=1e-6)
    assert set(anna.epochs()) == {0}
    anna.coordinator.answers_heartbeats = assigned(0)
    await asyncio.sleep(1)
    assert anna.changes_of(JoinedGroup)


async def test_a_coordinator_that_loads_gets_one_heartbeat_in_each_pause_whatever_the_application_does() -> None:
    anna = await Played("no-poll:20ms@5100ms", "no-poll:20ms@5200ms", "no-poll:20ms@5300ms").own(0)
    anna.coordinator.answers_heartbeats = refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    await asyncio.sleep(6.05)
    times_s = anna.coordinator.times_of(HEARTBEAT)[2:]
    assert times_s == pytest.approx([5 + each / 10 for each in range(len(times_s))], abs=1e-3)


async def test_topics_without_a_name_are_asked_for_once_and_then_the_assignment_once_more() -> None:
    anna, late = await Played().own(0), ConsumerGroupTopicPartitions(topic_id=LATE_ID, partitions=[0])
    anna.coordinator.holds_metadata, anna.coordinator.answers_heartbeats = True, None
    await asyncio.sleep(5.5)
    with_late = ConsumerGroupAssignment(
        topic_partitions=[ConsumerGroupTopicPartitions(topic_id=ORDERS_ID, partitions=[0]), late]
    )
    anna.answer(replace(UNCHANGED, assignment=with_late))
    anna.coordinator.answers_heartbeats = replace(UNCHANGED, assignment=with_late)
    await asyncio.sleep(1)
    assert len(anna.coordinator.times_of(MetadataRequest)) == 1
    sent = len(anna.coordinator.times_of(HEARTBEAT))
    anna.coordinator.answer(MetadataRequest, METADATA_WITH_LATE)
    await asyncio.sleep(1)
    assert len(anna.coordinator.times_of(MetadataRequest)) == 1
    assert anna.member.consumer.assigned_partitions == (TopicPartition("late", 0), ORDERS_0)
    assert len(anna.coordinator.times_of(HEARTBEAT)) - sent <= 2, "one that asks, and one that reports"


# -- outside poll()


async def test_with_slow_join_a_new_assignment_alone_takes_the_application_out_of_poll() -> None:
    anna = await Played("slow-join:20s@8s").own(0)
    await asyncio.sleep(32)
    assert anna.member.outside_poll_ms == 0, "six heartbeats have changed nothing"
    anna.coordinator.answers_heartbeats = assigned(0, 1)
    await asyncio.sleep(5)
    anna.coordinator.answers_heartbeats = UNCHANGED
    assert anna.member.outside_poll_ms > 0
    assert anna.member.consumer.assigned_partitions == (ORDERS_0,)
    await asyncio.sleep(30)
    assert anna.member.consumer.assigned_partitions == (ORDERS_0, ORDERS_1)
    assert anna.member.outside_poll_ms == 0


async def test_a_member_outside_poll_for_too_long_leaves_and_joins_again_when_it_is_back() -> None:
    anna = await Played("no-poll:400s@10s", max_poll_interval_ms=300_000).own(0)
    await asyncio.sleep(309)
    assert anna.epochs()[-1] == 1, "its heartbeats go on"
    await asyncio.sleep(2)
    assert anna.epochs()[-1] == -1
    before = len(anna.epochs())
    await asyncio.sleep(98)
    assert len(anna.epochs()) == before, "it is no member"
    assert not anna.changes_of(PartitionsLost), "the application does not know it yet"
    await asyncio.sleep(2)
    assert anna.changes_of(PartitionsLost) == [PartitionsLost((ORDERS_0,))]
    assert 0 in anna.epochs()[before:]


async def test_a_member_that_returns_to_poll_in_time_stays_however_often_it_is_outside() -> None:
    anna = await Played("no-poll:290s@10s", "no-poll:290s@301s", max_poll_interval_ms=300_000).own(0)
    await asyncio.sleep(1_000)
    assert -1 not in anna.epochs()
    assert not anna.changes_of(PartitionsLost)


async def test_the_poll_timeout_counts_from_when_the_application_was_last_inside_poll() -> None:
    """It is slow to join while the commit before a revocation waits, and then its rebalance listener returns."""
    faults = ("slow-join:400s@8s", "slow-revoke:20s")
    anna = await Played(*faults, workload=Workload(), auto_commit_interval_ms=10**7).own(0, 1)
    anna.member._application.on_positions({ORDERS_0: 5})
    for partitions in ((0,), ()):
        anna.coordinator.answers_heartbeats = assigned(*partitions)
        await asyncio.sleep(7)
    anna.coordinator.answers_heartbeats = UNCHANGED
    anna.coordinator.answer(OffsetCommitRequest, OffsetCommitResponse(topics=[]))
    await asyncio.sleep(10)
    assert anna.member.outside_poll_ms == 10_000, "the listener has been called"
    await asyncio.sleep(20)
    assert anna.changes_of(PartitionsRevoked)
    await asyncio.sleep(300)
    assert -1 not in anna.epochs()


@pytest.mark.parametrize("faults", [(), ("zombie@1s",)], ids=["member", "zombie"])
async def test_a_member_that_was_closed_is_not_outside_poll(faults: tuple[str, ...]) -> None:
    anna = await Played(*faults, session_timeout_ms=10_000).own(0)
    await asyncio.sleep(22)
    anna.coordinator.answers_heartbeats = None
    await anna.member.close()
    anna.member.inject_fault(parse_fault("no-poll:20s"))
    await asyncio.sleep(10)
    assert anna.member.outside_poll_ms == 0


async def test_a_member_that_is_fenced_during_the_commit_before_a_revocation_revokes_nothing() -> None:
    anna = await Played(workload=Workload(), auto_commit_interval_ms=60_000).own(0)
    anna.member._application.on_positions({ORDERS_0: 5})
    anna.coordinator.answers_heartbeats = None
    await asyncio.sleep(5)
    anna.answer(assigned(epoch=1))
    await asyncio.sleep(5)
    anna.answer(refused(ErrorCode.FENCED_MEMBER_EPOCH))
    assert [each.partitions for each in anna.changes_of(PartitionsLost)] == [(ORDERS_0,)]
    anna.coordinator.answer(OffsetCommitRequest, OffsetCommitResponse(topics=[]))
    await asyncio.sleep(0)
    assert anna.changes_of(PartitionsRevoked) == []


# -- its end, and its faults


@pytest.mark.parametrize("owned", [(), (0,)])
async def test_a_member_that_leaves_reports_a_revocation_only_of_what_it_owns(owned: tuple[int, ...]) -> None:
    anna = await Played("leave@10s").own(*owned)
    await asyncio.sleep(11)
    assert anna.member.view.condition == "left"
    assert [len(each.partitions) for each in anna.changes_of(PartitionsRevoked)] == [1] * len(owned)


async def test_a_member_closes_within_five_seconds_although_nothing_answers() -> None:
    anna = await Played().own(0)
    anna.coordinator.answers_heartbeats = None
    began_s = asyncio.get_running_loop().time()
    await anna.member.close()
    assert asyncio.get_running_loop().time() - began_s <= 5.0
    assert anna.member.view.condition == "left"
    assert anna.epochs()[-1] == -1, "it has left"


async def test_a_paused_member_says_so_and_sends_nothing() -> None:
    anna = await Played("pause:20s@10s").own(0)
    await asyncio.sleep(11)
    assert anna.member.view.condition == "paused"
    before = len(anna.epochs())
    await asyncio.sleep(18)
    assert len(anna.epochs()) == before
    await asyncio.sleep(2)
    assert anna.member.view.condition == ""
    assert len(anna.epochs()) > before
    assert anna.notes == [FaultBegan(parse_fault("pause:20s@10s")), FaultEnded("paused")]


async def test_a_zombie_commits_its_positions_once_a_second_with_the_epoch_that_it_had() -> None:
    anna = await Played("zombie@10s", workload=Workload(), session_timeout_ms=10_000).own(0)
    [added] = anna.changes_of(PartitionsAssigned)
    assert added.partitions == (ORDERS_0,)
    anna.member._application.on_positions({ORDERS_0: 5})
    await asyncio.sleep(29)
    before = len(anna.coordinator.sent_of(OffsetCommitRequest))
    await asyncio.sleep(11.5)
    commits = anna.coordinator.sent_of(OffsetCommitRequest)[before:]
    times_s = anna.coordinator.times_of(OffsetCommitRequest)[before:]
    assert [each - times_s[0] for each in times_s] == pytest.approx(range(len(times_s)), abs=1e-6)
    assert len(commits) >= 10
    assert {each.generation_id_or_member_epoch for each in commits} == {1}


async def test_a_zombie_processes_records_and_reports_no_revocation_of_before() -> None:
    anna = await Played("zombie@after-revoked", workload=Workload(), session_timeout_ms=10_000).own(0, 1)
    anna.coordinator.answers_heartbeats = None
    await asyncio.sleep(5)
    anna.answer(assigned(0, epoch=1))
    assert [each.partitions for each in anna.changes_of(PartitionsRevoked)] == [(ORDERS_1,)]
    heartbeats = anna.epochs()
    await asyncio.sleep(25)
    anna.member._application.add_records([FetchedRecord(ORDERS_0, 0, 0)])
    anna.member._application.on_fetched()
    await asyncio.sleep(25)
    assert anna.member.view.processed_count == 1
    assert anna.epochs() == heartbeats


async def test_a_zombie_that_is_to_pause_stays_a_zombie_and_closes_at_once() -> None:
    anna = await Played("zombie@10s", session_timeout_ms=10_000).own(0)
    await asyncio.sleep(40)
    anna.member.inject_fault(parse_fault("pause:5s"))
    assert anna.member.view.condition == "zombie"
    await asyncio.sleep(10)
    assert anna.member.view.condition == "zombie"
    before_s = asyncio.get_running_loop().time()
    await anna.member.close()
    assert asyncio.get_running_loop().time() == before_s


async def test_a_process_that_restarts_does_not_look_again_for_a_leader_it_has_not_found() -> None:
    played = Played("restart:5s@20s", workload=Workload(records_per_s=0))
    await played.own(0)
    played.coordinator.holds_metadata = True
    partition = OffsetFetchResponsePartitions(partition_index=0, committed_offset=7)
    topic = OffsetFetchResponseTopics(name="orders", partitions=[partition])
    group = OffsetFetchResponseGroup(group_id="payments", topics=[topic])
    played.coordinator.answer(OffsetFetchRequest, OffsetFetchResponse(groups=[group]))
    await asyncio.sleep(20.1)
    searches = played.coordinator.sent_of(MetadataRequest)
    played.coordinator.answer(MetadataRequest, None)
    await asyncio.sleep(4.8)
    assert played.coordinator.sent_of(MetadataRequest) == searches
    await asyncio.sleep(1)
    assert len(played.coordinator.sent_of(MetadataRequest)) == 1 + len(searches), "the next process"
