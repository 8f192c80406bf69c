"""Tables of recorded exchanges counted again from the bytes in SQLite.

It shares no code with the pipeline and the server: frames are decoded by kio, and the rows of a store are merged in a
loop of its own. Of Fetch responses that were cut the first partition is read, if its records
reach beyond the cut.
"""

import contextlib
import dataclasses
import json
import sqlite3
import struct
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import kio.index
import msgspec
from kio.serial import entity_reader
from kio.serial.errors import SerialError

Row = dict[str, Any]
NAMES = (
    *("number", "connection", "host", "at_ms", "last_at_ms", "request", "request_bytes", "ended_at_ms", "response"),
    *("response_bytes", "closed", "fault", "count"),
)
PRODUCE, FETCH, LIST_OFFSETS, HEARTBEAT, CONSUMER_HEARTBEAT = 0, 1, 2, 12, 68


def exchanges_of(path: Path) -> list[Row]:
    """Every recorded exchange, decoded: key, version, request and response, and its times."""
    merged: dict[tuple[str, int], Row] = {}
    with contextlib.closing(sqlite3.connect(path)) as connection:
        for (payload,) in connection.execute("SELECT payload FROM exchanges ORDER BY number"):
            for values in msgspec.msgpack.decode(zlib.decompress(payload)):
                row = dict(zip(NAMES, values, strict=True))
                earlier = merged.get((row["connection"], row["number"]), row | {"seen": []})
                row["request"] = row["request"] or earlier["request"]
                row["response"] = row["response"] or earlier["response"]
                row["seen"] = [*earlier["seen"], (row["last_at_ms"], row["count"])]
                merged[row["connection"], row["number"]] = row
    return [decoded(row) for row in merged.values() if row["count"]]


def decoded(row: Row) -> Row:
    key, version = struct.unpack_from(">hh", row["request"])
    try:
        request_type = kio.index.load_request_schema(key, version)
    except kio.index.UnknownEntity:  # a version that kio lacks: a broker has refused it, or it is an old one
        return row | {"key": key, "version": version, "head": None, "asked": None, "answer": None}
    response_type = kio.index.load_response_schema(key, version)
    header, request = read(row["request"], request_type) if whole(row, "request") else (None, None)
    response = None
    if row["response"] and (whole(row, "response") or key == FETCH):
        frame = row["response"] if whole(row, "response") else with_one_partition(row)
        with contextlib.suppress(*(() if whole(row, "response") else (KeyError, SerialError))):
            _, response = read(frame, response_type)
    return row | {"key": key, "version": version, "head": header, "asked": request, "answer": response}


def whole(row: Row, part: str) -> bool:
    return len(row[part]) >= row[f"{part}_bytes"]


def with_one_partition(row: Row) -> bytes:
    """A Fetch response of version 12 that was cut, filled up with zeros, and with the first partition alone.

    Its records are longer than what is left. Lengths below 128 take one byte and are one more than the number.
    """
    topics_at = 15
    frame = bytearray(row["response"] + bytes(row["response_bytes"] - len(row["response"])))
    partitions_at = topics_at + 1 + frame[topics_at + 1]
    frame[topics_at], frame[partitions_at] = 2, 2
    return bytes(frame)


def read(frame: bytes, kind: Any) -> tuple[Any, Any]:
    header, size = entity_reader(kind.__header_schema__)(frame, 0)
    return header, entity_reader(kind)(frame, size)[0]


def error_counts(answer: Any) -> Counter[str]:
    """How many times a response has each error code, by Kafka's name."""
    found: Counter[str] = Counter()
    if not dataclasses.is_dataclass(answer):
        return found
    for field in dataclasses.fields(answer):
        value = getattr(answer, field.name)
        if field.name in ("error_code", "partition_error_code") and value.value:
            found[value.name.upper()] += 1
        for each in value if isinstance(value, tuple) else ():
            found += error_counts(each)
    return found


def groups_of(key: int, asked: Any) -> list[str | None]:
    """The groups that a request names; [None] if it names none."""
    if key == 10:  # FindCoordinator
        names = {getattr(asked, "key", ""), *getattr(asked, "coordinator_keys", ())} if not asked.key_type else set()
    else:
        listed = [getattr(asked, each, ()) or () for each in ("groups", "groups_names", "group_ids")]
        names = {getattr(each, "group_id", each) for several in listed for each in several}
        names.add(getattr(asked, "group_id", ""))
    return [*sorted(names - {"", None})] or [None]


