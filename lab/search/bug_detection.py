"""Detection of planted bugs: after how many seeds the lab finds one, and how small a plan shows it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final

from msgspec.structs import replace

from regroup.lab.plan.plan import NO_WORKLOAD, MemberPlan, NetworkPlan, PlannedStep, SimulationPlan
from regroup.lab.plan.rare_steps import OldEpochIsSent, OldGenerationIsSent
from regroup.lab.plan.steps import (
    BecomesZombie,
    GroupIsDescribed,
    Joins,
    Leaves,
    NewMemberFallsSilent,
    ResponseLost,
    Restarts,
    SimulationStep,
    SlowNetwork,
    StaysOutsidePoll,
    TopicGrows,
    TopicIsCreated,
)
from regroup.lab.plan.triggers import StepTrigger
from regroup.lab.plan.validation import CLASSIC, CONSUMER
from regroup.lab.planted_bugs.registry import CONSUMER_PROTOCOL_BUGS, TRANSACTION_BUGS
from regroup.lab.search.hunt import hunt
from regroup.lab.search.seed_run import Finding, fails_with, run_seed
from regroup.lab.search.shrink import FailurePredicate, shrink
from regroup.lab.search.situations.memberships import cut_off_revocation
from regroup.lab.search.situations.sequences import departure_of, draw_coordinator_death
from regroup.lab.search.swarm import TEN_MINUTES_MS, draw_plan
from regroup.lab.search.swarm_protocols import CONSUMER_APIS
from regroup.lab.simulation.run import play
from regroup.members.runtime.workload import Workload

MAX_SEEDS: Final = 500
MAX_SHRINK_RUNS: Final = 150
_LONG_SESSIONS: Final = {"session_timeout_ms": 60_000, "heartbeat_interval_ms": 3_000, "max_poll_interval_ms": 10_000}
_SHORT_RETENTION: Final[dict[str, str | int]] = {
    "offsets.retention.minutes": 1,
    "offsets.retention.check.interval.ms": 5_000,
}
_RARE_HEARTBEATS: Final = {"session_timeout_ms": 10_000, "heartbeat_interval_ms": 9_000}
_LIGHT_WORKLOAD: Final = Workload(records_per_s=0.5)


@dataclass(frozen=True, slots=True)
class BugDetection:
    """The result of a hunt for one planted bug: the first seed that shows it, and the smallest plan that does."""

    bug: str
    seeds: int
    """Number of seeds played."""
    finding: Finding | None = None
    """The first seed that shows the bug; None if none did."""
    plan: SimulationPlan | None = None
    """The smallest plan that shows the bug; None if none did."""
    runs: int = 0
    """How many runs were made to shrink the plan."""


def plan_size(plan: SimulationPlan) -> str:
    """The size of a plan in words: `2 members, 3 steps`."""
    return f"{_count(len(plan.members), 'member')}, {_count(len(plan.steps), 'step')}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def draw_small_plan(seed: int) -> SimulationPlan:
    """Draw a plan for bug detection, with at most four members whose assignors are sound.

    Groups with unsound assignors rebalance without end, and fewer invariants can be checked. Most runs are short. Every
    third is long, and has no records, since those cost most. In every fifth, sessions are longer than rebalances, so
    that a group goes on without members that it still has; in half of these all members are static, and there are
    records to commit, and offsets expire. In every ninth all members are static, and a leader restarts; in another
    ninth a new member waits for a member that does not poll. In every tenth all members leave for good, and their
    offsets expire; in every eleventh the coordinator dies between the outcome of a transaction and its end. In every
    seventy-fifth the leader, if it is a classic member, is slow to send SyncGroup, over a slow network. In every
    thirteenth the first classic member subscribes to one topic alone, and another topic grows.
    """
    is_long = seed % 3 == 0
    plan = draw_plan(seed, max_members=4, duration_ms=TEN_MINUTES_MS if is_long else 120_000, transform_share=0)
    members = {
        name: replace(each, faults=tuple(fault for fault in each.faults if not fault.startswith("assignor-")))
        for name, each in plan.members.items()
    }
    workload, settings = NO_WORKLOAD if is_long else plan.workload, dict(plan.settings)
    if seed % 5 == 0:
        members = {name: replace(each, **_LONG_SESSIONS) for name, each in members.items()}
    if seed % 10 == 5:
        members = {name: replace(each, instance_id=f"{name}-1") for name, each in members.items()}
        workload = _LIGHT_WORKLOAD
        settings |= _SHORT_RETENTION
    if seed % 10 == 8:
        members = {name: replace(each, instance_id=None) for name, each in members.items()}
        workload, settings = _LIGHT_WORKLOAD, settings | _SHORT_RETENTION
    steps = [*plan.steps, *_steps_of_leaders(seed, members), *_sequences(seed, list(members), plan.brokers)]
    if seed % 9 == 6:
        members = {name: replace(each, max_poll_interval_ms=600_000) for name, each in members.items()}
    if seed % 9 == 4:
        members = {
            name: replace(each, instance_id=f"{name}-1", client=_client(seed) if each.protocol == CLASSIC else "")
            for name, each in members.items()
        }
    plan = replace(plan, members=members, workload=workload, settings=settings, steps=tuple(steps))
    if next(iter(members.values())).protocol != CLASSIC:
        return plan
    plan = _with_growth_beside_the_leader(plan) if seed % 13 == 5 else plan
    return _with_slow_leader(plan) if seed % 75 == 72 else plan


def _with_growth_beside_the_leader(plan: SimulationPlan) -> SimulationPlan:
    """Let the first member, which often leads, subscribe to one topic alone, and let another topic grow."""
    first, *others = plan.members
    if not others or any(each.pattern for each in plan.members.values()):
        return plan
    topics = plan.topics if len(plan.topics) > 1 else {**plan.topics, "other": 1}
    narrow = replace(plan.members[first], topics=tuple(topics)[:1])
    members = {name: replace(each, topics=tuple(topics)) for name, each in plan.members.items()} | {first: narrow}
    grows = TopicGrows(list(topics)[-1], topics[list(topics)[-1]] + 20)
    return replace(plan, topics=topics, members=members, steps=(*plan.steps, _after("", 100_000, grows)))


def _with_slow_leader(plan: SimulationPlan) -> SimulationPlan:
    """Let the first member, which often leads, be slow to send SyncGroup, over a slow network.

    The first heartbeat of another member then comes later than its session timeout after the end of the join phase.
    """
    members = {name: replace(each, faults=(), **_RARE_HEARTBEATS) for name, each in plan.members.items()}
    first = next(iter(members))
    members[first] = replace(members[first], faults=("slow-sync:5s",))
    return replace(plan, members=members, network=NetworkPlan(latency_ms=600, jitter_ms=0))


def _client(seed: int) -> str:
    return "2.8" if seed % 2 else ""


def _steps_of_leaders(seed: int, members: Mapping[str, MemberPlan]) -> list[PlannedStep]:
    """Draw further steps of the first member for some plans of small classic groups.

    In every ninth plan a leader restarts in Stable; in another ninth a new member waits for longer than five minutes.
    """
    first = next(iter(members))
    if seed % 9 == 4:
        return [_after(f"{first} is elected leader", 20_000, Restarts(first, 500))]
    if seed % 9 == 6:
        silent = NewMemberFallsSilent(members[first].group)
        return [
            _after(f"{first} is assigned partitions", 5_000, StaysOutsidePoll(first, 500_000)),
            _after("", 60_000, silent),
        ]
    return []


def _sequences(seed: int, members: Sequence[str], brokers: int) -> list[PlannedStep]:
    """Draw the sequences of some small plans: all members leave, the coordinator dies at the end of a transaction, or
    the group is described."""
    steps = list(departure_of(members, 30_000)) if seed % 10 == 8 else []
    if seed % 11 == 3:
        steps += draw_coordinator_death(Random(f"{seed}/small plan/coordinator death"), members[0], brokers)
    return [*steps, *_descriptions(seed)]


def _descriptions(seed: int) -> list[PlannedStep]:
    """In every seventh plan an administrator describes the group four times."""
    times_ms = (10_000, 40_000, 60_000, 90_000) if seed % 7 == 2 else ()
    return [_after("", each, GroupIsDescribed("lab")) for each in times_ms]


def draw_small_consumer_plan(seed: int) -> SimulationPlan:
    """Draw a plan for the detection of a bug of the consumer protocol: at most four members, two minutes of faults.

    In every second there are records to commit. In every third all members are static, and the first one leaves while
    it gives partitions up. In every fourth the network is slow, and members lose the responses that confirm a release.
    In every sixth the only member becomes a zombie. In every fourth other one a member of the consumer protocol joins
    classic ones, and leaves them again. In every eighth all subscribe to a pattern, and a topic that it matches is
    created. In every fifth, heartbeats and commits arrive with epochs from before. In every eighth the first member is
    cut off when it gives up partitions.
    """
    plan = draw_plan(
        seed,
        max_members=1 if seed % 6 == 5 else 4,
        duration_ms=120_000,
        consumer_share=1,
        transform_share=0,
        has_sequences=False,
    )
    members, steps = dict(plan.members), list(plan.steps)
    first = next(iter(members))
    if seed % 3 == 0:
        members = {name: replace(each, instance_id=f"{name}-1") for name, each in members.items()}
        members[first] = replace(members[first], protocol=CONSUMER, client="", faults=("slow-revoke:20s",))
        steps += [_after(f"{first} has joined", 30_000, Joins(each)) for each in members if each != first]
        steps += [
            _after(f"{first} has joined", 40_000, Leaves(first)),
            _after(f"{first} has joined", 70_000, Joins(first)),
        ]
    if seed % 4 == 1:
        members = {name: replace(each, auto_commit_interval_ms=500) for name, each in members.items()}
        steps.append(_after("", 1_000, SlowNetwork(300, 119_000, 300)))
        steps += [_after(f"{each} revokes partitions", 0, ResponseLost(each, CONSUMER_APIS[0])) for each in members]
    if seed % 4 == 2:
        last = next(reversed(members))
        members = {name: replace(each, protocol=CLASSIC, faults=()) for name, each in members.items()}
        members[last] = replace(members[last], protocol=CONSUMER, client="")
        steps = [each for each in steps if each.step != Joins(last)]
        steps += [_after("", 25_000, Joins(last)), _after("", 70_000, Leaves(last))]
    if seed % 8 == 7:
        members = {
            name: replace(each, pattern="orders.*", protocol=CONSUMER, client="", faults=())
            for name, each in members.items()
        }
        steps.append(_after("", 30_000, TopicIsCreated("orders-2", 2)))
    if seed % 6 == 5:
        steps.append(_after(f"{first} has joined", 20_000, BecomesZombie(first)))
    steps += [*_requests_of_former_epochs(seed, first), *_descriptions(seed)]
    plan = replace(plan, members=members, steps=tuple(steps), workload=_LIGHT_WORKLOAD if seed % 2 else plan.workload)
    return cut_off_revocation(plan, first) if seed % 8 == 3 and members[first].protocol == CONSUMER else plan


def _requests_of_former_epochs(seed: int, member: str) -> list[PlannedStep]:
    """In every fifth plan heartbeats and commits of this member arrive with epochs from before, every ten seconds."""
    former = (
        OldEpochIsSent(member),
        OldGenerationIsSent("OffsetCommit", member),
        OldGenerationIsSent("Heartbeat", member),
    )
    times_ms = range(20_000, 120_000, 10_000) if seed % 5 == 3 else ()
    return [_after("", at_ms, each) for at_ms in times_ms for each in former]


def draw_small_transform_plan(seed: int) -> SimulationPlan:
    """Draw a plan for the detection of a bug of transactions: two minutes of faults, and members that write outputs.

    At most three members write them. In every third plan the coordinator dies when a transaction has its outcome; in
    another third one member is alone.
    """
    count = 1 if seed % 3 == 1 else 3
    plan = draw_plan(
        seed, max_members=count, duration_ms=120_000, consumer_share=0, transform_share=1, has_sequences=False
    )
    rng, first = Random(f"{seed}/small plan/coordinator death"), next(iter(plan.members))
    death = list(draw_coordinator_death(rng, first, plan.brokers))[1:] if seed % 3 == 0 else []
    return replace(plan, steps=(*plan.steps, *death))


def _after(milestone: str, delay_ms: int, step: SimulationStep) -> PlannedStep:
    return PlannedStep(StepTrigger(milestone, delay_ms), step)


def small_plans_for(bug: str) -> Callable[[int], SimulationPlan]:
    """The function that draws the plans in which this bug is hunted."""
    if bug in TRANSACTION_BUGS:
        return draw_small_transform_plan
    return draw_small_consumer_plan if bug in CONSUMER_PROTOCOL_BUGS else draw_small_plan


def find_with_bug(seed: int, *, draw: Callable[[int], SimulationPlan], bug: str) -> Finding | None:
    """Play the plan of a seed with a planted bug and, if that fails, without it.

    Returns the finding with the bug; None if nothing fails, or if the plan fails without the bug, too.
    """
    finding = run_seed(seed, draw=draw, bug=bug)
    return finding if finding and run_seed(seed, draw=draw) is None else None


def shows_bug(bug: str, sentence: str) -> FailurePredicate:
    """A function of a plan that is true if the plan shows this bug.

    It is true if a run with the bug violates this sentence first, and a run without the bug violates nothing.
    """
    with_bug = fails_with(sentence, bug)
    return lambda plan: with_bug(plan) and not play(plan).failed


def detect_bug(
    bug: str,
    draw: Callable[[int], SimulationPlan] | None = None,
    *,
    max_seeds: int = MAX_SEEDS,
    max_runs: int = MAX_SHRINK_RUNS,
) -> BugDetection:
    """Play the seeds 1 to `max_seeds` with a planted bug, and shrink the first plan that shows it.

    `draw` is by default `small_plans_for(bug)`. `max_runs` limits the runs for shrinking; with 0 nothing is shrunk.
    """
    draw = draw or small_plans_for(bug)
    findings = hunt(range(1, max_seeds + 1), 1, partial(find_with_bug, draw=draw, bug=bug), stop_at_first=True)
    if not findings.found:
        return BugDetection(bug, findings.played)
    [finding] = findings.found
    result = shrink(draw(finding.seed), shows_bug(bug, finding.sentence), max_runs=max_runs)
    return BugDetection(bug, findings.played, finding, with_title(result.plan, finding, bug), result.runs)


def with_title(plan: SimulationPlan, finding: Finding, bug: str = "") -> SimulationPlan:
    """A shrunk plan with a title that says what it shows: the violated sentence, the seed and the planted bug."""
    with_bug = f" with the bug {bug}" if bug else ""
    return replace(plan, title=f"Shrunk from seed {finding.seed}{with_bug}: {finding.sentence}")
