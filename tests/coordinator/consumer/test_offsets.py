"""Offsets of groups of the consumer protocol: member epochs, retention, deletion; and requests of administrators."""

from typing import Any

import pytest

from regroup.coordinator import commands as c
from regroup.protocol.errors import ErrorCode
from tests.coordinator.consumer.consumer_harness import ConsumerHarness, topic_id
from tests.coordinator.group_driver import GROUP_ID, SentRequest
from tests.coordinator.group_harness import DAY_MS, behaviour

E = ErrorCode


def commit(harness: ConsumerHarness, member_id: str, epoch: int, *partitions: int, **fields: Any) -> SentRequest:
    """OffsetCommit of offset 1 in partitions of foo."""
    offsets = tuple(c.RequestedOffset("foo", index, 1, topic_id=topic_id("foo")) for index in partitions or (0,))
    command = c.OffsetCommit(
        group_id=GROUP_ID, at_ms=harness.now_ms, member_id=member_id, generation_id=epoch, offsets=offsets, **fields
    )
    return harness.handle(command)


def codes(request: SentRequest) -> set[ErrorCode]:
    return set(request.codes.values())


@behaviour("cg.oc.current-epoch")
def test_a_member_commits_with_its_epoch_and_its_session_does_not_restart() -> None:
    harness = ConsumerHarness().one()
    harness.advance(1_000)
    assert codes(commit(harness, "m1", 2)) == {E.NONE}
    assert harness.session_ms("m1") == 44_000


@behaviour("cg.oc.v8")
def test_a_member_needs_a_client_that_understands_member_epochs() -> None:
    harness = ConsumerHarness().one()
    assert codes(commit(harness, "m1", 2, supports_group_id_not_found=False)) == {E.UNSUPPORTED_VERSION}
    assert codes(commit(harness, "mx", 2, supports_group_id_not_found=False)) == {E.UNKNOWN_MEMBER_ID}


@behaviour("cg.oc.unknown-member", "cg.oc.admin-while-members")
@pytest.mark.parametrize(("member_id", "epoch"), [("mx", 2), ("", -1)])
def test_others_cannot_commit_while_there_are_members(member_id: str, epoch: int) -> None:
    assert codes(commit(ConsumerHarness().one(), member_id, epoch)) == {E.UNKNOWN_MEMBER_ID}


@behaviour("cg.oc.admin-on-empty-group", "cg.oc.any-id-with-minus-one-on-empty-group")
@pytest.mark.parametrize("member_id", ["", "mx"])
@pytest.mark.parametrize("fields", [{}, {"supports_group_id_not_found": False}])
def test_any_client_may_commit_to_an_empty_group_without_an_epoch(member_id: str, fields: dict[str, Any]) -> None:
    harness = ConsumerHarness().one()
    harness.beat("m1", -1)
    assert codes(commit(harness, member_id, -1, **fields)) == {E.NONE}


@behaviour("cg.oc.former-member-on-empty-group")
def test_a_former_member_cannot_commit() -> None:
    harness = ConsumerHarness().one()
    harness.beat("m1", -1)
    assert codes(commit(harness, "m1", 3)) == {E.UNKNOWN_MEMBER_ID}


def test_epoch_0_is_not_without_an_epoch_in_an_empty_group() -> None:
    harness = ConsumerHarness().one()
    harness.beat("m1", -1)
    assert codes(commit(harness, "mx", 0)) == {E.UNKNOWN_MEMBER_ID}


@behaviour("cg.oc.greater-epoch", "cg.oc.minus-one-with-member-id")
@pytest.mark.parametrize("epoch", [3, -1])
def test_another_epoch_is_stale(epoch: int) -> None:
    assert codes(commit(ConsumerHarness().one(), "m1", epoch)) == {E.STALE_MEMBER_EPOCH}


