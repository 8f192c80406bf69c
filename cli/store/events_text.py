"""Formats events as lines of text: position, time, group, event type, details, reason and cause."""

from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Set
from datetime import UTC, datetime
from itertools import islice
from types import MappingProxyType
from typing import Any, Final

import msgspec
from rich.text import Text

from regroup.cli.store.topic_names import learn_topics
from regroup.cli.terminal.text import printable, shorten_uuids
from regroup.notation.partitions import format_partitions, format_ranges
from regroup.protocol.consumer.subscription import MalformedConsumerProtocol, decode_assignment
from regroup.storage.records import NewRecord, Record

COLORS: Final = {
    "generation-started": "bold green",
    "assignment-committed": "green",
    "rebalance-started": "bold yellow",
    "target-assigned": "bold green",
    "member-reconciled": "green",
    "group-epoch-bumped": "bold yellow",
    "leader-elected": "cyan",
    "member-removed": "bold red",
    "member-left": "magenta",
    "coordinator-loaded": "bold blue",
}
HIDDEN_FIELDS: Final = {
    "at_ms",
    "reason",
    "supported_protocols",
    "deadline_ms",
    "sync_deadline_ms",
    "join_deadline_ms",
    "classic",
    "delay_ms",
    "remaining_ms",
    "topic_id",
    "metadata_hash",
    "assigned_at_ms",
}
"""Fields that the text leaves out; `--format jsonl` shows all."""
TIME_FIELDS: Final = {"last_seen_ms", "commit_deadline_ms", "revocation_deadline_ms"}
"""Fields that are times in epoch milliseconds; other fields that end in `_ms` are durations."""
NO_TOPIC_NAMES: Final[Mapping[str, str]] = MappingProxyType({})
MAX_LISTED_MEMBERS: Final = 20
"""The most members whose assignment a line shows."""


class EventFormatter:
    """Formats an event as a line, with a heading before the first event of each day. It names topics by their ids, and
    learns those that are created while it reads."""

    def __init__(self, topics: Mapping[str, str] = NO_TOPIC_NAMES) -> None:
        self._day = ""
        self._topics = dict(topics)

    def __call__(self, record: Record) -> Text:
        learn_topics(self._topics, (record,))
        line, day = format_event(record, self._topics), f"{date_of(record.at_ms)}, times in UTC"
        if day == self._day:
            return line
        self._day = day
        return Text.assemble((f"{day}\n", "bold"), line)


def format_event(record: Record, topics: Mapping[str, str] = NO_TOPIC_NAMES) -> Text:
    """An event as a line; the reason and the cause stand dimmed at the end. `topics` are names by topic id."""
    line = Text(style="dim")

    def add(text: str, style: str = "") -> None:
        """Append text with control characters escaped, since most of it comes from clients."""
        line.append(printable(text), style=style)

    add(f"{record.position:>6}  {clock_time(record.at_ms)}  ")
    add(f"{record.group if record.group is not None else '(cluster)':<16}", "default not dim")
    add(f" {record.type:<22} ", f"{COLORS.get(record.type, 'default')} not dim")
    details = shorten_uuids(event_details(record, topics=topics))
    add(details, "default not dim")
    reason = event_reason(record)
    behind = [f"because {shorten_uuids(reason)}"] if reason else []
    behind += [f"({_cause(msgspec.json.decode(record.cause))})"] if record.cause else []
    add("  " * bool(details) + "  ".join(behind))
    line.rstrip()
    return line


def event_details(
    record: NewRecord,
    clock: Callable[[int], str] | None = None,
    hidden: Set[str] = HIDDEN_FIELDS,
    topics: Mapping[str, str] = NO_TOPIC_NAMES,
) -> str:
    """The fields of an event as text, with ids in full length.

    `clock` formats times in epoch milliseconds; by default it gives the time of day. Fields in `hidden` are left out.
    Topics that `topics` does not name stand there by their ids.
    """
    payload = msgspec.json.decode(record.payload)
    return ", ".join(filter(None, _details(payload, clock or clock_time, hidden, topics)))


def event_reason(record: NewRecord) -> str:
    """The reason that an event gives; empty if it gives none. The stored reason of a member that left by a heartbeat is
    only the name of that request, and is completed here."""
    reason = str(msgspec.json.decode(record.payload).get("reason") or "")
    is_last_heartbeat = record.type == "member-left" and reason == "ConsumerGroupHeartbeat"
    return f"it sent {reason} with member epoch -1" if is_last_heartbeat else reason


def _details(
    payload: dict[str, Any], clock: Callable[[int], str], hidden: Set[str], topics: Mapping[str, str]
) -> Iterator[str]:
    """The fields of an event, each as text, without those that are not shown."""
    for name, value in payload.items():
        match name, value:
            case "profile", dict():
                yield from _details(value, clock, hidden, topics)
            case "offsets", dict():
                yield from _offsets(value)
            case "assignments", dict():
                yield from _assignments(value)
            case "targets", dict():
                yield from _targets(value, topics)
            case "assigned", dict():
                yield f"assigned {_partitions(value, topics) or 'nothing'}"
            case "pending_revocation", dict():
                yield f"to give up {_partitions(value, topics)}" if value else ""
            case "resolved", dict():
                yield from (
                    f"{pattern} matches {', '.join(each['topics']) or 'no topic'}" for pattern, each in value.items()
                )
            case "profiles", dict():
                yield _members(value)
            case "members", list():
                yield _members({each["member_id"]: each for each in value})
            case "committed", bool():
                yield "committed" if value else "aborted"
            case _ if name in TIME_FIELDS and isinstance(value, int):
                yield f"{_label(name)} {clock(value)}"
            case _ if name not in hidden:
                yield _detail(name, value)


