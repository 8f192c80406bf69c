"""The moments of a run, in the order in which they happened, and how a lesson names one of them.

A moment is an event of the group by its type (`member-removed`), or what is in no event: `refused` requests, what
members did with partitions (`assigned`, `revoked`, `lost`), and `step`, what the scenario does.
"""

from collections.abc import Iterator
from difflib import get_close_matches
from functools import lru_cache
from typing import Final

import msgspec
from msgspec.structs import replace

from regroup.classroom.lessons.format.parts import ExplainedMoment, MomentSelector
from regroup.classroom.lessons.runs.run import LessonRun
from regroup.classroom.timeline import TimelineMoment
from regroup.coordinator.serialization import EVENT_TYPES
from regroup.lab.plan.plan import PlannedStep
from regroup.lab.plan.step_sentences import members_named
from regroup.lab.simulation.expectation_checks import is_expectation
from regroup.lab.simulation.timeline import MemberReport
from regroup.members.consumer.effects import PartitionsAssigned, PartitionsLost, PartitionsRevoked
from regroup.members.runtime.notes import FaultBegan, FaultEnded
from regroup.notation.durations import format_duration
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.server.refusals.finding import Refusal
from regroup.storage.records import NewRecord

STEP: Final = "step"
REFUSED: Final = "refused"
ASSIGNED: Final = "assigned"
REVOKED: Final = "revoked"
LOST: Final = "lost"
FAULT_BEGAN: Final = "fault-began"
FAULT_ENDED: Final = "fault-ended"
OTHER_MOMENTS: Final = {
    STEP: "the scenario does something; `says` is a part of its sentence",
    REFUSED: "a request of a member is answered with an error; `api` and `error` choose",
    ASSIGNED: "a rebalance has brought a member partitions",
    REVOKED: "a member gives partitions up in a rebalance",
    LOST: "a member learns that it is no member any more, and gives up everything",
    FAULT_BEGAN: "a fault of a member begins",
    FAULT_ENDED: "a member that was paused goes on",
}
"""Moments that are no events of the group, with their meaning."""


