"""What a run is said to have shown, from exchanges, lines of the program and events."""

from typing import Any

from tests.clients.survey.observation import ObservedEvent, ObservedRequest, ProgramLine, Run
from tests.clients.survey.outcome import outcome_of
from tests.clients.survey.profile import COMMITTED_BEFORE, QUIET_MS, THROTTLE_MS
from tests.clients.survey.recovery import recovery_of


def request(api: str, at_ms: int, answer: str = "NONE", **fields: Any) -> ObservedRequest:
    answered = None if answer == "no answer" else at_ms + 1
    known = {"version": 5, "connection": "0-1", "member_id": "m", "generation": 1, "answered_at_ms": answered}
    return ObservedRequest(api=api, at_ms=at_ms, answer=answer, **(known | fields))


def commit(at_ms: int, offset: int, answer: str = "NONE", **fields: Any) -> ObservedRequest:
    return request("OffsetCommit", at_ms, answer, offsets={"0": offset}, **fields)


def run_of(*requests: ObservedRequest, hit: int = 0, ended_at_ms: int = 5_000, **seen: Any) -> Run:
    known = {"lines": [], "events": []}
    about = {"client": "c", "fault": "f", "version": "1", "runtime": "r", "settings": {}}
    return Run(requests=list(requests), hit=hit, ended_at_ms=ended_at_ms, **about, **(known | seen))


def line(what: str, at_ms: int, **details: Any) -> ProgramLine:
    return ProgramLine(at_ms=at_ms, what=what, details=details)


def test_the_same_offsets_after_a_refused_commit_are_a_repeated_commit() -> None:
    run = run_of(commit(0, 7, "NOT_COORDINATOR", fault="answer"), commit(100, 7), request("Heartbeat", 200))
    outcome = outcome_of(run)
    assert outcome.steps == ("repeated the commit",)
    assert (outcome.recovered_ms, outcome.exchanges) == (101, 2)


def test_later_offsets_after_a_refused_commit_are_a_later_commit() -> None:
    run = run_of(commit(0, 7, "NOT_COORDINATOR", fault="answer"), commit(100, 9))
    assert outcome_of(run).steps == ("went on with a later commit",)


def test_a_commit_is_applied_twice_if_two_events_commit_the_same_offsets() -> None:
    events = [ObservedEvent(at_ms=at_ms, type="offsets-committed", offsets={"0": 7}) for at_ms in (0, 100)]
    run = run_of(commit(0, 7, "no answer", fault="close after"), commit(100, 7), events=events)
    assert outcome_of(run).committed_twice == 1
    assert "committed twice" in outcome_of(run).steps


def test_a_commit_before_the_fault_is_not_committed_twice() -> None:
    events = [ObservedEvent(at_ms=at_ms, type="offsets-committed", offsets={"0": 7}) for at_ms in (-200, -100)]
    run = run_of(commit(0, 7, "NOT_COORDINATOR", fault="answer"), commit(100, 8), events=events)
    assert outcome_of(run).committed_twice == 0


def test_a_member_that_joins_without_its_id_is_a_new_member() -> None:
    hit = request("Heartbeat", 0, "UNKNOWN_MEMBER_ID")
    joins = [request("JoinGroup", 10, "MEMBER_ID_REQUIRED", member_id=""), request("JoinGroup", 12, member_id="n")]
    outcome = outcome_of(run_of(hit, *joins, request("SyncGroup", 15), request("Heartbeat", 20), commit(30, 8)))
    assert outcome.steps == ("rejoined as a new member",)
    assert outcome.recovered_ms == 31


def test_a_member_that_joins_with_its_id_has_rejoined() -> None:
    hit = request("Heartbeat", 0, "ILLEGAL_GENERATION")
    assert outcome_of(run_of(hit, request("JoinGroup", 10), request("Heartbeat", 20), commit(30, 8))).steps == (
        "rejoined",
    )


