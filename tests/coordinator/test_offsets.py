"""Offsets: committed, fetched, deleted, and forgotten when they are old."""

import pytest

from regroup.coordinator import commands as c
from regroup.coordinator.commands import DeadlineKind
from regroup.coordinator.events import OffsetsForgotten
from regroup.coordinator.group import State
from regroup.protocol.errors import ErrorCode
from tests.coordinator.stage import GROUP, NOW
from tests.coordinator.story import DAY_MS, Story, behaviour

FOO, BAR = ("foo", 0), ("bar", 0)
NONE = ErrorCode.NONE


@behaviour("offset-commit.member.stable")
def test_a_member_commits_for_its_generation() -> None:
    story = Story()
    [anna] = story.stable("anna")
    story.passes(4_000)
    assert anna.commits(("foo", 0, 100)).codes == {FOO: NONE}
    offset = story.group.committed("foo", 0)
    assert offset is not None
    assert (offset.offset, offset.leader_epoch, offset.metadata) == (100, -1, "")
    assert (offset.committed_at_ms, offset.expires_at_ms) == (story.now_ms, None)
    assert story.ms_left(DeadlineKind.SESSION, "anna") == 10_000


@behaviour("offset-commit.member.preparing")
def test_the_outgoing_generation_may_commit_until_the_join_phase_ends() -> None:
    story = Story()
    _, ben, _ = story.preparing("anna", "ben")
    story.passes(4_000)
    assert ben.commits(("foo", 0, 100)).codes == {FOO: NONE}
    assert story.ms_left(DeadlineKind.SESSION, "ben") == 10_000
    assert story.state is State.PREPARING


@behaviour("offset-commit.member.completing", "offset-commit.member.completing.bad-generation-first")
def test_nobody_commits_between_join_and_sync() -> None:
    story = Story()
    _, ben = story.completing("anna", "ben")
    story.passes(4_000)
    request = ben.commits(("foo", 0, 100), ("foo", 1, 100))
    assert request.codes == {FOO: ErrorCode.REBALANCE_IN_PROGRESS, ("foo", 1): ErrorCode.REBALANCE_IN_PROGRESS}
    assert request.events == ()
    assert story.ms_left(DeadlineKind.SESSION, "ben") == 6_000
    assert ben.commits(("foo", 0, 100), generation_id=1).codes == {FOO: ErrorCode.ILLEGAL_GENERATION}


@behaviour("offset-commit.unknown-member", "offset-commit.illegal-generation")
def test_strangers_and_other_generations_do_not_commit() -> None:
    story = Story()
    [anna] = story.stable("anna")
    assert anna.commits(member_id="other").codes == {FOO: ErrorCode.UNKNOWN_MEMBER_ID}
    assert anna.commits(generation_id=7).codes == {FOO: ErrorCode.ILLEGAL_GENERATION}


@behaviour("offset-commit.known-member-generation-minus-one")
def test_a_member_id_makes_it_the_commit_of_a_member() -> None:
    story = Story()
    [anna] = story.stable("anna")
    assert anna.commits(generation_id=-1).codes == {FOO: ErrorCode.ILLEGAL_GENERATION}


@behaviour("offset-commit.admin-into-non-empty-group")
def test_somebody_outside_commits_only_while_nobody_is_in() -> None:
    story = Story()
    [anna] = story.stable("anna")
    assert story.commit(("foo", 0, 100)).codes == {FOO: ErrorCode.UNKNOWN_MEMBER_ID}
    anna.leaves()
    assert story.commit(("foo", 0, 100)).codes == {FOO: NONE}


@behaviour("offset-commit.unknown-group-with-generation.v9")
@pytest.mark.parametrize("generation", [0, 3])
@pytest.mark.parametrize(
    ("knows", "code"), [(True, ErrorCode.GROUP_ID_NOT_FOUND), (False, ErrorCode.ILLEGAL_GENERATION)]
)
def test_a_generation_of_no_group_is_refused(knows: bool, code: ErrorCode, generation: int) -> None:
    story = Story()
    request = story.commit(("foo", 0, 100), member_id="m", generation_id=generation, knows_missing_groups=knows)
    assert request.codes == {FOO: code}
    assert not story.group.exists


@behaviour("offset-commit.fenced-static", "offset-commit.unknown-instance")
def test_an_instance_id_must_be_the_members_own() -> None:
    story = Story()
    anna, _ = story.stable("anna", "ben", static=True)
    assert anna.commits(member_id="wrong").codes == {FOO: ErrorCode.FENCED_INSTANCE_ID}
    assert anna.commits(group_instance_id="nope").codes == {FOO: ErrorCode.UNKNOWN_MEMBER_ID}


@behaviour("offset-commit.instance-id-without-member-id")
def test_an_instance_id_alone_is_not_the_member() -> None:
    story = Story()
    anna, _ = story.stable("anna", "ben", static=True)
    assert anna.commits(member_id="", generation_id=-1).codes == {FOO: ErrorCode.FENCED_INSTANCE_ID}


