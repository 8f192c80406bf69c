"""A coordinator waits neither too short a time nor too long, and for nobody who need not be waited for."""

import asyncio

import pytest
from msgspec.structs import replace

from regroup.coordinator import commands as c
from regroup.coordinator import events as e
from regroup.coordinator.classic import heartbeat_leave, rebalance, sync
from regroup.coordinator.decide import DECIDE
from regroup.coordinator.decision import Decision, Unfolding
from regroup.coordinator.group import Waiting
from regroup.coordinator.invariants import (
    sentence,
)
from regroup.coordinator.runtime.kafka_log import SlowLog
from regroup.coordinator.runtime.pending_responses import Request, WaitingRoom
from regroup.lab.checker import coordinator_invariants as of
from regroup.protocol.errors import ErrorCode
from tests.lab.court import GROUP, Court, share, turns

Plant = pytest.MonkeyPatch


async def passes_while_beating(court: Court, *names: str, seconds: int) -> None:
    for _ in range(seconds):
        for name in names:
            court.beat(name)
        await asyncio.sleep(1)


async def test_members_that_beat_stay_and_whoever_is_silent_goes() -> None:
    court = Court()
    await court.stable("anna", "ben")
    await passes_while_beating(court, "anna", seconds=15)
    court.join(member_id="anna")
    await passes_while_beating(court, seconds=1)

    assert list(court.group.members) == ["anna"]
    assert court.broken() == set()


async def test_a_heartbeat_that_does_not_count_is_seen(monkeypatch: Plant) -> None:
    monkeypatch.setitem(DECIDE, c.Heartbeat, lambda *asked: replace(heartbeat_leave.heartbeat(*asked), heard=()))
    court = Court()
    await court.stable("anna")
    await passes_while_beating(court, "anna", seconds=12)

    assert sentence(of.nobody_is_expelled_who_was_heard) in court.broken()


async def test_a_member_that_is_expelled_while_its_request_is_parked_is_seen() -> None:
    court = Court()
    await court.joined("anna", "ben")
    court.sync("ben")
    command = c.DeadlinePassed(group_id=GROUP, at_ms=court.now(), kind=c.DeadlineKind.SESSION, member="ben")
    court.coordinator.submit(command)

    assert court.broken() == {sentence(of.nobody_is_expelled_who_was_heard)}


async def static_ben_misses_a_join_phase(court: Court) -> None:
    await court.starts()
    usual = {"rebalance_timeout_ms": 5_000, "session_timeout_ms": 30_000}
    court.join("anna", group_instance_id="till-a", **usual)
    court.join("ben", group_instance_id="till-b", **usual)
    await asyncio.sleep(7)
    court.sync("anna", anna=share(0), ben=share(1))
    court.sync("ben")
    court.join(member_id="anna", group_instance_id="till-a", **usual)
    await asyncio.sleep(6)


async def test_a_static_member_that_is_not_back_in_time_stays() -> None:
    court = Court()
    await static_ben_misses_a_join_phase(court)

    assert (court.group.generation, set(court.group.members)) == (2, {"anna", "ben"})
    assert court.broken() == set()


async def test_the_end_of_a_join_phase_that_takes_a_static_member_out_is_seen(monkeypatch: Plant) -> None:
    def expels_everybody(now: Unfolding) -> None:
        for member in list(now.group.members.values()):
            if member.waiting is not Waiting.JOIN:
                rebalance.remove(now, member.member_id, e.MemberExpelled(at_ms=now.at_ms, member=member.member_id))

    monkeypatch.setattr(rebalance, "expel_silent_dynamic_members", expels_everybody)
    court = Court()
    await static_ben_misses_a_join_phase(court)

    assert sentence(of.a_join_phase_keeps_static_members) in court.broken()


async def test_a_silent_member_that_nobody_expels_is_seen(monkeypatch: Plant) -> None:
    monkeypatch.setattr("regroup.coordinator.classic.deadlines.of_member", lambda member, heard_ms: None)
    court = Court()
    await court.stable("anna")
    await asyncio.sleep(10)
    assert court.broken() == set()
    await asyncio.sleep(2)
    assert court.broken() == {sentence(of.no_deadline_is_overlooked)}


async def test_a_join_phase_that_does_not_end_is_seen(monkeypatch: Plant) -> None:
    court = Court()
    await court.starts()
    monkeypatch.setattr("regroup.coordinator.runtime.group_coordinator.next_deadline", lambda group, heard: None)
    court.join("anna")
    await asyncio.sleep(3)
    assert court.broken() == set()
    await asyncio.sleep(2)
    assert court.broken() == {sentence(of.no_deadline_is_overlooked)}


async def test_an_id_that_is_never_used_and_never_forgotten_is_seen(monkeypatch: Plant) -> None:
    court = Court()
    await court.starts()
    monkeypatch.setattr("regroup.coordinator.runtime.group_coordinator.next_deadline", lambda group, heard: None)
    answers = court.join("anna", can_be_asked_to_return=True)
    await turns()
    assert answers[0].error_code == ErrorCode.MEMBER_ID_REQUIRED
    await asyncio.sleep(12)
    assert court.broken() == {sentence(of.no_deadline_is_overlooked)}


async def test_after_a_load_everybody_has_a_fresh_session() -> None:
    court = Court()
    await court.stable("anna")
    await passes_while_beating(court, "anna", seconds=8)
    court.coordinator.stop()
    await asyncio.sleep(20)
    await court.starts()
    await asyncio.sleep(9)
    assert list(court.group.members) == ["anna"]
    await asyncio.sleep(2)

    assert list(court.group.members) == []
    assert court.broken() == set()


# Kafka's own log


async def test_shares_that_leave_before_kafkas_log_has_them_are_seen(monkeypatch: Plant) -> None:
    assign = sync.assign

    def at_once(now: sync.Unfolding, settings: sync.Settings, command: c.SyncGroup) -> None:
        assign(now, settings, command)
        sync.commit_assignment(now)

    court = Court(SlowLog(latency_ms=500))
    await court.joined("anna")
    await asyncio.sleep(1)
    monkeypatch.setattr(sync, "assign", at_once)
    court.sync("anna", anna=share(0))
    await turns()

    assert sentence(of.kafkas_log_is_waited_for) in court.broken()


async def test_a_commit_that_is_acknowledged_before_kafkas_log_has_it_is_seen(monkeypatch: Plant) -> None:
    court = Court(SlowLog(latency_ms=500))
    await court.starts()
    keeps = WaitingRoom.keeps

    def never_behind(self: WaitingRoom, decision: Decision, request: Request) -> bool:
        return keeps(self, replace(decision, behind=None), request)

    monkeypatch.setattr(WaitingRoom, "keeps", never_behind)
    court.commit(3)
    await turns()

    assert sentence(of.kafkas_log_is_waited_for) in court.broken()
