"""The rows that one group's history becomes. No test needs Spark."""

import dataclasses
import json
from base64 import b64decode, b64encode
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from regroup.coordinator.evolve import evolve
from regroup.coordinator.group import Group
from regroup.coordinator.serialization import decode_event, group_as_json
from regroup.lab.plan.yaml_format import read_plan
from regroup.lab.simulation.run import play
from regroup.pipeline.campaign.options import parse_options
from regroup.pipeline.campaign.scenarios import SCENARIOS
from regroup.pipeline.gold.tables import TABLES
from regroup.protocol.consumer.subscription import decode_subscription, encode_subscription
from regroup.storage.records import Record
from tests.lab.classic_plans import draw_classic_plan
from tests.pipeline.histories import GROUP_ID, all_rows, assert_one_owner_or_one_gap, crash_history, rows_of_table

ASSIGNORS = ("range", "cooperative-sticky")


def group_json(group: Group) -> str:
    return msgspec.json.encode(group_as_json(group)).decode()


def table_rows(records: Sequence[Record], name: str) -> list[dict[str, Any]]:
    return rows_of_table(all_rows(records), name)


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_the_row_of_a_group_is_the_fold_of_its_events(assignor: str) -> None:
    records = crash_history(assignor, 1)
    group = Group(group_id=GROUP_ID)
    for record in records:
        if record.group == GROUP_ID:
            group = evolve(group, decode_event(record))
    [row] = table_rows(records, "groups")
    assert row["json"] == group_json(group)
    assert row["is_complete"]


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_a_partition_always_has_one_owner_or_one_gap(assignor: str) -> None:
    assert_one_owner_or_one_gap(all_rows(crash_history(assignor, 2)), partitions=6)


def test_a_crash_leads_to_a_session_expiry_gap_and_then_to_a_join_gap() -> None:
    rows = all_rows(crash_history("range", 3, crashes=1))
    gaps = [row for row in rows_of_table(rows, "gaps") if row["trigger"] == "removed"]
    assert {row["reason"] for row in gaps} >= {"session-expiry", "join"}
    [rebalance] = [row for row in rows_of_table(rows, "rebalances") if row["trigger"] == "removed"]
    assert rebalance["since_last_seen_ms"] == 10_000
    [lifetime] = [row for row in rows_of_table(rows, "member_lifetimes") if row["ended_by"] == "removed"]
    expiries = {(row["from_ms"], row["to_ms"]) for row in gaps if row["reason"] == "session-expiry"}
    assert expiries == {(lifetime["last_seen_ms"], lifetime["to_ms"])}


def test_eager_members_are_returned_partitions_that_cooperative_members_keep() -> None:
    eager, cooperative = [
        [
            row
            for row in table_rows(crash_history(assignor, 4), "rebalances")
            if row["outcome"] == "completed" and not row["is_initial"]
        ]
        for assignor in ASSIGNORS
    ]
    assert all(row["kept"] == 0 for row in eager)
    assert any(row["revoked_and_returned"] for row in eager)
    assert any(row["kept"] for row in cooperative)
    assert all(row["revoked_and_returned"] == 0 for row in cooperative)


def test_joined_left_and_removed_members_add_up_to_the_members_of_each_generation() -> None:
    rows = [row for row in table_rows(crash_history("range", 5), "rebalances") if row["outcome"] == "completed"]
    members = 0
    for row in rows:
        members += row["joined"] - row["left"] - row["removed"]
        assert row["members_after"] == members


