"""Draws the plan of a simulation from a seed. Every option is drawn, also which kinds of faults a run has at all (swarm
testing).

    plan = draw_plan(7)

A run with every kind of fault rarely gets deep into any of them; a run with three kinds does. Each part of a plan has a
random stream of its own, seeded by text, so the same seed gives the same plan everywhere.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from random import Random
from typing import Final

from msgspec.structs import replace

from regroup.lab.plan.plan import MemberPlan, PlannedStep, SimulationPlan
from regroup.lab.plan.steps import Crashes, Joins, Leaves, Restarts, SimulationStep
from regroup.lab.plan.triggers import StepTrigger
from regroup.lab.search.situations.clients import draw_client_situations
from regroup.lab.search.situations.large_groups import LARGE_GROUP_SHARE, draw_large_group
from regroup.lab.search.situations.memberships import (
    draw_memberships,
    with_cut_off_revocation,
    with_different_topics,
    with_taken_instance_id,
)
from regroup.lab.search.situations.mixed_groups import draw_mixed_situations
from regroup.lab.search.situations.open_transactions import draw_open_transactions
from regroup.lab.search.situations.sequences import draw_sequences
from regroup.lab.search.situations.topics import (
    draw_growth,
    draw_narrow_subscriptions,
    draw_recreation,
    with_unknown_topic,
)
from regroup.lab.search.situations.transforms import TRANSFORM_SHARE, with_transform
from regroup.lab.search.situations.unusual import draw_situations, with_variations
from regroup.lab.search.swarm_faults import FAULT_KINDS, LOSABLE_APIS, FaultDraw
from regroup.lab.search.swarm_members import draw_expiry, draw_release, vary_members
from regroup.lab.search.swarm_protocols import (
    CONSUMER_APIS,
    CONSUMER_SHARE,
    draw_consumer_settings,
    draw_migration_policy,
    draw_new_topics,
    draw_patterns,
    draw_protocols,
    draw_slow_revoker,
    has_consumer_protocol,
)
from regroup.lab.search.swarm_setup import (
    DRAWN_MEMBER_NAMES,
    draw_members,
    draw_network,
    draw_partitioner,
    draw_settings,
    draw_topics,
    draw_workload,
    within_poll_interval,
)

__all__ = ["draw_plan"]

TEN_MINUTES_MS: Final = 600_000
METADATA_MAX_AGE_MS: Final = 300_000
"""A member refreshes its metadata at least this often, so it sees a change of its topics within this time."""
TOPIC_DELETION_FAULTS: Final = ("a topic is deleted", "a topic is created")
DRAWN_MILESTONES: Final = (
    "{member} has joined",
    "{member} is elected leader",
    "{member} is assigned partitions",
    "{member} revokes partitions",
    "{member} sends JoinGroup",
    "{member} sends SyncGroup",
    "{member} sends LeaveGroup",
    "{member} sends OffsetCommit",
    "{member} sends TxnOffsetCommit",
    "{member} sends EndTxn",
    "{member} receives the EndTxn response",
    "{member} receives the JoinGroup response",
    "{member} receives the SyncGroup response",
    "{member} is removed",
    "{member} has stopped",
    "the group is PreparingRebalance",
    "the group is CompletingRebalance",
    "the group is Stable",
    "the group is Empty",
    "generation {number} begins",
)
"""The milestones for which steps of a drawn plan wait."""


def draw_plan(
    seed: int,
    *,
    max_members: int = len(DRAWN_MEMBER_NAMES),
    faults: Sequence[str] = tuple(FAULT_KINDS),
    duration_ms: int = TEN_MINUTES_MS,
    consumer_share: float = CONSUMER_SHARE,
    transform_share: float = TRANSFORM_SHARE,
    large_group_share: float = LARGE_GROUP_SHARE,
    has_sequences: bool = True,
) -> SimulationPlan:
    """Draw the plan of a seed: `duration_ms` with faults of some of the kinds `faults`, then time to recover.

    The kinds are keys of `FAULT_KINDS`. `consumer_share` is the share of plans with members of the consumer protocol,
    `transform_share` of those with members that transform records, which have up to two readers beside `max_members`.
    With `has_sequences` some plans have sequences of steps, too. Both need all kinds of faults. Where `max_members` is
    not lowered either, some delete topics of sticky assignors and create them again, and the share `large_group_share`
    of all plans are short ones with a large group.
    """
    if unknown := [fault for fault in faults if fault not in FAULT_KINDS]:
        raise ValueError(f"unknown fault: {unknown[0]!r}; known are {', '.join(FAULT_KINDS)}")

    random_stream = partial(_random_stream, seed)
    has_all_faults = len(faults) == len(FAULT_KINDS)
    large = random_stream("large group")
    if has_all_faults and max_members == len(DRAWN_MEMBER_NAMES) and large.random() < large_group_share:
        return draw_large_group(large, seed, consumer_share)
    setup = _draw_setup(seed, max_members, consumer_share)
    steps = _joins_and_faults(seed, setup, faults, duration_ms)
    if has_sequences and has_all_faults:
        setup = _add_situations(random_stream, setup, steps, duration_ms)
        steps += draw_growth(random_stream("growth"), setup, duration_ms)
        steps += draw_narrow_subscriptions(random_stream("narrow subscriptions"), setup, duration_ms)
        if max_members == len(DRAWN_MEMBER_NAMES):
            steps += draw_recreation(random_stream("topic created again"), setup, steps, duration_ms)
    plan = replace(
        setup,
        # Steps that wait for a milestone come first, since a reader sees by the time when the others happen.
        steps=tuple(sorted(steps, key=lambda each: (not each.trigger.milestone, each.trigger.delay_ms))),
        faults_end_ms=duration_ms,
        recovery_timeout_ms=_recovery_timeout_ms(setup.members),
    )
    plan = with_transform(random_stream("transform"), plan, transform_share) if has_all_faults else plan
    if has_sequences and has_all_faults:
        plan = with_different_topics(random_stream("different topics"), plan)
        plan = with_taken_instance_id(random_stream("taken instance id"), plan)
        plan = with_cut_off_revocation(random_stream("cut off revocation"), plan)
        plan = with_unknown_topic(random_stream("unknown topic"), plan)
    return plan


def _add_situations(
    random_stream: Callable[[str], Random], setup: SimulationPlan, steps: list[PlannedStep], duration_ms: int
) -> SimulationPlan:
    """Add sequences of steps and rare situations to `steps`. Returns the setup with the variations that they need."""
    steps += draw_new_topics(random_stream("new topics"), setup.members, duration_ms)
    steps += draw_sequences(random_stream, setup, duration_ms)
    setup = with_variations(random_stream, setup)
    steps += draw_situations(random_stream, setup, duration_ms)
    steps += draw_mixed_situations(random_stream("mixed groups"), setup, duration_ms)
    steps += draw_client_situations(random_stream, setup, duration_ms)
    steps += draw_memberships(random_stream, setup, duration_ms)
    steps += draw_open_transactions(random_stream, setup, duration_ms)
    return setup


def _random_stream(seed: int, part: str) -> Random:
    return Random(f"{seed}/plan/{part}")


def _joins_and_faults(seed: int, setup: SimulationPlan, faults: Sequence[str], duration_ms: int) -> list[PlannedStep]:
    """Draw the steps in which members join, and those with faults of some of these kinds."""
    members = list(setup.members)
    losable_apis = CONSUMER_APIS if has_consumer_protocol(setup.members) else LOSABLE_APIS
    groups = list(dict.fromkeys(each.group for each in setup.members.values()))
    rng = _random_stream(seed, "happenings")
    draw = FaultDraw(rng, members, setup.brokers, setup.topics, losable_apis, groups)
    kinds = drawn_faults(seed, _usable(faults, setup.members))
    return [*_joins(draw, duration_ms), *_faults(draw, kinds, duration_ms)]


def _draw_setup(seed: int, max_members: int, consumer_share: float) -> SimulationPlan:
    """Draw everything but the steps: brokers, topics, members, settings, network, disk and workload."""
    random_stream = partial(_random_stream, seed)
    topics = draw_topics(random_stream("topics"))
    members = draw_members(random_stream("members"), list(topics), max_members)
    protocols = random_stream("group protocol")
    members = draw_protocols(protocols, members, consumer_share)
    members = draw_patterns(random_stream("patterns"), vary_members(random_stream("each member"), members))
    members = draw_slow_revoker(random_stream("slow revoker"), members)
    settings = draw_settings(random_stream("settings"), len(members)) | draw_expiry(random_stream("expiry"))
    if has_consumer_protocol(members):
        settings |= draw_consumer_settings(protocols)
    release = draw_release(random_stream("release"), members)
    settings |= draw_migration_policy(random_stream("migration policy"), members, release)
    workload = draw_partitioner(random_stream("partitioner"), draw_workload(random_stream("workload")))
    return SimulationPlan(
        title=f"Seed {seed}",
        seed=seed,
        brokers=random_stream("brokers").choices((1, 2, 3), (6, 3, 1))[0],
        release=release,
        settings=settings,
        topics=topics,
        members=members,
        network=draw_network(random_stream("network")),
        disk_latency_ms=random_stream("disk").choice((0, 0, 1, 5, 20)),
        workload=within_poll_interval(workload, members.values()),
    )


def drawn_faults(seed: int, faults: Sequence[str] = tuple(FAULT_KINDS)) -> list[str]:
    """Draw the kinds of faults in the run of a seed. They are in the order of `FAULT_KINDS`."""
    rng = _random_stream(seed, "kinds")
    share = rng.choice((0.05, 0.1, 0.2, 0.4))
    return [fault for fault in faults if rng.random() < share] or [rng.choice(list(faults))]


def _usable(faults: Sequence[str], members: Mapping[str, MemberPlan]) -> list[str]:
    """The kinds of faults that these members allow: without deleting and creating topics if one has a sticky assignor,
    or the consumer protocol: a simulated member of it keeps the id under which it met a topic first.

    Kafka's sticky assignors keep partitions that no longer exist when a topic was created again with fewer partitions.
    Such a group may fail for ever, or assign a partition to two members; that is Kafka's behaviour, not a finding.
    `draw_recreation` draws topics that are created again with as many or more.
    """
    keeps_topics = has_consumer_protocol(members) or any(
        "sticky" in assignor for member in members.values() for assignor in member.assignors
    )
    return [fault for fault in faults if not keeps_topics or fault not in TOPIC_DELETION_FAULTS] or list(faults)


def _joins(draw: FaultDraw, duration_ms: int) -> Iterator[PlannedStep]:
    """Draw the steps in which all members join: at once, or one after the other."""
    spread_ms = min(draw.choice([0, 2_000, 20_000, 120_000]), duration_ms - 1)
    for member in draw.members:
        yield PlannedStep(StepTrigger(delay_ms=draw.rng.randint(0, spread_ms) // 100 * 100), Joins(member))


def _faults(draw: FaultDraw, kinds: Sequence[str], duration_ms: int) -> Iterator[PlannedStep]:
    """Draw the steps with faults: spread evenly over the time, or in a few bursts; some of them after milestones."""
    bursts = [draw.rng.randint(0, duration_ms) for _ in range(draw.choice([1, 3]))] if draw.rng.random() < 0.4 else []
    milestone_share = draw.choice([0.0, 0.3, 0.7])
    for _ in range(draw.choice([3, 6, 12, 25])):
        step = FAULT_KINDS[draw.choice(kinds)](draw)
        if draw.rng.random() < milestone_share:
            trigger = StepTrigger(_milestone(draw, step), draw.choice([0, 0, draw.duration_ms(1, 5_000)]))
        else:
            at_ms = draw.choice(bursts) + draw.duration_ms(10, 10_000) if bursts else draw.rng.randint(0, duration_ms)
            trigger = StepTrigger(delay_ms=min(at_ms, duration_ms - 1) // 10 * 10)
        yield PlannedStep(trigger, step)
        if isinstance(step, Crashes | Leaves) and draw.rng.random() < 0.7:
            rejoin_ms = min(trigger.delay_ms + draw.duration_ms(10, 60_000), duration_ms - 1)
            yield PlannedStep(StepTrigger(trigger.milestone, rejoin_ms), Joins(step.member))
        if isinstance(step, Restarts) and len(draw.members) > 1 and draw.rng.random() < 0.4:
            # Another member restarts before this one is back.
            other = draw.choice([each for each in draw.members if each != step.member])
            during_ms = min(trigger.delay_ms + draw.rng.randint(0, step.delay_ms), duration_ms - 1)
            yield PlannedStep(StepTrigger(trigger.milestone, during_ms), Restarts(other, draw.duration_ms(100, 90_000)))


def _milestone(draw: FaultDraw, step: SimulationStep) -> str:
    """Draw a milestone for a step: often one of the member that the step is about, so that leaders fall silent, too."""
    own, template = getattr(step, "member", None), draw.choice(DRAWN_MILESTONES)
    member = own if own is not None and draw.rng.random() < 0.3 else draw.member()
    return template.format(member=member, number=draw.rng.randint(1, 12))


def _recovery_timeout_ms(members: Mapping[str, MemberPlan]) -> int:
    """How long a drawn plan gives its groups to recover, in milliseconds.

    It is the time in which members refresh their metadata, and wait for the slowest one in two rebalances.
    """
    slowest_ms = max(member.max_poll_interval_ms + member.session_timeout_ms for member in members.values())
    return METADATA_MAX_AGE_MS + 2 * slowest_ms + 60_000
