"""TxnOffsetCommit: offsets that are committed with a transaction."""

import pytest

from regroup.coordinator import commands as c
from regroup.coordinator.commands import DeadlineKind
from regroup.coordinator.group import GroupState
from regroup.protocol.errors import ErrorCode
from tests.coordinator.group_driver import GROUP_ID, SentRequest
from tests.coordinator.group_harness import DAY_MS, GroupHarness, behaviour

FOO, BAR = ("foo", 0), ("bar", 1)
NONE, UNSTABLE = ErrorCode.NONE, ErrorCode.UNSTABLE_OFFSET_COMMIT


def offsets_and_codes(request: SentRequest) -> dict[tuple[str, int], tuple[int, ErrorCode]]:
    return {partition: (offset, request.codes[partition]) for partition, offset in request.offsets.items()}


@behaviour("txn-offset.commit-then-marker")
def test_transactional_offsets_are_committed_with_the_transaction() -> None:
    harness = GroupHarness()
    assert harness.commit_in_transaction(10, ("foo", 0, 100)).codes == {FOO: NONE}
    assert harness.fetch(foo=(0,)).offsets == {FOO: -1}
    harness.end_transaction(10, committed=True)
    assert harness.fetch(foo=(0,)).offsets == {FOO: 100}
    assert offsets_and_codes(harness.fetch_stable(foo=(0,))) == {FOO: (100, NONE)}


@behaviour("txn-offset.abort")
def test_transactional_offsets_are_dropped_when_the_transaction_aborts() -> None:
    harness = GroupHarness()
    harness.commit(("foo", 0, 50))
    harness.commit_in_transaction(10, ("foo", 0, 100))
    harness.end_transaction(10, committed=False)
    assert offsets_and_codes(harness.fetch_stable(foo=(0,))) == {FOO: (50, NONE)}
    assert harness.group.pending_transactional_offsets == {}


@behaviour("offset-fetch.require-stable.pending-txn", "offset-fetch.not-stable.pending-txn")
def test_a_fetch_with_require_stable_gets_unstable_offset_commit_while_a_transaction_is_open() -> None:
    harness = GroupHarness()
    harness.commit(("foo", 0, 100))
    harness.commit_in_transaction(10, ("foo", 0, 111), ("bar", 1, 5))
    request = harness.fetch_stable(foo=(0,), bar=(1,))
    assert offsets_and_codes(request) == {FOO: (-1, UNSTABLE), BAR: (-1, UNSTABLE)}
    assert [(each.committed_leader_epoch, each.metadata) for each in request.response.topics[0].partitions] == [
        (-1, "")
    ]
    assert offsets_and_codes(harness.fetch(foo=(0,), bar=(1,))) == {FOO: (100, NONE), BAR: (-1, NONE)}


@behaviour("offset-fetch.require-stable.all-topics")
def test_a_partition_with_a_pending_transactional_offset_only_is_not_among_all() -> None:
    harness = GroupHarness()
    harness.commit(("foo", 0, 100))
    harness.commit_in_transaction(10, ("foo", 0, 111), ("bar", 1, 5))
    assert offsets_and_codes(harness.fetch_all(require_stable=True)) == {FOO: (-1, UNSTABLE)}


@behaviour("txn-offset.newer-plain-commit-wins")
def test_a_later_commit_supersedes_a_pending_transactional_offset() -> None:
    harness = GroupHarness()
    harness.commit_in_transaction(10, ("foo", 0, 100))
    harness.commit(("foo", 0, 200))
    assert offsets_and_codes(harness.fetch_stable(foo=(0,))) == {FOO: (-1, UNSTABLE)}
    harness.end_transaction(10, committed=True)
    assert harness.fetch(foo=(0,)).offsets == {FOO: 200}


@behaviour("txn-offset.newer-txn-commit-wins")
def test_a_transactional_offset_replaces_an_earlier_commit() -> None:
    harness = GroupHarness()
    harness.commit(("foo", 0, 200))
    harness.commit_in_transaction(10, ("foo", 0, 100))
    harness.end_transaction(10, committed=True)
    assert harness.fetch(foo=(0,)).offsets == {FOO: 100}


@pytest.mark.parametrize("order", [(10, 20), (20, 10)])
def test_of_two_transactions_the_later_write_wins(order: tuple[int, int]) -> None:
    harness = GroupHarness()
    harness.commit_in_transaction(10, ("foo", 0, 100))
    harness.commit_in_transaction(20, ("foo", 0, 200))
    for producer_id in order:
        harness.end_transaction(producer_id, committed=True)
    assert harness.fetch(foo=(0,)).offsets == {FOO: 200}


