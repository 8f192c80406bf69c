"""What starts the session of a classic member again, when it is overdue, which deadlines come too early, and which
deadlines a coordinator may name."""

from typing import Any

import pytest
from msgspec.structs import replace

from regroup.coordinator import commands as c
from regroup.coordinator.consumer.commands import ConsumerGroupHeartbeat
from regroup.coordinator.group import AwaitedResponse, Group, GroupState, Member, MemberProfile, PendingJoinMember
from regroup.coordinator.responses import heartbeat_response
from regroup.coordinator.topics import NO_TOPICS
from regroup.lab.checker.classic.session_deadlines import wrong_session_deadline
from regroup.lab.checker.classic.sessions import (
    NEW_MEMBER_TIMEOUT_MS,
    ClassicSessions,
    early_deadline,
    restarted_by,
)
from regroup.protocol.errors import ErrorCode
from tests.lab.checker.made_exchanges import made_exchange

PROFILE = MemberProfile(session_timeout_ms=10_000, rebalance_timeout_ms=60_000, supported_protocols=())


def member(name: str, **fields: Any) -> Member:
    return Member(**{"member_id": name, "profile": PROFILE, **fields})


def group(*members: Member, **fields: Any) -> Group:
    by_id = {each.member_id: each for each in members}
    return Group(**{"group_id": "lab", "state": GroupState.STABLE, "generation_id": 2, "members": by_id, **fields})


ANNA, BEN = member("anna"), member("ben")
STABLE = group(ANNA, BEN)
SYNCING = replace(STABLE, state=GroupState.COMPLETING_REBALANCE)


def named(name: str = "anna", at_ms: int = 0, **fields: Any) -> dict[str, Any]:
    return {"group_id": "lab", "at_ms": at_ms, "member_id": name, "generation_id": 2, **fields}


def restarted(command: c.Command, before: Group, after: Group | None = None) -> list[str]:
    return sorted(restarted_by(command, before, after or before))


def commit(**fields: Any) -> c.OffsetCommit:
    return c.OffsetCommit(**named(**fields), offsets=())


def join(**fields: Any) -> c.JoinGroup:
    return c.JoinGroup(group_id="lab", at_ms=0, new_member_id="x", protocol_type="consumer", profile=PROFILE, **fields)


# -- what starts a session again


def test_an_accepted_heartbeat_or_commit_starts_the_session_of_its_member() -> None:
    assert restarted(c.Heartbeat(**named()), STABLE) == ["anna"]
    assert restarted(commit(), STABLE) == ["anna"]


def test_a_heartbeat_in_the_sync_phase_does_and_a_commit_does_not() -> None:
    assert restarted(c.Heartbeat(**named()), SYNCING) == ["anna"]
    assert restarted(commit(), SYNCING) == []


@pytest.mark.parametrize(
    "fields",
    [{"name": "carla"}, {"generation_id": 1}, {"group_instance_id": "anna-1"}],
    ids=["no member", "another generation", "another instance id"],
)
def test_a_request_that_is_refused_starts_no_session(fields: dict[str, Any]) -> None:
    assert restarted(c.Heartbeat(**named(**fields)), STABLE) == []
    assert restarted(commit(**fields), STABLE) == []


def test_a_transactional_commit_starts_no_session() -> None:
    assert restarted(c.TxnOffsetCommit(**named(), producer_id=5, offsets=()), STABLE) == []


def test_a_generation_and_a_load_start_the_sessions_of_all_members() -> None:
    before = replace(STABLE, state=GroupState.PREPARING_REBALANCE)
    after = replace(SYNCING, generation_id=3)
    assert restarted(join(), before, after) == ["anna", "ben"]
    assert restarted(join(), STABLE, replace(STABLE, generation_id=3)) == ["anna", "ben"]
    assert restarted(c.LoadGroup(group_id="lab", at_ms=0), STABLE) == ["anna", "ben"]