class RunMoment(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened in a run: an event of the group, or one of `OTHER_MOMENTS`, such as a refused request."""

    index: int = 0
    """Its place among the moments of the run."""
    at_ms: int
    """Since the start of the run."""
    name: str
    """The type of the event, or one of `OTHER_MOMENTS`."""
    member: str = ""
    """The member that it is about, by its name in the scenario."""
    generation: int = 0
    """The group's generation after it."""
    event: TimelineMoment | None = None
    """The event, if it is one."""
    position: int = 0
    """Of the event, or of the last one before, in the store; 0 before the first."""
    partitions: tuple[TopicPartition, ...] = ()
    api: str = ""
    error: str = ""
    text: str = ""
    """The sentence of a step or fault; the reason of an event."""


def moment_names() -> tuple[str, ...]:
    """Every name that a lesson's `moment:` may have."""
    return (*EVENT_TYPES, *OTHER_MOMENTS)


@lru_cache(maxsize=64)
def run_moments(run: LessonRun) -> tuple[RunMoment, ...]:
    """All moments of a run in order of time: events of the group, steps of the scenario, refused requests and so on."""
    events = {moment.event_number: moment for moment in run.timeline.moments}
    found = [_moment_of(run, at_ms, item, events) for at_ms, item in run.entries]
    # The lab notes an event when it is durable, which is a little later than its time.
    in_order = sorted(filter(None, found), key=lambda moment: moment.at_ms)
    moments: list[RunMoment] = []
    last: TimelineMoment | None = None
    for moment in in_order:
        last = moment.event or last
        generation, position = (last.generation_id, last.position) if last else (0, 0)
        moments.append(replace(moment, index=len(moments), generation=generation, position=position))
    return tuple(moments)


def _moment_of(run: LessonRun, at_ms: int, item: object, events: dict[int, TimelineMoment]) -> RunMoment | None:
    """Convert an entry of the lab's timeline to a moment, still without index, generation and position.

    None for an entry that is about another group, or that lessons cannot name.
    """
    group = run.timeline.group_id
    match item:
        case NewRecord() if item.group == group and item.event_number in events:
            moment = events[item.event_number]
            return RunMoment(
                at_ms=run.since_start_ms(moment.at_ms),
                name=moment.type,
                member=run.name_of(member_of(moment)),
                event=moment,
                text=moment.event.reason,
            )
        case Refusal(group_id=group_id) if group_id == group:
            name = run.name_of(item.member_id) or item.client_id
            return RunMoment(at_ms=at_ms, name=REFUSED, member=name, api=item.api, error=item.error)
        case MemberReport(name=name, what=what) if run.plan.members[name].group == group:
            return _reported_moment(at_ms, name, what)
        case PlannedStep(step=step) if not is_expectation(step):
            members = members_named(step)
            if members and all(run.plan.members[name].group != group for name in members):
                return None
            return RunMoment(at_ms=at_ms, name=STEP, member=members[0] if members else "", text=str(step))
    return None


def _reported_moment(at_ms: int, member: str, what: object) -> RunMoment | None:
    match what:
        case PartitionsAssigned(partitions=partitions):
            return RunMoment(at_ms=at_ms, name=ASSIGNED, member=member, partitions=partitions)
        case PartitionsRevoked(partitions=partitions):
            return RunMoment(at_ms=at_ms, name=REVOKED, member=member, partitions=partitions)
        case PartitionsLost(partitions=partitions):
            return RunMoment(at_ms=at_ms, name=LOST, member=member, partitions=partitions)
        case FaultBegan(fault=fault):
            return RunMoment(at_ms=at_ms, name=FAULT_BEGAN, member=member, text=str(fault.kind.value))
        case FaultEnded(condition=condition):
            return RunMoment(at_ms=at_ms, name=FAULT_ENDED, member=member, text=condition)
    return None


def member_of(moment: TimelineMoment) -> str | None:
    """The id of the member that an event is about: the one that it names, or the leader of a new generation."""
    found: str | None = getattr(moment.event, "member_id", None) or getattr(moment.event, "leader_id", None)
    return found


def matching_moments(run: LessonRun, selector: MomentSelector) -> list[RunMoment]:
    """All moments of the run that fit the selector, without regard to the selector's `number`."""
    return [moment for moment in run_moments(run) if _fits(moment, selector)]


def _fits(moment: RunMoment, selector: MomentSelector) -> bool:
    return (
        moment.name == selector.moment
        and selector.member in ("", moment.member)
        and selector.generation in (None, moment.generation)
        and selector.api in ("", moment.api)
        and selector.error in ("", moment.error)
        and selector.says in moment.text
        and moment.at_ms >= selector.after
    )


def find_moment(run: LessonRun, selector: MomentSelector) -> RunMoment | None:
    """The moment that a selector names; None if fewer moments fit than the selector's `number`."""
    found = matching_moments(run, selector)
    place = selector.number - 1 if selector.number > 0 else len(found) + selector.number
    return found[place] if 0 <= place < len(found) else None


def find_explained(run: LessonRun, explained: ExplainedMoment) -> RunMoment | None:
    """The moment to which a note of the lesson belongs, in the group that is shown or in the lesson's second group."""
    return find_moment(run.of_group(explained.group) if explained.group else run, explained)


def selector_text(selector: MomentSelector) -> str:
    """A selector as it could stand in a file: `moment: refused, member: ben, api: OffsetCommit`."""
    shown = ("moment", "member", "generation", "api", "error", "says")
    parts = [f"{name}: {value}" for name in shown if (value := getattr(selector, name)) not in (None, "")]
    if selector.number != 1:
        parts.append(f"number: {selector.number}")
    if selector.after:
        parts.append(f"after: {format_duration(selector.after)}")
    return ", ".join(parts)


def selector_problems(selector: MomentSelector, members: tuple[str, ...]) -> Iterator[str]:
    """Yield what is wrong with a selector itself, such as an unknown name; it needs no run."""
    if selector.moment not in moment_names():
        nearest = get_close_matches(selector.moment, moment_names(), n=1)
        hint = f"did you mean {nearest[0]}?" if nearest else f"known are {', '.join(moment_names())}"
        yield f"unknown moment {selector.moment!r}; {hint}"
    if selector.member and selector.member not in members:
        yield f"unknown member {selector.member!r}; known are {', '.join(members)}"
    if (selector.api or selector.error) and selector.moment != REFUSED:
        yield f"`api` and `error` are for `moment: {REFUSED}`"
