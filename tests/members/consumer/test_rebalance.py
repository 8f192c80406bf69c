"""A member through its rebalances: eager, cooperative, static, by pattern, as leader and as follower."""

import re

from regroup.assignors.interface import ClusterMetadata
from regroup.members.consumer.effects import (
    ConsumerErrorKind,
    JoinedGroup,
    PartitionsAssigned,
    PartitionsRevoked,
)
from regroup.members.consumer.inputs import (
    EnforceRebalance,
    ListenerReturned,
    MetadataUpdated,
    Poll,
    PollReturned,
    ResponseReceived,
    Subscribe,
)
from regroup.members.consumer.state import MemberState
from regroup.protocol.consumer.subscription import TopicPartition, decode_assignment, decode_subscription
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.cluster import MetadataRequest, MetadataResponse
from regroup.protocol.messages.group import (
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from tests.members.harness import MemberHarness, orders


def test_a_member_joins_as_soon_as_its_coordinator_is_known_whatever_its_clock_says(member: MemberHarness) -> None:
    member.now_ms = 0
    member.subscribe()
    member.find_coordinator()
    assert member.open_request_names() == ["JoinGroup"]


def test_a_member_goes_through_all_states_and_gets_its_partitions(member: MemberHarness) -> None:
    assert member.consumer.state is MemberState.UNJOINED
    member.subscribe()
    assert member.open_request_names() == ["FindCoordinator"]
    member.find_coordinator()
    assert member.consumer.state is MemberState.PREPARING_REBALANCE
    member.complete_join(1, leader="anna")
    assert member.consumer.state is MemberState.COMPLETING_REBALANCE
    member.complete_sync(*orders(0, 1))
    assert member.consumer.state is MemberState.STABLE
    assert member.consumer.assigned_partitions == orders(0, 1)
    assert member.changes == [
        JoinedGroup(1, "anna", True, "cooperative-sticky"),
        PartitionsAssigned(orders(0, 1)),
    ]


def test_a_member_without_an_id_rejoins_with_the_id_it_is_given(member: MemberHarness) -> None:
    member.subscribe()
    member.find_coordinator()
    first = member.respond(
        JoinGroupRequest, JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="anna")
    )
    assert first.member_id == ""
    assert member.complete_join().member_id == "anna"


def test_no_request_is_sent_before_the_first_poll(member: MemberHarness) -> None:
    assert member.receive(Subscribe(("orders",))).requests == ()


def test_a_leader_syncs_with_all_assignments_and_a_follower_with_none(
    member: MemberHarness,
) -> None:
    member.subscribe()
    member.find_coordinator()
    member.complete_join(leader="anna", others=["ben"])
    sent = member.complete_sync(*orders(0, 1))
    assignments = {each.member_id: decode_assignment(each.assignment).partitions for each in sent.assignments}
    assert sorted(len(each) for each in assignments.values()) == [2, 2]
    assert sorted(assignments) == ["anna", "ben"]

    follower = MemberHarness().subscribe()
    follower.find_coordinator()
    follower.complete_join(leader="ben")
    assert follower.complete_sync(*orders(2, 3)).assignments == []


def test_an_eager_member_revokes_all_partitions_before_it_rejoins() -> None:
    member = MemberHarness(partition_assignment_strategy=("range",)).reach_stable(*orders(0, 1), protocol="range")
    member.pass_time(3_000)
    member.complete_heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert member.changes[-1] == PartitionsRevoked(orders(0, 1))
    assert member.consumer.assigned_partitions == ()
    sent = member.complete_join(2, protocol="range", leader="ben")
    assert decode_subscription(sent.protocols[0].metadata).owned_partitions == ()
    member.complete_sync(*orders(1))
    assert member.changes[-1] == PartitionsAssigned(orders(1))


def test_poll_returns_no_records_while_an_eager_member_commits_before_it_revokes() -> None:
    for protocol, returns_records in (("range", False), ("cooperative-sticky", True)):
        member = MemberHarness(partition_assignment_strategy=(protocol,), enable_auto_commit=True)
        member.reach_stable(*orders(0), protocol=protocol)
        member.complete_offset_fetch(7)
        member.receive(EnforceRebalance())
        assert member.open_request_names() == ["OffsetCommit"]
        assert member.consumer.returns_records is returns_records
        member.complete_commit()
        assert member.open_request_names() == ["JoinGroup"]
        assert member.consumer.returns_records