@behaviour("offset-commit.metadata-too-large")
def test_a_note_that_is_too_long_costs_its_own_partition_alone() -> None:
    story = Story()
    [anna] = story.stable("anna")
    offsets = (
        c.OffsetToCommit("foo", 0, 1, metadata="x" * 4_097),
        c.OffsetToCommit("foo", 1, 2, metadata="x" * 4_096),
        c.OffsetToCommit("foo", 2, 3, metadata="🙂" * 2_049),
    )
    too_large = ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert anna.commits(offsets=offsets).codes == {FOO: too_large, ("foo", 1): NONE, ("foo", 2): too_large}
    assert {number: each.offset for number, each in story.group.offsets["foo"].items()} == {1: 2}


@behaviour("offset-commit.last-write-wins", "offset-commit.negative-offset")
def test_offsets_may_go_back() -> None:
    story = Story()
    for offset in (100, 40, -1):
        assert story.commit(("foo", 0, offset)).codes == {FOO: NONE}
        assert story.fetch(foo=(0,)).offsets == {FOO: offset}


@behaviour("offset-commit.leader-epoch", "offset-fetch.committed")
def test_what_was_committed_can_be_fetched_by_anybody() -> None:
    story = Story()
    story.commit(offsets=(c.OffsetToCommit("foo", 0, 100, leader_epoch=5, metadata="m"),))
    request = story.fetch(foo=(0,))
    [row] = request.answer.topics[0].partitions
    assert (row.committed_offset, row.committed_leader_epoch, row.metadata, row.error_code) == (100, 5, "m", NONE)
    assert request.code is NONE


@behaviour("offset-commit.retention-v2-v4")
def test_a_commit_may_bring_its_own_expiry() -> None:
    story = Story()
    story.commit(("foo", 0, 100), retention_ms=5_000)
    offset = story.group.committed("foo", 0)
    assert offset is not None
    assert offset.expires_at_ms == NOW + 5_000
    story.passes(4_999)
    assert story.is_cleaned_up() == []
    story.passes(1)
    assert [type(event).__name__ for event in story.is_cleaned_up()] == ["OffsetsForgotten", "GroupDeleted"]


@behaviour("offset-commit.expiry.empty-group")
def test_a_group_that_had_members_keeps_its_offsets_until_long_after_they_left() -> None:
    story = Story()
    [anna] = story.stable("anna")
    anna.commits(("foo", 0, 100))
    story.now_ms += 20 * DAY_MS
    anna.leaves()
    story.passes(7 * DAY_MS - 1)
    assert story.is_cleaned_up() == []
    story.passes(1)
    assert [type(event).__name__ for event in story.is_cleaned_up()] == ["OffsetsForgotten", "GroupDeleted"]
    assert not story.group.exists


@behaviour("offset-commit.expiry.simple-group")
def test_in_a_group_without_members_each_offset_has_its_own_age() -> None:
    story = Story()
    story.commit(("foo", 0, 100))
    story.passes(DAY_MS)
    story.commit(("foo", 1, 100))
    story.passes(6 * DAY_MS)
    [forgotten] = story.is_cleaned_up()
    assert forgotten.partitions == {"foo": (0,)}
    assert story.fetch_everything().offsets == {("foo", 1): 100}


@behaviour("offset-commit.expiry.empty-group-without-offsets")
@pytest.mark.parametrize("kind", ["everybody left", "nobody came"])
def test_retention_protects_offsets_and_not_groups(kind: str) -> None:
    story = Story()
    if kind == "everybody left":
        story.empty()
    else:
        story.consumer("anna", protocol_type="").asks_to_join()
    assert [type(event).__name__ for event in story.is_cleaned_up()] == ["GroupDeleted"]
    assert not story.group.exists


@behaviour("offset-commit.expiry.not-while-rebalancing")
@pytest.mark.parametrize("state", [State.PREPARING, State.COMPLETING])
def test_nothing_is_forgotten_while_members_gather(state: State) -> None:
    story = Story()
    story.commit(("old", 0, 100))
    anna = story.consumer("anna")
    anna.joins()
    if state is State.COMPLETING:
        story.passes(3_000)
    story.now_ms += 30 * DAY_MS
    assert story.state is state
    assert story.is_cleaned_up() == []


def test_in_a_stable_group_only_what_nobody_subscribes_to_is_forgotten() -> None:
    story = Story()
    [anna] = story.stable("anna", topics=("foo",), session_timeout_ms=1_800_000)
    anna.commits(("foo", 0, 1), ("old", 0, 1))
    story.now_ms += 7 * DAY_MS
    [forgotten] = story.is_cleaned_up()
    assert forgotten.partitions == {"old": (0,)}


@behaviour("offset-fetch.no-offset", "offset-fetch.unknown-group")
@pytest.mark.parametrize("exists", [True, False])
def test_where_nothing_was_committed_the_answer_is_minus_one(exists: bool) -> None:
    story = Story()
    if exists:
        story.empty()
    [row] = story.fetch(foo=(5,)).answer.topics[0].partitions
    assert (row.partition_index, row.committed_offset, row.committed_leader_epoch) == (5, -1, -1)
    assert (row.metadata, row.error_code) == ("", NONE)


