"""Tables of groups of the consumer protocol, and of groups that change their protocol. No test needs Spark."""

import json
import pickle
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any
from unittest.mock import patch

import pytest
from msgspec.structs import replace

from regroup.coordinator import invariants
from regroup.coordinator.commands import Command
from regroup.coordinator.group import Group
from regroup.coordinator.serialization import encode_event
from regroup.coordinator.verification import GroupsVerifier
from regroup.lab.plan.scenario_files import scenario
from regroup.lab.search.swarm import draw_plan
from regroup.lab.simulation.run import play
from regroup.pipeline.campaign.options import parse_options
from regroup.pipeline.campaign.scenarios import SCENARIOS
from regroup.pipeline.gold.builders.invariant_checks import InvariantChecks
from regroup.pipeline.gold.folded_rows import FoldedRows
from regroup.pipeline.gold.tables import TABLES
from regroup.storage.records import NewRecord, Record
from tests.coordinator.consumer.consumer_harness import topic_id
from tests.coordinator.consumer.migration.migration_harness import LOWER, UPPER, MigrationHarness
from tests.coordinator.group_driver import SentRequest
from tests.pipeline.gold import recount_consumers as recount
from tests.pipeline.histories import GROUP_ID, all_rows, assert_one_owner_or_one_gap, rows_of_table

ALL = {"foo": [0, 1, 2, 3, 4, 5]}


class RecordedHarness(MigrationHarness):
    """A group whose commands are known apart, also those of the same moment."""

    def __init__(self) -> None:
        self.ends: list[int] = []
        """How many events there were after each command."""
        super().__init__()

    def handle(self, command: Command, on_response: Callable[[Any], None] = lambda response: None) -> SentRequest:
        request = super().handle(command, on_response)
        self.ends.append(len(self.events))
        return request


def recorded(harness: RecordedHarness, *of_topics: NewRecord) -> list[Record]:
    """The events of a harness as records, each command with a cause of its own, after the creation of topic foo.

    Each event of a topic goes before those of the group at its time.
    """
    records = [topic_event("topic-created", "foo", harness.events[0].at_ms), *of_topics]
    for number, event in enumerate(harness.events, 1):
        cause = json.dumps({"api": "?", "correlation_id": bisect_left(harness.ends, number)}).encode()
        records.append(encode_event(GROUP_ID, number, 1, event, cause))
    records.sort(key=lambda each: each.at_ms)
    return [record.stored_at(position) for position, record in enumerate(records, 1)]


def topic_event(kind: str, id_name: str, at_ms: int) -> NewRecord:
    """An event of topic foo with its 6 partitions, or with none if it is deleted. Its id is made of `id_name`."""
    payload = {"name": "foo", "topic_id": topic_id(id_name), "partitions": 0 if kind == "topic-deleted" else 6}
    return NewRecord(None, 1, 1, at_ms, kind, 1, json.dumps(payload).encode(), None)


def table(records: Sequence[Record], name: str) -> list[dict[str, Any]]:
    return rows_of_table(all_rows(records), name)


@cache
def taken_over() -> tuple[Record, ...]:
    """m1 has all of foo; m2 joins after 10 s; m1 gives up foo 3-5 2 s later; m2 gets them 3 s later, and leaves."""
    harness = RecordedHarness()
    harness.join("m1")
    harness.advance(10_000)
    harness.join("m2")
    harness.advance(1_000)
    harness.beat("m1", 2, owned=ALL)
    harness.advance(1_000)
    harness.beat("m1", 2, owned=LOWER)
    harness.advance(3_000)
    harness.beat("m2", 3)
    harness.advance(10_000)
    harness.beat("m2", -1)
    harness.advance(4_000)
    harness.beat("m1", 3)
    return tuple(recorded(harness))


def test_a_reconciliation_has_the_time_of_each_step_and_who_had_to_give_up_what() -> None:
    [first, second, third] = table(taken_over(), "reconciliations")
    began = first["bumped_ms"]
    assert (second["trigger"], second["trigger_member_id"]) == ("joined", "m2")
    times = [second[each] - began for each in ("bumped_ms", "target_ms", "ended_ms")]
    assert times == [10_000, 10_000, 15_000]
    assert (second["revoking_members"], second["revoked"], second["steps"]) == (1, 3, 4)
    assert (second["moved"], second["kept"], second["new"], second["revoked_and_returned"]) == (3, 3, 0, 0)
    assert (second["ownerless_partitions"], second["ownerless_ms"], second["longest_ownerless_ms"]) == (3, 9_000, 3_000)
    assert (first["new"], first["ownerless_ms"], first["members_before"], first["members_after"]) == (6, 0, 0, 1)
    assert (third["trigger"], third["ownerless_ms"], third["left"], third["moved"]) == ("left", 12_000, 1, 3)


