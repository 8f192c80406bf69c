"""The stored format: what `format_2.db` and `format_3.db` hold is read as it was read when they were written.

They hold the same events. Version 3 has a table, and version 2 an index of SQLite, of the records of each group.

A change of the format is a decision. Raise `user_version` or the version of what has changed, write the store of the
new format with make_format.py, and say in docs/architecture.md what becomes of older stores.
"""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import get_args

import pytest

from regroup.coordinator.consumer.events import AnyConsumerEvent
from regroup.coordinator.consumer.migration.events import AnyMigrationEvent
from regroup.coordinator.serialization import (
    CAUSE_DECODER,
    ENCODER,
    EVENT_TYPE_NAMES,
    EVENT_TYPES,
    decode_event,
    decode_snapshot,
    encode_event,
    encode_snapshot,
)
from regroup.server.cluster.events import CLUSTER_EVENT_TYPES, decode_cluster_event, encode_cluster_event
from regroup.server.cluster.image import decode_cluster_snapshot, encode_cluster_snapshot
from regroup.storage.records import NewRecord, Record, Snapshot
from regroup.storage.sqlite.files import initialize_store
from regroup.storage.sqlite.inline import open_inline_store
from tests.cli.conftest import RunCommand
from tests.cli.store.make_format import make_store

STORE = Path(__file__).with_name("format_2.db")
NEW_STORE = Path(__file__).with_name("format_3.db")
LAST_POSITION = 73
OF_CONSUMER_GROUPS = {EVENT_TYPE_NAMES[each] for each in get_args(AnyConsumerEvent | AnyMigrationEvent)}
"""tests/coordinator/consumer/test_stored_form.py and migration/test_stored_form.py have their stored form."""
ADDED_LATER = {"generation-raised", "group-configured", *OF_CONSUMER_GROUPS}
"""Types of events that no coordinator wrote when the store was written."""


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    return Path(shutil.copy(STORE, tmp_path / "groups.db"))


def execute(store: Path, statement: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(store)) as connection, connection:
        return connection.execute(statement).fetchall()


async def read_store() -> tuple[list[Record], list[Snapshot]]:
    async with await open_inline_store(STORE, read_only=True) as store:
        records = [record async for record in store.read()]
        return records, [each for cut in await store.cuts() for each in (await store.load_snapshots(cut))[1]]


@pytest.mark.parametrize("store", [STORE, NEW_STORE], ids=lambda store: store.stem)
def test_events_shows_the_expected_lines(run_command: RunCommand, store: Path) -> None:
    result = run_command("events", store)
    assert result == (0, STORE.with_name("format_2_events.txt").read_text(encoding="utf-8"), "")


def test_replay_shows_the_expected_groups(run_command: RunCommand) -> None:
    result = run_command("replay", STORE)
    assert result == (0, STORE.with_name("format_2_replay.json").read_text(encoding="utf-8"), "")


def test_verify_finds_nothing_broken_and_changes_nothing(run_command: RunCommand) -> None:
    before = sorted(STORE.parent.iterdir()), STORE.read_bytes()
    code, out, _ = run_command("verify", STORE)
    expected = f"{LAST_POSITION} events, 4 groups: every invariant holds, and the snapshots equal the fold.\n"
    assert (code, out) == (0, expected)
    assert (sorted(STORE.parent.iterdir()), STORE.read_bytes()) == before


async def test_every_type_of_event_is_there() -> None:
    records, snapshots = await read_store()
    assert {record.type for record in records} == {*EVENT_TYPES, *CLUSTER_EVENT_TYPES} - ADDED_LATER
    assert {None, "payments", "stock", "audit", "slow"} == {snapshot.group for snapshot in snapshots}


async def test_events_and_causes_are_still_written_as_they_are_stored_there() -> None:
    for record in (await read_store())[0]:
        assert record.cause is not None
        cause = CAUSE_DECODER.decode(record.cause)
        if record.group is None:
            written = encode_cluster_event(
                decode_cluster_event(record),
                event_number=record.event_number,
                coordinator_epoch=record.coordinator_epoch,
                at_ms=record.at_ms,
                cause=cause,
            )
        else:
            written = encode_event(
                record.group,
                record.event_number,
                record.coordinator_epoch,
                decode_event(record),
                ENCODER.encode(cause),
            )
        assert written == NewRecord(*(getattr(record, name) for name in NewRecord.__struct_fields__))


