"""Draws how memberships begin and end at unusual moments: a member is closed while it joins, a leader learns of the
topics of others while it asks for its own, a static member is fenced when it commits, a member is cut off when it gives
up partitions.

    steps = draw_memberships(random_stream, plan, duration_ms)
    plan = with_different_topics(random_stream("different topics"), plan)
    plan = with_taken_instance_id(random_stream("taken instance id"), plan)
    plan = with_cut_off_revocation(random_stream("cut off revocation"), plan)

Each situation has a random stream of its own, so that in all other plans a seed draws what it drew before.
"""

from collections.abc import Callable, Iterator
from random import Random
from typing import Final

from msgspec.structs import replace

from regroup.lab.plan.plan import PlannedStep, SimulationPlan
from regroup.lab.plan.rare_steps import CommitsUnsubscribed, InstanceIdIsTaken, ResponseIsLate, Unsubscribes
from regroup.lab.plan.steps import ALL_HOSTS, CutOff, Joins, Leaves, RequestsRebalance, SlowKafkaLog, SlowNetwork
from regroup.lab.plan.triggers import StepTrigger
from regroup.lab.plan.validation import CLASSIC, CONSUMER
from regroup.lab.search.swarm_protocols import SESSION_SETTINGS
from regroup.lab.search.swarm_setup import within_poll_interval

EARLY_DEPARTURE_SHARE: Final = 1 / 12
"""The share of plans with dynamic classic members in which one is closed while its first JoinGroup is in flight."""
REJOINING_DEPARTURE_SHARE: Final = 1 / 8
"""The share of plans with dynamic classic members in which one is closed, or unsubscribes, while it joins again."""
REPLACED_SYNC_SHARE: Final = 1 / 6
"""The share of plans with static classic members in which the instance id of one is taken while its SyncGroup is
held."""
DIFFERENT_TOPICS_SHARE: Final = 1 / 16
"""The share of plans in which classic members subscribe to different topics, and learn late which there are."""
UNSUBSCRIBED_COMMIT_SHARE: Final = 1 / 16
"""The share of plans in which a consumer that has not subscribed commits offsets of the group."""
TAKEN_ID_SHARE: Final = 1 / 2
"""The share of plans with records, and with classic members alone, in which another process takes the instance id of
one that is about to commit."""
CUT_OFF_SHARE: Final = 1 / 2
"""The share of plans with the consumer protocol in which a member is cut off when it gives up partitions."""
SHORT_REBALANCE_TIMEOUT_MS: Final = 8_000
"""Much shorter than Kafka's session timeout of 45 s for groups of the consumer protocol."""
OTHER_TOPICS: Final = {"orders": 2, "payments": 3}


