"""Members of the consumer protocol in the lab: beside members of the classic one, with the faults they can have."""

import pytest

from regroup.coordinator.consumer.events import TargetAssigned
from regroup.coordinator.serialization import decode_event
from regroup.lab.checker.members.observed_members import ObservedMembers
from regroup.lab.plan.plan import MemberPlan, PlannedStep, SimulationPlan
from regroup.lab.plan.step_sentences import parse_step
from regroup.lab.plan.triggers import StepTrigger
from regroup.lab.plan.yaml_format import InvalidScenario, read_plan
from regroup.lab.simulation.run import RunOutcome, play
from regroup.lab.simulation.timeline import MemberReport, Timeline
from regroup.lab.simulation.virtual_clock import START_MS
from regroup.members.consumer.effects import (
    CommitCompleted,
    JoinedGroup,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
)
from regroup.members.runtime.workload import Workload
from regroup.protocol.message import Message
from regroup.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest
from regroup.protocol.messages.offsets import OffsetCommitRequest

SCENARIO = """\
scenario: Members of the consumer protocol
seed: 4
topics: {{orders: 6}}
members:
  anna: {{protocol: consumer{faults}}}
  ben: {{protocol: consumer}}
  carla: {{group: classic}}
steps:
  - at 0s: [anna joins, carla joins]
  - at 1s: ben joins
  - {steps}
faults end at: 120s
"""
CHANGES = (PartitionsAssigned, PartitionsRevoked, PartitionsLost)


