"""How quick the laboratory is: rebalances a second, simulated seconds a second, and seeds a minute on all cores.

    python benchmarks/lab.py            # three minutes
    python benchmarks/lab.py --quiet    # four minutes: how much of a run is heartbeats that change nothing
    PYTHONHASHSEED=0 valgrind --tool=cachegrind python benchmarks/lab.py --members 300 --rebalances 3 [--check]
                                        # one run of a group; the differences between two are the instructions

CPU time of this process, so that other work on the machine counts as little as it can; each figure is the median of
seven runs. "With" is with the checker of all invariants, "without" is without it.
"""

import argparse
import gc
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from os import cpu_count
from statistics import median
from types import FrameType

from harness.lab_quiet import TABLE_HEAD, quiet_shares, table_row

from regroup.lab.plan.plan import MemberPlan, PlannedStep, SimulationPlan
from regroup.lab.plan.steps import Crashes, Joins, RequestsRebalance
from regroup.lab.plan.triggers import StepTrigger
from regroup.lab.search.swarm import draw_plan
from regroup.lab.simulation.run import RunOutcome, play
from regroup.members.runtime.workload import Workload

RUNS = 7
REBALANCE_INTERVAL_MS = 4_000
"""Milliseconds from one rebalance to the next: long enough for every member to send a heartbeat and to rejoin."""
SIZES = {3: 200, 30: 20, 300: 6}
"""Numbers of members, each with its number of rebalances in a run."""
SEEDS = 40
QUIET_SEEDS = range(7_000_000, 7_000_060)
HOUR_MS = 3_600_000


def rebalancing_plan(members: int, rebalances: int) -> SimulationPlan:
    """The plan of a group whose first member requests one rebalance after the other."""
    names = [f"member-{number}" for number in range(members)]
    begin_ms = 10_000
    requests = [
        PlannedStep(StepTrigger(delay_ms=begin_ms + number * REBALANCE_INTERVAL_MS), RequestsRebalance(names[0]))
        for number in range(rebalances)
    ]
    return SimulationPlan(
        settings={"group.initial.rebalance.delay.ms": 0},
        topics={"orders": members * 2},
        members={name: MemberPlan(assignors=("range",)) for name in names},
        steps=(*(PlannedStep(StepTrigger(), Joins(name)) for name in names), *requests),
        faults_end_ms=begin_ms + (rebalances + 1) * REBALANCE_INTERVAL_MS,
    )


@dataclass(frozen=True)
class RebalanceCost:
    """CPU seconds of a group: of one rebalance more, and of a run in which it only starts, in two generations."""

    rebalance_s: float
    start_s: float
    simulated_s: float
    """Seconds of virtual time of one rebalance more."""
    exchanges: float
    """Requests with their responses of one rebalance more."""


def rebalance_cost(members: int, rebalances: int, *, check_invariants: bool) -> RebalanceCost:
    """The medians of several pairs of runs, one with these rebalances and one without them, after one to warm up.

    What a run costs at its beginning, such as the Metadata response of each member, is in both runs of a pair.
    """
    plans = [rebalancing_plan(members, each) for each in (0, rebalances)]
    without, with_them = (play(each) for each in plans)
    starts, differences = [], []
    for _ in range(RUNS):
        start_s, whole_s = (cpu_s(partial(play, each, check_invariants=check_invariants)) for each in plans)
        starts.append(start_s)
        differences.append(whole_s - start_s)
    added = generations(with_them) - generations(without)
    assert added == rebalances, f"{added} rebalances of {rebalances} were completed"
    return RebalanceCost(
        rebalance_s=median(differences) / rebalances,
        start_s=median(starts),
        simulated_s=(with_them.ended_ms - without.ended_ms) / 1000 / rebalances,
        exchanges=(with_them.verdict.counts.exchanges - without.verdict.counts.exchanges) / rebalances,
    )


def generations(outcome: RunOutcome) -> int:
    """How many generations have got an assignment in a run."""
    return sum(record.type == "assignment-committed" for record in outcome.records)


