"""The witness sees every exchange of a real coordinator, and changes nothing of it."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from regroup.coordinator.group import State
from regroup.coordinator.runtime.group_coordinator import GroupCoordinator
from regroup.coordinator.runtime.kafka_log import SlowLog
from regroup.coordinator.runtime.pending_responses import Request, WaitingRoom
from regroup.lab.checker.coordinator_invariants import (
    a_load_finds_every_event,
    a_request_is_answered_once,
    acknowledged_offsets_survive,
    an_answer_stands_in_the_table,
    an_answer_tells_what_is_stored,
    assigned_shares_survive,
    the_stored_rows_add_up_to_the_live_group,
    what_an_answer_rests_on_is_durable,
    whoever_waits_is_answered,
)
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Structure
from regroup.protocol.messages.group import HeartbeatResponse
from regroup.storage.errors import StoreError
from tests.lab.court import Court, share, turns


def says(invariant: Callable[..., object]) -> str:
    return (invariant.__doc__ or "").partition("\n")[0]


async def test_a_group_that_lives_a_usual_life_breaks_nothing() -> None:
    court = Court()
    await court.stable("anna", "ben", "carla")
    for offset in (5, 9, 7):
        court.commit_as("anna", offset)
    court.beat("ben")
    court.leave("carla")
    await turns()
    assert court.beat("anna")[0].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    court.join("", member_id="anna")
    court.join("", member_id="ben")
    await turns()
    court.sync("anna", anna=share(0), ben=share(1))
    court.sync("ben")
    await turns()
    assert court.group.state is State.STABLE

    verdict = court.verdict
    assert verdict.broken == ()
    assert verdict.counts.rebalances == 2
    assert verdict.counts.offsets_went_back == 1
    assert verdict.counts.exchanges == 18


async def test_a_full_fold_of_the_store_gives_the_second_state() -> None:
    court = Court()
    await court.stable("anna", "ben")
    records = [record async for record in court.store.read()]

    assert court.judge.finish(records).broken == ()
    assert court.judge.finish(records[:-1]).sentences == ("A full fold of the store is what was folded row by row.",)


async def test_a_disk_that_fails_and_comes_back_loses_nothing_that_was_acknowledged() -> None:
    court = Court()
    await court.stable("anna")
    court.commit_as("anna", 3)
    await turns()
    court.store.is_full = True
    lost = court.commit_as("anna", 8)
    await turns()
    assert lost[0].topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    court.store.is_full = False
    court.journal.reopen(court.store)
    await court.starts()

    assert court.group.offsets["orders"][0].offset == 3
    assert court.broken() == set()


async def test_a_commit_that_was_stored_though_nobody_heard_is_no_loss() -> None:
    court = Court()
    await court.stable("anna")
    court.commit_as("anna", 3)
    await turns()
    court.store.gate.clear()
    court.commit_as("anna", 8)
    court.judge.crashed(court.coordinator)
    court.store.gate.set()
    court.coordinator = court.another_coordinator()
    await turns()
    await court.starts()

    assert court.group.offsets["orders"][0].offset == 8
    assert court.broken() == set()


async def test_a_slow_log_of_kafka_breaks_nothing() -> None:
    court = Court(SlowLog(latency_ms=50))
    await court.joined("anna", "ben")
    court.sync("ben")
    court.sync("anna", anna=share(0), ben=share(1))
    await asyncio.sleep(1)
    assert court.group.state is State.STABLE
    court.commit_as("anna", 3)
    court.commit_as("anna", 4)
    await asyncio.sleep(1)

    assert court.broken() == set()


async def test_a_resent_join_takes_the_place_of_the_one_before() -> None:
    court = Court()
    await court.stable("anna", "ben")
    first = court.join(member_id="anna", reason="again")
    second = court.join(member_id="anna")
    court.join(member_id="ben")
    await turns()

    assert (first, len(second)) == ([], 1)
    assert court.broken() == set()


async def test_a_parked_sync_of_a_member_that_leaves_is_never_answered() -> None:
    court = Court()
    await court.joined("anna", "ben")
    parked = court.sync("ben")
    court.leave("ben")
    await turns()

    assert parked == []
    assert court.broken() == set()


# Planted bugs


async def test_an_answer_before_its_event_is_durable_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def at_once(self: GroupCoordinator, name: str, request: Request, message: Structure) -> None:
        request.answering(message)

    monkeypatch.setattr(GroupCoordinator, "_send", at_once)
    court = Court()
    await court.stable("anna")

    assert {says(what_an_answer_rests_on_is_durable), says(an_answer_tells_what_is_stored)} <= court.broken()


async def test_a_parked_join_that_is_forgotten_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    keeps = WaitingRoom.keeps

    def forgets_ben(self: WaitingRoom, decision: Any, request: Request) -> bool:
        is_kept = keeps(self, decision, request)
        self._parked = {place: each for place, each in self._parked.items() if place[1][1] != "ben"}
        return is_kept

    monkeypatch.setattr(WaitingRoom, "keeps", forgets_ben)
    court = Court()
    await court.joined("anna", "ben")
    assert court.broken() == {says(whoever_waits_is_answered)}


async def test_an_answer_that_comes_twice_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    send = GroupCoordinator._send

    def twice(self: GroupCoordinator, name: str, request: Request, message: Structure) -> None:
        send(self, name, request, message)
        send(self, name, request, message)

    monkeypatch.setattr(GroupCoordinator, "_send", twice)
    court = Court()
    await court.joined("anna")

    assert court.broken() == {says(a_request_is_answered_once)}


async def test_an_event_that_is_folded_and_never_stored_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgets(self: GroupCoordinator, name: str, decision: Any, cause: object) -> bool:
        self._groups[name] = decision.group
        return True

    court = Court()
    await court.stable("anna")
    monkeypatch.setattr(GroupCoordinator, "_record", forgets)
    court.commit_as("anna", 3)

    expected = {says(an_answer_tells_what_is_stored), says(the_stored_rows_add_up_to_the_live_group)}
    assert court.broken() == expected


async def test_a_heartbeat_with_the_wrong_code_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    monkeypatch.setattr("regroup.coordinator.classic.heartbeat_leave.responses.beat", lambda code=0: wrong)
    court = Court()
    await court.stable("anna")
    court.beat("anna")

    assert court.broken() == {says(an_answer_stands_in_the_table)}


async def test_a_load_that_finds_less_than_was_stored_is_seen() -> None:
    court = Court()
    await court.stable("anna")
    court.commit_as("anna", 3)
    await turns()
    court.coordinator.stop()
    court.store.loses_the_last_row()
    with suppress(StoreError):  # the journal goes by what it has written, and so finds out
        await court.starts()

    assert {says(a_load_finds_every_event), says(acknowledged_offsets_survive)} <= court.broken()


async def test_a_load_that_forgets_shares_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    court = Court()
    await court.stable("anna", "ben")
    court.coordinator.stop()
    court.judge.known.promises.shares["payments"].shares["ben"] = share(7)
    await court.starts()

    assert court.broken() == {says(assigned_shares_survive)}
