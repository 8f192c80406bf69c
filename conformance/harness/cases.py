"""The registry of stories, by the id of the behaviour that each one checks."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass

from regroup.conformance.harness.broker_under_test import KAFKA_DEFAULTS
from regroup.conformance.harness.remedy import Remedy
from regroup.conformance.harness.story import StoryContext

StoryFunction = Callable[[StoryContext], Awaitable[None]]

DEFAULT_CASE_TIMEOUT_S = 60.0
"""Seconds that a story may take if it does not state its own limit."""


@dataclass(frozen=True, slots=True)
class SettingBounds:
    """The values of a broker setting with which a story can run; both ends are included."""

    at_least: int = -(2**63)
    at_most: int = 2**63

    def __str__(self) -> str:
        lower = [f"at least {self.at_least}"] if self.at_least > -(2**63) else []
        upper = [f"at most {self.at_most}"] if self.at_most < 2**63 else []
        return " and ".join(lower + upper)

    def nearest(self, value: str) -> str:
        """The value within the bounds that is nearest to this one."""
        return str(min(max(int(value), self.at_least), self.at_most))


@dataclass(frozen=True, slots=True)
class SettingChoice:
    """The values of a broker setting with which a story can run, if they are words. Their case does not matter."""

    words: tuple[str, ...]

    def __str__(self) -> str:
        return " or ".join(self.words)

    def nearest(self, value: str) -> str:
        """The value itself if a story can run with it, or else the first of the words with which it can."""
        return value if value.lower() in self.words else self.words[0]


SettingRequirement = SettingBounds | SettingChoice


@dataclass(frozen=True, slots=True)
class ConformanceCase:
    """A story, the behaviour of the catalogue that it checks, and what it needs of the broker.

    `importance` is 1 core, 2 ordinary, 3 exotic. `correction` says how Kafka differs from the catalogue, which was read
    from its sources.
    """

    id: str
    importance: int
    summary: str
    story: StoryFunction
    required_settings: Mapping[str, SettingRequirement]
    timeout_s: float
    needs_restart: bool
    correction: str

    @property
    def area(self) -> str:
        """The area of the behaviour: the first part of its id."""
        return area_of(self.id)


CONSUMER_PROTOCOL = "cg"
"""The first part of the ids of behaviours of the consumer protocol (KIP-848)."""

CASES: dict[str, ConformanceCase] = {}

DEFAULT_REQUIREMENTS: Mapping[str, SettingRequirement] = {
    "group.max.size": SettingBounds(at_least=13),
    "offsets.retention.check.interval.ms": SettingBounds(at_least=60_000),
}
"""The settings that a story needs unless it states its own.

Nearly every story has several members in its group, and no cleanup of its offsets while it runs.
"""


def area_of(behaviour: str) -> str:
    """The area of a behaviour: `join` for `join.generation.first-is-one`.

    Behaviours of the consumer protocol begin with `cg.`; their area is `cg.join` for `cg.join.first-member`.
    """
    first, *rest = behaviour.split(".")
    return f"{first}.{rest[0]}" if first == CONSUMER_PROTOCOL else first


def case(
    behaviour: str,
    importance: int,
    *,
    required_settings: Mapping[str, SettingRequirement] = DEFAULT_REQUIREMENTS,
    timeout_s: float = DEFAULT_CASE_TIMEOUT_S,
    needs_restart: bool = False,
    correction: str = "",
) -> Callable[[StoryFunction], StoryFunction]:
    """Register a story for the behaviour it checks. Its docstring is the summary on the published page."""

    def register(story: StoryFunction) -> StoryFunction:
        assert behaviour not in CASES, f"two stories for {behaviour}"
        summary = " ".join((story.__doc__ or "").split())
        CASES[behaviour] = ConformanceCase(
            behaviour, importance, summary, story, required_settings, timeout_s, needs_restart, correction
        )
        return story

    return register


def unmet_requirements(
    settings: Mapping[str, str], required: Mapping[str, SettingRequirement]
) -> Iterator[tuple[str, Remedy]]:
    """Yield each requirement of a story that the broker's settings do not meet.

    The text says what the setting is and what it must be; the Remedy sets it so.
    """
    for name, bounds in required.items():
        value = settings.get(name, KAFKA_DEFAULTS[name])
        if (nearest := bounds.nearest(value)) != value:
            yield f"{name} is {value}, but must be {bounds}", Remedy(settings=((name, nearest),))
