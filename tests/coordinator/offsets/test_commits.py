"""OffsetCommit, OffsetFetch, OffsetDelete, and the retention of offsets."""

import pytest

from regroup.coordinator import commands as c
from regroup.coordinator.commands import DeadlineKind
from regroup.coordinator.events import OffsetsDeleted
from regroup.coordinator.group import GroupState
from regroup.protocol.errors import ErrorCode
from tests.coordinator.group_driver import GROUP_ID, START_MS
from tests.coordinator.group_harness import DAY_MS, GroupHarness, behaviour

FOO, BAR = ("foo", 0), ("bar", 0)
NONE = ErrorCode.NONE


@behaviour("offset-commit.member.stable")
def test_a_member_commits_for_its_generation() -> None:
    harness = GroupHarness()
    [anna] = harness.reach_stable("anna")
    harness.advance(4_000)
    assert anna.commit(("foo", 0, 100)).codes == {FOO: NONE}
    offset = harness.group.committed_offset("foo", 0)
    assert offset is not None
    assert (offset.offset, offset.leader_epoch, offset.metadata) == (100, -1, "")
    assert (offset.committed_at_ms, offset.expires_at_ms) == (harness.now_ms, None)
    assert harness.remaining_ms(DeadlineKind.SESSION, "anna") == 10_000


@behaviour("offset-commit.member.preparing")
def test_members_of_the_previous_generation_may_commit_in_preparing_rebalance() -> None:
    harness = GroupHarness()
    _, ben, _ = harness.reach_preparing_rebalance("anna", "ben")
    harness.advance(4_000)
    assert ben.commit(("foo", 0, 100)).codes == {FOO: NONE}
    assert harness.remaining_ms(DeadlineKind.SESSION, "ben") == 10_000
    assert harness.state is GroupState.PREPARING_REBALANCE


@behaviour("offset-commit.member.completing", "offset-commit.member.completing.bad-generation-first")
def test_in_the_sync_phase_a_commit_gets_rebalance_in_progress() -> None:
    harness = GroupHarness()
    _, ben = harness.reach_completing_rebalance("anna", "ben")
    harness.advance(4_000)
    request = ben.commit(("foo", 0, 100), ("foo", 1, 100))
    assert request.codes == {FOO: ErrorCode.REBALANCE_IN_PROGRESS, ("foo", 1): ErrorCode.REBALANCE_IN_PROGRESS}
    assert request.events == ()
    assert harness.remaining_ms(DeadlineKind.SESSION, "ben") == 6_000
    assert ben.commit(("foo", 0, 100), generation_id=1).codes == {FOO: ErrorCode.ILLEGAL_GENERATION}


@behaviour("offset-commit.unknown-member", "offset-commit.illegal-generation")
def test_commits_of_unknown_members_and_other_generations_are_refused() -> None:
    harness = GroupHarness()
    [anna] = harness.reach_stable("anna")
    assert anna.commit(member_id="other").codes == {FOO: ErrorCode.UNKNOWN_MEMBER_ID}
    assert anna.commit(generation_id=7).codes == {FOO: ErrorCode.ILLEGAL_GENERATION}


@behaviour("offset-commit.known-member-generation-minus-one")
def test_a_commit_with_a_member_id_needs_the_generation() -> None:
    harness = GroupHarness()
    [anna] = harness.reach_stable("anna")
    assert anna.commit(generation_id=-1).codes == {FOO: ErrorCode.ILLEGAL_GENERATION}


@behaviour("offset-commit.admin-into-non-empty-group")
def test_a_commit_without_a_member_is_accepted_only_while_the_group_is_empty() -> None:
    harness = GroupHarness()
    [anna] = harness.reach_stable("anna")
    assert harness.commit(("foo", 0, 100)).codes == {FOO: ErrorCode.UNKNOWN_MEMBER_ID}
    anna.leave()
    assert harness.commit(("foo", 0, 100)).codes == {FOO: NONE}


