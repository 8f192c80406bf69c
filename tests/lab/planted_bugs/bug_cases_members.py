"""Cases of bugs of consumers."""

from collections import deque
from typing import Any
from unittest.mock import Mock

from regroup.assignors.interface import AssignorMember, ClusterMetadata
from regroup.assignors.sticky.assignor import CooperativeStickyAssignor
from regroup.lab.planted_bugs import members
from regroup.members.consumer.effects import (
    CommittedOffsetsFetched,
    ConsumerErrorKind,
    LeftGroup,
    NodeAddress,
    OutgoingRequest,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
)
from regroup.members.consumer.inputs import (
    Close,
    EnforceRebalance,
    PollReturned,
    RecordsConsumed,
    RequestFailed,
    Subscribe,
    Unsubscribe,
)
from regroup.members.consumer.metadata import ConsumerMetadata
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.consumer.state import MemberState
from regroup.members.runtime.application import SimulatedApplication
from regroup.members.runtime.fetcher import FetchedRecord, Fetcher
from regroup.members.runtime.producer import SimulatedProducer
from regroup.members.runtime.workload import RecordLedger, Workload
from regroup.protocol.errors import ErrorCode as E
from regroup.protocol.messages.records import FetchableTopicResponse, FetchResponse, PartitionData
from regroup.protocol.record_batch import BatchRecord, write_batch
from tests.lab.planted_bugs.bug_cases import bug_case
from tests.members.harness import MemberHarness, orders

FIRST, SECOND = orders(0, 1)


class SilentTransport:
    """A transport without responses."""

    def __init__(self) -> None:
        self.sent: list[OutgoingRequest] = []

    def send(self, request: OutgoingRequest, callback: Any) -> None:
        self.sent.append(request)


def application(on_positions: Any = lambda positions: None) -> SimulatedApplication:
    return SimulatedApplication(Workload(), RecordLedger(), on_positions=on_positions, on_fetched=lambda: None)


@bug_case(members.member_reads_revoked_partitions, expected=[SECOND], with_bug=[FIRST, SECOND])
def a_partition_is_revoked() -> Any:
    fetcher = Fetcher(SilentTransport(), ConsumerSettings(group_id="payments"), application())
    fetcher._positions = {FIRST: 10, SECOND: 20}
    fetcher.remove_partitions([FIRST])
    return list(fetcher._positions)


@bug_case(members.member_takes_records_of_another_position, expected={FIRST: 8}, with_bug={FIRST: 10})
def a_response_comes_for_the_position_before() -> Any:
    fetcher = Fetcher(SilentTransport(), ConsumerSettings(group_id="payments"), application())
    fetcher._positions = {FIRST: 9}
    request = fetcher._fetch_request([FIRST])
    fetcher._positions = {FIRST: 8}
    batch = write_batch([BatchRecord(key=None, value=b"0")], base_timestamp_ms=0, base_offset=9)
    data = PartitionData(partition_index=0, high_watermark=10, records=batch)
    response = FetchResponse(responses=[FetchableTopicResponse(topic="orders", partitions=[data])])
    fetcher._process(response, request)
    return fetcher._positions


@bug_case(members.member_takes_topics_it_has_given_up, expected=0, with_bug=1)
def an_application_changes_its_topics_while_sync_group_is_in_flight() -> Any:
    harness = MemberHarness().subscribe()
    harness.find_coordinator()
    harness.complete_join()
    harness.receive(Subscribe(("clicks",)))
    harness.complete_sync(FIRST)
    return len(harness.changes_of(PartitionsAssigned))


@bug_case(members.fenced_automatic_commit_ends_nothing, expected=[ConsumerErrorKind.FENCED], with_bug=[])
def an_automatic_commit_is_fenced() -> Any:
    harness = MemberHarness(enable_auto_commit=True, heartbeat_interval_ms=20_000).reach_stable(FIRST)
    harness.complete_offset_fetch(5)
    harness.receive(RecordsConsumed({FIRST: 6}))
    harness.pass_time(6_000)
    harness.complete_commit(E.FENCED_INSTANCE_ID)
    return [each.kind for each in harness.poll_errors]


@bug_case(members.member_starts_one_offset_too_far, expected={FIRST: 10}, with_bug={FIRST: 11})
def a_partition_is_assigned() -> Any:
    fetcher = Fetcher(SilentTransport(), ConsumerSettings(group_id="payments"), application())
    fetcher._retry = object()  # a retry is scheduled already: there is no loop
    fetcher.add_partitions({FIRST: 10})
    return fetcher._positions


