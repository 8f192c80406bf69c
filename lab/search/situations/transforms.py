"""Draws which plans of the swarm have members that transform records, with readers of what they commit.

    plan = with_transform(random_stream("transform"), plan)

It has a random stream of its own: in all other plans a seed draws what it drew before.
"""

from random import Random
from typing import Final

from msgspec.structs import replace

from regroup.lab.plan.plan import MemberPlan, PlannedStep, SimulationPlan
from regroup.lab.plan.rare_steps import CommitsByInstanceIdAlone, CommitsUnsubscribed, OtherBrokerIsAsked
from regroup.lab.plan.steps import (
    AbortsTransaction,
    CommitsInTransaction,
    GroupIsDeleted,
    Joins,
    OffsetsAreAltered,
    OffsetsAreDeleted,
    RequestLost,
    RequestsRebalance,
    TopicIsCreated,
    TopicIsDeleted,
)
from regroup.lab.plan.triggers import StepTrigger
from regroup.lab.plan.validation import CONSUMER, READ_COMMITTED
from regroup.members.runtime.workload import Workload

TRANSFORM_SHARE: Final = 1 / 20
"""The share of plans with members that transform records: they cost most."""
REBALANCE_SHARE: Final = 1 / 2
"""The share of these plans in which a member joins again while its transaction is open."""
OUTPUT_TOPIC: Final = "totals"
READERS: Final = ("rita", "rolf")
OTHER_OFFSETS: Final = (
    *(CommitsInTransaction, AbortsTransaction),
    *(OffsetsAreAltered, OffsetsAreDeleted, GroupIsDeleted, TopicIsCreated, TopicIsDeleted),
    *(CommitsByInstanceIdAlone, CommitsUnsubscribed, OtherBrokerIsAsked),
)
"""Steps that are left out, since a group may then have other offsets than those of the transactions with its outputs.

A transaction that is abandoned changes none, nor does one whose producer is fenced, since the newer one aborts here."""


def with_transform(rng: Random, plan: SimulationPlan, share: float = TRANSFORM_SHARE) -> SimulationPlan:
    """A plan whose members write an output for each record that they have processed; mostly the plan as it is.

    Members of the consumer protocol do not write any: a plan that has some stays as it is.
    """
    if rng.random() >= share or any(each.protocol == CONSUMER for each in plan.members.values()):
        return plan
    members = {name: _transforming(each) for name, each in plan.members.items()}
    readers = READERS[: rng.randint(1, len(READERS))]
    steps = [each for each in plan.steps if not isinstance(each.step, OTHER_OFFSETS)]
    if rng.random() < REBALANCE_SHARE:
        steps += rebalance_in_transaction(next(iter(members)))
    joins = [PlannedStep(StepTrigger(delay_ms=rng.randrange(30_000) // 100 * 100), Joins(each)) for each in readers]
    return replace(
        plan,
        members=members | {each: _reader(rng) for each in readers},
        topics={**plan.topics, OUTPUT_TOPIC: rng.randint(1, 3)},
        release="",
        settings={name: value for name, value in plan.settings.items() if not name.startswith("offsets.retention")},
        workload=Workload(records_per_s=rng.choice((0.2, 0.5, 1)), max_poll_records=rng.choice((2, 10))),
        steps=(*steps, *joins),
    )


def rebalance_in_transaction(member: str) -> list[PlannedStep]:
    """The steps in which a member has written its offsets in a transaction, and joins again before it ends."""
    trigger = StepTrigger(f"{member} sends TxnOffsetCommit")
    return [PlannedStep(trigger, RequestLost(member, "EndTxn")), PlannedStep(trigger, RequestsRebalance(member))]


def _transforming(planned: MemberPlan) -> MemberPlan:
    faults = tuple(each for each in planned.faults if not each.startswith("assignor-"))
    return replace(planned, transforms_to=OUTPUT_TOPIC, client="", faults=faults)


def _reader(rng: Random) -> MemberPlan:
    return MemberPlan(
        topics=(OUTPUT_TOPIC,),
        group="readers",
        isolation_level=READ_COMMITTED,
        session_timeout_ms=10_000,
        max_poll_interval_ms=60_000,
        auto_commit_interval_ms=rng.choice((1_000, 5_000)),
    )