@behaviour("offset-commit.unknown-group-with-generation.v9")
@pytest.mark.parametrize("generation", [0, 3])
@pytest.mark.parametrize(
    ("understands_not_found", "code"),
    [(True, ErrorCode.GROUP_ID_NOT_FOUND), (False, ErrorCode.ILLEGAL_GENERATION)],
)
def test_a_commit_with_a_generation_to_an_unknown_group_is_refused(
    understands_not_found: bool, code: ErrorCode, generation: int
) -> None:
    harness = GroupHarness()
    request = harness.commit(
        ("foo", 0, 100), member_id="m", generation_id=generation, supports_group_id_not_found=understands_not_found
    )
    assert request.codes == {FOO: code}
    assert not harness.group.exists


@behaviour("offset-commit.fenced-static", "offset-commit.unknown-instance")
def test_a_commit_with_another_members_instance_id_is_refused() -> None:
    harness = GroupHarness()
    anna, _ = harness.reach_stable("anna", "ben", static=True)
    assert anna.commit(member_id="wrong").codes == {FOO: ErrorCode.FENCED_INSTANCE_ID}
    assert anna.commit(group_instance_id="nope").codes == {FOO: ErrorCode.UNKNOWN_MEMBER_ID}


@behaviour("offset-commit.instance-id-without-member-id")
def test_an_instance_id_without_its_member_id_is_fenced() -> None:
    harness = GroupHarness()
    anna, _ = harness.reach_stable("anna", "ben", static=True)
    assert anna.commit(member_id="", generation_id=-1).codes == {FOO: ErrorCode.FENCED_INSTANCE_ID}


@behaviour("offset-commit.metadata-too-large")
def test_metadata_that_is_too_large_refuses_its_own_partition_only() -> None:
    harness = GroupHarness()
    [anna] = harness.reach_stable("anna")
    offsets = (
        c.RequestedOffset("foo", 0, 1, metadata="x" * 4_097),
        c.RequestedOffset("foo", 1, 2, metadata="x" * 4_096),
        c.RequestedOffset("foo", 2, 3, metadata="🙂" * 2_049),
    )
    too_large = ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert anna.commit(offsets=offsets).codes == {FOO: too_large, ("foo", 1): NONE, ("foo", 2): too_large}
    assert {number: each.offset for number, each in harness.group.committed_offsets["foo"].items()} == {1: 2}


def test_metadata_counts_in_utf_16_code_units() -> None:
    [anna] = GroupHarness().reach_stable("anna")
    largest, larger = (c.RequestedOffset("foo", 0, 1, metadata="🙂" * count) for count in (2_048, 2_049))
    assert anna.commit(offsets=(largest,)).codes == {FOO: NONE}
    assert anna.commit(offsets=(larger,)).codes == {FOO: ErrorCode.OFFSET_METADATA_TOO_LARGE}


def test_a_commit_of_no_offsets_is_answered_without_topics() -> None:
    harness = GroupHarness()
    assert harness.commit().response.topics == []
    assert harness.commit_in_transaction(10).response.topics == []


@behaviour("offset-commit.last-write-wins", "offset-commit.negative-offset")
def test_committed_offsets_may_go_back() -> None:
    harness = GroupHarness()
    for offset in (100, 40, -1):
        assert harness.commit(("foo", 0, offset)).codes == {FOO: NONE}
        assert harness.fetch(foo=(0,)).offsets == {FOO: offset}


@behaviour("offset-commit.leader-epoch", "offset-fetch.committed")
def test_a_committed_offset_is_fetched_with_leader_epoch_and_metadata() -> None:
    harness = GroupHarness()
    harness.commit(offsets=(c.RequestedOffset("foo", 0, 100, leader_epoch=5, metadata="m"),))
    request = harness.fetch(foo=(0,))
    [partition] = request.response.topics[0].partitions
    assert (partition.committed_offset, partition.committed_leader_epoch, partition.metadata, partition.error_code) == (
        100,
        5,
        "m",
        NONE,
    )
    assert request.code is NONE


@behaviour("offset-commit.retention-v2-v4")
def test_a_commit_may_have_its_own_retention() -> None:
    harness = GroupHarness()
    harness.commit(("foo", 0, 100), retention_ms=5_000)
    offset = harness.group.committed_offset("foo", 0)
    assert offset is not None
    assert offset.expires_at_ms == START_MS + 5_000
    harness.advance(4_999)
    assert harness.expire_offsets() == []
    harness.advance(1)
    assert [type(event).__name__ for event in harness.expire_offsets()] == ["OffsetsDeleted", "GroupDeleted"]