@behaviour("txn-offset.several-producers-one-group")
def test_a_transaction_ends_its_own_offsets_only() -> None:
    harness = GroupHarness()
    harness.commit_in_transaction(10, ("foo", 0, 100))
    harness.commit_in_transaction(20, ("bar", 1, 200))
    harness.end_transaction(10, committed=True)
    assert offsets_and_codes(harness.fetch_stable(foo=(0,), bar=(1,))) == {FOO: (100, NONE), BAR: (-1, UNSTABLE)}
    assert list(harness.group.pending_transactional_offsets) == [20]


@behaviour("txn-offset.one-producer-several-groups")
def test_a_transaction_is_ended_in_each_group_that_it_wrote_to() -> None:
    harnesses = [GroupHarness(), GroupHarness()]
    for harness in harnesses:
        harness.commit_in_transaction(10, ("foo", 0, 100))
        harness.end_transaction(10, committed=True)
    assert [harness.fetch(foo=(0,)).offsets for harness in harnesses] == [{FOO: 100}, {FOO: 100}]


@behaviour("txn-offset.marker-without-offsets")
@pytest.mark.parametrize("committed", [True, False])
def test_a_transaction_without_offsets_of_the_group_ends_without_an_event(committed: bool) -> None:
    harness = GroupHarness()
    request = harness.end_transaction(10, committed=committed)
    assert (request.code, request.events) == (NONE, ())
    assert not harness.group.exists


@behaviour("txn-offset.unknown-group-no-generation")
def test_a_transactional_commit_to_an_unknown_group_creates_a_simple_group() -> None:
    harness = GroupHarness()
    assert harness.commit_in_transaction(10, ("foo", 0, 100)).codes == {FOO: NONE}
    assert (harness.state, harness.group.protocol_type, harness.generation_id) == (GroupState.EMPTY, "", 0)
    assert harness.group.group_metadata is None


@behaviour("txn-offset.unknown-group-with-generation")
@pytest.mark.parametrize("generation", [0, 5])
def test_a_commit_with_a_generation_to_an_unknown_group_is_refused(generation: int) -> None:
    harness = GroupHarness()
    request = harness.commit_in_transaction(10, ("foo", 0, 100), generation_id=generation, member_id="m")
    assert request.codes == {FOO: ErrorCode.ILLEGAL_GENERATION}
    assert not harness.group.exists


@behaviour("txn-offset.no-member-info-into-active-group")
def test_a_transactional_commit_that_names_no_member_is_accepted() -> None:
    harness = GroupHarness()
    harness.reach_stable("anna")
    assert harness.commit_in_transaction(10, ("foo", 0, 100)).codes == {FOO: NONE}


@behaviour("txn-offset.unknown-member", "txn-offset.illegal-generation")
def test_a_transactional_commit_that_names_a_member_must_name_a_present_one() -> None:
    harness = GroupHarness()
    harness.reach_stable("anna")
    unknown = harness.commit_in_transaction(10, ("foo", 0, 100), generation_id=1, member_id="other")
    assert unknown.codes == {FOO: ErrorCode.UNKNOWN_MEMBER_ID}
    later = harness.commit_in_transaction(10, ("foo", 0, 100), generation_id=6, member_id="anna")
    assert later.codes == {FOO: ErrorCode.ILLEGAL_GENERATION}
    assert harness.group.pending_transactional_offsets == {}


def test_a_transactional_commit_that_names_a_member_of_a_group_with_members_needs_the_generation() -> None:
    harness = GroupHarness()
    [anna] = harness.reach_stable("anna")
    without = harness.commit_in_transaction(10, ("foo", 0, 100), member_id=anna.member_id)
    assert without.codes == {FOO: ErrorCode.ILLEGAL_GENERATION}
    assert harness.commit_in_transaction(10, ("foo", 0, 100), member_id="other").codes == {
        FOO: ErrorCode.UNKNOWN_MEMBER_ID
    }


def test_in_an_empty_group_a_transactional_commit_may_name_any_member() -> None:
    harness = GroupHarness()
    harness.reach_empty()
    request = harness.commit_in_transaction(10, ("foo", 0, 100), member_id="gone", group_instance_id="till")
    assert request.codes == {("foo", 0): ErrorCode.NONE}


