"""The tables that Spark builds: the last groups, and the violated invariants."""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from regroup.coordinator.invariants import event_numbers_have_no_gap, invariant_sentence
from regroup.coordinator.runtime.loading import load_groups
from regroup.coordinator.serialization import group_as_json
from regroup.coordinator.verification import GroupsVerifier
from regroup.lab.checker.violations import MAX_VIOLATIONS
from regroup.lab.search.seed_run import plant_bug
from regroup.lab.simulation.run import play
from regroup.pipeline.campaign.runner import events_table
from regroup.pipeline.gold import build
from regroup.pipeline.gold.builders.invariant_checks import SENTENCES
from regroup.pipeline.gold.versions import read_table
from regroup.storage.records import Record
from regroup.storage.sqlite.inline import open_inline_store
from tests.lab.classic_plans import draw_classic_plan
from tests.pipeline.histories import all_rows, crash_history, rows_of_table


def test_every_group_is_the_one_that_a_load_of_its_store_returns(spark: SparkSession, built_tables: Path) -> None:
    rows = read_table(spark, built_tables / "out", "groups").collect()

    async def loaded_groups(path: Path) -> dict[tuple[str, str], object]:
        async with await open_inline_store(path, read_only=True) as store:
            groups = await load_groups(store)
        as_json = {group_id: json.loads(json.dumps(group_as_json(group))) for group_id, group in groups.items()}
        return {(str(path), group_id): group for group_id, group in as_json.items()}

    expected: dict[tuple[str, str], object] = {}
    for path in built_tables.glob("runs/*.db"):
        expected |= asyncio.run(loaded_groups(path))
    assert {(row.store, row.group): json.loads(row.json) for row in rows} == expected
    assert len(rows) == 2


def test_sound_histories_have_no_violations(spark: SparkSession, built_tables: Path) -> None:
    assert read_table(spark, built_tables / "out", "violations").count() == 0


@pytest.mark.slow
def test_the_tables_have_the_violations_that_the_verifier_finds(spark: SparkSession, tmp_path: Path) -> None:
    runs = {f"run-{number}": tampered(crash_history("range", 20), number) for number in range(6)}
    found = violations_of(spark, tmp_path, runs)
    assert found == {(name, *violation) for name, records in runs.items() for violation in verifier_violations(records)}
    assert len({sentence for _, _, sentence in found}) >= 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bug", "seed"),
    [
        ("protocol-of-the-first-member", 6),
        ("load-begins-at-generation-0", 2),
        ("load-remembers-what-was-never-stored", 2),
    ],
)
def test_the_tables_have_the_violations_that_the_lab_finds_in_a_run_with_a_planted_bug(bug: str, seed: int) -> None:
    """The events are folded with the planted bug, as the lab's checker does, since some bugs are in the fold."""
    with plant_bug(bug):
        outcome = play(draw_classic_plan(seed))
        rows = rows_of_table(all_rows(outcome.records), "violations")
    found = sorted((row["position"], row["sentence"]) for row in rows)
    violations = outcome.verdict.violations
    expected = sorted((each.position or 0, each.sentence) for each in violations if each.sentence in SENTENCES)
    assert expected
    # The lab stops at its maximum.
    assert (found[: len(expected)] if len(violations) >= MAX_VIOLATIONS else found) == expected


def violations_of(spark: SparkSession, folder: Path, runs: Mapping[str, Sequence[Record]]) -> set[tuple[str, int, str]]:
    tables = pa.concat_tables([events_table(name, records) for name, records in runs.items()])
    build.build_tables(spark, folder, spark.createDataFrame(tables))
    return {(row.store, row.position, row.sentence) for row in read_table(spark, folder, "violations").collect()}


TAMPERED_TYPES = (
    "generation-started",
    "leader-elected",
    "assignment-committed",
    "member-joined",
    "group-metadata-written",
    "member-left",
)


def tampered(records: tuple[Record, ...], number: int) -> list[Record]:
    """Six changes of a history, one for each number: another generation, an empty payload, or a missing event."""
    places = [place for place, each in enumerate(records) if each.type == TAMPERED_TYPES[number]]
    changed, place = list(records), places[-1] if places else len(records) - 5
    if number == 0:
        payload = json.loads(changed[place].payload) | {"generation_id": 99, "leader_id": "unknown"}
        changed[place] = replace(changed[place], payload=json.dumps(payload).encode())
    elif number == 3:
        changed[place] = replace(changed[place], payload=b"{}")
    else:
        del changed[place]
    return changed


def verifier_violations(records: list[Record]) -> Iterator[tuple[int, str]]:
    """The violations that the coordinator's verifier finds, up to the first event that cannot be folded.

    The verifier reports a wrong number for every event after a gap; the tables have the gap once.
    """
    verifier, has_gap = GroupsVerifier(), False
    for record in records:
        for violation in verifier.violations_of(record):
            if violation.sentence.startswith("The event has number"):
                if not has_gap:
                    yield record.position, invariant_sentence(event_numbers_have_no_gap)
                has_gap = True
                continue
            yield violation.position, violation.sentence
            if violation.sentence.startswith("The event cannot be folded"):
                return
    for violation in verifier.violations_at_end():
        yield violation.position, violation.sentence
