"""Ways to make a plan smaller, each an edit that may be tried: plan in, smaller plan out.

An edit that finds nothing to do gives the plan back as it is. None of them makes anything larger, so that whoever
applies them again and again comes to an end.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from regroup.lab.plan.plan import QUIET, Happening, MemberPlan, NetworkPlan, Plan, When
from regroup.lab.plan.steps import brokers_named, members_named
from regroup.lab.plan.triggers import members_in
from regroup.members.faults import duration_text

Edit: TypeAlias = Callable[[Plan], Plan]
TIMES: Final = ("for_ms", "after_ms", "latency_ms", "jitter_ms")
"""Times of steps that may as well be rounder. Not those of expectations."""
ROUND_MS: Final = (60_000, 10_000, 5_000, 1_000, 500, 100)


# -- happenings


def fewer_happenings(plan: Plan) -> Iterator[Edit]:
    """Half of them, then a quarter, down to one by one; the last first, since most of what comes late is idle."""
    size = len(plan.happenings)
    while size:
        for end in range(len(plan.happenings), 0, -size):
            chunk = plan.happenings[max(0, end - size) : end]
            yield partial(_without_happenings, gone=frozenset(id(each) for each in chunk))
        size //= 2


def _without_happenings(plan: Plan, gone: frozenset[int]) -> Plan:
    """`gone` are the identities of values that the caller holds."""
    return replace(plan, happenings=tuple(each for each in plan.happenings if id(each) not in gone))


def _keeping(plan: Plan, keeps: Callable[[Happening], Happening | None]) -> tuple[Happening, ...]:
    return tuple(kept for each in plan.happenings if (kept := keeps(each)) is not None)


def fewer_points(plan: Plan) -> Iterator[Edit]:
    """At a time, in place of after something else has happened."""
    for place, happening in enumerate(plan.happenings):
        if happening.when.after:
            at_once = replace(happening, when=When("", happening.when.delay_ms))
            yield partial(_with_happening, place=place, happening=at_once)


# -- members


def fewer_members(plan: Plan) -> Iterator[Edit]:
    """One member less, and whatever happens to it or waits for it."""
    for name in reversed(list(plan.members)):
        yield partial(_without_member, name=name)


def _without_member(plan: Plan, name: str) -> Plan:
    return replace(
        plan,
        members={each: member for each, member in plan.members.items() if each != name},
        happenings=_keeping(plan, lambda happening: _without_name(happening, name)),
    )


def _without_name(happening: Happening, name: str) -> Happening | None:
    """Of several who are expected in a group, the others still are."""
    members = [each for each in getattr(happening.step, "members", ()) if each != name]
    if members and name not in members_in(happening.when.after):
        return replace(happening, step=replace(happening.step, members=tuple(members)))
    is_about = name in (*members_named(happening.step), *members_in(happening.when.after))
    return None if is_about else happening


def plainer_members(plan: Plan) -> Iterator[Edit]:
    """Without a habit, with the usual value of one option, or subscribed to the first topic alone."""
    for name, member in plan.members.items():
        yield partial(_change_member, name=name, change=partial(replace, topics=tuple(plan.topics)[:1]))
        for habit in member.habits:
            yield partial(_change_member, name=name, change=partial(_without_habit, habit=habit))
        for field in msgspec.structs.fields(MemberPlan):
            if field.name not in ("habits", "group", "topics"):
                usual = partial(replace, **{field.name: field.default})
                yield partial(_change_member, name=name, change=usual)


def _change_member(plan: Plan, name: str, change: Callable[[MemberPlan], MemberPlan]) -> Plan:
    return replace(plan, members={**plan.members, name: change(plan.members[name])})


def _without_habit(member: MemberPlan, habit: str) -> MemberPlan:
    return replace(member, habits=tuple(each for each in member.habits if each != habit))


# -- their surroundings


def plainer_surroundings(plan: Plan) -> Iterator[Edit]:
    """The usual network, no workload, no settings, one broker."""
    yield partial(replace, workload=QUIET)
    yield partial(replace, network=NetworkPlan())
    yield partial(replace, disk_latency_ms=0.0)
    for setting in plan.settings:
        yield partial(_without_setting, setting=setting)
    for brokers in range(1, plan.brokers):
        yield partial(_with_brokers, brokers=brokers)


def _without_setting(plan: Plan, setting: str) -> Plan:
    return replace(plan, settings={name: value for name, value in plan.settings.items() if name != setting})


def _with_brokers(plan: Plan, brokers: int) -> Plan:
    """What happens to the others does not happen."""

    def keeps(happening: Happening) -> Happening | None:
        return None if any(number >= brokers for number in brokers_named(happening.step)) else happening

    return replace(plan, brokers=min(brokers, plan.brokers), happenings=_keeping(plan, keeps))


def fewer_partitions(plan: Plan) -> Iterator[Edit]:
    """A topic less, or fewer partitions in it."""
    for topic in reversed(list(plan.topics)):
        yield partial(_without_topic, topic=topic)
    for topic, partitions in plan.topics.items():
        for fewer in dict.fromkeys((1, partitions // 2, partitions - 1)):
            if 1 <= fewer < partitions:
                yield partial(_with_partitions, topic=topic, partitions=fewer)


def _without_topic(plan: Plan, topic: str) -> Plan:
    """Whoever subscribes to nothing else takes no part. One topic stays."""
    if plan.topics.keys() <= {topic}:
        return plan
    idle = [name for name, member in plan.members.items() if member.topics == (topic,)]
    for name in idle:
        plan = _without_member(plan, name)
    members = {
        name: replace(member, topics=tuple(each for each in member.topics if each != topic))
        for name, member in plan.members.items()
    }
    topics = {name: partitions for name, partitions in plan.topics.items() if name != topic}
    happenings = tuple(each for each in plan.happenings if getattr(each.step, "topic", "") != topic)
    return replace(plan, topics=topics, members=members, happenings=happenings)


def _with_partitions(plan: Plan, topic: str, partitions: int) -> Plan:
    if plan.topics.get(topic, 0) <= partitions:
        return plan
    return replace(plan, topics={**plan.topics, topic: partitions})


# -- times


def simpler_times(plan: Plan) -> Iterator[Edit]:
    """Rounder moments and durations: those that are shorter to write, or as short and sooner over."""
    for place, happening in enumerate(plan.happenings):
        for rounder in rounder_than(happening.when.delay_ms):
            yield partial(_with_delay, place=place, delay_ms=rounder)
        for field in TIMES:
            for rounder in rounder_than(getattr(happening.step, field, 0)):
                yield partial(_with_time, place=place, field=field, time_ms=rounder)
    for rounder in rounder_than(plan.heal_ms):
        yield partial(_with_heal, heal_ms=rounder)


def is_simpler(one_ms: int, other_ms: int) -> bool:
    """Shorter to write; or as short, and less. Nothing is simpler than no time at all."""
    return _effort(one_ms) < _effort(other_ms)


def _effort(time_ms: int) -> tuple[int, int]:
    return (len(duration_text(time_ms)) if time_ms else 0, time_ms)


def rounder_than(time_ms: int) -> Iterable[int]:
    """The simplest first."""
    near = {round(time_ms / step) * step for step in ROUND_MS} | {0, time_ms // 2 // 1_000 * 1_000}
    return sorted((each for each in near if is_simpler(each, time_ms)), key=_effort)


def _with_delay(plan: Plan, place: int, delay_ms: int) -> Plan:
    happening = plan.happenings[place]
    if not is_simpler(delay_ms, happening.when.delay_ms):
        return plan
    return _with_happening(plan, place, replace(happening, when=When(happening.when.after, delay_ms)))


def _with_time(plan: Plan, place: int, field: str, time_ms: int) -> Plan:
    step = plan.happenings[place].step
    if time_ms <= 0 or not is_simpler(time_ms, getattr(step, field)):
        return plan
    return _with_happening(plan, place, replace(plan.happenings[place], step=replace(step, **{field: time_ms})))


def _with_heal(plan: Plan, heal_ms: int) -> Plan:
    return replace(plan, heal_ms=heal_ms) if is_simpler(heal_ms, plan.heal_ms) else plan


def _with_happening(plan: Plan, place: int, happening: Happening) -> Plan:
    happenings = [*plan.happenings]
    happenings[place] = happening
    return replace(plan, happenings=tuple(happenings))


PASSES: Final[tuple[Callable[[Plan], Iterator[Edit]], ...]] = (
    fewer_happenings,
    fewer_points,
    fewer_members,
    plainer_surroundings,
    plainer_members,
    fewer_partitions,
    simpler_times,
)
"""In the order in which they are worth trying."""