@behaviour("static.replace.old-id-fenced-everywhere")
def test_a_transactional_commit_for_a_replaced_process_is_fenced() -> None:
    harness = GroupHarness()
    _, ben = harness.reach_stable("anna", "ben", static=True)
    former = ben.restart()
    ben.send_join()
    request = harness.commit_in_transaction(
        10, ("foo", 0, 1), generation_id=2, member_id=former.member_id, group_instance_id=former.instance_id
    )
    assert request.codes == {FOO: ErrorCode.FENCED_INSTANCE_ID}


@behaviour("txn-offset.accepted-while-completing")
def test_a_transactional_commit_in_the_sync_phase_succeeds_and_restarts_no_timeout() -> None:
    harness = GroupHarness()
    harness.reach_completing_rebalance("anna", "ben")
    harness.advance(4_000)
    request = harness.commit_in_transaction(10, ("foo", 0, 100), generation_id=2, member_id="anna")
    assert request.codes == {FOO: NONE}
    assert harness.remaining_ms(DeadlineKind.SESSION, "anna") == 6_000


def test_metadata_that_is_too_large_refuses_its_own_partition_only() -> None:
    harness = GroupHarness()
    request = harness.handle(
        c.TxnOffsetCommit(
            group_id=GROUP_ID,
            at_ms=harness.now_ms,
            producer_id=10,
            offsets=(c.RequestedOffset("foo", 0, 1, metadata="x" * 4_097), c.RequestedOffset("bar", 1, 2)),
        )
    )
    assert request.codes == {FOO: ErrorCode.OFFSET_METADATA_TOO_LARGE, BAR: NONE}
    assert list(harness.group.pending_transactional_offsets[10]) == ["bar"]


@behaviour("offset-delete.pending-txn")
def test_deleting_an_offset_deletes_it_from_open_transactions_too() -> None:
    harness = GroupHarness()
    harness.reach_empty()
    harness.commit_in_transaction(10, ("foo", 0, 100))
    request = harness.delete_offsets(foo=(0,))
    assert (request.codes, request.event_types) == ({FOO: NONE}, ["OffsetsDeleted"])
    harness.end_transaction(10, committed=True)
    assert harness.fetch(foo=(0,)).offsets == {FOO: -1}


def test_deleting_a_topic_deletes_its_pending_transactional_offsets() -> None:
    """As in Apache Kafka 4.4; the conformance story `txn-offset.deleted-topic` tests the same over the wire."""
    harness = GroupHarness()
    harness.commit(("foo", 0, 1))
    harness.commit_in_transaction(10, ("foo", 0, 100), ("foo", 1, 100), ("bar", 1, 5))
    harness.delete_topic("foo")
    harness.end_transaction(10, committed=True)
    assert harness.fetch_all().offsets == {BAR: 5}


@behaviour("offset-commit.expiry.pending-txn-blocks")
def test_an_offset_with_a_pending_transactional_offset_does_not_expire() -> None:
    harness = GroupHarness()
    harness.commit(("foo", 0, 100))
    harness.commit_in_transaction(10, ("foo", 0, 111))
    harness.advance(30 * DAY_MS)
    assert harness.expire_offsets() == []
    harness.end_transaction(10, committed=False)
    assert [type(event).__name__ for event in harness.expire_offsets()] == ["OffsetsDeleted", "GroupDeleted"]


def test_a_group_with_pending_transactional_offsets_only_is_not_deleted() -> None:
    harness = GroupHarness()
    harness.commit_in_transaction(10, ("foo", 0, 111))
    assert harness.expire_offsets() == []


def test_deleting_a_group_deletes_its_pending_transactional_offsets() -> None:
    harness = GroupHarness()
    harness.commit_in_transaction(10, ("foo", 0, 100))
    assert harness.delete_group().code is NONE
    assert harness.end_transaction(10, committed=True).events == ()
    assert not harness.group.exists


def test_pending_transactional_offsets_survive_a_failover() -> None:
    harness = GroupHarness()
    harness.commit_in_transaction(10, ("foo", 0, 100))
    harness.fail_over()
    assert harness.state is GroupState.EMPTY
    assert offsets_and_codes(harness.fetch_stable(foo=(0,))) == {FOO: (-1, UNSTABLE)}
    harness.end_transaction(10, committed=True)
    assert harness.fetch(foo=(0,)).offsets == {FOO: 100}