def test_errors_count_from_the_fault_on() -> None:
    lines = [line("raised", -5, error="Early", where="poll"), line("raised", 5, error="Late", where="commit")]
    run = run_of(commit(0, 7, "NOT_COORDINATOR", fault="answer"), commit(100, 7), lines=lines)
    assert outcome_of(run).steps == ("raised Late from commit", "repeated the commit")


def test_partitions_given_back_for_the_rebalance_itself_are_no_effect_of_the_fault() -> None:
    lines = [
        line("assigned", -500, partitions=[0]),
        line("revoked", 0, partitions=[0]),
        line("assigned", 50, partitions=[0]),
    ]
    hit = request("JoinGroup", 0, "NOT_COORDINATOR", fault="answer")
    after = [request("JoinGroup", 20), request("SyncGroup", 30), commit(60, 8)]
    assert outcome_of(run_of(hit, *after, lines=lines)).steps == ("repeated JoinGroup",)
    again = [*lines, line("revoked", 55, partitions=[0])]
    assert "gave its partitions back" in outcome_of(run_of(hit, *after, lines=again)).steps


def test_a_client_that_begins_before_the_committed_offset_has_ignored_it() -> None:
    hit = request("OffsetFetch", 0, "NOT_COORDINATOR", fault="answer")
    ignored = run_of(hit, commit(90, 3), lines=[line("began", 50, partition=0, offset=0)])
    assert outcome_of(ignored).steps == ("ignored the committed offsets",)
    kept = run_of(hit, commit(90, 9), lines=[line("began", 50, partition=0, offset=COMMITTED_BEFORE)])
    assert outcome_of(kept).steps == ("went on",)


def test_a_member_without_records_has_read_nothing() -> None:
    hit = request("OffsetFetch", 0, "NOT_COORDINATOR", fault="answer")
    run = run_of(hit, request("Heartbeat", 300, count=40, last_at_ms=15_000), ended_at_ms=15_000)
    assert outcome_of(run).steps == ("read nothing",)
    assert outcome_of(run).recovered_ms is None


def test_a_client_without_further_requests_has_given_up() -> None:
    hit = commit(0, 7, "FENCED_INSTANCE_ID")
    lines = [line("began", -500, partition=0, offset=COMMITTED_BEFORE)]
    late = run_of(hit, ended_at_ms=QUIET_MS, lines=lines)
    assert outcome_of(late).steps == ("gave up",)


def test_a_client_that_opens_no_other_connection_has_stayed_on_it() -> None:
    run = run_of(commit(0, 7, "no answer", fault="drop answer"), ended_at_ms=15_000)
    assert outcome_of(run).steps == ("stayed on the connection", "did not recover")


def test_a_throttled_client_waits_or_does_not() -> None:
    hit = commit(0, 7, fault="throttle")
    assert outcome_of(run_of(hit, commit(THROTTLE_MS, 9))).steps == ("waited as long as it was asked to",)
    assert outcome_of(run_of(hit, commit(100, 9))).steps == ("did not wait",)


def test_a_recovery_follows_the_last_trouble() -> None:
    requests = [
        request("Heartbeat", 0, "NOT_COORDINATOR", fault="answer"),
        commit(20, 7),
        request("FindCoordinator", 40),
        commit(60, 8),
        request("Heartbeat", 300),
    ]
    recovery = recovery_of(requests, 0)
    assert recovery is not None
    assert recovery == (301, 5, True)
    assert recovery_of(requests[:4], 0) is None, "without a heartbeat"


def test_heartbeats_of_a_run_that_began_before_the_fault_confirm_a_recovery() -> None:
    before = request("Heartbeat", -900, count=6, last_at_ms=600)
    recovery = recovery_of([before, commit(0, 7, "NOT_COORDINATOR", fault="answer"), commit(100, 7)], 1)
    assert recovery is not None
    assert recovery == (101, 2, True)
