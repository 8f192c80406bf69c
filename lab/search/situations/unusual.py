"""Draws situations that faults at drawn times do not lead to: unusual requests, late records, refused commits, members
that change their subscription or their protocol.

    plan = with_variations(random_stream, plan)
    steps = draw_situations(random_stream, plan, duration_ms)

Each has a random stream of its own, so that in all other plans a seed draws what it drew before.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Final

from msgspec.structs import replace

from regroup.lab.plan.flawed_requests import ODD_REQUESTS
from regroup.lab.plan.plan import MemberPlan, PlannedStep, SimulationPlan
from regroup.lab.plan.rare_steps import (
    CommitsWithoutGeneration,
    ErrorIsUnknown,
    ResponseIsLate,
    Unsubscribes,
)
from regroup.lab.plan.steps import (
    BecomesZombie,
    CutOff,
    GroupIsDescribed,
    InvalidRequestIsSent,
    Joins,
    KafkaLogFails,
    MemberIsExpelled,
    NewMemberDoesNotReturn,
    OffsetsAreAltered,
    RequestLost,
    RequestsRebalance,
    SimulationStep,
    SlowKafkaLog,
    SlowNetwork,
    StaysOutsidePoll,
)
from regroup.lab.plan.triggers import StepTrigger
from regroup.lab.plan.validation import CLASSIC, CONSUMER
from regroup.lab.search.swarm_faults import LOG_ERROR_NAMES
from regroup.lab.search.swarm_members import draw_doubling_leaders
from regroup.lab.search.swarm_protocols import draw_new_topics, draw_pattern, has_consumer_protocol, is_mixed
from regroup.lab.search.swarm_setup import BUILT_IN_RECORDS_PER_S, draw_built_in_producer
from regroup.members.runtime.workload import Workload

RandomStream = Callable[[str], Random]

PATTERN_SHARE: Final = 1 / 12
"""The share of plans of classic groups in which members subscribe to patterns."""
ODD_REQUEST_SHARE: Final = 1 / 8
"""The share of plans in which a client lists an assignor twice, or commits with generation 0."""
LATE_RECORD_SHARE: Final = 1 / 12
"""The share of plans in which Kafka's log does not commit records within `offsets.commit.timeout.ms`."""
WITHOUT_GENERATION_SHARE: Final = 1 / 12
"""The share of plans in which a transactional producer names its member and no generation."""
UNKNOWN_ERROR_SHARE: Final = 1 / 12
"""The share of plans in which members get error codes that they do not know."""
UNKNOWN_COMMIT_ERROR_SHARE: Final = 1 / 3
"""The share of plans with records in which a commit is answered with an error code that no client knows."""
UNSUBSCRIBING_SHARE: Final = 1 / 12
"""The share of plans with classic members in which one unsubscribes, and subscribes again later."""
LATE_ERROR_SHARE: Final = 1 / 12
"""The share of plans with classic members in which one is to unsubscribe while its JoinGroup is in flight, whose
response then has an error code that no client knows. In about half of these it gets the error that late."""
UNSUBSCRIBING_READER_SHARE: Final = 1 / 2
"""The share of plans with records and classic members in which one unsubscribes again and again while it reads."""
REFUSED_COMMIT_SHARE: Final = 1 / 2
"""The share of plans with records in which dynamic members are removed while they read."""
ZOMBIE_SHARE: Final = 1 / 4
"""The share of plans with records in which a member becomes a zombie while it reads."""
LATE_FETCH_SHARE: Final = 1 / 2
"""The share of plans with records in which a dynamic classic member is removed while a Fetch is in flight, whose
response comes when the member may have its partitions again."""
REMOVAL_TAKES_MS: Final = 10_000
"""More than the time from the first to the last of its steps."""
LOWERED_OFFSET_SHARE: Final = 1 / 4
"""The share of plans with records in which a group begins to read in the middle, and is set back to the beginning."""
MIXED_RECORDS_SHARE: Final = 2 / 3
"""The share of plans with members of both protocols, and without records, that get some: their members commit then."""
LOST_CREATION_SHARE: Final = 1 / 2
"""The share of plans with the consumer protocol in which the log loses the classic group whose place theirs takes."""
DEFAULT_COMMIT_TIMEOUT_MS: Final = 5_000
"""Kafka's default of `offsets.commit.timeout.ms`."""
REQUEST_TIMEOUT_MS: Final = 30_000


