"""Habits as text, and what a bad leader sends."""

import pytest

from regroup.members.faults import (
    Habit,
    Kind,
    Moment,
    When,
    doubling,
    duration_text,
    forgetting,
    parse_duration_ms,
    parse_habit,
)
from regroup.protocol.consumer.subscription import Assignment, TopicPartition, decode_assignment, encode_assignment
from regroup.protocol.messages.group import HeartbeatRequest, SyncGroupRequest, SyncGroupRequestAssignment

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


@pytest.mark.parametrize(
    ("text", "habit"),
    [
        ("crash", Habit(Kind.CRASH)),
        ("pause:20s", Habit(Kind.PAUSE, 20_000)),
        ("pause:20s@30s", Habit(Kind.PAUSE, 20_000, When(after_ms=30_000))),
        ("leave@after-elected", Habit(Kind.LEAVE, None, When(Moment.ELECTED))),
        ("slow-join:500ms@after-assigned+5s", Habit(Kind.SLOW_JOIN, 500, When(Moment.ASSIGNED, 5_000))),
        ("restart-as-stranger:1m", Habit(Kind.RESTART_AS_STRANGER, 60_000)),
        ("never-sync", Habit(Kind.NEVER_SYNC)),
    ],
)
def test_a_habit_is_read_and_written_the_same_way(text: str, habit: Habit) -> None:
    assert parse_habit(text) == habit
    assert str(habit) == text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("sleep", "there is no habit 'sleep'; known are crash, pause"),
        ("pause", "pause needs a time above 0, for example pause:20s"),
        ("pause:0s", "pause needs a time above 0"),
        ("pause:20", "'20' is no duration; write for example 500ms, 20s or 5m"),
        ("crash:20s", "crash takes no time; when it begins stands behind @"),
        ("crash@noon", "'noon' is no duration"),
        ("crash@after-lunch", "after-lunch never happens; known are after-started, after-joined"),
        ("crash@after-elected+", "'' is no duration"),
        ("", "there is no habit ''"),
    ],
)
def test_a_habit_that_cannot_be_read_says_what_is_possible(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=r".+") as raised:
        parse_habit(text)
    assert says in str(raised.value)


def test_what_happens_once_begins_after_ten_seconds_and_what_lasts_at_the_start() -> None:
    assert parse_habit("crash").begins == When(after_ms=10_000)
    assert parse_habit("slow-sync:1s").begins == When()


@pytest.mark.parametrize("milliseconds", [0, 1, 999, 1_000, 1_500, 60_000, 90_000, 3_600_000])
def test_durations_survive_being_written(milliseconds: int) -> None:
    assert parse_duration_ms(duration_text(milliseconds)) == milliseconds


def share(member_id: str, *partitions: TopicPartition) -> SyncGroupRequestAssignment:
    return SyncGroupRequestAssignment(member_id=member_id, assignment=encode_assignment(Assignment(3, partitions)))


def sync(*shares: SyncGroupRequestAssignment) -> SyncGroupRequest:
    return SyncGroupRequest(group_id="payments", generation_id=1, member_id="anna", assignments=list(shares))


def test_a_forgetful_leader_leaves_its_last_member_out() -> None:
    assert forgetting(sync(share("anna", ORDERS_0), share("ben", ORDERS_1))) == sync(share("anna", ORDERS_0))
    assert forgetting(sync()) == sync()


def test_a_doubling_leader_gives_one_partition_to_two_members() -> None:
    sent = doubling(sync(share("anna", ORDERS_0), share("ben", ORDERS_1)))
    assert isinstance(sent, SyncGroupRequest)
    given = [decode_assignment(each.assignment).partitions for each in sent.assignments]
    assert given == [(ORDERS_0,), (ORDERS_1, ORDERS_0)]


def test_a_doubling_leader_alone_has_nobody_to_double_for() -> None:
    alone = sync(share("anna", ORDERS_0))
    assert doubling(alone) is alone


def test_other_requests_are_left_alone() -> None:
    beat = HeartbeatRequest(group_id="payments", generation_id=1, member_id="anna")
    assert forgetting(beat) is beat
    assert doubling(beat) is beat