def played(steps: str, faults: str = "") -> tuple[RunOutcome, dict[str, list[tuple[int, set[int]]]]]:
    """The outcome, and by member its partitions after each change, with the time in seconds."""
    timeline = Timeline()
    outcome = play(read_plan(SCENARIO.format(steps=steps, faults=faults)), timeline=timeline)
    owned: dict[str, list[tuple[int, set[int]]]] = {}
    for at_ms, item in timeline.entries:
        if isinstance(item, MemberReport) and isinstance(item.what, CHANGES):
            owned.setdefault(item.name, []).append((at_ms // 1000, {each.partition for each in item.owned}))
    return outcome, owned


def test_a_group_of_each_protocol_runs_in_one_cluster() -> None:
    outcome, owned = played("at 30s: ben leaves")
    assert not outcome.failed
    assert [{*range(6)}, {*range(3)}, {*range(6)}] == [shares for _, shares in owned["anna"]]
    assert [(6, {3, 4, 5}), (30, set())] == owned["ben"]
    assert owned["carla"][-1][1] == {*range(6)}


def test_a_group_whose_topic_is_deleted_at_the_end_recovers_without_partitions() -> None:
    """The target has the deleted topic until the next heartbeat."""
    outcome, owned = played("at 120s: topic orders is deleted")
    assert not outcome.failed
    assert owned["anna"][-1][1] == owned["ben"][-1][1] == set()


def test_a_zombie_commits_nothing_beyond_the_batch_that_it_had_in_hand() -> None:
    steps = (
        PlannedStep(StepTrigger(), parse_step("anna joins")),
        PlannedStep(StepTrigger(delay_ms=10_000), parse_step("anna becomes a zombie")),
        PlannedStep(StepTrigger(delay_ms=60_000), parse_step("anna crashes")),
    )
    outcome = play(
        SimulationPlan(
            topics={"orders": 1},
            members={"anna": MemberPlan(protocol="consumer", session_timeout_ms=6_000)},
            workload=Workload(records_per_s=10, process_ms=120, max_poll_records=10),
            steps=steps,
            faults_end_ms=60_000,
        )
    )
    assert not outcome.failed


@pytest.mark.slow
def test_a_crashed_member_is_removed_when_its_session_ends() -> None:
    outcome, owned = played("at 30s: ben crashes")
    assert not outcome.failed
    assert any(each.type == "member-removed" for each in outcome.records)
    at_s, shares = owned["anna"][-1]
    assert shares == {*range(6)}
    assert 70 <= at_s < 85, "45 s after ben's last heartbeat, and with anna's next one"


def test_a_member_that_is_paused_outside_poll_leaves_in_place_of_its_next_heartbeat() -> None:
    ben = "ben: {protocol: consumer"
    steps = "at 30s: ben does not poll for 20s\n  - at 35s: ben pauses for 40s"
    scenario = SCENARIO.format(steps=steps, faults="").replace(ben, f"{ben}, max poll interval: 30s")
    outcome = play(read_plan(scenario))
    assert not outcome.failed
    assert [each.at_ms - START_MS for each in outcome.records if each.type == "member-left"] == [75_001]


def test_a_paused_member_is_fenced_and_joins_again() -> None:
    outcome, owned = played("at 30s: ben pauses for 60s")
    assert not outcome.failed
    assert (90, set()) in owned["ben"]
    assert owned["ben"][-1][1] | owned["anna"][-1][1] == {*range(6)}
    assert not owned["ben"][-1][1] & owned["anna"][-1][1]


def test_a_member_outside_poll_is_waited_for_by_those_alone_who_get_its_partitions() -> None:
    """Its heartbeats go on, so it stays a member; what it is assigned meanwhile replaces its first assignment."""
    outcome, owned = played("at 100s: carla leaves", ', faults: ["slow-join:60s"]')
    assert owned["anna"] == [(60, {0, 1, 2})]
    assert owned["ben"][0] == (61, {3, 4, 5})
    assert owned["carla"][0][0] < 10
    removed_ms = [each.at_ms - START_MS for each in outcome.records if each.type == "member-removed"]
    assert all(each > 120_000 for each in removed_ms), "the lab stops members with lasting faults at the end"


def test_expectations_see_the_state_and_the_members_of_either_protocol() -> None:
    sound = "at 90s: [the group is Stable with anna, group classic is Stable with carla, anna leaves]"
    outcome, _ = played(f"at 30s: ben leaves\n  - {sound}\n  - at 100s: the group is Empty")
    assert not outcome.failed
    failed, _ = played("at 30s: ben leaves\n  - at 90s: the group is Stable with anna and ben")
    assert [each.found for each in failed.expectations] == ["the members of the group are anna"]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("protocol: new", "unknown protocol: 'new'; write classic or consumer"),
        ("protocol: consumer, faults: [never-sync]", "slow-join, slow-revoke; not never-sync"),
        ("faults: ['slow-revoke:5s']", "anna has the protocol classic, and its faults can be crash, .*not slow-revoke"),
    ],
)
def test_what_such_a_member_cannot_do_is_refused(option: str, message: str) -> None:
    with pytest.raises(InvalidScenario, match=message):
        read_plan(f"scenario: x\nmembers: {{anna: {{{option}}}}}\nsteps: [at 0s: anna joins]\n")


# -- commits, slow callbacks, poll timeouts, static members

RECORDS = """\
scenario: Members of the consumer protocol that read and commit
seed: 4
topics: {{orders: 4}}
workload: {{records per s: 2}}
members:
  anna: {{protocol: consumer{anna}}}
  ben: {{protocol: consumer{ben}}}
steps:
  - at 0s: anna joins
  - {steps}
faults end at: 200s
"""


