"""Builds that continue the present version decode the exchanges of those stores alone that have changed."""

import contextlib
import os
import shutil
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from regroup.pipeline.bronze.ingest import ingest
from regroup.pipeline.bronze.ingested_exchanges import exchange_versions
from regroup.pipeline.bronze.store_progress import store_paths
from regroup.pipeline.gold.build import build_tables
from regroup.pipeline.gold.recorded import recorded_tables
from regroup.pipeline.gold.versions import current_version, read_table, tables_folder
from regroup.pipeline.locations.location import location_of
from tests.pipeline.gold.recorded.recorded_stores import run_seed

RECORDED = ("refused_requests", "heartbeats", "lag")


class Stores:
    """A folder of stores, and which of them were decoded in the last build."""

    def __init__(self, spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.spark, self.folder, self.out = spark, folder, folder / "out"
        self.decoded: set[str] = set()
        right = recorded_tables.write_facts

        def noted(exchanges: DataFrame, target: Any) -> None:
            self.decoded |= {Path(row.store).name for row in exchanges.select("store").distinct().collect()}
            right(exchanges, target)

        monkeypatch.setattr(recorded_tables, "write_facts", noted)

    def build(self, *, is_full: bool = False) -> set[str]:
        """Ingest all stores and build the tables; returns the names of the stores whose exchanges were decoded."""
        self.decoded.clear()
        ingest(self.spark, str(self.folder / "*.db"), self.out)
        build_tables(self.spark, self.out, is_full=is_full)
        return set(self.decoded)

    def rows(self) -> dict[str, Counter[str]]:
        tables = {name: read_table(self.spark, self.out, name).toArrow().to_pylist() for name in RECORDED}
        return {name: Counter(map(str, rows)) for name, rows in tables.items()}

    def files(self, table: str) -> set[int]:
        """The inodes of the files of a table."""
        version = current_version(self.out)
        assert version is not None
        return {
            each.stat().st_ino for each in Path(tables_folder(self.out).address, version.name, table).glob("part-*")
        }


@pytest.fixture
def stores(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stores:
    return Stores(spark, tmp_path, monkeypatch)


def with_fewer_exchanges(path: Path) -> None:
    """Take the newer half of a store's blocks of exchanges away."""
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        [(half,)] = connection.execute("SELECT (min(number) + max(number)) / 2 FROM exchanges")
        connection.execute("DELETE FROM exchanges WHERE number > ?", (half,))


def test_exchanges_of_new_and_of_changed_stores_alone_are_decoded(stores: Stores, tmp_path: Path) -> None:
    for name, seed in (("a.db", 32), ("b.db", 6)):
        run_seed(seed, tmp_path / name)
    shutil.copy(tmp_path / "b.db", tmp_path / "whole")
    with_fewer_exchanges(tmp_path / "b.db")
    assert stores.build() == {"a.db", "b.db"}
    first = stores.rows()

    assert stores.build() == set()
    assert stores.rows() == first

    os.replace(tmp_path / "whole", tmp_path / "b.db")
    run_seed(2, tmp_path / "c.db")
    assert stores.build() == {"b.db", "c.db"}
    continued = stores.rows()
    assert all(continued[name].total() > first[name].total() for name in RECORDED)

    assert stores.build(is_full=True) == {"a.db", "b.db", "c.db"}
    assert stores.rows() == continued


def test_without_anything_new_the_files_are_those_of_the_version_before(stores: Stores, tmp_path: Path) -> None:
    run_seed(32, tmp_path / "a.db")
    stores.build()
    files = {name: stores.files(name) for name in RECORDED}
    stores.build()
    assert {name: stores.files(name) for name in RECORDED} == files


def test_a_store_with_new_events_is_decoded_again(stores: Stores, tmp_path: Path) -> None:
    run_seed(32, tmp_path / "a.db")
    shutil.copy(tmp_path / "a.db", tmp_path / "whole")
    with contextlib.closing(sqlite3.connect(tmp_path / "a.db")) as connection, connection:
        [(last,)] = connection.execute("SELECT max(position) FROM events")
        connection.execute("DELETE FROM events WHERE position = ?", (last,))
    stores.build()
    os.replace(tmp_path / "whole", tmp_path / "a.db")
    assert stores.build() == {"a.db"}
    continued = stores.rows()
    stores.build(is_full=True)
    assert stores.rows() == continued


def test_exchanges_that_are_gone_leave_no_rows(stores: Stores, tmp_path: Path) -> None:
    for name, seed in (("a.db", 32), ("b.db", 6)):
        run_seed(seed, tmp_path / name)
    stores.build()
    [gone] = [name for name, path in store_paths(location_of(stores.out)).items() if path.endswith("b.db")]
    shutil.rmtree(stores.out / "exchanges" / f"store={gone}")
    build_tables(stores.spark, stores.out)
    present = {row.store for name in RECORDED for row in read_table(stores.spark, stores.out, name).collect()}
    assert {Path(each).name for each in present} == {"a.db"}


def test_the_version_of_a_stores_exchanges_changes_with_its_blocks(stores: Stores, tmp_path: Path) -> None:
    run_seed(6, tmp_path / "a.db")
    shutil.copy(tmp_path / "a.db", tmp_path / "whole")
    with_fewer_exchanges(tmp_path / "a.db")
    place = location_of(stores.out)
    ingest(stores.spark, str(tmp_path / "a.db"), stores.out)
    [(name, former)] = exchange_versions(place).items()
    assert exchange_versions(place) == {name: former}
    os.replace(tmp_path / "whole", tmp_path / "a.db")
    ingest(stores.spark, str(tmp_path / "a.db"), stores.out)
    assert exchange_versions(place).keys() == {name}
    assert exchange_versions(place)[name] != former
