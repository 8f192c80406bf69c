"""A member leaves its group when its application has been outside poll() for `max.poll.interval.ms`, and not before."""

from typing import Any

import pytest

from regroup.lab.checker.members.poll_timeouts import (
    LEAVES_AFTER_THE_LIMIT,
    LEAVES_AT_THE_LIMIT,
    POLL_SLACK_MS,
    POLL_TIMEOUT_REASON,
    PollTimeouts,
)
from regroup.members.consumer.effects import JoinedGroup, LeftGroup
from regroup.members.faults import parse_fault
from regroup.members.runtime.application import PollStay
from regroup.members.runtime.notes import FaultBegan, FaultEnded
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import FindCoordinatorRequest
from regroup.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from regroup.protocol.messages.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    LeaveGroupRequest,
    MemberIdentity,
)
from regroup.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

LIMIT_MS = 10_000
HEARTBEAT = HeartbeatRequest(group_id="payments", generation_id=3, member_id="anna-1")
COMMIT = OffsetCommitRequest(group_id="payments", topics=[])


def join(instance_id: str | None = None) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="payments",
        session_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[],
        group_instance_id=instance_id,
    )


def leave(reason: str = POLL_TIMEOUT_REASON) -> LeaveGroupRequest:
    return LeaveGroupRequest(group_id="payments", members=[MemberIdentity(member_id="anna-1", reason=reason)])


def epoch(number: int) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(group_id="payments", member_id="anna-1", member_epoch=number)


def refused_commit(code: int) -> OffsetCommitResponse:
    row = OffsetCommitResponsePartition(partition_index=0, error_code=code)
    return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="orders", partitions=[row])])


class Anna:
    """Anna, whose application may poll for 10 s after it was inside poll(), and the clock of the run."""

    def __init__(self, *, is_classic: bool = True) -> None:
        self.now_ms, self.stay, self.paused = 0, None, set[str]()
        self.is_classic = is_classic
        self.timeouts = PollTimeouts(lambda: self.now_ms, self.paused)
        self.timeouts.add_member("anna", LIMIT_MS, lambda: self.stay)

    stay: PollStay | None

    def send(self, message: Message) -> str | None:
        found = self.timeouts.on_request("anna", message)
        return found.sentence if found else None

    def get(self, message: Message, response: Any) -> None:
        self.timeouts.on_response("anna", message, response)

    def beat(self, code: int = 0) -> str | None:
        """Send a heartbeat, and get its response."""
        response = ConsumerGroupHeartbeatResponse(error_code=code, member_epoch=3, heartbeat_interval_ms=1)
        message: Message = HEARTBEAT if self.is_classic else epoch(3)
        found = self.send(message)
        self.get(message, HeartbeatResponse(error_code=code) if self.is_classic else response)
        return found

    def leave_poll(self) -> None:
        """Become a member by a heartbeat, and let the application leave poll() a second later."""
        self.beat()
        self.now_ms += 1_000
        self.stay = PollStay(self.now_ms)

    def pass_outside(self, duration_ms: int) -> None:
        self.now_ms += duration_ms

    def come_back(self) -> None:
        assert self.stay is not None
        self.stay = self.stay._replace(back_ms=self.now_ms)


def leaving(anna: Anna) -> Message:
    return leave() if anna.is_classic else epoch(-1)


def joining(anna: Anna) -> Message:
    return join() if anna.is_classic else epoch(0)


@pytest.fixture(params=[True, False], ids=["classic", "consumer protocol"])
def anna(request: pytest.FixtureRequest) -> Anna:
    return Anna(is_classic=request.param)


def test_a_member_leaves_when_its_limit_is_over_and_joins_again(anna: Anna) -> None:
    anna.leave_poll()
    anna.pass_outside(LIMIT_MS)
    assert anna.send(leaving(anna)) is None
    anna.pass_outside(5_000)
    anna.come_back()
    assert anna.send(joining(anna)) is None


