"""Draws what clients send that are no members of the plan, or use the id of one: requests that are rarely sent.

    steps = draw_client_situations(random_stream, plan, duration_ms)

Each kind has a random stream of its own, so that in all other plans a seed draws what it drew before.
"""

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Final

from regroup.lab.plan.plan import MemberPlan, PlannedStep, SimulationPlan
from regroup.lab.plan.rare_steps import (
    CommitsByInstanceIdAlone,
    NewMemberCommitsAndJoins,
    OldEpochIsSent,
    OldGenerationIsSent,
    OtherBrokerIsAsked,
    RackIsLeftOut,
    StableOffsetsAreFetched,
)
from regroup.lab.plan.steps import (
    AbandonsTransaction,
    GroupIsDeleted,
    Joins,
    KafkaLogFails,
    Leaves,
    MemberIsExpelled,
    NewMemberFallsSilent,
    OffsetsAreAltered,
    OffsetsAreDeleted,
    SimulationStep,
    SlowKafkaLog,
)
from regroup.lab.plan.triggers import StepTrigger
from regroup.lab.plan.validation import CLASSIC, CONSUMER
from regroup.lab.search.situations.unusual import DEFAULT_COMMIT_TIMEOUT_MS
from regroup.lab.search.swarm_faults import LOG_ERROR_NAMES

INSTANCE_COMMIT_SHARE: Final = 1 / 12
"""The share of plans in which a transactional producer names an instance id, and neither member id nor generation."""
OTHER_BROKER_SHARE: Final = 1 / 6
"""The share of plans with several brokers in which a client takes another one for the coordinator of a group."""
OLD_EPOCH_SHARE: Final = 1 / 2
"""The share of plans with the consumer protocol in which old heartbeats arrive."""
OLD_GENERATION_SHARE: Final = 1 / 4
"""The share of plans in which requests of members arrive with the generation before."""
STABLE_FETCH_SHARE: Final = 1 / 2
"""The share of plans with records in which stable offsets are fetched while others wait for Kafka's log."""
PATTERN_DELETION_SHARE: Final = 1 / 2
"""The share of plans with patterns in which an administrator is to delete offsets of topics that they match."""
DELETED_GROUP_SHARE: Final = 1 / 5
"""The share of plans in which an administrator deletes a group that has no members, and its members come back."""
DELETED_CONSUMER_GROUP_SHARE: Final = 1 / 2
"""The same of plans whose members all use the consumer protocol."""


def draw_client_situations(
    random_stream: Callable[[str], Random], plan: SimulationPlan, duration_ms: int
) -> Iterator[PlannedStep]:
    """Draw what other clients send: mostly nothing. `random_stream` makes a random stream from the name of a part of
    the plan, `duration_ms` is for how long there are faults."""
    names, groups = list(plan.members), list(dict.fromkeys(each.group for each in plan.members.values()))
    classic = [name for name, each in plan.members.items() if each.protocol == CLASSIC]
    consumers = [name for name, each in plan.members.items() if each.protocol == CONSUMER]
    commits = random_stream("commits by instance ids")
    if commits.random() < INSTANCE_COMMIT_SHARE:
        for _ in range(3):
            yield _at_drawn_time(commits, duration_ms, CommitsByInstanceIdAlone(commits.choice(names)))
    others = random_stream("other brokers")
    if plan.brokers > 1 and others.random() < OTHER_BROKER_SHARE:
        for _ in range(3):
            yield _at_drawn_time(others, duration_ms, OtherBrokerIsAsked(others.choice(groups)))
    epochs = random_stream("old epochs")
    if consumers and epochs.random() < OLD_EPOCH_SHARE:
        for _ in range(6):
            yield _at_drawn_time(epochs, duration_ms, OldEpochIsSent(epochs.choice(consumers)))
    generations = random_stream("old generations")
    if generations.random() < OLD_GENERATION_SHARE:
        for _ in range(8):
            api = generations.choice(("Heartbeat", "SyncGroup", "OffsetCommit"))
            yield _at_drawn_time(generations, duration_ms, OldGenerationIsSent(api, generations.choice(names)))
    fetches = random_stream("stable offsets")
    if plan.workload.records_per_s and fetches.random() < STABLE_FETCH_SHARE:
        yield from draw_stable_fetches(fetches, plan, fetches.choice(names))
    patterns = random_stream("offsets of patterns")
    matching = [each for each in plan.members.values() if each.pattern]
    if matching and patterns.random() < PATTERN_DELETION_SHARE:
        for _ in range(4):
            member = patterns.choice(matching)
            step = OffsetsAreDeleted(patterns.choice(member.topics), member.group)
            yield _at_drawn_time(patterns, duration_ms, step)
    deletions = random_stream("deleted groups")
    if deletions.random() < (DELETED_GROUP_SHARE if classic else DELETED_CONSUMER_GROUP_SHARE):
        yield from draw_deleted_group(deletions, plan, deletions.choice(groups))
    if classic and consumers:
        group = plan.members[consumers[0]].group
        racks = random_stream("racks")
        for _ in range(3):
            yield _at_drawn_time(racks, duration_ms, RackIsLeftOut(group))
        yield from draw_joins_after_commits(random_stream("joins after commits"), plan, classic)
        yield from draw_downgrade(random_stream("downgrades"), group, {each: plan.members[each] for each in consumers})


