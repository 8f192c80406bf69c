"""Draws what shows only if several things happen in a certain order, which faults at drawn times rarely do.

    steps = draw_sequences(random_stream, plan, duration_ms)

Each sequence has a random stream of its own, and is part of few plans: in all others a seed draws what it drew before.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random
from typing import Final

from regroup.lab.plan.flawed_requests import CLASSIC_FLAWED_REQUESTS, FLAWED_REQUESTS, UPGRADE_ATTEMPTS
from regroup.lab.plan.plan import MemberPlan, PlannedStep, SimulationPlan
from regroup.lab.plan.steps import (
    AbortsTransaction,
    BrokersCrash,
    BrokerStops,
    CommitsInTransaction,
    DiskFails,
    GroupIsDescribed,
    InvalidRequestIsSent,
    KafkaLogFails,
    Leaves,
    NewMemberFallsSilent,
    OffsetsAreDeleted,
    PowerFails,
    Restarts,
    SimulationStep,
    StaysOutsidePoll,
)
from regroup.lab.plan.triggers import StepTrigger
from regroup.lab.plan.validation import CLASSIC, CONSUMER
from regroup.lab.search.swarm_faults import LOG_ERROR_NAMES
from regroup.lab.search.swarm_protocols import MIGRATION_POLICY, has_consumer_protocol

DEPARTURE_SHARE: Final = 1 / 12
"""The share of plans in which all members leave, so that the group stays Empty."""
COORDINATOR_DEATH_SHARE: Final = 1 / 12
"""The share of plans in which the coordinator dies between the outcome of a transaction and its end."""

NEW_MEMBER_WAITS_MS: Final = 300_000
"""How long Kafka lets a new member wait for its first generation."""
LONG_JOIN_SHARE: Final = 1 / 3
"""The share of plans with very patient members in which a new member waits for its first generation until it is
removed."""
POLL_TIMEOUT_SHARE: Final = 1 / 3
"""The share of plans with the consumer protocol in which a member stays outside poll() for too long."""
LOST_RETURN_SHARE: Final = 1 / 6
"""The share of plans with static members in which Kafka's log refuses the return of one of them."""
LOOK_SHARE: Final = 1 / 6
"""The share of plans in which an administrator describes groups."""
FLAW_SHARE: Final = 1 / 12
"""The share of plans in which a client sends requests that have to be refused."""


