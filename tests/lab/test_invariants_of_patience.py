"""A coordinator waits neither too short a time nor too long, and for nobody who need not be waited for."""

import asyncio

import pytest
from msgspec.structs import replace

from regroup.coordinator import commands as c
from regroup.coordinator import events as e
from regroup.coordinator import membership, phases, syncing
from regroup.coordinator.decide import DECIDE
from regroup.coordinator.decision import Unfolding
from regroup.coordinator.group import Group, JoinPhase, Member, Protocol, State, Waiting
from regroup.coordinator.invariants import (
    a_generation_has_joined,
    a_phase_lasts_as_long_as_its_members_allow,
    broken_by_step,
    generations_grow,
    sentence,
)
from regroup.coordinator.kafka_log import SlowLog
from regroup.coordinator.waiting_room import Request, WaitingRoom
from regroup.lab import coordinator_invariants as of
from regroup.protocol.errors import ErrorCode
from regroup.tests.lab.court import GROUP, Court, share, turns

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
    monkeypatch.setitem(DECIDE, c.Heartbeat, lambda *asked: replace(membership.heartbeat(*asked), heard=()))
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
                phases.remove(now, member.member_id, e.MemberExpelled(at_ms=now.at_ms, member=member.member_id))

    monkeypatch.setattr(phases, "expel_silent_dynamic_members", expels_everybody)
    court = Court()
    await static_ben_misses_a_join_phase(court)

    assert sentence(of.a_join_phase_keeps_static_members) in court.broken()


async def test_a_silent_member_that_nobody_expels_is_seen(monkeypatch: Plant) -> None:
    monkeypatch.setattr("regroup.coordinator.deadlines.of_member", lambda member, heard_ms: None)
    court = Court()
    await court.stable("anna")
    await asyncio.sleep(10)
    assert court.broken() == set()
    await asyncio.sleep(2)
    assert court.broken() == {sentence(of.no_deadline_is_overlooked)}


async def test_a_join_phase_that_does_not_end_is_seen(monkeypatch: Plant) -> None:
    court = Court()
    await court.starts()
    monkeypatch.setattr("regroup.coordinator.coordinator.next_deadline", lambda group, heard: None)
    court.join("anna")
    await asyncio.sleep(3)
    assert court.broken() == set()
    await asyncio.sleep(2)
    assert court.broken() == {sentence(of.no_deadline_is_overlooked)}


async def test_an_id_that_is_never_used_and_never_forgotten_is_seen(monkeypatch: Plant) -> None:
    court = Court()
    await court.starts()
    monkeypatch.setattr("regroup.coordinator.coordinator.next_deadline", lambda group, heard: None)
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
    assign = syncing.assign

    def at_once(now: syncing.Unfolding, settings: syncing.Settings, command: c.SyncGroup) -> None:
        assign(now, settings, command)
        syncing.commit_assignment(now)

    court = Court(SlowLog(latency_ms=500))
    await court.joined("anna")
    await asyncio.sleep(1)
    monkeypatch.setattr(syncing, "assign", at_once)
    court.sync("anna", anna=share(0))
    await turns()

    assert sentence(of.kafkas_log_is_waited_for) in court.broken()


async def test_a_commit_that_is_acknowledged_before_kafkas_log_has_it_is_seen(monkeypatch: Plant) -> None:
    court = Court(SlowLog(latency_ms=500))
    await court.starts()
    keeps = WaitingRoom.keeps

    def never_behind(self: WaitingRoom, decision: object, request: Request) -> bool:
        return keeps(self, replace(decision, behind=None), request)  # type: ignore[type-var, arg-type]

    monkeypatch.setattr(WaitingRoom, "keeps", never_behind)
    court.commit(3)
    await turns()

    assert sentence(of.kafkas_log_is_waited_for) in court.broken()


# What the rows say


