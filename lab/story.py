"""Stories in Python: a thin way to write down a plan, with names instead of ids.

    @story("The leader crashes between the answer to her JoinGroup and her SyncGroup")
    def leader_crashes(tell: Story) -> None:
        tell.topic("orders", partitions=4)
        tell.members("anna", "ben", "carla", join_at="0s")
        tell.after("anna is elected leader").member("anna").crashes()
        tell.at("70s").group().is_stable(with_=["ben", "carla"], within="10s")

    outcome = play(leader_crashes())

Times are text as everywhere in the lab: `300ms`, `20s`, `1.5m`. What a plan cannot be is refused with a ValueError when
the story is called.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec

from msgspec.structs import replace

from regroup.lab.plan.plan import Happening, MemberPlan, NetworkPlan, Plan, When
from regroup.lab.plan.steps import Joins, Step, parse_step
from regroup.lab.plan.triggers import check_point, parse_when
from regroup.lab.plan.validation import check_plan
from regroup.lab.story_subjects import (
    BrokersSubject,
    BrokerSubject,
    DiskSubject,
    GroupSubject,
    LogSubject,
    MemberSubject,
    NetworkSubject,
    RunSubject,
    TopicSubject,
)
from regroup.members.faults import parse_duration_ms
from regroup.members.runtime.workload import Workload

P = ParamSpec("P")


def story(title: str) -> Callable[[Callable[Concatenate["Story", P], None]], Callable[P, Plan]]:
    """Makes a function that tells a story into one that returns its plan; further arguments are passed on."""

    def decorate(tell: Callable[Concatenate["Story", P], None]) -> Callable[P, Plan]:
        @wraps(tell)
        def plan(*args: P.args, **kwargs: P.kwargs) -> Plan:
            told = Story(title)
            tell(told, *args, **kwargs)
            check_plan(told.plan)
            return told.plan

        return plan

    return decorate


class Moment:
    """When something happens. Every subject's methods write down what happens to it then, or what is expected of it."""

    def __init__(self, tell: "Story", when: When) -> None:
        self._tell = tell
        self._when = when

    def happens(self, step: Step | str) -> None:
        """Any step, as a value or as its sentence."""
        self._tell.happens(self._when, parse_step(step) if isinstance(step, str) else step)

    def member(self, name: str) -> MemberSubject:
        return MemberSubject(self.happens, name)

    def group(self, name: str = "lab") -> GroupSubject:
        return GroupSubject(self.happens, name)

    def broker(self, number: int) -> BrokerSubject:
        return BrokerSubject(self.happens, number)

    def brokers(self) -> BrokersSubject:
        return BrokersSubject(self.happens)

    def network(self) -> NetworkSubject:
        return NetworkSubject(self.happens)

    def disk(self) -> DiskSubject:
        return DiskSubject(self.happens)

    def kafkas_log(self) -> LogSubject:
        return LogSubject(self.happens)

    def topic(self, name: str) -> TopicSubject:
        return TopicSubject(self.happens, name)

    def run(self) -> RunSubject:
        return RunSubject(self.happens)


class Story:
    """A plan in the making."""

    def __init__(self, title: str = "") -> None:
        self.plan = Plan(title=title, topics={})

    # How things stand before anything happens

    def topic(self, name: str, partitions: int) -> None:
        self._set(topics={**self.plan.topics, name: partitions})

    def member(self, name: str, **options: Any) -> None:
        """A consumer, configured by the fields of `MemberPlan`; durations may be text."""
        planned = MemberPlan(**{option: _option(option, value) for option, value in options.items()})
        self._set(members={**self.plan.members, name: planned})

    def members(self, *names: str, join_at: str | None = None, **options: Any) -> None:
        """Several that are configured alike; with `join_at` they join then."""
        for name in names:
            self.member(name, **options)
            if join_at is not None:
                self.happens(When(delay_ms=parse_duration_ms(join_at)), Joins(name))

    def setting(self, name: str, value: int) -> None:
        """A broker's setting by its Kafka name."""
        self._set(settings={**self.plan.settings, name: value})

    def brokers(self, count: int) -> None:
        self._set(brokers=count)

    def network(self, *, latency: str, jitter: str = "0ms") -> None:
        self._set(network=NetworkPlan(parse_duration_ms(latency), parse_duration_ms(jitter)))

    def workload(
        self, *, records_per_s: float, keys: int = 0, process_ms: float = 0.0, max_poll_records: int = 500
    ) -> None:
        """Records flow from the start; the fields are those of `Workload`."""
        workload = Workload(records_per_s, keys, process_ms=process_ms, max_poll_records=max_poll_records)
        self._set(workload=workload)

    def ends(self, *, faults_at: str, well_within: str | None = None) -> None:
        """When faults end, and how long the groups then have until they are well again."""
        bound_ms = self.plan.bound_ms if well_within is None else parse_duration_ms(well_within)
        self._set(heal_ms=parse_duration_ms(faults_at), bound_ms=bound_ms)

    # When

    def at(self, time: str) -> Moment:
        """So long after the start."""
        return Moment(self, When(delay_ms=parse_duration_ms(time)))

    def after(self, point: str, *, delay: str | None = None) -> Moment:
        """After the first time that this point of the run is reached."""
        return Moment(self, When(check_point(point), parse_duration_ms(delay) if delay else 0))

    def when(self, text: str) -> Moment:
        """As a file would say it: `5s after ben is assigned partitions`."""
        return Moment(self, parse_when(text))

    def happens(self, when: When, step: Step) -> None:
        self._set(happenings=(*self.plan.happenings, Happening(when, step)))

    def _set(self, **changes: Any) -> None:
        self.plan = replace(self.plan, **changes)


def _option(name: str, value: Any) -> Any:
    if name.endswith("_ms") and isinstance(value, str):
        return parse_duration_ms(value)
    return tuple(value) if isinstance(value, list) else value
