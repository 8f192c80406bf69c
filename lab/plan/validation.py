"""Validation of plans: every member, broker, topic and group that a plan names must exist."""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from difflib import get_close_matches
from typing import Final, NamedTuple

from regroup.assignors.interface import AssignorError
from regroup.assignors.registry import assignor_named
from regroup.coordinator.consumer.targets import ASSIGNORS
from regroup.coordinator.settings import CoordinatorSettings, InvalidSetting
from regroup.lab.plan.expectations import GroupIsEmpty, GroupIsStable
from regroup.lab.plan.plan import MemberPlan, PlannedStep, SimulationPlan
from regroup.lab.plan.rare_steps import (
    CommitsUnsubscribed,
    NewMemberCommitsAndJoins,
    OldMemberComesAndGoes,
    OtherBrokerIsAsked,
    RackIsLeftOut,
    StableOffsetsAreFetched,
    SubscribesToOneTopic,
    TopicIsUnknown,
)
from regroup.lab.plan.sentences import KAFKA_NAME, MEMBER_NAME
from regroup.lab.plan.step_sentences import brokers_named, members_named, parse_step
from regroup.lab.plan.steps import (
    GroupIsDeleted,
    NewMemberDoesNotReturn,
    NewMemberFallsSilent,
    OffsetsAreAltered,
    OffsetsAreDeleted,
    TopicGrows,
    TopicIsCreated,
    TopicIsDeleted,
)
from regroup.lab.plan.triggers import check_milestone, milestone_members
from regroup.lab.plan.yaml_options import option_name
from regroup.members.consumer.settings import ConsumerSettings
from regroup.members.faults import MemberFaultKind, parse_fault
from regroup.members.runtime.consumer_protocol_member import FAULTS
from regroup.notation.durations import format_duration
from regroup.server.apis.transaction_lists import compile_pattern
from regroup.server.releases import release_named

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
PROTOCOLS: Final = (CLASSIC, CONSUMER)
READ_COMMITTED: Final = "read_committed"
ISOLATION_LEVELS: Final = ("read_uncommitted", READ_COMMITTED)
CLASSIC_FAULTS: Final = tuple(kind for kind in MemberFaultKind if kind is not MemberFaultKind.SLOW_REVOKE)
STEPS_OF_GROUPS: Final = (
    OffsetsAreDeleted,
    OffsetsAreAltered,
    CommitsUnsubscribed,
    GroupIsDeleted,
    NewMemberDoesNotReturn,
    NewMemberFallsSilent,
    OldMemberComesAndGoes,
    RackIsLeftOut,
    StableOffsetsAreFetched,
    NewMemberCommitsAndJoins,
    OtherBrokerIsAsked,
)
"""The steps that name a group."""
STEPS_OF_TOPICS: Final = (
    TopicGrows,
    TopicIsDeleted,
    TopicIsUnknown,
    SubscribesToOneTopic,
    OffsetsAreDeleted,
    OffsetsAreAltered,
    CommitsUnsubscribed,
)
"""The steps that name a topic which is there, or will be."""
_FIELD_IN_MS: Final = re.compile(r"(\w+_ms) \((\d+)\)")


class PlanProblem(NamedTuple):
    """One reason why a plan cannot be played: what it names and what to write in its place."""

    about: str
    """The wrong word, as it stands in the plan."""
    text: str
    """The message: what is wrong, and what to write."""


def check_plan(plan: SimulationPlan) -> None:
    """Raise ValueError if the plan cannot be played. The message says what to write."""
    for problem in plan_problems(plan):
        raise ValueError(problem.text)


def plan_problems(plan: SimulationPlan) -> Iterator[PlanProblem]:
    """Yield every reason why a plan cannot be played, such as a step for a member that the plan does not have."""
    yield from _number_problems(plan)
    created = [each.step.topic for each in plan.steps if isinstance(each.step, TopicIsCreated)]
    topics = dict.fromkeys([*plan.topics, *created])
    for name, member in plan.members.items():
        yield from _member_problems(name, member, topics)
    for planned in plan.steps:
        yield from _step_problems(planned, plan, topics)


