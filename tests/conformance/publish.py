"""Examine ours, Apache Kafka, kfake and librdkafka's mock, and write the page that puts them side by side.

python tests/conformance/publish.py docs/conformance.md            # half an hour: one story takes five minutes
python tests/conformance/publish.py --longest 60 --only kafka --only regroup /tmp/page.md
"""

import argparse
import asyncio
import sys
import uuid
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial, reduce
from pathlib import Path

import msgspec
from apache_kafka import ApacheKafka, NotAvailable, apache_kafka
from peers import CROWDED, FORGETFUL, NARROW, ROOMY, NotHere, Regroup, kfake, librdkafka_mock, librdkafka_version
from peers import regroup as our_own

from regroup.cli.conformance.steerable_cluster import steered_emulator
from regroup.cli.serve.command import set_up_log
from regroup.conformance.differential.comparison import Comparison, as_text, comparison
from regroup.conformance.differential.duel import DuelOutcome, duels
from regroup.conformance.harness.cases import Case
from regroup.conformance.harness.target import NotThere, Target
from regroup.conformance.run.report import Report, as_json, from_json, merged, with_the_unseen
from regroup.conformance.run.runner import Outcome, Plan, Verdict, run
from regroup.conformance.run.table import page
from regroup.conformance.stories import CASES

# It advertises the flexible versions and cannot read them.
MOCK_NEWEST = {"JoinGroup": 5, "SyncGroup": 3, "Heartbeat": 3, "LeaveGroup": 3}

# Its own: nothing can be set from outside.
MOCK_TOLD = {"group.initial.rebalance.delay.ms": "3000", "group.min.session.timeout.ms": "6000"}

MOCKS_AT_ONCE = 6
"""Its stories mostly wait for what never comes."""

SLOT_MS = 500
"""From move to move of a random course: three Java processes and a test run may be going on beside it."""

IN_A_CLUSTER = [
    CASES[name] for name in ("validation.not-coordinator", "offset-fetch.not-coordinator", "list.scope-is-one-broker")
]
"""What a broker that is alone cannot show."""

Broker = ApacheKafka | Regroup

INTRODUCTION = """
# Conformance

What Apache Kafka's coordinator of classic groups does, behaviour by behaviour, and who else does it. Each row is a
short exchange over the wire, told by `regroup conformance --bootstrap HOST:PORT` to any address that speaks Kafka;
`regroup conformance --list` shows what each one needs. In a cluster the stories go to the coordinators of their groups.
This page is written by `make conformance`.
"""


async def examined(
    address: str,
    longest: float,
    *,
    restart: Callable[[], None] | None = None,
    told: Mapping[str, str] | None = None,
    newest: Mapping[str, int] | None = None,
    cases: Iterable[Case] = tuple(CASES.values()),
) -> list[Verdict]:
    """The verdicts on one address."""

    async def again() -> None:
        assert restart is not None
        await asyncio.to_thread(restart)

    target = await Target.learn(address, told, again if restart else None, newest)
    return await run(target, cases, Plan(uuid.uuid4().hex[:8], longest_seconds=longest))


async def together(roomy: Broker, *others: Broker, longest: float) -> list[Verdict]:
    """The same broker with several sets of settings: what one cannot show, another may."""

    def restart() -> None:
        roomy.stop()
        roomy.start()

    first, *rest = await asyncio.gather(
        examined(roomy.address, longest, restart=restart), *(examined(each.address, longest) for each in others)
    )
    return reduce(merged, rest, first)


def of_kafka(longest: float) -> tuple[str, list[Verdict]]:
    with apache_kafka(ROOMY) as roomy, apache_kafka(CROWDED) as crowded, apache_kafka(FORGETFUL) as forgetful:
        of_one = asyncio.run(together(roomy, crowded, forgetful, longest=longest))
    with apache_kafka(ROOMY) as first, apache_kafka(ROOMY, joins=first) as second:
        of_two = asyncio.run(examined(second.address, longest, cases=IN_A_CLUSTER))
    return f"Apache Kafka {first.version}", merged(of_one, of_two)


def of_regroup(longest: float) -> tuple[str, list[Verdict]]:
    with our_own(ROOMY) as roomy, our_own(CROWDED) as crowded, our_own(FORGETFUL) as forgetful:
        of_one = asyncio.run(together(roomy, crowded, forgetful, longest=longest))
    with our_own(ROOMY, brokers=2) as two:
        of_two = asyncio.run(examined(two.address, longest, cases=IN_A_CLUSTER))
    return f"regroup {two.version}", merged(of_one, of_two)


def of_kfake(longest: float) -> tuple[str, list[Verdict]]:
    with kfake() as (address, version):
        of_one = asyncio.run(examined(address, longest, told=ROOMY))
    with kfake(brokers=2) as (address, _):
        of_two = asyncio.run(examined(address, longest, told=ROOMY, cases=IN_A_CLUSTER))
    return f"kfake {version}", merged(of_one, of_two)


