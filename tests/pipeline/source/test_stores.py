"""Reading events from stores: closed, live, damaged, foreign and trimmed ones, and stores of other machines."""

import asyncio
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from regroup.pipeline.source.data_source import (
    InvalidOption,
    SourceOptions,
    StoreSplit,
    StoreStreamReader,
    read_split,
)
from regroup.pipeline.source.store_reader import AdbcConnection, ArrowConnection, Sqlite3Connection, StoreReader
from regroup.pipeline.source.stores import (
    SkippedStore,
    StoreOnOtherHost,
    check_host,
    find_stores,
    inspect_store,
    inspect_stores,
)
from regroup.storage.errors import NotAStore, PositionTrimmed, StoreDamaged, UnsupportedStoreVersion
from regroup.storage.sqlite.files import read_only_uri
from regroup.storage.sqlite.inline import open_inline_store
from tests.pipeline.histories import crash_history, overwrite_pages, trim_store, write_store


@pytest.fixture
def store(tmp_path: Path, stores: Path) -> Path:
    return Path(shutil.copy(stores / "range.db", tmp_path / "runs.db"))


def test_adbc_and_sqlite3_read_the_same(store: Path) -> None:
    _, last = inspect_store(store)[1:3]
    tables = []
    for without_adbc in (False, True):
        with StoreReader(store, without_adbc=without_adbc) as reader:
            tables.append([row for batch in reader.events(0, last) for row in batch.to_pylist()])
    assert tables[0] == tables[1]
    assert [row["position"] for row in tables[0]] == list(range(1, last + 1))


@pytest.mark.parametrize("kind", [Sqlite3Connection, AdbcConnection])
def test_a_connection_that_cannot_be_set_up_is_closed(
    store: Path, monkeypatch: pytest.MonkeyPatch, kind: type[ArrowConnection]
) -> None:
    opened, connect = [], sqlite3.connect

    def noted(*arguments: Any, **options: Any) -> sqlite3.Connection:
        opened.append(connect(*arguments, **options))
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", noted)
    uri, pragmas = read_only_uri(store)[0], ["PRAGMA no such pragma"]
    if kind is AdbcConnection:
        pragmas = []
        monkeypatch.setattr("adbc_driver_sqlite.dbapi.connect", None)
    with pytest.raises((sqlite3.OperationalError, TypeError)):
        kind(store, uri, pragmas)
    with pytest.raises(sqlite3.ProgrammingError, match="closed database"):
        opened[-1].execute("SELECT 1")


def test_reading_a_closed_store_leaves_no_files(store: Path) -> None:
    before = sorted(path.name for path in store.parent.iterdir())
    with StoreReader(store) as reader:
        assert list(reader.events(0, reader.bounds()[1]))
    assert sorted(path.name for path in store.parent.iterdir()) == before


def test_a_live_store_is_read_up_to_its_last_commit(tmp_path: Path) -> None:
    records = crash_history("range", 1)

    async def read_while_written() -> None:
        async with await open_inline_store(tmp_path / "live.db") as writer:
            await writer.append(records[:20])
            assert inspect_store(tmp_path / "live.db").last_position == 20
            with StoreReader(tmp_path / "live.db") as reader:
                assert sum(batch.num_rows for batch in reader.events(0, 20)) == 20
                await writer.append(records[20:30])
                assert reader.bounds() == (0, 30)

    asyncio.run(read_while_written())


def test_a_bad_store_is_an_error_or_skipped_with_its_name(store: Path) -> None:
    damaged = Path(shutil.copy(store, store.with_name("damaged.db")))
    overwrite_pages(damaged)
    foreign = store.with_name("foreign.db")
    sqlite3.connect(foreign).execute("CREATE TABLE mine (x)").connection.close()
    older, newer = (Path(shutil.copy(store, store.with_name(f"{name}.db"))) for name in ("older", "newer"))
    for path, version in ((older, 1), (newer, 99)):
        connection = sqlite3.connect(path)
        connection.execute(f"PRAGMA user_version = {version}")
        connection.close()
    inspected = inspect_stores(find_stores(f"{store.parent}/*.db"), "skip")
    skipped = [each for each in inspected if isinstance(each, SkippedStore)]
    assert {Path(each.path).name for each in skipped} == {"damaged.db", "foreign.db", "older.db", "newer.db"}
    assert all(each.path in each.reason for each in skipped)
    for path, error in ((foreign, NotAStore), (older, UnsupportedStoreVersion), (newer, UnsupportedStoreVersion)):
        with pytest.raises(error, match=path.name):
            list(inspect_stores([path], "fail"))
    with pytest.raises(StoreDamaged, match=r"damaged\.db"), StoreReader(damaged) as reader:
        list(reader.events(0, 10_000))


def test_a_pattern_without_match_is_an_error_and_the_files_beside_a_store_are_not_stores(store: Path) -> None:
    with pytest.raises(NotAStore, match="No file matches"):
        find_stores(f"{store.parent}/*.sqlite")
    assert find_stores(f"{store.parent}/*,{store}") == [store.resolve()]