def test_an_answered_sync_starts_the_sessions_of_those_that_waited_and_of_the_one_that_asks() -> None:
    carla = member("carla")
    before = replace(group(ANNA, member("ben", awaiting=AwaitedResponse.SYNC), carla), state=SYNCING.state)
    sync = c.SyncGroup(**named())
    assert restarted(sync, before, group(ANNA, BEN, carla)) == ["anna", "ben"]
    assert restarted(c.CompleteAppend(group_id="lab", at_ms=0, append_number=1), before, group(ANNA, BEN)) == ["ben"]
    assert restarted(sync, before, before) == [], "it is held"
    assert restarted(sync, STABLE) == [], "it is answered at once in Stable"


def test_a_static_member_that_restarts_in_stable_has_a_new_session() -> None:
    static = replace(STABLE, static_members={"anna-1": "anna"})
    again = replace(group(member("anna-again"), BEN), static_members={"anna-1": "anna-again"})
    assert restarted(join(), static, again) == ["anna-again"]
    waits = replace(again, members=again.members | {"anna-again": member("anna-again", awaiting=AwaitedResponse.JOIN)})
    assert restarted(join(), static, waits) == []


def test_a_refused_upgrade_starts_the_sessions_of_those_it_has_refused_and_that_are_not_new() -> None:
    waits, new = {"awaiting": AwaitedResponse.JOIN}, member("carla", is_new=True)
    before, after = group(ANNA, member("ben", **waits), replace(new, **waits)), group(ANNA, BEN, new)
    joins = ConsumerGroupHeartbeat(group_id="lab", at_ms=0, member_id="dora", member_epoch=0, topics=NO_TOPICS)
    assert restarted(joins, before, after) == ["ben"]
    assert restarted(joins, before) == [], "it was refused before it could refuse others"


# -- what is overdue


def sessions(*handled: tuple[int, c.Command, Group, Group]) -> ClassicSessions:
    """The sessions after these commands, each with the time of the run's clock and the group before and after it."""
    known = ClassicSessions()
    for now_ms, command, before, after in handled:
        known.on_command(made_exchange(command, before, after), now_ms)
    return known


def overdue(known: ClassicSessions, present: Group, now_ms: int) -> list[str]:
    return list(known.overdue(present, now_ms, slack_ms=0))


def test_a_session_is_overdue_when_its_timeout_has_passed_since_its_last_start() -> None:
    known = sessions((1_000, c.Heartbeat(**named()), STABLE, STABLE))
    assert overdue(known, STABLE, 11_000) == []
    assert overdue(known, STABLE, 11_001) == ["the 10000 ms of anna began 10001 ms ago"]


def test_a_member_that_awaits_a_response_is_not_overdue() -> None:
    known = sessions((1_000, c.Heartbeat(**named()), STABLE, STABLE))
    assert overdue(known, group(member("anna", awaiting=AwaitedResponse.JOIN)), 60_000) == []


def test_a_new_member_is_overdue_after_five_minutes_even_if_its_join_is_held() -> None:
    after = group(member("carla", is_new=True, awaiting=AwaitedResponse.JOIN))
    known = sessions((1_000, join(), group(), after))
    assert overdue(known, after, 1_000 + NEW_MEMBER_TIMEOUT_MS) == []
    assert overdue(known, after, 1_001 + NEW_MEMBER_TIMEOUT_MS) == ["the 300000 ms of carla began 300001 ms ago"]


def test_a_load_in_the_moment_in_which_a_new_member_appears_leaves_it_its_five_minutes() -> None:
    after = group(member("carla", is_new=True))
    known = sessions((1_000, join(), group(), after), (1_000, c.LoadGroup(group_id="lab", at_ms=0), after, after))
    assert overdue(known, after, 1_000 + NEW_MEMBER_TIMEOUT_MS) == []
    known = sessions((1_000, join(), group(), after), (1_001, c.LoadGroup(group_id="lab", at_ms=0), after, after))
    assert overdue(known, after, 11_002) == ["the 10000 ms of carla began 10001 ms ago"]