def _number_problems(plan: SimulationPlan) -> Iterator[PlanProblem]:
    texts = {setting: str(value) for setting, value in plan.settings.items()}
    together = list(_raised_by("settings", CoordinatorSettings.from_texts, texts))
    if together:  # some settings are limits of others, so one that is wrong alone may be right beside the others
        alone = [
            each for name in texts for each in _raised_by(name, CoordinatorSettings.from_texts, {name: texts[name]})
        ]
        yield from alone or together
    if plan.release:
        yield from _raised_by(plan.release, release_named, plan.release)
    if plan.brokers < 1:
        yield PlanProblem("brokers", f"invalid number of brokers: {plan.brokers}; at least 1 is needed")
    for topic, partitions in plan.topics.items():
        if partitions < 1 or not KAFKA_NAME.matches(topic):
            yield PlanProblem(
                topic, f"invalid topic: {topic!r} with {partitions} partitions; write for example 'orders: 4'"
            )
    for name in ("faults_end_ms", "recovery_timeout_ms", "disk_latency_ms"):
        if getattr(plan, name) < 0:
            yield PlanProblem(name, f"{name} must not be negative: {getattr(plan, name)}")


def _member_problems(name: str, planned: MemberPlan, topics: Iterable[str]) -> Iterator[PlanProblem]:
    if not MEMBER_NAME.matches(name):
        yield PlanProblem(name, invalid_member_name(name))
    if planned.pattern:
        yield from _pattern_problems(name, planned)
    else:
        for topic in planned.topics:
            yield from _unknown("topic", topic, topics)
    for fault in planned.faults:
        yield from _raised_by(fault, parse_fault, fault)
    for assignor in planned.assignors:
        yield from _raised_by(assignor, assignor_named, assignor)
    if planned.group_remote_assignor:
        yield from _remote_assignor_problems(name, planned)
    if planned.protocol not in PROTOCOLS:
        yield PlanProblem("protocol", f"unknown protocol: {planned.protocol!r}; write {' or '.join(PROTOCOLS)}")
    else:
        yield from _fault_problems(name, planned)
        yield from _client_problems(name, planned)
    if planned.isolation_level not in ISOLATION_LEVELS:
        yield PlanProblem(
            "isolation level",
            f"unknown isolation level: {planned.isolation_level!r}; write {' or '.join(ISOLATION_LEVELS)}",
        )
    elif planned.isolation_level != ISOLATION_LEVELS[0] and planned.client:
        yield PlanProblem("isolation level", f"{name} reads committed records, which needs the newest client")
    if planned.transforms_to:
        yield from _transform_problems(name, planned, topics)
    for problem in _raised_by(name, consumer_settings, name, planned):
        yield problem._replace(text=_FIELD_IN_MS.sub(_as_option, problem.text))


def _client_problems(name: str, planned: MemberPlan) -> Iterator[PlanProblem]:
    if not planned.client:
        return
    yield from _raised_by(planned.client, release_named, planned.client)
    with suppress(InvalidSetting):
        if planned.protocol == CONSUMER and not release_named(planned.client).group_version:
            text = f"{name} has protocol: {CONSUMER}, which needs a client from 4.0 on (KIP-848): {planned.client}"
            yield PlanProblem("client", text)


def _pattern_problems(name: str, planned: MemberPlan) -> Iterator[PlanProblem]:
    yield from _raised_by(planned.pattern, compile_pattern, planned.pattern)
    if planned.protocol == CLASSIC:
        yield from _raised_by(planned.pattern, compiled_by_client, planned.pattern)


def compiled_by_client(pattern: str) -> re.Pattern[str]:
    """The pattern of a classic member, which matches it against the topics itself. Raises ValueError if it is none."""
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ValueError(f"invalid pattern: {pattern!r}; {error}") from error


def _remote_assignor_problems(name: str, planned: MemberPlan) -> Iterator[PlanProblem]:
    assignor = planned.group_remote_assignor
    if planned.protocol != CONSUMER:
        text = f"{name} has the protocol {planned.protocol}, and a group remote assignor needs protocol: {CONSUMER}"
        yield PlanProblem("group remote assignor", text)
    elif assignor not in ASSIGNORS:
        text = f"the coordinator has no assignor {assignor!r}; it has {' and '.join(ASSIGNORS)}"
        yield PlanProblem("group remote assignor", text)


