"""When members join, and which topics their leaders assign."""

from collections.abc import Container, Iterable

import pytest

from regroup.lab.checker.members.member_invariants import MemberViolation
from regroup.lab.checker.members.subscriptions import (
    LATE_ERROR_WAITS,
    LEADER_ASSIGNS_ALL_TOPICS,
    PATTERN_NEEDS_METADATA,
    TAKES_ITS_TOPICS,
    UNSUBSCRIBED_COMMITS,
    UNSUBSCRIBED_STAYS_OUT,
    Subscriptions,
    check_unsubscribed_commit,
)
from regroup.members.consumer.effects import CommitCompleted, ConsumerError, ConsumerErrorKind
from regroup.protocol.consumer.subscription import (
    Assignment,
    Subscription,
    TopicPartition,
    encode_assignment,
    encode_subscription,
)
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.cluster import MetadataResponse, MetadataResponseTopic
from regroup.protocol.messages.group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from regroup.protocol.messages.offsets import OffsetCommitRequest

JOIN = JoinGroupRequest(
    group_id="payments",
    session_timeout_ms=1,
    rebalance_timeout_ms=1,
    member_id="",
    protocol_type="consumer",
    protocols=[],
)


def subscriptions(*, has_pattern: bool = False, is_sound: bool = True, paused: Container[str] = ()) -> Subscriptions:
    made = Subscriptions(paused)
    made.expect_topics(["orders", "clicks"])
    made.add_member("anna", has_pattern=has_pattern, has_sound_assignor=is_sound)
    return made


def join(observed: Subscriptions) -> MemberViolation | None:
    return observed.on_request("anna", JOIN)


def lead(
    observed: Subscriptions,
    *assigned: str,
    owned: str = "",
    skips: bool = False,
    metadata_since: Iterable[MetadataResponse] = (),
) -> MemberViolation | None:
    """What is found if anna leads a group of subscribers to orders and clicks, and assigns partitions of `assigned`."""
    owns = (TopicPartition(owned, 0),) if owned else ()
    metadata = encode_subscription(Subscription(1, ("orders", "clicks"), owned_partitions=owns))
    member = JoinGroupResponseMember(member_id="a", metadata=metadata)
    observed.on_response(
        "anna",
        JoinGroupResponse(generation_id=1, leader="a", member_id="a", members=[member], skip_assignment=skips),
    )
    for each in metadata_since:
        observed.on_response("anna", each)
    assignment = encode_assignment(Assignment(1, tuple(TopicPartition(each, 0) for each in assigned)))
    row = SyncGroupRequestAssignment(member_id="a", assignment=assignment)
    sync = SyncGroupRequest(group_id="payments", generation_id=1, member_id="a", assignments=[row])
    return observed.on_request("anna", sync)


def test_a_member_that_has_unsubscribed_must_not_join_before_it_subscribes() -> None:
    observed = subscriptions()
    assert join(observed) is None
    observed.on_unsubscribe("anna")
    assert join(observed) == MemberViolation(UNSUBSCRIBED_STAYS_OUT, "anna joins without a subscription")
    observed.on_subscribe("anna")
    assert join(observed) is None


def test_a_member_with_a_pattern_needs_metadata_in_each_of_its_processes() -> None:
    observed = subscriptions(has_pattern=True)
    assert join(observed) == MemberViolation(PATTERN_NEEDS_METADATA, "anna joins without metadata")
    observed.on_response("anna", MetadataResponse(brokers=[], topics=[]))
    assert join(observed) is None
    observed.on_new_life("anna")
    assert join(observed) is not None


def test_a_member_that_subscribes_to_its_pattern_again_needs_newer_metadata() -> None:
    for has_pattern in (True, False):
        observed = subscriptions(has_pattern=has_pattern)
        observed.on_response("anna", MetadataResponse(brokers=[], topics=[]))
        observed.on_unsubscribe("anna")
        observed.on_subscribe("anna")
        assert (join(observed) is not None) is has_pattern
        observed.on_response("anna", MetadataResponse(brokers=[], topics=[]))
        assert join(observed) is None


def test_a_leader_must_assign_each_topic_that_has_existed_all_along() -> None:
    assert lead(subscriptions(), "orders", "clicks") is None
    assert lead(subscriptions(), "orders") == MemberViolation(
        LEADER_ASSIGNS_ALL_TOPICS, "anna assigns nothing of clicks"
    )
    observed = subscriptions()
    observed.on_topic_deleted("clicks")
    assert lead(observed, "orders") is None


@pytest.mark.parametrize("why", ["owned", "unsound", "skips", "paused"])
def test_topics_that_are_owned_and_leaders_that_need_not_assign_are_not_judged(why: str) -> None:
    """A leader that pauses may have got the metadata that it uses later."""
    observed = subscriptions(is_sound=why != "unsound", paused=("anna",) if why == "paused" else ())
    assert lead(observed, "orders", owned="clicks" if why == "owned" else "", skips=why == "skips") is None


