"""Offsets that are committed within a transaction: they count when it commits, and not before."""

import pytest

from regroup.coordinator import commands as c
from regroup.coordinator.commands import DeadlineKind
from regroup.coordinator.group import State
from regroup.protocol.errors import ErrorCode
from tests.coordinator.stage import Request
from tests.coordinator.story import DAY_MS, Story, behaviour

FOO, BAR = ("foo", 0), ("bar", 1)
NONE, UNSTABLE = ErrorCode.NONE, ErrorCode.UNSTABLE_OFFSET_COMMIT


def rows(request: Request) -> dict[tuple[str, int], tuple[int, ErrorCode]]:
    return {partition: (offset, request.codes[partition]) for partition, offset in request.offsets.items()}


@behaviour("txn-offset.commit-then-marker")
def test_offsets_of_a_transaction_count_when_it_commits() -> None:
    story = Story()
    assert story.commit_in_transaction(10, ("foo", 0, 100)).codes == {FOO: NONE}
    assert story.fetch(foo=(0,)).offsets == {FOO: -1}
    story.end_transaction(10, committed=True)
    assert story.fetch(foo=(0,)).offsets == {FOO: 100}
    assert rows(story.fetch_stable(foo=(0,))) == {FOO: (100, NONE)}


@behaviour("txn-offset.abort")
def test_offsets_of_an_aborted_transaction_never_were() -> None:
    story = Story()
    story.commit(("foo", 0, 50))
    story.commit_in_transaction(10, ("foo", 0, 100))
    story.end_transaction(10, committed=False)
    assert rows(story.fetch_stable(foo=(0,))) == {FOO: (50, NONE)}
    assert story.group.pending_offsets == {}


@behaviour("offset-fetch.require-stable.pending-txn", "offset-fetch.not-stable.pending-txn")
def test_whoever_asks_for_stable_offsets_is_told_to_ask_again_while_a_transaction_is_open() -> None:
    story = Story()
    story.commit(("foo", 0, 100))
    story.commit_in_transaction(10, ("foo", 0, 111), ("bar", 1, 5))
    request = story.fetch_stable(foo=(0,), bar=(1,))
    assert rows(request) == {FOO: (-1, UNSTABLE), BAR: (-1, UNSTABLE)}
    assert [(row.committed_leader_epoch, row.metadata) for row in request.answer.topics[0].partitions] == [(-1, "")]
    assert rows(story.fetch(foo=(0,), bar=(1,))) == {FOO: (100, NONE), BAR: (-1, NONE)}


@behaviour("offset-fetch.require-stable.all-topics")
def test_what_was_never_committed_is_not_among_everything() -> None:
    story = Story()
    story.commit(("foo", 0, 100))
    story.commit_in_transaction(10, ("foo", 0, 111), ("bar", 1, 5))
    assert rows(story.fetch_everything(require_stable=True)) == {FOO: (-1, UNSTABLE)}


@behaviour("txn-offset.newer-plain-commit-wins")
def test_a_later_commit_outside_the_transaction_stays() -> None:
    story = Story()
    story.commit_in_transaction(10, ("foo", 0, 100))
    story.commit(("foo", 0, 200))
    assert rows(story.fetch_stable(foo=(0,))) == {FOO: (-1, UNSTABLE)}
    story.end_transaction(10, committed=True)
    assert story.fetch(foo=(0,)).offsets == {FOO: 200}


@behaviour("txn-offset.newer-txn-commit-wins")
def test_an_earlier_commit_outside_the_transaction_is_replaced() -> None:
    story = Story()
    story.commit(("foo", 0, 200))
    story.commit_in_transaction(10, ("foo", 0, 100))
    story.end_transaction(10, committed=True)
    assert story.fetch(foo=(0,)).offsets == {FOO: 100}