@bug_case(members.member_starts_one_offset_too_early, expected={FIRST: 10}, with_bug={FIRST: 9})
def a_partition_with_an_offset_is_assigned() -> Any:
    return a_partition_is_assigned()


@bug_case(members.member_ignores_its_poll_timeout, expected=True, with_bug=False)
def an_application_does_not_poll() -> Any:
    harness = MemberHarness(max_poll_interval_ms=20_000).reach_stable(FIRST)
    harness.receive(PollReturned())
    harness.pass_time(25_000)
    return any(isinstance(each, LeftGroup) for each in harness.changes)


@bug_case(members.member_leaves_at_half_its_poll_interval, expected=False, with_bug=True)
def an_application_does_not_poll_for_half_its_interval() -> Any:
    harness = MemberHarness(max_poll_interval_ms=20_000).reach_stable(FIRST)
    harness.receive(PollReturned())
    harness.pass_time(12_000)
    return any(isinstance(each, LeftGroup) for each in harness.changes)


@bug_case(members.member_falls_silent_at_its_poll_timeout, expected=True, with_bug=False)
def an_application_does_not_poll_for_longer_than_its_interval() -> Any:
    return an_application_does_not_poll()


@bug_case(members.member_commits_what_it_fetched, expected=[{FIRST: 6}], with_bug=[{FIRST: 6}, {FIRST: 7}])
def two_records_are_fetched_and_the_first_is_processed() -> Any:
    positions = []
    reading = application(positions.append)
    records = [FetchedRecord(FIRST, offset, 0) for offset in (5, 6)]
    for each in records:
        reading.add_records([each])
    reading.complete_batch(records[:1], now_ms=0)
    return positions


@bug_case(members.cooperative_member_revokes_nothing, expected=(SECOND,), with_bug=(FIRST, SECOND))
def a_partition_is_taken_away() -> Any:
    harness = MemberHarness().reach_stable(FIRST, SECOND)
    harness.consumer._membership.request_rejoin("a member joined")
    harness.pass_time(1)
    harness.complete_join(2, others=("ben",))
    harness.complete_sync(SECOND)
    return harness.consumer.assigned_partitions


@bug_case(members.cooperative_leader_moves_partitions_at_once, expected=1, with_bug=2)
def a_cooperative_leader_assigns_to_an_owner_of_everything_and_a_new_member() -> Any:
    owner = AssignorMember(("orders",), None, (FIRST, SECOND), 1, None, None)
    new = AssignorMember(("orders",), None, (), -1, None, None)
    assignments = CooperativeStickyAssignor().assign(ClusterMetadata({"orders": 2}), {"anna": owner, "ben": new})
    return sum(len(partitions) for partitions in assignments.values())


@bug_case(members.removed_member_keeps_its_partitions, expected=(), with_bug=(FIRST,))
def a_member_learns_that_it_is_unknown() -> Any:
    harness = MemberHarness().reach_stable(FIRST)
    harness.pass_time(3_000)
    harness.complete_heartbeat(E.UNKNOWN_MEMBER_ID)
    harness.pass_time(1)
    return harness.consumer.assigned_partitions


@bug_case(members.closed_member_stays, expected=True, with_bug=False)
def a_consumer_is_closed() -> Any:
    harness = MemberHarness().reach_stable(FIRST)
    harness.receive(Close(timeout_ms=1_000))
    return any(isinstance(each, LeftGroup) for each in harness.changes)


@bug_case(members.member_finds_no_first_offset, expected=["ListOffsetsRequest"], with_bug=[])
def a_partition_has_no_committed_offset() -> Any:
    transport = SilentTransport()
    fetcher = Fetcher(transport, ConsumerSettings(group_id="payments"), application())
    fetcher._retry = object()  # a retry is scheduled already: there is no loop
    fetcher._leaders.by_partition[FIRST] = NodeAddress(0, "localhost", 9092)
    fetcher.add_partitions({FIRST: None})
    return [type(each.message).__name__ for each in transport.sent]


@bug_case(members.member_takes_a_refusal_for_no_offset, expected=[], with_bug=[CommittedOffsetsFetched({FIRST: None})])
def a_fetch_of_offsets_is_refused() -> Any:
    harness = MemberHarness().reach_stable(FIRST)
    harness.complete_offset_fetch(group_code=E.COORDINATOR_LOAD_IN_PROGRESS)
    return harness.changes_of(CommittedOffsetsFetched)