@behaviour("cg.oc.older-epoch-partition-kept")
def test_an_older_epoch_may_commit_partitions_that_the_member_has_kept() -> None:
    assert codes(commit(ConsumerHarness().settled(), "m1", 2, 0)) == {E.NONE}


@behaviour(
    "cg.oc.older-epoch-partition-lost",
    "cg.oc.older-epoch-mixed",
    "cg.oc.epoch-before-the-partition",
    "cg.oc.older-than-the-assignment",
)
@pytest.mark.parametrize(
    ("member_id", "epoch", "partitions"), [("m1", 2, [5]), ("m1", 2, [0, 5]), ("m2", 2, [5]), ("m1", 1, [0])]
)
def test_an_older_epoch_is_stale_for_a_partition_that_the_member_did_not_have(
    member_id: str, epoch: int, partitions: list[int]
) -> None:
    request = commit(ConsumerHarness().settled(), member_id, epoch, *partitions)
    assert request.codes == {("foo", index): E.STALE_MEMBER_EPOCH for index in partitions}
    assert request.events == ()


@behaviour("cg.oc.pending-revocation")
def test_partitions_that_must_be_given_up_may_be_committed() -> None:
    assert codes(commit(ConsumerHarness().revoking(), "m1", 2, 5)) == {E.NONE}


@behaviour("cg.oc.pending-revocation-older-epoch")
def test_partitions_that_must_be_given_up_may_be_committed_with_an_older_epoch() -> None:
    harness = ConsumerHarness().settled()
    harness.join("m3", "bar")
    harness.beat("m2", 3)
    harness.beat("m2", 4, subscribed_topics=())
    assert harness.pending("m2") == {"foo": [3, 4, 5]}
    assert codes(commit(harness, "m2", 3, 5)) == {E.NONE}


@behaviour("cg.oc.static-member-back")
def test_a_static_member_that_is_back_has_had_its_partitions_since_the_beginning() -> None:
    harness = ConsumerHarness().away()
    assert codes(commit(harness, "m2", 3, 3)) == {E.STALE_MEMBER_EPOCH}
    harness.join("m2b", instance_id="i2")
    assert codes(commit(harness, "m2b", 2, 3)) == {E.NONE}


@behaviour("cg.oc.unknown-group-with-epoch-v9", "cg.oc.unknown-group-with-epoch-v8")
@pytest.mark.parametrize(("is_v9", "code"), [(True, E.GROUP_ID_NOT_FOUND), (False, E.ILLEGAL_GENERATION)])
def test_an_epoch_of_a_group_that_does_not_exist_is_refused(is_v9: bool, code: ErrorCode) -> None:
    assert codes(commit(ConsumerHarness(), "m1", 1, supports_group_id_not_found=is_v9)) == {code}


@behaviour("cg.oc.instance-id-is-not-looked-at")
def test_the_instance_id_of_a_commit_is_not_looked_at() -> None:
    assert codes(commit(ConsumerHarness().static_pair(), "m2", 3, 3, group_instance_id="i9")) == {E.NONE}


# OffsetFetch


def fetch(harness: ConsumerHarness, member_id: str | None, epoch: int, **fields: Any) -> Any:
    request: dict[str, Any] = {"partitions": {"foo": (0,)}, **fields}
    command = c.OffsetFetch(group_id=GROUP_ID, at_ms=harness.now_ms, member_id=member_id, member_epoch=epoch, **request)
    return harness.handle(command).response


@behaviour("cg.of.current-epoch", "cg.of.nobody")
@pytest.mark.parametrize(("member_id", "epoch"), [("m1", 2), (None, -1)])
def test_a_member_fetches_with_its_epoch_and_others_without(member_id: str | None, epoch: int) -> None:
    assert fetch(ConsumerHarness().one(), member_id, epoch).error_code == E.NONE