def error_counts_of_groups(answer: Any, groups: list[str | None]) -> dict[str | None, Counter[str]]:
    """The error counts of each group: those of entries with its id, and those of entries without any."""
    entries = [each for name in ("groups", "coordinators", "results") for each in getattr(answer, name, None) or ()]
    by_group = {getattr(each, "group_id", getattr(each, "key", None)): error_counts(each) for each in entries}
    if by_group.keys() & {*groups}:
        return {group: by_group.get(group, Counter()) for group in groups}
    return {group: error_counts(answer) for group in groups}


def refused_requests(exchanges: list[Row]) -> Counter[tuple[Any, ...]]:
    """How many rows the table has of each group, time, API key, error, number of parts and number of requests."""
    found: Counter[tuple[Any, ...]] = Counter()
    for each in exchanges:
        for group, counts in error_counts_of_groups(each["answer"], groups_of(each["key"], each["asked"])).items():
            for error, parts in counts.items():
                found[group, each["at_ms"], each["head"].correlation_id, error, parts, each["count"]] += 1
    return found


def heartbeats(exchanges: list[Row]) -> Counter[tuple[Any, ...]]:
    """How many heartbeats came of each member, by the error in their responses."""
    found: Counter[tuple[Any, ...]] = Counter()
    for each in exchanges:
        asked, answer = each["asked"], each["answer"]
        if each["key"] in (HEARTBEAT, CONSUMER_HEARTBEAT) and getattr(asked, "member_epoch", 0) >= 0:
            error = None if answer is None else answer.error_code.name.upper()
            member_id = asked.member_id or getattr(answer, "member_id", None)
            found[asked.group_id, member_id or None, error] += each["count"]
    return found


def silences(exchanges: list[Row]) -> dict[tuple[str, int], int]:
    """By member and time, the milliseconds since the member's heartbeat before, if each of both stood for itself and
    was accepted."""
    times: dict[str, list[tuple[int, bool]]] = defaultdict(list)
    for each in exchanges:
        if each["key"] not in (HEARTBEAT, CONSUMER_HEARTBEAT) or getattr(each["asked"], "member_epoch", 0) < 0:
            continue
        is_accepted = each["answer"] is not None and each["answer"].error_code.name in ("none", "rebalance_in_progress")
        known = [(each["at_ms"], 1), *each["seen"]]
        for (_, before), (at_ms, count) in zip([(0, 0), *known], known, strict=False):
            if count > before:
                times[each["asked"].member_id].append((at_ms, is_accepted and count == before + 1))
    found = {}
    for member_id, seen in times.items():
        seen.sort()
        for (before_ms, is_known), (at_ms, is_accepted) in pairwise(seen):
            if is_known and is_accepted:
                found[member_id, at_ms] = at_ms - before_ms
    return found


def log_ends(exchanges: list[Row], topic_names: dict[str, str]) -> list[tuple[int, str, int, int, int]]:
    """Each end of a log that a response says: time, topic, partition, offset, and the epoch in its connection."""
    return [
        (*end, int(each["connection"].partition("@")[2])) for each in exchanges for end in ends_in(each, topic_names)
    ]


def ends_in(exchange: Row, topic_names: dict[str, str]) -> list[tuple[int, str, int, int]]:
    asked, answer, at_ms, key = exchange["asked"], exchange["answer"], exchange["ended_at_ms"], exchange["key"]
    if answer is None:
        return []
    if key == FETCH:
        return [
            (at_ms, name, part.partition_index, part.high_watermark)
            for topic in answer.responses
            for name in [topic.topic if hasattr(topic, "topic") else topic_names[str(topic.topic_id)]]
            for part in topic.partitions
            if not part.error_code.value and part.high_watermark >= 0
        ]
    if key == LIST_OFFSETS and not getattr(asked, "isolation_level", 0):
        wanted = {(t.name, p.partition_index) for t in asked.topics for p in t.partitions if is_latest(p)}
        return [
            (at_ms, topic.name, part.partition_index, part.offset)
            for topic in answer.topics
            for part in topic.partitions
            if (topic.name, part.partition_index) in wanted and not part.error_code.value and part.offset >= 0
        ]
    return [*produced(at_ms, asked, answer)] if key == PRODUCE and asked is not None else []


def is_latest(part: Any) -> bool:
    return bool(part.timestamp == -1)


def produced(at_ms: int, asked: Any, answer: Any) -> Iterator[tuple[int, str, int, int]]:
    """The ends of logs after a Produce request: the base offset, and as many as its batches have offsets."""
    sizes = {
        (topic.name, part.index): offsets_in(part.records)
        for topic in asked.topic_data
        for part in topic.partition_data
    }
    for topic in answer.responses:
        for part in topic.partition_responses:
            size = sizes.get((topic.name, part.index), 0)
            if not part.error_code.value and part.base_offset >= 0 and size:
                yield at_ms, topic.name, part.index, part.base_offset + size