def test_a_pending_member_id_is_overdue_after_the_session_timeout_that_it_has_named() -> None:
    after = group(pending_join_members={"carla": PendingJoinMember(6_000, 0)})
    known = sessions((1_000, join(), group(), after))
    assert overdue(known, after, 7_000) == []
    assert overdue(known, after, 7_001) == ["pending join member carla was added 6001 ms ago and has not joined"]


def test_a_member_with_the_id_of_a_removed_one_begins_anew() -> None:
    without = group(BEN)
    known = sessions(
        (1_000, c.Heartbeat(**named()), STABLE, STABLE),
        (5_000, c.LeaveGroup(group_id="lab", at_ms=0, members=()), STABLE, without),
        (9_000, join(), without, STABLE),
    )
    assert known.restart_of("lab", "anna") is None
    assert overdue(known, STABLE, 60_000) == []


# -- what comes too early


def deadline(kind: c.DeadlineKind, at_ms: int, name: str = "anna", **fields: Any) -> c.DeadlinePassed:
    return c.DeadlinePassed(group_id="lab", at_ms=at_ms, kind=kind, member_id=name, **fields)


def early(command: c.DeadlinePassed, before: Group, known: ClassicSessions | None = None) -> str | None:
    """What is wrong with a deadline that has removed all members."""
    return early_deadline(made_exchange(command, before, group()), known or ClassicSessions())


def seen_at(at_ms: int, present: Group = STABLE) -> ClassicSessions:
    return sessions((0, c.Heartbeat(**named(at_ms=at_ms)), present, present))


SESSION = c.DeadlineKind.SESSION


def test_a_session_that_expires_before_its_timeout_is_found() -> None:
    assert early(deadline(SESSION, 10_999, last_seen_ms=1_000), STABLE, seen_at(1_000)) == "anna was seen 9999 ms ago"
    assert early(deadline(SESSION, 11_000, last_seen_ms=1_000), STABLE, seen_at(1_000)) is None


def test_a_session_that_counts_from_another_time_than_its_last_start_is_found() -> None:
    found = early(deadline(SESSION, 20_000, last_seen_ms=1_000), STABLE, seen_at(5_000))
    assert found == "the session of anna counts from 19000 ms ago, and began 15000 ms ago"


def test_a_session_that_expires_while_a_response_is_held_is_found() -> None:
    waits = group(member("anna", awaiting=AwaitedResponse.JOIN))
    assert early(deadline(SESSION, 60_000, last_seen_ms=0), waits) == "anna awaits its join"
    new = group(member("anna", awaiting=AwaitedResponse.JOIN, is_new=True))
    assert early(deadline(SESSION, 60_000, last_seen_ms=0), new) is None


def test_a_replaced_process_has_the_timeout_of_its_former_one_until_it_is_seen() -> None:
    again = group(member("anna", replaced_at_ms=1_000, replaced_session_timeout_ms=30_000))
    assert early(deadline(SESSION, 30_999, last_seen_ms=1_000), again, seen_at(1_000, again))
    assert early(deadline(SESSION, 31_000, last_seen_ms=1_000), again, seen_at(1_000, again)) is None
    assert early(deadline(SESSION, 11_001, last_seen_ms=1_001), again, seen_at(1_001, again)) is None


def test_a_new_member_that_is_removed_before_its_five_minutes_is_found() -> None:
    kind, before = c.DeadlineKind.NEW_MEMBER_JOIN, group(member("anna", joined_at_ms=1_000))
    assert early(deadline(kind, 300_999), before) == "anna joined 299999 ms ago"
    assert early(deadline(kind, 301_000), before) is None


def test_a_pending_member_id_that_expires_before_its_timeout_is_found() -> None:
    before = group(pending_join_members={"anna": PendingJoinMember(6_000, 1_000)})
    assert early(deadline(c.DeadlineKind.PENDING_JOIN, 6_999), before) == "anna was given 5999 ms ago"
    assert early(deadline(c.DeadlineKind.PENDING_JOIN, 7_000), before) is None