@pytest.mark.slow
def test_every_column_of_the_tables_of_classic_groups_has_a_value_in_some_row_and_no_row_has_other_columns() -> None:
    filled: dict[str, set[str]] = defaultdict(set)
    damaged, racks = with_damage(crash_history("range", 7)), with_racks(crash_history("range", 7))
    for records in [*(play(draw_classic_plan(seed)).records for seed in (3, 4)), damaged, racks]:
        rows = all_rows(records)
        for name in {table for table, _ in rows} & TABLES.keys():
            for row in rows_of_table(rows, name):
                filled[name] |= {column for column, value in row.items() if value is not None}
    of_consumer_protocol = {"group_epoch_before", "group_epoch", "assignment_epoch_before", "assignment_epoch"}
    assert filled == {
        name: {field.name for field in table.fields} - of_consumer_protocol
        for name, table in TABLES.items()
        if name not in ("reconciliations", "target_members", "lag", "refused_requests", "heartbeats")
    }


def with_racks(records: Sequence[Record]) -> list[Record]:
    """The records, with a rack in the subscription of every JoinGroup."""
    return [with_rack(record) if record.type in ("member-joined", "member-rejoined") else record for record in records]


def with_rack(record: Record) -> Record:
    payload = json.loads(record.payload)
    for protocol in payload["profile"]["supported_protocols"]:
        subscription = dataclasses.replace(decode_subscription(b64decode(protocol[1])), rack_id="north")
        protocol[1] = b64encode(encode_subscription(subscription)).decode()
    return replace(record, payload=json.dumps(payload).encode())


def with_damage(records: Sequence[Record]) -> list[Record]:
    """The records, with an invalid payload in the first generation's event."""
    place = next(number for number, record in enumerate(records) if record.type == "generation-started")
    return [*records[:place], replace(records[place], payload=b'{"at_ms": "soon"}'), *records[place + 1 :]]


def test_an_event_that_cannot_be_folded_is_a_fold_error_and_ends_its_group() -> None:
    records = with_damage(crash_history("range", 7))
    rows = all_rows(records)
    [error] = rows_of_table(rows, "fold_errors")
    assert error["position"] == next(record.position for record in records if record.type == "generation-started")
    assert not rows_of_table(rows, "groups")[0]["is_complete"]
    assert all(row["generation_id"] == 0 for row in rows_of_table(rows, "transitions"))


@pytest.mark.parametrize(("damaged", "is_within"), [("leader-elected", True), ("generation-started", False)])
def test_a_command_of_which_an_event_cannot_be_folded_has_no_end(damaged: str, is_within: bool) -> None:
    """Invariants need not hold within a command, so its last row must not be checked. The one before it has ended."""
    records = list(crash_history("range", 7))
    place = next(number for number, record in enumerate(records) if record.type == damaged)
    records[place] = replace(records[place], payload=b"{}")
    last = table_rows(records, "transitions")[-1]
    assert last["position"] == records[place - 1].position
    assert last["ends_command"] == (not is_within)
    assert (last.get("members") is None) == is_within


def test_without_any_one_event_the_rest_is_folded_up_to_the_first_that_does_not_fit() -> None:
    """Some of these events can be folded, and only the rows of the tables cannot be built."""
    records = play(draw_classic_plan(1)).records
    folds = [fold_without(records, missing) for missing in records]
    assert {is_complete for is_complete, _ in folds} == {True, False}
    assert all(in_table == expected for _, (in_table, expected) in folds)


def fold_without(records: Sequence[Record], missing: Record) -> tuple[bool, tuple[object, str]]:
    """Fold without one record: whether it is complete, and the last group in the table and by `evolve`."""
    records = [record for record in records if record is not missing]
    rows = all_rows(records)
    [row], errors = rows_of_table(rows, "groups"), rows_of_table(rows, "fold_errors")
    assert row["is_complete"] == (not errors)
    group, stop = Group(group_id=GROUP_ID), errors[0]["position"] if errors else None
    for record in records:
        if record.position == stop:
            break
        if record.group == GROUP_ID:
            group = evolve(group, decode_event(record))
    return not errors, (row["json"], group_json(group))


