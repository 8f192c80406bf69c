"""Stores, bronze, tables and the report of both in an object store: Moto's S3 server on loopback, with hadoop-aws.

Both are options: `pip install 'moto[server,s3]>=5.2.5'`, so that `moto_server` is on the path, and 686 MB of jars,

    mvn -q -B -f tests/pipeline/locations/pom.xml dependency:copy-dependencies -DoutputDirectory=FOLDER

whose folder is named by REGROUP_HADOOP_AWS_JARS, or is ~/.cache/regroup/hadoop-aws.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyarrow import fs

from tests.pipeline.gold.recorded.recorded_stores import events_of_store, run_seed
from tests.pipeline.histories import crash_history, trim_store, write_store
from tests.pipeline.locations.commands import run_commands
from tests.pipeline.locations.servers import (
    bucket_of,
    moto_server,
    needs_hadoop_aws,
    needs_moto,
    object_store_settings,
    upload,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200), needs_moto, needs_hadoop_aws]


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """A server with an empty bucket."""
    with moto_server(tmp_path / "moto.log") as started:
        yield started


def test_every_command_reads_and_writes_an_object_store(port: int, tmp_path: Path) -> None:
    bucket, records = bucket_of(port), crash_history("range", 1)
    work = tmp_path / "work"
    work.mkdir()
    for name in ("whole", "trimmed", "open"):
        write_store(tmp_path / f"{name}.db", records)
    trim_store(tmp_path / "trimmed.db", before=30)
    run_seed(5, tmp_path / "recorded.db")
    recorded = len(events_of_store(tmp_path / "recorded.db"))
    for name in ("whole.db", "trimmed.db", "open.db", "recorded.db"):
        upload(bucket, tmp_path / name, f"bucket/runs/{name}")
    (tmp_path / "open.db-wal").write_bytes(b"not empty")
    upload(bucket, tmp_path / "open.db-wal", "bucket/runs/open.db-wal")
    codes, printed = run_commands(
        object_store_settings(port),
        work,
        ["pipeline", "ingest", "s3a://bucket/runs/*.db", "s3a://bucket/out", "--on-error", "skip"],
        ["pipeline", "ingest", "s3a://bucket/runs/whole.db", "s3a://bucket/out"],
        ["pipeline", "tables", "s3a://bucket/out"],
        ["pipeline", "tables", "s3a://bucket/out"],
        ["pipeline", "clean", "s3a://bucket/out"],
        ["pipeline", "show", "s3a://bucket/out", "gaps"],
        ["report", "s3a://bucket/out"],
    )
    assert codes == [1, 0, 0, 0, 0, 0, 0], printed
    assert f"3 stores, {2 * len(records) - 29 + recorded} new events, 1 skipped" in printed
    assert "skipped: s3a://bucket/runs/open.db-wal exists: the store was copied before" in printed
    assert "1 store, 0 new events, 0 skipped" in printed
    assert "1 older version removed" in printed
    assert re.search(r"^ +3  groups$", printed, re.MULTILINE)
    assert re.search(r"^ +[1-9]\d*  ownership$", printed, re.MULTILINE)
    assert re.search(r"^ +[1-9]\d{2,}  heartbeats$", printed, re.MULTILINE)
    files = {each.path for each in bucket.get_file_info(fs.FileSelector("bucket/out", recursive=True))}
    assert {"bucket/out/format", "bucket/out/tables/current.json", "bucket/out/report.html"} <= files
    assert not list(work.iterdir())