@behaviour("offset-commit.expiry.empty-group")
def test_the_retention_of_a_group_that_had_members_begins_when_it_becomes_empty() -> None:
    harness = GroupHarness()
    [anna] = harness.reach_stable("anna")
    anna.commit(("foo", 0, 100))
    harness.now_ms += 20 * DAY_MS
    anna.leave()
    harness.advance(7 * DAY_MS - 1)
    assert harness.expire_offsets() == []
    harness.advance(1)
    assert [type(event).__name__ for event in harness.expire_offsets()] == ["OffsetsDeleted", "GroupDeleted"]
    assert not harness.group.exists


@behaviour("offset-commit.expiry.simple-group")
def test_the_retention_in_a_simple_group_begins_with_each_commit() -> None:
    harness = GroupHarness()
    harness.commit(("foo", 0, 100))
    harness.advance(DAY_MS)
    harness.commit(("foo", 1, 100))
    harness.advance(6 * DAY_MS)
    [deleted] = harness.expire_offsets()
    assert deleted.partitions == {"foo": (0,)}
    assert harness.fetch_all().offsets == {("foo", 1): 100}


@behaviour("offset-commit.expiry.empty-group-without-offsets")
@pytest.mark.parametrize("history", ["its member left", "no member joined"])
def test_an_empty_group_without_offsets_is_deleted_at_the_next_check(history: str) -> None:
    harness = GroupHarness()
    if history == "its member left":
        harness.reach_empty()
    else:
        harness.client("anna", protocol_type="").send_join()
    assert [type(event).__name__ for event in harness.expire_offsets()] == ["GroupDeleted"]
    assert not harness.group.exists


@behaviour("offset-commit.expiry.not-while-rebalancing")
@pytest.mark.parametrize("state", [GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE])
def test_no_offset_expires_during_a_rebalance(state: GroupState) -> None:
    harness = GroupHarness()
    harness.commit(("old", 0, 100))
    anna = harness.client("anna")
    anna.join()
    if state is GroupState.COMPLETING_REBALANCE:
        harness.advance(3_000)
    harness.now_ms += 30 * DAY_MS
    assert harness.state is state
    assert harness.expire_offsets() == []


def test_in_stable_only_offsets_of_unsubscribed_topics_expire() -> None:
    harness = GroupHarness()
    [anna] = harness.reach_stable("anna", topics=("foo",), session_timeout_ms=1_800_000)
    anna.commit(("foo", 0, 1), ("old", 0, 1))
    harness.now_ms += 7 * DAY_MS
    [deleted] = harness.expire_offsets()
    assert deleted.partitions == {"old": (0,)}


@behaviour("offset-fetch.no-offset", "offset-fetch.unknown-group")
@pytest.mark.parametrize("exists", [True, False])
def test_a_partition_without_a_committed_offset_is_fetched_as_minus_one(exists: bool) -> None:
    harness = GroupHarness()
    if exists:
        harness.reach_empty()
    [partition] = harness.fetch(foo=(5,)).response.topics[0].partitions
    assert (partition.partition_index, partition.committed_offset, partition.committed_leader_epoch) == (5, -1, -1)
    assert (partition.metadata, partition.error_code) == ("", NONE)


@behaviour("offset-fetch.all-topics")
def test_a_fetch_may_ask_for_every_partition_or_for_none() -> None:
    harness = GroupHarness()
    assert harness.fetch_all().offsets == {}
    harness.commit(("foo", 0, 1), ("bar", 1, 2))
    assert harness.fetch_all().offsets == {FOO: 1, ("bar", 1): 2}
    assert harness.fetch().response.topics == []


@behaviour("offset-delete.unknown-group")
def test_offsets_of_an_unknown_group_cannot_be_deleted() -> None:
    request = GroupHarness().delete_offsets(foo=(0,))
    assert (request.code, request.response.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, [])


@behaviour("offset-delete.subscribed-topic")
def test_offsets_of_a_subscribed_topic_cannot_be_deleted() -> None:
    harness = GroupHarness()
    [anna] = harness.reach_stable("anna", topics=("bar",))
    anna.commit(("foo", 0, 1), ("bar", 0, 2))
    request = harness.delete_offsets(foo=(0,), bar=(0,))
    assert (request.code, request.codes) == (NONE, {FOO: NONE, BAR: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC})
    assert harness.fetch_all().offsets == {BAR: 2}