def draw_sequences(
    random_stream: Callable[[str], Random], plan: SimulationPlan, duration_ms: int
) -> Iterator[PlannedStep]:
    """Draw the sequences of a plan: mostly none.

    `random_stream` makes a random stream from the name of a part of the plan, `duration_ms` is for how long there are
    faults.
    """
    members, groups = list(plan.members), list(dict.fromkeys(each.group for each in plan.members.values()))
    departure = random_stream("departure")
    if departure.random() < DEPARTURE_SHARE:
        at_ms = departure.randrange(duration_ms // 2) // 100 * 100
        yield from departure_of(members, at_ms)
        yield from draw_deletions(random_stream("deletions after departure"), plan, groups, at_ms, duration_ms)
    death = random_stream("coordinator death")
    if death.random() < COORDINATOR_DEATH_SHARE:
        yield from draw_coordinator_death(death, death.choice(members), plan.brokers)
    loss = random_stream("coordinator death in a transaction")
    if loss.random() < COORDINATOR_DEATH_SHARE:
        yield from draw_death_in_transaction(loss, loss.choice(members))
    static_members = [name for name, each in plan.members.items() if each.instance_id is not None]
    patient = [
        name
        for name, each in plan.members.items()
        if each.protocol == CLASSIC and each.max_poll_interval_ms > NEW_MEMBER_WAITS_MS
    ]
    long_join = random_stream("long joins")
    if patient and long_join.random() < LONG_JOIN_SHARE:
        name = long_join.choice(patient)
        yield from long_join_of(name, plan.members[name])
    late_poll = random_stream("late polls")
    consumers = [name for name, each in plan.members.items() if each.protocol == CONSUMER]
    if consumers and late_poll.random() < POLL_TIMEOUT_SHARE:
        name = late_poll.choice(consumers)
        yield from draw_late_poll(late_poll, name, plan.members[name].max_poll_interval_ms)
    returns = random_stream("lost returns")
    if static_members and returns.random() < LOST_RETURN_SHARE:
        yield from draw_lost_return(returns, returns.choice(static_members), duration_ms)
    looks = random_stream("descriptions")
    if looks.random() < LOOK_SHARE:
        yield from _at_drawn_times(looks, duration_ms, lambda: GroupIsDescribed(looks.choice(groups)))
    flaws = random_stream("flawed requests")
    if flaws.random() < FLAW_SHARE:
        known = FLAWED_REQUESTS if has_consumer_protocol(plan.members) else CLASSIC_FLAWED_REQUESTS
        yield from _at_drawn_times(
            flaws, duration_ms, lambda: InvalidRequestIsSent(flaws.choice(groups), flaws.choice(known))
        )

    if MIGRATION_POLICY in plan.settings:
        yield from draw_upgrade_attempts(random_stream("upgrade attempts"), groups, duration_ms)


def draw_deletions(
    rng: Random, plan: SimulationPlan, groups: Sequence[str], from_ms: int, duration_ms: int
) -> Iterator[PlannedStep]:
    """Draw the steps in which an administrator deletes offsets of groups that all members have left; in half of the
    plans there are none."""
    for _ in range(rng.choice((0, 0, 1, 3))):
        at_ms = min(from_ms + rng.randrange(1_000, 120_000), duration_ms - 1) // 100 * 100
        deleted = OffsetsAreDeleted(rng.choice(list(plan.topics)), rng.choice(groups))
        yield PlannedStep(StepTrigger(delay_ms=at_ms), deleted)


def draw_upgrade_attempts(rng: Random, groups: Sequence[str], duration_ms: int) -> Iterator[PlannedStep]:
    """Draw the steps in which a client of the consumer protocol tries to join classic groups, by which they might
    change their protocol: at drawn times, and while a group rebalances."""
    for _ in range(rng.choice((3, 10))):
        attempt = InvalidRequestIsSent(rng.choice(groups), rng.choice(UPGRADE_ATTEMPTS))
        milestone = rng.choice(
            ("", *(f"the group is {each}" for each in ("PreparingRebalance", "CompletingRebalance")))
        )
        delay_ms = rng.choice((0, 1, 100, 2_000)) if milestone else rng.randrange(duration_ms) // 10 * 10
        yield PlannedStep(StepTrigger(milestone, delay_ms), attempt)


def _at_drawn_times(rng: Random, duration_ms: int, step: Callable[[], SimulationStep]) -> Iterator[PlannedStep]:
    for _ in range(rng.choice((3, 10))):
        yield PlannedStep(StepTrigger(delay_ms=rng.randrange(duration_ms) // 10 * 10), step())


def departure_of(members: Iterable[str], at_ms: int) -> Iterator[PlannedStep]:
    """The steps in which all members leave at this time of the run."""
    for each in members:
        yield PlannedStep(StepTrigger(delay_ms=at_ms), Leaves(each))


def long_join_of(member: str, planned: MemberPlan) -> Iterator[PlannedStep]:
    """The steps in which a new member waits for a rebalance that this member delays, for longer than Kafka lets a new
    member wait."""
    begins = f"{member} is assigned partitions"
    outside_ms = min(planned.max_poll_interval_ms, 2 * NEW_MEMBER_WAITS_MS) - 1_000
    yield PlannedStep(StepTrigger(begins), StaysOutsidePoll(member, outside_ms))
    yield PlannedStep(StepTrigger(begins, 1_000), NewMemberFallsSilent(planned.group))


def draw_late_poll(rng: Random, member: str, max_poll_interval_ms: int) -> Iterator[PlannedStep]:
    """Draw the step in which a member that has got partitions stays outside poll() beyond `max.poll.interval.ms`."""
    outside_ms = max_poll_interval_ms + rng.choice((1_000, 30_000))
    trigger = StepTrigger(f"{member} is assigned partitions", rng.choice((0, 5_000)))
    yield PlannedStep(trigger, StaysOutsidePoll(member, outside_ms))


def draw_lost_return(rng: Random, member: str, duration_ms: int) -> Iterator[PlannedStep]:
    """Draw the steps in which a static member restarts, and Kafka's log refuses the record of its new member id."""
    at_ms = rng.randrange(duration_ms) // 100 * 100
    away_ms, refuses_ms = rng.choice((500, 2_000)), rng.choice((3_000, 10_000))
    yield PlannedStep(StepTrigger(delay_ms=at_ms), Restarts(member, away_ms))
    yield PlannedStep(StepTrigger(delay_ms=at_ms), KafkaLogFails(rng.choice(LOG_ERROR_NAMES), away_ms + refuses_ms))


def draw_coordinator_death(rng: Random, member: str, brokers: int) -> Iterator[PlannedStep]:
    """Draw the steps in which a member's producer ends a transaction, and its coordinator dies when the outcome is
    stored and the offsets are not yet committed."""
    ends = CommitsInTransaction(member) if rng.random() < 0.75 else AbortsTransaction(member)
    yield PlannedStep(StepTrigger(f"{member} is assigned partitions", rng.choice((0, 1_000, 10_000))), ends)
    deaths: list[SimulationStep] = [
        BrokersCrash(rng.choice((100, 2_000, 20_000))),
        PowerFails(rng.choice((100, 2_000))),
        DiskFails(),
    ]
    if brokers > 1:
        deaths.append(BrokerStops(rng.randrange(brokers), rng.choice((500, 20_000))))
    yield PlannedStep(StepTrigger(f"{member}'s transaction is prepared"), rng.choice(deaths))


def draw_death_in_transaction(rng: Random, member: str) -> Iterator[PlannedStep]:
    """Draw the steps in which the coordinator dies while a member's offsets wait for the end of their transaction. The
    producer then ends it at the next coordinator."""
    begins = StepTrigger(f"{member} is assigned partitions", rng.choice((1_000, 20_000, 60_000)))
    yield PlannedStep(begins, CommitsInTransaction(member))
    yield PlannedStep(StepTrigger(f"{member} sends EndTxn"), BrokersCrash(rng.choice((100, 2_000))))