def _detail(name: str, value: Any) -> str:
    """A field with its label, as text. A flag is shown by its label alone if it is True, and is empty if not."""
    match value:
        case True:
            return _label(name)
        case False | None | "" | []:
            return ""
        case dict():
            return ", ".join(f"{key} {_value(each)}" for key, each in value.items())
        case list():
            return f"{_label(name)} {_value(value)}"
        case int() if name.endswith("_ms"):
            return f"{_label(name)} {value} ms"
        case _:
            return f"{_label(name)} {value!s}"


def _value(value: Any) -> str:
    """A value as text: partition numbers as ranges, names with commas, anything else as JSON."""
    match value:
        case [*numbers] if numbers and all(isinstance(each, int) for each in numbers):
            return format_ranges(sorted(numbers))
        case [*names] if all(isinstance(each, str) for each in names):
            return ", ".join(names)
        case str():
            return value
        case _:
            return msgspec.json.encode(value).decode()


def _offsets(topics: dict[str, Any]) -> Iterator[str]:
    """A text such as `orders-0 at 7` for the offset of each partition."""
    for topic, partitions in topics.items():
        for partition, committed in partitions.items():
            yield f"{topic}-{partition} at {committed['offset']}"


def _assignments(assignments: dict[str, str]) -> Iterator[str]:
    """A text such as `orders 0-2 to anna-1f2e3d4c…` for the assignment of each member."""
    for member_id, data in islice(assignments.items(), MAX_LISTED_MEMBERS):
        yield f"{_assignment(b64decode(data))} to {member_id}"
    if len(assignments) > MAX_LISTED_MEMBERS:
        yield f"and {len(assignments) - MAX_LISTED_MEMBERS} more"


def _targets(targets: dict[str, Any], topics: Mapping[str, str]) -> Iterator[str]:
    """A text such as `orders 0-2 to anna` for each member that has another share of the target."""
    for member_id, share in islice(targets.items(), MAX_LISTED_MEMBERS):
        yield f"{_partitions(share, topics) or 'nothing'} to {member_id}"
    if len(targets) > MAX_LISTED_MEMBERS:
        yield f"and {len(targets) - MAX_LISTED_MEMBERS} more"


def _partitions(partitions: dict[str, Any], topics: Mapping[str, str]) -> str:
    """Partitions by topic id as `bills 0-3 and orders 5`."""
    named = sorted(
        (topics.get(topic_id, topic_id), int(each)) for topic_id, indexes in partitions.items() for each in indexes
    )
    return format_partitions(named, between=" and ")


def _members(members: dict[str, Any]) -> str:
    """`members anna-1f2e3d4c…, ben-5a6b7c8d…`."""
    more = len(members) - MAX_LISTED_MEMBERS
    listed = ", ".join(islice(members, MAX_LISTED_MEMBERS))
    return f"members {listed}" + (f" and {more} more" if more > 0 else "")


def _assignment(data: bytes) -> str:
    """The partitions of a consumer's assignment; of another protocol's assignment, such as Kafka Connect's, the number
    of bytes."""
    if not data:
        return "nothing"
    try:
        return format_partitions(decode_assignment(data).partitions, between=" and ") or "nothing"
    except MalformedConsumerProtocol:
        return f"{len(data)} bytes"


def _cause(cause: dict[str, Any]) -> str:
    """The cause of an event as text: the request or the deadline that led to it or, without one, what the broker or a
    test did."""
    if cause.get("test"):
        return f"test: {cause['test']}" + (", which Kafka never does" if cause.get("beyond_kafka") else "")
    if cause.get("internal"):
        return str(cause["internal"])
    if cause.get("api"):
        return f"{cause['api']} of {cause.get('client_id') or 'a client without a name'}"
    return f"{cause.get('deadline', 'unknown')} deadline {shorten_uuids(cause.get('member_id', ''))}".strip()


def _label(name: str) -> str:
    """The name of a field in words: `member_id` becomes `member`, `is_initial` `initial`, and `timeout_ms`
    `timeout`."""
    if name.endswith(("member_id", "leader_id", "generation_id")):
        name = name.removesuffix("_id")
    return name.removeprefix("is_").removesuffix("_ms").replace("_", " ")


def clock_time(at_ms: int) -> str:
    """The time of day in UTC with milliseconds: `12:00:45.200`."""
    return _utc(at_ms).strftime("%H:%M:%S.%f")[:-3]


def date_of(at_ms: int) -> str:
    """The day in UTC: `2026-11-22`."""
    return f"{_utc(at_ms):%Y-%m-%d}"


def _utc(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)
