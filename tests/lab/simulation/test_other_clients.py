"""Applications that do not poll, administrators, new members that fall silent, and producers with transactions."""

from typing import Any

import msgspec
import pytest

from regroup.coordinator.events import MemberLeft, MemberRemoved, PendingMemberRemoved, TransactionEnded
from regroup.coordinator.serialization import decode_event
from regroup.lab.plan.flawed_requests import CONSUMER_FLAWED_REQUESTS, FLAWED_REQUESTS
from regroup.lab.plan.yaml_format import read_plan
from regroup.lab.search.seed_run import finding_of
from regroup.lab.simulation.clients.lab_client import LabClient
from regroup.lab.simulation.recovery import READS_INVARIANT
from regroup.lab.simulation.run import NO_REBALANCE_STORM, RunOutcome, play
from regroup.lab.simulation.timeline import MemberReport, Timeline
from regroup.lab.simulation.virtual_clock import TooManyCallbacks
from regroup.members.consumer.effects import PartitionsAssigned, PartitionsLost
from regroup.members.runtime.fetcher import Fetcher

RUN = """\
scenario: One group
topics: {{orders: 2}}
settings: {{group.initial.rebalance.delay.ms: 0, offsets.retention.check.interval.ms: 1000}}
members:
  anna: {{session timeout: 10s, max poll interval: 20s, assignors: [cooperative-sticky]{anna}}}
  ben: {{session timeout: 10s, max poll interval: 20s, assignors: [cooperative-sticky]{ben}}}
steps:
  - at 0s: anna joins
  - at 1s: ben joins
  - {step}
faults end at: {end}
recovers within: 400s
{workload}
"""

PROTOCOL_OF = {each: ", protocol: consumer" if each in CONSUMER_FLAWED_REQUESTS else "" for each in FLAWED_REQUESTS}


def outcome(step: str, *, end: str = "60s", anna: str = "", ben: str = "", workload: str = "") -> RunOutcome:
    plan = read_plan(RUN.format(step=step, end=end, anna=anna, ben=ben, workload=workload))
    played = play(plan)
    assert finding_of(played) is None
    return played


def reasons(played: RunOutcome, kind: type) -> list[str]:
    events = [decode_event(each) for each in played.records if each.group == "lab"]
    return [each.reason for each in events if isinstance(each, kind)]


def test_a_member_that_does_not_poll_leaves_after_its_poll_interval() -> None:
    assert reasons(outcome("at 15s: anna does not poll for 30s"), MemberLeft) == ["consumer poll timeout has expired."]
    assert reasons(outcome("at 15s: anna does not poll for 10s"), MemberLeft) == []


@pytest.mark.slow
def test_a_member_of_the_consumer_protocol_that_does_not_poll_leaves_too() -> None:
    played = outcome("at 15s: anna does not poll for 30s", anna=", protocol: consumer", ben=", protocol: consumer")
    assert len(reasons(played, MemberLeft)) == 1


def test_an_administrator_removes_a_static_member_by_its_instance_id() -> None:
    played = outcome("at 15s: an administrator removes anna", anna=", instance id: anna-1")
    assert reasons(played, MemberLeft) == ["member was removed by an admin"]


def test_a_member_id_expires_whose_member_does_not_return() -> None:
    played = outcome("at 15s: a new member of group lab does not return with its id")
    assert reasons(played, PendingMemberRemoved) == ["did not rejoin within 10000 ms"]


def test_a_new_member_that_falls_silent_is_removed() -> None:
    played = outcome("at 15s: a new member of group lab sends one JoinGroup and nothing else")
    assert len(reasons(played, MemberRemoved)) == 1


@pytest.mark.quick("[anna commits in a transaction-ends0]", "[anna is fenced in a transaction-ends3]")
@pytest.mark.parametrize(
    ("step", "ends"),
    [
        ("anna commits in a transaction", [True]),
        ("anna aborts a transaction", [False]),
        ("anna abandons a transaction", [False]),
        ("anna is fenced in a transaction", [False, True]),
    ],
)
def test_a_transaction_ends_as_its_producer_says_or_is_aborted(step: str, ends: list[bool]) -> None:
    played = outcome(f"at 15s: {step}")
    events = [decode_event(each) for each in played.records if each.group == "lab"]
    assert [each.committed for each in events if isinstance(each, TransactionEnded)] == ends