def draw_memberships(
    random_stream: Callable[[str], Random], plan: SimulationPlan, duration_ms: int
) -> Iterator[PlannedStep]:
    """Draw these situations of a plan: mostly none. `random_stream` makes a random stream from the name of a part of
    the plan, `duration_ms` is for how long there are faults."""
    dynamic = [name for name, each in plan.members.items() if each.protocol == CLASSIC and each.instance_id is None]
    departures = random_stream("early departures")
    if dynamic and departures.random() < EARLY_DEPARTURE_SHARE:
        yield from draw_early_departure(departures, departures.choice(dynamic))
    rejoins = random_stream("departures while rejoining")
    if len(dynamic) > 1 and rejoins.random() < REJOINING_DEPARTURE_SHARE:
        yield from draw_departure_while_rejoining(rejoins, rejoins.choice(dynamic))
    static = [name for name, each in plan.members.items() if each.protocol == CLASSIC and each.instance_id is not None]
    replaced = random_stream("replaced while it syncs")
    if static and replaced.random() < REPLACED_SYNC_SHARE:
        yield from draw_replaced_sync(replaced, replaced.choice(static))
    unsubscribed = random_stream("commits without a subscription")
    if unsubscribed.random() < UNSUBSCRIBED_COMMIT_SHARE:
        group, topic = next(iter(plan.members.values())).group, unsubscribed.choice(list(plan.topics))
        commits = CommitsUnsubscribed(0, topic, group)  # beyond the end of the log a reader would start again
        for at_ms in (0, unsubscribed.randrange(duration_ms) // 100 * 100):
            yield PlannedStep(StepTrigger(delay_ms=at_ms), commits)
        yield PlannedStep(StepTrigger("the group is Empty", 100), commits)


def draw_early_departure(rng: Random, member: str) -> Iterator[PlannedStep]:
    """Draw the steps in which a member is closed when it has sent its first JoinGroup, and joins again later."""
    milestone = f"{member} sends JoinGroup"
    yield PlannedStep(StepTrigger(milestone), Leaves(member))
    yield PlannedStep(StepTrigger(milestone, rng.choice((500, 10_000))), Joins(member))


def draw_departure_while_rejoining(rng: Random, member: str) -> Iterator[PlannedStep]:
    """Draw the steps in which a member that has partitions joins again, and is closed or unsubscribes before it has the
    response: the coordinator waits for the JoinGroup of other members, which comes after their next heartbeat."""
    milestone, rejoin_ms = f"{member} is assigned partitions", rng.choice((2_000, 20_000))
    away_ms = rng.choice((500, 10_000))
    departs = Leaves(member) if rng.random() < 0.5 else Unsubscribes(member, away_ms)
    depart_ms = rejoin_ms + rng.choice((20, 100, 500))
    yield PlannedStep(StepTrigger(milestone, rejoin_ms), RequestsRebalance(member))
    yield PlannedStep(StepTrigger(milestone, depart_ms), departs)
    if isinstance(departs, Leaves):
        yield PlannedStep(StepTrigger(milestone, depart_ms + away_ms), Joins(member))


def draw_replaced_sync(rng: Random, member: str) -> Iterator[PlannedStep]:
    """Draw the steps in which a client takes the instance id of a member whose SyncGroup is held, because Kafka's log
    takes seconds for the leader's assignment. The member comes back later."""
    yield PlannedStep(StepTrigger(f"{member} sends JoinGroup"), SlowKafkaLog(rng.choice((2_000, 4_000)), 60_000))
    milestone = f"{member} sends SyncGroup"
    yield PlannedStep(StepTrigger(milestone, rng.choice((200, 1_000))), InstanceIdIsTaken(member))
    yield PlannedStep(StepTrigger(milestone, 20_000), Joins(member))


def with_different_topics(rng: Random, plan: SimulationPlan) -> SimulationPlan:
    """A plan of classic members that subscribe to different topics, and whose first Metadata responses come late;
    mostly the plan as it is.

    One that becomes the leader meanwhile has asked for its own topics alone, and has to ask for those of the others,
    too.
    """
    members = plan.members
    if rng.random() >= DIFFERENT_TOPICS_SHARE or len(members) < 2:
        return plan
    if any(each.protocol != CLASSIC or each.pattern or each.transforms_to for each in members.values()):
        return plan
    topics = plan.topics if len(plan.topics) > 1 else {**OTHER_TOPICS, **plan.topics}
    late_ms = rng.choice((10_000, 20_000))
    late = [PlannedStep(StepTrigger(), ResponseIsLate(name, "Metadata", late_ms)) for name in members]
    joins = [PlannedStep(StepTrigger(), Joins(name)) for name in list(members)[:2]]
    return replace(
        plan,
        topics=topics,
        members={
            name: replace(each, topics=(list(topics)[number % len(topics)],))
            for number, (name, each) in enumerate(members.items())
        },
        steps=(*late, *joins, *plan.steps),
    )


def with_taken_instance_id(rng: Random, plan: SimulationPlan) -> SimulationPlan:
    """A plan in which a client takes the instance id of a member shortly before the member's second commit, which is
    refused then. In half of them its application unsubscribes while the commit is in flight, and in three of four its
    heartbeats are rarer than its commits. Mostly the plan as it is."""
    names = [
        name
        for name, each in plan.members.items()
        if each.protocol == CLASSIC and not each.faults and not each.transforms_to
    ]
    is_classic = all(each.protocol == CLASSIC for each in plan.members.values())
    if not plan.workload.records_per_s or not names or not is_classic or rng.random() >= TAKEN_ID_SHARE:
        return plan
    name = rng.choice(names)
    taken = replace(plan.members[name], instance_id=f"{name}-taken", client="")
    if rng.random() < 0.75:
        rare_ms = max(taken.heartbeat_interval_ms, taken.session_timeout_ms // 3)
        taken = replace(taken, heartbeat_interval_ms=rare_ms, auto_commit_interval_ms=1_000)
    steps = draw_fenced_commit(rng, name, taken.auto_commit_interval_ms)
    return replace(plan, members={**plan.members, name: taken}, steps=(*plan.steps, *steps))


def draw_fenced_commit(rng: Random, member: str, interval_ms: int) -> Iterator[PlannedStep]:
    """Draw the steps in which the instance id of a member is taken before the commit that it makes `interval_ms` after
    the first one, and it comes back later."""
    milestone = f"{member} sends OffsetCommit"
    yield PlannedStep(StepTrigger(milestone, interval_ms - 400), InstanceIdIsTaken(member))
    if rng.random() < 0.5:
        yield PlannedStep(StepTrigger(milestone, interval_ms - 100), SlowNetwork(400, 2_000))
        yield PlannedStep(StepTrigger(milestone, interval_ms + 300), Unsubscribes(member, 5_000))
    yield PlannedStep(StepTrigger(milestone, interval_ms + 20_000), Joins(member))


def with_cut_off_revocation(rng: Random, plan: SimulationPlan) -> SimulationPlan:
    """A plan in which a member of the consumer protocol is cut off from the brokers when it gives up partitions, and
    removed at the end of its rebalance timeout, long before its session ends. Often the plan as it is."""
    names = [name for name, each in plan.members.items() if each.protocol == CONSUMER and not each.transforms_to]
    if len(names) < 2 or rng.random() >= CUT_OFF_SHARE:
        return plan
    return cut_off_revocation(plan, rng.choice(names))


def cut_off_revocation(plan: SimulationPlan, member: str) -> SimulationPlan:
    """The plan with a step in which this member is cut off when it gives up partitions, and with the timeouts that
    remove it meanwhile."""
    cut_off = replace(plan.members[member], max_poll_interval_ms=SHORT_REBALANCE_TIMEOUT_MS, faults=())
    step = PlannedStep(StepTrigger(f"{member} revokes partitions"), CutOff(member, ALL_HOSTS, 20_000))
    return replace(
        plan,
        members={**plan.members, member: cut_off},
        settings={name: value for name, value in plan.settings.items() if name not in SESSION_SETTINGS},
        steps=(*plan.steps, step),
        workload=within_poll_interval(plan.workload, [*plan.members.values(), cut_off]),
    )
