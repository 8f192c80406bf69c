"""Examine ours, Apache Kafka, kfake and librdkafka's mock, and write the page that puts them side by side.

python tests/conformance/publish.py docs/conformance.md            # ten minutes: one story takes five
python tests/conformance/publish.py --longest 20 --only kafka --only regroup /tmp/page.md
"""

import argparse
import asyncio
import sys
import uuid
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path

from apache_kafka import ApacheKafka, NotAvailable, apache_kafka
from peers import CROWDED, FORGETFUL, ROOMY, NotHere, Regroup, kfake, librdkafka_mock, librdkafka_version
from peers import regroup as our_own

import regroup.conformance.stories  # noqa: F401  # enters the stories
from regroup.conformance.cases import CASES, Case
from regroup.conformance.report import Report, as_json, from_json, merged, with_the_unseen
from regroup.conformance.runner import Outcome, Plan, Verdict, run
from regroup.conformance.table import page
from regroup.conformance.target import NotThere, Target

# It advertises the flexible versions and cannot read them.
MOCK_NEWEST = {"JoinGroup": 5, "SyncGroup": 3, "Heartbeat": 3, "LeaveGroup": 3}

# Its own: nothing can be set from outside.
MOCK_TOLD = {"group.initial.rebalance.delay.ms": "3000", "group.min.session.timeout.ms": "6000"}

Broker = ApacheKafka | Regroup

INTRODUCTION = """
# Conformance

What Apache Kafka's coordinator of classic groups does, behaviour by behaviour, and who else does it. Each row is a
short exchange over the wire, told by `regroup conformance --bootstrap HOST:PORT` to any address that speaks Kafka;
`regroup conformance --list` shows what each one needs. This page is written by `make conformance`.
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
        return f"Apache Kafka {roomy.version}", asyncio.run(together(roomy, crowded, forgetful, longest=longest))


def of_regroup(longest: float) -> tuple[str, list[Verdict]]:
    with our_own(ROOMY) as roomy, our_own(CROWDED) as crowded, our_own(FORGETFUL) as forgetful:
        return f"regroup {roomy.version}", asyncio.run(together(roomy, crowded, forgetful, longest=longest))


def of_kfake(longest: float) -> tuple[str, list[Verdict]]:
    with kfake() as (address, version):
        return f"kfake {version}", asyncio.run(examined(address, longest, told=ROOMY))


def of_the_mock(longest: float) -> tuple[str, list[Verdict]]:
    """An area at a time. A story may abort the whole process: then each story of the area has a mock of its own."""
    verdicts: dict[str, Verdict] = {}
    for area in dict.fromkeys(each.area for each in CASES.values()):
        cases = [each for each in CASES.values() if each.area == area]
        with librdkafka_mock() as address:
            found = asyncio.run(examined(address, longest, told=MOCK_TOLD, newest=MOCK_NEWEST, cases=cases))
        if any("refused" in each.reason for each in found):
            found = [_alone(each, longest) for each in cases]
        verdicts |= {each.behaviour: each for each in found}
    return f"librdkafka mock {librdkafka_version()}", [verdicts[name] for name in CASES]


def _alone(case: Case, longest: float) -> Verdict:
    with librdkafka_mock() as address:
        (verdict,) = asyncio.run(examined(address, longest, told=MOCK_TOLD, newest=MOCK_NEWEST, cases=[case]))
    return verdict


PEERS = {"regroup": of_regroup, "kafka": of_kafka, "kfake": of_kfake, "mock": of_the_mock}


def reported(name: str, longest: float) -> Report | None:
    """A report on this one, if it can run here."""
    try:
        title, verdicts = PEERS[name](longest)
    except (NotAvailable, NotHere, NotThere) as reason:
        print(f"{name}: {reason}", file=sys.stderr)
        return None
    report = Report(title, datetime.now(UTC).isoformat(timespec="seconds"), with_the_unseen(verdicts))
    print(title, {str(outcome): count for outcome, count in report.totals().items()}, flush=True)
    return report


def main() -> int:
    """Write the page; the reports themselves go beside it when a folder is named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("page", type=Path)
    parser.add_argument("--only", action="append", choices=PEERS, help="only this one; may be repeated")
    parser.add_argument("--longest", type=float, default=400, metavar="SECONDS", help="leave out longer stories")
    parser.add_argument("--reports", type=Path, metavar="FOLDER", help="keep the reports there, and use those there")
    arguments = parser.parse_args()
    found = {name: each for name in PEERS if (each := _asked_or_kept(name, arguments)) is not None}
    arguments.page.write_text(page([*found.values()], INTRODUCTION), encoding="utf-8")
    kafka = found.get("kafka")
    return 1 if kafka and kafka.totals()[Outcome.FAILED] else 0


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