@pytest.mark.parametrize("order", [(10, 20), (20, 10)])
def test_of_two_transactions_the_one_that_wrote_later_has_the_last_word(order: tuple[int, int]) -> None:
    story = Story()
    story.commit_in_transaction(10, ("foo", 0, 100))
    story.commit_in_transaction(20, ("foo", 0, 200))
    for producer_id in order:
        story.end_transaction(producer_id, committed=True)
    assert story.fetch(foo=(0,)).offsets == {FOO: 200}


@behaviour("txn-offset.several-producers-one-group")
def test_a_transaction_settles_its_own_offsets_alone() -> None:
    story = Story()
    story.commit_in_transaction(10, ("foo", 0, 100))
    story.commit_in_transaction(20, ("bar", 1, 200))
    story.end_transaction(10, committed=True)
    assert rows(story.fetch_stable(foo=(0,), bar=(1,))) == {FOO: (100, NONE), BAR: (-1, UNSTABLE)}
    assert list(story.group.pending_offsets) == [20]


@behaviour("txn-offset.one-producer-several-groups")
def test_a_transaction_is_ended_in_each_group_that_it_wrote_to() -> None:
    stories = [Story(), Story()]
    for story in stories:
        story.commit_in_transaction(10, ("foo", 0, 100))
        story.end_transaction(10, committed=True)
    assert [story.fetch(foo=(0,)).offsets for story in stories] == [{FOO: 100}, {FOO: 100}]


@behaviour("txn-offset.marker-without-offsets")
@pytest.mark.parametrize("committed", [True, False])
def test_a_transaction_that_wrote_no_offsets_ends_without_a_trace(committed: bool) -> None:
    story = Story()
    request = story.end_transaction(10, committed=committed)
    assert (request.code, request.events) == (NONE, ())
    assert not story.group.exists


@behaviour("txn-offset.unknown-group-no-generation")
def test_a_transaction_may_make_a_simple_group() -> None:
    story = Story()
    assert story.commit_in_transaction(10, ("foo", 0, 100)).codes == {FOO: NONE}
    assert (story.state, story.group.protocol_type, story.generation) == (State.EMPTY, "", 0)
    assert story.group.stored is None


@behaviour("txn-offset.unknown-group-with-generation")
@pytest.mark.parametrize("generation", [0, 5])
def test_a_generation_of_no_group_is_refused(generation: int) -> None:
    story = Story()
    request = story.commit_in_transaction(10, ("foo", 0, 100), generation_id=generation, member_id="m")
    assert request.codes == {FOO: ErrorCode.ILLEGAL_GENERATION}
    assert not story.group.exists


@behaviour("txn-offset.no-member-info-into-active-group")
def test_a_producer_that_says_nothing_of_members_is_let_in() -> None:
    story = Story()
    story.stable("anna")
    assert story.commit_in_transaction(10, ("foo", 0, 100)).codes == {FOO: NONE}


@behaviour("txn-offset.unknown-member", "txn-offset.illegal-generation")
def test_a_producer_that_speaks_for_a_member_must_speak_for_a_present_one() -> None:
    story = Story()
    story.stable("anna")
    stranger = story.commit_in_transaction(10, ("foo", 0, 100), generation_id=1, member_id="other")
    assert stranger.codes == {FOO: ErrorCode.UNKNOWN_MEMBER_ID}
    late = story.commit_in_transaction(10, ("foo", 0, 100), generation_id=6, member_id="anna")
    assert late.codes == {FOO: ErrorCode.ILLEGAL_GENERATION}
    assert story.group.pending_offsets == {}


def test_while_nobody_is_in_the_group_a_producer_may_name_whom_it_likes() -> None:
    story = Story()
    story.empty()
    request = story.commit_in_transaction(10, ("foo", 0, 100), member_id="gone", group_instance_id="till")
    assert request.codes == {("foo", 0): ErrorCode.NONE}


