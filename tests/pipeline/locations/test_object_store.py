"""Stores, bronze, tables and the report of both in an object store: Moto's S3 server on loopback, with hadoop-aws.

Both are options: `pip install 'moto[server,s3]>=5.2.5'`, so that `moto_server` is on the path, and 686 MB of jars,

    mvn -q -B -f tests/pipeline/locations/pom.xml dependency:copy-dependencies -DoutputDirectory=FOLDER

whose folder is named by REGROUP_HADOOP_AWS_JARS, or is ~/.cache/regroup/hadoop-aws.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyarrow import fs

from tests.clients.emulator import eventually
from tests.pipeline.gold.recorded.recorded_stores import events_of_store, run_seed
from tests.pipeline.histories import crash_history, trim_store, write_store

JARS = Path(os.environ.get("REGROUP_HADOOP_AWS_JARS") or Path.home() / ".cache" / "regroup" / "hadoop-aws")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(
        shutil.which("moto_server") is None, reason="needs moto_server: pip install 'moto[server,s3]>=5.2.5'"
    ),
    pytest.mark.skipif(not any(JARS.glob("hadoop-aws-*.jar")), reason=f"needs the jars of hadoop-aws in {JARS}"),
]

# All commands in one session, since Spark takes a while to start.
PROGRAM = """
import json, sys
from regroup.cli.main import main
from regroup.pipeline.gold.versions import read_table
from regroup.pipeline.spark.session import spark_session

settings, commands = json.loads(sys.argv[1]), json.loads(sys.argv[2])
with spark_session("local[1]", settings=settings) as spark:
    codes = [main(words) for words in commands]
    names = ("groups", "ownership", "heartbeats")
    tables = {name: read_table(spark, "s3a://bucket/out", name).count() for name in names}
print(json.dumps([codes, tables]))
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def is_open(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """A server with an empty bucket."""
    chosen = free_port()
    # Not this process's PYTHONPATH: the server would import our folders in place of packages of its own.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [str(shutil.which("moto_server")), "-H", "127.0.0.1", "-p", str(chosen)]
    with (tmp_path / "moto.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    try:
        eventually(lambda: is_open(chosen), "the server", 60)
        bucket_of(chosen).create_dir("bucket")
        yield chosen
    finally:
        process.kill()
        process.wait()


def bucket_of(port: int) -> fs.S3FileSystem:
    return fs.S3FileSystem(
        access_key="any",
        secret_key="any",
        region="us-east-1",
        endpoint_override=f"127.0.0.1:{port}",
        scheme="http",
        allow_bucket_creation=True,
    )


def run_commands(port: int, folder: Path, *commands: list[str]) -> tuple[list[int], dict[str, int], str]:
    """Run commands in another process: their exit codes, the rows of some tables, and what they printed."""
    settings = {
        "spark.hadoop.fs.s3a.endpoint": f"http://127.0.0.1:{port}",
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
        "spark.hadoop.fs.s3a.access.key": "any",
        "spark.hadoop.fs.s3a.secret.key": "any",
        "spark.driver.extraClassPath": f"{JARS}/*",
    }
    words = [sys.executable, "-c", PROGRAM, json.dumps(settings), json.dumps(commands)]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    *printed, last = done.stdout.splitlines()
    codes, tables = json.loads(last)
    return codes, tables, "\n".join([*printed, done.stderr])


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
    codes, tables, printed = run_commands(
        port,
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
    assert tables["groups"] == 3
    assert tables["ownership"] > 0
    assert tables["heartbeats"] > 100
    files = {each.path for each in bucket.get_file_info(fs.FileSelector("bucket/out", recursive=True))}
    assert {"bucket/out/format", "bucket/out/tables/current.json", "bucket/out/report.html"} <= files
    assert not list(work.iterdir())


def upload(bucket: fs.S3FileSystem, file: Path, target: str) -> None:
    with bucket.open_output_stream(target) as stream:
        stream.write(file.read_bytes())
