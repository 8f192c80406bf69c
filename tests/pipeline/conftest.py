"""One Spark session for every test that needs one, on two cores; and histories for it."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from regroup.cli.main import main
from regroup.pipeline.spark.session import session
from tests.pipeline.histories import crashes_of, trim_store, write_store

FROM_SPARK = (
    "ignore:unclosed:ResourceWarning",  # py4j's sockets, which it leaves to the end of the process
    "ignore:subprocess .* is still running:ResourceWarning",  # the Java process
)


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests with Spark go to one process, and the first has to wait for Java."""
    for item in items:
        if is_with_spark(item):
            item.add_marker(pytest.mark.xdist_group("spark"))
            item.add_marker(pytest.mark.timeout(300))
            for warning in FROM_SPARK:
                item.add_marker(pytest.mark.filterwarnings(warning))


def is_with_spark(item: pytest.Item) -> bool:
    return "spark" in getattr(item, "fixturenames", ())


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Started once, in one process, however many share the tests."""
    if request.config.getoption("loadgroup", default=False):
        assert all("@spark" in item.nodeid for item in request.session.items if is_with_spark(item))
    warehouse = tmp_path_factory.mktemp("warehouse")
    small = {
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(warehouse),
        # Compiling each small query takes longer than the query.
        "spark.sql.codegen.wholeStage": "false",
    }
    with session("local[2]", settings=small) as started:
        yield started


@pytest.fixture(scope="session")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two closed stores: crashes among eager members, and among cooperative ones."""
    folder = tmp_path_factory.mktemp("stores")
    for seed, assignor in enumerate(("range", "cooperative-sticky")):
        write_store(folder / f"{assignor}.db", crashes_of(assignor, seed))
    return folder


@pytest.fixture(scope="session")
def built(spark: SparkSession, stores: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both stores taken in, one of them trimmed before, and every table, as a user makes them."""
    folder = tmp_path_factory.mktemp("built")
    shutil.copytree(stores, folder / "runs")
    trim_store(folder / "runs" / "range.db", before=30)
    assert main(["pipeline", "ingest", f"{folder}/runs/*.db", str(folder / "out")]) == 0
    assert main(["pipeline", "tables", str(folder / "out")]) == 0
    return folder
