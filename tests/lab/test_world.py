"""A world is played from its plan alone: the same plan, the same history; and what goes wrong in it is told."""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import msgspec
import pytest

from regroup.lab.plan.plan import Happening, MemberPlan, Plan, When
from regroup.lab.plan.steps import (
    AnswerLost,
    BrokersCrash,
    Crashes,
    DiskFull,
    Joins,
    PowerFails,
    RequestLost,
    Restarts,
    SlowLog,
    TopicGrows,
    parse_step,
)
from regroup.lab.simulation.quiet import FORESEEN
from regroup.lab.simulation.recovery import ALL_IS_WELL, heal
from regroup.lab.simulation.world import TIME_PASSES, Outcome, World, play
from regroup.members.consumer.offsets import Offsets
from regroup.members.runtime.workload import Workload
from regroup.server.apis.groups import GroupApis
from regroup.storage.errors import StoreFailed
from regroup.storage.memory import MemoryStore
from regroup.storage.sqlite.inline import open_inline_store
from regroup.storage.store import EventStore

ANNA_AND_BEN = {"anna": MemberPlan(session_timeout_ms=10_000), "ben": MemberPlan(session_timeout_ms=10_000)}


def told(*lines: tuple[str, str], **options: object) -> Plan:
    """A plan from lines such as ("at 5s", "anna crashes"); both members join at the start."""
    happenings = [Happening(When(), Joins("anna")), Happening(When(), Joins("ben"))]
    for when, sentence in lines:
        kind, _, what = when.partition(" ")
        moment = When(delay_ms=int(float(what.rstrip("s")) * 1000)) if kind == "at" else When(after=what)
        happenings.append(Happening(moment, parse_step(sentence)))
    settings = {"group.initial.rebalance.delay.ms": 0}
    return msgspec.structs.replace(
        Plan(members=ANNA_AND_BEN, settings=settings, happenings=tuple(happenings), heal_ms=60_000), **options
    )


def rows(outcome: Outcome) -> list[tuple[object, ...]]:
    return [(each.group, each.number, each.reign, each.at_ms, each.type, each.payload) for each in outcome.records]


def sentences(outcome: Outcome) -> list[str]:
    return [str(broken) for broken in outcome.verdict.broken]


TROUBLED = told(
    ("at 15s", "anna's connections are reset"),
    ("at 20s", "the brokers crash for 3s"),
    ("at 31s", "ben pauses for 15s"),
    ("at 40s", "the network takes 200ms, up to 300ms more, for 10s"),
    workload=Workload(records_per_s=2, process_ms=20),
    disk_latency_ms=5,
)


def test_the_same_plan_gives_the_same_history() -> None:
    assert rows(play(TROUBLED)) == rows(play(TROUBLED))


def test_another_seed_gives_another_history_of_the_same_plan() -> None:
    assert rows(play(TROUBLED)) != rows(play(msgspec.structs.replace(TROUBLED, seed=1)))


def test_looking_changes_nothing() -> None:
    assert rows(play(TROUBLED)) == rows(play(TROUBLED, judge=False))


def test_two_processes_with_different_hash_seeds_write_the_same_rows() -> None:
    script = (
        "import sys, hashlib, msgspec\n"
        "from regroup.lab.plan.plan import Plan\n"
        "from regroup.lab.simulation.world import play\n"
        "outcome = play(msgspec.json.decode(sys.stdin.buffer.read(), type=Plan))\n"
        "print(hashlib.sha256(msgspec.json.encode(outcome.records)).hexdigest())\n"
    )
    plan = msgspec.json.encode(TROUBLED)
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


def test_a_run_in_a_file_leaves_a_store_like_any_other(tmp_path: Path) -> None:
    file = tmp_path / "run.db"
    in_file = play(TROUBLED, open_store=partial(open_inline_store, file))
    assert not in_file.failed, sentences(in_file)
    assert rows(in_file) == rows(play(TROUBLED))
    verified = subprocess.run(
        [sys.executable, "-m", "regroup.cli", "verify", str(file)], capture_output=True, text=True, check=False
    )
    assert verified.returncode == 0, verified.stdout + verified.stderr


def test_a_process_that_died_never_opens_the_store_again() -> None:
    store, opened = MemoryStore(), []

    async def open_store() -> EventStore:
        opened.append(store)
        return store

    assert not play(TROUBLED, open_store=open_store).failed
    assert len(opened) == 2


def test_with_a_topic_goes_what_was_committed_of_it() -> None:
    plan = told(("at 40s", "topic orders vanishes"), workload=Workload(records_per_s=2))
    kinds = [each.type for each in play(plan).records]
    assert kinds[kinds.index("topic-deleted") + 1] == "offsets-forgotten"


def test_a_group_whose_members_die_before_the_end_is_nobodys_fault() -> None:
    outcome = play(told(("at 20s", "anna crashes"), ("at 21s", "ben crashes")))
    assert not outcome.failed, sentences(outcome)
    assert outcome.verdict.counts.expulsions == 2


def test_the_brokers_come_back_with_what_they_had_acknowledged() -> None:
    outcome = play(told(("at 20s", "the brokers crash for 5s"), ("at 40s", "the group is in generation 2")))
    assert not outcome.failed, sentences(outcome)
    assert [each.type for each in outcome.records].count("coordinator-loaded") >= 1


@pytest.mark.parametrize("step", [BrokersCrash(5_000), PowerFails(5_000), DiskFull(5_000)])
@pytest.mark.parametrize("when", ["anna sends JoinGroup", "the group is completing", "the group is preparing"])
def test_whatever_ends_a_coordinator_in_the_middle_the_group_comes_back(step: object, when: str) -> None:
    plan = told(("after " + when, str(step)), disk_latency_ms=20)
    outcome = play(plan)
    assert not outcome.failed, sentences(outcome)
    assert outcome.healed