def test_a_cooperative_member_keeps_its_partitions_while_it_rejoins(member: MemberHarness) -> None:
    member.reach_stable(*orders(0, 1))
    member.pass_time(3_000)
    member.complete_heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert member.consumer.assigned_partitions == orders(0, 1)
    subscription = decode_subscription(member.complete_join(2, leader="ben").protocols[0].metadata)
    assert subscription.owned_partitions == orders(0, 1)
    assert subscription.generation_id == 1
    assert not member.changes_of(PartitionsRevoked)


def test_a_cooperative_member_revokes_a_partition_that_moves_and_rejoins(member: MemberHarness) -> None:
    member.reach_stable(*orders(0, 1))
    member.receive(EnforceRebalance())
    member.complete_join(2, leader="ben")
    member.complete_sync(*orders(1))
    assert member.changes[-2:] == [PartitionsRevoked(orders(0)), PartitionsAssigned(())]
    again = member.complete_join(3, leader="ben")
    assert again.reason == "need to revoke partitions and re-join"
    assert decode_subscription(again.protocols[0].metadata).owned_partitions == orders(1)


def test_assignors_with_only_eager_in_common_make_an_eager_member() -> None:
    member = MemberHarness(partition_assignment_strategy=("range", "cooperative-sticky")).reach_stable(
        *orders(0), protocol="range"
    )
    member.receive(EnforceRebalance())
    assert member.changes[-1] == PartitionsRevoked(orders(0))


def test_a_member_outside_poll_learns_of_a_rebalance_and_joins_at_the_next_poll(member: MemberHarness) -> None:
    member.reach_stable(*orders(0))
    member.receive(PollReturned())
    member.pass_time(3_000)
    member.complete_heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert "JoinGroup" not in member.open_request_names()
    assert member.consumer.rejoin_needed_or_pending
    member.receive(Poll())
    assert "JoinGroup" in member.open_request_names()


def test_a_leader_rejoins_when_a_topic_grows_and_a_follower_does_not() -> None:
    for leader, joins in (("anna", True), ("ben", False)):
        member = MemberHarness().reach_stable(*orders(0), leader=leader)
        member.receive(MetadataUpdated(ClusterMetadata({"orders": 5})))
        assert ("JoinGroup" in member.open_request_names()) is joins


def test_racks_count_only_for_a_leader_that_has_one() -> None:
    for rack, joins in (("east", True), (None, False)):
        member = MemberHarness(client_rack=rack).reach_stable(*orders(0))
        member.receive(MetadataUpdated(ClusterMetadata({"orders": 4}, {"orders": [["west"]] * 4})))
        assert ("JoinGroup" in member.open_request_names()) is joins


def test_a_pattern_waits_for_metadata_and_leaves_internal_topics_out(member: MemberHarness) -> None:
    member.receive(Subscribe(pattern=re.compile(".*")))
    member.receive(Poll())
    assert member.open_request_names() == ["Metadata"]
    assert member.take_request(MetadataRequest).message == MetadataRequest(topics=None)
    member.receive(MetadataUpdated(ClusterMetadata({"orders": 4, "__consumer_offsets": 50, "clicks": 1})))
    member.find_coordinator()
    sent = member.complete_join()
    assert decode_subscription(sent.protocols[0].metadata).topics == ("clicks", "orders")


def test_metadata_of_a_former_subscription_is_not_taken_for_that_of_the_present_one(member: MemberHarness) -> None:
    member.receive(Subscribe(("orders",)))
    member.receive(Poll())
    former = member.take_request(MetadataRequest)
    member.receive(Subscribe(("clicks",)))
    member.receive(ResponseReceived(former.request_id, MetadataResponse(brokers=[], topics=[])))
    asked = member.take_request(MetadataRequest).message
    assert isinstance(asked, MetadataRequest)
    assert [topic.name for topic in asked.topics or []] == ["clicks"]


def test_a_new_topic_that_matches_a_pattern_makes_its_subscriber_rejoin(member: MemberHarness) -> None:
    member.receive(Subscribe(pattern=re.compile("orders.*")))
    member.receive(Poll())
    member.receive(MetadataUpdated(ClusterMetadata({"orders": 4})))
    member.find_coordinator()
    member.complete_join(leader="ben")
    member.complete_sync(*orders(0))
    member.receive(MetadataUpdated(ClusterMetadata({"orders": 4, "orders-eu": 1, "clicks": 1})))
    sent = member.take_request(JoinGroupRequest).message
    assert isinstance(sent, JoinGroupRequest)
    assert decode_subscription(sent.protocols[0].metadata).topics == ("orders", "orders-eu")


def test_a_changed_subscription_revokes_partitions_of_other_topics(member: MemberHarness) -> None:
    member.reach_stable(*orders(0, 1))
    member.receive(Subscribe(("clicks",)))
    assert member.changes[-1] == PartitionsRevoked(orders(0, 1))
    assert "JoinGroup" in member.open_request_names()