def _at_drawn_time(rng: Random, duration_ms: int, step: SimulationStep) -> PlannedStep:
    return PlannedStep(StepTrigger(delay_ms=rng.randrange(duration_ms) // 100 * 100), step)


def draw_stable_fetches(rng: Random, plan: SimulationPlan, member: str) -> Iterator[PlannedStep]:
    """Draw the steps in which an administrator fetches the stable offsets of a member's group again and again, while
    Kafka's log takes nearly as long for each commit as the coordinator waits."""
    milestone, at_ms, for_ms = f"{member} sends OffsetCommit", rng.choice((2_000, 20_000)), 30_000
    timeout_ms = int(plan.settings.get("offsets.commit.timeout.ms", DEFAULT_COMMIT_TIMEOUT_MS))
    yield PlannedStep(StepTrigger(milestone, at_ms), SlowKafkaLog(timeout_ms * 4 // 5, for_ms))
    fetch = StableOffsetsAreFetched(plan.members[member].group)
    for _ in range(8):
        yield PlannedStep(StepTrigger(milestone, at_ms + rng.randrange(for_ms) // 100 * 100), fetch)


def draw_joins_after_commits(rng: Random, plan: SimulationPlan, classic: Sequence[str]) -> Iterator[PlannedStep]:
    """Draw the steps in which new members join a mixed group while offsets wait for Kafka's log, which then refuses
    them: before the coordinator has given them up.

    Where no records are read, one of the new members has committed the offsets.
    """
    name, reads = rng.choice(classic), bool(plan.workload.records_per_s)
    milestone = f"{name} sends OffsetCommit" if reads else f"{name} is assigned partitions"
    at_ms, group = rng.choice((30_000, 60_000, 120_000)), plan.members[name].group
    timeout_ms = int(plan.settings.get("offsets.commit.timeout.ms", DEFAULT_COMMIT_TIMEOUT_MS))
    refuses = KafkaLogFails(rng.choice(LOG_ERROR_NAMES), 10_000, latency_ms=timeout_ms * 4 // 5)
    yield PlannedStep(StepTrigger(milestone, at_ms), refuses)
    joins = NewMemberFallsSilent(group) if reads else NewMemberCommitsAndJoins(group)
    for delay_ms in (1_000, 5_000, 7_000):
        yield PlannedStep(StepTrigger(milestone, at_ms + delay_ms), joins)


def draw_downgrade(rng: Random, group: str, consumers: dict[str, MemberPlan]) -> Iterator[PlannedStep]:
    """Draw the steps in which a classic member has joined a mixed group, and not synced, when all members of the
    consumer protocol leave. They come back while it is still there."""
    milestone, at_ms = f"{rng.choice(list(consumers))} is assigned partitions", rng.choice((20_000, 60_000, 120_000))
    yield PlannedStep(StepTrigger(milestone, at_ms), NewMemberFallsSilent(group))
    for name, planned in consumers.items():
        yield PlannedStep(StepTrigger(milestone, at_ms + 1_000), Leaves(name))
        if planned.instance_id is not None:  # a static member that leaves is away, and still in the group
            yield PlannedStep(StepTrigger(milestone, at_ms + 1_200), MemberIsExpelled(name))
        yield PlannedStep(StepTrigger(milestone, at_ms + rng.choice((2_000, 4_000))), Joins(name))


def draw_deleted_group(rng: Random, plan: SimulationPlan, group: str) -> Iterator[PlannedStep]:
    """Draw the steps in which all members of a group leave, and an administrator deletes the group before they come
    back: sometimes twice, after a change of its offsets, or with a transaction that is open. Static members may be away
    then, so that the group has members."""
    names = [name for name, each in plan.members.items() if each.group == group]
    milestone, at_ms = f"{rng.choice(names)} is assigned partitions", rng.choice((20_000, 60_000, 120_000))

    def after(delay_ms: int, step: SimulationStep) -> PlannedStep:
        return PlannedStep(StepTrigger(milestone, at_ms + delay_ms), step)

    topic, expels = rng.choice(list(plan.topics)), rng.random() < 0.5
    for name in names:
        yield after(0, Leaves(name))
        if expels:  # a static member that leaves is still in its group
            yield after(500, MemberIsExpelled(name))
    deletes, alters = GroupIsDeleted(group), OffsetsAreAltered(topic, group, 0)
    others = rng.choice(((deletes,), (deletes, alters), (alters, deletes), (OffsetsAreDeleted(topic, group), deletes)))
    if rng.random() < 0.5 or isinstance(others[0], OffsetsAreDeleted):
        for name in names:
            yield after(-3_000, AbandonsTransaction(name))
    for number, step in enumerate((*others, deletes) if rng.random() < 0.5 else others):
        yield after(1_500 + 500 * number, step)
    for name in names:
        yield after(5_000 + rng.choice((0, 3_000)), Joins(name))
