"""How quick the laboratory is: rebalances a second, simulated seconds a second, seeds a minute, and over the cores.

    python benchmarks/lab.py            # two minutes

CPU time of this process, so that other work on the machine counts as little as it can; each figure is the median of
five runs. "With" is with every invariant looked at, "without" is without the checker.
"""

import gc
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from os import cpu_count
from statistics import median

from regroup.lab.plan.plan import MemberPlan, PlannedStep, SimulationPlan
from regroup.lab.plan.steps import Joins, RequestsRebalance
from regroup.lab.plan.triggers import StepTrigger
from regroup.lab.search.swarm import draw_plan
from regroup.lab.simulation.run import RunOutcome, play

RUNS = 5
BETWEEN_MS = 4_000
"""From one rebalance to the next: everybody has heard of it by a heartbeat, and is back."""
SEEDS = 40


def rebalancing(members: int, rebalances: int) -> SimulationPlan:
    """A group whose first member asks for one rebalance after the other."""
    names = [f"member-{number}" for number in range(members)]
    begin_ms = 10_000
    asks = [
        PlannedStep(StepTrigger(delay_ms=begin_ms + number * BETWEEN_MS), RequestsRebalance(names[0]))
        for number in range(rebalances)
    ]
    return SimulationPlan(
        settings={"group.initial.rebalance.delay.ms": 0},
        topics={"orders": members * 2},
        members={name: MemberPlan(assignors=("range",)) for name in names},
        steps=(*(PlannedStep(StepTrigger(), Joins(name)) for name in names), *asks),
        faults_end_ms=begin_ms + (rebalances + 1) * BETWEEN_MS,
    )


def cpu_s(act: Callable[[], RunOutcome]) -> tuple[float, RunOutcome]:
    """Of the median run, after one to warm up."""
    outcome, times = act(), []
    for _ in range(RUNS):
        gc.collect()
        begin_s = time.process_time()
        outcome = act()
        times.append(time.process_time() - begin_s)
    return median(times), outcome


def print_rebalances() -> None:
    print(f"{'members':>8} {'checker':>8} {'rebalances/s':>14} {'simulated s/s':>14} {'exchanges/s':>12}")
    for members, rebalances in ((3, 200), (30, 20), (300, 3)):
        plan = rebalancing(members, rebalances)
        exchanges = play(plan).verdict.counts.exchanges
        for check in (False, True):
            seconds, outcome = cpu_s(partial(play, plan, check_invariants=check))
            generations = sum(record.type == "assignment-committed" for record in outcome.records)
            assert generations >= rebalances, f"only {generations} rebalances of {rebalances} came about"
            print(
                f"{members:>8} {'with' if check else 'without':>8} {generations / seconds:>14,.0f} "
                f"{outcome.ended_ms / 1000 / seconds:>14,.0f} {exchanges / seconds:>12,.0f}"
            )


def seconds_of(seed: int) -> tuple[float, int]:
    """CPU seconds of one swarm seed, and how long it lasted in virtual time."""
    begin_s = time.process_time()
    outcome = play(draw_plan(seed))
    return time.process_time() - begin_s, outcome.ended_ms


def print_seeds() -> None:
    taken = [seconds_of(seed) for seed in range(SEEDS)]
    each = sorted(seconds for seconds, _ in taken)
    simulated_s = sum(ended_ms for _, ended_ms in taken) / 1000
    print(f"\nswarm seeds of ten simulated minutes and more, with every invariant ({SEEDS} seeds)")
    print(f"  one seed: median {median(each) * 1000:,.0f} ms, longest {each[-1] * 1000:,.0f} ms")
    print(f"  {SEEDS / sum(each) * 60:,.0f} seeds a minute on one core, {simulated_s / sum(each):,.0f} simulated s/s")


def print_cores() -> None:
    """Wall time, since that is what more cores are for: the ratio is honest on an idle machine only."""
    print("\nover the cores, wall time")
    alone = 0.0
    for jobs in (1, cpu_count() or 1):
        with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
            list(pool.map(seconds_of, range(jobs)))
            begin_s = time.monotonic()
            list(pool.map(seconds_of, range(SEEDS), chunksize=2))
            seconds = time.monotonic() - begin_s
        alone = alone or seconds
        print(f"  {jobs} process(es): {SEEDS / seconds * 60:,.0f} seeds a minute, {alone / seconds:.2f} of one process")


if __name__ == "__main__":
    print_rebalances()
    print_seeds()
    print_cores()
