"""Reconciliations and targets counted again from the JSON of the events, with code that shares nothing with the fold.

What members hold, and who was without an owner when, is kept as a list of changes, each with the position of its event;
the figures of a row are counted from this list at the end. The members of a group that was downgraded are followed in
its classic generations, too, until it is upgraded again. A load is not counted again there.
"""

import json
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from regroup.storage.records import Record
from tests.pipeline.gold.recount import assignment, subscription

Row = dict[str, Any]
Partition = tuple[str, int]


class Change(NamedTuple):
    """A partition got an owner, or lost it."""

    position: int
    at_ms: int
    partition: Partition
    owner: str | None


class State:
    """A group of the consumer protocol, or one that was or becomes one, from the payloads of its events."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.classic = ClassicGenerations(topic_ids_in(records))
        self.deleted_ms = {json.loads(each.payload)["topic_id"]: each.at_ms for each in records if is_deletion(each)}
        """When topics were deleted, by topic id: from then on their partitions need no owner."""
        self.is_classic = True
        self.members: dict[str, Row] = {}
        self.group_epoch, self.assignment_epoch = 1, 0
        self.targets: dict[str, list[Partition]] = {}
        self.holders: dict[Partition, str] = {}
        self.changes: list[Change] = []
        self.asked: list[tuple[int, str, int]] = []
        """Position, member and number of partitions of each step that asked a member to give up more."""

    def take(self, record: Record, event: Row) -> None:
        kind = record.type
        if kind in ("group-upgraded", "group-downgraded"):
            self.convert(kind, event)
        elif kind in ("member-left", "member-removed"):
            self.members.pop(event["member_id"], None)
            self.targets.pop(event["member_id"], None)
        elif kind in ("group-deleted", "consumer-group-ended"):
            self.is_classic, self.members = True, {}
        elif self.is_classic and kind != "consumer-group-created":
            self.classic.take(kind, event, self.members)
        else:
            self.take_of_consumers(record, event)
        self.note(record.position, int(event["at_ms"]))

    def convert(self, kind: str, event: Row) -> None:
        """Make the group one of the other protocol. Its members stay, and hold what the event assigns them or left."""
        self.is_classic = kind == "group-downgraded"
        if self.is_classic:
            self.targets = {}
            self.members = {each["member_id"]: self.members[each["member_id"]] for each in event["members"]}
            self.classic.begin(event)
            return
        epoch = self.group_epoch = self.assignment_epoch = event["group_epoch"]
        self.targets = {each: flat(share) for each, share in event.get("targets", {}).items()}
        self.members = {
            each: {
                "epoch": epoch,
                "state": "stable",
                "held": set(self.targets.get(each, ())),
                "pending": set(),
                "instance_id": profile.get("instance_id"),
                "is_classic": True,
            }
            for each, profile in event["profiles"].items()
        }

    def take_of_consumers(self, record: Record, event: Row) -> None:
        kind, member_id = record.type, event.get("member_id", "")
        if kind == "member-subscribed":
            profile = event["profile"]
            member = self.members.setdefault(
                member_id, {"epoch": 0, "state": "stable", "held": set(), "pending": set()}
            )
            member |= {"instance_id": profile.get("instance_id"), "is_classic": "classic" in profile}
        elif kind == "group-epoch-bumped":
            self.group_epoch = event["group_epoch"]
        elif kind == "target-assigned":
            self.assignment_epoch = event["assignment_epoch"]
            self.targets |= {each: flat(share) for each, share in event.get("targets", {}).items()}
        elif kind == "member-reconciled":
            member = self.members[member_id]
            pending = set(flat(event.get("pending_revocation", {})))
            if event["state"] == "unrevoked-partitions":
                self.asked.append((record.position, member_id, len(pending - member["pending"])))
            member |= {"epoch": event["epoch"], "state": event["state"], "pending": pending}
            member["held"] = set(flat(event["assigned"])) | pending
        elif kind == "static-member-away":
            member = self.members[member_id]
            member |= {"epoch": -2, "held": member["held"] - member["pending"], "pending": set()}
        elif kind == "static-consumer-replaced":
            old = event["replaced_member_id"]
            self.members[member_id] = self.members.pop(old) | {"epoch": 0}
            self.targets[member_id] = self.targets.pop(old, [])
        elif kind == "consumer-group-created":
            self.group_epoch, self.assignment_epoch, self.targets, self.is_classic = 1, 0, {}, False

    def note(self, position: int, at_ms: int) -> None:
        """Write down which partitions have got another owner by this event, or none."""
        holders = {
            each: self.name(id_)
            for id_, member in self.members.items()
            if member["epoch"] != -2
            for each in member["held"]
        }
        for partition in sorted({*holders, *self.holders}):
            if holders.get(partition) != self.holders.get(partition):
                self.changes.append(Change(position, at_ms, partition, holders.get(partition)))
        self.holders = holders

    def name(self, member_id: str) -> str:
        return self.members[member_id]["instance_id"] or member_id

    @property
    def is_stable(self) -> bool:
        return (
            not self.is_classic
            and bool(self.members)
            and all(
                (each["state"], each["epoch"], self.assignment_epoch) == ("stable", self.group_epoch, self.group_epoch)
                for each in self.members.values()
            )
        )


class ClassicGenerations:
    """What the members of a classic group hold, from the events of its generations."""

    def __init__(self, topic_ids: Row) -> None:
        self._topic_ids = topic_ids
        self._waiting: set[str] = set()
        """The members whose SyncGroup waits for the assignment."""
        self._assignments: dict[str, str] = {}

    def begin(self, downgraded: Row) -> None:
        self._waiting = set()
        self._assignments = {each["member_id"]: each.get("assignment", "") for each in downgraded["members"]}

    def take(self, kind: str, event: Row, members: dict[str, Row]) -> None:
        member_id = event.get("member_id", "")
        assert kind != "coordinator-loaded", "this count has no copy of what is stored of a classic group"
        if kind == "member-joined":
            members[member_id] = {"epoch": 0, "held": set(), "instance_id": event["profile"].get("instance_id")}
        elif kind == "member-rejoined":
            [_, metadata] = event["profile"]["supported_protocols"][0]
            members[member_id]["held"] &= self._partitions(subscription(metadata)["owned"])
        elif kind == "static-member-replaced":
            old = members.pop(event["replaced_member_id"])
            members[member_id] = old | {"held": set() if event["awaits_join"] else old["held"]}
        elif kind in ("rebalance-started", "generation-started"):
            self._waiting = set()
        elif kind == "assignment-written":
            self._assignments = event["assignments"]
        elif kind == "assignment-committed":
            for each in self._waiting:
                members[each]["held"] = self._assigned(each)
        elif kind == "member-synced" and event["awaits_assignment"]:
            self._waiting.add(member_id)
        elif kind == "member-synced":
            members[member_id]["held"] = self._assigned(member_id)

    def _assigned(self, member_id: str) -> set[Partition]:
        return self._partitions(assignment(self._assignments.get(member_id, "")))

    def _partitions(self, names: Iterable[str]) -> set[Partition]:
        return {(self._topic_ids[topic], int(index)) for topic, index in (each.rsplit(" ", 1) for each in names)}


def flat(partitions: Row) -> list[Partition]:
    return [(topic, int(index)) for topic, indexes in partitions.items() for index in indexes]


def commands(records: Iterable[Record], group: str) -> list[list[tuple[Record, Row]]]:
    """The events of each command: those with the same cause and time."""
    events = [(record, json.loads(record.payload)) for record in records if record.group == group]
    return [list(each) for _, each in groupby(events, lambda each: (each[0].cause, each[0].at_ms))]


TRIGGERS = {"member-left": "left", "member-removed": "removed", "static-consumer-replaced": "replaced"}


def topic_ids_in(records: Iterable[Record]) -> Row:
    """The topic ids by name, of a topic that was created again the last one: classic members are not followed beyond
    that."""
    created = [json.loads(each.payload) for each in records if each.type == "topic-created"]
    return {each["name"]: each["topic_id"] for each in created}


def is_deletion(record: Record) -> bool:
    return record.type == "topic-deleted"


def reconciliations(records: Sequence[Record], group: str) -> list[Row]:
    """The rows of `reconciliations`."""
    state, rows, present = State(records), [], None
    happened = dict.fromkeys(("joined", "left", "removed", "replaced"), 0)
    for command in commands(records, group):
        before, trigger, own = len(state.members), "topics", dict.fromkeys(happened, 0)
        by = None
        for record, event in command:
            kind, position, at_ms = record.type, record.position, event["at_ms"]
            if kind == "member-subscribed":
                trigger, by = ("subscribed" if event["member_id"] in state.members else "joined"), event["member_id"]
            elif kind in TRIGGERS:
                trigger, by = TRIGGERS[kind], event["member_id"]
            if (kind == "member-subscribed" or kind in TRIGGERS) and not state.is_classic:
                own |= {trigger: own.get(trigger, 0) + 1}
            if kind == "group-epoch-bumped" and present:
                rows.append(present | happened | figures(state, present, position, at_ms, "superseded", before))
                happened = dict.fromkeys(happened, 0)
            if kind == "group-epoch-bumped":
                present = {"position": position, "group_epoch": event["group_epoch"], "trigger": trigger}
                present |= {"trigger_member_id": by, "bumped_ms": at_ms, "members_before": before, "steps": 0}
            if kind == "group-downgraded" and present:
                counts = {each: happened[each] + own[each] for each in happened}
                rows.append(present | counts | figures(state, present, position, at_ms, "ended", len(state.members)))
                present, happened, own = None, dict.fromkeys(happened, 0), dict.fromkeys(happened, 0)
            state.take(record, event)
            if kind == "target-assigned" and present and event["assignment_epoch"] == present["group_epoch"]:
                present |= {"target_ms": at_ms, "assignor": event.get("assignor") or None}
            if kind == "member-reconciled" and present:
                present["steps"] += 1
        happened = {each: happened[each] + own[each] for each in happened}
        if present and not state.members and state.assignment_epoch == state.group_epoch:
            rows.append(present | happened | figures(state, present, position, at_ms, "emptied", 0))
        elif present and state.is_stable:
            rows.append(present | happened | figures(state, present, position, at_ms, "completed", len(state.members)))
        else:
            continue
        present, happened = None, dict.fromkeys(happened, 0)
    if present:
        rows.append(present | happened | figures(state, present, 2**62, None, "running", None))
    return rows


def figures(state: State, row: Row, position: int, at_ms: int | None, outcome: str, members: int | None) -> Row:
    """What the changes of owners between the bump and the event at `position` amount to."""
    within = [each for each in state.changes if row["position"] <= each.position <= position]
    asked = [(member, count) for at, member, count in state.asked if row["position"] <= at <= position and count]
    last: dict[Partition, str] = {}
    for change in state.changes:
        if change.position < row["position"] and change.owner:
            last[change.partition] = change.owner
    kinds: dict[Partition, str] = {}
    for change in within:
        if change.owner:
            former = last.get(change.partition)
            kinds[change.partition] = (
                "new" if former is None else "moved" if former != change.owner else "revoked_and_returned"
            )
            last[change.partition] = change.owner
    owned = [each for each, owner in state.holders.items() if owner]
    lost = [ownerless_ms(state, each, row["bumped_ms"], at_ms) for each in last] if at_ms is not None else []
    return {
        "outcome": outcome,
        "ended_ms": at_ms,
        "members_after": members,
        "revoking_members": len({member for member, _ in asked}),
        "revoked": sum(count for _, count in asked),
        "partitions": len(owned),
        "kept": len([each for each in owned if each not in kinds]),
        "ownerless_partitions": len([each for each in lost if each]),
        "ownerless_ms": sum(lost) if at_ms is not None else None,
        "longest_ownerless_ms": max(lost, default=0) if at_ms is not None else None,
        **{kind: [*kinds.values()].count(kind) for kind in ("moved", "revoked_and_returned", "new")},
    }


def ownerless_ms(state: State, partition: Partition, from_ms: int, to_ms: int) -> int:
    """The time without an owner, second by second of the list of changes of one partition."""
    total, since = 0, None
    to_ms = min(to_ms, state.deleted_ms.get(partition[0], to_ms))
    for change in [each for each in state.changes if each.partition == partition]:
        if since is not None:
            total += max(0, min(change.at_ms, to_ms) - max(since, from_ms))
        since = None if change.owner else change.at_ms
    return total + (max(0, to_ms - max(since, from_ms)) if since is not None else 0)


def target_members(records: Sequence[Record], group: str, names: dict[str, str]) -> list[Row]:
    """The rows of `target_members`, without their outcome and end."""
    state, rows = State(records), []
    present: dict[str, Row] = {}
    for record, event in [each for command in commands(records, group) for each in command]:
        before = {each: member["epoch"] for each, member in state.members.items()}
        state.take(record, event)
        if record.type in ("group-upgraded", "group-downgraded"):
            present = {}
        member_id, at_ms = event.get("member_id", ""), event["at_ms"]
        shared = {"position": record.position, "coordinator_epoch": record.coordinator_epoch}
        if record.type == "target-assigned":
            shared |= {"assignment_epoch": event["assignment_epoch"], "target_ms": at_ms}
            shared["assignor"] = event.get("assignor") or None
            present = {each: shared | described(state, each, names, before[each]) for each in state.members}
            rows += present.values()
        elif record.type == "group-upgraded":
            shared |= {"assignment_epoch": event["group_epoch"], "target_ms": at_ms, "assignor": None}
            reached = {"reached_ms": at_ms, "complete_ms": at_ms}
            present = {
                each: shared | described(state, each, names, event["group_epoch"]) | reached for each in state.members
            }
            rows += present.values()
        elif record.type == "static-consumer-replaced" and event["replaced_member_id"] in present:
            old = present.pop(event["replaced_member_id"])
            common = {key: old[key] for key in (*shared, "assignment_epoch", "target_ms", "assignor")}
            present[member_id] = common | described(state, member_id, names, 0)
            rows.append(present[member_id])
        elif record.type in ("member-left", "member-removed"):
            present.pop(member_id, None)
        elif record.type == "member-reconciled" and member_id in present:
            row = present[member_id]
            if event["state"] == "unrevoked-partitions":
                row.setdefault("asked_ms", at_ms)
                row["revoked"] = [
                    f"{names.get(topic, topic)} {index}" for topic, index in flat(event["pending_revocation"])
                ]
            if event["epoch"] == row["assignment_epoch"]:
                row.setdefault("reached_ms", at_ms)
                if event["state"] == "stable":
                    row.setdefault("complete_ms", at_ms)
    return rows


def described(state: State, member_id: str, names: dict[str, str], epoch: int) -> Row:
    member = state.members[member_id]
    return {
        "member_id": member_id,
        "instance_id": member["instance_id"],
        "is_classic": member["is_classic"],
        "epoch_before": epoch,
        "target": [f"{names.get(topic, topic)} {index}" for topic, index in state.targets.get(member_id, [])],
    }