def preparing(**waiting: Waiting | None) -> Group:
    members = {
        name: Member(
            member_id=name,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            protocols=(Protocol("range"),),
            waiting=kind,
        )
        for name, kind in waiting.items()
    }
    return Group(name=GROUP, state=State.PREPARING, generation=3, members=members, leader="anna")


def started(generation: int = 4, sync_deadline_ms: int = 60_001) -> e.GenerationStarted:
    return e.GenerationStarted(
        at_ms=1,
        generation=generation,
        protocol_name="range",
        leader="anna",
        subscribed_topics=(),
        sync_deadline_ms=sync_deadline_ms,
    )


def broken(before: Group, event: e.Event, **after: object) -> list[str]:
    changed = replace(before, number=before.number + 1, **after)
    return broken_by_step(before, event, changed)


def test_a_dynamic_member_in_a_generation_that_it_did_not_join_is_found() -> None:
    before = preparing(anna=Waiting.JOIN, ben=None)
    after = {"state": State.COMPLETING, "generation": 4}
    assert broken(before, started(), **after) == [sentence(a_generation_has_joined)]
    static = replace(before.members["ben"], instance_id="till")
    assert broken(replace(before, members=before.members | {"ben": static}), started(), **after) == []


def test_a_generation_that_does_not_grow_at_the_end_of_a_join_phase_is_found() -> None:
    before = preparing()
    emptied = e.GroupEmptied(at_ms=1, generation=3)
    assert broken(before, emptied, state=State.EMPTY) == [sentence(generations_grow)]
    assert broken(before, e.MemberIdForgotten(at_ms=1, member="zoe"), generation=4) == [sentence(generations_grow)]


@pytest.mark.parametrize(
    ("event", "is_sound"),
    [
        (e.RebalanceStarted(at_ms=1, deadline_ms=60_001), True),
        (e.RebalanceStarted(at_ms=1, deadline_ms=90_001), False),
        (e.RebalanceStarted(at_ms=1, deadline_ms=3_001, initial=True, delay_ms=3_000), True),
        (e.RebalanceStarted(at_ms=1, deadline_ms=1, initial=True), True),
        (e.RebalanceStarted(at_ms=1, deadline_ms=2_001, delay_ms=2_000), False),
        (e.JoinPhaseProlonged(at_ms=1, deadline_ms=2_001, delay_ms=2_000), False),
        (e.JoinPhaseProlonged(at_ms=1, deadline_ms=60_001), True),
        (e.JoinPhaseProlonged(at_ms=1, deadline_ms=1), False),
    ],
)
def test_a_phase_that_lasts_too_long_or_too_short_is_found(event: e.Event, is_sound: bool) -> None:
    expected = [] if is_sound else [sentence(a_phase_lasts_as_long_as_its_members_allow)]
    assert broken(preparing(anna=Waiting.JOIN), event) == expected


def test_an_initial_delay_of_no_time_is_drawn_out_by_no_time() -> None:
    before = replace(preparing(anna=Waiting.JOIN), join_phase=JoinPhase(deadline_ms=1, initial=True))
    assert broken(before, e.JoinPhaseProlonged(at_ms=1, deadline_ms=1)) == []


@pytest.mark.parametrize("delay_ms", [0, 2_000])
def test_an_initial_phase_may_be_drawn_out_by_the_delay_even_if_that_is_0(delay_ms: int) -> None:
    group = replace(preparing(anna=Waiting.JOIN), join_phase=JoinPhase(0, initial=True, delay_ms=delay_ms))
    assert broken(group, e.JoinPhaseProlonged(at_ms=1, deadline_ms=1 + delay_ms, delay_ms=delay_ms)) == []


def test_a_sync_phase_that_lasts_too_long_is_found() -> None:
    before = preparing(anna=Waiting.JOIN)
    after = {"state": State.COMPLETING, "generation": 4}
    expected = [sentence(a_phase_lasts_as_long_as_its_members_allow)]
    assert broken(before, started(sync_deadline_ms=99_999), **after) == expected