def test_reading_trimmed_positions_is_an_error(store: Path) -> None:
    trim_store(store, before=30)
    with StoreReader(store) as reader:
        assert reader.bounds()[0] == 29
        assert sum(batch.num_rows for batch in reader.events(29, 40)) == 11
        with pytest.raises(PositionTrimmed):
            list(reader.events(10, 40))


def test_a_live_store_of_another_machine_is_refused_and_a_closed_one_is_read(tmp_path: Path) -> None:
    path, records = tmp_path / "live.db", crash_history("range", 1)[:5]

    async def read_while_written() -> None:
        async with await open_inline_store(path) as writer:
            await writer.append(records)
            with pytest.raises(StoreOnOtherHost, match="belongs to one machine"):
                list(read_split(StoreSplit(str(path), 0, 5, "other-host"), []))

    asyncio.run(read_while_written())
    check_host(path, "other-host")
    with pytest.raises(StoreOnOtherHost, match="regroup pipeline ingest"):
        check_host(tmp_path / "none.db", "other-host")


def test_a_store_is_split_by_position_without_gap_or_overlap(stores: Path) -> None:
    options = SourceOptions({"path": str(stores / "range.db"), "rows_per_split": "7"})
    [store] = options.stores()
    splits = list(options.splits(store, 3, store.last_position))
    assert splits[0].after == 3
    assert splits[-1].through == store.last_position
    assert [each.through for each in splits[:-1]] == [each.after for each in splits[1:]]


def test_a_group_id_that_is_not_text_is_damage(tmp_path: Path) -> None:
    write_store(tmp_path / "odd.db", crash_history("range", 1)[:5])
    with sqlite3.connect(tmp_path / "odd.db") as connection:
        connection.execute("""UPDATE events SET "group" = X'ff00' WHERE position = 3""")
    connection.close()
    with pytest.raises(StoreDamaged, match="another kind of value"), StoreReader(tmp_path / "odd.db") as reader:
        list(reader.events(0, 5))


DAMAGES = {
    "an event is missing": "DELETE FROM events WHERE position = 10",
    "a type is not text": "UPDATE events SET type = X'ff00' WHERE position = 10",
    "a time is not a number": "UPDATE events SET at_ms = 'soon' WHERE position = 10",
}
"""Damage that a check of the pages does not find."""


@pytest.mark.parametrize("statement", DAMAGES.values(), ids=DAMAGES)
def test_a_store_with_damaged_rows_is_skipped_before_it_is_read(store: Path, statement: str) -> None:
    with sqlite3.connect(store) as connection:
        connection.execute(statement)
    connection.close()
    [skipped] = inspect_stores([store], "skip")
    assert isinstance(skipped, SkippedStore)
    assert skipped.reason.startswith(f"{store} is damaged")


def test_the_findings_of_sqlite_are_one_line(store: Path) -> None:
    """SQLite returns two lines: the database, and the page in it."""
    with store.open("r+b") as file:
        file.seek(4096)
        file.write(b"\x0d" + b"\xff" * 4095)
    [skipped] = inspect_stores([store], "skip")
    assert isinstance(skipped, SkippedStore)
    assert "\n" not in skipped.reason
    assert skipped.reason.endswith("Restore it from a copy.")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("pushdwn", "true", "has no option pushdwn; there are group, type, after, until, on_error"),
        ("pushdown", "yes", "pushdown of the format regroup is false or true, not 'yes'"),
        ("on_error", "ignore", "on_error of the format regroup is fail or skip, not 'ignore'"),
        ("until", "-1", "until of the format regroup is a whole number, not '-1'"),
        pytest.param("until", "9" * 4_301, "until of the format regroup is a whole number, not '9999", id="too long"),
        ("paths", "a.db", "paths is a JSON list"),
    ],
)
def test_an_invalid_option_is_refused(name: str, value: str, message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        SourceOptions({"path": "runs.db", name: value})


def test_several_paths_are_loaded_together(stores: Path) -> None:
    several = [str(stores / name) for name in ("range.db", "cooperative-sticky.db")]
    assert [store.path for store in SourceOptions({"paths": json.dumps(several)}).stores()] == several
    with pytest.raises(InvalidOption, match="needs a file or a pattern"):
        SourceOptions({"paths": "[]"})


def test_a_position_that_leaps_is_damage_and_no_job_is_divided_by_it(store: Path) -> None:
    with closing(sqlite3.connect(store, isolation_level=None)) as connection:
        connection.execute(
            "UPDATE events SET position = position + (1 << 40) WHERE position = (SELECT max(position) FROM events)"
        )
    with pytest.raises(StoreDamaged, match="its positions go from 0 to"):
        inspect_store(store)


def test_a_new_stream_of_a_trimmed_store_reads_every_event_that_is_left_in_batches(store: Path) -> None:
    trim_store(store, before=30)
    reader, start, read = StoreStreamReader({"path": str(store), "rows_per_batch": "7"}), {}, []
    while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) != start:
        batch = [
            row for split in reader.partitions(start, end) for each in reader.read(split) for row in each.to_pylist()
        ]
        assert len(batch) <= 7
        read += [row["position"] for row in batch]
        start = end
    assert read == list(range(30, inspect_store(store).last_position + 1))