@behaviour("static.replace.old-id-fenced-everywhere")
def test_a_producer_cannot_speak_for_a_replaced_static_member() -> None:
    story = Story()
    _, ben = story.stable("anna", "ben", static=True)
    zombie = ben.restarts()
    ben.asks_to_join()
    request = story.commit_in_transaction(
        10, ("foo", 0, 1), generation_id=2, member_id=zombie.id, group_instance_id=zombie.instance_id
    )
    assert request.codes == {FOO: ErrorCode.FENCED_INSTANCE_ID}


@behaviour("txn-offset.accepted-while-completing")
def test_the_sync_phase_is_no_obstacle_and_the_commit_no_sign_of_life() -> None:
    story = Story()
    story.completing("anna", "ben")
    story.passes(4_000)
    request = story.commit_in_transaction(10, ("foo", 0, 100), generation_id=2, member_id="anna")
    assert request.codes == {FOO: NONE}
    assert story.ms_left(DeadlineKind.SESSION, "anna") == 6_000


def test_a_note_that_is_too_long_costs_its_own_partition_alone() -> None:
    story = Story()
    request = story.tell(
        c.CommitTransactionalOffsets(
            group_id="payments",
            at_ms=story.now_ms,
            producer_id=10,
            offsets=(c.OffsetToCommit("foo", 0, 1, metadata="x" * 4_097), c.OffsetToCommit("bar", 1, 2)),
        )
    )
    assert request.codes == {FOO: ErrorCode.OFFSET_METADATA_TOO_LARGE, BAR: NONE}
    assert list(story.group.pending_offsets[10]) == ["bar"]


@behaviour("offset-delete.pending-txn")
def test_deleting_an_offset_takes_it_out_of_open_transactions_too() -> None:
    story = Story()
    story.empty()
    story.commit_in_transaction(10, ("foo", 0, 100))
    request = story.delete_offsets(foo=(0,))
    assert (request.codes, request.event_names) == ({FOO: NONE}, ["OffsetsForgotten"])
    story.end_transaction(10, committed=True)
    assert story.fetch(foo=(0,)).offsets == {FOO: -1}


def test_with_a_topic_goes_what_open_transactions_wrote_for_it() -> None:
    """As Apache Kafka 4.4 does it; the conformance story `txn-offset.deleted-topic` asks it."""
    story = Story()
    story.commit(("foo", 0, 1))
    story.commit_in_transaction(10, ("foo", 0, 100), ("foo", 1, 100), ("bar", 1, 5))
    story.topic_is_deleted("foo")
    story.end_transaction(10, committed=True)
    assert story.fetch_everything().offsets == {BAR: 5}


@behaviour("offset-commit.expiry.pending-txn-blocks")
def test_nothing_that_an_open_transaction_holds_is_forgotten() -> None:
    story = Story()
    story.commit(("foo", 0, 100))
    story.commit_in_transaction(10, ("foo", 0, 111))
    story.passes(30 * DAY_MS)
    assert story.is_cleaned_up() == []
    story.end_transaction(10, committed=False)
    assert [type(event).__name__ for event in story.is_cleaned_up()] == ["OffsetsForgotten", "GroupDeleted"]


def test_a_group_with_nothing_but_an_open_transaction_stays() -> None:
    story = Story()
    story.commit_in_transaction(10, ("foo", 0, 111))
    assert story.is_cleaned_up() == []


def test_a_deleted_group_forgets_what_transactions_wrote() -> None:
    story = Story()
    story.commit_in_transaction(10, ("foo", 0, 100))
    assert story.delete().code is NONE
    assert story.end_transaction(10, committed=True).events == ()
    assert not story.group.exists


def test_open_transactions_survive_a_failover() -> None:
    story = Story()
    story.commit_in_transaction(10, ("foo", 0, 100))
    story.fails_over()
    assert story.state is State.EMPTY
    assert rows(story.fetch_stable(foo=(0,))) == {FOO: (-1, UNSTABLE)}
    story.end_transaction(10, committed=True)
    assert story.fetch(foo=(0,)).offsets == {FOO: 100}
