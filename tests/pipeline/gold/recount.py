"""Tables counted again from the JSON of the events, with code that shares nothing with the pipeline or the coordinator.

Members, protocols and assignments are read from payloads and bytes as Kafka's formats define them. Histories that were
trimmed are not counted again.
"""

import base64
import json
import struct
from collections.abc import Iterable, Iterator
from typing import Any

from regroup.storage.records import Record

Row = dict[str, Any]


class Bytes:
    """Reads the consumer protocol's integers, strings and arrays."""

    def __init__(self, text: str) -> None:
        self._data, self._at = base64.b64decode(text), 0

    def integer(self, letter: str) -> int:
        size = struct.calcsize(f">{letter}")
        [number] = struct.unpack_from(f">{letter}", self._data, self._at)
        self._at += size
        return int(number)

    def text(self) -> str | None:
        length = self.integer("h")
        if length < 0:
            return None
        self._at += length
        return self._data[self._at - length : self._at].decode()

    def skip_bytes(self) -> None:
        length = self.integer("i")
        self._at += max(0, length)

    def partitions(self) -> list[str]:
        found = []
        for _ in range(self.integer("i")):
            topic = self.text()
            found += [f"{topic} {self.integer('i')}" for _ in range(self.integer("i"))]
        return found


def subscription(text: str) -> Row:
    read = Bytes(text)
    version = read.integer("h")
    topics = [read.text() for _ in range(read.integer("i"))]
    read.skip_bytes()
    owned = read.partitions() if version >= 1 else []
    if version >= 2:
        read.integer("i")
    return {"topics": topics, "owned": owned, "rack": read.text() if version >= 3 else None}


def assignment(text: str) -> list[str]:
    if not text:
        return []
    read = Bytes(text)
    read.integer("h")
    return read.partitions()


def payloads(records: Iterable[Record], group: str) -> Iterator[tuple[Record, Row]]:
    for record in records:
        if record.group == group:
            yield record, json.loads(record.payload)


def generation_members(records: Iterable[Record], group: str) -> list[Row]:
    """One row for each member of each generation; columns without a value are left out."""
    recount = GenerationRecount()
    for record, event in payloads(records, group):
        recount.on_member_event(record, event)
        recount.on_generation_event(record, event)
        recount.on_log_event(record.type)
    return recount.rows


class GenerationRecount:
    """The members of a group, and the rows of its generations, while its events are read in order."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._present: dict[str, Row] = {}
        """The rows of the latest generation, by member."""
        self._profiles: dict[str, Row] = {}
        self._joined: dict[str, int] = {}
        self._joining: set[str] = set()
        """The members that have joined since the latest generation started."""
        self._assigned: dict[str, str] = {}
        self._written: dict[str, str] = {}
        self._stored: tuple[dict[str, Row], dict[str, str]] = ({}, {})
        """The profiles and assignments that Kafka's log holds."""
        self._generation: Row = {}
        self._replaced: dict[int, tuple[str, str, Row]] = {}
        """By number of each event that replaced a static member since the last rebalance began: the new member id, the
        replaced one and its profile."""
        self._leader: str | None = None
        self._selected: str | None = None

    def on_member_event(self, record: Record, event: Row) -> None:
        kind, member, at_ms = record.type, event.get("member_id", ""), event.get("at_ms", 0)
        if kind in ("member-joined", "member-rejoined"):
            instance = self._profiles.get(member, {}).get("instance_id")
            self._profiles[member] = {"instance_id": instance, **event["profile"]}
            self._joined[member] = at_ms
            self._joining.add(member)
        elif kind == "static-member-replaced":
            old = event["replaced_member_id"]
            self._replaced[record.event_number] = (member, old, self._profiles[old])
            self._replace(event, member, at_ms)
        elif kind == "append-failed":
            self._restore(event["append_number"])
        elif kind in ("member-left", "member-removed"):
            self._profiles.pop(member, None)
            self._assigned.pop(member, None)
        elif kind == "leader-elected":
            self._leader = event["leader_id"]
        elif kind == "member-synced" and member in self._present:
            self._present[member].setdefault("synced_ms", at_ms)

    def _replace(self, event: Row, member: str, at_ms: int) -> None:
        old = event["replaced_member_id"]
        order = {member if each == old else each: profile for each, profile in self._profiles.items()}
        self._profiles = order | {member: {**event["profile"], "instance_id": event["instance_id"]}}
        self._joined[member] = at_ms
        if event["awaits_join"]:
            self._joining.add(member)
        self._assigned[member] = self._assigned.pop(old, "")
        if self._leader == old:
            self._leader = member
        if not event["awaits_join"] and old in self._present:
            row = self._generation | described(member, self._profiles[member], self._leader, at_ms)
            if self._assigned[member]:
                row |= {"assigned_ms": at_ms, "assignment": assignment(self._assigned[member])}
            self._present[member] = row
            self.rows.append(row)

    def _restore(self, number: int) -> None:
        """Undo the replacement of a static member whose record Kafka's log has lost."""
        member, old, profile = self._replaced.pop(number, ("", "", {}))
        if member in self._profiles:
            self._profiles = {old if each == member else each: it for each, it in self._profiles.items()}
            self._profiles[old] = profile
            self._assigned[old] = self._assigned.pop(member)
            if self._leader == member:
                self._leader = old

    def on_generation_event(self, record: Record, event: Row) -> None:
        at_ms = event.get("at_ms", 0)
        if record.type == "rebalance-started":
            self._replaced.clear()
        elif record.type == "generation-started":
            self._leader, self._selected = event["leader_id"], event["protocol_name"]
            self._generation = {
                "position": record.position,
                "coordinator_epoch": record.coordinator_epoch,
                "generation_id": event["generation_id"],
                "started_ms": at_ms,
            }
            for each in self._profiles.keys() - self._joining:
                self._joined.pop(each, None)
            self._present = {
                each: self._generation
                | described(each, profile, self._leader, self._joined.get(each))
                | {"missed": each not in self._joining}
                for each, profile in self._profiles.items()
            }
            self._joining.clear()
            self.rows += self._present.values()
            self._assigned = dict.fromkeys(self._profiles, "")
        elif record.type == "assignment-written":
            self._written = event["assignments"]
        elif record.type == "assignment-committed":
            self._assigned = {each: self._written.get(each, "") for each in self._profiles}
            for each in self._present.keys() & self._profiles.keys():
                self._present[each] |= {"assigned_ms": at_ms, "assignment": assignment(self._assigned[each])}

    def on_log_event(self, kind: str) -> None:
        if kind in ("group-emptied", "group-deleted", "coordinator-loaded"):
            self._present, self._joined = {}, {}
            self._joining.clear()
        if kind in ("assignment-committed", "group-metadata-written"):
            profiles = {each: as_stored(profile, self._selected) for each, profile in self._profiles.items()}
            self._stored = (profiles, dict(self._assigned))
        elif kind in ("group-emptied", "group-deleted"):
            self._stored = ({}, {})
        elif kind == "coordinator-loaded":
            self._profiles, self._assigned = dict(self._stored[0]), dict(self._stored[1])