def with_records(steps: str, anna: str = "", ben: str = "") -> tuple[RunOutcome, list[tuple[int, str, object]]]:
    """The outcome, and what members have reported: the time in seconds, the name, and the change."""
    timeline = Timeline()
    outcome = play(read_plan(RECORDS.format(steps=steps, anna=anna, ben=ben)), timeline=timeline)
    reports = [
        (at_ms // 1000, each.name, each.what) for at_ms, each in timeline.entries if isinstance(each, MemberReport)
    ]
    return outcome, reports


def times_of(reports: list[tuple[int, str, object]], name: str, kind: type) -> list[int]:
    return [at_s for at_s, who, what in reports if who == name and isinstance(what, kind)]


def test_what_is_revoked_is_committed_before_so_that_no_record_is_read_twice() -> None:
    outcome, reports = with_records("at 30s: ben joins")
    assert not outcome.failed
    assert outcome.verdict.counts.processed > 300
    assert outcome.verdict.counts.processed_twice == 0
    assert times_of(reports, "ben", CommitCompleted)


@pytest.mark.slow
def test_a_slow_revoker_keeps_its_partitions_until_its_callback_returns() -> None:
    outcome, reports = with_records("at 30s: ben joins", anna=', faults: ["slow-revoke:20s"]')
    assert not outcome.failed
    [revoked_s] = times_of(reports, "anna", PartitionsRevoked)
    assert revoked_s >= 50
    assert times_of(reports, "ben", PartitionsAssigned)[0] >= revoked_s
    assert "member-removed" not in {each.type for each in outcome.records if each.at_ms < START_MS + 200_000}


def test_a_member_outside_poll_beyond_its_poll_timeout_leaves_and_joins_again() -> None:
    outcome, reports = with_records("at 30s: ben joins", anna=', max poll interval: 10s, faults: ["slow-join:20s@8s"]')
    assert not outcome.failed
    left = [each for each in outcome.records if each.type == "member-left"]
    assert left
    assert times_of(reports, "anna", PartitionsLost)


@pytest.mark.slow
def test_a_callback_beyond_the_rebalance_timeout_costs_the_member_its_place() -> None:
    anna = ', max poll interval: 10s, faults: ["slow-revoke:20s"]'
    outcome, reports = with_records("at 30s: ben joins", anna=anna)
    assert not outcome.failed
    [lost_s] = times_of(reports, "anna", PartitionsLost)
    assert 50 <= lost_s <= 60
    taken_s = [at_s for at_s in times_of(reports, "ben", PartitionsAssigned) if at_s < 200]
    assert 40 <= taken_s[0] <= lost_s, "as soon as anna is removed, before its application knows it"


def test_a_lost_answer_fences_no_member() -> None:
    """The member repeats its heartbeat with the previous epoch."""
    lost = "at 29s: the response to anna's next ConsumerGroupHeartbeat is lost"
    outcome, reports = with_records(f"at 28s: ben joins\n  - {lost}")
    assert not outcome.failed
    assert not times_of(reports, "anna", PartitionsLost)
    assert "member-removed" not in {each.type for each in outcome.records}


@pytest.mark.slow
def test_a_static_member_leaves_for_a_while_and_gets_the_same_partitions() -> None:
    steps = "at 20s: ben joins\n  - at 60s: anna leaves\n  - at 70s: anna joins"
    outcome, reports = with_records(steps, anna=", instance id: a-1")
    assert not outcome.failed
    shares = [what.partitions for _, who, what in reports if who == "anna" and isinstance(what, PartitionsAssigned)]
    assert len(shares[-1]) == 2
    assert len(times_of(reports, "ben", PartitionsAssigned)) == 1, "ben keeps its share, and gets no other one"
    assert "static-consumer-replaced" in {each.type for each in outcome.records}


@pytest.mark.slow
def test_a_killed_static_member_joins_again_when_its_session_is_over() -> None:
    outcome, reports = with_records("at 60s: anna restarts after 5s", anna=", instance id: a-1")
    assert not outcome.failed
    _, second = times_of(reports, "anna", JoinedGroup)
    assert 100 <= second <= 110, "45 s after its last heartbeat; UNRELEASED_INSTANCE_ID before"


@pytest.mark.slow
def test_a_restarted_member_is_another_one() -> None:
    outcome, reports = with_records("at 60s: anna restarts after 5s")
    assert not outcome.failed
    member_ids = {what.member_id for _, who, what in reports if isinstance(what, JoinedGroup)}
    assert len(member_ids) == 2


@pytest.mark.slow
def test_a_zombie_commits_nothing_once_its_session_is_over() -> None:
    outcome, _ = with_records("at 30s: ben joins\n  - at 60s: anna becomes a zombie")
    assert not outcome.failed
    late = [each for each in outcome.records if each.type == "offsets-committed" and each.at_ms > START_MS + 151_000]
    assert late, "ben goes on"
    [removed] = [each for each in outcome.records if each.type == "member-removed" and each.at_ms < START_MS + 200_000]
    assert removed.at_ms < START_MS + 110_000


def test_a_fault_that_begins_as_the_member_joins_ends_the_process_at_once() -> None:
    outcome, reports = with_records("after anna has joined: anna restarts after 5s")
    assert not outcome.failed
    joined, _ = times_of(reports, "anna", JoinedGroup)
    assert times_of(reports, "anna", PartitionsAssigned)[0] > joined


def test_requests_around_a_revocation_have_the_order_of_kafkas_consumer(monkeypatch: pytest.MonkeyPatch) -> None:
    """All positions are committed, not only those to be revoked; then come the callback, in which the application is
    outside poll() and commits nothing, and the acknowledgement. Recorded from the Java consumer 4.4.0."""
    sent: list[Message] = []
    monkeypatch.setattr(
        ObservedMembers, "on_request", lambda checker, name, message: name == "anna" and sent.append(message)
    )
    with_records("at 12s: ben joins", anna=', auto commit interval: 1s, faults: ["slow-revoke:7s"]')
    requests = [each for each in sent if isinstance(each, OffsetCommitRequest | ConsumerGroupHeartbeatRequest)]
    acknowledged = next(
        at
        for at, each in enumerate(requests)
        if isinstance(each, ConsumerGroupHeartbeatRequest) and owned_by(each) not in (None, 0, 4)
    )
    before = max(at for at in range(acknowledged) if committed_by(requests[at]) == 4)
    commit = requests[before]
    assert isinstance(commit, OffsetCommitRequest)
    assert commit.generation_id_or_member_epoch == 2
    during = requests[before + 1 : acknowledged - 1]
    assert during, "heartbeats go on in the callback"
    assert all(isinstance(each, ConsumerGroupHeartbeatRequest) for each in during)


def committed_by(request: Message) -> int:
    """How many offsets a request commits."""
    return sum(len(topic.partitions) for topic in request.topics) if isinstance(request, OffsetCommitRequest) else 0


def owned_by(request: Message) -> int | None:
    """How many partitions a heartbeat says that its member owns; None if it does not say that."""
    assert isinstance(request, ConsumerGroupHeartbeatRequest)
    owned = request.topic_partitions
    return None if owned is None else sum(len(each.partitions) for each in owned)


RANGE = """\
scenario: Members that vote for an assignor of the coordinator
topics: {orders: 2, payments: 2}
members:
  anna: {protocol: PROTOCOL, topics: [orders, payments]VOTE}
  ben: {protocol: PROTOCOL, topics: [orders, payments]VOTE}
steps:
  - at 0s: [anna joins, ben joins]
faults end at: 30s
"""


@pytest.mark.parametrize(("vote", "assignor"), [(", group remote assignor: range", "range"), ("", "uniform")])
def test_the_coordinator_assigns_as_its_members_vote(vote: str, assignor: str) -> None:
    outcome = play(read_plan(RANGE.replace("PROTOCOL", "consumer").replace("VOTE", vote)))
    assert not outcome.verdict.violations
    targets = [decode_event(each) for each in outcome.records if each.type == "target-assigned"]
    assert {each.assignor for each in targets if isinstance(each, TargetAssigned)} == {assignor}


@pytest.mark.parametrize(
    ("protocol", "vote", "says"),
    [
        ("consumer", "sticky", "line 4 .* the coordinator has no assignor 'sticky'; it has uniform and range"),
        (
            "classic",
            "range",
            "line 4 .* anna has the protocol classic, and a group remote assignor needs protocol: con",
        ),
    ],
)
def test_a_vote_that_cannot_count_is_refused(protocol: str, vote: str, says: str) -> None:
    with pytest.raises(InvalidScenario, match=says):
        read_plan(RANGE.replace("PROTOCOL", protocol).replace("VOTE", f", group remote assignor: {vote}"))
