"""Events as lines for people: when, whose, what happened and to whom, why, and what led to it."""

from base64 import b64decode
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final

import msgspec
from rich.text import Text

from regroup.cli.terminal.text import partitions_text, printable, runs, short
from regroup.protocol.consumer.subscription import MalformedConsumerProtocol, decode_assignment
from regroup.storage.records import Record

COLOURS: Final = {
    "generation-started": "bold green",
    "assignment-committed": "green",
    "rebalance-started": "bold yellow",
    "leader-elected": "cyan",
    "member-expelled": "bold red",
    "member-left": "magenta",
    "coordinator-loaded": "bold blue",
}
QUIET: Final = frozenset(
    {"at_ms", "reason", "protocols", "deadline_ms", "sync_deadline_ms", "delay_ms", "remaining_ms", "topic_id"}
)
"""Fields that the text form leaves out; `--format jsonl` has everything."""
MOMENTS: Final = frozenset({"last_heard_ms", "commit_deadline_ms"})
"""Fields that are times of day, and no lengths of time."""
MOST_SHARES: Final = 20
"""Of how many members a line tells what they got."""


class TextForm:
    """A line for each event, and one of its own where a day begins."""

    def __init__(self) -> None:
        self._day = ""

    def __call__(self, record: Record) -> Text:
        line, day = as_text(record), f"{moment(record.at_ms):%Y-%m-%d}, times in UTC"
        if day == self._day:
            return line
        self._day = day
        return Text.assemble((f"{day}\n", "bold"), line)


def as_text(record: Record) -> Text:
    """Position, time, group, what happened, to whom; the reason and the cause in grey behind it."""
    line, payload = Text(style="dim"), msgspec.json.decode(record.payload)

    def add(words: str, style: str = "") -> None:
        """Whatever is shown comes by here: most of it was said by some client."""
        line.append(printable(words), style=style)

    add(f"{record.position:>6}  {clock(record.at_ms)}  ")
    add(f"{record.group if record.group is not None else '(cluster)':<16}", "default not dim")
    add(f" {record.type:<22} ", f"{COLOURS.get(record.type, 'default')} not dim")
    told = ", ".join(filter(None, details(payload)))
    add(told, "default not dim")
    behind = [f"because {short(payload['reason'])}"] if payload.get("reason") else []
    behind += [f"({because(msgspec.json.decode(record.cause))})"] if record.cause else []
    add("  " * bool(told) + "  ".join(behind))
    line.rstrip()
    return line


def details(payload: dict[str, Any]) -> Iterator[str]:
    """What the event says beside its time and its reason. What is empty is left out, and comes as an empty text."""
    for name, value in payload.items():
        match name, value:
            case "offsets", dict():
                yield from offsets(value)
            case "assignment", dict():
                yield from shares(value)
            case "committed", bool():
                yield "committed" if value else "aborted"
            case _ if name in MOMENTS and isinstance(value, int):
                yield f"{worded(name)} {clock(value)}"
            case _ if name not in QUIET:
                yield detail(name, value)


def detail(name: str, value: Any) -> str:
    """A field by its name. A flag is a word if it is set, and nothing if not."""
    match value:
        case True:
            return worded(name)
        case False | None | "" | []:
            return ""
        case dict():
            return ", ".join(f"{key} {within(each)}" for key, each in value.items())
        case list():
            return f"{worded(name)} {within(value)}"
        case int() if name.endswith("_ms"):
            return f"{worded(name)} {value} ms"
        case _:
            return f"{worded(name)} {short(str(value))}"


def within(value: Any) -> str:
    """Partition numbers by their runs, names one after the other, anything else as JSON has it."""
    match value:
        case [*numbers] if numbers and all(isinstance(each, int) for each in numbers):
            return runs(sorted(numbers))
        case [*names] if all(isinstance(each, str) for each in names):
            return ", ".join(map(short, names))
        case str():
            return short(value)
        case _:
            return short(msgspec.json.encode(value).decode())


def offsets(topics: dict[str, Any]) -> Iterator[str]:
    """`orders-0 at 7` of each partition."""
    for topic, rows in topics.items():
        for number, each in rows.items():
            yield f"{topic}-{number} at {each['offset']}"


def shares(assignment: dict[str, str]) -> Iterator[str]:
    """`orders 0-2 to anna-1f2e3d4c…` of each member."""
    for member, data in islice(assignment.items(), MOST_SHARES):
        yield f"{share(b64decode(data))} to {short(member)}"
    if len(assignment) > MOST_SHARES:
        yield f"and {len(assignment) - MOST_SHARES} more"


def share(data: bytes) -> str:
    """What a member got, if the assignment is in the form that consumers use; Kafka Connect, for one, has its own."""
    if not data:
        return "nothing"
    try:
        return partitions_text(decode_assignment(data).partitions, between=" and ") or "nothing"
    except MalformedConsumerProtocol:
        return f"{len(data)} bytes"


def because(cause: dict[str, Any]) -> str:
    """Which request, whose silence, or what the broker did unasked."""
    if cause.get("occasion"):
        return str(cause["occasion"])
    if cause.get("api"):
        return f"{cause['api']} of {cause.get('client_id') or 'a client without a name'}"
    return f"{cause.get('deadline', 'unknown')} deadline {short(cause.get('member', ''))}".strip()


def worded(name: str) -> str:
    return name.removesuffix("_ms").replace("_", " ")


def clock(at_ms: int) -> str:
    return moment(at_ms).strftime("%H:%M:%S.%f")[:-3]


def moment(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)
