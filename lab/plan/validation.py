"""Whether a plan can be played at all: everybody and everything that it speaks of has to be there."""

from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from typing import NamedTuple

from regroup.assignors.interface import AssignorError
from regroup.assignors.registry import assignor_named
from regroup.coordinator.settings import Settings
from regroup.lab.plan.expectations import GroupIsEmpty, GroupIsStable
from regroup.lab.plan.plan import Happening, MemberPlan, Plan
from regroup.lab.plan.sentences import KAFKA_NAME, NAME
from regroup.lab.plan.steps import (
    TopicAppears,
    TopicGrows,
    TopicVanishes,
    brokers_named,
    members_named,
    parse_step,
)
from regroup.lab.plan.triggers import check_point, members_in
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.faults import parse_habit


class Problem(NamedTuple):
    """What is wrong with a plan: the word of it that is wrong, and what would do."""

    about: str
    text: str


def check_plan(plan: Plan) -> None:
    """ValueError if the plan cannot be played; the message says what would do."""
    for problem in problems(plan):
        raise ValueError(problem.text)


def problems(plan: Plan) -> Iterator[Problem]:
    """All that stands in the way of playing it."""
    yield from _numbers(plan)
    appearing = [each.step.topic for each in plan.happenings if isinstance(each.step, TopicAppears)]
    topics = dict.fromkeys([*plan.topics, *appearing])
    for name, planned in plan.members.items():
        yield from _of_member(name, planned, topics)
    for happening in plan.happenings:
        yield from _of_happening(happening, plan, topics)


def _numbers(plan: Plan) -> Iterator[Problem]:
    for setting, value in plan.settings.items():
        yield from _raised_by(setting, Settings.from_texts, {setting: str(value)})
    if plan.brokers < 1:
        yield Problem("brokers", f"there must be at least 1 broker, not {plan.brokers}")
    for topic, partitions in plan.topics.items():
        if partitions < 1 or not KAFKA_NAME.fits(topic):
            yield Problem(topic, f"topic {topic!r} with {partitions} partitions: write for example 'orders: 4'")
    for name in ("heal_ms", "bound_ms", "disk_latency_ms"):
        if getattr(plan, name) < 0:
            yield Problem(name, f"{name} cannot be below 0")


def _of_member(name: str, planned: MemberPlan, topics: Iterable[str]) -> Iterator[Problem]:
    if not NAME.fits(name):
        yield Problem(name, f"{name!r} cannot be a member's name; write for example 'anna'")
    for topic in planned.topics:
        yield from _unknown("topic", topic, topics)
    for habit in planned.habits:
        yield from _raised_by(habit, parse_habit, habit)
    for assignor in planned.assignors:
        yield from _raised_by(assignor, assignor_named, assignor)
    yield from _raised_by(name, consumer_settings, name, planned)


def consumer_settings(name: str, planned: MemberPlan) -> ConsumerSettings:
    """A member's configuration. ValueError for what no consumer could work with."""
    return ConsumerSettings(
        group_id=planned.group,
        client_id=name,
        group_instance_id=planned.instance_id,
        partition_assignment_strategy=planned.assignors,
        session_timeout_ms=planned.session_timeout_ms,
        heartbeat_interval_ms=planned.heartbeat_interval_ms,
        max_poll_interval_ms=planned.max_poll_interval_ms,
        request_timeout_ms=planned.request_timeout_ms,
        auto_commit_interval_ms=planned.auto_commit_interval_ms,
        auto_offset_reset="earliest",
    )


def _of_happening(happening: Happening, plan: Plan, topics: Iterable[str]) -> Iterator[Problem]:
    step, when = happening.step, happening.when
    if when.after:
        yield from _raised_by(when.after, check_point, when.after)
    yield from _raised_by(str(step), parse_step, str(step))
    for name in (*members_in(when.after), *members_named(step)):
        yield from _unknown("member", name, plan.members)
    for broker in brokers_named(step):
        if broker >= plan.brokers:
            yield Problem(f"broker {broker}", f"there is no broker {broker}; the last one is broker {plan.brokers - 1}")
    if isinstance(step, TopicGrows | TopicVanishes):
        yield from _unknown("topic", step.topic, topics)
    if isinstance(step, GroupIsStable | GroupIsEmpty):
        yield from _unknown("group", step.group, dict.fromkeys(each.group for each in plan.members.values()))


def _unknown(kind: str, name: str, known: Iterable[str]) -> Iterator[Problem]:
    if name not in known:
        nearest = get_close_matches(name, list(known), n=1)
        hint = f"did you mean {nearest[0]}?" if nearest else f"known are {', '.join(known) or 'none'}"
        yield Problem(name, f"there is no {kind} {name!r}; {hint}")


def _raised_by(about: str, check: Callable[..., object], *arguments: object) -> Iterator[Problem]:
    try:
        check(*arguments)
    except (ValueError, AssignorError) as error:
        yield Problem(about, str(error))
