"""A coordinator waits neither too short nor too long, and only for what it must wait for."""

import asyncio

import pytest
from msgspec.structs import replace

from regroup.coordinator import commands as c
from regroup.coordinator.classic import heartbeat_leave, rebalance, sync
from regroup.coordinator.decide import HANDLERS
from regroup.coordinator.decision import Decision, DecisionBuilder
from regroup.coordinator.group import AwaitedResponse, Group
from regroup.coordinator.invariants import invariant_sentence
from regroup.coordinator.runtime.kafka_log import DelayedLog
from regroup.coordinator.runtime.pending_responses import PendingRequest, PendingResponses
from regroup.lab.checker import coordinator_invariants as invariants
from regroup.lab.checker.timeouts import TimeoutChecker
from regroup.protocol.errors import ErrorCode
from tests.lab.checker.checker_harness import GROUP, CheckerHarness, assignment_of, run_ready


async def pass_time_with_heartbeats(harness: CheckerHarness, *names: str, seconds: int) -> None:
    for _ in range(seconds):
        for name in names:
            harness.heartbeat(name)
        await asyncio.sleep(1)


async def test_members_that_send_heartbeats_stay_and_others_are_removed() -> None:
    harness = CheckerHarness()
    await harness.stabilize("anna", "ben")
    await pass_time_with_heartbeats(harness, "anna", seconds=15)
    harness.join(member_id="anna")
    await pass_time_with_heartbeats(harness, seconds=1)

    assert list(harness.group.members) == ["anna"]
    assert harness.violated_sentences() == set()


async def test_a_heartbeat_that_does_not_renew_the_session_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        HANDLERS, c.Heartbeat, lambda *arguments: replace(heartbeat_leave.heartbeat(*arguments), touched_sessions=())
    )
    harness = CheckerHarness()
    await harness.stabilize("anna")
    await pass_time_with_heartbeats(harness, "anna", seconds=12)

    assert invariant_sentence(invariants.an_active_session_does_not_expire) in harness.violated_sentences()


async def test_a_session_that_expires_while_a_request_is_held_is_found() -> None:
    harness = CheckerHarness()
    await harness.complete_join_phase("anna", "ben")
    harness.sync("ben")
    command = c.DeadlinePassed(group_id=GROUP, at_ms=harness.now(), kind=c.DeadlineKind.SESSION, member_id="ben")
    harness.coordinator.submit(command)

    assert harness.violated_sentences() == {invariant_sentence(invariants.an_active_session_does_not_expire)}


async def let_static_ben_miss_a_join_phase(harness: CheckerHarness) -> None:
    await harness.start()
    timeouts = {"rebalance_timeout_ms": 5_000, "session_timeout_ms": 30_000}
    harness.join("anna", instance_id="anna-1", **timeouts)
    harness.join("ben", instance_id="ben-1", **timeouts)
    await asyncio.sleep(7)
    harness.sync("anna", anna=assignment_of(0), ben=assignment_of(1))
    harness.sync("ben")
    harness.join(member_id="anna", instance_id="anna-1", **timeouts)
    await asyncio.sleep(6)


async def test_a_static_member_that_does_not_join_in_time_stays() -> None:
    harness = CheckerHarness()
    await let_static_ben_miss_a_join_phase(harness)

    assert (harness.group.generation_id, set(harness.group.members)) == (2, {"anna", "ben"})
    assert harness.violated_sentences() == set()


async def test_a_join_phase_that_removes_a_static_member_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def remove_all_members(decision: DecisionBuilder) -> None:
        for member in list(decision.group.members.values()):
            if member.awaiting is not AwaitedResponse.JOIN:
                rebalance.remove_member(decision, member.member_id, reason="")

    monkeypatch.setattr(rebalance, "remove_dynamic_members_not_joined", remove_all_members)
    harness = CheckerHarness()
    await let_static_ben_miss_a_join_phase(harness)

    assert invariant_sentence(invariants.a_join_phase_keeps_static_members) in harness.violated_sentences()


async def test_a_session_that_does_not_expire_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = CheckerHarness()
    await harness.stabilize("anna")
    monkeypatch.setattr("regroup.coordinator.runtime.group_coordinator.next_deadline", lambda group, last_seen_ms: None)
    await asyncio.sleep(10)
    assert harness.violated_sentences() == set()
    await asyncio.sleep(2)
    assert harness.violated_sentences() == {invariant_sentence(invariants.no_deadline_is_missed)}