def as_stored(profile: Row, selected: str | None) -> Row:
    """A member as Kafka's log holds it: with the selected protocol only."""
    return profile | {"supported_protocols": [each for each in profile["supported_protocols"] if each[0] == selected]}


def described(member: str, profile: Row, leader: str | None, joined_ms: int | None) -> Row:
    protocols = profile["supported_protocols"]
    return {
        "member_id": member,
        "instance_id": profile.get("instance_id"),
        "is_leader": member == leader,
        "missed": False,
        "joined_ms": joined_ms,
        "assignors": [each[0] for each in protocols],
        **subscription(protocols[0][1]),
    }


def commits(records: Iterable[Record], group: str) -> list[Row]:
    """One row for each committed offset."""
    rows: list[Row] = []
    last: dict[tuple[str, int], int] = {}
    wrote: dict[tuple[str, int], int] = {}
    late: dict[int, Row] = {}
    open_transactions: dict[int, dict[tuple[str, int], tuple[int, str, int]]] = {}
    for record, event in payloads(records, group):
        number = record.event_number
        writes: list[tuple[tuple[str, int], int, str, int]] = []
        kind = ""
        if record.type == "offsets-committed":
            kind, writes = "immediate", [(*each, event.get("member_id", ""), number) for each in offsets_of(event)]
        elif record.type == "offsets-written":
            late[number] = event
        elif record.type == "append-committed" and event["append_number"] in late:
            written = event["append_number"]
            event = late.pop(written)
            kind, writes = "delayed", [(*each, event.get("member_id", ""), written) for each in offsets_of(event)]
        elif record.type == "transactional-offsets-written":
            pending = open_transactions.setdefault(event["producer_id"], {})
            for partition, offset in offsets_of(event):
                pending[partition] = (offset, event.get("member_id", ""), number)
        elif record.type == "transaction-ended":
            pending = open_transactions.pop(event["producer_id"], {})
            if event["committed"]:
                kind = "transactional"
                writes = [
                    (partition, *each) for partition, each in pending.items() if each[2] > wrote.get(partition, 0)
                ]
        elif record.type == "offsets-deleted":
            for topic, indexes in event["partitions"].items():
                for index in indexes:
                    last.pop((topic, index), None)
        elif record.type == "group-deleted":
            last.clear()
        for partition, offset, member, _ in writes:
            rows.append(commit_row(record, partition, offset, member, last.get(partition)) | {"kind": kind})
        for partition, offset, _, by in writes:
            last[partition], wrote[partition] = offset, by
    return rows


def commit_row(record: Record, partition: tuple[str, int], offset: int, member: str, before: int | None) -> Row:
    return {
        "position": record.position,
        "coordinator_epoch": record.coordinator_epoch,
        "at_ms": event_time(record),
        "member_id": member or None,
        "topic": partition[0],
        "partition": partition[1],
        "offset": offset,
        "previous_offset": before,
        "reprocessed": 0 if before is None else max(0, before - offset),
    }


def offsets_of(event: Row) -> list[tuple[tuple[str, int], int]]:
    return [
        ((topic, int(index)), committed["offset"])
        for topic, partitions in event["offsets"].items()
        for index, committed in partitions.items()
    ]


def event_time(record: Record) -> int:
    return int(json.loads(record.payload).get("at_ms", 0))
