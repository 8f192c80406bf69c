"""What is refused before a group is looked at, and what is answered when no group can be looked at."""

import pytest

from regroup.coordinator import commands as c
from regroup.coordinator.commands import DeadlineKind
from regroup.coordinator.unavailable import unavailable
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Structure
from tests.coordinator.stage import NOW
from tests.coordinator.story import Story, behaviour

JOIN = c.JoinGroup(
    group_id="payments",
    at_ms=NOW,
    member_id="anna",
    new_member_id="never-used",
    session_timeout_ms=10_000,
    rebalance_timeout_ms=60_000,
    protocol_type="consumer",
    protocols=(),
)
SYNC = c.SyncGroup(group_id="payments", at_ms=NOW, generation_id=1, member_id="anna")
BEAT = c.Heartbeat(group_id="payments", at_ms=NOW, generation_id=1, member_id="anna")
LEAVE = c.LeaveGroup(group_id="payments", at_ms=NOW, members=(c.Leaving("anna"),))
COMMIT = c.CommitOffsets(group_id="payments", at_ms=NOW, offsets=(c.OffsetToCommit("foo", 0, 1),))
FETCH = c.FetchOffsets(group_id="payments", at_ms=NOW, partitions=None)
DELETE_OFFSETS = c.DeleteOffsets(group_id="payments", at_ms=NOW, partitions={"foo": (0,)})
DESCRIBE = c.DescribeGroup(group_id="payments", at_ms=NOW)
DELETE = c.DeleteGroup(group_id="payments", at_ms=NOW)
EVERYTHING = (JOIN, SYNC, BEAT, LEAVE, COMMIT, FETCH, DELETE_OFFSETS, DESCRIBE, DELETE)


def codes(answer: Structure) -> list[int]:
    """Every code of an answer, from the top down."""
    top = [answer.error_code] if hasattr(answer, "error_code") else []
    topics = getattr(answer, "topics", [])
    return top + [row.error_code for topic in topics for row in topic.partitions]


@behaviour("validation.join.empty-group-id")
def test_a_group_without_a_name_cannot_be_joined() -> None:
    story = Story()
    request = story.consumer("anna", id="m-x").asks_to_join(group_id="")
    assert (request.code, request.answer.member_id) == (ErrorCode.INVALID_GROUP_ID, "m-x")
    assert (request.answer.generation_id, request.answer.leader, request.answer.members) == (-1, "", [])
    assert request.events == ()


@behaviour("validation.sync.empty-group-id", "validation.heartbeat.empty-group-id")
def test_a_group_without_a_name_has_neither_shares_nor_heartbeats() -> None:
    anna = Story().consumer("anna", id="m", generation=1)
    sync = anna.syncs(group_id="", protocol_name="range")
    assert (sync.code, sync.answer.assignment) == (ErrorCode.INVALID_GROUP_ID, b"")
    assert (sync.answer.protocol_type, sync.answer.protocol_name) == (None, None)
    assert anna.beats(group_id="").code is ErrorCode.INVALID_GROUP_ID


@behaviour("validation.leave.empty-group-id", "validation.offset-delete.empty-group-id")
def test_the_missing_name_is_said_once_and_not_for_every_entry() -> None:
    story = Story()
    left = story.tell(c.LeaveGroup(group_id="", at_ms=NOW, members=(c.Leaving("unknown"),)))
    assert (left.code, left.answer.members) == (ErrorCode.INVALID_GROUP_ID, [])
    deleted = story.delete_offsets(group_id="", foo=(0,))
    assert (deleted.code, deleted.answer.topics) == (ErrorCode.INVALID_GROUP_ID, [])
    assert story.delete(group_id="").code is ErrorCode.INVALID_GROUP_ID


@behaviour("validation.join.session-timeout-too-large")
@pytest.mark.parametrize("session_timeout_ms", [5_999, 1_800_001, -1])
def test_a_session_timeout_outside_the_bounds_makes_no_group(session_timeout_ms: int) -> None:
    story = Story()
    request = story.consumer("anna", session_timeout_ms=session_timeout_ms).asks_to_join()
    assert (request.code, request.answer.generation_id) == (ErrorCode.INVALID_SESSION_TIMEOUT, -1)
    assert not story.group.exists


@behaviour("validation.join.session-timeout-bounds-inclusive")
@pytest.mark.parametrize("session_timeout_ms", [6_000, 1_800_000])
def test_the_bounds_of_the_session_timeout_themselves_are_accepted(session_timeout_ms: int) -> None:
    request = Story().consumer("anna", session_timeout_ms=session_timeout_ms).asks_to_join()
    assert request.code is ErrorCode.MEMBER_ID_REQUIRED


@behaviour("validation.join.rebalance-timeout-unchecked")
def test_a_negative_rebalance_timeout_counts_as_none() -> None:
    story = Story()
    story.consumer("anna", version=3, rebalance_timeout_ms=-1).asks_to_join()
    assert story.group.rebalance_timeout_ms == 0
    assert story.ms_left(DeadlineKind.JOIN_PHASE) == 3_000
    assert story.group.join_phase is not None
    assert story.group.join_phase.remaining_ms == 0


@behaviour("validation.join.error-body-by-version")
def test_a_refused_join_tells_nothing_of_the_group() -> None:
    story = Story()
    story.stable("anna")
    answer = story.consumer("ben", id="nope").asks_to_join().answer
    assert (answer.error_code, answer.generation_id, answer.leader) == (ErrorCode.UNKNOWN_MEMBER_ID, -1, "")
    assert (answer.members, answer.skip_assignment) == ([], False)
    assert (answer.protocol_type, answer.protocol_name) == (None, None)


@behaviour("validation.not-coordinator", "offset-fetch.not-coordinator")
def test_a_broker_that_does_not_lead_the_group_says_so_in_the_place_where_each_answer_has_its_code() -> None:
    answers = [unavailable(command, ErrorCode.NOT_COORDINATOR) for command in EVERYTHING]
    assert [codes(answer) for answer in answers] == [[ErrorCode.NOT_COORDINATOR]] * len(EVERYTHING)
    join, leave, fetch = answers[0], answers[3], answers[5]
    assert (join.member_id, leave.members, fetch.topics) == ("", [], [])


@behaviour("validation.coordinator-not-running")
def test_a_coordinator_that_does_not_run_says_so_to_everybody() -> None:
    answers = [unavailable(command, ErrorCode.COORDINATOR_NOT_AVAILABLE) for command in EVERYTHING]
    assert [codes(answer) for answer in answers] == [[ErrorCode.COORDINATOR_NOT_AVAILABLE]] * len(EVERYTHING)
    assert answers[0].member_id == "anna"
    assert answers[1].assignment == b""


@behaviour("recovery.loading-answers", "heartbeat.loading")
def test_while_groups_are_loaded_only_heartbeats_are_answered_kindly() -> None:
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    answers = {type(command): codes(unavailable(command, loading)) for command in EVERYTHING}
    assert answers.pop(c.Heartbeat) == [ErrorCode.NONE]
    assert list(answers.values()) == [[loading]] * (len(EVERYTHING) - 1)
