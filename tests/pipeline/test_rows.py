"""Events read from stores: whole, damaged, foreign, live, trimmed, and on other machines."""

import asyncio
import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from regroup.pipeline.source.arrow_rows import StoreReader
from regroup.pipeline.source.data_source import Options, Split, read_split
from regroup.pipeline.source.pushdown import BadOption
from regroup.pipeline.source.stores import AnotherMachine, Skipped, check_place, files_of, look_at, look_at_all
from regroup.storage.errors import NotAStore, PositionTrimmed, StoreIsDamaged, StoreIsNewer
from regroup.storage.sqlite.inline import open_inline_store
from tests.pipeline.histories import crashes_of, new, spoil, trim_store, write_store


@pytest.fixture
def store(tmp_path: Path, stores: Path) -> Path:
    return Path(shutil.copy(stores / "range.db", tmp_path / "runs.db"))


def test_adbc_and_plain_sqlite3_read_the_same(store: Path) -> None:
    _, last = look_at(store)[1:3]
    tables = []
    for plainly in (False, True):
        with StoreReader(store, plainly=plainly) as reader:
            tables.append([row for batch in reader.events(0, last) for row in batch.to_pylist()])
    assert tables[0] == tables[1]
    assert [row["position"] for row in tables[0]] == list(range(1, last + 1))


def test_a_closed_store_is_read_without_a_trace(store: Path) -> None:
    before = sorted(path.name for path in store.parent.iterdir())
    with StoreReader(store) as reader:
        assert list(reader.events(0, reader.bounds()[1]))
    assert sorted(path.name for path in store.parent.iterdir()) == before


def test_a_live_store_is_read_up_to_its_last_commit(tmp_path: Path) -> None:
    records = crashes_of("range", 1)

    async def story() -> None:
        async with await open_inline_store(tmp_path / "live.db") as writer:
            await writer.append([new(each) for each in records[:20]])
            assert look_at(tmp_path / "live.db").last == 20
            with StoreReader(tmp_path / "live.db") as reader:
                assert sum(batch.num_rows for batch in reader.events(0, 20)) == 20
                await writer.append([new(each) for each in records[20:30]])
                assert reader.bounds() == (0, 30)

    asyncio.run(story())


def test_a_bad_store_fails_or_is_skipped_with_its_name(store: Path) -> None:
    damaged = Path(shutil.copy(store, store.with_name("damaged.db")))
    spoil(damaged)
    foreign = store.with_name("foreign.db")
    sqlite3.connect(foreign).execute("CREATE TABLE mine (x)").connection.close()
    newer = Path(shutil.copy(store, store.with_name("newer.db")))
    connection = sqlite3.connect(newer)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    seen = list(look_at_all(files_of(f"{store.parent}/*.db"), "skip"))
    assert {Path(each.path).name for each in seen if isinstance(each, Skipped)} == {
        "damaged.db",
        "foreign.db",
        "newer.db",
    }
    assert all(each.path in each.why for each in seen if isinstance(each, Skipped))
    for path, error in ((foreign, NotAStore), (newer, StoreIsNewer)):
        with pytest.raises(error, match=path.name):
            list(look_at_all([path], "fail"))
    with pytest.raises(StoreIsDamaged, match=r"damaged\.db"), StoreReader(damaged) as reader:
        list(reader.events(0, 10_000))


def test_no_match_is_said_and_files_beside_a_store_are_no_stores(store: Path) -> None:
    with pytest.raises(NotAStore, match="No file matches"):
        files_of(f"{store.parent}/*.sqlite")
    assert files_of(f"{store.parent}/*,{store}") == [store.resolve()]


def test_what_was_trimmed_is_not_missed_unnoticed(store: Path) -> None:
    trim_store(store, before=30)
    with StoreReader(store) as reader:
        assert reader.bounds()[0] == 29
        assert sum(batch.num_rows for batch in reader.events(29, 40)) == 11
        with pytest.raises(PositionTrimmed):
            list(reader.events(10, 40))


