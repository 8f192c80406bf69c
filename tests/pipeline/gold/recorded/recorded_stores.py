"""Stores of simulated runs with recorded exchanges, and what the tables take from them, without Spark."""

import contextlib
import io
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from regroup.cli.main import main
from regroup.coordinator.classic.log_appends import CLIENT_ERRORS
from regroup.pipeline.bronze.exchange_files import batches
from regroup.pipeline.gold.recorded.exchange_facts import Fact, facts_of_batches
from regroup.pipeline.gold.recorded.heartbeats import AFTER_EVENTS, BEFORE_EVENTS, EVENTS, LOST_APPENDS, SEEN_WITH
from regroup.pipeline.gold.recorded.member_sessions import EVENT_TYPES
from regroup.pipeline.source.recorded_rows import recorded_rows
from regroup.pipeline.source.store_reader import StoreReader
from regroup.protocol.errors import ErrorCode

Row = dict[str, Any]


def run_seed(seed: int, path: Path) -> Path:
    """Simulate the run that the seed draws, into a store with its recorded exchanges."""
    with contextlib.redirect_stdout(io.StringIO()):
        main(["chaos", "run", "--seed", str(seed), "--store", str(path)])
    return path


def facts_of_store(path: Path) -> list[Fact]:
    """The facts of all recorded exchanges of a store."""
    with StoreReader(path) as reader:
        _, last = reader.exchange_bounds()
        rows = pa.Table.from_batches(batches(recorded_rows(reader, path, 0, last)))
    in_order = rows.sort_by([(name, "ascending") for name in ("connection", "number", "block", "row")])
    with_store = in_order.append_column("store", pa.array([str(path)] * len(in_order)))
    return [fact for batch in facts_of_batches(with_store.to_batches()) for fact in batch.to_pylist()]


def events_of_store(path: Path) -> list[Row]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        rows = connection.execute('SELECT position, "group", at_ms, type, payload FROM events ORDER BY position')
        names = ("position", "group", "at_ms", "type", "payload")
        return [dict(zip(names, row, strict=True)) for row in rows]


def rows_in_order(path: Path, group: str) -> Iterator[Row]:
    """The events and requests of a group in the order in which the table `heartbeats` reads them."""
    rows, events = [], events_of_store(path)
    lost = [(row["at_ms"], error_after(row)) for row in events if row["group"] == group and row["type"] in LOST_APPENDS]
    for fact in facts_of_store(path):
        if fact["kind"] in ("heartbeat", "seen") and fact["group"] == group:
            error, ended_ms = fact["error"], fact["answered_ms"]
            has_waited = any(fact["at_ms"] <= at_ms <= ended_ms and error == each for at_ms, each in lost if ended_ms)
            is_accepted = error is None or error in SEEN_WITH[fact["api"]] or has_waited
            rows.append(fact | {"turn": BEFORE_EVENTS if is_accepted else AFTER_EVENTS, "position": 0})
    for event in events:
        if event["group"] == group and event["type"] in EVENT_TYPES:
            member_id = json.loads(event["payload"]).get("member_id")
            rows.append(event | {"turn": EVENTS, "kind": event["type"], "member_id": member_id})
    yield from sorted(rows, key=lambda row: (row["at_ms"], row["turn"], row["position"]))


def error_after(event: Row) -> str:
    """The error of the requests that waited for a record which this event says is lost."""
    code = json.loads(event["payload"]).get("error_code", ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return CLIENT_ERRORS.get(code, ErrorCode(code)).name
