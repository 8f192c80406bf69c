"""What playing a random course to a broker has shown, and what a second broker follows of it: leaders and ids."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from regroup.conformance.differential.normalise import NormalisedFields
from regroup.conformance.differential.random_course import CourseMove, MoveKind

GROUP_NAMES = ("group A", "group B")


@dataclass
class MoveObservation:
    """What was observed in the slot of one move: responses by the number of their moves, groups, and offsets."""

    move: CourseMove
    responses: dict[int, NormalisedFields] = field(default_factory=dict)
    groups: NormalisedFields = field(default_factory=dict)
    offsets: NormalisedFields = field(default_factory=dict)


@dataclass
class PlayedCourse:
    """What playing a course to the first broker has shown: its observations, and the leaders and ids for the second
    broker."""

    observations: Sequence[MoveObservation] = ()
    leaders: Sequence[Sequence[str]] = ((), ())
    """For each group and slot, the name of the next leader."""
    topic_ids: Mapping[str, bytes] = field(default_factory=dict)
    """The ids of the course's own topics, by name."""
    member_ids: Mapping[str, str] = field(default_factory=dict)
    """The member ids, by the names of the members."""


def next_leaders(observations: Sequence[MoveObservation]) -> list[list[str]]:
    """For each group and each slot, the leader of the generation that begins in this slot or next after it, by name.

    It is empty if no further generation begins.
    """
    return [_next_leaders(observations, group) for group in range(len(GROUP_NAMES))]


def _next_leaders(observations: Sequence[MoveObservation], group: int) -> list[str]:
    leaders: list[str] = []
    newest = None
    for observation in observations:
        if observation.move.kind is MoveKind.RESTART or _state(observation, group) == "Dead":
            newest = None  # generation ids may be used again
        new = [
            (generation_id, str(response["leader"]))
            for number, response in observation.responses.items()
            if observations[number].move.group == group
            and response.get("error_code") == "NONE"
            and isinstance(generation_id := response.get("generation_id"), int)
            and generation_id != newest
        ]
        newest = max(new)[0] if new else newest
        leaders.append(min(new)[1] if new else "")
    following = ""
    for number in reversed(range(len(leaders))):
        leaders[number] = following = leaders[number] or following
    return leaders


def _state(observation: MoveObservation, group: int) -> object:
    described = observation.groups.get(GROUP_NAMES[group])
    return described.get("state") if isinstance(described, dict) else None
