"""Which members of a plan have to keep to the invariants: those without a fault that makes them break some of them."""

from typing import Final

from regroup.lab.plan.plan import MemberPlan, SimulationPlan
from regroup.lab.plan.rare_steps import ProtocolIsChanged
from regroup.members.faults import MemberFaultKind, parse_fault

_UNSOUND_ASSIGNORS: Final = frozenset({MemberFaultKind.ASSIGNOR_DOUBLES, MemberFaultKind.ASSIGNOR_FORGETS})


def has_sound_assignor(planned: MemberPlan) -> bool:
    """Whether the member's assignor, when it leads, assigns each partition to exactly one member."""
    return not any(parse_fault(text).kind in _UNSOUND_ASSIGNORS for text in planned.faults)


def is_impersonated(plan: SimulationPlan, name: str) -> bool:
    """Whether another client uses the member's id, and may give up the member's partitions without its knowledge."""
    return any(isinstance(each.step, ProtocolIsChanged) and each.step.member == name for each in plan.steps)


def is_well_behaved(planned: MemberPlan) -> bool:
    """Whether the invariants of members must hold of this member.

    They need not if a fault makes its assignor unsound or the member a zombie.
    """
    has_zombie_fault = any(parse_fault(text).kind is MemberFaultKind.ZOMBIE for text in planned.faults)
    return has_sound_assignor(planned) and not has_zombie_fault