STRANGER = OffsetCommitRequest(group_id="payments", topics=[])
MEMBER = OffsetCommitRequest(group_id="payments", generation_id_or_member_epoch=3, member_id="anna-3", topics=[])


@pytest.mark.parametrize(
    ("sent", "kind", "is_found"),
    [
        ([], ConsumerErrorKind.COMMIT_FAILED, True),
        ([], ConsumerErrorKind.RETRIABLE_COMMIT_FAILED, False),
        ([STRANGER], ConsumerErrorKind.COMMIT_FAILED, False),
        ([STRANGER], None, False),
        ([MEMBER], None, True),
    ],
)
def test_a_consumer_that_has_not_subscribed_must_not_commit_as_a_member(
    sent: list[OffsetCommitRequest], kind: ConsumerErrorKind | None, is_found: bool
) -> None:
    error = ConsumerError(kind, "the commit has failed") if kind else None
    violation = check_unsubscribed_commit(sent, CommitCompleted({}, error, is_auto_commit=False))
    assert (violation.sentence if violation else None) == (UNSUBSCRIBED_COMMITS if is_found else None)


def fail(observed: Subscriptions, code: int = 999) -> MemberViolation | None:
    """What is found if poll() of anna ends with the error of this code."""
    return observed.on_error("anna", ConsumerError(ConsumerErrorKind.GROUP, "refused", code))


def test_the_error_of_a_join_group_from_before_waits_for_the_next_subscription() -> None:
    observed = subscriptions()
    observed.on_unsubscribe("anna")
    observed.on_response("anna", JoinGroupResponse(error_code=999, leader="", member_id=""))
    violation = fail(observed)
    assert violation is not None
    assert violation.sentence == LATE_ERROR_WAITS
    observed.on_subscribe("anna")
    assert fail(observed) is None


def test_the_poll_of_a_member_that_has_unsubscribed_may_end_with_another_error() -> None:
    observed = subscriptions()
    observed.on_unsubscribe("anna")
    observed.on_response("anna", JoinGroupResponse(error_code=999, leader="", member_id=""))
    assert fail(observed, 998) is None


def test_the_poll_of_a_subscribed_member_ends_with_the_error_of_its_join_group() -> None:
    observed = subscriptions()
    observed.on_response("anna", JoinGroupResponse(error_code=999, leader="", member_id=""))
    assert fail(observed) is None


def test_a_leader_need_not_assign_a_topic_that_does_not_exist_by_its_metadata() -> None:
    observed = subscriptions()
    missing = MetadataResponseTopic(name="clicks", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    observed.on_response("anna", MetadataResponse(brokers=[], topics=[missing]))
    assert lead(observed, "orders") is None
    observed.on_response("anna", MetadataResponse(brokers=[], topics=[]))
    violation = lead(observed, "orders")
    assert violation is not None
    assert violation.sentence == LEADER_ASSIGNS_ALL_TOPICS


MISSING = MetadataResponseTopic(name="clicks", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@pytest.mark.parametrize(
    ("before", "since"),
    [([MISSING], [[]]), ([], [[MISSING]]), ([], [[MISSING], []])],
    ids=["before it leads", "before it sends SyncGroup", "in between"],
)
def test_a_leader_may_assign_by_metadata_that_have_changed_before_its_sync_group(
    before: list[MetadataResponseTopic], since: list[list[MetadataResponseTopic]]
) -> None:
    observed = subscriptions()
    observed.on_response("anna", MetadataResponse(brokers=[], topics=before))
    assert (
        lead(observed, "orders", metadata_since=[MetadataResponse(brokers=[], topics=each) for each in since]) is None
    )


def test_a_new_process_has_neither_the_late_error_nor_the_metadata_of_the_former_one() -> None:
    observed = subscriptions()
    observed.on_unsubscribe("anna")
    observed.on_response("anna", JoinGroupResponse(error_code=999, leader="", member_id=""))
    missing = MetadataResponseTopic(name="clicks", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    observed.on_response("anna", MetadataResponse(brokers=[], topics=[missing]))
    observed.on_new_life("anna")
    assert fail(observed) is None
    assert lead(observed, "orders") is not None


def test_partitions_of_a_topic_to_which_a_member_subscribes_no_more_are_found() -> None:
    observed = subscriptions()
    assigned = [TopicPartition("orders", 0), TopicPartition("clicks", 1)]
    assert observed.on_assigned("anna", assigned) is None, "the plan says what it subscribes to"
    observed.on_subscribe("anna", ("orders",))
    assert observed.on_assigned("anna", assigned[:1]) is None
    violation = observed.on_assigned("anna", assigned)
    assert violation is not None
    assert violation.sentence == TAKES_ITS_TOPICS
    assert violation.detail == "anna takes clicks-1, and subscribes to orders"
    observed.on_subscribe("anna")
    assert observed.on_assigned("anna", assigned) is None
