"""Members start at the committed offset, process in order, and do not commit backwards."""

import pytest

from regroup.lab.checker.members.records.positions import (
    COMMITS_BEFORE_REVOCATION,
    COMMITS_DO_NOT_GO_BACK,
    NEVER_READS_BACK,
    STARTS_AT_COMMITTED,
    ReadPositions,
)
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def started(at: int = 17, fetched: int | None = 17) -> ReadPositions:
    """Anna has fetched a committed offset of orders-0, and has started to read it."""
    positions = ReadPositions()
    positions.on_fetched("anna", {ORDERS_0: fetched})
    positions.on_start("anna", "payments", ORDERS_0, at)
    return positions


def sentence_of(found: tuple[str, str] | None) -> str | None:
    return None if found is None else found[0]


# -- where a member starts


@pytest.mark.parametrize("elsewhere", [16, 18])
def test_a_start_beside_the_fetched_offset_is_found(elsewhere: int) -> None:
    positions = ReadPositions()
    positions.on_fetched("anna", {ORDERS_0: 17})
    found = positions.on_start("anna", "payments", ORDERS_0, elsewhere)
    assert found is not None
    assert found.sentence == STARTS_AT_COMMITTED
    assert found.detail.endswith(f"at {elsewhere}, and got 17")


def test_a_start_at_the_fetched_offset_is_in_order() -> None:
    positions = ReadPositions()
    positions.on_fetched("anna", {ORDERS_0: 17, ORDERS_1: 4})
    assert positions.on_start("anna", "payments", ORDERS_0, 17) is None
    assert positions.on_start("anna", "payments", ORDERS_1, 4) is None


def test_without_a_committed_offset_a_member_starts_anywhere() -> None:
    positions = ReadPositions()
    positions.on_fetched("anna", {ORDERS_0: 17})
    positions.on_fetched("anna", {ORDERS_0: None})
    assert positions.on_start("anna", "payments", ORDERS_0, 3) is None


def test_a_member_may_start_once_more_where_its_offset_is_out_of_range() -> None:
    assert started().on_start("anna", "payments", ORDERS_0, 40) is None


def test_what_another_member_has_fetched_does_not_count() -> None:
    positions = ReadPositions()
    positions.on_fetched("ben", {ORDERS_0: 17})
    assert positions.on_start("anna", "payments", ORDERS_0, 3) is None


def test_what_a_former_owner_has_fetched_does_not_count_when_it_owns_the_partition_again() -> None:
    positions = ReadPositions()
    positions.on_fetched("anna", {ORDERS_0: 17})
    positions.on_owner_change("anna", [ORDERS_0])
    assert positions.on_start("anna", "payments", ORDERS_0, 3) is None


# -- in which order it processes


def test_a_record_before_the_start_or_processed_twice_is_found() -> None:
    assert sentence_of(started().on_record("anna", ORDERS_0, 16)) == NEVER_READS_BACK
    positions = started()
    assert positions.on_record("anna", ORDERS_0, 17) is None
    assert sentence_of(positions.on_record("anna", ORDERS_0, 17)) == NEVER_READS_BACK


def test_after_a_record_out_of_order_the_next_new_one_is_in_order() -> None:
    positions = started()
    positions.on_record("anna", ORDERS_0, 20)
    assert sentence_of(positions.on_record("anna", ORDERS_0, 18)) == NEVER_READS_BACK
    assert positions.on_record("anna", ORDERS_0, 21) is None


def test_records_may_leave_gaps_and_partitions_are_apart() -> None:
    positions = started()
    assert positions.on_record("anna", ORDERS_0, 25) is None
    assert positions.on_record("anna", ORDERS_1, 0) is None


def test_a_partition_that_is_fetched_again_or_owned_again_may_be_read_again() -> None:
    for begin_again in ("fetch", "owner", "process"):
        positions = started()
        positions.on_record("anna", ORDERS_0, 30)
        match begin_again:
            case "fetch":
                positions.on_fetched("anna", {ORDERS_0: 17})
            case "owner":
                positions.on_owner_change("anna", [ORDERS_0])
            case _:
                positions.on_owner_change("anna")
        assert positions.on_record("anna", ORDERS_0, 17) is None, begin_again


def test_another_partition_that_is_given_up_changes_nothing() -> None:
    positions = started()
    positions.on_owner_change("anna", [ORDERS_1])
    assert sentence_of(positions.on_record("anna", ORDERS_0, 3)) == NEVER_READS_BACK


