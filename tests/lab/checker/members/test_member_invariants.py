"""Well-behaved members do not read partitions of others, commit too far or skip records."""

import pytest

from regroup.coordinator import commands as c
from regroup.coordinator.group import CommittedOffset
from regroup.lab.checker.members.member_invariants import (
    CLOSED_OWNS_NOTHING,
    COMMIT_NOT_AHEAD,
    COOPERATIVE_PROTOCOL,
    NEW_ID_OWNS_NOTHING,
    NO_RECORD_SKIPPED,
    NO_TWO_READERS,
    ONLY_OWNED_PARTITIONS,
    MemberChecker,
)
from regroup.lab.checker.members.records.ledgers import GroupLedger, MemberLedger
from regroup.members.consumer.effects import (
    ConsumerChange,
    ConsumerClosed,
    JoinedGroup,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
)
from regroup.protocol.consumer.subscription import TopicPartition
from tests.lab.checker.checker_harness import GROUP, CheckerHarness, run_ready

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


class TwoMembers:
    """Anna and ben, cooperative by default; `removed` are the member ids that a coordinator has removed."""

    def __init__(self, protocol: str = COOPERATIVE_PROTOCOL) -> None:
        self.removed: dict[str, int] = {}
        self.checker = MemberChecker(self.removed)
        for name in ("anna", "ben"):
            self.checker.add_member(name, GROUP)
            self.change(name, JoinedGroup(1, f"{name}-1", name == "anna", protocol))

    def change(self, name: str, change: ConsumerChange, at_ms: int = 0) -> list[str]:
        """The sentences that the change violates."""
        return [violation.sentence for violation in self.checker.on_member_change(name, change, at_ms)]


def test_a_partition_that_was_revoked_first_may_be_read_by_another_member() -> None:
    members = TwoMembers()
    assert members.change("anna", PartitionsAssigned((ORDERS_0, ORDERS_1))) == []
    members.change("anna", PartitionsRevoked((ORDERS_1,)))
    assert members.change("ben", PartitionsAssigned((ORDERS_1,))) == []
    assert members.change("ben", PartitionsAssigned((ORDERS_0,))) == [NO_TWO_READERS]


def test_a_removed_member_that_does_not_know_it_yet_may_read_on() -> None:
    members = TwoMembers()
    members.change("anna", PartitionsAssigned((ORDERS_0,)))
    members.removed["anna-1"] = 1
    assert members.change("ben", PartitionsAssigned((ORDERS_0,))) == []


def test_eager_members_may_read_the_same_partition() -> None:
    members = TwoMembers("range")
    members.change("anna", PartitionsAssigned((ORDERS_0,)))
    assert members.change("ben", PartitionsAssigned((ORDERS_0,))) == []


def test_a_member_that_is_not_well_behaved_is_not_checked() -> None:
    members = TwoMembers()
    members.checker.by_name["anna"].is_well_behaved = False
    members.change("anna", PartitionsAssigned((ORDERS_0,)))
    assert members.change("ben", PartitionsAssigned((ORDERS_0,))) == []


def test_a_member_that_crashed_or_closed_owns_nothing() -> None:
    members = TwoMembers()
    members.change("anna", PartitionsAssigned((ORDERS_0,)))
    members.checker.on_member_stop("anna", 5)
    assert members.change("ben", PartitionsAssigned((ORDERS_0,))) == []
    members.change("ben", ConsumerClosed())
    assert members.change("anna", PartitionsAssigned((ORDERS_0,))) == []
    members.checker.on_member_stop("anna", 6)
    assert members.change("anna", JoinedGroup(4, "anna-2", True, COOPERATIVE_PROTOCOL)) == []
    assert members.change("ben", PartitionsAssigned((ORDERS_0,))) == []


def test_a_member_with_a_new_member_id_owns_nothing_of_the_former_one() -> None:
    members = TwoMembers()
    members.change("anna", PartitionsAssigned((ORDERS_0,)))
    assert members.change("anna", JoinedGroup(2, "anna-1", True, COOPERATIVE_PROTOCOL)) == []
    assert members.change("anna", JoinedGroup(4, "anna-2", True, COOPERATIVE_PROTOCOL)) == [NEW_ID_OWNS_NOTHING]
    assert members.change("ben", PartitionsAssigned((ORDERS_0,))) == []


def test_a_member_that_closes_and_has_not_given_everything_up_is_found() -> None:
    for given_up, expected in (((ORDERS_0, ORDERS_1), []), ((ORDERS_0,), [CLOSED_OWNS_NOTHING])):
        members = TwoMembers()
        members.change("anna", PartitionsAssigned((ORDERS_0, ORDERS_1)))
        members.change("anna", PartitionsRevoked(given_up))
        assert members.change("anna", ConsumerClosed()) == expected


