"""File systems on loopback for tests: Moto's S3 server, and HDFS by Hadoop's MiniDFSCluster."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyspark
import pytest
from pyarrow import fs

from tests.clients.emulator import eventually, free_port

HERE: Final = Path(__file__).parent
CACHE: Final = Path.home() / ".cache" / "regroup"
HADOOP_AWS_JARS: Final = Path(os.environ.get("REGROUP_HADOOP_AWS_JARS") or CACHE / "hadoop-aws")
SPARK_JARS: Final = Path(pyspark.__file__).parent / "jars"
MINICLUSTER: Final = "org.apache.hadoop:hadoop-client-minicluster:3.5.0"
"""The version is that of Spark's own Hadoop jars, on which it runs."""

START_TIMEOUT_S: Final = 300.0

needs_moto = pytest.mark.skipif(
    shutil.which("moto_server") is None, reason="needs moto_server: pip install 'moto[server,s3]>=5.2.5'"
)
needs_hadoop_aws = pytest.mark.skipif(
    not any(HADOOP_AWS_JARS.glob("hadoop-aws-*.jar")), reason=f"needs the jars of hadoop-aws in {HADOOP_AWS_JARS}"
)


@contextmanager
def moto_server(log: Path) -> Iterator[int]:
    """The port of an S3 server with an empty bucket, called `bucket`."""
    port = free_port()
    # Not this process's PYTHONPATH: the server would import our folders in place of packages of its own.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [str(shutil.which("moto_server")), "-H", "127.0.0.1", "-p", str(port)]
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
    try:
        eventually(lambda: b"Running on" in log.read_bytes(), "Moto's server", START_TIMEOUT_S)
        bucket_of(port).create_dir("bucket")
        require_uploads(port)
        yield port
    finally:
        process.kill()
        process.wait()


def require_uploads(port: int) -> None:
    """Skip the test if the server cannot complete an upload of Arrow's, as Moto 5.2.1 cannot."""
    bucket = bucket_of(port)
    try:
        with bucket.open_output_stream("bucket/first") as stream:
            stream.write(b"x")
    except OSError:
        pytest.skip("needs a newer moto_server than the one on the path: pip install 'moto[server,s3]>=5.2.5'")
    bucket.delete_file("bucket/first")


def bucket_of(port: int) -> fs.S3FileSystem:
    return fs.S3FileSystem(
        access_key="any",
        secret_key="any",
        region="us-east-1",
        endpoint_override=f"127.0.0.1:{port}",
        scheme="http",
        allow_bucket_creation=True,
    )


def upload(bucket: fs.S3FileSystem, file: Path, target: str) -> None:
    with bucket.open_output_stream(target) as stream:
        stream.write(file.read_bytes())


def object_store_settings(port: int) -> dict[str, str]:
    """Spark's settings for the server, with the jars of hadoop-aws for driver and executors."""
    return {
        "spark.hadoop.fs.s3a.endpoint": f"http://127.0.0.1:{port}",
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
        "spark.hadoop.fs.s3a.access.key": "any",
        "spark.hadoop.fs.s3a.secret.key": "any",
        "spark.driver.extraClassPath": f"{HADOOP_AWS_JARS}/*",
        "spark.executor.extraClassPath": f"{HADOOP_AWS_JARS}/*",
    }


def minicluster_jar() -> Path:
    """The jar with MiniDFSCluster, 56 MB, which Maven fetches once. Skips the test if it cannot be fetched."""
    _, artifact, version = MINICLUSTER.split(":")
    folder = CACHE / artifact
    jar = folder / f"{artifact}-{version}.jar"
    if not jar.exists():
        command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={MINICLUSTER}", f"-DoutputDirectory={folder}"]
        fetched = shutil.which("mvn") and subprocess.run(command, capture_output=True, check=False).returncode == 0
        if not fetched:
            pytest.skip(f"needs {MINICLUSTER}, which Maven cannot fetch")
    return jar


@contextmanager
def mini_hdfs(folder: Path, environment: Mapping[str, str] = os.environ) -> Iterator[list[str]]:
    """The addresses of HDFS with one data node, which keeps its files in the folder.

    They are those of its own protocol and of HTTP: `hdfs://localhost:40001`, `webhdfs://localhost:40002`.
    """
    folder.mkdir()
    command = ["java", "-cp", f"{minicluster_jar()}:{SPARK_JARS}/*", str(HERE / "MiniHdfs.java"), str(folder)]
    address, log = folder / "address", folder / "log"
    with address.open("w") as out, log.open("w") as err:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=err, env=environment)
    try:
        eventually(lambda: address.read_text().endswith("\n") or process.poll() is not None, "HDFS", START_TIMEOUT_S)
        assert process.poll() is None, log.read_text()
        yield address.read_text().split()
    finally:
        process.kill()
        process.communicate()
