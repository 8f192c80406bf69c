"""The tables of recorded exchanges beside a count of the same bytes with kio and plain loops, on simulated runs."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from regroup.cli.main import main
from regroup.pipeline.gold.recorded.heartbeats import EVENTS, heartbeats_of_group
from regroup.pipeline.gold.versions import read_table
from regroup.storage.records import Record
from regroup.storage.sqlite.inline import open_inline_store
from tests.pipeline.gold import recount
from tests.pipeline.gold.recorded import recount_exchanges as again
from tests.pipeline.gold.recorded.recorded_stores import Row, facts_of_store, rows_in_order, run_seed

GROUP = "lab"
NOT_IN_KIO = "DeleteGroups"
"""kio lacks its newest version."""


def refusals(rows: Iterable[Mapping[str, Any]]) -> Counter[tuple[Any, ...]]:
    columns = ("group", "at_ms", "correlation_id", "error", "parts", "requests")
    return Counter(tuple(row[each] for each in columns) for row in rows if row["api"] != NOT_IN_KIO)


def heartbeat_counts(rows: Iterable[Mapping[str, Any]]) -> Counter[tuple[Any, ...]]:
    found: Counter[tuple[Any, ...]] = Counter()
    for row in rows:
        found[row["group"], row["member_id"], row["error"]] += row["requests"]
    return found


def check_silences(rows: Sequence[Row], silences: Mapping[tuple[str, int], int]) -> int:
    """Check the time since a member was last seen beside the time since its heartbeat before: it is the same unless
    something else happened in between, and never longer. Returns how many are the same."""
    others = [(row["at_ms"], row["member_id"]) for row in rows if row["turn"] == EVENTS or row["kind"] == "seen"]
    same = 0
    for row in heartbeats_of_group(rows):
        since_ms, silence_ms = row.get("since_last_seen_ms"), silences.get((row["member_id"], row["at_ms"]))
        if since_ms is None or silence_ms is None:
            continue
        assert since_ms <= silence_ms, row
        if not any(0 <= row["at_ms"] - at_ms <= silence_ms for at_ms, by in others if by in (None, row["member_id"])):
            assert since_ms == silence_ms, row
            same += 1
    return same


@pytest.mark.parametrize("seed", [1, 6, 15, 22, 24, 35, 38])
@pytest.mark.quick("22")
def test_refusals_and_heartbeats_equal_another_count_of_the_bytes(tmp_path: Path, seed: int) -> None:
    path = run_seed(seed, tmp_path / "run.db")
    facts, exchanges = facts_of_store(path), again.exchanges_of(path)
    assert refusals(fact for fact in facts if fact["kind"] == "refused") == again.refused_requests(exchanges)
    assert heartbeat_counts(fact for fact in facts if fact["kind"] == "heartbeat") == again.heartbeats(exchanges)
    assert check_silences(list(rows_in_order(path, GROUP)), again.silences(exchanges)) > 10


async def records_of(path: Path) -> list[Record]:
    async with await open_inline_store(path, read_only=True) as store:
        return [record async for record in store.read()]


def test_the_tables_that_the_commands_build_equal_another_count(spark: SparkSession, tmp_path: Path) -> None:
    stores = [run_seed(seed, tmp_path / f"{seed}.db") for seed in (13, 16, 18, 32, 39, 102)]
    folder = str(tmp_path / "out")
    assert main(["pipeline", "ingest", f"{tmp_path}/*.db", folder]) == 0
    assert main(["pipeline", "tables", folder]) == 0
    tables = {
        name: [row.asDict() for row in read_table(spark, folder, name).collect()]
        for name in ("refused_requests", "heartbeats", "lag")
    }
    with_lag = with_restart = 0
    for path in stores:
        of_store = {name: [row for row in rows if row["store"] == str(path)] for name, rows in tables.items()}
        exchanges = again.exchanges_of(path)
        assert refusals(of_store["refused_requests"]) == again.refused_requests(exchanges)
        assert heartbeat_counts(of_store["heartbeats"]) == again.heartbeats(exchanges)
        commits = recount.commits(asyncio.run(records_of(path)), GROUP)
        expected = again.lag(path, GROUP, commits, again.log_ends(exchanges, {}))
        columns = (
            *("topic", "partition", "at_ms", "position", "changed"),
            *("committed_offset", "log_end_offset", "empty_before", "lag"),
        )
        found = [tuple(row[each] for each in columns) for row in of_store["lag"]]
        assert Counter(found) == Counter(expected), path.name
        with_lag += bool(expected)
        with_restart += any(row["empty_before"] for row in of_store["lag"])
    assert with_lag >= 3
    assert with_restart >= 1