def test_a_record_that_is_processed_after_its_partition_was_revoked_is_found() -> None:
    members = TwoMembers()
    members.change("anna", PartitionsAssigned((ORDERS_0,)))
    assert list(members.checker.on_record("anna", ORDERS_0)) == []
    members.change("anna", PartitionsRevoked((ORDERS_0,)))
    members.change("ben", PartitionsAssigned((ORDERS_0,)))
    assert NO_TWO_READERS in [violation.sentence for violation in members.checker.on_record("anna", ORDERS_0)]
    assert list(members.checker.on_record("ben", ORDERS_0)) == []


def test_a_well_behaved_member_of_any_protocol_processes_only_what_it_owns() -> None:
    members = TwoMembers("range")
    members.change("anna", PartitionsAssigned((ORDERS_0,)))
    members.checker.by_name["ben"].is_well_behaved = False
    assert list(members.checker.on_record("anna", ORDERS_0)) == list(members.checker.on_record("ben", ORDERS_0)) == []
    members.change("anna", PartitionsLost((ORDERS_0,)))
    assert [violation.sentence for violation in members.checker.on_record("anna", ORDERS_0)] == [ONLY_OWNED_PARTITIONS]


async def test_a_members_ledger_writes_to_the_ledger_of_its_group() -> None:
    harness = CheckerHarness()
    harness.checker.members.add_member("anna", GROUP)
    own, group_ledger = harness.checker.members.ledger(GROUP, "anna"), harness.checker.members.group_ledger(GROUP)
    own.start_partition(ORDERS_0, 0)
    assert [own.record_processed(ORDERS_0, offset, 0, 0) for offset in (0, 0, 3)] == [True, False, True]
    own.skip_offsets(ORDERS_0, 1, 3)
    own.record_committed(ORDERS_0, 9)
    assert (group_ledger.counts.processed, group_ledger.counts.duplicates, group_ledger.counts.skipped) == (3, 1, 0)


def test_partition_seconds_without_an_owner_begin_when_the_first_owner_stops() -> None:
    members = TwoMembers()
    members.change("anna", PartitionsAssigned((ORDERS_0, ORDERS_1)), 1_000)
    members.change("anna", PartitionsLost((ORDERS_0,)), 2_000)
    members.change("ben", PartitionsAssigned((ORDERS_0,)), 5_000)
    members.change("anna", PartitionsRevoked((ORDERS_1,)), 6_000)
    assert members.checker.unowned_s(8_000) == 3 + 2

    members.checker.on_topic_deleted("orders", 9_000)
    assert members.checker.unowned_s(20_000) == 3 + 3
    assert members.checker.unowned_partitions == {1_000: 0, 2_000: 1, 5_000: 0, 6_000: 1, 9_000: 0}


def test_partitions_of_a_deleted_topic_that_members_give_up_later_need_no_owner() -> None:
    members = TwoMembers()
    members.change("anna", PartitionsAssigned((ORDERS_0, ORDERS_1)), 1_000)
    members.checker.on_topic_deleted("orders", 2_000)
    members.change("anna", PartitionsLost((ORDERS_0,)), 3_000)
    assert members.checker.unowned_s(9_000) == 0

    members.checker.on_topic_created("orders")
    members.change("anna", PartitionsLost((ORDERS_1,)), 10_000)
    assert members.checker.unowned_s(12_000) == 2
    assert members.checker.unowned_partitions == {1_000: 0, 3_000: 0, 10_000: 1}


def process(ledger: GroupLedger | MemberLedger, *offsets: int, start: int = 0) -> None:
    ledger.start_partition(ORDERS_0, start)
    for offset in offsets:
        ledger.record_processed(ORDERS_0, offset, 0, 0)


def commit(checker: MemberChecker, offset: int) -> list[str]:
    return [violation.sentence for violation in checker.on_commit(GROUP, ORDERS_0, offset)]


def skipped(checker: MemberChecker, offset: int) -> list[str]:
    offsets = {"orders": {0: CommittedOffset(offset)}}
    return [violation.detail for violation in checker.skipped_records(GROUP, offsets)]


def test_a_commit_may_not_be_ahead_of_the_processed_records() -> None:
    members = MemberChecker({})
    process(members.ledger(GROUP), 0, 1, 2)
    assert commit(members, 3) == []
    assert commit(members, 4) == [COMMIT_NOT_AHEAD]


def test_the_offset_where_reading_started_may_be_committed() -> None:
    members = MemberChecker({})
    process(members.ledger(GROUP), start=7)
    assert commit(members, 7) == []
    assert commit(members, 8) == [COMMIT_NOT_AHEAD]


def test_an_unprocessed_record_below_the_committed_offset_is_skipped() -> None:
    members = MemberChecker({})
    process(members.ledger(GROUP), 0, 1, 4)
    assert skipped(members, 2) == []
    assert skipped(members, 5) == ["payments has committed 5 of orders-0, skipping 2-3"]
    members.ledger(GROUP).skip_offsets(ORDERS_0, 2, 4)
    assert skipped(members, 5) == []