async def test_snapshots_are_still_written_as_they_are_stored_there() -> None:
    for snapshot in (await read_store())[1]:
        if snapshot.group is None:
            written = encode_cluster_snapshot(
                decode_cluster_snapshot(snapshot),
                event_number=snapshot.event_number,
                position=snapshot.position,
                coordinator_epoch=snapshot.coordinator_epoch,
            )
        else:
            written = encode_snapshot(decode_snapshot(snapshot), snapshot.position, snapshot.coordinator_epoch)
        assert written == snapshot


@pytest.mark.parametrize("pragma", ["user_version", "application_id"])
def test_a_new_store_has_the_same_tables_and_the_same_version(tmp_path: Path, pragma: str) -> None:
    initialize_store(tmp_path / "new.db")
    for question in ("SELECT type, name, sql FROM sqlite_master ORDER BY name", f"PRAGMA {pragma}"):
        assert execute(tmp_path / "new.db", question) == execute(NEW_STORE, question)


async def test_a_store_of_version_2_is_continued_with_its_own_tables(copied: Path) -> None:
    tables = execute(copied, "SELECT name, sql FROM sqlite_master")
    async with await open_inline_store(copied) as store:
        group, head = next((group, head) for group, head in (await store.heads()).items() if group is not None)
        record = NewRecord(group, head.event_number + 1, head.coordinator_epoch, 0, "group-emptied", 2, b"{}", None)
        assert await store.append([record]) == LAST_POSITION + 1
        await store.checkpoint()
    async with await open_inline_store(copied, read_only=True) as store:
        numbers = [each.event_number async for each in store.read(group=group)]
        assert numbers == list(range(1, head.event_number + 2))
        assert (await store.heads())[group].position == LAST_POSITION + 1
    assert execute(copied, "SELECT name, sql FROM sqlite_master") == tables
    assert execute(copied, "PRAGMA user_version") == [(2,)]


def test_the_script_still_makes_such_a_store(tmp_path: Path, run_command: RunCommand) -> None:
    made = tmp_path / "made.db"
    make_store(made)
    assert run_command("verify", made).code == 0
    types, types_made = (
        execute(store, "SELECT DISTINCT type FROM events ORDER BY type") for store in (NEW_STORE, made)
    )
    assert types_made == types


@pytest.mark.parametrize(
    "words",
    [
        ["events", "{}"],
        ["events", "{}", "--follow"],
        ["replay", "{}"],
        ["verify", "{}"],
        ["trim", "{}", "--before", "3"],
        ["serve", "--store", "{}", "--port", "0"],
    ],
    ids=lambda words: " ".join(words[:2]).replace(" {}", ""),
)
def test_every_command_refuses_a_store_of_version_1_in_one_line(
    copied: Path, run_command: RunCommand, words: list[str]
) -> None:
    execute(copied, "PRAGMA user_version = 1")
    before = copied.read_bytes()
    code, out, err = run_command(*(word.format(copied) for word in words))
    assert (code, out) == (2, "")
    assert err == (
        f"regroup {words[0]}: {copied} is a store of version 1, and this program reads version 3: begin a new store in "
        "another file. The file was left unchanged.\n"
    )
    assert copied.read_bytes() == before


GROUP_EVENT, CLUSTER_EVENT = 73, 68


@pytest.mark.parametrize(
    ("words", "position", "change", "complaint"),
    [
        (["replay", "{}"], GROUP_EVENT, "version = 1", "rebalance-started/1"),
        (["replay", "{}"], GROUP_EVENT, "payload = json_set(payload, '$.later', 1)", "unknown field `later`"),
        (["serve", "--store", "{}"], GROUP_EVENT, "version = 1", "rebalance-started/1"),
        (["serve", "--store", "{}"], GROUP_EVENT, "payload = json_set(payload, '$.later', 1)", "unknown field `later`"),
        (["serve", "--store", "{}"], CLUSTER_EVENT, "version = 1", "topic-deleted/1"),
        (["serve", "--store", "{}"], CLUSTER_EVENT, "payload = json_set(payload, '$.later', 1)", "field `later`"),
    ],
)
def test_an_event_of_another_version_or_with_an_unknown_field_is_refused_in_one_line(
    copied: Path, run_command: RunCommand, words: list[str], position: int, change: str, complaint: str
) -> None:
    execute(copied, f"UPDATE events SET {change} WHERE position = {position}")
    for table, column in (("snapshots", "cut"), ("cuts", "position")):
        execute(copied, f"DELETE FROM {table} WHERE {column} = {LAST_POSITION}")
    code, out, err = run_command(*(word.format(copied) for word in words))
    assert (code, out) == (2, "")
    assert complaint in err
    assert len(err.splitlines()) == 1