def test_no_reconciliation_is_a_rebalance() -> None:
    rows = all_rows(taken_over())
    assert rows_of_table(rows, "rebalances") == rows_of_table(rows, "generation_members") == []


def test_a_gap_says_whether_the_target_or_its_owner_was_waited_for() -> None:
    gaps = [(row["partition"], row["reason"], row["to_ms"] - row["from_ms"]) for row in table(taken_over(), "gaps")]
    handed_over = [(index, "reconciling", 3_000) for index in (3, 4, 5)]
    left = [(index, "assigning", 4_000) for index in (3, 4, 5)]
    assert gaps == [*handed_over, *left]


def test_a_target_has_a_row_for_each_member_with_its_way_there() -> None:
    rows = [row for row in table(taken_over(), "target_members") if row["assignment_epoch"] == 3]
    m1, m2 = sorted(rows, key=lambda row: row["member_id"])
    began = m1["target_ms"]
    assert [m1[each] - began for each in ("asked_ms", "reached_ms", "complete_ms")] == [1_000, 2_000, 2_000]
    assert len(m1["revoked"]) == len(m1["target"]) == 3
    assert (m2["reached_ms"] - began, m2["complete_ms"] - began, m2.get("asked_ms")) == (0, 5_000, None)
    assert (m1["epoch_before"], m2["epoch_before"], m1["outcome"], m2["outcome"]) == (2, 0, "completed", "completed")


def test_a_static_member_that_is_away_owns_nothing_and_its_partitions_are_kept_for_it() -> None:
    harness = RecordedHarness()
    harness.join("m1", instance_id="i1")
    harness.advance(5_000)
    harness.beat("m1", -2, instance_id="i1")
    harness.advance(7_000)
    harness.join("m2", instance_id="i1")
    rows = all_rows(recorded(harness))
    assert {(row["reason"], row["to_ms"] - row["from_ms"]) for row in rows_of_table(rows, "gaps")} == {("away", 7_000)}
    periods = {(row["member_id"], row["identity"], row["ended_by"]) for row in rows_of_table(rows, "ownership")}
    assert periods == {("m1", "i1", "away"), ("m2", "i1", "open")}
    assert len(rows_of_table(rows, "reconciliations")) == 1


def migrated() -> list[Record]:
    """c is alone in a classic group; n1 upgrades it and leaves; c and d are in a classic group again."""
    harness = RecordedHarness()
    c = harness.settled_mixed()
    d = harness.client("d", protocol_names=("range",))
    harness.rejoin(d)
    harness.rejoin(d)
    harness.beat("n1", -1)
    for client in (c, d):
        harness.rejoin(client)
    harness.complete_generation([c, d], (LOWER, UPPER))
    return recorded(harness)


def test_a_member_stays_the_same_and_keeps_its_partitions_while_its_group_changes_its_protocol() -> None:
    rows = all_rows(migrated())
    assert rows_of_table(rows, "fold_errors") == rows_of_table(rows, "violations") == []
    lifetimes = {
        (row["member_id"], row["protocol"], row["ended_by"]) for row in rows_of_table(rows, "member_lifetimes")
    }
    assert lifetimes == {("c", "classic", "open"), ("n1", "consumer", "left"), ("d", "classic", "open")}
    kept = [row for row in rows_of_table(rows, "ownership") if (row["member_id"], row["partition"]) == ("c", 0)]
    assert [row["protocol"] for row in kept][:1] == ["classic"]
    [group] = rows_of_table(rows, "groups")
    assert (group["protocol"], group["members"], group["is_complete"]) == ("classic", 2, True)


def test_a_migration_has_rebalances_and_reconciliations_each_on_its_side() -> None:
    rows = all_rows(migrated())
    triggers = [(row["trigger"], row["outcome"]) for row in rows_of_table(rows, "rebalances")]
    assert triggers[-1] == ("downgraded", "completed")
    reconciliations = [(row["trigger"], row["outcome"]) for row in rows_of_table(rows, "reconciliations")]
    assert reconciliations[0] == ("joined", "completed")
    assert reconciliations[-1][1] == "ended"
    upgrade = next(row["position"] for row in rows_of_table(rows, "transitions") if row["type"] == "group-upgraded")
    targets = [row for row in rows_of_table(rows, "target_members") if row["position"] == upgrade]
    assert [(row["member_id"], row["is_classic"], row["outcome"]) for row in targets] == [("c", True, "completed")]


