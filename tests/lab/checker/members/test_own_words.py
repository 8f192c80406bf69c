"""What members say in commits and JoinGroup is compared with what they have read, and with the errors they got."""

import pytest
from msgspec.structs import replace

from regroup.lab.checker.members.own_words import (
    ASKS_FOR_ITS_TOPICS,
    COMMITS_ALL_POSITIONS,
    FAILS_FOR_AN_ERROR,
    NEVER_SYNCS,
    REASONS_ARE_TRUE,
    REFUSALS_ARE_NOTED,
    REPEATS_EVERYTHING,
    REVOKES_SOMETHING,
    OwnWords,
)
from regroup.members.consumer.effects import ConsumerError, ConsumerErrorKind
from regroup.members.faults import parse_fault
from regroup.members.runtime.notes import FaultBegan, FaultEnded, RequestRefused
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Message
from regroup.protocol.messages.cluster import MetadataRequest
from regroup.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from regroup.protocol.messages.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupRequest,
)
from regroup.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
CONSUMER_HEARTBEAT = ConsumerGroupHeartbeatRequest(group_id="payments", member_id="anna-1", member_epoch=3)
EVERYTHING = replace(
    CONSUMER_HEARTBEAT, rebalance_timeout_ms=60_000, subscribed_topic_names=["orders"], topic_partitions=[]
)


def commit(*partitions: int) -> OffsetCommitRequest:
    rows = [OffsetCommitRequestPartition(partition_index=each, committed_offset=3) for each in partitions]
    return OffsetCommitRequest(group_id="payments", topics=[OffsetCommitRequestTopic(name="orders", partitions=rows)])


def refused_commit() -> OffsetCommitResponse:
    row = OffsetCommitResponsePartition(partition_index=0, error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="orders", partitions=[row])])


def join(reason: str) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="payments", session_timeout_ms=1, member_id="", protocol_type="consumer", protocols=[], reason=reason
    )


def reading(offset: int | None = 17) -> OwnWords:
    """Anna has fetched this committed offset of both partitions."""
    words = OwnWords()
    words.on_fetched("anna", {ORDERS_0: offset, ORDERS_1: offset})
    return words


def sentence_of(words: OwnWords, message: Message) -> str | None:
    violation = words.on_request("anna", message)
    return violation.sentence if violation else None


def test_a_commit_that_leaves_out_a_partition_that_has_not_moved_is_found() -> None:
    assert sentence_of(reading(), commit(0, 1)) is None
    assert sentence_of(reading(), commit(0)) == COMMITS_ALL_POSITIONS


def test_a_partition_without_a_committed_offset_need_not_be_committed_before_it_is_read() -> None:
    assert sentence_of(reading(None), commit(0)) is None


def test_a_partition_that_was_given_up_is_not_committed() -> None:
    words = reading()
    assert words.on_revoked("anna", [ORDERS_1]) is None
    assert sentence_of(words, commit(0)) is None


def test_a_revocation_of_nothing_is_found() -> None:
    words = reading()
    words.on_request("anna", CONSUMER_HEARTBEAT)
    violation = words.on_revoked("anna", ())
    assert violation is not None
    assert violation.sentence == REVOKES_SOMETHING


def test_a_zombie_and_a_member_of_the_consumer_protocol_may_leave_partitions_out() -> None:
    words = reading()
    words.on_zombie("anna")
    assert sentence_of(words, commit(0)) is None
    words = reading()
    assert sentence_of(words, CONSUMER_HEARTBEAT) is None
    assert sentence_of(words, commit(0)) is None


REASON = "need to re-join with the given member-id: encountered UNKNOWN_MEMBER_ID from HEARTBEAT response"


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_member_has_got_the_error_that_it_gives_as_its_reason(code: ErrorCode) -> None:
    words = OwnWords()
    heartbeat = HeartbeatRequest(group_id="payments", generation_id=1, member_id="anna-1")
    words.on_response("anna", heartbeat, HeartbeatResponse(error_code=code))
    words.on_note("anna", RequestRefused("Heartbeat", ErrorCode.name_of(code)))
    expected = None if code == ErrorCode.UNKNOWN_MEMBER_ID else REASONS_ARE_TRUE
    assert sentence_of(words, join(REASON)) == expected
    assert sentence_of(words, join("the consumer subscribes to other topics")) is None


def test_a_member_that_joins_because_of_a_rebalance_has_learned_of_it_from_its_commit() -> None:
    reason = "offset commit failed since group is already rebalancing"
    words = OwnWords()
    for code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS):
        assert sentence_of(words, join(reason)) == REASONS_ARE_TRUE
        row = OffsetCommitResponseTopic(partitions=[OffsetCommitResponsePartition(partition_index=0, error_code=code)])
        words.on_response("anna", commit(0), OffsetCommitResponse(topics=[row]))
    assert sentence_of(words, join(reason)) is None


ELSEWHERE = ConsumerGroupHeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR)


@pytest.mark.parametrize("response", [None, ELSEWHERE])
def test_a_member_that_does_not_repeat_everything_after_an_error_is_found(response: Message | None) -> None:
    for message, expected in ((CONSUMER_HEARTBEAT, REPEATS_EVERYTHING), (EVERYTHING, None)):
        words = OwnWords()
        words.on_response("anna", CONSUMER_HEARTBEAT, response)
        words.on_note("anna", RequestRefused("ConsumerGroupHeartbeat", "NOT_COORDINATOR"))
        assert sentence_of(words, message) == expected
        assert sentence_of(words, CONSUMER_HEARTBEAT) is None


