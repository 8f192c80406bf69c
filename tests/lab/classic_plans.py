"""Plans that seeds draw, with members of the classic protocol only: for tests of what is about classic groups."""

from typing import Any

from regroup.lab.plan.plan import SimulationPlan
from regroup.lab.search.swarm import draw_plan

NEXT_SEED = 1_000
"""Far enough from a seed for the tests that draw many seeds in a row."""


def draw_classic_plan(seed: int, **options: Any) -> SimulationPlan:
    """The plan of this seed, or of the first of the seeds a thousand apart whose members are classic ones."""
    plan = draw_plan(seed, **options)
    while any(member.protocol != "classic" for member in plan.members.values()):
        seed += NEXT_SEED
        plan = draw_plan(seed, **options)
    return plan
