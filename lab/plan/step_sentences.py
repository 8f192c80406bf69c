"""Parses a sentence as a step, and finds the members and brokers that a step names.

parse_step("ben pauses for 20s")                      Pauses(member="ben", duration_ms=20000)
members_named(Pauses(member="ben", duration_ms=20_000))         ("ben",)
"""

from typing import Final, get_args

from regroup.lab.plan.sentences import HOST, MEMBER_NAME, MEMBER_NAME_LIST, PLACEHOLDERS, hint_for, templates_of
from regroup.lab.plan.steps import ALL_BROKERS, ALL_HOSTS, BROKER_PREFIX, SimulationStep

STEP_TYPES: Final[tuple[type[SimulationStep], ...]] = get_args(SimulationStep)


def parse_step(text: str) -> SimulationStep:
    """Parse a sentence as a step. Raises ValueError if there is no such step; the message says what to write."""
    sentence = " ".join(text.split())
    for kind in STEP_TYPES:
        for template in templates_of(kind):
            values = template.parse(sentence)
            if values is not None:
                return kind(**values)
    known = [template for kind in STEP_TYPES for template in templates_of(kind)]
    raise ValueError(f"unknown step: {text!r}; {hint_for(sentence, known)}")


def members_named(step: SimulationStep) -> tuple[str, ...]:
    """The members that a step names, each once, in the order of its sentence."""
    named: dict[str, None] = {}
    for name in _placeholder_names(step):
        placeholder, value = PLACEHOLDERS[name], getattr(step, name)
        if placeholder is MEMBER_NAME_LIST:
            named |= dict.fromkeys(value)
        elif placeholder is MEMBER_NAME or (placeholder is HOST and _is_member_host(value)):
            named[value] = None
    return tuple(named)


def brokers_named(step: SimulationStep) -> tuple[int, ...]:
    """The node ids of the brokers that a step names, in the order of its sentence."""
    names = [name for name in _placeholder_names(step) if PLACEHOLDERS[name] is HOST or name == "broker"]
    hosts = [str(getattr(step, name)).removeprefix(BROKER_PREFIX) for name in names]
    return tuple(int(host) for host in hosts if host.isdigit())


def _is_member_host(host: str) -> bool:
    """Whether a host is a member, not a broker or a group of hosts."""
    return host not in (ALL_HOSTS, ALL_BROKERS) and not host.startswith(BROKER_PREFIX)


def _placeholder_names(step: SimulationStep) -> tuple[str, ...]:
    return templates_of(type(step))[0].names
