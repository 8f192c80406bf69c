"""A run depends on its plan alone: the same plan, the same history; and what goes wrong in it is reported."""

import os
import subprocess
import sys
from functools import cache, partial
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from regroup.lab.plan.plan import MemberPlan, PlannedStep, SimulationPlan
from regroup.lab.plan.step_sentences import parse_step
from regroup.lab.plan.steps import (
    ALL_HOSTS,
    BrokersCrash,
    Crashes,
    DiskFull,
    Joins,
    PowerFails,
    RequestLost,
    ResponseLost,
    SlowKafkaLog,
)
from regroup.lab.plan.triggers import StepTrigger, parse_trigger
from regroup.lab.simulation import virtual_clock
from regroup.lab.simulation.recovery import RECOVERY_INVARIANT, end_faults
from regroup.lab.simulation.run import NO_UNEXPECTED_EXCEPTION, TIME_ADVANCES, RunOutcome, play
from regroup.lab.simulation.timeline import MemberReport, Timeline
from regroup.lab.simulation.world import World
from regroup.members.consumer.offsets import ConsumerOffsets
from regroup.members.runtime.workload import Workload
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.group import SyncGroupResponse
from regroup.server.apis.groups import GroupApis
from regroup.server.net.exchange import Exchange
from regroup.storage.errors import StoreFailed
from regroup.storage.memory import MemoryStore
from regroup.storage.sqlite.inline import open_inline_store
from regroup.storage.store import EventStore

ANNA_AND_BEN = {"anna": MemberPlan(session_timeout_ms=10_000), "ben": MemberPlan(session_timeout_ms=10_000)}


def plan_of(*lines: tuple[str, str], **options: object) -> SimulationPlan:
    """A plan from lines such as ("at 5s", "anna crashes"); both members join at the start."""
    steps = [PlannedStep(StepTrigger(), Joins("anna")), PlannedStep(StepTrigger(), Joins("ben"))]
    steps += [PlannedStep(parse_trigger(trigger), parse_step(sentence)) for trigger, sentence in lines]
    settings = {"group.initial.rebalance.delay.ms": 0}
    return replace(SimulationPlan(members=ANNA_AND_BEN, settings=settings, steps=tuple(steps)), **options)


def history(outcome: RunOutcome) -> list[tuple[object, ...]]:
    return [
        (each.group, each.event_number, each.coordinator_epoch, each.at_ms, each.type, each.payload)
        for each in outcome.records
    ]


def violations(outcome: RunOutcome) -> list[str]:
    return [str(each) for each in outcome.verdict.violations]


WITH_FAULTS = plan_of(
    ("at 15s", "anna's connections are reset"),
    ("at 20s", "the brokers crash for 3s"),
    ("at 31s", "ben pauses for 15s"),
    ("at 40s", "the network takes 200ms, up to 300ms more, for 10s"),
    workload=Workload(records_per_s=2, process_ms=20),
    disk_latency_ms=5,
)


@cache
def with_faults() -> list[tuple[object, ...]]:
    return history(play(WITH_FAULTS))


def test_the_same_plan_gives_the_same_history() -> None:
    assert with_faults() == history(play(WITH_FAULTS))


def test_another_seed_gives_another_history_of_the_same_plan() -> None:
    assert with_faults() != history(play(replace(WITH_FAULTS, seed=1)))


def test_checking_invariants_does_not_change_the_history() -> None:
    assert with_faults() == history(play(WITH_FAULTS, check_invariants=False))


def test_a_timeline_changes_nothing_and_is_in_the_order_of_time() -> None:
    timeline = Timeline()
    assert with_faults() == history(play(WITH_FAULTS, timeline=timeline))
    times = [entry.at_ms for entry in timeline.entries]
    assert times == sorted(times)
    assert {type(entry.item) for entry in timeline.entries} >= {PlannedStep, MemberReport}
    assert set(timeline.names.values()) == set(WITH_FAULTS.members)