async def test_a_session_that_should_have_expired_is_found_by_requests_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    harness = CheckerHarness()
    await harness.stabilize("anna", "ben")
    monkeypatch.setattr("regroup.coordinator.runtime.group_coordinator.next_deadline", lambda group, last_seen_ms: None)
    await pass_time_with_heartbeats(harness, "anna", seconds=13)
    harness.heartbeat("ben")  # at the end of the run nothing is missed
    assert harness.violated_sentences() == {invariant_sentence(invariants.no_deadline_is_missed)}


def test_groups_are_looked_at_once_a_second_and_before_each_generation() -> None:
    timeouts = TimeoutChecker(session_timeout_ms=45_000)
    group, next_generation, other = (Group(group_id=each, generation_id=2) for each in ("lab", "lab", "other"))
    next_generation = replace(next_generation, generation_id=3)
    assert timeouts.begin_look(group, group, 5_000)
    assert timeouts.begin_look(other, other, 5_000)
    assert not timeouts.begin_look(group, group, 5_999)
    assert timeouts.begin_look(group, next_generation, 5_999)
    assert not timeouts.begin_look(next_generation, next_generation, 6_998)
    assert timeouts.begin_look(next_generation, next_generation, 6_999)


async def test_a_join_phase_that_does_not_end_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = CheckerHarness()
    await harness.start()
    monkeypatch.setattr("regroup.coordinator.runtime.group_coordinator.next_deadline", lambda group, last_seen_ms: None)
    harness.join("anna")
    await asyncio.sleep(3)
    assert harness.violated_sentences() == set()
    await asyncio.sleep(2)
    assert harness.violated_sentences() == {invariant_sentence(invariants.no_deadline_is_missed)}


async def test_a_pending_join_member_that_does_not_expire_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = CheckerHarness()
    await harness.start()
    monkeypatch.setattr("regroup.coordinator.runtime.group_coordinator.next_deadline", lambda group, last_seen_ms: None)
    responses = harness.join("anna", supports_member_id_required=True)
    await run_ready()
    assert responses[0].error_code == ErrorCode.MEMBER_ID_REQUIRED
    await asyncio.sleep(12)
    assert harness.violated_sentences() == {invariant_sentence(invariants.no_deadline_is_missed)}


async def test_after_a_load_every_member_has_a_new_session() -> None:
    harness = CheckerHarness()
    await harness.stabilize("anna")
    await pass_time_with_heartbeats(harness, "anna", seconds=8)
    harness.coordinator.stop()
    await asyncio.sleep(20)
    await harness.start()
    await asyncio.sleep(9)
    assert list(harness.group.members) == ["anna"]
    await asyncio.sleep(2)

    assert list(harness.group.members) == []
    assert harness.violated_sentences() == set()


# -- Kafka's own log


async def test_assignments_that_are_sent_before_the_kafka_log_commits_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_assignments = sync.write_assignments

    def commit_at_once(decision: DecisionBuilder, command: c.SyncGroup) -> None:
        write_assignments(decision, command)
        sync.commit_assignments(decision)

    harness = CheckerHarness(DelayedLog(latency_ms=500))
    await harness.complete_join_phase("anna")
    await asyncio.sleep(1)
    monkeypatch.setattr(sync, "write_assignments", commit_at_once)
    harness.sync("anna", anna=assignment_of(0))
    await run_ready()

    assert invariant_sentence(invariants.a_response_waits_for_the_kafka_log) in harness.violated_sentences()


async def test_a_commit_that_is_acknowledged_before_the_kafka_log_commits_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    harness = CheckerHarness(DelayedLog(latency_ms=500))
    await harness.start()
    hold = PendingResponses.hold

    def ignore_append(self: PendingResponses, decision: Decision, request: PendingRequest) -> bool:
        return hold(self, replace(decision, after_append=None), request)

    monkeypatch.setattr(PendingResponses, "hold", ignore_append)
    harness.commit(3)
    await run_ready()

    assert invariant_sentence(invariants.a_response_waits_for_the_kafka_log) in harness.violated_sentences()