def test_a_member_does_not_leave_before_its_limit_is_over(anna: Anna) -> None:
    anna.leave_poll()
    anna.pass_outside(LIMIT_MS // 2)
    assert anna.send(leaving(anna)) == LEAVES_AFTER_THE_LIMIT


def test_a_member_whose_application_is_inside_poll_does_not_leave_for_its_sake(anna: Anna) -> None:
    anna.beat()
    assert anna.send(leaving(anna)) == LEAVES_AFTER_THE_LIMIT
    anna.leave_poll()
    anna.come_back()
    anna.pass_outside(LIMIT_MS)
    assert anna.send(leaving(anna)) == LEAVES_AFTER_THE_LIMIT


def test_a_classic_member_counts_from_the_last_response_that_it_has_got_inside_poll() -> None:
    anna = Anna()
    anna.leave_poll()
    anna.pass_outside(LIMIT_MS - 1_000)
    assert anna.send(leave()) is None


def test_a_member_that_is_closed_may_leave_at_any_time(anna: Anna) -> None:
    anna.leave_poll()
    anna.pass_outside(1_000)
    anna.timeouts.on_change("anna", LeftGroup("the consumer is being closed"))
    assert anna.send(leave("the consumer is being closed") if anna.is_classic else epoch(-1)) is None


def test_a_member_that_has_not_left_when_its_application_is_back_is_reported_once(anna: Anna) -> None:
    anna.leave_poll()
    anna.pass_outside(LIMIT_MS + POLL_SLACK_MS + 1)
    anna.come_back()
    assert anna.send(joining(anna)) == LEAVES_AT_THE_LIMIT
    assert anna.send(joining(anna)) is None


def test_a_classic_member_that_leaves_for_another_reason_is_reported() -> None:
    anna = Anna()
    anna.leave_poll()
    anna.pass_outside(2 * LIMIT_MS)
    assert anna.send(leave("a whim")) is None
    anna.come_back()
    assert anna.send(join()) == LEAVES_AT_THE_LIMIT


def test_a_member_whose_application_is_back_in_time_need_not_leave(anna: Anna) -> None:
    anna.leave_poll()
    anna.pass_outside(LIMIT_MS + POLL_SLACK_MS)
    anna.come_back()
    assert anna.beat() is None


def test_a_generation_that_begins_meanwhile_starts_the_limit_again() -> None:
    anna = Anna()
    anna.leave_poll()
    anna.pass_outside(LIMIT_MS)
    anna.timeouts.on_change("anna", JoinedGroup(4, "anna-1", is_leader=False, protocol_name="range"))
    anna.pass_outside(LIMIT_MS)
    anna.come_back()
    assert anna.beat() is None


def test_a_rebalance_does_not_excuse_a_member() -> None:
    anna = Anna()
    anna.leave_poll()
    anna.beat(ErrorCode.REBALANCE_IN_PROGRESS)
    anna.pass_outside(2 * LIMIT_MS)
    anna.come_back()
    assert anna.send(join()) == LEAVES_AT_THE_LIMIT


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NOT_COORDINATOR])
def test_a_member_that_its_coordinator_refuses_need_not_leave(anna: Anna, code: int) -> None:
    anna.leave_poll()
    anna.beat(code)
    anna.pass_outside(2 * LIMIT_MS)
    anna.come_back()
    assert anna.send(joining(anna)) is None


@pytest.mark.parametrize("response", [None, refused_commit(ErrorCode.UNKNOWN_MEMBER_ID)])
def test_a_member_whose_commit_fails_need_not_leave(anna: Anna, response: Any) -> None:
    anna.leave_poll()
    anna.get(COMMIT, response)
    anna.pass_outside(2 * LIMIT_MS)
    anna.come_back()
    assert anna.send(joining(anna)) is None


def test_a_member_that_looks_for_its_coordinator_need_not_leave(anna: Anna) -> None:
    anna.leave_poll()
    anna.send(FindCoordinatorRequest(key="payments"))
    anna.pass_outside(2 * LIMIT_MS)
    anna.come_back()
    assert anna.send(joining(anna)) is None


def test_a_member_that_is_accepted_only_after_its_limit_need_not_have_left(anna: Anna) -> None:
    anna.stay = PollStay(0)
    anna.pass_outside(2 * LIMIT_MS)
    anna.beat()
    anna.come_back()
    assert anna.beat() is None


def test_a_static_member_of_a_classic_group_leaves_without_a_word_and_one_of_the_consumer_protocol_does_not() -> None:
    anna = Anna()
    anna.send(join("anna-1"))
    anna.leave_poll()
    anna.pass_outside(2 * LIMIT_MS)
    anna.come_back()
    assert anna.send(join("anna-1")) is None
    other = Anna(is_classic=False)
    other.leave_poll()
    other.pass_outside(LIMIT_MS)
    assert other.send(epoch(-2)) is None
    other.come_back()
    assert other.send(epoch(0)) is None


@pytest.mark.parametrize("fault", ["pause:5s", "zombie", "leave"])
def test_a_member_that_pauses_leaves_or_becomes_a_zombie_is_not_judged(anna: Anna, fault: str) -> None:
    anna.leave_poll()
    anna.timeouts.on_note("anna", FaultBegan(parse_fault(fault)))
    anna.paused.add("anna")
    anna.beat()
    anna.pass_outside(2 * LIMIT_MS)
    anna.timeouts.on_note("anna", FaultEnded("paused"))
    anna.come_back()
    assert anna.send(joining(anna)) is None


def test_a_member_that_does_not_poll_by_its_plan_is_judged(anna: Anna) -> None:
    anna.leave_poll()
    anna.timeouts.on_note("anna", FaultBegan(parse_fault("no-poll:30s")))
    anna.pass_outside(2 * LIMIT_MS)
    anna.come_back()
    assert anna.send(joining(anna)) == LEAVES_AT_THE_LIMIT


def test_a_new_process_is_not_judged_by_what_the_former_one_did(anna: Anna) -> None:
    anna.leave_poll()
    anna.pass_outside(2 * LIMIT_MS)
    anna.come_back()
    anna.timeouts.on_new_life("anna")
    assert anna.send(joining(anna)) is None


def test_a_member_that_was_not_added_is_not_judged() -> None:
    timeouts = PollTimeouts(lambda: 0, ())
    timeouts.on_note("ben", FaultEnded("paused"))
    timeouts.on_change("ben", LeftGroup("the consumer is being closed"))
    timeouts.on_new_life("ben")
    timeouts.on_response("ben", HEARTBEAT, None)
    assert timeouts.on_request("ben", leave()) is None
