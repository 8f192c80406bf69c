"""What well-behaved members may not do, told by hand: who reads what, how far commits go, and what is left out."""

from regroup.coordinator import commands as c
from regroup.coordinator.group import CommittedOffset
from regroup.lab.checker.member_invariants import (
    ANEW_MEANS_EMPTY,
    COOPERATIVE,
    NEVER_AHEAD,
    NO_TWO_READERS,
    NONE_SKIPPED,
    ONLY_ITS_OWN,
    Members,
)
from regroup.members.consumer.effects import (
    Change,
    Closed,
    JoinedGroup,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
)
from regroup.protocol.consumer.subscription import TopicPartition
from tests.lab.court import GROUP, Court, turns

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


class Company:
    """Anna and ben, both cooperative; `out` are the ids that a coordinator has thrown out."""

    def __init__(self, protocol: str = COOPERATIVE) -> None:
        self.out: dict[str, int] = {}
        self.members = Members(self.out)
        for name in ("anna", "ben"):
            self.members.joins(name, GROUP)
            self.tell(name, JoinedGroup(1, f"{name}-1", name == "anna", protocol))

    def tell(self, name: str, change: Change, at_ms: int = 0) -> list[str]:
        """The sentences that this breaks."""
        return [seen.sentence for seen in self.members.changed(name, change, at_ms)]


def test_a_partition_that_was_given_up_first_may_be_read_by_another() -> None:
    company = Company()
    assert company.tell("anna", PartitionsAssigned((ORDERS_0, ORDERS_1))) == []
    company.tell("anna", PartitionsRevoked((ORDERS_1,)))
    assert company.tell("ben", PartitionsAssigned((ORDERS_1,))) == []
    assert company.tell("ben", PartitionsAssigned((ORDERS_0,))) == [NO_TWO_READERS]


def test_whoever_was_expelled_and_has_not_heard_of_it_may_read_on() -> None:
    company = Company()
    company.tell("anna", PartitionsAssigned((ORDERS_0,)))
    company.out["anna-1"] = 1
    assert company.tell("ben", PartitionsAssigned((ORDERS_0,))) == []


def test_eager_members_are_not_held_to_it() -> None:
    company = Company("range")
    company.tell("anna", PartitionsAssigned((ORDERS_0,)))
    assert company.tell("ben", PartitionsAssigned((ORDERS_0,))) == []


def test_nor_is_anybody_who_misbehaves() -> None:
    company = Company()
    company.members.by_name["anna"].behaves = False
    company.tell("anna", PartitionsAssigned((ORDERS_0,)))
    assert company.tell("ben", PartitionsAssigned((ORDERS_0,))) == []


def test_a_member_that_died_or_closed_reads_nothing_any_more() -> None:
    company = Company()
    company.tell("anna", PartitionsAssigned((ORDERS_0,)))
    company.members.is_gone("anna", 5)
    assert company.tell("ben", PartitionsAssigned((ORDERS_0,))) == []
    company.tell("ben", Closed())
    assert company.tell("anna", PartitionsAssigned((ORDERS_0,))) == []
    company.members.is_gone("anna", 6)
    assert company.tell("anna", JoinedGroup(4, "anna-2", True, COOPERATIVE)) == []
    assert company.tell("ben", PartitionsAssigned((ORDERS_0,))) == []


def test_whoever_comes_under_a_new_id_has_lost_what_it_had() -> None:
    company = Company()
    company.tell("anna", PartitionsAssigned((ORDERS_0,)))
    assert company.tell("anna", JoinedGroup(2, "anna-1", True, COOPERATIVE)) == []
    assert company.tell("anna", JoinedGroup(4, "anna-2", True, COOPERATIVE)) == [ANEW_MEANS_EMPTY]
    assert company.tell("ben", PartitionsAssigned((ORDERS_0,))) == []


def test_a_record_that_is_processed_after_its_partition_was_given_up_is_seen() -> None:
    company = Company()
    company.tell("anna", PartitionsAssigned((ORDERS_0,)))
    assert list(company.members.reads("anna", ORDERS_0)) == []
    company.tell("anna", PartitionsRevoked((ORDERS_0,)))
    company.tell("ben", PartitionsAssigned((ORDERS_0,)))
    assert NO_TWO_READERS in [seen.sentence for seen in company.members.reads("anna", ORDERS_0)]
    assert list(company.members.reads("ben", ORDERS_0)) == []


