"""A recount of the owners of partitions from the events alone, in code that shares nothing with the classroom."""

import json
from base64 import b64decode
from collections import defaultdict
from collections.abc import Iterable
from struct import unpack_from
from typing import Any

from regroup.storage.records import Record


def owners_at(records: Iterable[Record], position: int, group: str = "lab") -> dict[tuple[str, int], set[str]]:
    """The members that had received each partition and not given it up, after the event at a position."""
    assigned: dict[str, set[tuple[str, int]]] = {}
    owned: dict[str, set[tuple[str, int]]] = defaultdict(set)
    waiting: set[str] = set()
    stored: dict[str, set[tuple[str, int]]] = {}
    for record in records:
        if record.group != group or record.position > position:
            continue
        event: dict[str, Any] = json.loads(record.payload)
        member = event.get("member_id", "")
        match record.type:
            case "member-rejoined":
                owned[member] &= _owned_in_subscription(event)
            case "static-member-replaced":
                former = event["replaced_member_id"]
                assigned[member] = assigned.pop(former, set())
                owned[member] = set() if event["awaits_join"] else owned.pop(former, set())
                owned.pop(former, None)
            case "member-left" | "member-removed":
                owned.pop(member, None)
                assigned.pop(member, None)
            case "assignment-written":
                stored = {each: _partitions(b64decode(data)) for each, data in event["assignments"].items()}
            case "assignment-committed":
                assigned = stored
                for each in waiting:
                    owned[each] = set(assigned.get(each, ()))
                waiting = set()
            case "member-synced":
                if event["awaits_assignment"]:
                    waiting.add(member)
                else:
                    owned[member] = set(assigned.get(member, ()))
            case "generation-started" | "rebalance-started":
                waiting = set()
            case "coordinator-loaded" | "append-failed":
                raise ValueError("a history with a load needs the group's metadata; choose another one")
    found: dict[tuple[str, int], set[str]] = defaultdict(set)
    for each, partitions in owned.items():
        for partition in partitions:
            found[partition].add(each)
    return dict(found)


def _partitions(data: bytes) -> set[tuple[str, int]]:
    return _topic_partitions(data, 2)[0] if data else set()


def _topic_partitions(data: bytes, place: int) -> tuple[set[tuple[str, int]], int]:
    """An array of topics with their partitions, as Kafka writes it: sizes first, big-endian."""
    found = set()
    (topics,) = unpack_from(">i", data, place)
    place += 4
    for _ in range(topics):
        (size,) = unpack_from(">h", data, place)
        name = data[place + 2 : place + 2 + size].decode()
        (count,) = unpack_from(">i", data, place + 2 + size)
        place += 6 + size
        found |= {(name, index) for index in unpack_from(f">{count}i", data, place)}
        place += 4 * count
    return found, place


def _owned_in_subscription(event: dict[str, Any]) -> set[tuple[str, int]]:
    """The owned partitions that the first subscription of a JoinGroup lists; version 0 has none."""
    data = b64decode(event["profile"]["supported_protocols"][0][1])
    version, topics = unpack_from(">hi", data)
    place = 6
    for _ in range(topics):
        place += 2 + unpack_from(">h", data, place)[0]
    place += 4 + max(0, unpack_from(">i", data, place)[0])
    return _topic_partitions(data, place)[0] if version >= 1 and place < len(data) else set()
