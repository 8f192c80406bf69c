"""docs/clients.md, from the cells that are kept."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Final

from tests.clients.survey.faults import CUT_ANSWER, FAULTS
from tests.clients.survey.outcome import Outcome
from tests.clients.survey.profile import COMMITTED_BEFORE, LIMIT_MS, PROFILE, QUIET_MS, SETTLED_MS
from tests.clients.survey.programs.starting import PROGRAMS, WITHOUT_STATIC_MEMBERS
from tests.clients.survey.results import Cell

PAGE: Final = Path(__file__).parents[3] / "docs" / "clients.md"
SERIOUS: Final = ("ignored the committed offsets", "skipped records", "read nothing", "stayed on the connection")
MARKS: Final = {"raised": "e", "lost its assignment": "l", "committed twice": "2"}
"""Letters of steps in the table of all faults."""
NOTES: Final = {
    ("librdkafka", "offsetfetch-not-coordinator"): (
        "reported as [librdkafka 5586](https://github.com/confluentinc/librdkafka/issues/5586)"
    )
}
"""What is known elsewhere of a cell."""
NAMES: Final = {"java": "Java", "librdkafka": "librdkafka", "franz-go": "franz-go"}

INTRODUCTION: Final = """\
# What real clients do after a fault

`python -m tests.clients.survey` writes this page. Each client runs as a program of its own against an emulator of this
project, alone in its group. A fault hits it once, and a recorder keeps what follows. What a client did is read from the
recorded exchanges, from the events of the group, and from what the client program reports (partitions assigned,
revoked and lost, errors raised, records read again); the logs of the clients are not used.

A run counts only if the recorder shows that the fault hit a request of the client. Each cell has {runs} runs.
Where they differ, every outcome is listed with its number of runs. Times and numbers of requests are medians with
their ranges.
"""

METHOD: Final = """\
## How it is measured

- All programs do the same: subscribe to a topic with two partitions, poll, and commit synchronously what was read, at
  most every {commit_interval_ms} ms. A record comes every 25 ms. After an error that a call raises, the program goes on
  with the next call; an application that ends at its first error ends there instead. It never seeks: *records read
  again* are those that it had read and not committed when it got its partitions once more.
- The group has committed offset {committed} of ten records in each partition before the client starts. So a client that
  ignores the committed offsets shows.
- Two brokers. The fault hits one request: a heartbeat or a commit of a client that has committed for a while; a
  JoinGroup or SyncGroup in a rebalance that the emulator forces on such a client; a FindCoordinator or OffsetFetch of a
  client that starts.
- *Recovered* is the first commit that succeeds after the last sign of trouble: a request that was hit or refused, or a
  part of joining again. If a heartbeat was hit, a heartbeat has to succeed too. A run ends {settled} ms after that, if
  no further trouble came. The time runs from the arrival of the request that was hit to the answer to that commit;
  *requests* counts those about the group, both ends included.
- *Did not recover*: not within {limit} s, or {loading_limit} s after the coordinator began to load. *Gave up*: no
  request about the group for {quiet} s. *Read nothing*: a member with heartbeats whose program got no record for
  {limit} s.
- A request that is *never answered* leaves the connection open, and the broker reads nothing more from it, as Kafka
  does while it handles a request. A client that sends its next requests on the same connection waits for them too;
  this is *stayed on the connection*.
- So that a survey takes an hour, sessions last 6 s and not 45, and requests time out after 3 s and not after 30 or 60.
  With the defaults of the libraries, what follows a lost answer takes as much longer.
- The machine has two cores, with other work on them, so single milliseconds mean nothing.
- Kafka holds back the requests of a client that does not wait after `throttle_time_ms`; the emulator does not.
- kafka-python polls for up to 2 s, the others for 100 ms: a poll of kafka-python {kafka_python} that ends during
  a join may join again, or drop the assignment.
{not_here}
`python -m tests.clients.survey --show librdkafka lost-sync-answer` prints the exchanges of one run of a cell, which are
kept in `tests/clients/observed/`.
"""

LONG_RUN: Final = """\
## Minutes with the consumer protocol

