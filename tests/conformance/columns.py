"""The columns of docs/conformance.md: which brokers are started with which settings, and which stories they run.

A column has several runs. The first one runs all stories, each further one those that no run before could observe.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from regroup.conformance.harness.broker_under_test import ConformanceTarget
from regroup.conformance.harness.cases import ConformanceCase
from regroup.conformance.run.report import ConformanceReport, StoryRun, add_not_observable
from regroup.conformance.run.runner import StoryOutcome, StoryRunOptions, StoryVerdict, run_stories
from regroup.conformance.stories import CASES
from tests.conformance.apache_kafka import ApacheKafkaBroker, apache_kafka
from tests.conformance.peers import (
    FAST_SETTINGS,
    POLICY_SETTINGS,
    SHORT_RETENTION_SETTINGS,
    SMALL_GROUP_SETTINGS,
    RegroupBroker,
    kfake_cluster,
    librdkafka_mock_cluster,
    librdkafka_version,
    regroup_broker,
)

DEFAULT_LONGEST_S = StoryRunOptions("").max_case_timeout_s
FULL_LONGEST_S = 400.0
"""Longer than the longest story."""

MOCK_NEWEST_VERSIONS = {"JoinGroup": 5, "SyncGroup": 3, "Heartbeat": 3, "LeaveGroup": 3}
"""The mock advertises the flexible versions, but cannot decode them."""

MOCK_SETTINGS = {"group.initial.rebalance.delay.ms": "3000", "group.min.session.timeout.ms": "6000"}
"""The settings of the mock, which cannot be changed."""

MOCKS_AT_ONCE = 6
"""Stories on the mock mostly wait for their timeouts."""


@dataclass(frozen=True, slots=True)
class BrokerPlan:
    """A broker, or a cluster, to start: its settings, and whether it is restarted in the middle."""

    settings: Mapping[str, str] = field(default_factory=dict)
    brokers: int = 1
    restarts: bool = False


DEFAULTS = (BrokerPlan(),)
EVERYTHING = (
    BrokerPlan(FAST_SETTINGS, restarts=True),
    BrokerPlan(SMALL_GROUP_SETTINGS),
    BrokerPlan(SHORT_RETENTION_SETTINGS),
    *(BrokerPlan(settings) for settings in POLICY_SETTINGS),
    BrokerPlan(FAST_SETTINGS, brokers=2),
)
"""These settings together show every story; the fast ones come first, and most stories run with them."""


@dataclass(frozen=True, slots=True)
class StartedBroker:
    """A broker that runs, and what `regroup conformance` has to know about it."""

    address: str
    version: str
    command: str
    """The command that starts it, for the page."""
    restart: Callable[[], None] | None = None
    known_settings: Mapping[str, str] = field(default_factory=dict)
    newest_versions: Mapping[str, int] = field(default_factory=dict)

    def options(self) -> list[str]:
        """The options of `regroup conformance` for what this broker does not report."""
        return [
            *(f"--set {name}={value}" for name, value in self.known_settings.items()),
            *(f"--newest {name}={version}" for name, version in self.newest_versions.items()),
        ]


StartBroker = Callable[[BrokerPlan], AbstractContextManager[StartedBroker]]


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the page: a broker, and the runs that make its verdicts."""

    title: str
    start: StartBroker
    plans: Sequence[BrokerPlan]
    longest_s: float = FULL_LONGEST_S
    fresh_broker_for_each_area: bool = False


def _settings_options(settings: Mapping[str, str]) -> str:
    return "".join(f" --set {name}={value}" for name, value in settings.items())


def _restart_of(broker: ApacheKafkaBroker | RegroupBroker) -> Callable[[], None]:
    def restart() -> None:
        broker.stop()
        broker.start()

    return restart


@contextmanager
def start_kafka(plan: BrokerPlan) -> Iterator[StartedBroker]:
    """Apache Kafka, downloaded by Maven."""
    command = "python tests/conformance/apache_kafka.py" + (f" --brokers {plan.brokers}" if plan.brokers > 1 else "")
    command += _settings_options(plan.settings)
    with apache_kafka(plan.settings) as first:
        restart = _restart_of(first) if plan.restarts else None
        if plan.brokers == 1:
            yield StartedBroker(first.address, first.version, command, restart)
        else:
            with apache_kafka(plan.settings, controlled_by=first) as second:
                yield StartedBroker(second.address, second.version, command, restart)


@contextmanager
def start_regroup(plan: BrokerPlan) -> Iterator[StartedBroker]:
    """The emulator, as a user starts it."""
    command = "regroup serve" + (f" --brokers {plan.brokers}" if plan.brokers > 1 else "")
    with regroup_broker(plan.settings, brokers=plan.brokers) as broker:
        restart = _restart_of(broker) if plan.restarts else None
        yield StartedBroker(broker.address, broker.version, command + _settings_options(plan.settings), restart)


@contextmanager
def start_kfake(plan: BrokerPlan) -> Iterator[StartedBroker]:
    """kfake, whose settings cannot be asked for."""
    with kfake_cluster(brokers=plan.brokers) as (address, version):
        yield StartedBroker(
            address, version, f"tests/conformance/kfake/main.go {plan.brokers}", known_settings=plan.settings
        )


@contextmanager
def start_mock(plan: BrokerPlan) -> Iterator[StartedBroker]:
    """The mock cluster of librdkafka."""
    with librdkafka_mock_cluster(brokers=plan.brokers) as address:
        command = f"librdkafka with test.mock.num.brokers={plan.brokers}, a new one for each area"
        yield StartedBroker(
            address,
            librdkafka_version(),
            command,
            known_settings=plan.settings,
            newest_versions=MOCK_NEWEST_VERSIONS,
        )