def test_a_zombie_is_not_checked_and_its_next_process_is() -> None:
    positions = started()
    positions.on_zombie("anna")
    assert positions.on_record("anna", ORDERS_0, 3) is None
    positions.on_owner_change("anna")
    positions.on_start("anna", "payments", ORDERS_0, 17)
    assert sentence_of(positions.on_record("anna", ORDERS_0, 3)) == NEVER_READS_BACK


# -- what it commits


def committed(offset: int = 20) -> ReadPositions:
    positions = ReadPositions()
    assert positions.on_commit("payments", ORDERS_0, "anna-1", offset, "1-4") is None
    return positions


def test_a_commit_below_the_members_own_one_is_found_and_the_same_one_is_not() -> None:
    assert sentence_of(committed().on_commit("payments", ORDERS_0, "anna-1", 19, "1-4")) == COMMITS_DO_NOT_GO_BACK
    for offset in (20, 21):
        assert committed().on_commit("payments", ORDERS_0, "anna-1", offset, "1-4") is None


def test_a_commit_that_an_older_connection_brings_later_may_be_lower_and_one_over_a_new_connection_not() -> None:
    positions = committed(9)
    positions.on_commit("payments", ORDERS_0, "anna-1", 10, "1-21")
    assert positions.on_commit("payments", ORDERS_0, "anna-1", 9, "1-4") is None
    assert sentence_of(positions.on_commit("payments", ORDERS_0, "anna-1", 8, "1-4")) == COMMITS_DO_NOT_GO_BACK
    assert sentence_of(positions.on_commit("payments", ORDERS_0, "anna-1", 9, "1-21")) == COMMITS_DO_NOT_GO_BACK
    assert positions.on_commit("payments", ORDERS_0, "anna-1", 8, "1-20") is None, "it is an older one, first used now"
    assert sentence_of(positions.on_commit("payments", ORDERS_0, "anna-1", 8, "1-22")) == COMMITS_DO_NOT_GO_BACK


def test_another_member_group_or_partition_may_commit_a_lower_offset() -> None:
    assert committed().on_commit("payments", ORDERS_0, "ben-1", 3, "1-4") is None
    assert committed().on_commit("audit", ORDERS_0, "anna-1", 3, "1-4") is None
    assert committed().on_commit("payments", ORDERS_1, "anna-1", 3, "1-4") is None


def test_a_commit_of_another_member_in_between_allows_a_lower_offset() -> None:
    positions = committed()
    positions.on_commit("payments", ORDERS_0, "ben-1", 3, "1-4")
    assert positions.on_commit("payments", ORDERS_0, "anna-1", 4, "1-4") is None


def test_a_member_that_has_started_to_read_again_may_commit_a_lower_offset() -> None:
    positions = committed()
    positions.on_start("anna", "payments", ORDERS_0, 3)
    assert positions.on_commit("payments", ORDERS_0, "anna-1", 4, "1-4") is None


def commit_of(offset: int) -> OffsetCommitRequest:
    """A commit of orders-0, as anna sends it."""
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    topic = OffsetCommitRequestTopic(name="orders", partitions=[partition])
    return OffsetCommitRequest(group_id="payments", member_id="anna-1", topics=[topic])


def started_again() -> tuple[ReadPositions, OffsetCommitRequest]:
    """Anna has sent a commit of 5, and has started to read at 0 before its response came."""
    positions = committed(4)
    positions.on_commit_request("anna", commit := commit_of(5))
    positions.on_start("anna", "payments", ORDERS_0, 0)
    return positions, commit


def commits(positions: ReadPositions, *offsets: int, member_id: str = "anna-1") -> list[str | None]:
    return [sentence_of(positions.on_commit("payments", ORDERS_0, member_id, each, "1-4")) for each in offsets]


def test_a_commit_sent_before_the_member_has_started_again_and_accepted_after_it_does_not_count() -> None:
    positions, commit = started_again()
    assert commits(positions, 5) == [None]
    positions.on_commit_response("anna", commit, {ORDERS_0: 5}, 500)
    assert commits(positions, 1, 0) == [None, COMMITS_DO_NOT_GO_BACK]


def test_a_commit_that_got_no_response_may_arrive_after_the_member_has_started_again() -> None:
    positions, _ = started_again()
    assert commits(positions, 5, 1, 0) == [None, None, COMMITS_DO_NOT_GO_BACK]