def test_a_sync_phase_that_ends_early_is_found() -> None:
    before = replace(SYNCING, sync_deadline_ms=5_000)
    assert early(deadline(c.DeadlineKind.SYNC_PHASE, 4_000, ""), before) == "the sync phase had 1000 ms left"
    assert early(deadline(c.DeadlineKind.SYNC_PHASE, 5_000, ""), before) is None


def test_a_deadline_without_an_effect_and_one_of_nobody_are_in_order() -> None:
    command = deadline(SESSION, 1, last_seen_ms=0)
    assert early_deadline(made_exchange(command, STABLE, STABLE), seen_at(0)) is None
    assert early(deadline(SESSION, 1, "carla", last_seen_ms=0), STABLE) is None


# -- the deadlines that a coordinator names


def look(
    command: c.Command,
    present: Group = STABLE,
    *named: c.Deadline,
    known: ClassicSessions | None = None,
    number: int = 1,
    response: Any = None,
) -> str | None:
    """What is wrong with the deadlines that a coordinator names after a command that has left its group as it was."""
    exchange = made_exchange(command, present, present, response)
    exchange.exchange_number = number
    exchange.coordinator.refusal = None
    exchange.coordinator.group.return_value = present
    exchange.coordinator.deadlines.return_value = named
    return wrong_session_deadline(exchange, known or seen_at(1_000))


def ends(at_ms: int, name: str = "anna") -> c.Deadline:
    return c.Deadline(at_ms, SESSION, name, at_ms - PROFILE.session_timeout_ms)


REFUSED = commit(generation_id=1)


def test_a_session_whose_deadline_counts_from_a_request_that_was_refused_is_found() -> None:
    assert look(REFUSED, STABLE, ends(11_000)) is None
    assert look(REFUSED, STABLE, ends(13_000)) == "anna has the deadline 13000 ms, and its session ends at 11000 ms"


def test_a_session_without_a_deadline_and_one_that_runs_beside_a_held_request_are_found() -> None:
    assert look(REFUSED, STABLE, ends(11_000, "ben")) == "anna has a session that ends at 11000 ms, and no deadline"
    waits = group(member("anna", awaiting=AwaitedResponse.JOIN), BEN)
    assert look(REFUSED, waits, ends(11_000)) == "anna awaits its join, and its session has a deadline"
    assert look(REFUSED, waits) is None


def test_a_session_whose_start_is_not_known_and_that_of_a_new_member_have_any_deadline() -> None:
    assert look(REFUSED, STABLE, ends(11_000), ends(5, "ben")) is None
    assert look(REFUSED, group(member("anna", is_new=True)), ends(5)) is None


def test_deadlines_are_not_looked_at_after_an_accepted_heartbeat() -> None:
    wrong, beats = ends(13_000), c.Heartbeat(**named(at_ms=3_000))
    assert look(beats, STABLE, wrong, response=heartbeat_response()) is None
    assert look(beats, STABLE, wrong, response=heartbeat_response(ErrorCode.ILLEGAL_GENERATION))


def test_the_deadlines_of_a_group_that_has_changed_since_are_not_looked_at() -> None:
    exchange = made_exchange(REFUSED, STABLE)
    exchange.coordinator.refusal = None
    exchange.coordinator.deadlines.return_value = (ends(13_000),)
    exchange.coordinator.group.return_value = SYNCING
    assert wrong_session_deadline(exchange, seen_at(1_000)) is None


def test_the_deadlines_of_a_large_group_are_looked_at_after_some_commands() -> None:
    large = group(ANNA, *(member(f"member-{number}") for number in range(1, 24)))
    looks = [number for number in range(1, 9) if look(REFUSED, large, ends(13_000), number=number)]
    assert looks == [4, 8]