def test_a_member_that_joins_says_everything_and_one_that_leaves_does_not() -> None:
    assert sentence_of(OwnWords(), replace(CONSUMER_HEARTBEAT, member_epoch=0)) == REPEATS_EVERYTHING
    assert sentence_of(OwnWords(), replace(EVERYTHING, member_epoch=0)) is None
    words = OwnWords()
    words.on_response("anna", CONSUMER_HEARTBEAT, None)
    assert sentence_of(words, replace(CONSUMER_HEARTBEAT, member_epoch=-1)) is None


def test_a_refused_heartbeat_that_is_not_reported_is_found() -> None:
    words = OwnWords()
    heartbeat = HeartbeatRequest(group_id="payments", generation_id=1, member_id="anna-1")
    words.on_response("anna", heartbeat, HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    assert sentence_of(words, join("")) == REFUSALS_ARE_NOTED
    words.on_response("anna", heartbeat, HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    words.on_note("anna", RequestRefused("Heartbeat", "REBALANCE_IN_PROGRESS"))
    assert sentence_of(words, join("")) is None


@pytest.mark.parametrize("fault", ["pause:90s", "zombie", "restart:5s", "restart-as-stranger:5s"])
def test_a_refusal_that_no_running_process_gets_is_not_reported(fault: str) -> None:
    words = OwnWords()
    heartbeat = HeartbeatRequest(group_id="payments", generation_id=1, member_id="anna-1")
    refused = HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    words.on_note("anna", FaultBegan(parse_fault(fault)))
    words.on_response("anna", heartbeat, refused)
    assert sentence_of(words, MetadataRequest(topics=[])) is None
    words.on_note("anna", FaultEnded("paused"))
    words.on_response("anna", heartbeat, refused)
    assert sentence_of(words, MetadataRequest(topics=[])) == REFUSALS_ARE_NOTED


@pytest.mark.parametrize(("reports", "found"), [(True, None), (False, REFUSALS_ARE_NOTED)])
def test_a_classic_zombie_reports_that_its_commit_is_refused(reports: bool, found: str | None) -> None:
    words = OwnWords()
    words.on_request("anna", join(""))
    words.on_response("anna", commit(), refused_commit())
    assert sentence_of(words, commit()) is None, "another member's refused commits are judged elsewhere"
    words.on_note("anna", FaultBegan(parse_fault("zombie")))
    words.on_note("anna", FaultEnded("zombie"))
    words.on_response("anna", commit(), refused_commit())
    if reports:
        words.on_note("anna", RequestRefused("OffsetCommit", "UNKNOWN_MEMBER_ID"))
    assert sentence_of(words, commit()) == found


def test_a_classic_member_that_asks_for_all_topics_is_found() -> None:
    words = OwnWords()
    assert sentence_of(words, MetadataRequest(topics=None)) is None, "it may subscribe to a pattern"
    words.on_request("anna", join(""))
    assert sentence_of(words, MetadataRequest(topics=[])) is None
    assert sentence_of(words, MetadataRequest(topics=None)) == ASKS_FOR_ITS_TOPICS


def test_a_member_that_is_never_to_sync_and_does_is_found() -> None:
    words = OwnWords()
    sync = SyncGroupRequest(group_id="payments", generation_id=1, member_id="anna-1")
    assert sentence_of(words, sync) is None
    words.on_note("anna", FaultBegan(parse_fault("never-sync")))
    assert sentence_of(words, sync) == NEVER_SYNCS


def test_a_new_process_has_got_no_error_and_fetched_nothing() -> None:
    words = reading()
    heartbeat = HeartbeatRequest(group_id="payments", generation_id=1, member_id="anna-1")
    words.on_response("anna", heartbeat, HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    words.on_new_life("anna")
    assert sentence_of(words, join(REASON)) == REASONS_ARE_TRUE
    assert sentence_of(words, commit()) is None


def test_a_member_that_fails_without_an_error_in_a_response_is_found() -> None:
    words = OwnWords()
    fatal = ConsumerError(ConsumerErrorKind.GROUP, "refused", ErrorCode.INCONSISTENT_GROUP_PROTOCOL, is_fatal=True)
    violation = words.on_error("anna", fatal)
    assert violation is not None
    assert violation.sentence == FAILS_FOR_AN_ERROR
    code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    words.on_response("anna", join(""), JoinGroupResponse(error_code=code, member_id="", protocol_name=None))
    assert words.on_error("anna", fatal) is None


def test_a_failure_that_is_not_for_good_or_of_the_own_assignor_needs_no_response() -> None:
    words = OwnWords()
    assert words.on_error("anna", ConsumerError(ConsumerErrorKind.ASSIGNOR, "failed", is_fatal=True)) is None
    assert (
        words.on_error("anna", ConsumerError(ConsumerErrorKind.GROUP, "refused", ErrorCode.REBALANCE_IN_PROGRESS))
        is None
    )


def test_an_error_of_one_group_or_partition_is_an_error_in_a_response() -> None:
    words = OwnWords()
    code = ErrorCode.FENCED_INSTANCE_ID
    row = OffsetCommitResponsePartition(partition_index=0, error_code=code)
    topic = OffsetCommitResponseTopic(name="orders", partitions=[row])
    words.on_response("anna", commit(0), OffsetCommitResponse(topics=[topic]))
    assert words.on_error("anna", ConsumerError(ConsumerErrorKind.FENCED, "fenced", code, is_fatal=True)) is None


@pytest.mark.parametrize(("epoch", "is_found"), [(3, True), (-1, False), (-2, False)])
def test_a_member_that_leaves_need_not_report_that_it_was_no_member(epoch: int, is_found: bool) -> None:
    words = OwnWords()
    beat = ConsumerGroupHeartbeatRequest(group_id="payments", member_id="anna-1", member_epoch=epoch)
    words.on_response("anna", beat, ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    assert (words.on_request("anna", CONSUMER_HEARTBEAT) is not None) is is_found
