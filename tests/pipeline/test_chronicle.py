"""One group's history becomes rows: no Spark is needed to see whether they are right."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from regroup.coordinator.evolve import evolve
from regroup.coordinator.group import Group
from regroup.coordinator.serialization import read
from regroup.lab.search.swarm import draw_plan
from regroup.lab.simulation.world import play
from regroup.pipeline.gold.steps import state_as_json
from regroup.pipeline.gold.tables import TABLES
from regroup.storage.records import Record
from tests.pipeline.histories import GROUP, crashes_of, rows_of, table

ASSIGNORS = ("range", "cooperative-sticky")


def rows(records: tuple[Record, ...], name: str) -> list[dict[str, Any]]:
    return table(rows_of(records), name)


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_the_last_state_is_what_the_events_add_up_to(assignor: str) -> None:
    records = crashes_of(assignor, 1)
    group = Group(name=GROUP)
    for record in records:
        if record.group == GROUP:
            group = evolve(group, read(record))
    [told] = rows(records, "groups")
    assert told["json"] == state_as_json(group)
    assert told["is_whole"]


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_at_every_moment_a_partition_has_one_owner_or_a_gap(assignor: str) -> None:
    told = rows_of(crashes_of(assignor, 2))
    covered: dict[tuple[Any, Any], list[tuple[int, int]]] = defaultdict(list)
    for row in [*table(told, "ownership"), *[gap for gap in table(told, "gaps") if gap["why"] != "silence"]]:
        end: Any = row["to_ms"] or 2**62
        covered[row["topic"], row["partition"]].append((row["from_ms"], end))  # type: ignore[arg-type]  # both are numbers
    assert len(covered) == 6
    for stretches in covered.values():
        stretches = sorted(each for each in stretches if each[0] < each[1])
        assert [end for _, end in stretches[:-1]] == [begin for begin, _ in stretches[1:]]
        assert stretches[-1][1] == 2**62


def test_a_crash_is_silence_first_and_then_a_join_phase() -> None:
    told = rows_of(crashes_of("range", 3, crashes=1))
    gaps = [row for row in table(told, "gaps") if row["trigger"] == "expelled"]
    assert {row["why"] for row in gaps} >= {"silence", "join"}
    [rebalance] = [row for row in table(told, "rebalances") if row["trigger"] == "expelled"]
    assert rebalance["silence_ms"] == 10_000
    [life] = [row for row in table(told, "member_lives") if row["end"] == "expelled"]
    silent = [row for row in gaps if row["why"] == "silence"]
    assert {(row["from_ms"], row["to_ms"]) for row in silent} == {(life["last_heard_ms"], life["to_ms"])}


def test_eager_members_give_up_what_they_get_back_and_cooperative_ones_keep_it() -> None:
    eager, cooperative = [
        [
            row
            for row in rows(crashes_of(assignor, 4), "rebalances")
            if row["outcome"] == "completed" and not row["initial"]
        ]
        for assignor in ASSIGNORS
    ]
    assert all(row["kept"] == 0 for row in eager)
    assert any(row["given_up_for_nothing"] for row in eager)
    assert any(row["kept"] for row in cooperative)
    assert all(row["given_up_for_nothing"] == 0 for row in cooperative)


def test_who_came_and_went_adds_up_from_rebalance_to_rebalance() -> None:
    told = [row for row in rows(crashes_of("range", 5), "rebalances") if row["outcome"] == "completed"]
    members = 0
    for row in told:
        members += row["joined"] - row["left"] - row["expelled"]
        assert row["members_after"] == members


def test_every_column_of_every_table_is_filled_by_some_row_and_no_row_has_others() -> None:
    filled: dict[str, set[str]] = defaultdict(set)
    for records in [*(play(draw_plan(seed)).records for seed in (1, 2, 3, 22)), spoilt(crashes_of("range", 7))]:
        for name, row in rows_of(records):
            filled[name] |= {column for column, value in row.items() if value is not None}
    assert filled == {name: {field.name for field in table.fields} for name, table in TABLES.items()}


def spoilt(records: Sequence[Record]) -> list[Record]:
    """The first generation cannot be read."""
    place = next(n for n, record in enumerate(records) if record.type == "generation-started")
    return [*records[:place], replace(records[place], payload=b'{"at_ms": "soon"}'), *records[place + 1 :]]


def test_an_event_that_cannot_be_folded_is_told_and_ends_its_group() -> None:
    records = spoilt(crashes_of("range", 7))
    told = rows_of(records)
    [fault] = table(told, "faults")
    assert fault["position"] == next(record.position for record in records if record.type == "generation-started")
    assert not table(told, "groups")[0]["is_whole"]
    assert all(row["generation"] == 0 for row in table(told, "steps"))


def test_whichever_event_is_missing_the_rest_is_folded_up_to_the_first_that_does_not_fit() -> None:
    """Some of these events fold, and only the tables cannot make sense of them."""
    records = play(draw_plan(1)).records
    folds = [fold_without(records, missing) for missing in records]
    assert {whole for whole, _ in folds} == {True, False}
    assert all(told == folded for _, (told, folded) in folds)


def fold_without(records: Sequence[Record], missing: Record) -> tuple[bool, tuple[object, str]]:
    """Whether it is whole, and the last state: as the tables tell it, and as plain `evolve` has it up to the fault."""
    left = [record for record in records if record is not missing]
    told = rows_of(left)
    [end], faults = table(told, "groups"), table(told, "faults")
    assert end["is_whole"] == (not faults)
    group, stop = Group(name=GROUP), faults[0]["position"] if faults else None
    for record in left:
        if record.position == stop:
            break
        if record.group == GROUP:
            group = evolve(group, read(record))
    return not faults, (end["json"], state_as_json(group))


def test_an_event_under_another_name_that_folds_all_the_same_is_told_where_it_makes_no_sense() -> None:
    records = list(play(draw_plan(1)).records)
    place = next(n for n, record in enumerate(records) if record.type == "member-joined")
    records[place] = replace(records[place], type="member-id-given")
    told = rows_of(records)
    [fault] = table(told, "faults")
    assert str(fault["sentence"]).startswith(f"The event cannot be folded: Record {fault['position']} is damaged")
    assert all(row["position"] < fault["position"] for row in table(told, "steps"))


def test_a_partition_that_was_dealt_out_waits_for_its_owners_sync_and_is_not_unassigned() -> None:
    """The topic grows, the next generation has the new partition for ben, and he asks for it a millisecond later."""
    records = play(draw_plan(3)).records
    grown, rejoined, began, stable, synced = (records[position - 1].at_ms for position in (23, 25, 29, 32, 33))
    assert stable < synced
    assert [(row["why"], row["from_ms"], row["to_ms"]) for row in rows(records, "gaps") if row["partition"] == 5] == [
        ("unassigned", grown, rejoined),
        ("join", rejoined, began),
        ("sync", began, synced),
    ]
    [held] = [row for row in rows(records, "ownership") if row["partition"] == 5]
    assert (held["identity"], held["from_ms"]) == ("ben-1", synced)
