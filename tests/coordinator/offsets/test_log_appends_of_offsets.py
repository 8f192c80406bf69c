"""The emulated Kafka log delays or loses committed offsets, and other responses wait for them."""

from collections.abc import Callable

import pytest

from regroup.coordinator.events import AppendTimedOut
from regroup.protocol.errors import ErrorCode
from tests.coordinator.group_harness import LOG_AND_CLIENT_ERRORS, GroupHarness, behaviour

E = ErrorCode
FOO = ("foo", 0)


# Offsets


@behaviour("offset-commit.append-errors")
@pytest.mark.parametrize(("log_error", "client_error"), LOG_AND_CLIENT_ERRORS)
def test_a_commit_that_is_lost_changes_no_offset(log_error: ErrorCode, client_error: ErrorCode) -> None:
    harness = GroupHarness()
    [anna] = harness.reach_stable("anna")
    anna.commit(("foo", 0, 100))
    harness.log_delays_appends = True
    request = anna.commit(("foo", 0, 200), ("foo", 1, 200))
    assert request.is_pending
    harness.fail_append(log_error)
    assert request.codes == {FOO: client_error, ("foo", 1): client_error}
    assert harness.fetch_all().offsets == {FOO: 100}


def test_a_simple_group_whose_only_commit_is_lost_does_not_exist() -> None:
    harness = GroupHarness()
    harness.log_delays_appends = True
    harness.commit(("foo", 0, 100))
    harness.fail_append(E.NOT_LEADER_OR_FOLLOWER)
    assert not harness.group.exists


@behaviour("offset-fetch.committed-view", "offset-commit.member.stable")
def test_a_fetch_without_require_stable_returns_committed_offsets() -> None:
    harness = GroupHarness()
    harness.commit(("foo", 0, 100))
    harness.log_delays_appends = True
    commit = harness.commit(("foo", 0, 200))
    assert harness.fetch(foo=(0,)).offsets == {FOO: 100}
    harness.complete_append()
    assert harness.fetch(foo=(0,)).offsets == {FOO: 200}
    assert commit.codes == {FOO: E.NONE}


@behaviour("offset-fetch.require-stable.pending-plain-commit")
def test_a_fetch_with_require_stable_waits_for_pending_appends() -> None:
    harness = GroupHarness()
    harness.commit(("foo", 0, 100))
    harness.log_delays_appends = True
    harness.commit(("foo", 0, 200))
    fetch = harness.fetch_stable(foo=(0,))
    every_partition = harness.fetch_all(require_stable=True)
    assert fetch.is_pending
    harness.complete_append()
    assert fetch.offsets == every_partition.offsets == {FOO: 200}


@behaviour("offset-fetch.require-stable.write-timeout")
def test_a_fetch_that_waits_too_long_gets_not_coordinator() -> None:
    harness = GroupHarness()
    harness.log_delays_appends = True
    harness.commit(("foo", 0, 200))
    fetch = harness.fetch_stable(foo=(0,))
    harness.advance(5_000)
    assert fetch.code is E.NOT_COORDINATOR


@behaviour("recovery.write-timeout")
def test_a_commit_times_out_and_its_record_may_still_be_committed() -> None:
    harness = GroupHarness()
    [anna] = harness.reach_stable("anna")
    harness.log_delays_appends = True
    request = anna.commit(("foo", 0, 100))
    harness.advance(4_999)
    assert request.is_pending
    harness.advance(1)
    assert request.codes == {FOO: E.COORDINATOR_NOT_AVAILABLE}
    assert harness.fetch(foo=(0,)).offsets == {FOO: -1}
    harness.complete_append()
    assert harness.fetch(foo=(0,)).offsets == {FOO: 100}


def test_each_pending_append_has_its_own_deadline() -> None:
    harness = GroupHarness()
    harness.log_delays_appends = True
    first = harness.commit(("foo", 0, 100))
    harness.advance(3_000)
    second = harness.commit(("foo", 0, 200))
    harness.advance(2_000)
    assert (first.is_pending, second.is_pending) == (False, True)
    harness.advance(3_000)
    assert second.codes == {FOO: E.COORDINATOR_NOT_AVAILABLE}


def test_transactional_offsets_replace_a_commit_that_was_written_before_them() -> None:
    harness = GroupHarness()
    harness.log_delays_appends = True
    harness.commit(("foo", 0, 200))
    harness.commit_in_transaction(10, ("foo", 0, 100))
    harness.complete_append()
    harness.end_transaction(10, committed=True)
    assert harness.fetch(foo=(0,)).offsets == {FOO: 100}


def test_a_pending_append_is_identified_by_the_number_of_its_event() -> None:
    harness = GroupHarness()
    harness.log_delays_appends = True
    harness.client("anna").send_join()
    harness.commit(("foo", 0, 100))
    numbers = {type(event).__name__: number for number, event in enumerate(harness.events, 1)}
    assert list(harness.group.pending_appends) == [numbers["GroupCreated"], numbers["OffsetsWritten"]]