def _fault_problems(name: str, planned: MemberPlan) -> Iterator[PlanProblem]:
    """Yield a problem for each fault of a member that the member's protocol does not have."""
    known = FAULTS if planned.protocol == CONSUMER else CLASSIC_FAULTS
    for fault in planned.faults:
        with suppress(ValueError):  # what is no fault at all is reported as such
            if parse_fault(fault).kind not in known:
                names = ", ".join(kind.value for kind in known)
                text = f"{name} has the protocol {planned.protocol}, and its faults can be {names}; not {fault}"
                yield PlanProblem(fault, text)


def _transform_problems(name: str, planned: MemberPlan, topics: Iterable[str]) -> Iterator[PlanProblem]:
    """Yield a problem if a member cannot write a record for each one that it has processed."""
    yield from _unknown("topic", planned.transforms_to, topics)
    if planned.protocol != CLASSIC or planned.client:
        text = f"{name} transforms records, which needs protocol: {CLASSIC} and the newest client"
        yield PlanProblem(planned.transforms_to, text)
    elif planned.transforms_to in planned.topics:
        yield PlanProblem(planned.transforms_to, f"{name} transforms records of {planned.transforms_to} to itself")


def invalid_member_name(name: str) -> str:
    """The text of the error for a member's name that is not allowed in a plan."""
    return (
        f"invalid member name: {name!r}; a name begins with a letter from a to z or A to Z, may go on with these, "
        "digits, - and _, and is none of the words all, and, everybody, no, nobody, the"
    )


def _as_option(field: re.Match[str]) -> str:
    """Write a field as a scenario does: `heartbeat interval (3s)` for `heartbeat_interval_ms (3000)`."""
    return f"{option_name(field[1])} ({format_duration(int(field[2]), with_fractions=True)})"


def consumer_settings(name: str, planned: MemberPlan) -> ConsumerSettings:
    """The consumer's configuration of a planned member. Raises ValueError if no consumer could work with it."""
    return ConsumerSettings(
        group_id=planned.group,
        client_id=name,
        group_instance_id=planned.instance_id,
        partition_assignment_strategy=planned.assignors,
        group_remote_assignor=planned.group_remote_assignor or None,
        session_timeout_ms=planned.session_timeout_ms,
        heartbeat_interval_ms=planned.heartbeat_interval_ms,
        max_poll_interval_ms=planned.max_poll_interval_ms,
        request_timeout_ms=planned.request_timeout_ms,
        auto_commit_interval_ms=planned.auto_commit_interval_ms,
        auto_offset_reset="earliest",
        isolation_level="read_committed" if planned.isolation_level == READ_COMMITTED else "read_uncommitted",
        enable_auto_commit=not planned.transforms_to,
    )


def _step_problems(planned: PlannedStep, plan: SimulationPlan, topics: Iterable[str]) -> Iterator[PlanProblem]:
    step, milestone = planned.step, planned.trigger.milestone
    if milestone:
        yield from _raised_by(milestone, check_milestone, milestone)
    sentence = str(step)
    yield from _raised_by(sentence, parse_step, sentence)
    for name in (*milestone_members(milestone), *members_named(step)):
        yield from _unknown("member", name, plan.members)
    for broker in brokers_named(step):
        if broker >= plan.brokers:
            yield PlanProblem(
                f"broker {broker}", f"unknown broker: {broker}; the last one is broker {plan.brokers - 1}"
            )
    if isinstance(step, STEPS_OF_TOPICS):
        yield from _unknown("topic", step.topic, topics)
    if isinstance(step, (GroupIsStable, GroupIsEmpty, *STEPS_OF_GROUPS)):
        yield from _unknown("group", step.group, dict.fromkeys(each.group for each in plan.members.values()))


def _unknown(kind: str, name: str, known: Iterable[str]) -> Iterator[PlanProblem]:
    if name not in known:
        nearest = get_close_matches(name, list(known), n=1)
        hint = f"did you mean {nearest[0]}?" if nearest else f"known are {', '.join(known) or 'none'}"
        yield PlanProblem(name, f"unknown {kind}: {name!r}; {hint}")


def _raised_by(about: str, check: Callable[..., object], *arguments: object) -> Iterator[PlanProblem]:
    try:
        check(*arguments)
    except (ValueError, AssignorError) as error:
        yield PlanProblem(about, str(error))
