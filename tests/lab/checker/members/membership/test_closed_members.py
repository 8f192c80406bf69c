"""What a member does before it leaves its group because its application calls close() or unsubscribe()."""

import pytest

from regroup.lab.checker.members.membership.closed_members import COMMITS_FIRST, GIVES_UP_FIRST, ClosedMembers
from regroup.lab.checker.members.poll_timeouts import POLL_TIMEOUT_REASON
from regroup.members.consumer.effects import LeftGroup, PartitionsAssigned, PartitionsLost, PartitionsRevoked
from regroup.members.faults import parse_fault
from regroup.members.runtime.notes import FaultBegan
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.messages.group import LeaveGroupRequest, MemberIdentity
from regroup.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

ORDERS_0 = TopicPartition("orders", 0)
CLOSED, UNSUBSCRIBED = "the consumer is being closed", "the consumer unsubscribed from all topics"


def leave(reason: str) -> LeaveGroupRequest:
    return LeaveGroupRequest(group_id="g", member_id="m", members=[MemberIdentity(member_id="m", reason=reason)])


def commit(offset: int) -> OffsetCommitRequest:
    row = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    return OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequestTopic(name="orders", partitions=[row])])


class Ben:
    """Ben owns a partition, and has processed the record with offset 17 in it."""

    def __init__(self, *, auto_commits: bool = True) -> None:
        self.now_ms = 1_000
        self.closed = ClosedMembers(lambda: self.now_ms)
        self.closed.add_member("ben", auto_commits=auto_commits)
        self.closed.on_change("ben", PartitionsAssigned((ORDERS_0,)))
        self.closed.on_record("ben", ORDERS_0, 17)

    def revoke(self) -> None:
        assert self.closed.on_change("ben", PartitionsRevoked((ORDERS_0,))) is None

    def leave(self, reason: str = CLOSED) -> str | None:
        found = self.closed.on_request("ben", leave(reason))
        return found.sentence if found else None


def test_a_closed_member_that_has_not_committed_what_it_has_processed_is_found() -> None:
    ben = Ben()
    ben.revoke()
    assert ben.leave() == COMMITS_FIRST


def test_a_commit_counts_if_it_has_the_last_record() -> None:
    for offset, found in ((18, None), (17, COMMITS_FIRST)):
        ben = Ben()
        ben.closed.on_request("ben", commit(offset))
        ben.revoke()
        assert ben.leave() == found


@pytest.mark.parametrize("reason", [UNSUBSCRIBED, POLL_TIMEOUT_REASON])
def test_a_member_that_leaves_for_another_reason_need_not_commit(reason: str) -> None:
    ben = Ben()
    ben.revoke()
    assert ben.leave(reason) is None


def test_members_without_automatic_commits_and_zombies_need_not_commit() -> None:
    without, zombie = Ben(auto_commits=False), Ben()
    zombie.closed.on_note("ben", FaultBegan(parse_fault("zombie")))
    for ben in (without, zombie):
        ben.revoke()
        assert ben.leave() is None


def test_what_was_given_up_in_an_earlier_rebalance_or_lost_is_not_asked_for() -> None:
    earlier, lost = Ben(), Ben()
    earlier.revoke()
    earlier.now_ms += 3
    assert earlier.leave() is None
    assert lost.closed.on_change("ben", PartitionsLost((ORDERS_0,))) is None
    assert lost.leave() is None


@pytest.mark.parametrize("reason", [CLOSED, UNSUBSCRIBED])
def test_a_member_that_leaves_with_its_partitions_is_found(reason: str) -> None:
    found = Ben().closed.on_change("ben", LeftGroup(reason))
    assert found is not None
    assert found.sentence == GIVES_UP_FIRST
    ben = Ben()
    ben.revoke()
    assert ben.closed.on_change("ben", LeftGroup(reason)) is None


def test_a_member_may_leave_with_its_partitions_because_of_its_poll_timeout() -> None:
    assert Ben().closed.on_change("ben", LeftGroup(POLL_TIMEOUT_REASON)) is None


def test_the_next_process_owns_nothing() -> None:
    ben = Ben()
    ben.closed.on_new_life("ben")
    assert ben.closed.on_change("ben", LeftGroup(CLOSED)) is None
