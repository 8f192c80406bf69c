"""Groups of many members of the consumer protocol: a step of one member leads to a look at that member alone."""

from collections.abc import Iterator

from regroup.coordinator.consumer import events as ce
from regroup.coordinator.consumer_group import ConsumerProfile, ReconciliationState
from regroup.coordinator.events import Event, MemberLeft
from regroup.coordinator.evolve import evolve, fold
from regroup.coordinator.group import Group
from regroup.coordinator.invariants import violations_of_group, violations_since
from regroup.coordinator.layered_mapping import LAYERED_FROM
from tests.counted_calls import calls_of

PROFILE = ConsumerProfile(rebalance_timeout_ms=5_000, session_timeout_ms=10_000, subscribed_topics=("orders",))


def growing(size: int) -> Iterator[Event]:
    """A group whose members have all got one partition, but for the last one."""
    yield ce.ConsumerGroupCreated(at_ms=0)
    for number in range(size):
        yield ce.MemberSubscribed(at_ms=0, member_id=f"m{number}", profile=PROFILE)
    yield ce.GroupEpochBumped(at_ms=0, group_epoch=2)
    targets = {f"m{number}": {"t": (number,)} for number in range(size)}
    yield ce.TargetAssigned(at_ms=0, assignment_epoch=2, assigned_at_ms=0, targets=targets)
    yield from (step(number) for number in range(size - 1))


def step(number: int) -> Event:
    return ce.MemberReconciled(
        at_ms=1,
        member_id=f"m{number}",
        state=ReconciliationState.STABLE,
        epoch=2,
        previous_epoch=0,
        assigned={"t": {number: 2}},
    )


def calls_after(size: int, event: Event) -> int:
    """The function calls that it takes to find the violations after an event of a group of this size."""
    sound = fold(Group(group_id="g"), growing(size))
    after = evolve(sound, event)
    assert violations_of_group(sound) == violations_of_group(after) == []
    return calls_of(lambda: violations_since(sound, after))


def test_a_step_of_a_member_takes_as_many_calls_in_a_group_of_any_size() -> None:
    calls = calls_after(LAYERED_FROM, step(LAYERED_FROM - 1))
    assert calls_after(1_000, step(999)) <= calls + 10


def test_a_member_that_leaves_does_not_take_calls_for_each_of_the_others() -> None:
    left = MemberLeft(at_ms=2, member_id="m7", reason="")
    assert calls_after(1_000, left) < 2 * calls_after(LAYERED_FROM, left)