@bug_case(members.member_keeps_the_partitions_of_a_refused_generation, expected=(), with_bug=(FIRST,))
def a_generation_is_refused() -> Any:
    harness = MemberHarness().reach_stable(FIRST)
    harness.pass_time(3_000)
    harness.complete_heartbeat(E.ILLEGAL_GENERATION)
    harness.pass_time(1)
    return harness.consumer.assigned_partitions


@bug_case(members.assignor_remembers_the_generation_before, expected=1, with_bug=0)
def an_assignment_is_taken() -> Any:
    harness = MemberHarness().reach_stable(FIRST)
    return harness.consumer._rebalance.group_join.last_assignments["cooperative-sticky"].generation


@bug_case(members.member_swaps_its_timeouts, expected=(45_000, 300_000), with_bug=(300_000, 45_000))
def a_member_joins() -> Any:
    harness = MemberHarness().subscribe()
    harness.find_coordinator()
    request = harness.complete_join()
    return request.session_timeout_ms, request.rebalance_timeout_ms


@bug_case(members.closed_member_commits_nothing, expected=True, with_bug=False)
def a_consumer_with_a_position_is_closed() -> Any:
    harness = MemberHarness(enable_auto_commit=True).reach_stable(FIRST)
    harness.complete_offset_fetch(5)
    harness.receive(RecordsConsumed({FIRST: 6}))
    harness.receive(Close(timeout_ms=1_000))
    return "OffsetCommit" in harness.open_request_names()


@bug_case(
    members.unsubscribing_member_leaves_first,
    expected=[PartitionsRevoked, LeftGroup],
    with_bug=[LeftGroup, PartitionsLost],
)
def a_consumer_unsubscribes() -> Any:
    harness = MemberHarness().reach_stable(FIRST)
    before = len(harness.changes)
    harness.receive(Unsubscribe())
    return [type(each) for each in harness.changes[before:]]


@bug_case(members.joining_member_does_not_leave, expected=1, with_bug=0)
def a_consumer_unsubscribes_while_it_joins_again() -> Any:
    harness = MemberHarness().reach_stable(FIRST)
    harness.receive(EnforceRebalance("the application asks for it"))
    assert harness.consumer.state is MemberState.PREPARING_REBALANCE
    harness.receive(Unsubscribe())
    return harness.open_request_names().count("LeaveGroup")


@bug_case(members.leader_watches_its_own_topics, expected=["clicks", "orders"], with_bug=["orders"])
def another_member_subscribes_to_more() -> Any:
    metadata = ConsumerMetadata(ConsumerSettings(group_id="payments"), Mock(now_ms=0))
    metadata.subscribe(Subscribe(("orders",)))
    metadata.update_group_subscription(("clicks", "orders"))
    metadata.update(ClusterMetadata({"orders": 2, "clicks": 1}))
    return sorted(metadata.snapshot())


@bug_case(members.member_gives_up_a_healthy_coordinator, expected=0, with_bug=1)
def a_rebalance_lasts_longer_than_the_session_timeout() -> Any:
    harness = MemberHarness(session_timeout_ms=10_000, heartbeat_interval_ms=3_000).reach_stable(FIRST)
    harness.complete_offset_fetch(5)
    harness.receive(PollReturned())
    for _ in range(4):
        harness.pass_time(3_000)
        if "Heartbeat" in harness.open_request_names():
            harness.complete_heartbeat(E.REBALANCE_IN_PROGRESS)
    return harness.open_request_names().count("FindCoordinator")


@bug_case(members.member_forgets_partitions_without_an_offset, expected=[FIRST], with_bug=[])
def a_rebalance_leaves_a_member_a_partition_whose_offset_it_does_not_know() -> Any:
    harness = MemberHarness().reach_stable(FIRST)
    harness.consumer._membership.request_rejoin("a member joined")
    harness.pass_time(1)
    harness.complete_join(2, others=("ben",))
    harness.complete_sync(FIRST)
    return list(harness.consumer._offsets._unknown_positions)


@bug_case(members.producer_keeps_the_leader_that_refused, expected=[SECOND], with_bug=[SECOND, FIRST])
def a_broker_refuses_the_records_of_a_partition() -> Any:
    leader = NodeAddress(0, "broker", 9092)
    producer = Mock(refused_count=0, _sent_at_s={FIRST: deque([0.0])})
    producer._leaders.by_partition = {FIRST: leader, SECOND: leader}
    SimulatedProducer._on_response(producer, {FIRST: 1}, RequestFailed(1, "the broker is down"))
    return list(producer._leaders.by_partition)