COLUMNS = {
    "regroup-defaults": Column("regroup, defaults", start_regroup, DEFAULTS, DEFAULT_LONGEST_S),
    "regroup": Column("regroup, all settings", start_regroup, EVERYTHING),
    "kafka-defaults": Column("Apache Kafka, defaults", start_kafka, DEFAULTS, DEFAULT_LONGEST_S),
    "kafka": Column("Apache Kafka, all settings", start_kafka, EVERYTHING),
    "kfake": Column("kfake", start_kfake, (BrokerPlan(FAST_SETTINGS), BrokerPlan(FAST_SETTINGS, brokers=2))),
    "mock": Column(
        "librdkafka mock",
        start_mock,
        (BrokerPlan(MOCK_SETTINGS), BrokerPlan(MOCK_SETTINGS, brokers=2)),
        fresh_broker_for_each_area=True,
    ),
}


def report_on(column: Column) -> ConformanceReport:
    """Make all runs of a column, one broker after the other, and merge their verdicts."""
    verdicts: list[StoryVerdict] = []
    runs: list[StoryRun] = []
    version = ""
    for plan in column.plans:
        observed = {each.behaviour for each in verdicts if each.outcome is not StoryOutcome.NOT_OBSERVABLE}
        cases = [case for case in CASES.values() if case.id not in observed and _may_show(case, plan, verdicts)]
        version, run, found = _run(column, plan, cases)
        runs.append(run)
        verdicts = merge_verdicts(verdicts, found) if verdicts else found
    name, _, which = column.title.partition(", ")
    title = f"{name} {version}{f', {which}' if which else ''}"
    return ConformanceReport(title, now(), add_not_observable(verdicts), runs)


def _may_show(case: ConformanceCase, plan: BrokerPlan, verdicts: Sequence[StoryVerdict]) -> bool:
    """Whether a further run may show a story: only stories about clusters need a cluster."""
    needs_cluster = any(
        each.behaviour == case.id and each.remedy is not None and each.remedy.brokers > 1 for each in verdicts
    )
    return not verdicts or needs_cluster == (plan.brokers > 1)


def _run(
    column: Column, plan: BrokerPlan, cases: Sequence[ConformanceCase]
) -> tuple[str, StoryRun, list[StoryVerdict]]:
    """The version of the broker, a description of the run, and the verdicts on these stories."""
    with column.start(plan) as broker:
        if not column.fresh_broker_for_each_area:
            verdicts = asyncio.run(examine(broker, cases, column.longest_s))
    if column.fresh_broker_for_each_area:
        verdicts = _examine_areas(column, plan, cases)
    options = [f"--longest {column.longest_s:g}"] if column.longest_s != DEFAULT_LONGEST_S else []
    options += broker.options() + (["--restart COMMAND"] if broker.restart else [])
    command = " ".join(["regroup conformance --bootstrap HOST:PORT", *options])
    shown = sum(each.outcome is not StoryOutcome.NOT_OBSERVABLE for each in verdicts)
    return broker.version, StoryRun(broker.command, command, len(verdicts), shown), verdicts


async def examine(broker: StartedBroker, cases: Sequence[ConformanceCase], longest_s: float) -> list[StoryVerdict]:
    """The verdicts on a broker that runs."""
    restart: Callable[[], Awaitable[None]] | None = None
    if broker.restart is not None:
        restart = partial(asyncio.to_thread, broker.restart)
    target = await ConformanceTarget.discover(
        broker.address, broker.known_settings, restart, dict(broker.newest_versions)
    )
    return await run_stories(target, cases, StoryRunOptions(uuid.uuid4().hex[:8], max_case_timeout_s=longest_s))


def _examine_areas(column: Column, plan: BrokerPlan, cases: Sequence[ConformanceCase]) -> list[StoryVerdict]:
    """Each area has a broker of its own; several run side by side."""
    areas = [[case for case in cases if case.area == area] for area in dict.fromkeys(case.area for case in cases)]
    with ThreadPoolExecutor(MOCKS_AT_ONCE) as pool:
        found = [verdict for verdicts in pool.map(partial(_examine_area, column, plan), areas) for verdict in verdicts]
    verdicts = {verdict.behaviour: verdict for verdict in found}
    return [verdicts[case.id] for case in cases]


def _examine_area(column: Column, plan: BrokerPlan, cases: Sequence[ConformanceCase]) -> list[StoryVerdict]:
    """A story may abort the broker's process; then each story of the area gets a broker of its own."""

    def examine_on_fresh_broker(some: Sequence[ConformanceCase]) -> list[StoryVerdict]:
        with column.start(plan) as broker:
            return asyncio.run(examine(broker, some, column.longest_s))

    verdicts = examine_on_fresh_broker(cases)
    if any("refused" in verdict.reason for verdict in verdicts):
        verdicts = [verdict for case in cases for verdict in examine_on_fresh_broker([case])]
    return verdicts


def merge_verdicts(first: Iterable[StoryVerdict], second: Iterable[StoryVerdict]) -> list[StoryVerdict]:
    """The verdicts of two runs with different settings: the second one counts where the first could not observe."""
    others = {verdict.behaviour: verdict for verdict in second}
    return [others.get(each.behaviour, each) if each.outcome is StoryOutcome.NOT_OBSERVABLE else each for each in first]


def now() -> str:
    """The time in ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")