def test_before_its_first_generation_a_group_counts_as_subscribed_to_every_topic() -> None:
    harness = GroupHarness()
    harness.commit(("foo", 0, 1))
    harness.client("anna", topics=("bar",), version=3).send_join()
    request = harness.delete_offsets(foo=(0,))
    assert (request.code, request.codes) == (NONE, {FOO: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC})
    harness.advance(3_000)
    assert harness.delete_offsets(foo=(0,)).codes == {FOO: NONE}


@behaviour("offset-delete.empty-group")
def test_every_offset_of_an_empty_group_can_be_deleted_and_the_group_stays() -> None:
    harness = GroupHarness()
    [anna] = harness.reach_stable("anna", topics=("bar",))
    anna.commit(("foo", 0, 1), ("bar", 0, 2))
    anna.leave()
    assert harness.delete_offsets(bar=(0,)).codes == {BAR: NONE}
    assert harness.delete_offsets(foo=(0,)).codes == {FOO: NONE}
    assert (harness.state, harness.group.committed_offsets) == (GroupState.EMPTY, {})


@behaviour("offset-delete.missing-offset")
def test_deleting_a_missing_offset_succeeds_without_an_event() -> None:
    harness = GroupHarness()
    harness.reach_empty()
    request = harness.delete_offsets(foo=(7,))
    assert (request.codes, request.events) == ({("foo", 7): NONE}, ())


@behaviour("offset-delete.non-consumer-non-empty", "offset-delete.empty-non-consumer")
def test_offsets_of_another_protocol_type_can_be_deleted_once_the_group_is_empty() -> None:
    harness = GroupHarness()
    [worker] = harness.reach_stable("worker", protocol_type="connect", protocol_names=("sessioned",), metadata=b"")
    worker.commit(("foo", 0, 1))
    assert harness.delete_offsets(foo=(0,)).code is ErrorCode.NON_EMPTY_GROUP
    worker.leave()
    assert harness.delete_offsets(foo=(0,)).codes == {FOO: NONE}


def test_offsets_of_another_protocol_type_can_be_deleted_after_a_failover_too() -> None:
    harness = GroupHarness()
    [worker] = harness.reach_stable("worker", protocol_type="connect", protocol_names=("sessioned",), metadata=b"")
    worker.commit(("foo", 0, 1))
    worker.leave()
    harness.fail_over()
    assert harness.delete_offsets(foo=(0,)).codes == {FOO: NONE}


@behaviour("offset-delete.rebalancing")
def test_during_a_rebalance_the_subscriptions_of_the_last_generation_count() -> None:
    harness = GroupHarness()
    anna, _ = harness.reach_stable("anna", "ben", topics=("bar",))
    anna.commit(("foo", 0, 1), ("bar", 0, 2))
    anna.topics = ("foo",)
    anna.send_join()
    assert harness.state is GroupState.PREPARING_REBALANCE
    assert harness.delete_offsets(foo=(0,), bar=(0,)).codes == {FOO: NONE, BAR: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}


def test_a_commit_to_an_unknown_group_creates_a_simple_group() -> None:
    harness = GroupHarness()
    harness.commit(("foo", 0, 100))
    assert (harness.state, harness.generation_id, harness.group.protocol_type) == (GroupState.EMPTY, 0, "")
    assert (harness.group.group_id, harness.group.group_metadata) == (GROUP_ID, None)


def test_deleting_a_topic_deletes_its_committed_offsets_only() -> None:
    """As in Kafka's `onPartitionsDeleted`: a later topic of the same name begins at offset 0."""
    harness = GroupHarness()
    [anna] = harness.reach_stable("anna")
    anna.commit(("foo", 0, 100), ("foo", 1, 7), ("bar", 0, 5))
    [deleted] = harness.delete_topic("foo")
    assert isinstance(deleted, OffsetsDeleted)
    assert deleted.partitions == {"foo": (0, 1)}
    assert harness.fetch_all().offsets == {("bar", 0): 5}
    assert harness.delete_topic("foo") == []
