"""Histories of simulated groups, drawn from seeds."""

from functools import lru_cache

from hypothesis import settings
from hypothesis import strategies as st

from regroup.lab.plan.scenario_files import scenario
from regroup.lab.simulation.run import play
from regroup.storage.records import Record
from tests.lab.classic_plans import draw_classic_plan

SEEDS = st.integers(1, 8 if settings.default.derandomize else 400)
"""Seeds for `drawn_history`. Tests that repeat the same examples share a few, so that a process plays each run once."""


@lru_cache(maxsize=32)
def drawn_history(seed: int, *, minutes: int = 10) -> tuple[Record, ...]:
    """The records of a run of the lab that this seed draws."""
    return play(draw_classic_plan(seed, duration_ms=minutes * 60_000), check_invariants=False).records


@lru_cache(maxsize=16)
def scenario_history(name: str) -> tuple[Record, ...]:
    """The records of a scenario of the lab."""
    return play(scenario(name), check_invariants=False).records


def groups_of(records: tuple[Record, ...]) -> list[str]:
    return sorted({record.group for record in records if record.group is not None})