def test_an_event_of_a_wrong_type_is_a_fold_error_where_a_later_event_does_not_fit() -> None:
    records = list(play(draw_classic_plan(1)).records)
    place = next(number for number, record in enumerate(records) if record.type == "member-joined")
    joined = json.loads(records[place].payload)
    pending = {key: joined[key] for key in ("at_ms", "member_id")} | {"client_id": "", "session_timeout_ms": 10_000}
    records[place] = replace(records[place], type="pending-member-added", payload=json.dumps(pending).encode())
    rows = all_rows(records)
    [error] = rows_of_table(rows, "fold_errors")
    assert error["position"] != records[place].position
    assert str(error["sentence"]).startswith(f"The event cannot be folded: Record {error['position']} is damaged")
    assert all(row["position"] < error["position"] for row in rows_of_table(rows, "transitions"))


def test_an_assigned_partition_is_in_sync_until_its_owner_sends_sync_group() -> None:
    """The topic grows, the next generation assigns the new partition to a follower, and it syncs after the leader."""
    options = {"members": 2, "partitions": 1, "growth": 1, "assignor": "range", "latency_ms": 20, "jitter_ms": 20}
    records = play(SCENARIOS["topic-growth"](parse_options(options), 2)).records
    last_ms = {each.type: each.at_ms for each in records}
    [grown, started, stable, synced] = [
        last_ms[each] for each in ("partitions-added", "generation-started", "assignment-committed", "member-synced")
    ]
    rejoined = last_ms["rebalance-started"]
    assert stable < synced
    gaps = [row for row in table_rows(records, "gaps") if row["partition"] == 1]
    assert [(row["reason"], row["from_ms"], row["to_ms"]) for row in gaps] == [
        ("unassigned", grown, rejoined),
        ("join", rejoined, started),
        ("sync", started, synced),
    ]
    [owned] = [row for row in table_rows(records, "ownership") if row["partition"] == 1]
    assert (owned["member_id"][:10], owned["from_ms"]) == ("member-001", synced)


TAKEN_OVER_BEFORE_SYNC = """
topics: {orders: 2}
members:
  anna: {assignors: [cooperative-sticky]}
  ben: {assignors: [cooperative-sticky], instance id: ben-1}
  carla: {assignors: [cooperative-sticky]}
steps:
  - at 0s: anna joins
  - at 0.5s: ben joins
  - after the group is CompletingRebalance: ben restarts after 5s
  - at 30s: carla joins
faults end at: 60s
"""
"""ben's first process gets its JoinGroup response at 6 s and sends no SyncGroup. The second one takes over at 11 s, and
its SyncGroup leaves no event; at 32 s it joins again."""


def test_the_next_join_shows_what_a_process_owns_that_took_over_before_its_predecessor_synced() -> None:
    rows = all_rows(play(read_plan(TAKEN_OVER_BEFORE_SYNC)).records)
    [joined_ms] = {
        row["joined_ms"]
        for row in rows_of_table(rows, "generation_members")
        if row["instance_id"] == "ben-1" and row["generation_id"] == 2
    }
    [period] = [row for row in rows_of_table(rows, "ownership") if row["identity"] == "ben-1"]
    assert (period["from_ms"], period["generation_id"], period["to_ms"]) == (joined_ms, 1, None)
    assert_one_owner_or_one_gap(rows, partitions=2)
    [_, second, *_] = rows_of_table(rows, "rebalances")
    assert [second[each] for each in ("partitions", "kept", "new")] == [2, 2, 0]


def test_a_join_that_lists_nothing_as_owned_shows_no_owner() -> None:
    rows = all_rows(play(read_plan(TAKEN_OVER_BEFORE_SYNC.replace("cooperative-sticky", "range"))).records)
    [synced_ms] = {
        row["synced_ms"]
        for row in rows_of_table(rows, "generation_members")
        if row["instance_id"] == "ben-1" and row["generation_id"] == 2
    }
    periods = [row for row in rows_of_table(rows, "ownership") if row["identity"] == "ben-1"]
    assert {row["from_ms"] for row in periods} == {synced_ms}
