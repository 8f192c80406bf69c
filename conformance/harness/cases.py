"""The stories, by the name of the behaviour that each one checks."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass

from regroup.conformance.harness.story import Story

Telling = Callable[[Story], Awaitable[None]]

CASE_SECONDS = 60.0
"""A case that needs longer says so."""


@dataclass(frozen=True, slots=True)
class Need:
    """What a setting must be for a story to be told: at least, at most, both ends included."""

    at_least: int = -(2**63)
    at_most: int = 2**63

    def is_met_by(self, value: int) -> bool:
        return self.at_least <= value <= self.at_most

    def __str__(self) -> str:
        bounds = []
        if self.at_least > -(2**63):
            bounds.append(f"at least {self.at_least}")
        if self.at_most < 2**63:
            bounds.append(f"at most {self.at_most}")
        return " and ".join(bounds)


def exactly(value: int) -> Need:
    """Neither more nor less."""
    return Need(value, value)


@dataclass(frozen=True, slots=True)
class Case:
    """A behaviour that can be seen on the wire. `importance`: 1 core, 2 ordinary, 3 exotic.

    `corrected` says where the catalogue, which was read from sources, had expected something else than Kafka does.
    """

    id: str
    importance: int
    summary: str
    tell: Telling
    needs: Mapping[str, Need]
    seconds: float
    restarts: bool
    corrected: str

    @property
    def area(self) -> str:
        return area_of(self.id)


CASES: dict[str, Case] = {}

SMALL_GROUP = {"group.max.size": Need(at_least=13)}
"""Nearly every story wants some room in its group and a coordinator that does not clean up meanwhile."""
LEFT_IN_PEACE = {**SMALL_GROUP, "offsets.retention.check.interval.ms": Need(at_least=60_000)}


def area_of(behaviour: str) -> str:
    """`join` of `join.generation.first-is-one`."""
    return behaviour.split(".", maxsplit=1)[0]


def case(
    behaviour: str,
    importance: int,
    *,
    needs: Mapping[str, Need] = LEFT_IN_PEACE,
    seconds: float = CASE_SECONDS,
    restarts: bool = False,
    corrected: str = "",
) -> Callable[[Telling], Telling]:
    """Enter a story under the behaviour it checks; its docstring is the sentence that people read."""

    def enter(tell: Telling) -> Telling:
        assert behaviour not in CASES, f"two stories about {behaviour}"
        summary = " ".join((tell.__doc__ or "").split())
        CASES[behaviour] = Case(behaviour, importance, summary, tell, needs, seconds, restarts, corrected)
        return tell

    return enter


def unmet(target_settings: Mapping[str, str], needs: Mapping[str, Need]) -> Iterator[str]:
    """The needs that these settings do not meet, in words. What is not known is taken to be Kafka's default."""
    for name, need in needs.items():
        value = int(target_settings.get(name, DEFAULTS[name]))
        if not need.is_met_by(value):
            yield f"{name} is {value}, and must be {need}"


DEFAULTS = {
    "group.max.size": "2147483647",
    "group.min.session.timeout.ms": "6000",
    "group.max.session.timeout.ms": "1800000",
    "group.initial.rebalance.delay.ms": "3000",
    "offset.metadata.max.bytes": "4096",
    "offsets.retention.minutes": "10080",
    "offsets.retention.check.interval.ms": "600000",
    "offsets.commit.timeout.ms": "5000",
}
"""Kafka's own, for what the broker does not tell."""