@pytest.mark.slow
def test_members_with_clients_of_different_releases_share_a_group() -> None:
    assert outcome("at 15s: ben restarts after 1s", anna=", client: '2.0'", ben=", client: '3.1'").recovered


ABSENT = """\
scenario: A static member misses the join phase, and its leader deals its partitions away
topics: {orders: 2}
settings: {group.initial.rebalance.delay.ms: 0}
members:
  anna: {session timeout: 60s, max poll interval: 10s, assignors: [cooperative-sticky], instance id: anna-1}
  ben: {session timeout: 60s, max poll interval: 10s, assignors: [cooperative-sticky], instance id: ben-1}
steps:
  - at 0s: anna joins
  - at 10s: anna pauses for 25s
  - at 12s: ben joins
"""


def test_a_static_member_that_misses_the_join_phase_does_not_know_what_its_leader_deals_away() -> None:
    """As with Kafka: the leader gets the subscription of its last JoinGroup, which owned nothing."""
    timeline = Timeline()
    assert not play(read_plan(ABSENT), timeline=timeline).failed
    changes = [
        (each.item.name, type(each.item.what)) for each in timeline.entries if isinstance(each.item, MemberReport)
    ]
    owners = [name for name, kind in changes[: changes.index(("anna", PartitionsLost))] if kind is PartitionsAssigned]
    assert owners[:2] == ["anna", "ben"]


def test_a_run_without_an_end_of_its_work_is_a_rebalance_storm() -> None:
    plan = read_plan(RUN.format(step="at 15s: anna crashes", end="60s", anna="", ben="", workload=""))
    assert play(plan, max_callbacks=200, reports_storms=True).first_sentence == NO_REBALANCE_STORM
    with pytest.raises(TooManyCallbacks):
        play(plan, max_callbacks=200)


@pytest.mark.parametrize("protocol", ["", ", protocol: consumer"])
def test_a_group_is_described_as_it_is_stored(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    described: list[str] = []
    monkeypatch.setattr(LabClient, "request", shown_states(described, LabClient.request))
    outcome("at 15s: an administrator describes group lab", anna=protocol, ben=protocol)
    assert described == (["Dead", "Stable"] if protocol else ["Stable", ""])


def shown_states(described: list[str], request: Any) -> Any:
    """`LabClient.request` that also keeps the states of groups in the responses."""

    async def kept(*arguments: Any, **options: Any) -> Any:
        response = await request(*arguments, **options)
        described.extend(each.group_state for each in response.groups)
        return response

    return kept


@pytest.mark.parametrize("flaw", FLAWED_REQUESTS)
def test_a_flawed_request_is_refused_and_leaves_the_group_as_it_is(flaw: str, monkeypatch: pytest.MonkeyPatch) -> None:
    responses: list[Any] = []
    request = LabClient.request

    async def kept(*arguments: Any, **options: Any) -> Any:
        responses.append(await request(*arguments, **options))
        return responses[-1]

    monkeypatch.setattr(LabClient, "request", kept)
    calm = outcome("at 15s: an administrator describes group lab", anna=PROTOCOL_OF[flaw], ben=PROTOCOL_OF[flaw])
    responses.clear()
    played = outcome(f"at 15s: a client sends group lab {flaw}", anna=PROTOCOL_OF[flaw], ben=PROTOCOL_OF[flaw])
    [response] = responses
    assert error_codes(response) - {0}, "it is refused"
    assert [each.type for each in played.records] == [each.type for each in calm.records]


def error_codes(response: Any) -> set[int]:
    """All error codes in a response."""
    if isinstance(response, list):
        return {code for each in response for code in error_codes(each)}
    if not isinstance(response, msgspec.Struct):
        return set()
    values = msgspec.structs.asdict(response)
    return {values.get("error_code", 0)}.union(*(error_codes(each) for each in values.values()))


def test_a_group_that_reads_nothing_once_the_faults_are_over_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fetcher, "send_fetches", lambda self: None)
    plan = read_plan(
        RUN.format(
            step="at 15s: anna restarts after 1s",
            end="20s",
            anna="",
            ben="",
            workload="workload: {records per s: 1}",
        )
    )
    played = play(plan)
    assert played.first_sentence == READS_INVARIANT
    assert "and does not read it" in played.verdict.violations[0].detail