def of_the_mock(longest: float) -> tuple[str, list[Verdict]]:
    """An area on each mock, several side by side."""
    areas = dict.fromkeys(each.area for each in CASES.values())
    with ThreadPoolExecutor(MOCKS_AT_ONCE) as pool:
        found = pool.map(partial(_of_an_area, longest=longest), areas)
        verdicts = {each.behaviour: each for area in found for each in area}
    of_two = [verdict for each in IN_A_CLUSTER for verdict in _of_a_mock([each], longest, brokers=2)]
    return f"librdkafka mock {librdkafka_version()}", merged([verdicts[name] for name in CASES], of_two)


def _of_an_area(area: str, longest: float) -> list[Verdict]:
    """A story may abort the whole process: then each story of the area has a mock of its own."""
    cases = [each for each in CASES.values() if each.area == area]
    found = _of_a_mock(cases, longest)
    if any("refused" in each.reason for each in found):
        found = [verdict for each in cases for verdict in _of_a_mock([each], longest)]
    return found


def _of_a_mock(cases: list[Case], longest: float, *, brokers: int = 1) -> list[Verdict]:
    with librdkafka_mock(brokers=brokers) as address:
        return asyncio.run(examined(address, longest, told=MOCK_TOLD, newest=MOCK_NEWEST, cases=cases))


CHANCE = "chance"
PEERS = {"regroup": of_regroup, "kafka": of_kafka, "kfake": of_kfake, "mock": of_the_mock}


def reported(name: str, longest: float) -> Report | None:
    """A report on this one, if it can run here."""
    try:
        title, verdicts = PEERS[name](longest)
    except (NotAvailable, NotHere, NotThere) as reason:
        print(f"{name}: {reason}", file=sys.stderr)
        return None
    report = Report(title, _now(), with_the_unseen(verdicts))
    print(title, {str(outcome): count for outcome, count in report.totals().items()}, flush=True)
    return report


def by_chance(courses: int) -> list[Comparison]:
    """Random courses of Apache Kafka and of an emulator, under two sets of settings."""
    found = []
    for settings in (ROOMY, NARROW):
        with apache_kafka(settings) as kafka:
            outcomes = asyncio.run(_played(kafka.address, range(1, courses + 1)))
            told = comparison(f"Apache Kafka {kafka.version}", "regroup", _now(), settings, outcomes)
        print(*as_text(told), sep="\n", flush=True)
        found.append(told)
    return found


async def _played(address: str, seeds: Iterable[int]) -> list[DuelOutcome]:
    kafka = await Target.learn(address)
    async with steered_emulator(kafka.settings) as emulator:
        ours = await Target.learn(emulator.address)
        return await duels(kafka, ours, seeds, uuid.uuid4().hex[:8], guide=emulator, slot_ms=SLOT_MS)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def is_equal(found: Mapping[str, Report], comparisons: Iterable[Comparison]) -> bool:
    """Ours passes whatever Apache Kafka passes, which passes everything, and no random course told them apart."""
    kafka, ours = found.get("kafka"), found.get("regroup")
    if kafka and kafka.totals()[Outcome.FAILED]:
        return False
    if kafka and ours:
        verdicts = ours.by_behaviour()
        passed = [each.behaviour for each in kafka.verdicts if each.outcome is Outcome.PASSED]
        if any(verdicts[each].outcome is not Outcome.PASSED for each in passed):
            return False
    return not any(each.differ for each in comparisons)


def main() -> int:
    """Write the page; the reports themselves go beside it when a folder is named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("page", type=Path)
    parser.add_argument("--only", action="append", choices=(*PEERS, CHANCE), help="only this one; may be repeated")
    parser.add_argument("--longest", type=float, default=400, metavar="SECONDS", help="leave out longer stories")
    parser.add_argument("--courses", type=int, default=120, metavar="N", help="random courses for each set of settings")
    parser.add_argument("--reports", type=Path, metavar="FOLDER", help="keep the reports there, and use those there")
    arguments = parser.parse_args()
    set_up_log("error", "text")
    found = {name: each for name in PEERS if (each := _asked_or_kept(name, arguments)) is not None}
    comparisons = _compared_or_kept(arguments)
    arguments.page.write_text(page([*found.values()], comparisons, INTRODUCTION), encoding="utf-8")
    return 0 if is_equal(found, comparisons) else 1


def _compared_or_kept(arguments: argparse.Namespace) -> list[Comparison]:
    file: Path | None = arguments.reports and arguments.reports / f"{CHANCE}.json"
    if arguments.only and CHANCE not in arguments.only:
        return msgspec.json.decode(file.read_bytes(), type=list[Comparison]) if file and file.exists() else []
    try:
        comparisons = by_chance(arguments.courses)
    except (NotAvailable, NotThere) as reason:
        print(f"{CHANCE}: {reason}", file=sys.stderr)
        return []
    if file:
        file.write_bytes(msgspec.json.format(msgspec.json.encode(comparisons)) + b"\n")
    return comparisons


def _asked_or_kept(name: str, arguments: argparse.Namespace) -> Report | None:
    file: Path | None = arguments.reports and arguments.reports / f"{name}.json"
    if arguments.only and name not in arguments.only:
        return from_json(file.read_text(encoding="utf-8")) if file and file.exists() else None
    report = reported(name, arguments.longest)
    if file and report:
        file.write_text(as_json(report) + "\n", encoding="utf-8")
    return report


if __name__ == "__main__":
    sys.exit(main())