def test_an_assignment_for_an_older_subscription_is_not_applied(member: MemberHarness) -> None:
    member.reach_stable(*orders(0))
    member.receive(EnforceRebalance())
    member.complete_join(2, leader="ben")
    member.complete_sync(TopicPartition("clicks", 0))
    assert member.consumer.assigned_partitions == orders(0)
    assert "JoinGroup" in member.open_request_names()


def test_a_leader_requests_metadata_of_other_members_topics_before_it_assigns(member: MemberHarness) -> None:
    member.lead_without_metadata()
    asked = member.take_request(MetadataRequest).message
    assert isinstance(asked, MetadataRequest)
    assert [topic.name for topic in asked.topics or []] == ["clicks", "orders"]
    member.receive(MetadataUpdated(ClusterMetadata({"clicks": 1, "orders": 2})))
    assert "SyncGroup" in member.open_request_names()


def test_metadata_that_were_requested_for_fewer_topics_do_not_let_a_leader_assign(member: MemberHarness) -> None:
    member.receive(Subscribe(("clicks",)))
    member.receive(Poll())
    member.find_coordinator()
    member.complete_join(others=["ben"])  # the Metadata request for clicks is still open
    member.respond(MetadataRequest, MetadataResponse(brokers=[], topics=[]))
    assert member.open_request_names() == ["Metadata"]
    assert not member.consumer.is_leader or "SyncGroup" not in member.open_request_names()


def test_a_static_leader_that_restarts_assigns_nothing_and_follows_the_metadata() -> None:
    member = MemberHarness(group_instance_id="anna-1").subscribe()
    member.find_coordinator()
    assert member.complete_join(skip_assignment=True).group_instance_id == "anna-1"
    assert member.complete_sync(*orders(0)).assignments == []
    assert member.consumer.is_leader
    member.receive(MetadataUpdated(ClusterMetadata({"orders": 9})))
    assert "JoinGroup" in member.open_request_names()


def test_a_slow_rebalance_listener_delays_the_join() -> None:
    member = MemberHarness(partition_assignment_strategy=("range",), waits_for_listener=True)
    member.reach_stable(*orders(0), protocol="range")
    member.receive(ListenerReturned())
    member.receive(EnforceRebalance())
    assert member.changes[-1] == PartitionsRevoked(orders(0))
    member.pass_time(3_000)
    assert "JoinGroup" not in member.open_request_names()
    assert "Heartbeat" in member.open_request_names()
    member.receive(ListenerReturned())
    assert "JoinGroup" in member.open_request_names()
    assert member.consumer.assigned_partitions == ()


def test_a_member_without_an_assignment_fails_in_every_poll_and_stays_in_the_group(member: MemberHarness) -> None:
    member.subscribe()
    member.find_coordinator()
    member.complete_join()
    member.respond(SyncGroupRequest, SyncGroupResponse(assignment=b""))
    member.receive(Poll())
    assert [error.kind for error in member.poll_errors] == [ConsumerErrorKind.ASSIGNMENT] * 2
    assert "anna" in str(member.poll_errors[0])
    assert "no assignment" in str(member.poll_errors[0])
    member.pass_time(3_000)
    assert "Heartbeat" in member.open_request_names()


def test_a_sync_response_with_another_assignor_is_a_fatal_error(member: MemberHarness) -> None:
    member.subscribe()
    member.find_coordinator()
    member.complete_join()
    member.respond(SyncGroupRequest, SyncGroupResponse(protocol_name="range"))
    assert member.poll_errors[0].code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert member.poll_errors[0].is_fatal


def test_a_broken_connection_makes_the_member_find_its_coordinator_again(member: MemberHarness) -> None:
    member.reach_stable(*orders(0))
    member.receive(EnforceRebalance())
    member.fail_request(JoinGroupRequest)
    assert member.last_effects.disconnects_coordinator
    assert member.open_request_names() == ["FindCoordinator"]
    member.find_coordinator()
    member.pass_time(100)
    assert "JoinGroup" in member.open_request_names()
    assert member.consumer.assigned_partitions == orders(0)


def test_the_backoff_of_joins_doubles(member: MemberHarness) -> None:
    member.subscribe()
    member.find_coordinator()
    pauses = []
    for _ in range(6):
        member.respond(
            JoinGroupRequest,
            JoinGroupResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, member_id=""),
        )
        deadline_ms = member.last_effects.deadline_ms
        assert deadline_ms is not None
        pauses.append(deadline_ms - member.now_ms)
        member.pass_time(pauses[-1])
    assert pauses == [100, 200, 400, 800, 1_000, 1_000]