def with_variations(random_stream: RandomStream, plan: SimulationPlan) -> SimulationPlan:
    """A plan with keys of drawn lengths, in some with built-in partitioners; some of mixed groups get records, a few of
    classic groups get members that subscribe to patterns, and a few get leaders that assign a partition twice.
    """
    workload = draw_key_bytes(random_stream("key bytes"), plan.workload)
    workload = draw_built_in_producer(random_stream("built-in producers"), workload)
    records = random_stream("records of mixed groups")
    if is_mixed(plan.members) and not workload.records_per_s and records.random() < MIXED_RECORDS_SHARE:
        workload = Workload(records_per_s=records.choice((0.2, 0.5)))
    members = draw_doubling_leaders(random_stream("doubling leaders"), plan.members)
    plan = replace(plan, workload=workload, members=members)
    rng = random_stream("patterns of classic members")
    if has_consumer_protocol(plan.members) or rng.random() >= PATTERN_SHARE:
        return plan
    members = {
        name: replace(each, pattern=draw_pattern(rng, each.topics)) if rng.random() < 0.5 else each
        for name, each in plan.members.items()
    }
    return replace(plan, members=members)


def draw_key_bytes(rng: Random, workload: Workload) -> Workload:
    """The workload, if its records have keys, with a least length for them: murmur2 takes four bytes at a time."""
    key_bytes = rng.choice((0, 8, 8, 11, 12))
    return dataclasses.replace(workload, key_bytes=key_bytes) if workload.keys else workload


def draw_situations(random_stream: RandomStream, plan: SimulationPlan, duration_ms: int) -> Iterator[PlannedStep]:
    """Draw the situations of a plan: mostly none. `random_stream` makes a random stream from the name of a part of the
    plan, `duration_ms` is for how long there are faults."""
    groups = list(dict.fromkeys(each.group for each in plan.members.values()))
    classic = [name for name, each in plan.members.items() if each.protocol == CLASSIC]
    consumers = [name for name, each in plan.members.items() if each.protocol == CONSUMER]
    if not consumers:
        yield from draw_new_topics(random_stream("new topics of classic members"), plan.members, duration_ms)
        for name in [name for name, each in plan.members.items() if each.pattern]:
            yield _at(0, RequestLost(name, "Metadata"))  # so that it does not know the topics when it could join
            # When it subscribes again, it knows its coordinator, and has to wait for the topics alone.
            yield _at(random_stream(f"absence of {name}").randrange(duration_ms), Unsubscribes(name, 5_000))
    odd = random_stream("odd requests")
    if odd.random() < ODD_REQUEST_SHARE:
        yield from draw_odd_requests(odd, groups, duration_ms)
    late = random_stream("late records")
    if late.random() < LATE_RECORD_SHARE:
        yield from draw_late_records(late, plan, duration_ms)
    unnamed = random_stream("commits without a generation")
    if unnamed.random() < WITHOUT_GENERATION_SHARE:
        for _ in range(3):
            yield _at(unnamed.randrange(duration_ms), CommitsWithoutGeneration(unnamed.choice(list(plan.members))))
    unknown = random_stream("unknown errors")
    if classic and unknown.random() < UNKNOWN_ERROR_SHARE:
        for api in ("Heartbeat", unknown.choice(("Heartbeat", "JoinGroup", "SyncGroup"))):
            yield _at(unknown.randrange(duration_ms), ErrorIsUnknown(unknown.choice(classic), api))
    unsubscribing = random_stream("unsubscribing members")
    if classic and unsubscribing.random() < UNSUBSCRIBING_SHARE:
        step = Unsubscribes(unsubscribing.choice(classic), unsubscribing.choice((5_000, 30_000)))
        yield _at(unsubscribing.randrange(duration_ms), step)
    late_errors = random_stream("late errors")
    if classic and late_errors.random() < LATE_ERROR_SHARE:
        yield from draw_late_error(late_errors, late_errors.choice(classic))
    if plan.workload.records_per_s:
        yield from draw_reading_situations(random_stream, plan, classic, consumers, duration_ms)
    lost = random_stream("lost creations")
    if consumers and lost.random() < LOST_CREATION_SHARE:
        yield from draw_lost_creation(lost, plan.members[consumers[0]].group, consumers)