@behaviour("cg.of.older-epoch", "cg.of.greater-epoch", "cg.of.member-with-minus-one")
@pytest.mark.parametrize("epoch", [2, 4, -1])
def test_a_fetch_with_another_epoch_is_stale(epoch: int) -> None:
    response = fetch(ConsumerHarness().settled(), "m1", epoch)
    assert (response.error_code, response.topics) == (E.STALE_MEMBER_EPOCH, [])


@behaviour("cg.of.unknown-member")
@pytest.mark.parametrize(("member_id", "epoch"), [("mx", 2), ("", -1)])
def test_a_fetch_of_a_stranger_is_refused(member_id: str, epoch: int) -> None:
    assert fetch(ConsumerHarness().one(), member_id, epoch).error_code == E.UNKNOWN_MEMBER_ID


def test_a_fetch_with_an_epoch_and_no_member_fails_as_in_kafka() -> None:
    assert fetch(ConsumerHarness().one(), None, 2).error_code == E.UNKNOWN_SERVER_ERROR


@behaviour("cg.of.unknown-group")
def test_a_fetch_from_a_group_that_does_not_exist_is_no_error() -> None:
    response = fetch(ConsumerHarness(), "m1", 1)
    assert (response.error_code, response.topics[0].partitions[0].committed_offset) == (E.NONE, -1)


@behaviour("cg.of.all-topics")
def test_all_offsets_are_those_of_other_topics_too() -> None:
    harness = ConsumerHarness()
    harness.commit(("foo", 0, 1), ("bar", 0, 2))
    harness.one()
    assert [each.name for each in fetch(harness, "m1", 2, partitions=None).topics] == ["foo", "bar"]


@behaviour("cg.of.unstable", "cg.txn.current-epoch")
def test_an_offset_of_an_open_transaction_is_unstable() -> None:
    harness = ConsumerHarness().one()
    request = harness.commit_in_transaction(7, ("foo", 0, 5), member_id="m1", generation_id=2)
    assert codes(request) == {E.NONE}
    response = fetch(harness, "m1", 2, partitions={"foo": (0, 1)}, require_stable=True)
    assert [each.error_code for each in response.topics[0].partitions] == [E.UNSTABLE_OFFSET_COMMIT, E.NONE]


# TxnOffsetCommit


def commit_in_transaction(harness: ConsumerHarness, member_id: str, epoch: int, **fields: Any) -> set[ErrorCode]:
    """Of an offset in partition 0 of foo."""
    command = c.TxnOffsetCommit(
        group_id=GROUP_ID,
        at_ms=harness.now_ms,
        producer_id=7,
        member_id=member_id,
        generation_id=epoch,
        offsets=(c.RequestedOffset("foo", 0, 1, topic_id=topic_id("foo")),),
        **fields,
    )
    return codes(harness.handle(command))


@behaviour("cg.txn.stale-v6")
def test_a_stale_transactional_commit_says_so_since_v6() -> None:
    harness = ConsumerHarness().settled()
    assert commit_in_transaction(harness, "m1", 1, supports_group_id_not_found=True) == {E.STALE_MEMBER_EPOCH}


@behaviour("cg.txn.greater-epoch", "cg.txn.member-with-minus-one", "cg.txn.older-epoch-partition-kept")
@pytest.mark.parametrize(("epoch", "code"), [(4, E.ILLEGAL_GENERATION), (-1, E.ILLEGAL_GENERATION), (2, E.NONE)])
def test_the_epoch_of_a_transactional_commit_is_checked(epoch: int, code: ErrorCode) -> None:
    assert commit_in_transaction(ConsumerHarness().settled(), "m1", epoch) == {code}


@behaviour("cg.txn.unknown-member")
def test_a_transactional_commit_of_a_stranger_is_refused() -> None:
    assert commit_in_transaction(ConsumerHarness().one(), "zz", 2) == {E.UNKNOWN_MEMBER_ID}


def test_a_transactional_commit_need_not_name_a_member() -> None:
    assert commit_in_transaction(ConsumerHarness().one(), "", -1) == {E.NONE}