def cpu_s(run: Callable[[], RunOutcome]) -> float:
    """The CPU seconds of a run, beginning without garbage of the one before."""
    gc.collect()
    begin_s = time.process_time()
    run()
    return time.process_time() - begin_s


def format_rate(rate: float) -> str:
    """The rate with as many decimals as it needs: 283, 34.5 and 1.23."""
    return f"{rate:,.{0 if rate >= 100 else 1 if rate >= 10 else 2}f}"


def format_ratio(values: Sequence[float]) -> str:
    """The values in proportion to the first one: 1.00 : 1.12 : 2.05."""
    return " : ".join(f"{value / values[0]:.2f}" for value in values)


def print_rebalances() -> None:
    """Print the rates for each size of a group, and how the CPU time for each member grows with it."""
    rebalance_s: dict[bool, list[float]] = {False: [], True: []}
    start_s: dict[bool, list[float]] = {False: [], True: []}
    print(f"{'members':>8} {'checker':>8} {'rebalances/s':>14} {'simulated s/s':>14} {'exchanges/s':>12}")
    for members, rebalances in SIZES.items():
        for check in (False, True):
            cost = rebalance_cost(members, rebalances, check_invariants=check)
            print(
                f"{members:>8} {'with' if check else 'without':>8} {format_rate(1 / cost.rebalance_s):>14} "
                f"{format_rate(cost.simulated_s / cost.rebalance_s):>14} {cost.exchanges / cost.rebalance_s:>12,.0f}"
            )
            rebalance_s[check].append(cost.rebalance_s / members)
            start_s[check].append(cost.start_s / members)
    for title, times in (("member and rebalance", rebalance_s), ("member of a run without rebalances", start_s)):
        print(f"\nCPU time for each {title}, {' : '.join(map(str, SIZES))} members")
        for check, values in times.items():
            listed = ", ".join(f"{value * 1e6:,.0f} µs" for value in values)
            print(f"  {'with' if check else 'without':>8} checker: {format_ratio(values)} ({listed})")


def consumer_plan(members: int) -> SimulationPlan:
    """The plan of a group of the consumer protocol whose members join at once, and settle within a minute."""
    names = [f"member-{number}" for number in range(members)]
    return SimulationPlan(
        topics={"orders": members * 2},
        members={name: MemberPlan(protocol="consumer") for name in names},
        steps=tuple(PlannedStep(StepTrigger(), Joins(name)) for name in names),
        faults_end_ms=60_000,
    )


def print_consumer_groups() -> None:
    """Print what a member of a group of the consumer protocol takes in its first minute, for each size of a group."""
    print(f"\nCPU time for each member of a group of the consumer protocol, {' : '.join(map(str, SIZES))} members")
    for check in (False, True):
        times_s = []
        for members in SIZES:
            run = partial(play, consumer_plan(members), check_invariants=check)
            run()
            times_s.append(median(cpu_s(run) for _ in range(RUNS)) / members)
        listed = ", ".join(f"{value * 1e6:,.0f} µs" for value in times_s)
        print(f"  {'with' if check else 'without':>8} checker: {format_ratio(times_s)} ({listed})")


def calls_of(plan: SimulationPlan, *, check_invariants: bool) -> int:
    """How many Python functions a run calls: a measure of its work that no other work on the machine changes."""
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        play(plan, check_invariants=check_invariants)
    finally:
        sys.setprofile(None)
    return calls


def print_calls() -> None:
    print("\ncalls of Python functions for each member and rebalance, without and with the checker")
    for members in (3, 30, 300):
        found = []
        for check in (False, True):
            once, twice = (calls_of(rebalancing_plan(members, each), check_invariants=check) for each in (1, 2))
            found.append((twice - once) / members)
        print(f"  {members:>3} members: {found[0]:,.0f}, {found[1]:,.0f}")


