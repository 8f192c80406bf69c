"""Kafka's own log is slow, or loses it: committed offsets, and whoever else waits behind what is written."""

from collections.abc import Callable

import pytest

from regroup.coordinator.events import AppendLate
from regroup.protocol.errors import ErrorCode
from tests.coordinator.story import AS_SEEN_BY_CLIENTS, Story, behaviour

E = ErrorCode
FOO = ("foo", 0)


# Offsets


@behaviour("offset-commit.append-errors")
@pytest.mark.parametrize(("of_the_log", "of_the_coordinator"), AS_SEEN_BY_CLIENTS)
def test_a_commit_that_is_lost_never_was(of_the_log: ErrorCode, of_the_coordinator: ErrorCode) -> None:
    story = Story()
    [anna] = story.stable("anna")
    anna.commits(("foo", 0, 100))
    story.log_holds_back = True
    request = anna.commits(("foo", 0, 200), ("foo", 1, 200))
    assert request.is_parked
    story.the_log_loses(of_the_log)
    assert request.codes == {FOO: of_the_coordinator, ("foo", 1): of_the_coordinator}
    assert story.fetch_everything().offsets == {FOO: 100}


def test_a_simple_group_whose_only_commit_is_lost_never_was() -> None:
    story = Story()
    story.log_holds_back = True
    story.commit(("foo", 0, 100))
    story.the_log_loses(E.NOT_LEADER_OR_FOLLOWER)
    assert not story.group.exists


@behaviour("offset-fetch.committed-view", "offset-commit.member.stable")
def test_a_plain_fetch_sees_what_is_committed() -> None:
    story = Story()
    story.commit(("foo", 0, 100))
    story.log_holds_back = True
    commit = story.commit(("foo", 0, 200))
    assert story.fetch(foo=(0,)).offsets == {FOO: 100}
    story.the_log_commits()
    assert story.fetch(foo=(0,)).offsets == {FOO: 200}
    assert commit.codes == {FOO: E.NONE}


@behaviour("offset-fetch.require-stable.pending-plain-commit")
def test_a_fetch_of_stable_offsets_waits_for_what_is_written() -> None:
    story = Story()
    story.commit(("foo", 0, 100))
    story.log_holds_back = True
    story.commit(("foo", 0, 200))
    fetch = story.fetch_stable(foo=(0,))
    everything = story.fetch_everything(require_stable=True)
    assert fetch.is_parked
    story.the_log_commits()
    assert fetch.offsets == everything.offsets == {FOO: 200}


@behaviour("offset-fetch.require-stable.write-timeout")
def test_a_fetch_that_waited_in_vain_is_sent_elsewhere() -> None:
    story = Story()
    story.log_holds_back = True
    story.commit(("foo", 0, 200))
    fetch = story.fetch_stable(foo=(0,))
    story.passes(5_000)
    assert fetch.code is E.NOT_COORDINATOR


@behaviour("recovery.write-timeout")
def test_whoever_waits_too_long_is_told_so_and_the_record_may_be_committed_still() -> None:
    story = Story()
    [anna] = story.stable("anna")
    story.log_holds_back = True
    request = anna.commits(("foo", 0, 100))
    story.passes(4_999)
    assert request.is_parked
    story.passes(1)
    assert request.codes == {FOO: E.COORDINATOR_NOT_AVAILABLE}
    assert story.fetch(foo=(0,)).offsets == {FOO: -1}
    story.the_log_commits()
    assert story.fetch(foo=(0,)).offsets == {FOO: 100}


def test_each_record_has_its_own_deadline() -> None:
    story = Story()
    story.log_holds_back = True
    first = story.commit(("foo", 0, 100))
    story.passes(3_000)
    second = story.commit(("foo", 0, 200))
    story.passes(2_000)
    assert (first.is_parked, second.is_parked) == (False, True)
    story.passes(3_000)
    assert second.codes == {FOO: E.COORDINATOR_NOT_AVAILABLE}


def test_a_transaction_counts_after_a_commit_that_was_written_before_it() -> None:
    story = Story()
    story.log_holds_back = True
    story.commit(("foo", 0, 200))
    story.commit_in_transaction(10, ("foo", 0, 100))
    story.the_log_commits()
    story.end_transaction(10, committed=True)
    assert story.fetch(foo=(0,)).offsets == {FOO: 100}


def test_a_record_is_known_by_the_number_of_the_event_that_wrote_it() -> None:
    story = Story()
    story.log_holds_back = True
    story.consumer("anna").asks_to_join()
    story.commit(("foo", 0, 100))
    numbers = {type(event).__name__: number for number, event in enumerate(story.history, 1)}
    assert list(story.group.appends) == [numbers["GroupCreated"], numbers["OffsetsWritten"]]