def offsets_in(records: bytes | None) -> int:
    """How many offsets batches of records take, by the last offset delta in the header of each."""
    data, at, total = bytes(records or b""), 0, 0
    while at < len(data):
        (length,) = struct.unpack_from(">i", data, at + 8)
        total += struct.unpack_from(">i", data, at + 23)[0] + 1
        at += 12 + length
    return total


class Log:
    """The log of one partition as responses and events of the cluster say it."""

    def __init__(self, reservations: list[tuple[int, int]]) -> None:
        self.reservations = reservations
        """Coordinator epoch and offset of each block of offsets that was reserved, and 0 where the topic was made."""
        self.end: int | None = None
        self.empty_before = 0
        self.deleted_in = -1

    def observe(self, end: int, process: int) -> bool:
        """Note the end of the log in a process that began with this epoch; returns whether that is news."""
        before = [offset for epoch, offset in self.reservations if epoch < process]
        began = before[-1] if before and self.deleted_in < process else 0
        known = (self.end, self.empty_before)
        self.end, self.empty_before = max(end, self.end or 0), max(began, self.empty_before)
        return known != (self.end, self.empty_before)

    def delete(self, epoch: int) -> None:
        self.end, self.empty_before, self.deleted_in = None, 0, epoch


def lag(
    path: Path, group: str, commits: list[Row], ends: list[tuple[int, str, int, int, int]]
) -> list[tuple[Any, ...]]:
    """The rows of the table `lag` of a group: topic, partition, time, position, what changed, committed offset, end,
    the offset below which the log is empty, and lag."""
    steps: dict[tuple[str, int], list[tuple[int, int, str, int | None, int]]] = defaultdict(list)
    for row in commits:
        steps[row["topic"], row["partition"]].append((row["at_ms"], row["position"], "commit", row["offset"], 0))
    by_time: dict[tuple[str, int, int], tuple[int, int]] = {}
    for at_ms, topic, partition, *end in ends:
        known = by_time.get((topic, partition, at_ms), (0, 0))
        by_time[topic, partition, at_ms] = (max(end[0], known[0]), max(end[1], known[1]))
    for (topic, partition, at_ms), (offset, process) in by_time.items():
        if (topic, partition) in steps:
            steps[topic, partition].append((at_ms, 0, "log-end", offset, process))
    logs: dict[tuple[str, int], Log] = {each: Log([]) for each in steps}
    with contextlib.closing(sqlite3.connect(path)) as connection:
        for position, of_group, at_ms, epoch, kind, text in connection.execute(
            "SELECT position, [group], at_ms, coordinator_epoch, type, payload FROM events WHERE type IN "
            "('topic-created', 'offsets-reserved', 'offsets-deleted', 'group-deleted', 'topic-deleted') "
            "ORDER BY position"
        ):
            payload = json.loads(text)
            for topic, partition in list(steps):
                is_of_topic = payload.get("name") == topic
                if is_of_topic and kind == "topic-created":
                    logs[topic, partition].reservations.append((epoch, 0))
                elif is_of_topic and kind == "offsets-reserved" and payload["partition"] == partition:
                    logs[topic, partition].reservations.append((epoch, payload["before"]))
                elif is_of_topic and kind == "topic-deleted":
                    steps[topic, partition].append((at_ms, 0, "log-end", None, epoch))
                elif of_group == group and (
                    kind == "group-deleted" or partition in payload.get("partitions", {}).get(topic, ())
                ):
                    steps[topic, partition].append((at_ms, position, "commit", None, 0))
    return [row for key, each in steps.items() for row in lag_rows(*key, logs[key], each)]


def lag_rows(
    topic: str, partition: int, log: Log, steps: list[tuple[int, int, str, int | None, int]]
) -> Iterator[tuple[Any, ...]]:
    committed: int | None = None
    for at_ms, position, changed, offset, epoch in sorted(steps, key=lambda step: (step[:2], step[3] is not None)):
        if changed == "commit":
            committed = offset
        elif offset is None:
            log.delete(epoch)
        elif not log.observe(offset, epoch):
            continue
        if committed is not None and log.end is not None and offset is not None:
            end, place = max(log.end, committed), position if changed == "commit" else None
            left = end - max(committed, log.empty_before)
            yield topic, partition, at_ms, place, changed, committed, end, log.empty_before, left