`python -m tests.clients.long_run --minutes 5 --broker regroup` runs the Java client, librdkafka and franz-go side by
side with `group.protocol=consumer` (KIP-848), and counts what they warn of; `--broker kafka` does so on Apache Kafka
with the same settings. In each cycle a third consumer joins two others and is killed, a static one restarts (not with
franz-go 1.22, whose heartbeat on leaving Kafka refuses too), a topic appears that matches a regular expression (not
with franz-go, which asks for topics every five minutes), and both members of a group are replaced by such that speak
the other protocol, range and the consumer protocol in turn.

On 2026-11-23, on a machine with much other work:

| Client | Cycles, regroup / Kafka | Records read, regroup / Kafka | Warnings, regroup / Kafka |
| --- | --- | --- | --- |
| Java 4.1.1 | 7 / 6 | 519 / 467 | 0 / 0 |
| librdkafka 2.16.0 | 14 / 13 | 1082 / 1004 | 0 / 0 |
| franz-go 1.22.2 | 17 / 16 | 559 / 528 | 0 / 2 |

Both warnings of franz-go say that the answer to an OffsetCommit came after the end of its session, as it left.
"""


def page(cells: Sequence[Cell]) -> str:
    """The whole page."""
    by_name = {(cell.client, cell.fault): cell for cell in cells}
    clients = [client for client in PROGRAMS if any(cell.client == client for cell in cells)]
    runs = sorted({len(cell.outcomes) for cell in cells})
    shown_runs = str(runs[0]) if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
    faults = [name for name in FAULTS if any(cell.fault == name for cell in cells)]
    parts = [
        INTRODUCTION.format(runs=shown_runs),
        *_matrix(by_name, clients, faults),
        *_serious(cells),
        METHOD.format(
            commit_interval_ms=PROFILE["commit_interval_ms"],
            committed=COMMITTED_BEFORE,
            settled=SETTLED_MS,
            limit=LIMIT_MS // 1000,
            loading_limit=FAULTS["coordinator-loading"].limit_ms // 1000,
            quiet=QUIET_MS // 1000,
            not_here="" if CUT_ANSWER in faults else "- Not here: a truncated answer.\n",
            kafka_python=next((cell.version for cell in cells if cell.client == "kafka-python"), ""),
        ),
        LONG_RUN,
        *_versions(by_name, clients),
        "## Every fault",
        "",
    ]
    for fault in faults:
        parts += _fault(by_name, clients, fault)
    return "\n".join(parts).rstrip() + "\n"


def _matrix(by_name: dict[tuple[str, str], Cell], clients: Sequence[str], faults: Iterable[str]) -> Iterator[str]:
    yield "## At a glance"
    yield ""
    yield "What the client did, and the median of the milliseconds to its recovery. *e*: a call of the library raised"
    yield "an error. *l*: the client reported its assignment as lost. *r*: records were read again. *2*: the group"
    yield "committed the same offsets twice. *new*: it came back as a new member, under another member id."
    yield "†: Apache Kafka does not do this."
    yield ""
    yield table_row(["Fault", *(client_name(each) for each in clients)])
    yield table_row(["---"] * (len(clients) + 1))
    for fault in faults:
        cells = [by_name.get((client, fault)) for client in clients]
        shown = [_glance(cell, client, fault) for cell, client in zip(cells, clients, strict=True)]
        mark = " †" if FAULTS[fault].is_beyond_kafka else ""
        yield table_row([f"[`{fault}`](#{fault}){mark}", *shown])
    yield ""


def _glance(cell: Cell | None, client: str, fault: str) -> str:
    if cell is None:
        is_static = FAULTS[fault].is_static and client in WITHOUT_STATIC_MEMBERS
        return "no static members" if is_static else "–"
    words = " or ".join(dict.fromkeys(in_a_word(each) for each in cell.outcomes))
    times = [each.recovered_ms for each in cell.outcomes if each.recovered_ms is not None]
    marks = [mark for step, mark in MARKS.items() if any(has_step(each, step) for each in cell.outcomes)]
    marks += ["r"] if any(each.read_again for each in cell.outcomes) else []
    shown = f"{words} {_number(times)}" if times else f"**{words}**"
    return f"{shown} *{''.join(marks)}*" if marks else shown


def has_step(outcome: Outcome, step: str) -> bool:
    return any(each.startswith(step) for each in outcome.steps)


def in_a_word(outcome: Outcome) -> str:
    """The kind of an outcome."""
    if outcome.recovered_ms is None:
        return outcome.steps[-1]
    if "ignored the committed offsets" in outcome.steps:
        return "**ignored offsets**"
    if any("as a new member" in each for each in outcome.steps):
        return "new"
    if "rejoined" in outcome.steps:
        return "rejoined"
    if "waited as long as it was asked to" in outcome.steps:
        return "waited"
    if "did not wait" in outcome.steps:
        return "did not wait"
    return "retried" if any(each.startswith("repeated") for each in outcome.steps) else "went on"


def _serious(cells: Sequence[Cell]) -> Iterator[str]:
    yield "## Not recovered, or not from the committed offsets"
    yield ""
    found = [(cell, each) for cell in cells for each in _counted(cell.outcomes) if is_serious(each[0])]
    for cell, (outcome, count) in found:
        steps = ", ".join(outcome)
        note = f" ({NOTES[cell.client, cell.fault]})" if (cell.client, cell.fault) in NOTES else ""
        where = f"{client_name(cell.client)} {cell.version}, [`{cell.fault}`](#{cell.fault})"
        if FAULTS[cell.fault].is_beyond_kafka:
            where += " †"
        yield f"- {where}, {count} of {len(cell.outcomes)} runs: {steps}{note}"
    if not found:
        yield "None."
    yield ""


def is_serious(steps: Sequence[str]) -> bool:
    return steps[-1] in ("gave up", "did not recover", "read nothing", "ended") or any(
        each in SERIOUS for each in steps
    )


def _counted(outcomes: Sequence[Outcome]) -> list[tuple[tuple[str, ...], int]]:
    return Counter(each.steps for each in outcomes).most_common()


def _versions(by_name: dict[tuple[str, str], Cell], clients: Sequence[str]) -> Iterator[str]:
    yield "## Versions and settings"
    yield ""
    yield "Everything else is as the library has it by default."
    yield ""
    yield table_row(["Client", "Version", "Runtime", "Settings"])
    yield table_row(["---"] * 4)
    for client in clients:
        cell = next(cell for cell in by_name.values() if cell.client == client)
        settings = ", ".join(f"`{name}={value}`" for name, value in sorted(cell.settings.items()))
        yield table_row([client_name(client), cell.version, cell.runtime, settings])
    yield ""


def _fault(by_name: dict[tuple[str, str], Cell], clients: Sequence[str], fault: str) -> Iterator[str]:
    yield f"### {fault}"
    yield ""
    title = FAULTS[fault].title
    beyond = " Apache Kafka does not do this." if FAULTS[fault].is_beyond_kafka else ""
    yield f"{title[0].upper()}{title[1:]}.{beyond}"
    yield ""
    yield table_row(["Client", "Runs", "What it did", "Requests", "Recovered after (ms)", "Records read again"])
    yield table_row(["---"] * 6)
    for client in clients:
        cell = by_name.get((client, fault))
        for steps, count in _counted(cell.outcomes) if cell else ():
            same = [each for each in cell.outcomes if each.steps == steps] if cell else []
            times = [each.recovered_ms for each in same if each.recovered_ms is not None]
            read_again = [each.read_again for each in same]
            requests = [each.exchanges for each in same]
            yield table_row(
                [
                    client_name(client),
                    str(count),
                    ", ".join(steps),
                    _range(requests),
                    _range(times) if times else "–",
                    _range(read_again),
                ]
            )
    yield ""


def client_name(client: str) -> str:
    return NAMES.get(client, client)


def _number(values: Sequence[int]) -> str:
    return f"{round(median(values))}"


def _range(values: Sequence[int]) -> str:
    lowest, highest = min(values), max(values)
    return str(lowest) if lowest == highest else f"{_number(values)} ({lowest}–{highest})"


def table_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
