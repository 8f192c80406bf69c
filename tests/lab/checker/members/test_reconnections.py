"""A client that cannot connect waits for a backoff that doubles: an attempt at any other time is found."""

from itertools import pairwise

import pytest

from regroup.lab.checker.members.member_invariants import MemberViolation
from regroup.lab.checker.members.reconnections import WAITS_TO_RECONNECT, Reconnections, Target

BROKER = ("broker", 9092)
COORDINATOR, ANY_BROKER = Target("coordinator", BROKER), Target("any broker", None)


class Dialling:
    """Anna as the lab sees her connections, and the clock of the run."""

    def __init__(self) -> None:
        self.now_ms = 1_000
        self.found: list[MemberViolation] = []
        self.dials = Reconnections("anna", lambda: self.now_ms, self.found.extend)

    def dial(self, *after_ms: int, target: Target = COORDINATOR, opens: bool = False) -> None:
        """Send a request, and connect so much later; then once more, for each of these times."""
        for wait_ms in after_ms:
            self.dials.on_send(target)
            self.now_ms += wait_ms
            self.dials.on_dialled(self.dials.on_dial(target), is_open=opens)

    @property
    def sentences(self) -> list[str]:
        return [each.sentence for each in self.found]


def test_a_backoff_that_doubles_up_to_a_second_is_in_order() -> None:
    anna = Dialling()
    anna.dial(0, 50, 100, 200, 400, 800, 1_000, 1_000)
    anna.dial(0, 50, target=ANY_BROKER)
    assert anna.sentences == []


@pytest.mark.parametrize("waits_ms", [(0, 25), (0, 200), (0, 50, 50), (0, 0), (0, 50, 100, 200, 400, 800, 1_600)])
def test_another_wait_is_found(waits_ms: tuple[int, ...]) -> None:
    anna = Dialling()
    anna.dial(*waits_ms)
    assert anna.sentences == [WAITS_TO_RECONNECT]


def test_a_fifth_more_or_less_is_in_order_as_in_kafka() -> None:
    anna = Dialling()
    anna.dial(0, 41, 119)
    assert anna.sentences == []


def test_a_connection_that_was_open_begins_without_a_backoff() -> None:
    anna = Dialling()
    anna.dial(0, 50)
    anna.dial(100, opens=True)
    anna.dial(0, opens=True)
    anna.dial(0, 50)
    assert anna.sentences == []


def test_requests_that_wait_for_a_connection_open_no_other_one() -> None:
    anna = Dialling()
    anna.dial(0)
    anna.dials.on_send(COORDINATOR)
    anna.now_ms += 30
    anna.dial(20)
    assert anna.sentences == []


def test_an_attempt_that_was_due_goes_on_after_the_connection_was_dropped() -> None:
    anna = Dialling()
    anna.dial(0)
    anna.dials.on_send(COORDINATOR)
    anna.now_ms += 30
    anna.dials.on_disconnected(lambda target: True)
    anna.dials.on_send(COORDINATOR)
    for before_ms, after_ms in pairwise((30, 50, 80)):
        anna.now_ms += after_ms - before_ms
        anna.dials.on_dialled(anna.dials.on_dial(COORDINATOR), is_open=False)
    assert anna.sentences == []


@pytest.mark.parametrize("wait_ms", [0, 50])
def test_a_dropped_attempt_that_fails_when_the_next_one_is_needed_may_count_or_not(wait_ms: int) -> None:
    anna = Dialling()
    anna.dials.on_send(COORDINATOR)
    dropped = anna.dials.on_dial(COORDINATOR)
    anna.dials.on_disconnected(lambda target: True)
    anna.now_ms += 10_000
    anna.dials.on_send(COORDINATOR)
    anna.dials.on_dialled(dropped, is_open=False)
    anna.now_ms += wait_ms
    anna.dials.on_dial(COORDINATOR)
    assert anna.sentences == []