@pytest.mark.slow
def test_two_processes_with_different_hash_seeds_store_the_same_records() -> None:
    script = (
        "import sys, hashlib, msgspec\n"
        "from regroup.lab.plan.plan import SimulationPlan\n"
        "from regroup.lab.simulation.run import play\n"
        "outcome = play(msgspec.json.decode(sys.stdin.buffer.read(), type=SimulationPlan))\n"
        "print(hashlib.sha256(msgspec.json.encode(outcome.records)).hexdigest())\n"
    )
    plan = msgspec.json.encode(WITH_FAULTS)
    prints = {
        subprocess.run(
            [sys.executable, "-c", script],
            input=plan,
            capture_output=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(prints) == 1


def test_a_run_can_write_to_a_file_that_verifies(tmp_path: Path) -> None:
    file = tmp_path / "run.db"
    in_file = play(WITH_FAULTS, open_store=partial(open_inline_store, file))
    assert not in_file.failed, violations(in_file)
    assert history(in_file) == history(play(WITH_FAULTS))
    verified = subprocess.run(
        [sys.executable, "-m", "regroup.cli", "verify", str(file)], capture_output=True, text=True, check=False
    )
    assert verified.returncode == 0, verified.stdout + verified.stderr


def test_a_crashed_process_does_not_open_the_store_again() -> None:
    store, opened = MemoryStore(), []

    async def open_store() -> EventStore:
        opened.append(store)
        return store

    assert not play(WITH_FAULTS, open_store=open_store).failed
    assert len(opened) == 2


def test_deleting_a_topic_deletes_its_committed_offsets() -> None:
    plan = plan_of(("at 40s", "topic orders is deleted"), workload=Workload(records_per_s=2))
    types = [each.type for each in play(plan).records]
    assert types[types.index("topic-deleted") + 1] == "offsets-deleted"


def test_a_group_whose_members_all_crash_needs_no_recovery() -> None:
    outcome = play(plan_of(("at 20s", "anna crashes"), ("at 21s", "ben crashes")))
    assert not outcome.failed, violations(outcome)
    assert outcome.verdict.counts.removals == 2


def test_restarted_brokers_load_what_they_had_acknowledged() -> None:
    outcome = play(plan_of(("at 20s", "the brokers crash for 5s"), ("at 40s", "the group is in generation 2")))
    assert not outcome.failed, violations(outcome)
    assert [each.type for each in outcome.records].count("coordinator-loaded") >= 1


@pytest.mark.parametrize("step", [BrokersCrash(5_000), PowerFails(5_000), DiskFull(5_000)])
@pytest.mark.parametrize(
    "milestone", ["anna sends JoinGroup", "the group is CompletingRebalance", "the group is PreparingRebalance"]
)
def test_a_group_recovers_from_a_crash_at_any_point(step: object, milestone: str) -> None:
    plan = plan_of((f"after {milestone}", str(step)), disk_latency_ms=20)
    outcome = play(plan)
    assert not outcome.failed, violations(outcome)
    assert outcome.recovered


@pytest.mark.parametrize("lost", [RequestLost, ResponseLost])
@pytest.mark.parametrize("api", ["JoinGroup", "SyncGroup", "FindCoordinator", "Metadata", "ApiVersions"])
def test_a_lost_request_or_response_is_retried(lost: type[RequestLost] | type[ResponseLost], api: str) -> None:
    plan = plan_of(("at 0s", str(lost("anna", api))))
    outcome = play(replace(plan, steps=(plan.steps[-1], *plan.steps[:-1])))
    assert not outcome.failed, violations(outcome)
    assert outcome.recovered


def test_a_step_happens_at_its_milestone() -> None:
    """Anna crashes between her JoinGroup response and her SyncGroup: no SyncGroup of hers is sent."""
    plan = plan_of(("after anna is elected leader", "anna crashes"), ("after anna sends SyncGroup", "ben crashes"))
    outcome = play(plan)
    assert outcome.recovered
    types = [each.type for each in outcome.records]
    assert "member-removed" in types
    assert types.count("generation-started") >= 2


def test_an_expectation_that_does_not_hold_fails_the_run_with_its_sentence_and_what_was_found() -> None:
    outcome = play(plan_of(("at 20s", "the group is Stable with anna")))
    assert [(each.sentence, each.detail) for each in outcome.verdict.violations] == [
        ("the group is Stable with anna.", "the members of the group are anna, ben")
    ]


def test_an_expectation_whose_milestone_is_not_reached_fails_the_run() -> None:
    outcome = play(plan_of(("after anna loses partitions", "no member was removed")))
    assert outcome.first_sentence == "no member was removed."
    assert "its milestone was not reached: anna loses partitions" in outcome.verdict.violations[0].detail


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_goes_on_with_a_topic_that_is_created_again_while_it_processes_records(protocol: str) -> None:
    """A client that asks for the deleted topic creates it; positions are reset when the batch in hand is processed."""
    members = {"anna": MemberPlan(topics=("orders", "clicks"), protocol=protocol)}
    outcome = play(
        SimulationPlan(
            topics={"orders": 1, "clicks": 1},
            members=members,
            workload=Workload(records_per_s=2, process_ms=200, max_poll_records=10),
            steps=(
                PlannedStep(StepTrigger(), Joins("anna")),
                PlannedStep(StepTrigger(delay_ms=9_000), parse_step("topic clicks is deleted")),
            ),
            faults_end_ms=30_000,
        )
    )
    assert not outcome.failed, violations(outcome)


def test_a_group_that_does_not_recover_fails_the_run_with_the_obstacle(monkeypatch: pytest.MonkeyPatch) -> None:
    async def end_faults_but_one(world: World) -> None:
        await end_faults(world)
        world.network.cut("anna", ALL_HOSTS)

    monkeypatch.setattr("regroup.lab.simulation.run.end_faults", end_faults_but_one)
    outcome = play(plan_of(recovery_timeout_ms=60_000, faults_end_ms=1))
    assert not outcome.recovered
    assert outcome.first_sentence == RECOVERY_INVARIANT
    assert "anna" in outcome.verdict.violations[0].detail


def test_brokers_that_do_not_start_again_fail_the_run() -> None:
    opened: list[EventStore] = []

    async def open_once() -> EventStore:
        if opened:
            raise StoreFailed("the file is locked for ever")
        opened.append(MemoryStore())
        return opened[0]

    outcome = play(plan_of(("at 20s", "the brokers crash for 5s"), recovery_timeout_ms=60_000), open_store=open_once)
    assert (outcome.recovered, outcome.records) == (False, ())
    assert [(each.sentence, each.detail) for each in outcome.verdict.violations] == [
        (RECOVERY_INVARIANT, "the brokers do not start")
    ]


def test_a_member_id_waits_for_the_disk_and_not_for_the_kafka_log() -> None:
    steps = PlannedStep(StepTrigger(), SlowKafkaLog(10, 1_000)), PlannedStep(StepTrigger(), Joins("anna"))
    outcome = play(SimulationPlan(members={"anna": MemberPlan()}, disk_latency_ms=20, steps=steps))
    assert not outcome.failed, violations(outcome)


def test_a_run_whose_time_does_not_advance_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member whose next request is due, and is not sent, is due again at once, for ever."""
    monkeypatch.setattr(virtual_clock, "MAX_TURNS_PER_INSTANT", 2_000)
    monkeypatch.setattr(ConsumerOffsets, "fetch_and_auto_commit", lambda self: None)
    outcome = play(plan_of(recovery_timeout_ms=5_000, faults_end_ms=60_000))
    assert outcome.first_sentence == TIME_ADVANCES
    assert not outcome.recovered
    assert outcome.ended_ms < 5_000


def test_an_unexpected_exception_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: GroupApis, request: object, exchange: object) -> None:
        raise ZeroDivisionError("unexpected")

    monkeypatch.setattr(GroupApis, "sync_group", fail)
    outcome = play(plan_of(recovery_timeout_ms=5_000, faults_end_ms=5_000))
    assert outcome.first_sentence == NO_UNEXPECTED_EXCEPTION
    assert "unexpected" in outcome.verdict.violations[0].detail


def test_a_response_that_cannot_be_encoded_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its connection is closed, as if the network had failed: the client sends the request again."""

    def answer(self: GroupApis, request: object, exchange: Exchange) -> None:
        exchange.respond(SyncGroupResponse(protocol_type=None, protocol_name=ErrorCode.NONE))  # type: ignore[arg-type]

    monkeypatch.setattr(GroupApis, "sync_group", answer)
    outcome = play(plan_of(recovery_timeout_ms=5_000, faults_end_ms=5_000))
    assert outcome.first_sentence == NO_UNEXPECTED_EXCEPTION
    assert "SyncGroupResponse v5 cannot carry protocol_name" in outcome.verdict.violations[0].detail


def test_the_checker_counts_every_exchange_and_every_event() -> None:
    counts = play(WITH_FAULTS).verdict.counts
    assert counts.events == len(play(WITH_FAULTS).records)
    assert counts.exchanges > 50


def test_a_crashed_member_can_join_again_with_the_same_name() -> None:
    plan = plan_of(
        ("at 20s", "anna crashes"), ("at 22s", "anna joins"), ("at 50s", "the group is Stable with anna and ben")
    )
    outcome = play(plan)
    assert not outcome.failed, violations(outcome)
    assert str(Crashes("anna")) == "anna crashes"