def _at(at_ms: int, step: SimulationStep) -> PlannedStep:
    return PlannedStep(StepTrigger(delay_ms=at_ms // 100 * 100), step)


def draw_late_error(rng: Random, member: str) -> Iterator[PlannedStep]:
    """Draw the steps in which a member unsubscribes while its JoinGroup waits for others, and the response has an error
    that its application gets when it subscribes again."""
    milestone, at_ms = f"{member} sends JoinGroup", rng.choice((100, 1_000))
    yield PlannedStep(StepTrigger(milestone, at_ms), ErrorIsUnknown(member, "JoinGroup"))
    yield PlannedStep(StepTrigger(milestone, at_ms), Unsubscribes(member, rng.choice((5_000, 30_000))))


def draw_odd_requests(rng: Random, groups: Sequence[str], duration_ms: int) -> Iterator[PlannedStep]:
    """Draw the steps in which a client sends odd requests: at drawn times, and when the group has become Empty."""
    for request in ODD_REQUESTS:
        for _ in range(3):
            yield _at(rng.randrange(duration_ms), InvalidRequestIsSent(rng.choice(groups), request))
        trigger = StepTrigger("the group is Empty", rng.choice((100, 1_000)))
        yield PlannedStep(trigger, InvalidRequestIsSent(rng.choice(groups), request))


def draw_late_records(rng: Random, plan: SimulationPlan, duration_ms: int) -> Iterator[PlannedStep]:
    """Draw the steps in which Kafka's log takes longer for each record than a coordinator waits: while members join
    again, and when offsets are committed one after the other before there are any members."""
    timeout_ms = int(plan.settings.get("offsets.commit.timeout.ms", DEFAULT_COMMIT_TIMEOUT_MS))
    group, topic = next(iter(plan.members.values())).group, next(iter(plan.topics))
    yield _at(0, SlowKafkaLog(3 * timeout_ms, 4 * timeout_ms))
    for at_ms in (0, timeout_ms // 2, timeout_ms // 2 + 200):
        yield _at(at_ms, OffsetsAreAltered(topic, group, 0))
    for _ in range(rng.choice((1, 3))):
        at_ms = rng.randrange(duration_ms)
        late_ms = timeout_ms + rng.choice((100, 2_000, timeout_ms))
        yield _at(at_ms, SlowKafkaLog(late_ms, late_ms + rng.choice((5_000, 20_000))))
        for _ in range(2):
            rejoins_ms = min(at_ms + rng.randrange(5_000), duration_ms - 1)
            yield _at(rejoins_ms, RequestsRebalance(rng.choice(list(plan.members))))


def draw_lost_creation(rng: Random, group: str, consumers: Sequence[str]) -> Iterator[PlannedStep]:
    """Draw the steps in which members of the consumer protocol join while Kafka's log has yet to commit the creation of
    a classic group without members, which it then refuses."""
    refuses = KafkaLogFails(rng.choice(LOG_ERROR_NAMES), 20_000, latency_ms=rng.choice((500, 2_000, 5_000)))
    at_ms = rng.choice((700, 1_000, 2_000))
    yield _at(0, refuses)
    yield _at(0, GroupIsDescribed(group))  # by this request there is a coordinator
    yield _at(at_ms, NewMemberDoesNotReturn(group))
    yield _at(at_ms + rng.choice((100, 400)), Joins(rng.choice(consumers)))


def draw_reading_situations(
    random_stream: RandomStream,
    plan: SimulationPlan,
    classic: Sequence[str],
    consumers: Sequence[str],
    duration_ms: int,
) -> Iterator[PlannedStep]:
    """Draw the situations of members that read records: refused commits, subscriptions that end, zombies, offsets that
    are set back."""
    refused = random_stream("refused commits")
    if classic and refused.random() < REFUSED_COMMIT_SHARE:
        yield from draw_refused_commits(refused, plan.members, classic)
    unknown = random_stream("unknown errors of commits")
    if classic and unknown.random() < UNKNOWN_COMMIT_ERROR_SHARE:
        for _ in range(2):
            yield _at(unknown.randrange(duration_ms), ErrorIsUnknown(unknown.choice(classic), "OffsetCommit"))
    readers = random_stream("unsubscribing readers")
    if classic and readers.random() < UNSUBSCRIBING_READER_SHARE:
        name = readers.choice(classic)
        for _ in range(4):
            yield _at(readers.randrange(duration_ms), Unsubscribes(name, 3_000))
    zombies = random_stream("zombies")
    if classic and zombies.random() < ZOMBIE_SHARE:
        trigger = StepTrigger(f"{(name := zombies.choice(classic))} is assigned partitions", 5_000)
        yield PlannedStep(trigger, BecomesZombie(name))
    late = random_stream("late records of members")
    dynamic = [name for name in classic if plan.members[name].instance_id is None]
    if dynamic and duration_ms > REMOVAL_TAKES_MS and late.random() < LATE_FETCH_SHARE:
        yield from draw_late_fetches(late, late.choice(dynamic), duration_ms)
    lowered = random_stream("lowered offsets")
    if lowered.random() < LOWERED_OFFSET_SHARE:
        yield from draw_lowered_offsets(lowered, plan, duration_ms)
    if plan.workload.records_per_s == BUILT_IN_RECORDS_PER_S:
        yield from draw_slow_responses(random_stream("slow responses to producers"), duration_ms)
    if consumers:
        fetches = random_stream("offset fetches of a fenced member")
        yield from draw_fetch_when_fenced(name := fetches.choice(consumers), plan.members[name].max_poll_interval_ms)


def draw_refused_commits(
    rng: Random, members: Mapping[str, MemberPlan], classic: Sequence[str]
) -> Iterator[PlannedStep]:
    """Draw the steps in which an administrator removes dynamic classic members between two of their commits."""
    for name in rng.sample(classic, min(2, len(classic))):
        trigger = StepTrigger(f"{name} sends OffsetCommit", rng.choice((0, 5_000)))
        if members[name].instance_id is None:
            yield PlannedStep(trigger, MemberIsExpelled(name))


def draw_late_fetches(rng: Random, member: str, duration_ms: int) -> Iterator[PlannedStep]:
    """Draw the steps in which an administrator removes a member while the response to its Fetch is late: when it has
    joined again, it reads on from the offset that it committed last.

    The member has not polled for a while, so that records are there when it fetches.
    """
    for _ in range(4):
        at_ms = rng.randrange(duration_ms - REMOVAL_TAKES_MS)
        yield _at(at_ms, StaysOutsidePoll(member, 6_000))
        yield _at(at_ms + 5_000, ResponseIsLate(member, "Fetch", rng.choice((8_000, 12_000, 20_000))))
        yield _at(at_ms + 6_500, MemberIsExpelled(member))


def draw_lowered_offsets(rng: Random, plan: SimulationPlan, duration_ms: int) -> Iterator[PlannedStep]:
    """Draw the steps in which an administrator sets the offsets of a group before its members join, and again to 0 when
    they have left."""
    group = next(iter(plan.members.values())).group
    for topic in plan.topics:
        yield _at(0, OffsetsAreAltered(topic, group, rng.choice((2, 5))))
        yield PlannedStep(StepTrigger("the group is Empty", rng.choice((0, 100))), OffsetsAreAltered(topic, group, 0))


def draw_slow_responses(rng: Random, duration_ms: int) -> Iterator[PlannedStep]:
    """Draw the steps in which the network is so slow that a producer sends batches before it has the responses to
    earlier ones."""
    for _ in range(2):
        slow = SlowNetwork(rng.choice((200, 400)), rng.choice((20_000, 60_000)), jitter_ms=rng.choice((0, 300)))
        yield _at(rng.randrange(duration_ms), slow)


def draw_fetch_when_fenced(member: str, max_poll_interval_ms: int) -> Iterator[PlannedStep]:
    """The steps in which a member of the consumer protocol asks for committed offsets without success until its poll
    timeout."""
    trigger = StepTrigger(f"{member} is assigned partitions")
    outside_ms = max_poll_interval_ms + 2 * REQUEST_TIMEOUT_MS
    yield PlannedStep(trigger, StaysOutsidePoll(member, outside_ms))
    yield PlannedStep(trigger, CutOff(member, "the brokers", outside_ms - 5_000))
