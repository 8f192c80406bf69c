"""The checker sees every exchange of a real coordinator, without any effect on it."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from regroup.coordinator import commands as c
from regroup.coordinator.group import Group, GroupState
from regroup.coordinator.invariants import invariant_sentence
from regroup.coordinator.runtime.group_coordinator import GroupCoordinator
from regroup.coordinator.runtime.kafka_log import DelayedLog
from regroup.coordinator.runtime.pending_responses import PendingRequest, PendingResponses
from regroup.lab.checker.coordinator_invariants import (
    a_request_has_at_most_one_response,
    a_response_agrees_with_the_store,
    a_response_is_in_the_response_table,
    a_response_waits_until_its_events_are_durable,
    an_open_request_gets_its_response,
)
from regroup.lab.checker.store.comparison import FULL_REPLAY
from regroup.lab.checker.store.store_invariants import (
    a_load_finds_every_event,
    acknowledged_assignments_survive,
    acknowledged_offsets_survive,
    the_shadow_group_equals_the_live_group,
)
from regroup.protocol.errors import ErrorCode
from regroup.protocol.message import Structure
from regroup.protocol.messages.group import HeartbeatResponse
from regroup.storage.errors import StoreError
from tests.lab.checker.checker_harness import GROUP, CheckerHarness, assignment_of, run_ready


async def test_a_correct_group_has_no_violations() -> None:
    harness = CheckerHarness()
    await harness.stabilize("anna", "ben", "carla")
    for offset in (5, 9, 7):
        harness.commit_as("anna", offset)
    harness.heartbeat("ben")
    harness.leave("carla")
    await run_ready()
    assert harness.heartbeat("anna")[0].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    harness.join("", member_id="anna")
    harness.join("", member_id="ben")
    await run_ready()
    harness.sync("anna", anna=assignment_of(0), ben=assignment_of(1))
    harness.sync("ben")
    await run_ready()
    assert harness.group.state is GroupState.STABLE

    verdict = harness.verdict
    assert verdict.violations == ()
    assert verdict.counts.rebalances == 2
    assert verdict.counts.offsets_went_back == 1
    assert verdict.counts.exchanges == 18


async def test_a_full_replay_of_the_store_gives_the_shadow_state() -> None:
    harness = CheckerHarness()
    await harness.stabilize("anna", "ben")
    records = [record async for record in harness.store.read()]

    assert harness.checker.finish(records).violations == ()
    assert harness.checker.finish(records[:-1]).sentences == (FULL_REPLAY,)


async def test_a_disk_that_fails_for_a_while_loses_no_acknowledged_offset() -> None:
    harness = CheckerHarness()
    await harness.stabilize("anna")
    harness.commit_as("anna", 3)
    await run_ready()
    harness.store.is_full = True
    lost = harness.commit_as("anna", 8)
    await run_ready()
    assert lost[0].topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    harness.store.is_full = False
    harness.journal.reopen(harness.store)
    await harness.start()

    assert harness.group.committed_offsets["orders"][0].offset == 3
    assert harness.violated_sentences() == set()


async def test_a_commit_that_was_stored_without_a_response_is_no_violation() -> None:
    harness = CheckerHarness()
    await harness.stabilize("anna")
    harness.commit_as("anna", 3)
    await run_ready()
    harness.store.gate.clear()
    harness.commit_as("anna", 8)
    harness.checker.on_coordinator_crash(harness.coordinator)
    harness.store.gate.set()
    harness.coordinator = harness.make_coordinator()
    await run_ready()
    await harness.start()

    assert harness.group.committed_offsets["orders"][0].offset == 8
    assert harness.violated_sentences() == set()


async def test_a_delayed_kafka_log_is_no_violation() -> None:
    harness = CheckerHarness(DelayedLog(latency_ms=50))
    await harness.complete_join_phase("anna", "ben")
    harness.sync("ben")
    harness.sync("anna", anna=assignment_of(0), ben=assignment_of(1))
    await asyncio.sleep(1)
    assert harness.group.state is GroupState.STABLE
    harness.commit_as("anna", 3)
    harness.commit_as("anna", 4)
    await asyncio.sleep(1)

    assert harness.violated_sentences() == set()


async def test_an_offset_that_is_deleted_with_its_topic_before_its_commit_is_answered_is_not_missed() -> None:
    harness = CheckerHarness(DelayedLog(latency_ms=50))
    await harness.complete_join_phase("anna")
    harness.sync("anna", anna=assignment_of(0))
    await asyncio.sleep(1)
    responses = harness.commit_as("anna", 3)
    harness.coordinator.submit(c.DeleteTopicOffsets(group_id="payments", at_ms=harness.now(), topic="orders"))
    await asyncio.sleep(1)

    assert len(responses) == 1
    assert harness.violated_sentences() == set()
    assert harness.checker.state.acknowledgements.deleted_offsets == {}


async def test_a_join_that_is_sent_again_supersedes_the_first() -> None:
    harness = CheckerHarness()
    await harness.stabilize("anna", "ben")
    first = harness.join(member_id="anna", reason="again")
    second = harness.join(member_id="anna")
    harness.join(member_id="ben")
    await run_ready()

    assert (first, len(second)) == ([], 1)
    assert harness.violated_sentences() == set()


async def test_a_held_sync_of_a_member_that_leaves_gets_no_response() -> None:
    harness = CheckerHarness()
    await harness.complete_join_phase("anna", "ben")
    held = harness.sync("ben")
    harness.leave("ben")
    await run_ready()

    assert held == []
    assert harness.violated_sentences() == set()


async def test_a_repeated_heartbeat_may_be_answered_before_a_commit_of_offsets_is_durable() -> None:
    harness = CheckerHarness()
    await harness.stabilize("anna")
    heartbeat = c.Heartbeat(group_id=GROUP, at_ms=harness.now(), member_id="anna", generation_id=1)
    accept_again = harness.coordinator.heartbeat_revalidator(heartbeat)
    harness.store.gate.clear()
    committed = harness.commit_as("anna", 3)

    assert (accept_again(), committed) == (True, [])
    assert harness.violated_sentences() == set()


# -- planted bugs


async def test_a_repeated_heartbeat_that_is_answered_before_a_new_member_is_durable_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Group, "has_only_other_offsets_than", lambda self, other: True)
    harness = CheckerHarness()
    await harness.stabilize("anna")
    heartbeat = c.Heartbeat(group_id=GROUP, at_ms=harness.now(), member_id="anna", generation_id=1)
    accept_again = harness.coordinator.heartbeat_revalidator(heartbeat)
    harness.store.gate.clear()
    harness.join("ben")

    assert accept_again()
    assert invariant_sentence(a_response_agrees_with_the_store) in harness.violated_sentences()


async def test_a_response_before_its_event_is_durable_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def at_once(self: GroupCoordinator, request: PendingRequest, response: Structure) -> None:
        request.on_response(response)

    monkeypatch.setattr(GroupCoordinator, "_send", at_once)
    harness = CheckerHarness()
    await harness.stabilize("anna")

    assert {
        invariant_sentence(a_response_waits_until_its_events_are_durable),
        invariant_sentence(a_response_agrees_with_the_store),
    } <= harness.violated_sentences()


async def test_a_held_join_that_is_forgotten_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    hold = PendingResponses.hold

    def forget_ben(self: PendingResponses, decision: Any, request: PendingRequest) -> bool:
        is_held = hold(self, decision, request)
        self._held = {key: each for key, each in self._held.items() if key[1][1] != "ben"}
        return is_held

    monkeypatch.setattr(PendingResponses, "hold", forget_ben)
    harness = CheckerHarness()
    await harness.complete_join_phase("anna", "ben")
    assert harness.violated_sentences() == {invariant_sentence(an_open_request_gets_its_response)}


async def test_a_second_response_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    send = GroupCoordinator._send

    def twice(self: GroupCoordinator, request: PendingRequest, response: Structure) -> None:
        send(self, request, response)
        send(self, request, response)

    monkeypatch.setattr(GroupCoordinator, "_send", twice)
    harness = CheckerHarness()
    await harness.complete_join_phase("anna")

    assert harness.violated_sentences() == {invariant_sentence(a_request_has_at_most_one_response)}


async def test_an_event_that_is_applied_and_never_stored_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget(self: GroupCoordinator, decision: Any, cause: object) -> bool:
        self._groups[decision.group.group_id] = decision.group
        return True

    harness = CheckerHarness()
    await harness.stabilize("anna")
    monkeypatch.setattr(GroupCoordinator, "_record", forget)
    harness.commit_as("anna", 3)

    expected = {
        invariant_sentence(a_response_agrees_with_the_store),
        invariant_sentence(the_shadow_group_equals_the_live_group),
    }
    assert harness.violated_sentences() == expected


async def test_a_heartbeat_response_with_the_wrong_code_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    monkeypatch.setattr(
        "regroup.coordinator.classic.heartbeat_leave.responses.heartbeat_response", lambda code=0: wrong
    )
    harness = CheckerHarness()
    await harness.stabilize("anna")
    harness.heartbeat("anna")

    assert harness.violated_sentences() == {invariant_sentence(a_response_is_in_the_response_table)}


async def test_a_load_that_finds_less_than_was_stored_is_found() -> None:
    harness = CheckerHarness()
    await harness.stabilize("anna")
    harness.commit_as("anna", 3)
    await run_ready()
    harness.coordinator.stop()
    harness.store.drop_last_record()
    with suppress(StoreError):  # the journal goes by what it has written, and so finds out
        await harness.start()

    assert {
        invariant_sentence(a_load_finds_every_event),
        invariant_sentence(acknowledged_offsets_survive),
    } <= harness.violated_sentences()


async def test_a_load_that_forgets_assignments_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = CheckerHarness()
    await harness.stabilize("anna", "ben")
    harness.coordinator.stop()
    harness.checker.state.acknowledgements.assignments["payments"].assignments["ben"] = assignment_of(7)
    await harness.start()

    assert harness.violated_sentences() == {invariant_sentence(acknowledged_assignments_survive)}