@behaviour("cg.txn.unknown-group-v5")
@pytest.mark.parametrize(("is_v6", "code"), [(True, E.GROUP_ID_NOT_FOUND), (False, E.ILLEGAL_GENERATION)])
def test_a_transactional_commit_to_a_group_that_does_not_exist(is_v6: bool, code: ErrorCode) -> None:
    assert commit_in_transaction(ConsumerHarness(), "m1", 1, supports_group_id_not_found=is_v6) == {code}


# OffsetDelete, expiry, DeleteGroups


@behaviour("cg.od.subscribed", "cg.od.not-subscribed", "cg.od.no-members-needed")
def test_offsets_of_subscribed_topics_are_kept() -> None:
    harness = ConsumerHarness()
    harness.commit(("foo", 0, 1), ("bar", 0, 1))
    harness.one()
    assert harness.delete_offsets(foo=(0,), bar=(0, 1)).codes == {
        ("foo", 0): E.GROUP_SUBSCRIBED_TO_TOPIC,
        ("bar", 0): E.NONE,
        ("bar", 1): E.NONE,
    }
    assert harness.fetch_all().offsets == {("foo", 0): 1}


@behaviour("cg.od.by-regex")
def test_a_resolved_pattern_is_a_subscription() -> None:
    harness = ConsumerHarness()
    harness.join("m1", subscribed_topics=None, subscribed_regex="fo.*")
    harness.resolve(**{"fo.*": ("foo",)})
    assert codes(harness.delete_offsets(foo=(0,))) == {E.GROUP_SUBSCRIBED_TO_TOPIC}


@behaviour("cg.od.empty-group")
def test_offsets_of_an_empty_group_can_be_deleted() -> None:
    harness = ConsumerHarness().one()
    harness.beat("m1", -1)
    commit(harness, "", -1)
    assert codes(harness.delete_offsets(foo=(0,))) == {E.NONE}


@behaviour("cg.exp.empty-group-without-offsets", "cg.exp.group-goes-with-its-last-offset")
def test_an_empty_group_goes_with_its_last_offset() -> None:
    harness = ConsumerHarness().one()
    commit(harness, "m1", 2)
    harness.advance(6 * DAY_MS)
    assert harness.state_name == "Empty"
    assert harness.expire_offsets() == []
    harness.advance(DAY_MS)
    assert [type(each).__name__ for each in harness.expire_offsets()] == ["OffsetsDeleted", "GroupDeleted"]
    assert not harness.group.exists


@behaviour("cg.exp.subscribed-topics-are-safe")
def test_offsets_of_other_topics_expire_while_there_are_members() -> None:
    harness = ConsumerHarness(offsets_retention_minutes=1)
    harness.commit(("foo", 0, 1), ("bar", 0, 1))
    harness.one()
    harness.advance(30_000)
    harness.beat("m1", 2)
    harness.advance(30_000)
    harness.expire_offsets()
    assert harness.fetch_all().offsets == {("foo", 0): 1}


@behaviour("cg.exp.topic-deleted")
def test_offsets_go_with_their_topic_and_the_members_stay() -> None:
    harness = ConsumerHarness().one()
    commit(harness, "m1", 2)
    harness.delete_topic("foo")
    assert harness.fetch(foo=(0,)).offsets == {("foo", 0): -1}
    assert list(harness.consumer.members) == ["m1"]


@behaviour("cg.del.open-transaction")
def test_a_group_with_an_open_transaction_can_be_deleted() -> None:
    harness = ConsumerHarness().one()
    commit_in_transaction(harness, "m1", 2)
    assert harness.delete_group().code is E.NON_EMPTY_GROUP
    harness.beat("m1", -1)
    assert harness.delete_group().code is E.NONE
    assert not harness.group.exists


def test_a_group_with_a_member_that_is_away_cannot_be_deleted() -> None:
    assert ConsumerHarness().away().delete_group().code is E.NON_EMPTY_GROUP
