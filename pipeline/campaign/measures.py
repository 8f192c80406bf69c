"""What a run of a campaign costs after its start: figures that mean the same for both protocols of groups.

    measures = measures_of(outcome)
    measures.disturbed_ownerless_s, measures.convergence_s, measures.reconciliations

They begin with the first disturbance of the plan: how a group forms, and what that costs, is not in them. Only
`reconciliations` and `live_removals` are of the whole run.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from regroup.coordinator.consumer.events import (
    MemberReconciled,
    MemberSubscribed,
    StaticConsumerReplaced,
    TargetAssigned,
)
from regroup.coordinator.consumer_group import ReconciliationState
from regroup.coordinator.events import Event, MemberJoined, MemberLeft, MemberRemoved, StaticMemberReplaced
from regroup.coordinator.serialization import decode_event
from regroup.lab.plan.plan import SimulationPlan
from regroup.lab.plan.steps import Crashes, Joins, Leaves, Restarts, RestartsWithoutInstanceId
from regroup.lab.simulation.run import RunOutcome
from regroup.lab.simulation.virtual_clock import START_MS
from regroup.pipeline.campaign.scenarios import disturbances_ms

NEVER_MS: Final = 2**62
MEMBERSHIP_EVENTS: Final = frozenset(
    {
        "member-joined",
        "member-subscribed",
        "static-member-replaced",
        "static-consumer-replaced",
        "member-left",
        "member-removed",
    }
)
"""The types of the events with which a member id begins, gets a new process, or ends."""


@dataclass(frozen=True, slots=True)
class RunMeasures:
    """The measures of one run, as columns of `DIR/runs`."""

    reconciliations: int
    """How many target assignments the coordinator computed for members of the consumer protocol."""
    disturbances: int
    """How many times something happened to the group, such as the crash of a member."""
    disturbed_ownerless_s: float
    """As `ownerless_s`, from the first disturbance on."""
    convergence_s: float
    """Seconds from a disturbance to the last change of an owner before the next one: the mean of the run."""
    live_removals: int
    """How many members the coordinator removed although their processes had not ended, such as paused ones."""


def measures_of(outcome: RunOutcome) -> RunMeasures:
    """Compute the measures of a run from its plan, its events, and what its members believed they owned."""
    times = disturbances_ms(outcome.plan)
    unowned = outcome.verdict.unowned_partitions
    durations = [*convergences_ms(times, unowned)]
    return RunMeasures(
        reconciliations=sum(1 for _ in computed_targets(outcome)),
        disturbances=len(times),
        disturbed_ownerless_s=ownerless_ms(unowned, min(times, default=0), outcome.ended_ms) / 1000,
        convergence_s=sum(durations) / len(durations) / 1000 if durations else 0.0,
        live_removals=live_removals(outcome.plan, membership_events(outcome)),
    )


def computed_targets(outcome: RunOutcome) -> Iterator[TargetAssigned]:
    for record in outcome.records:
        if record.type == "target-assigned":
            event = decode_event(record)
            assert isinstance(event, TargetAssigned)
            if event.targets:
                yield event


def has_stable_member(outcome: RunOutcome) -> bool:
    """Whether at some time a member of the consumer protocol had all partitions that the target assigned to it."""
    for record in outcome.records:
        if record.type == "member-reconciled":
            event = decode_event(record)
            if isinstance(event, MemberReconciled) and event.state is ReconciliationState.STABLE and event.assigned:
                return True
    return False


def convergences_ms(times: list[int], unowned: Mapping[int, int]) -> Iterator[int]:
    """Yield for each disturbance how long it took until the last change of owners before the next disturbance.

    0 if there was no such change. `times` are those of the disturbances; `unowned` has the times of changes.
    """
    for begin_ms, end_ms in pairwise([*times, NEVER_MS]):
        yield max((at_ms - begin_ms for at_ms in unowned if begin_ms <= at_ms < end_ms), default=0)


def ownerless_ms(unowned: Mapping[int, int], begin_ms: int, end_ms: int) -> int:
    """The time without an owner between `begin_ms` and `end_ms`, summed over the partitions.

    `unowned` has the number of partitions without an owner from each time on.
    """
    total = 0
    for (from_ms, count), (to_ms, _) in pairwise([*sorted(unowned.items()), (end_ms, 0)]):
        total += count * max(0, to_ms - max(from_ms, begin_ms))
    return total


def membership_events(outcome: RunOutcome) -> Iterator[Event]:
    for record in outcome.records:
        if record.type in MEMBERSHIP_EVENTS:
            yield decode_event(record)


def live_removals(plan: SimulationPlan, events: Iterable[Event]) -> int:
    """How many members the coordinator removed although the process that had joined with their member id went on.

    A member that crashed, or was closed, before its removal does not count, also if its next process had started. A
    member id is remembered after its end: a coordinator that loads the group from Kafka's log may have it again.
    """
    periods, count = process_periods_ms(plan), 0
    joined: dict[str, tuple[str, int]] = {}  # by member id, the name of the member, and when the process joined
    ended: set[str] = set()
    for event in events:
        at_ms = event.at_ms - START_MS
        match event:
            case MemberJoined() | MemberSubscribed():
                if event.member_id not in joined or event.member_id in ended:
                    joined[event.member_id] = (event.profile.client_id, at_ms)
                ended.discard(event.member_id)
            case StaticMemberReplaced() | StaticConsumerReplaced():
                name, _ = joined[event.replaced_member_id]
                joined[event.member_id] = (name, at_ms)
            case MemberLeft():
                ended.add(event.member_id)
            case MemberRemoved():
                ended.add(event.member_id)
                name, joined_ms = joined[event.member_id]
                count += any(start <= joined_ms and at_ms < end for start, end in periods.get(name, ()))
    return count


def process_periods_ms(plan: SimulationPlan) -> dict[str, list[tuple[int, int]]]:
    """By the name of a member, when each of its processes started and ended, in ms since the start of the run."""
    found: dict[str, list[tuple[int, int]]] = {}
    for each in sorted(plan.steps, key=lambda each: each.trigger.delay_ms):
        step, at_ms = each.step, each.trigger.delay_ms
        if isinstance(step, Crashes | Leaves | Restarts | RestartsWithoutInstanceId):
            periods = found[step.member]
            periods[-1] = (periods[-1][0], at_ms)
            if isinstance(step, Restarts | RestartsWithoutInstanceId):
                periods.append((at_ms + step.delay_ms, NEVER_MS))
        elif isinstance(step, Joins):
            found.setdefault(step.member, []).append((at_ms, NEVER_MS))
    return found
