"""Wherever an event cannot be folded, that is the only violation: invariants need not hold within a command."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from regroup.lab.search.swarm import draw_plan
from regroup.lab.simulation.run import play
from regroup.pipeline.campaign.runner import events_table
from regroup.pipeline.gold import build
from regroup.pipeline.gold.versions import read_table
from regroup.storage.records import Record


def stopped_histories(seed: int) -> Iterator[tuple[str, list[Record]]]:
    """A run once for each of its events, with that one damaged."""
    records = play(draw_plan(seed)).records
    for place, damaged in enumerate(records):
        if damaged.group is not None:
            changed = replace(damaged, payload=b'{"unknown":1}')
            yield f"{seed}-{place}", [*records[:place], changed, *records[place + 1 :]]


@pytest.mark.parametrize("seed", [13, 9])
def test_a_history_that_cannot_be_folded_on_violates_nothing_else(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    histories = dict(stopped_histories(seed))
    events = pa.concat_tables([events_table(name, records) for name, records in histories.items()])
    build.build_tables(spark, tmp_path, spark.createDataFrame(events))
    rows = read_table(spark, tmp_path, "violations").collect()
    assert sorted(row.store for row in rows) == sorted(histories)
    assert all("The event cannot be folded" in row.sentence for row in rows)
