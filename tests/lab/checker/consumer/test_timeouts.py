"""In a group of the consumer protocol a commit does not start the session timeout of its member again."""

import pytest

from regroup.coordinator import commands as c
from regroup.coordinator.consumer.commands import ConsumerGroupHeartbeat
from regroup.coordinator.consumer_group import ConsumerGroup, ConsumerMember, ConsumerProfile
from regroup.coordinator.group import Group, Member, MemberProfile
from regroup.coordinator.topics import NO_TOPICS
from regroup.lab.checker.consumer.timeouts import HeartbeatTimes, unstarted_session
from tests.lab.checker.made_exchanges import made_exchange

ANNA = ConsumerMember(member_id="anna", profile=ConsumerProfile())
GROUP = Group(group_id="lab", consumer=ConsumerGroup(members={"anna": ANNA}))
CLASSIC = Group(group_id="lab")


def after(times: HeartbeatTimes, command: c.Command, seen_ms: int, group: Group = GROUP) -> str | None:
    """What is found after a command, when the coordinator names a session of anna that began at this time."""
    exchange = made_exchange(command, group)
    deadline = c.Deadline(seen_ms + 10_000, c.DeadlineKind.SESSION, "anna", seen_ms)
    exchange.coordinator.deadlines.return_value = (deadline,)
    return times.on_command(exchange)


def commit(at_ms: int, name: str = "anna") -> c.OffsetCommit:
    return c.OffsetCommit(group_id="lab", at_ms=at_ms, member_id=name, generation_id=2, offsets=())


def heartbeat(at_ms: int) -> ConsumerGroupHeartbeat:
    return ConsumerGroupHeartbeat(group_id="lab", at_ms=at_ms, member_id="anna", member_epoch=2, topics=NO_TOPICS)


def test_a_commit_that_starts_the_session_again_is_found() -> None:
    times = HeartbeatTimes()
    assert after(times, heartbeat(1_000), 1_000) is None
    assert after(times, commit(3_000), 1_000) is None
    assert after(times, commit(3_000), 3_000) == "the session of anna began with its commit"


def test_a_commit_in_the_millisecond_of_a_heartbeat_is_in_order() -> None:
    times = HeartbeatTimes()
    after(times, heartbeat(3_000), 3_000)
    assert after(times, commit(3_000), 3_000) is None


def test_commits_of_others_and_in_classic_groups_are_not_looked_at() -> None:
    assert after(HeartbeatTimes(), commit(3_000, "ben"), 3_000) is None
    assert after(HeartbeatTimes(), commit(3_000), 3_000, CLASSIC) is None


def test_a_commit_in_the_millisecond_of_a_load_or_of_the_change_of_protocol_is_in_order() -> None:
    times = HeartbeatTimes()
    after(times, c.LoadGroup(group_id="lab", at_ms=3_000), 3_000)
    assert after(times, commit(3_000), 3_000) is None
    times = HeartbeatTimes()
    times.on_command(made_exchange(heartbeat(5_000), CLASSIC, GROUP))
    assert after(times, commit(5_000), 5_000) is None


PROFILE = MemberProfile(session_timeout_ms=1, rebalance_timeout_ms=1, supported_protocols=())
BEFORE_UPGRADE = Group(group_id="lab", members={"anna": Member(member_id="anna", profile=PROFILE)})


def after_upgrade(begun_ms: int, before: Group = BEFORE_UPGRADE, group: Group = GROUP) -> str | None:
    """What is found after the heartbeat of 5,000 ms if the session of anna began at this time."""
    exchange = made_exchange(heartbeat(5_000), before, group)
    exchange.coordinator.group.return_value, exchange.coordinator.refusal = group, None
    others = c.Deadline(9_000, c.DeadlineKind.CLASSIC_JOIN, "anna", 5_000)
    session = c.Deadline(begun_ms + 10_000, c.DeadlineKind.SESSION, "anna", begun_ms)
    exchange.coordinator.deadlines.return_value = (others, session)
    return unstarted_session(exchange)


def test_a_session_that_does_not_begin_with_the_upgrade_of_its_group_is_found() -> None:
    assert after_upgrade(5_000) is None
    assert after_upgrade(4_000) == "the session of anna began at 4000 ms, not at 5000"


@pytest.mark.parametrize(("before", "group"), [(GROUP, GROUP), (CLASSIC, GROUP), (BEFORE_UPGRADE, BEFORE_UPGRADE)])
def test_only_the_upgrade_of_a_group_with_members_starts_their_sessions(before: Group, group: Group) -> None:
    assert after_upgrade(4_000, before, group) is None


def test_the_sessions_of_a_coordinator_that_has_handled_another_command_since_are_not_looked_at() -> None:
    exchange = made_exchange(heartbeat(5_000), BEFORE_UPGRADE, GROUP)
    exchange.coordinator.group.return_value = CLASSIC
    assert unstarted_session(exchange) is None