@pytest.mark.parametrize("change", [{"assigned": {topic_id("foo"): {"3": 3}}}, {"epoch": 9}, {"state": "stable"}])
def test_the_fold_finds_the_violations_that_the_verifier_finds(change: dict[str, object]) -> None:
    """The second step of m1, which is asked to give up partitions, is recorded as another one."""
    records = list(taken_over())
    place = next(number for number, each in enumerate(records) if b'"unrevoked-partitions"' in each.payload)
    payload = json.loads(records[place].payload) | change
    records[place] = replace(records[place], payload=json.dumps(payload).encode())
    verifier = GroupsVerifier()
    expected = [each for record in records if record.group for each in verifier.violations_of(record)]
    expected += verifier.violations_at_end()
    assert expected
    found = [(row["position"], row["sentence"]) for row in table(records, "violations")]
    assert sorted(found) == sorted((each.position, each.sentence) for each in expected)
    with patch.object(invariants, "MANY_MEMBERS", 0):  # as in a large group: the changed members alone are looked at
        assert [(row["position"], row["sentence"]) for row in table(records, "violations")] == found


def test_the_kept_state_of_a_fold_has_the_group_once() -> None:
    checks, rows = InvariantChecks(), FoldedRows()
    group = Group(group_id="g")
    checks._last = 1, group
    checks.on_end(rows)
    assert checks._sound is group
    again = pickle.loads(pickle.dumps(checks))
    assert (again._last, again._sound) == (None, None)


def consumer_plan(seed: int) -> Any:
    """The plan of the first seed from this one on whose members are all of the consumer protocol.

    A new member that falls silent is a classic one also in these plans, so that groups are downgraded and upgraded.
    """
    plan = draw_plan(seed)
    while any(member.protocol != "consumer" for member in plan.members.values()):
        seed += 1_000
        plan = draw_plan(seed)
    return plan


def campaign_run(name: str, protocol: str, seed: int) -> tuple[Record, ...]:
    options = {
        "protocol": protocol,
        "members": 3,
        "partitions": 6,
        "crashes": 1,
        "between_ms": 60_000,
        "graceful": True,
    }
    return play(SCENARIOS[name](parse_options({**options, "records_per_s": 1.0}), seed)).records


HISTORIES: dict[str, Callable[[], Sequence[Record]]] = {
    "taken-over": taken_over,
    "migrated": migrated,
    **{f"swarm-{seed}": lambda seed=seed: play(consumer_plan(seed)).records for seed in range(1, 24)},  # type: ignore[misc]
    "swarm-of-both-protocols": lambda: play(draw_plan(430)).records,
    "rolling-upgrade": lambda: play(scenario("rolling-upgrade")).records,
    "crashes": lambda: campaign_run("crashes", "consumer", 1),
    "static": lambda: campaign_run("rolling-restart", "static-consumer", 1),
    "growth": lambda: campaign_run("topic-growth", "consumer", 1),
}


@pytest.mark.quick("taken-over", "migrated", "swarm-9", "swarm-11")
@pytest.mark.parametrize("history", HISTORIES.values(), ids=HISTORIES)
def test_the_tables_equal_another_count_of_the_events(history: Callable[[], Sequence[Record]]) -> None:
    records = history()
    rows = all_rows(records)
    counted = recount.reconciliations(records, GROUP_ID)
    assert counted
    found = rows_of_table(rows, "reconciliations")
    for row, expected in zip(found, counted, strict=True):
        assert {each: row.get(each) for each in expected} == expected
    ids = {json.loads(each.payload)["topic_id"]: json.loads(each.payload)["name"] for each in topics_of(records)}
    expected_members = recount.target_members(records, GROUP_ID, ids)
    members = [
        {key: value for key, value in row.items() if key not in ("outcome", "ended_ms") and value is not None}
        for row in rows_of_table(rows, "target_members")
    ]
    assert sorted(members, key=str) == sorted(
        ({key: row[key] for key in ordered(row) if row[key] is not None} for row in expected_members), key=str
    )
    assert rows_of_table(rows, "violations") == []


def ordered(row: dict[str, Any]) -> list[str]:
    """The columns of a row in the order of the table; those that came late stay last, as in the fold."""
    late = ("asked_ms", "revoked", "reached_ms", "complete_ms")
    return [each for each in row if each not in late] + [each for each in row if each in late]


def topics_of(records: Sequence[Record]) -> list[Record]:
    return [each for each in records if each.type == "topic-created"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rolling-upgrade", "crash-in-reconciliation", "slow-revoker"])
def test_a_partition_always_has_one_owner_or_one_gap(name: str) -> None:
    rows = all_rows(play(scenario(name)).records)
    assert rows_of_table(rows, "fold_errors") == rows_of_table(rows, "violations") == []
    assert_one_owner_or_one_gap(rows, partitions=6)


@pytest.mark.slow
def test_every_column_of_the_tables_of_consumer_groups_has_a_value_in_some_row() -> None:
    names = ("reconciliations", "target_members")
    filled: dict[str, set[str]] = defaultdict(set)
    for records in [HISTORIES["crashes"](), HISTORIES["static"](), HISTORIES["growth"]()]:
        rows = all_rows(records)
        for name in names:
            for row in rows_of_table(rows, name):
                filled[name] |= {column for column, value in row.items() if value is not None}
    assert {name: {field.name for field in TABLES[name].fields} for name in names} == filled
