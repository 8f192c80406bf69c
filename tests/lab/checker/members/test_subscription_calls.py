"""When an application unsubscribes and subscribes again: before it processes a second batch."""

from regroup.lab.checker.members.subscription_calls import CALLS_BETWEEN_BATCHES, SubscriptionCalls
from regroup.members.runtime.notes import FaultEnded


def due_calls(count: int = 1) -> SubscriptionCalls:
    calls = SubscriptionCalls()
    for _ in range(count):
        calls.on_due("anna")
    return calls


def batches(calls: SubscriptionCalls, *times_ms: int) -> list[str]:
    """The sentences that are violated when anna processes a batch of two records at each of these times."""
    found = [calls.on_record("anna", each) for each in times_ms for _ in range(2)]
    return [each.sentence for each in found if each]


def test_a_call_comes_after_one_batch_at_most() -> None:
    assert batches(due_calls(), 1_000) == []
    assert set(batches(due_calls(), 1_000, 1_200)) == {CALLS_BETWEEN_BATCHES}


def test_after_its_call_a_member_processes_any_number_of_batches() -> None:
    calls = due_calls()
    assert batches(calls, 1_000) == []
    calls.on_called("anna")
    assert batches(calls, 1_200, 1_400) == []


def test_a_second_call_is_awaited_as_well() -> None:
    calls = due_calls(2)
    calls.on_called("anna")
    assert batches(calls, 1_000, 1_200) != []


def test_a_process_that_has_ended_makes_no_call() -> None:
    calls = due_calls()
    calls.on_new_life("anna")
    assert batches(calls, 1_000, 1_200) == []


def test_a_process_that_is_started_again_makes_no_call_of_the_former_one() -> None:
    calls = due_calls()
    calls.on_note("anna", FaultEnded("paused"))
    assert batches(calls, 1_000, 1_200) != []
    calls.on_note("anna", FaultEnded("restarting"))
    assert batches(calls, 1_400, 1_600) == []


def test_batches_of_others_do_not_count() -> None:
    calls = due_calls()
    assert [calls.on_record("ben", each) for each in (1_000, 1_200)] == [None, None]