@pytest.mark.parametrize("lost", [RequestLost, AnswerLost])
@pytest.mark.parametrize("api", ["JoinGroup", "SyncGroup", "FindCoordinator", "Metadata", "ApiVersions"])
def test_a_lost_request_and_a_lost_answer_are_asked_again(lost: type[RequestLost] | type[AnswerLost], api: str) -> None:
    plan = told(("at 0s", str(lost("anna", api))))
    outcome = play(msgspec.structs.replace(plan, happenings=(plan.happenings[-1], *plan.happenings[:-1])))
    assert not outcome.failed, sentences(outcome)
    assert outcome.healed


def test_what_waits_for_a_point_happens_at_it() -> None:
    """Anna dies between the answer to her JoinGroup and her SyncGroup: no SyncGroup of hers is ever seen."""
    plan = told(("after anna is elected leader", "anna crashes"), ("after anna sends SyncGroup", "ben crashes"))
    outcome = play(plan)
    assert outcome.healed
    kinds = [each.type for each in outcome.records]
    assert "member-expelled" in kinds
    assert kinds.count("generation-started") >= 2


def test_an_expectation_that_does_not_hold_fails_the_run_with_its_sentence_and_what_was_found() -> None:
    outcome = play(told(("at 20s", "the group is stable with anna")))
    assert [(each.sentence, each.detail) for each in outcome.verdict.broken] == [
        ("the group is stable with anna.", "its members are anna, ben")
    ]


def test_an_expectation_whose_moment_never_came_fails_the_run() -> None:
    outcome = play(told(("after anna loses partitions", "nobody was expelled")))
    assert outcome.first_sentence == "nobody was expelled."
    assert "never came so far that anna loses partitions" in outcome.verdict.broken[0].detail


def test_a_group_that_does_not_find_its_way_back_says_what_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def cut_for_ever(world: World) -> None:
        await heal(world)
        world.network.cut("anna", "everybody")

    monkeypatch.setattr("regroup.lab.simulation.world.heal", cut_for_ever)
    outcome = play(told(bound_ms=60_000, heal_ms=1))
    assert not outcome.healed
    assert outcome.first_sentence == ALL_IS_WELL
    assert "anna" in outcome.verdict.broken[0].detail


def test_brokers_that_never_come_back_end_the_run_and_say_so() -> None:
    opened: list[EventStore] = []

    async def open_once() -> EventStore:
        if opened:
            raise StoreFailed("the file is locked for ever")
        opened.append(MemoryStore())
        return opened[0]

    outcome = play(told(("at 20s", "the brokers crash for 5s"), bound_ms=60_000), open_store=open_once)
    assert (outcome.healed, outcome.records) == (False, ())
    assert [(each.sentence, each.detail) for each in outcome.verdict.broken] == [
        (ALL_IS_WELL, "the brokers do not come back")
    ]


def grown_while_its_leader_was_away(instance_id: str | None) -> Plan:
    return Plan(
        topics={"orders": 1},
        members={"anna": MemberPlan(instance_id=instance_id)},
        happenings=(
            Happening(When(), Joins("anna")),
            Happening(When(delay_ms=20_000), Restarts("anna", 1_000)),
            Happening(When(delay_ms=20_000), TopicGrows("orders", 3)),
        ),
    )


def test_partitions_that_a_static_leader_overlooks_as_in_kafka_are_not_waited_for() -> None:
    outcome = play(grown_while_its_leader_was_away("anna-1"))
    assert not outcome.failed, sentences(outcome)
    assert outcome.verdict.counts.rebalances == 1


def test_without_an_instance_id_they_are_dealt_out() -> None:
    outcome = play(grown_while_its_leader_was_away(None))
    assert not outcome.failed, sentences(outcome)
    assert outcome.verdict.counts.rebalances == 2


def test_who_gets_an_id_waits_for_the_disk_and_not_for_kafkas_log() -> None:
    happenings = Happening(When(), SlowLog(10, 1_000)), Happening(When(), Joins("anna"))
    outcome = play(Plan(members={"anna": MemberPlan()}, disk_latency_ms=20, happenings=happenings))
    assert not outcome.failed, sentences(outcome)


def test_a_run_that_stays_in_one_moment_fails_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member whose next question is due, and is not asked, wakes at once, for ever."""
    monkeypatch.setattr(Offsets, "proceed_in_poll", lambda self: None)
    outcome = play(told(bound_ms=5_000, heal_ms=60_000))
    assert outcome.first_sentence == TIME_PASSES
    assert not outcome.healed
    assert outcome.ended_ms < 5_000


def test_an_exception_that_nobody_foresaw_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def stumbles(self: GroupApis, exchange: object) -> None:
        raise ZeroDivisionError("it stumbled")

    monkeypatch.setattr(GroupApis, "sync_group", stumbles)
    outcome = play(told(bound_ms=5_000, heal_ms=5_000))
    assert outcome.first_sentence == FORESEEN
    assert "it stumbled" in outcome.verdict.broken[0].detail


def test_the_judge_is_told_of_every_exchange_and_every_row() -> None:
    counts = play(TROUBLED).verdict.counts
    assert counts.events == len(play(TROUBLED).records)
    assert counts.exchanges > 50


def test_a_member_that_crashed_may_join_again_under_its_name() -> None:
    plan = told(
        ("at 20s", "anna crashes"), ("at 22s", "anna joins"), ("at 50s", "the group is stable with anna and ben")
    )
    outcome = play(plan)
    assert not outcome.failed, sentences(outcome)
    assert str(Crashes("anna")) == "anna crashes"
