"""A member through its rebalances: eager, cooperative, static, by pattern, as leader and as follower."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from regroup.assignors.interface import Cluster
from regroup.members.consumer.effects import (
    Closed,
    ErrorKind,
    JoinedGroup,
    LeftGroup,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
)
from regroup.members.consumer.inputs import (
    Close,
    ClusterSeen,
    EnforceRebalance,
    ListenerReturned,
    Poll,
    PollReturned,
    Subscribe,
    Unsubscribe,
)
from regroup.members.consumer.state import Phase
from regroup.protocol.consumer.subscription import TopicPartition, decode_assignment, decode_subscription
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.cluster import MetadataRequest, MetadataResponse
from regroup.protocol.messages.group import (
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.members.conftest import Stage

    StageWith = Callable[..., Stage]


def orders(*numbers: int) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition("orders", number) for number in numbers)


def test_a_member_goes_through_all_phases_and_gets_its_partitions(stage: Stage) -> None:
    assert stage.consumer.phase is Phase.UNJOINED
    stage.subscribed()
    assert stage.names() == ["FindCoordinator"]
    stage.coordinator_found()
    assert stage.consumer.phase is Phase.PREPARING
    stage.joined(1, leader="anna")
    assert stage.consumer.phase is Phase.COMPLETING
    stage.synced(*orders(0, 1))
    assert stage.consumer.phase is Phase.STABLE
    assert stage.consumer.assigned == orders(0, 1)
    assert stage.happened == [
        JoinedGroup(1, "anna", True, "cooperative-sticky"),
        PartitionsAssigned(orders(0, 1)),
    ]


def test_a_member_that_is_asked_to_return_comes_back_with_the_id_it_was_given(stage: Stage) -> None:
    stage.subscribed()
    stage.coordinator_found()
    first = stage.answer(JoinGroupRequest, JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="anna"))
    assert first.member_id == ""
    assert stage.joined().member_id == "anna"


def test_nothing_is_asked_before_the_first_poll(stage: Stage) -> None:
    assert stage.when(Subscribe(("orders",))).requests == ()


def test_a_follower_syncs_with_nothing_and_a_leader_with_everyones_share(stage: Stage, stage_with: StageWith) -> None:
    stage.subscribed()
    stage.coordinator_found()
    stage.joined(leader="anna", others=["ben"])
    sent = stage.synced(*orders(0, 1))
    shares = {each.member_id: decode_assignment(each.assignment).partitions for each in sent.assignments}
    assert sorted(len(share) for share in shares.values()) == [2, 2]
    assert sorted(shares) == ["anna", "ben"]

    follower = stage_with().subscribed()
    follower.coordinator_found()
    follower.joined(leader="ben")
    assert follower.synced(*orders(2, 3)).assignments == []


def test_an_eager_member_gives_everything_up_before_it_joins_again(stage_with: StageWith) -> None:
    stage = stage_with(partition_assignment_strategy=("range",)).stable(*orders(0, 1), protocol="range")
    stage.pass_time(3_000)
    stage.heartbeat_answered(ErrorCode.REBALANCE_IN_PROGRESS)
    assert stage.happened[-1] == PartitionsRevoked(orders(0, 1))
    assert stage.consumer.assigned == ()
    sent = stage.joined(2, protocol="range", leader="ben")
    assert decode_subscription(sent.protocols[0].metadata).owned_partitions == ()
    stage.synced(*orders(1))
    assert stage.happened[-1] == PartitionsAssigned(orders(1))


def test_poll_returns_no_records_while_an_eager_member_commits_what_it_gives_up(stage_with: StageWith) -> None:
    for protocol, returns_records in (("range", False), ("cooperative-sticky", True)):
        stage = stage_with(partition_assignment_strategy=(protocol,), enable_auto_commit=True)
        stage.stable(*orders(0), protocol=protocol)
        stage.offsets_fetched(7)
        stage.when(EnforceRebalance())
        assert stage.names() == ["OffsetCommit"]
        assert stage.consumer.returns_records is returns_records
        stage.commit_answered()
        assert stage.names() == ["JoinGroup"]
        assert stage.consumer.returns_records


def test_a_cooperative_member_keeps_its_partitions_while_it_joins_again(stage: Stage) -> None:
    stage.stable(*orders(0, 1))
    stage.pass_time(3_000)
    stage.heartbeat_answered(ErrorCode.REBALANCE_IN_PROGRESS)
    assert stage.consumer.assigned == orders(0, 1)
    subscription = decode_subscription(stage.joined(2, leader="ben").protocols[0].metadata)
    assert subscription.owned_partitions == orders(0, 1)
    assert subscription.generation_id == 1
    assert not stage.all(PartitionsRevoked)


def test_a_cooperative_member_that_loses_a_partition_revokes_it_and_joins_once_more(stage: Stage) -> None:
    stage.stable(*orders(0, 1))
    stage.when(EnforceRebalance())
    stage.joined(2, leader="ben")
    stage.synced(*orders(1))
    assert stage.happened[-2:] == [PartitionsRevoked(orders(0)), PartitionsAssigned(())]
    again = stage.joined(3, leader="ben")
    assert again.reason == "need to revoke partitions and re-join"
    assert decode_subscription(again.protocols[0].metadata).owned_partitions == orders(1)


def test_assignors_with_only_eager_in_common_make_an_eager_member(stage_with: StageWith) -> None:
    stage = stage_with(partition_assignment_strategy=("range", "cooperative-sticky")).stable(
        *orders(0), protocol="range"
    )
    stage.when(EnforceRebalance())
    assert stage.happened[-1] == PartitionsRevoked(orders(0))


def test_a_member_that_is_not_in_poll_hears_of_the_rebalance_and_joins_at_the_next_poll(stage: Stage) -> None:
    stage.stable(*orders(0))
    stage.when(PollReturned())
    stage.pass_time(3_000)
    stage.heartbeat_answered(ErrorCode.REBALANCE_IN_PROGRESS)
    assert "JoinGroup" not in stage.names()
    assert stage.consumer.wants_to_join
    stage.when(Poll())
    assert "JoinGroup" in stage.names()


def test_a_leader_joins_again_when_a_topic_grows_and_a_follower_does_not(stage_with: StageWith) -> None:
    for leader, joins in (("anna", True), ("ben", False)):
        stage = stage_with().stable(*orders(0), leader=leader)
        stage.when(ClusterSeen(Cluster({"orders": 5})))
        assert ("JoinGroup" in stage.names()) is joins


def test_racks_count_only_for_a_leader_that_has_one(stage_with: StageWith) -> None:
    for rack, joins in (("east", True), (None, False)):
        stage = stage_with(client_rack=rack).stable(*orders(0))
        stage.when(ClusterSeen(Cluster({"orders": 4}, {"orders": [["west"]] * 4})))
        assert ("JoinGroup" in stage.names()) is joins


def test_a_pattern_waits_for_the_topics_and_leaves_internal_ones_out(stage: Stage) -> None:
    stage.when(Subscribe(pattern=re.compile(".*")))
    stage.when(Poll())
    assert stage.names() == ["Metadata"]
    assert stage.take(MetadataRequest).message == MetadataRequest(topics=None)
    stage.when(ClusterSeen(Cluster({"orders": 4, "__consumer_offsets": 50, "clicks": 1})))
    stage.coordinator_found()
    sent = stage.joined()
    assert decode_subscription(sent.protocols[0].metadata).topics == ("clicks", "orders")


def test_a_new_topic_that_matches_makes_every_subscriber_join_again(stage: Stage) -> None:
    stage.when(Subscribe(pattern=re.compile("orders.*")))
    stage.when(Poll())
    stage.when(ClusterSeen(Cluster({"orders": 4})))
    stage.coordinator_found()
    stage.joined(leader="ben")
    stage.synced(*orders(0))
    stage.when(ClusterSeen(Cluster({"orders": 4, "orders-eu": 1, "clicks": 1})))
    sent = stage.take(JoinGroupRequest).message
    assert isinstance(sent, JoinGroupRequest)
    assert decode_subscription(sent.protocols[0].metadata).topics == ("orders", "orders-eu")


def test_a_changed_subscription_revokes_what_is_no_longer_wanted(stage: Stage) -> None:
    stage.stable(*orders(0, 1))
    stage.when(Subscribe(("clicks",)))
    assert stage.happened[-1] == PartitionsRevoked(orders(0, 1))
    assert "JoinGroup" in stage.names()


def test_an_assignment_for_an_older_subscription_is_not_taken_over(stage: Stage) -> None:
    stage.stable(*orders(0))
    stage.when(EnforceRebalance())
    stage.joined(2, leader="ben")
    stage.synced(TopicPartition("clicks", 0))
    assert stage.consumer.assigned == orders(0)
    assert "JoinGroup" in stage.names()


def test_a_leader_asks_for_topics_of_others_before_it_deals(stage: Stage) -> None:
    stage.when(Subscribe(("clicks",)))
    stage.when(Poll())
    stage.answer(MetadataRequest, MetadataResponse(brokers=[], topics=[]))
    stage.coordinator_found()
    stage.joined(others=["ben"])
    assert stage.names() == ["Metadata"]
    asked = stage.take(MetadataRequest).message
    assert isinstance(asked, MetadataRequest)
    assert [topic.name for topic in asked.topics or []] == ["clicks", "orders"]
    stage.when(ClusterSeen(Cluster({"clicks": 1, "orders": 2})))
    assert "SyncGroup" in stage.names()


def test_a_static_leader_that_comes_back_keeps_watch_and_deals_nothing(stage_with: StageWith) -> None:
    stage = stage_with(group_instance_id="anna-1").subscribed()
    stage.coordinator_found()
    assert stage.joined(skip_assignment=True).group_instance_id == "anna-1"
    assert stage.synced(*orders(0)).assignments == []
    assert stage.consumer.is_leader
    stage.when(ClusterSeen(Cluster({"orders": 9})))
    assert "JoinGroup" in stage.names()


def test_a_dynamic_member_leaves_when_it_is_closed(stage: Stage) -> None:
    stage.stable(*orders(0))
    stage.when(Close())
    assert stage.happened[-2:] == [PartitionsRevoked(orders(0)), LeftGroup("the consumer is being closed")]
    left = stage.answer(LeaveGroupRequest, LeaveGroupResponse())
    assert [each.member_id for each in left.members] == ["anna"]
    # The rest of what was asked is not worth waiting for once the time is up.
    stage.pass_time(30_000)
    assert stage.happened[-1] == Closed()
    assert stage.when(Poll()).requests == ()


def test_a_static_member_goes_without_a_word_unless_it_is_told_to_leave(stage_with: StageWith) -> None:
    quiet = stage_with(group_instance_id="anna-1").stable(*orders(0))
    quiet.when(Close())
    assert "LeaveGroup" not in quiet.names()
    assert not quiet.all(LeftGroup)

    told = stage_with(group_instance_id="anna-1").stable(*orders(0))
    told.when(Close(leaves_group=True))
    assert told.answer(LeaveGroupRequest, LeaveGroupResponse()).members[0].group_instance_id == "anna-1"


def test_unsubscribing_gives_everything_up_and_leaves(stage: Stage) -> None:
    stage.stable(*orders(0))
    stage.when(Unsubscribe())
    assert stage.all(PartitionsRevoked) == [PartitionsRevoked(orders(0))]
    assert "LeaveGroup" in stage.names()
    assert not stage.consumer.wants_to_join


def test_closing_in_the_middle_of_a_rebalance_loses_the_partitions(stage: Stage) -> None:
    stage.stable(*orders(0))
    stage.when(EnforceRebalance())
    stage.when(Close())
    assert stage.all(PartitionsLost) == [PartitionsLost(orders(0))]


def test_a_listener_that_takes_its_time_holds_back_the_join(stage_with: StageWith) -> None:
    stage = stage_with(partition_assignment_strategy=("range",), waits_for_listener=True)
    stage.stable(*orders(0), protocol="range")
    stage.when(ListenerReturned())
    stage.when(EnforceRebalance())
    assert stage.happened[-1] == PartitionsRevoked(orders(0))
    stage.pass_time(3_000)
    assert "JoinGroup" not in stage.names()
    assert "Heartbeat" in stage.names()
    stage.when(ListenerReturned())
    assert "JoinGroup" in stage.names()
    assert stage.consumer.assigned == ()


def test_a_member_without_an_assignment_fails_in_every_poll_and_keeps_its_place(stage: Stage) -> None:
    stage.subscribed()
    stage.coordinator_found()
    stage.joined()
    stage.answer(SyncGroupRequest, SyncGroupResponse(assignment=b""))
    stage.when(Poll())
    assert [error.kind for error in stage.raised] == [ErrorKind.ASSIGNMENT] * 2
    assert "anna" in str(stage.raised[0])
    assert "no assignment" in str(stage.raised[0])
    stage.pass_time(3_000)
    assert "Heartbeat" in stage.names()


def test_an_answer_in_the_name_of_another_assignor_is_refused(stage: Stage) -> None:
    stage.subscribed()
    stage.coordinator_found()
    stage.joined()
    stage.answer(SyncGroupRequest, SyncGroupResponse(protocol_name="range"))
    assert stage.raised[0].code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert stage.raised[0].fatal


def test_a_broken_connection_sends_the_member_to_find_its_coordinator_again(stage: Stage) -> None:
    stage.stable(*orders(0))
    stage.when(EnforceRebalance())
    stage.break_connection(JoinGroupRequest)
    assert stage.last.hang_up
    assert stage.names() == ["FindCoordinator"]
    stage.coordinator_found()
    stage.pass_time(100)
    assert "JoinGroup" in stage.names()
    assert stage.consumer.assigned == orders(0)


def test_joining_too_often_in_vain_takes_longer_and_longer(stage: Stage) -> None:
    stage.subscribed()
    stage.coordinator_found()
    pauses = []
    for _ in range(6):
        stage.answer(
            JoinGroupRequest,
            JoinGroupResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, member_id=""),
        )
        deadline_ms = stage.last.deadline_ms
        assert deadline_ms is not None
        pauses.append(deadline_ms - stage.now_ms)
        stage.pass_time(pauses[-1])
    assert pauses == [100, 200, 400, 800, 1_000, 1_000]