def play_seed(seed: int) -> tuple[float, int]:
    """Play the plan of a seed; returns its CPU seconds and its milliseconds of virtual time."""
    begin_s = time.process_time()
    outcome = play(draw_plan(seed))
    return time.process_time() - begin_s, outcome.ended_ms


def print_seeds() -> None:
    runs = [play_seed(seed) for seed in range(SEEDS)]
    cpu_s = sorted(seconds for seconds, _ in runs)
    simulated_s = sum(ended_ms for _, ended_ms in runs) / 1000
    print(f"\nswarm seeds of ten simulated minutes and more, with every invariant ({SEEDS} seeds)")
    print(f"  one seed: median {median(cpu_s) * 1000:,.0f} ms, longest {cpu_s[-1] * 1000:,.0f} ms")
    print(f"  {SEEDS / sum(cpu_s) * 60:,.0f} seeds a minute on one core, {simulated_s / sum(cpu_s):,.0f} simulated s/s")


def print_cores() -> None:
    """Print the rate of seeds on one core and on all cores, and their ratio.

    It is measured in wall time, so the ratio is valid only on an idle machine.
    """
    print("\non several cores, wall time")
    one_process_s = 0.0
    for jobs in (1, cpu_count() or 1):
        with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
            list(pool.map(play_seed, range(jobs)))
            begin_s = time.monotonic()
            list(pool.map(play_seed, range(SEEDS), chunksize=2))
            seconds = time.monotonic() - begin_s
        one_process_s = one_process_s or seconds
        rate, ratio = SEEDS / seconds * 60, one_process_s / seconds
        print(f"  {jobs} process(es): {rate:,.0f} seeds a minute, {ratio:.2f} times as many as one process")


def quiet_hour(protocol: str = "classic", records_per_s: float = 0) -> SimulationPlan:
    """The plan of an hour in which nothing happens but that one of three members crashes after thirty minutes."""
    names = ("anna", "ben", "carla")
    joins = [PlannedStep(StepTrigger(), Joins(name)) for name in names]
    return SimulationPlan(
        members={name: MemberPlan(protocol=protocol) for name in names},
        workload=Workload(records_per_s=records_per_s),
        steps=(*joins, PlannedStep(StepTrigger(delay_ms=HOUR_MS // 2), Crashes("ben"))),
        faults_end_ms=HOUR_MS,
    )


def print_quiet() -> None:
    """Print how much of a run with the checker is quiet, by calls of Python functions and by CPU time."""
    plans = {
        "3 members rebalance": [rebalancing_plan(3, 60)],
        "30 members rebalance": [rebalancing_plan(30, 10)],
        "300 members rebalance": [rebalancing_plan(300, 3)],
        f"{len(QUIET_SEEDS)} seeds": [draw_plan(seed) for seed in QUIET_SEEDS],
        "  those without records": [plan for plan in map(draw_plan, QUIET_SEEDS) if not plan.workload.records_per_s],
        "an hour, classic": [quiet_hour()],
        "an hour, consumer protocol": [quiet_hour("consumer")],
        "an hour with a record a second": [quiet_hour(records_per_s=1)],
    }
    play(draw_plan(QUIET_SEEDS[0]))
    for unit, counts_calls in (("calls of Python functions", True), ("CPU time", False)):
        print(f"\n{unit}\n{TABLE_HEAD}")
        for name, each in plans.items():
            first, *others = [quiet_shares(plan, counts_calls=counts_calls) for plan in each]
            print(table_row(name, sum(others, first)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quiet", action="store_true", help="how much of a run is heartbeats that change nothing")
    parser.add_argument("--members", type=int, help="play one run of a group of this size, and print nothing")
    parser.add_argument("--rebalances", type=int, default=0, help="the number of its rebalances after its start")
    parser.add_argument("--check", action="store_true", help="with the checker")
    options = parser.parse_args()
    if options.members:
        play(rebalancing_plan(options.members, options.rebalances), check_invariants=options.check)
    elif options.quiet:
        print_quiet()
    else:
        print_rebalances()
        print_consumer_groups()
        print_calls()
        print_seeds()
        print_cores()