@pytest.mark.parametrize(
    "forget", [lambda story: story.delete_offsets(foo=(0,)), lambda story: story.topic_is_deleted("foo")]
)
def test_what_is_forgotten_does_not_come_back_when_the_log_commits_it(forget: Callable[[Story], object]) -> None:
    story = Story()
    story.log_holds_back = True
    story.commit(("foo", 0, 100), ("bar", 0, 5))
    forget(story)
    story.the_log_commits()
    assert story.fetch_everything().offsets == {("bar", 0): 5}


def test_an_old_offset_that_is_about_to_be_replaced_is_not_forgotten() -> None:
    story = Story(offsets_retention_minutes=1)
    story.commit(("foo", 0, 100))
    story.passes(60_000)
    story.log_holds_back = True
    story.commit(("foo", 0, 200))
    assert story.is_cleaned_up() == []


def test_the_regular_look_leaves_a_group_alone_whose_first_offset_is_not_committed_yet() -> None:
    story = Story()
    story.log_holds_back = True
    story.commit(("foo", 0, 100))
    assert story.is_cleaned_up() == []
    story.the_log_commits()
    assert story.fetch(foo=(0,)).offsets == {FOO: 100}


# Whoever else waits


def test_a_heartbeat_waits_behind_what_is_written() -> None:
    story = Story()
    [anna] = story.stable("anna")
    story.log_holds_back = True
    anna.commits()
    beats = [anna.beats(), anna.beats()]
    assert [beat.is_parked for beat in beats] == [True, True]
    story.the_log_commits()
    assert [beat.code for beat in beats] == [E.NONE, E.NONE]


def test_the_log_keeps_its_order_so_nothing_overtakes_a_record_that_waits() -> None:
    story = Story()
    story.log_holds_back = True
    first = story.commit(("foo", 0, 100))
    story.log_holds_back = False
    second = story.commit(("foo", 0, 200))
    assert (first.is_parked, second.is_parked) == (True, True)
    story.the_log_commits()
    assert (first.is_parked, second.is_parked) == (False, True)
    story.the_log_commits()
    assert story.commit(("foo", 0, 300)).codes == {FOO: E.NONE}
    assert story.fetch(foo=(0,)).offsets == {FOO: 300}


def test_a_failover_forgets_what_was_not_committed() -> None:
    story = Story()
    story.commit(("foo", 0, 100))
    story.log_holds_back = True
    waiting = story.commit(("foo", 0, 200))
    [loaded] = story.fails_over()
    assert waiting.codes == {FOO: E.NOT_COORDINATOR}
    assert story.fetch(foo=(0,)).offsets == {FOO: 100}
    assert "what Kafka's log had written and not committed" in getattr(loaded, "forgotten", ())


def test_whoever_waits_for_a_group_that_is_deleted_is_answered_all_the_same() -> None:
    story = Story()
    story.log_holds_back = True
    commit = story.commit(("foo", 0, 100))
    assert story.delete().code is E.NONE
    assert commit.codes == {FOO: E.NONE}
    assert not story.group.exists
    assert story.the_log_commits(append=2).events == ()


def test_what_is_written_in_a_transaction_waits_behind_what_the_log_holds_back() -> None:
    story = Story()
    story.log_holds_back = True
    story.commit(("foo", 0, 100))
    request = story.commit_in_transaction(10, ("bar", 0, 1))
    assert request.is_parked
    story.the_log_commits()
    assert request.codes == {("bar", 0): E.NONE}


def test_with_a_group_that_never_was_goes_whoever_waited_for_anything_of_it() -> None:
    story = Story()
    story.log_holds_back = True
    story.consumer("anna").asks_to_join()
    request = story.commit(("foo", 0, 100))
    assert (request.is_parked, len(story.group.appends)) == (True, 2)
    story.the_log_loses(E.NOT_LEADER_OR_FOLLOWER)
    assert request.codes == {FOO: E.NOT_COORDINATOR}


def test_a_record_is_late_once() -> None:
    story = Story()
    story.log_holds_back = True
    story.commit(("foo", 0, 100))
    story.passes(1_000)
    story.commit(("foo", 0, 101))
    story.passes(10_000)
    late = [event.append for event in story.history if isinstance(event, AppendLate)]
    assert late == list(story.group.appends)


def test_a_restarted_member_whose_record_is_late_is_told_to_ask_again() -> None:
    story = Story()
    anna, ben = story.stable("anna", "ben", static=True)
    ben.restarts()
    story.log_holds_back = True
    request = ben.asks_to_join()
    story.passes(4_999, beating=[anna])
    assert request.is_parked
    story.passes(1)
    assert (request.code, request.answer.generation_id) == (E.COORDINATOR_NOT_AVAILABLE, -1)


def test_whoever_leaves_is_told_so_once_the_log_has_caught_up() -> None:
    story = Story()
    anna, ben = story.stable("anna", "ben")
    story.log_holds_back = True
    anna.commits()
    left = ben.leaves()
    assert (left.is_parked, story.members) == (True, ["anna"])
    story.the_log_commits()
    assert left.code is E.NONE