def test_a_live_file_of_another_machine_is_refused_and_a_closed_one_is_read(tmp_path: Path) -> None:
    path, records = tmp_path / "live.db", crashes_of("range", 1)[:5]

    async def story() -> None:
        async with await open_inline_store(path) as writer:
            await writer.append([new(each) for each in records])
            with pytest.raises(AnotherMachine, match="belongs to one machine"):
                list(read_split(Split(str(path), 0, 5, "elsewhere"), []))

    asyncio.run(story())
    check_place(path, "elsewhere")
    with pytest.raises(AnotherMachine, match="regroup pipeline ingest"):
        check_place(tmp_path / "none.db", "elsewhere")


def test_a_store_is_split_by_position_without_gap_or_overlap(stores: Path) -> None:
    options = Options({"path": str(stores / "range.db"), "rows_per_split": "7"})
    [seen] = options.stores()
    splits = list(options.splits(seen, 3, seen.last))
    assert splits[0].after == 3
    assert splits[-1].through == seen.last
    assert [each.through for each in splits[:-1]] == [each.after for each in splits[1:]]


def test_a_group_whose_name_is_no_text_is_damage(tmp_path: Path) -> None:
    write_store(tmp_path / "odd.db", crashes_of("range", 1)[:5])
    with sqlite3.connect(tmp_path / "odd.db") as connection:
        connection.execute("""UPDATE events SET "group" = X'ff00' WHERE position = 3""")
    connection.close()
    with pytest.raises(StoreIsDamaged, match="another kind of value"), StoreReader(tmp_path / "odd.db") as reader:
        list(reader.events(0, 5))


HURT = {
    "an event is missing": "DELETE FROM events WHERE position = 10",
    "a type is no text": "UPDATE events SET type = X'ff00' WHERE position = 10",
    "a time is no number": "UPDATE events SET at_ms = 'soon' WHERE position = 10",
}
"""Damage that no page shows, but only the rows."""


@pytest.mark.parametrize("statement", HURT.values(), ids=HURT)
def test_damage_that_only_shows_in_rows_is_seen_before_a_store_is_read(store: Path, statement: str) -> None:
    with sqlite3.connect(store) as connection:
        connection.execute(statement)
    connection.close()
    [seen] = look_at_all([store], "skip")
    assert isinstance(seen, Skipped)
    assert seen.why.startswith(f"{store} is damaged")


def test_what_sqlite_finds_is_told_on_one_line(store: Path) -> None:
    """It tells its findings on two: the database, and the page in it."""
    with store.open("r+b") as file:
        file.seek(4096)
        file.write(b"\x0d" + b"\xff" * 4095)
    [seen] = look_at_all([store], "skip")
    assert isinstance(seen, Skipped)
    assert "\n" not in seen.why
    assert seen.why.endswith("Restore it from a copy.")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("pushdwn", "true", "has no option pushdwn; there are group, type, after, until, on_error"),
        ("pushdown", "yes", "pushdown of the format regroup is true or false, not 'yes'"),
        ("on_error", "ignore", "on_error is one of fail, skip, not 'ignore'"),
        ("until", "-1", "until of the format regroup is a whole number, not '-1'"),
        ("paths", "a.db", "paths is a JSON list"),
    ],
)
def test_an_option_that_cannot_be_meant_is_refused(name: str, value: str, said: str) -> None:
    with pytest.raises(BadOption, match=said):
        Options({"path": "runs.db", name: value})


def test_several_paths_are_loaded_together(stores: Path) -> None:
    several = [str(stores / name) for name in ("range.db", "cooperative-sticky.db")]
    assert [seen.path for seen in Options({"paths": json.dumps(several)}).stores()] == several
    with pytest.raises(BadOption, match="needs a file or a pattern"):
        Options({"paths": "[]"})
