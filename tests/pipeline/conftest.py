"""One Spark session on two cores for all tests that need one, and stores for it to read."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from regroup.cli.main import main
from regroup.pipeline.spark.session import default_settings, spark_session
from tests.pipeline.histories import crash_history, trim_store, write_store

SPARK_WARNINGS = (
    "ignore:unclosed:ResourceWarning",  # sockets of py4j, which closes them at the end of the process
    "ignore:subprocess .* is still running:ResourceWarning",  # the Java process
)


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests that use Spark in one process, with more time, and not among the quick ones: they start Java."""
    for item in items:
        if uses_spark(item):
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.xdist_group("spark"))
            item.add_marker(pytest.mark.timeout(300))
            for warning in SPARK_WARNINGS:
                item.add_marker(pytest.mark.filterwarnings(warning))


def uses_spark(item: pytest.Item) -> bool:
    return "spark" in getattr(item, "fixturenames", ())


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session of all tests. With several test processes only one of them starts it."""
    if request.config.getoption("loadgroup", default=False):
        assert all("@spark" in item.nodeid for item in request.session.items if uses_spark(item))
    warehouse = tmp_path_factory.mktemp("warehouse")
    options = default_settings("local[2]", quiet=True)["spark.driver.extraJavaOptions"]
    settings = {
        # Java's second compiler takes longer than what it speeds up in half a minute.
        "spark.driver.extraJavaOptions": f"{options} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(warehouse),
        # Compiling a small query takes longer than running it.
        "spark.sql.codegen.wholeStage": "false",
    }
    with spark_session("local[2]", settings=settings) as started:
        yield started


@pytest.fixture(scope="session")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two closed stores: crashes of eager members, and of cooperative members."""
    folder = tmp_path_factory.mktemp("stores")
    for seed, assignor in enumerate(("range", "cooperative-sticky")):
        write_store(folder / f"{assignor}.db", crash_history(assignor, seed))
    return folder


@pytest.fixture(scope="session")
def built_tables(spark: SparkSession, stores: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both stores, ingested and built into tables by the commands. One of them was trimmed before."""
    folder = tmp_path_factory.mktemp("built")
    shutil.copytree(stores, folder / "runs")
    trim_store(folder / "runs" / "range.db", before=30)
    assert main(["pipeline", "ingest", f"{folder}/runs/*.db", str(folder / "out")]) == 0
    assert main(["pipeline", "tables", str(folder / "out")]) == 0
    return folder