@pytest.mark.parametrize(
    "delete", [lambda harness: harness.delete_offsets(foo=(0,)), lambda harness: harness.delete_topic("foo")]
)
def test_a_deleted_offset_does_not_return_when_the_log_commits_it(delete: Callable[[GroupHarness], object]) -> None:
    harness = GroupHarness()
    harness.log_delays_appends = True
    harness.commit(("foo", 0, 100), ("bar", 0, 5))
    delete(harness)
    harness.complete_append()
    assert harness.fetch_all().offsets == {("bar", 0): 5}


def test_an_old_offset_with_a_newer_pending_append_does_not_expire() -> None:
    harness = GroupHarness(offsets_retention_minutes=1)
    harness.commit(("foo", 0, 100))
    harness.advance(60_000)
    harness.log_delays_appends = True
    harness.commit(("foo", 0, 200))
    assert harness.expire_offsets() == []


def test_a_group_whose_only_offset_is_not_committed_yet_is_not_deleted() -> None:
    harness = GroupHarness()
    harness.log_delays_appends = True
    harness.commit(("foo", 0, 100))
    assert harness.expire_offsets() == []
    harness.complete_append()
    assert harness.fetch(foo=(0,)).offsets == {FOO: 100}


# Other responses


def test_the_response_to_a_heartbeat_waits_for_pending_appends() -> None:
    harness = GroupHarness()
    [anna] = harness.reach_stable("anna")
    harness.log_delays_appends = True
    anna.commit()
    heartbeats = [anna.heartbeat(), anna.heartbeat()]
    assert [heartbeat.is_pending for heartbeat in heartbeats] == [True, True]
    harness.complete_append()
    assert [heartbeat.code for heartbeat in heartbeats] == [E.NONE, E.NONE]


def test_a_record_is_delayed_behind_an_earlier_pending_append() -> None:
    harness = GroupHarness()
    harness.log_delays_appends = True
    first = harness.commit(("foo", 0, 100))
    harness.log_delays_appends = False
    second = harness.commit(("foo", 0, 200))
    assert (first.is_pending, second.is_pending) == (True, True)
    harness.complete_append()
    assert (first.is_pending, second.is_pending) == (False, True)
    harness.complete_append()
    assert harness.commit(("foo", 0, 300)).codes == {FOO: E.NONE}
    assert harness.fetch(foo=(0,)).offsets == {FOO: 300}


def test_a_failover_loses_pending_appends() -> None:
    harness = GroupHarness()
    harness.commit(("foo", 0, 100))
    harness.log_delays_appends = True
    pending = harness.commit(("foo", 0, 200))
    [loaded] = harness.fail_over()
    assert pending.codes == {FOO: E.NOT_COORDINATOR}
    assert harness.fetch(foo=(0,)).offsets == {FOO: 100}
    assert "records that Kafka's log had written and not committed" in getattr(loaded, "lost", ())


def test_a_commit_that_waits_for_the_log_succeeds_when_its_group_is_deleted() -> None:
    harness = GroupHarness()
    harness.log_delays_appends = True
    commit = harness.commit(("foo", 0, 100))
    assert harness.delete_group().code is E.NONE
    assert commit.codes == {FOO: E.NONE}
    assert not harness.group.exists
    assert harness.complete_append(append_number=2).events == ()


def test_the_response_to_a_transactional_commit_waits_for_pending_appends() -> None:
    harness = GroupHarness()
    harness.log_delays_appends = True
    harness.commit(("foo", 0, 100))
    request = harness.commit_in_transaction(10, ("bar", 0, 1))
    assert request.is_pending
    harness.complete_append()
    assert request.codes == {("bar", 0): E.NONE}


def test_when_the_creation_of_a_group_is_lost_every_request_that_waits_for_it_is_refused() -> None:
    harness = GroupHarness()
    harness.log_delays_appends = True
    harness.client("anna").send_join()
    request = harness.commit(("foo", 0, 100))
    assert (request.is_pending, len(harness.group.pending_appends)) == (True, 2)
    harness.fail_append(E.NOT_LEADER_OR_FOLLOWER)
    assert request.codes == {FOO: E.NOT_COORDINATOR}


def test_a_pending_append_times_out_once() -> None:
    harness = GroupHarness()
    harness.log_delays_appends = True
    harness.commit(("foo", 0, 100))
    harness.advance(1_000)
    harness.commit(("foo", 0, 101))
    harness.advance(10_000)
    timed_out = [event.append_number for event in harness.events if isinstance(event, AppendTimedOut)]
    assert timed_out == list(harness.group.pending_appends)


def test_a_replacement_that_times_out_is_answered_with_coordinator_not_available() -> None:
    harness = GroupHarness()
    anna, ben = harness.reach_stable("anna", "ben", static=True)
    ben.restart()
    harness.log_delays_appends = True
    request = ben.send_join()
    harness.advance(4_999, heartbeating=[anna])
    assert request.is_pending
    harness.advance(1)
    assert (request.code, request.response.generation_id) == (E.COORDINATOR_NOT_AVAILABLE, -1)


def test_the_response_to_a_leave_waits_for_pending_appends() -> None:
    harness = GroupHarness()
    anna, ben = harness.reach_stable("anna", "ben")
    harness.log_delays_appends = True
    anna.commit()
    leave = ben.leave()
    assert (leave.is_pending, harness.member_ids) == (True, ["anna"])
    harness.complete_append()
    assert leave.code is E.NONE