def test_records_below_an_offset_that_was_set_from_outside_are_not_skipped() -> None:
    members = MemberChecker({})
    process(members.ledger(GROUP), 0, 8)
    members.ledger(GROUP).ignore_below(ORDERS_0, 8)
    assert skipped(members, 9) == []


def test_a_topic_that_is_created_again_starts_with_offset_0_and_positions_of_the_former_one_may_be_committed() -> None:
    members = MemberChecker({})
    process(members.ledger(GROUP), 0, 1, 2)
    members.on_topic_deleted("orders", 0)
    process(members.ledger(GROUP), 0)
    assert skipped(members, 1) == []
    assert commit(members, 3) == []
    assert commit(members, 4) == [COMMIT_NOT_AHEAD]


@pytest.mark.parametrize("read_again", [(), (0,)], ids=["not read", "read"])
def test_records_below_a_committed_position_of_a_deleted_topic_may_be_skipped(read_again: tuple[int, ...]) -> None:
    """A member commits in the new topic what it had read of the old one, and the next owner begins there."""
    members = MemberChecker({})
    process(members.ledger(GROUP), 0, 1, 2)
    members.on_topic_deleted("orders", 0)
    process(members.ledger(GROUP), *read_again)
    assert commit(members, 3) == []
    process(members.ledger(GROUP), 3)
    assert skipped(members, 4) == []
    assert skipped(members, 6) == ["payments has committed 6 of orders-0, skipping 4-5"]
    members.on_topic_deleted("orders", 0)
    process(members.ledger(GROUP), 2)
    assert skipped(members, 3) == ["payments has committed 3 of orders-0, skipping 0-1"]


def of_anna(members: MemberChecker) -> MemberLedger:
    return MemberLedger(members.ledger(GROUP), *[lambda *what: None] * 3, epoch_ms=70_000)


def test_records_that_were_produced_before_their_topic_was_deleted_count_for_no_later_topic() -> None:
    members = MemberChecker({})
    anna = of_anna(members)
    process(anna, 0, 1)
    members.on_topic_deleted("orders", 5_000)
    process(members.ledger(GROUP), 0)
    for offset in (2, 3):
        assert anna.record_processed(ORDERS_0, offset, 74_999, 0)
    anna.skip_offsets(ORDERS_0, 4, 9)
    assert commit(members, 4) == []
    assert skipped(members, 6) == ["payments has committed 6 of orders-0, skipping 4-5"]
    assert members.ledger(GROUP).counts.processed == 3


def test_a_member_reads_on_in_a_new_topic_that_is_longer_than_the_deleted_one() -> None:
    members = MemberChecker({})
    anna = of_anna(members)
    process(anna, 0, 1)
    members.on_topic_deleted("orders", 5_000)
    for offset in (2, 3, 5):
        anna.record_processed(ORDERS_0, offset, 75_000, 0)
    assert skipped(members, 6) == ["payments has committed 6 of orders-0, skipping 4-4"]
    assert members.ledger(GROUP).counts.processed == 5


def test_a_commit_of_what_was_read_of_the_new_topic_excuses_no_skipped_records() -> None:
    members = MemberChecker({})
    process(members.ledger(GROUP), 0, 1, 2)
    members.on_topic_deleted("orders", 0)
    process(members.ledger(GROUP), 0, 2)
    assert commit(members, 3) == []
    assert skipped(members, 3) == ["payments has committed 3 of orders-0, skipping 1-1"]


def test_a_position_of_a_deleted_topic_excuses_no_records_below_those_that_were_read_of_the_new_one() -> None:
    members = MemberChecker({})
    process(members.ledger(GROUP), *range(10))
    members.on_topic_deleted("orders", 0)
    process(members.ledger(GROUP), 0, 1, 4)
    assert commit(members, 9) == []
    process(members.ledger(GROUP), 9)
    assert skipped(members, 10) == ["payments has committed 10 of orders-0, skipping 2-3"]


async def test_commits_count_when_the_coordinator_accepts_them() -> None:
    harness = CheckerHarness()
    await harness.stabilize("anna")
    process(harness.checker.members.group_ledger(GROUP), 0, 1)
    harness.commit_as("anna", 2)
    await run_ready()
    assert harness.violated_sentences() == set()
    harness.commit_as("anna", 9)
    await run_ready()
    assert harness.violated_sentences() == {COMMIT_NOT_AHEAD, NO_RECORD_SKIPPED}


async def test_an_offset_that_is_set_from_outside_may_be_any() -> None:
    harness = CheckerHarness()
    await harness.start()
    process(harness.checker.members.group_ledger(GROUP), 0, 1)
    harness.submit(c.OffsetCommit(group_id=GROUP, at_ms=harness.now(), offsets=(c.RequestedOffset("orders", 0, 9),)))
    await run_ready()
    assert harness.violated_sentences() == set()
