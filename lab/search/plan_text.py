"""A plan as text for the terminal: what `regroup chaos run --seed 7` prints first."""

from collections.abc import Mapping

from regroup.lab.plan.plan import MemberPlan, SimulationPlan
from regroup.lab.plan.sound_members import is_well_behaved
from regroup.lab.plan.yaml_options import write_options

__all__ = ["describe_plan"]


def describe_plan(plan: SimulationPlan) -> str:
    """The options of a plan that differ from their defaults, then its members, then its steps, a line each."""
    options = write_options(plan) | {"topics": dict(plan.topics)}
    lines = [f"{key}: {_text(value)}" for key, value in options.items() if key not in ("members", "steps")]
    lines += ["members, with the options that differ from their defaults:"]
    lines += [f"  {_member_line(name, planned)}" for name, planned in plan.members.items()]
    lines += ["steps:", *(f"  {planned}" for planned in plan.steps)]
    return "\n".join(lines)


def _member_line(name: str, planned: MemberPlan) -> str:
    options = _text(write_options(planned)) or "none"
    return f"{name}: {options}" + ("" if is_well_behaved(planned) else " (not well-behaved)")


def _text(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_text(each)}" for key, each in value.items())
    return " then ".join(value) if isinstance(value, list) else str(value)