def test_a_well_behaved_member_of_whatever_protocol_processes_only_what_it_owns() -> None:
    company = Company("range")
    company.tell("anna", PartitionsAssigned((ORDERS_0,)))
    company.members.by_name["ben"].behaves = False
    assert list(company.members.reads("anna", ORDERS_0)) == list(company.members.reads("ben", ORDERS_0)) == []
    company.tell("anna", PartitionsLost((ORDERS_0,)))
    assert [seen.sentence for seen in company.members.reads("anna", ORDERS_0)] == [ONLY_ITS_OWN]


async def test_a_members_own_ledger_writes_in_the_books_of_its_group() -> None:
    court = Court()
    court.judge.joins("anna", GROUP)
    own, books = court.judge.ledger(GROUP, "anna"), court.judge.ledger(GROUP)
    own.begins(ORDERS_0, 0)
    assert [own.processed(ORDERS_0, offset, 0, 0) for offset in (0, 0, 3)] == [True, False, True]
    own.holds_nothing(ORDERS_0, 1, 3)
    own.committed(ORDERS_0, 9)
    assert (books.tally.processed, books.tally.twice, books.tally.skipped) == (3, 1, 0)


def test_seconds_without_an_owner_begin_when_the_first_owner_goes() -> None:
    company = Company()
    company.tell("anna", PartitionsAssigned((ORDERS_0, ORDERS_1)), 1_000)
    company.tell("anna", PartitionsLost((ORDERS_0,)), 2_000)
    company.tell("ben", PartitionsAssigned((ORDERS_0,)), 5_000)
    company.tell("anna", PartitionsRevoked((ORDERS_1,)), 6_000)
    assert company.members.ownerless_s(8_000) == 3 + 2

    company.members.topic_vanished("orders", 9_000)
    assert company.members.ownerless_s(20_000) == 3 + 3


def processed(members: Members, *offsets: int, begins: int = 0) -> None:
    ledger = members.ledger(GROUP)
    ledger.begins(ORDERS_0, begins)
    for offset in offsets:
        ledger.processed(ORDERS_0, offset, 0, 0)


def commits(members: Members, offset: int) -> list[str]:
    return [seen.sentence for seen in members.commits(GROUP, ORDERS_0, offset)]


def skipped(members: Members, offset: int) -> list[str]:
    offsets = {"orders": {0: CommittedOffset(offset)}}
    return [seen.detail for seen in members.skipped(GROUP, offsets)]


def test_a_commit_behind_what_was_processed_is_fine_and_one_ahead_is_not() -> None:
    members = Members({})
    processed(members, 0, 1, 2)
    assert commits(members, 3) == []
    assert commits(members, 4) == [NEVER_AHEAD]


def test_a_position_that_was_only_found_may_be_committed() -> None:
    members = Members({})
    processed(members, begins=7)
    assert commits(members, 7) == []
    assert commits(members, 8) == [NEVER_AHEAD]


def test_a_record_that_nobody_processed_and_nobody_will_is_skipped() -> None:
    members = Members({})
    processed(members, 0, 1, 4)
    assert skipped(members, 2) == []
    assert skipped(members, 5) == ["payments stands at 5 of TopicPartition(topic='orders', partition=0), 2-3"]
    members.ledger(GROUP).holds_nothing(ORDERS_0, 2, 4)
    assert skipped(members, 5) == []


def test_what_an_operator_moved_the_group_over_is_not_skipped() -> None:
    members = Members({})
    processed(members, 0, 8)
    members.ledger(GROUP).excuse(ORDERS_0, 8)
    assert skipped(members, 9) == []


def test_a_topic_that_comes_back_begins_anew() -> None:
    members = Members({})
    processed(members, 0, 1, 2)
    members.topic_vanished("orders", 0)
    processed(members, 0)
    assert commits(members, 1) == []
    assert commits(members, 2) == [NEVER_AHEAD]


async def test_the_judge_hears_of_commits_from_the_coordinator_not_from_the_members() -> None:
    court = Court()
    await court.stable("anna")
    processed(court.judge.members, 0, 1)
    court.commit_as("anna", 2)
    await turns()
    assert court.broken() == set()
    court.commit_as("anna", 9)
    await turns()
    assert court.broken() == {NEVER_AHEAD, NONE_SKIPPED}


async def test_an_offset_that_is_set_from_outside_may_lie_anywhere() -> None:
    court = Court()
    await court.starts()
    processed(court.judge.members, 0, 1)
    court.asks(c.CommitOffsets(group_id=GROUP, at_ms=court.now(), offsets=(c.OffsetToCommit("orders", 0, 9),)))
    await turns()
    assert court.broken() == set()