@behaviour("offset-fetch.all-topics")
def test_one_can_ask_for_everything_or_for_nothing() -> None:
    story = Story()
    assert story.fetch_everything().offsets == {}
    story.commit(("foo", 0, 1), ("bar", 1, 2))
    assert story.fetch_everything().offsets == {FOO: 1, ("bar", 1): 2}
    assert story.fetch().answer.topics == []


@behaviour("offset-delete.unknown-group")
def test_a_group_that_does_not_exist_has_no_offsets_to_delete() -> None:
    request = Story().delete_offsets(foo=(0,))
    assert (request.code, request.answer.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, [])


@behaviour("offset-delete.subscribed-topic")
def test_offsets_of_a_subscribed_topic_cannot_be_deleted() -> None:
    story = Story()
    [anna] = story.stable("anna", topics=("bar",))
    anna.commits(("foo", 0, 1), ("bar", 0, 2))
    request = story.delete_offsets(foo=(0,), bar=(0,))
    assert (request.code, request.codes) == (NONE, {FOO: NONE, BAR: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC})
    assert story.fetch_everything().offsets == {BAR: 2}


def test_until_its_first_generation_a_group_counts_as_subscribed_to_everything() -> None:
    story = Story()
    story.commit(("foo", 0, 1))
    story.consumer("anna", topics=("bar",), version=3).asks_to_join()
    request = story.delete_offsets(foo=(0,))
    assert (request.code, request.codes) == (NONE, {FOO: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC})
    story.passes(3_000)
    assert story.delete_offsets(foo=(0,)).codes == {FOO: NONE}


@behaviour("offset-delete.empty-group")
def test_an_empty_group_lets_go_of_any_offset_and_stays() -> None:
    story = Story()
    [anna] = story.stable("anna", topics=("bar",))
    anna.commits(("foo", 0, 1), ("bar", 0, 2))
    anna.leaves()
    assert story.delete_offsets(bar=(0,)).codes == {BAR: NONE}
    assert story.delete_offsets(foo=(0,)).codes == {FOO: NONE}
    assert (story.state, story.group.offsets) == (State.EMPTY, {})


@behaviour("offset-delete.missing-offset")
def test_an_offset_that_is_not_there_is_deleted_without_a_word() -> None:
    story = Story()
    story.empty()
    request = story.delete_offsets(foo=(7,))
    assert (request.codes, request.events) == ({("foo", 7): NONE}, ())


@behaviour("offset-delete.non-consumer-non-empty", "offset-delete.empty-non-consumer")
def test_offsets_of_connect_workers_can_be_deleted_when_they_have_left() -> None:
    story = Story()
    [worker] = story.stable("worker", protocol_type="connect", protocols=("sessioned",), metadata=b"")
    worker.commits(("foo", 0, 1))
    assert story.delete_offsets(foo=(0,)).code is ErrorCode.NON_EMPTY_GROUP
    worker.leaves()
    assert story.delete_offsets(foo=(0,)).codes == {FOO: NONE}


def test_offsets_that_connect_workers_left_behind_can_be_deleted_after_a_failover_too() -> None:
    story = Story()
    [worker] = story.stable("worker", protocol_type="connect", protocols=("sessioned",), metadata=b"")
    worker.commits(("foo", 0, 1))
    worker.leaves()
    story.fails_over()
    assert story.delete_offsets(foo=(0,)).codes == {FOO: NONE}


@behaviour("offset-delete.rebalancing")
def test_while_members_gather_the_last_generations_subscriptions_count() -> None:
    story = Story()
    anna, _ = story.stable("anna", "ben", topics=("bar",))
    anna.commits(("foo", 0, 1), ("bar", 0, 2))
    anna.topics = ("foo",)
    anna.asks_to_join()
    assert story.state is State.PREPARING
    assert story.delete_offsets(foo=(0,), bar=(0,)).codes == {FOO: NONE, BAR: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}


def test_a_first_commit_makes_a_simple_group() -> None:
    story = Story()
    story.commit(("foo", 0, 100))
    assert (story.state, story.generation, story.group.protocol_type) == (State.EMPTY, 0, "")
    assert (story.group.name, story.group.stored) == (GROUP, None)


def test_with_a_topic_goes_what_was_committed_of_it_and_nothing_else() -> None:
    """As Kafka's `onPartitionsDeleted`: a later topic of the same name begins at 0."""
    story = Story()
    [anna] = story.stable("anna")
    anna.commits(("foo", 0, 100), ("foo", 1, 7), ("bar", 0, 5))
    [forgotten] = story.topic_is_deleted("foo")
    assert isinstance(forgotten, OffsetsForgotten)
    assert forgotten.partitions == {"foo": (0, 1)}
    assert story.fetch_everything().offsets == {("bar", 0): 5}
    assert story.topic_is_deleted("foo") == []