def test_each_of_two_commits_of_one_offset_may_be_on_its_way() -> None:
    positions, first = started_again()
    positions.on_commit_request("anna", second := commit_of(5))
    positions.on_start("anna", "payments", ORDERS_0, 0)
    assert commits(positions, 5) == [None]
    positions.on_commit_response("anna", first, {ORDERS_0: 5}, 500)
    assert commits(positions, 5) == [None]
    positions.on_commit_response("anna", second, {ORDERS_0: 5}, 600)
    assert commits(positions, 1, 0) == [None, COMMITS_DO_NOT_GO_BACK]


def test_a_commit_that_was_refused_is_not_on_its_way_any_more() -> None:
    positions, commit = started_again()
    positions.on_commit_response("anna", commit, {}, 500)
    assert commits(positions, 9, 5) == [None, COMMITS_DO_NOT_GO_BACK]


def test_a_commit_on_its_way_is_one_of_its_own_member_id() -> None:
    positions, _ = started_again()
    assert commits(positions, 9, 5, member_id="anna-2") == [None, COMMITS_DO_NOT_GO_BACK]


@pytest.mark.parametrize("ends", ["on_owner_change", "add_member"])
def test_a_commit_of_a_former_process_is_not_on_its_way(ends: str) -> None:
    positions = committed(4)
    positions.on_commit_request("anna", commit_of(5))
    getattr(positions, ends)("anna")
    positions.on_start("anna", "payments", ORDERS_0, 0)
    assert commits(positions, 5, 1) == [None, COMMITS_DO_NOT_GO_BACK]


def test_in_a_topic_with_the_name_of_a_deleted_one_a_member_may_commit_a_lower_offset() -> None:
    positions = committed()
    positions.on_topic_deleted("orders")
    assert positions.on_commit("payments", ORDERS_0, "anna-1", 43, "1-4") is None
    assert positions.on_commit("payments", ORDERS_0, "anna-1", 1, "1-4") is None


def test_a_change_of_offsets_without_a_commit_allows_a_lower_offset_in_its_group_alone() -> None:
    positions = committed()
    positions.on_other_change("audit")
    assert sentence_of(positions.on_commit("payments", ORDERS_0, "anna-1", 19, "1-4")) == COMMITS_DO_NOT_GO_BACK
    positions.on_other_change("payments")
    assert positions.on_commit("payments", ORDERS_0, "anna-1", 4, "1-4") is None


# -- commits before a revocation


def revoked(processed: int, committed: int, commit_ms: int = 500, revoked_ms: int = 500) -> str | None:
    positions = started()
    assert positions.on_record("anna", ORDERS_0, processed) is None
    positions.on_commit_response("anna", commit_of(committed), {ORDERS_0: committed}, commit_ms)
    return sentence_of(positions.on_revoked("anna", [ORDERS_0, ORDERS_1], revoked_ms))


def test_a_record_between_the_commit_and_the_revocation_is_found() -> None:
    assert revoked(processed=17, committed=18) is None
    assert revoked(processed=18, committed=18) == COMMITS_BEFORE_REVOCATION


def test_a_member_whose_last_commit_was_refused_has_left_out_what_it_processed() -> None:
    """The responses to several commits may come at once."""
    positions = started()
    positions.on_record("anna", ORDERS_0, 18)
    positions.on_commit_response("anna", commit_of(18), {ORDERS_0: 18}, 500)
    positions.on_commit_response("anna", commit_of(19), {}, 500)
    assert positions.on_revoked("anna", [ORDERS_0], 500) is None


def test_a_member_that_subscribes_to_other_topics_may_read_on_while_it_commits() -> None:
    """Kafka's consumer with a cooperative assignor does; its next revocation is judged again."""
    positions = started()
    positions.on_subscribe("anna")
    positions.on_record("anna", ORDERS_0, 18)
    for expected in (None, COMMITS_BEFORE_REVOCATION):
        positions.on_commit_response("anna", commit_of(18), {ORDERS_0: 18}, 500)
        assert sentence_of(positions.on_revoked("anna", [ORDERS_0], 500)) == expected


def test_a_new_process_has_not_subscribed_to_other_topics() -> None:
    positions = started()
    positions.on_subscribe("anna")
    positions.on_owner_change("anna")
    positions.on_record("anna", ORDERS_0, 18)
    positions.on_commit_response("anna", commit_of(18), {ORDERS_0: 18}, 500)
    assert sentence_of(positions.on_revoked("anna", [ORDERS_0], 500)) == COMMITS_BEFORE_REVOCATION


def test_a_commit_for_which_the_revocation_did_not_wait_may_leave_records_out() -> None:
    assert revoked(processed=18, committed=18, revoked_ms=501) is None
